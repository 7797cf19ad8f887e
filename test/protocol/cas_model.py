"""Exhaustive check of the one lock that there is: the version of the partition summary (a page here).

World: one partition, CAP units of capacity, J jobs, D dispatchers. Any dispatcher may load and commit at any time. A commit is on condition
of the version that it loaded. A reservation has an item of its own that is put before the page, where there is none, and counts only if the
page names it. Starts claim by the planned version. An item that the page does not name is tidied by a process that may be late: the delete may
arrive at any later time, and any number of times. Every interleaving is explored, with: puts, commits and deletes that arrive late, twice or
never, answers that get lost, and dispatchers that die.

Run: python3 cas_model.py                   all states must hold the invariants
     python3 cas_model.py --break NAME      removes one rule; a violation must be found
     python3 cas_model.py --states N        only the N states, or a few more, that fewest steps lead to
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""

import sys
from collections import deque, namedtuple
J, D, CAP, MAX_COMMITS, MAX_VERSION = 2, 2, 1, 3, 5
BREAKS = ("tidy-by-version", "turn", "item-first", "send-after-commit", "unknown-is-unknown", "raise-before-drop", "start-by-version", "own-name", "read-again")
broken = sys.argv[sys.argv.index("--break")+1] if "--break" in sys.argv else None
if broken and broken not in BREAKS:
    sys.exit(f"unknown rule {broken}: one of {', '.join(BREAKS)}")
Job = namedtuple("Job", "status version claim")        # p r e
Row = namedtuple("Row", "id job version follows")
Page = namedtuple("Page", "turn names by")             # names: ids of rows that count
Commit = namedtuple("Commit", "id follows names new")  # new: row or None
Disp = namedtuple("Disp", "phase turn rows commit")    # h(ome) r(ead page, not yet items) l(oaded) i(tem put) u(nanswered) s(end)
State = namedtuple("State", "page items jobs disps puts commits messages next deletes")
IDLE = Disp("h", 0, frozenset(), None)
def put(t, i, v): return t[:i]+(v,)+t[i+1:]
def step(s, j, by=1, **c): return put(s.jobs, j, s.jobs[j]._replace(version=s.jobs[j].version+by, **c))
def steps(s):
    for d, x in enumerate(s.disps):
        def to(**c): return put(s.disps, d, x._replace(**c))
        if x != IDLE: yield f"D{d} dies", s._replace(disps=put(s.disps, d, IDLE))
        if x.phase == "h":
            yield f"D{d} reads the page at turn {s.page.turn}", s._replace(disps=put(s.disps, d, Disp("r", s.page.turn, s.page.names, None)))
        elif x.phase == "r":                           # items are read later than the page
            there = frozenset(i for i in s.items if i.id in x.rows)
            if len(there) < len(x.rows) and broken != "read-again": yield f"D{d} misses an item, reads again", s._replace(disps=put(s.disps, d, IDLE))
            else: yield f"D{d} reads items", s._replace(disps=to(phase="l", rows=there))
        elif x.phase == "l":
            if s.next <= MAX_COMMITS:
                for j, job in enumerate(s.jobs):
                    if job.status == "p" and len(x.rows) < CAP and not any(r.job == j for r in x.rows):
                        r = Row(s.next if broken != "own-name" else x.turn + 100, j, job.version, x.turn)
                        c = Commit(s.next, x.turn, frozenset(q.id for q in x.rows) | {r.id}, r)
                        n = s._replace(next=s.next+1, puts=s.puts | {r})
                        if broken == "item-first": n = n._replace(commits=n.commits | {c}, disps=to(phase="u", commit=c))
                        else: n = n._replace(disps=to(phase="i", commit=c))
                        if broken == "send-after-commit": n = n._replace(messages=n.messages | {r})
                        yield f"D{d} sends the item of R{r.id} for J{j}", n
                for r in x.rows:
                    job = s.jobs[r.job]
                    over = not (job.status == "r" and job.claim == r.id) and (not (job.status == "p" and job.version == r.version) or broken == "raise-before-drop")
                    if over:
                        c = Commit(s.next, x.turn, frozenset(q.id for q in x.rows if q != r), None)
                        yield f"D{d} sends commit {c.id}: drops R{r.id}", s._replace(next=s.next+1, commits=s.commits | {c}, disps=to(phase="u", commit=c))
            for r in x.rows:
                job = s.jobs[r.job]
                if job.status == "p" and job.version == r.version:
                    yield f"D{d} raises the version of J{r.job}", s._replace(jobs=step(s, r.job))
                    yield f"D{d} tells of R{r.id} again", s._replace(messages=s.messages | {r})
        elif x.phase == "i":
            if x.commit.new in s.items: yield f"D{d} hears the item is there, sends commit {x.commit.id}", s._replace(commits=s.commits | {x.commit}, disps=to(phase="u"))
        elif x.phase == "u":
            if s.page.by == x.commit.id or broken == "unknown-is-unknown":
                yield f"D{d} hears commit {x.commit.id} is applied", s._replace(disps=to(phase="s") if x.commit.new else put(s.disps, d, IDLE))
        elif x.phase == "s":
            yield f"D{d} tells of R{x.commit.new.id}", s._replace(messages=s.messages | {x.commit.new}, disps=put(s.disps, d, IDLE))
    for r in s.puts:
        taken = any(i.id == r.id for i in s.items)
        after = s if taken else s._replace(items=s.items | {r})
        yield f"item of R{r.id} arrives", after._replace(puts=s.puts-{r})
        yield f"item of R{r.id} arrives, will come again", after
        yield f"item of R{r.id} never arrives", s._replace(puts=s.puts-{r})
    for c in s.commits:
        ok = s.page.turn == c.follows or broken == "turn"
        after = s._replace(page=Page(s.page.turn+1, c.names, c.id)) if ok else s
        yield f"commit {c.id} arrives {ok}", after._replace(commits=s.commits-{c})
        if ok: yield f"commit {c.id} arrives, will come again", after
        yield f"commit {c.id} never arrives", s._replace(commits=s.commits-{c})
    for d, x in enumerate(s.disps):                    # it sees items that its page does not name
        if x.phase == "l" and len(s.deletes) < 1:
            for i in s.items:
                if all(r.id != i.id for r in x.rows) and (i.follows < x.turn or broken == "tidy-by-version"):
                    yield f"D{d}, which loaded turn {x.turn}, sends a delete of the item R{i.id}", s._replace(deletes=s.deletes | {i.id})
    for i in s.deletes:
        gone = frozenset(r for r in s.items if r.id != i)
        yield f"the delete of R{i} arrives", s._replace(deletes=s.deletes-{i}, items=gone)
        if gone != s.items: yield f"the delete of R{i} arrives, will come again", s._replace(items=gone)
    for r in s.messages:
        job = s.jobs[r.job]
        if job.status == "p" and (job.version == r.version or broken == "start-by-version"):
            yield f"J{r.job} starts for R{r.id}", s._replace(jobs=step(s, r.job, 2, status="r", claim=r.id))
    for j, job in enumerate(s.jobs):
        if job.status == "r":
            yield f"J{j} ends", s._replace(jobs=step(s, j, status="e", claim=None))
            yield f"J{j} waits again", s._replace(jobs=step(s, j, status="p", claim=None))
def bad(s):
    run = [j for j, job in enumerate(s.jobs) if job.status == "r"]
    if len(run) > CAP: return f"cap exceeded by {run}"
    for j in run:
        if s.jobs[j].claim not in s.page.names: return f"J{j} runs uncounted"
        if not any(i.id == s.jobs[j].claim and i.job == j for i in s.items): return f"J{j} runs for an item that is not its own"
start = State(Page(0, frozenset(), 0), frozenset(), (Job("p", 0, None),)*J, (IDLE,)*D, frozenset(), frozenset(), frozenset(), 1, frozenset())
limit = int(sys.argv[sys.argv.index("--states")+1]) if "--states" in sys.argv else 10**9
seen, queue, found = {start: None}, deque([start]), None
while queue and not found and len(seen) < limit:
    s = queue.popleft()
    if why := bad(s): found = (s, why); break
    for label, t in steps(s):
        if t not in seen and max(j.version for j in t.jobs) < MAX_VERSION: seen[t] = (s, label); queue.append(t)
print(f"{len(seen)} states", end="")
if found:
    s, why = found; trail = []
    while seen[s]: s, label = seen[s]; trail.append(label)
    print(f"; violation: {why}"); print("\n".join(f"  {i + 1}. {l}" for i, l in enumerate(reversed(trail))))
else: print("; no violation")
sys.exit(0 if bool(found) == bool(broken) else 1)
