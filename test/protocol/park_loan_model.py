"""Exhaustive check of parking and of loans on top of the version as the only lock (cas_model.py).

park: one conflict key that one job may hold. Jobs wait in the ready line or in the key's blocked line. While the key is free, the jobs that
wait for it stand in the ready line (one of them: the first). Transactions and updates may be late, or never arrive; dispatchers die at any
step.
loan: partition 0 lends a unit to partition 1, which gives it back. Each has one unit of its own. Transactions may be late, or never arrive.
loan_model.py has loans that end.

Run: python3 park_loan_model.py --world park|loan    all states must hold the invariants
     python3 park_loan_model.py --break NAME         removes one rule; a violation must be found
     python3 park_loan_model.py --states N           only the N states, or a few more, that fewest steps lead to
     [--dispatchers D] [--versions V]
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""

import sys
from collections import deque, namedtuple
def arg(name, default): return sys.argv[sys.argv.index(name)+1] if name in sys.argv else default
BREAKS = {"park": ("park-fence", "park-turns", "move-before-commit"), "loan": ("lend-version", "return-version", "page-first", "lender-waits")}
broken = arg("--break", None)
world = arg("--world", next((w for w, all_ in BREAKS.items() if broken in all_), "park"))
if broken and broken not in BREAKS[world]:
    sys.exit(f"unknown rule {broken}: one of {', '.join(BREAKS[world])}")
D, MAX = int(arg("--dispatchers", 2)), int(arg("--versions", 6))
def put(t, i, v): return t[:i]+(v,)+t[i+1:]
# ------------------------------------------------------------------------------------------------ park
Job = namedtuple("Job", "status line version")            # w(aits) r(uns) e(nded)
Park = namedtuple("Park", "version holder jobs disps wire")
Disp = namedtuple("Disp", "phase version holder ready heads")
IDLE = Disp("h", 0, None, frozenset(), frozenset())
def park_steps(s):
    def seen(line): return frozenset((j, x.version) for j, x in enumerate(s.jobs) if x.status == "w" and x.line == line)
    for j, x in enumerate(s.jobs):
        if x.status == "r": yield f"J{j} ends", s._replace(jobs=put(s.jobs, j, Job("e", None, x.version+1)))
        if x.status == "w" and x.version == 0: yield f"J{j} is moved in time, and waits again in its ready line", s._replace(jobs=put(s.jobs, j, Job("w", "ready", 1)))
    for d, x in enumerate(s.disps):
        def to(**c): return put(s.disps, d, x._replace(**c))
        def home(): return put(s.disps, d, IDLE)
        if x != IDLE: yield f"D{d} dies", s._replace(disps=home())
        if x.phase == "h" and s.version < MAX: yield f"D{d} loads version {s.version}, and the ready line", s._replace(disps=to(phase="l", version=s.version, holder=s.holder, ready=seen("ready")))
        elif x.phase == "l":
            if x.holder is None:
                for j, v in x.ready:
                    if s.jobs[j] == Job("w", "ready", v) or s.jobs[j] == Job("w", "blocked", v):
                        ok = s.version == x.version
                        yield f"D{d} commits J{j} on version {x.version}: {'applied, it starts' if ok else 'refused'}", s._replace(version=s.version+1, holder=j, jobs=put(s.jobs, j, Job("r", None, v+1)), disps=home()) if ok else s._replace(disps=home())
            else:
                for j, v in x.ready:
                    if len(s.wire) < 2: yield f"D{d} sends the parking of J{j} on version {x.version}", s._replace(wire=s.wire | {("park", j, v, x.version)}, disps=home())
                if s.jobs[x.holder].status == "e": yield f"D{d} settles J{x.holder}, reads the blocked line: {sorted(seen('blocked'))}", s._replace(disps=to(phase="s", heads=seen("blocked")))
        elif x.phase == "s" and (not x.heads or broken == "move-before-commit"):
            ok = s.version == x.version
            yield f"D{d} commits on version {x.version} that the key is free: {'applied' if ok else 'refused'}", s._replace(version=s.version+1 if ok else s.version, holder=None if ok else s.holder, disps=to(phase="m") if ok and x.heads else home())
        elif x.phase in "sm":                             # first jobs are moved back before the settlement is written
            j, v = min(x.heads)
            rest = x.heads - {(j, v)}
            fits = s.jobs[j] == Job("w", "blocked", v)
            moved = put(s.jobs, j, Job("w", "ready", s.jobs[j].version)) if fits else s.jobs
            yield f"D{d} moves J{j} back", s._replace(jobs=moved, disps=home() if x.phase == "m" and not rest else to(heads=rest))
    for w in s.wire:
        _, j, v, follows = w
        fenced = s.version == follows or broken == "park-fence"
        ok = fenced and s.jobs[j] == Job("w", "ready", v)
        after = s._replace(wire=s.wire-{w})
        if ok: after = after._replace(jobs=put(s.jobs, j, Job("w", "blocked", v)), version=s.version + (broken not in ("park-turns", "park-fence")))
        yield f"the parking of J{j} on version {follows} arrives: {'applied' if ok else 'refused'}", after
        yield f"the parking of J{j} on version {follows} never arrives", s._replace(wire=s.wire-{w})
def park_bad(s):
    if sum(x.status == "r" for x in s.jobs) > 1: return "two hold the key"
    for j, x in enumerate(s.jobs):
        if x.status == "r" and s.holder != j: return f"J{j} runs, and the summary does not say so"
    if s.holder is None and any(x.line == "blocked" for x in s.jobs):
        if broken == "move-before-commit" and any(d.phase == "m" for d in s.disps): return None
        return "the key is free, and a job stands in its blocked line: nobody looks there"
# ------------------------------------------------------------------------------------------------ loan
Loan = namedtuple("Loan", "pages loans disps wire next")   # pages: (version, used); loans: ids
LD = namedtuple("LD", "phase at version used loans")
LIDLE = LD("h", 0, 0, 0, frozenset())
def loan_steps(s):
    for d, x in enumerate(s.disps):
        def to(**c): return put(s.disps, d, x._replace(**c))
        def home(): return put(s.disps, d, LIDLE)
        if x != LIDLE: yield f"D{d} dies", s._replace(disps=home())
        def page(p): return dict(at=p, version=s.pages[p][0], used=s.pages[p][1])
        if x.phase == "h":
            for p in (0, 1):
                if s.pages[p][0] >= MAX: continue
                if broken == "page-first": yield f"D{d} reads the loans of P{p}", s._replace(disps=to(phase="q", at=p, loans=s.loans))
                else: yield f"D{d} reads P{p} at version {s.pages[p][0]}", s._replace(disps=to(phase="r", **page(p)))
        elif x.phase == "q": yield f"D{d} reads P{x.at} at version {s.pages[x.at][0]}", s._replace(disps=to(phase="l", **page(x.at)))
        elif x.phase == "r": yield f"D{d} reads the loans of P{x.at}: {sorted(s.loans)}", s._replace(disps=to(phase="l", loans=s.loans))
        elif x.phase == "l" and len(s.wire) < 2:
            own = 1 + (len(x.loans) if x.at else -len(x.loans))
            def send(what, label): return f"D{d} sends: {label}, on version {x.version} of P{x.at}", s._replace(wire=s.wire | {(what, x.at, x.version, x.used, min(x.loans, default=None) if what == "return" else s.next if what == "lend" else None)}, disps=home(), next=s.next + (what == "lend"))
            if x.used < own: yield send("admit", f"one more runs in P{x.at}")
            if x.used: yield send("settle", f"one less runs in P{x.at}")
            if x.at == 0 and x.used < own and s.next < 3: yield send("lend", "a loan to P1")
            if x.at == 1 and x.loans and x.used < own: yield send("return", f"loan {min(x.loans)} is given back")
            if broken == "lender-waits" and x.at == 0 and x.loans: yield f"D{d} takes the loan {min(x.loans)} back, as its time is over", s._replace(loans=s.loans-{min(x.loans)}, pages=put(s.pages, 0, (s.pages[0][0]+1, s.pages[0][1])), disps=home())
    for w in s.wire:
        what, p, follows, used, loan = w
        version, now = s.pages[p]
        ok = version == follows or broken == "lend-version" and what == "lend" or broken == "return-version" and what == "return"
        after = s
        if ok:
            used = {"admit": used+1, "settle": used-1}.get(what, now)
            after = s._replace(pages=put(s.pages, p, (version+1, used)))
            if what == "lend": after = after._replace(loans=after.loans | {loan})
            if what == "return": after = after._replace(loans=after.loans - {loan})
        yield f"'{what}' on version {follows} of P{p} arrives: {'applied' if ok else 'refused'}", after._replace(wire=s.wire-{w})
        yield f"'{what}' on version {follows} of P{p} never arrives", s._replace(wire=s.wire-{w})
def loan_bad(s):
    (_, a), (_, b) = s.pages
    if a > 1 - len(s.loans): return f"P0 runs {a}, and has lent {len(s.loans)} of 1"
    if b > 1 + len(s.loans): return f"P1 runs {b}, and has 1 and {len(s.loans)} borrowed"
if world == "park": start, steps, bad = Park(0, 0, (Job("r", None, 1), Job("w", "ready", 0), Job("w", "ready", 1)), (IDLE,)*D, frozenset()), park_steps, park_bad
else: start, steps, bad = Loan(((0, 0), (0, 0)), frozenset(), (LIDLE,)*D, frozenset(), 1), loan_steps, loan_bad
limit = int(arg("--states", 10**9))
seen, queue, found = {start: None}, deque([start]), None
while queue and not found and len(seen) < limit:
    s = queue.popleft()
    if why := bad(s): found = (s, why); break
    for label, t in steps(s):
        if t not in seen: seen[t] = (s, label); queue.append(t)
print(f"{len(seen)} states", end="")
if found:
    s, why = found; trail = []
    while seen[s]: s, label = seen[s]; trail.append(label)
    print(f"; violation: {why}"); print("\n".join(f"  {i + 1}. {l}" for i, l in enumerate(reversed(trail))))
else: print("; no violation")
sys.exit(0 if bool(found) == bool(broken) else 1)
