"""Exhaustive check of reservations whose items are put before the page (docs/decisions/2026-11-26-reservations-before-the-page.md).

World: one partition, CAP units of capacity, J jobs, D dispatchers. A dispatcher takes the lease, reads page and items, puts the item of
a reservation, commits a page that names it, and claims. Every interleaving of single item operations is explored, with: leases that are
lost at any moment, puts and commits that arrive late, again or never, answers that get lost, dispatchers that die, and others that
commit without the lease, but reserve nothing. Taking a lease fences the page in the same step: `commit_model.py` has what that takes. A
reservation is numbered by epoch and turn, so whoever tries again under its lease uses a number again.

Run: python3 reservation_model.py                 all states must hold the invariants
     python3 reservation_model.py --break NAME    removes one protection; a violation must be found
     python3 reservation_model.py --earlier       D1 is of an earlier version: its pages name nothing, its items count as they are
     python3 reservation_model.py --states N      only the N states, or a few more, that fewest steps lead to
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""
import sys
from collections import deque, namedtuple

J, D, CAP, MAX_EPOCH, MAX_TURN = 2, 2, 1, 2, 3
BREAKS = ("put-first", "put-if-absent", "void-by-turn", "missing-reads-again", "unknown-is-unknown", "commit-before-claim", "turn", "epoch", "no-names-count-all")
broken = sys.argv[sys.argv.index("--break") + 1] if "--break" in sys.argv else None
states_max = float(sys.argv[sys.argv.index("--states") + 1]) if "--states" in sys.argv else float("inf")
if broken and broken not in BREAKS:
    sys.exit(f"unknown protection {broken}: one of {', '.join(BREAKS)}")
earlier = "--earlier" in sys.argv or broken == "no-names-count-all"

# status: p(ending) c(laimed) r(unning) d(one). Every transition raises the version. claim: id of the row it was won for.
Job = namedtuple("Job", "status version claim")
Row = namedtuple("Row", "id job version follows")                 # follows: the turn of the page that it was put before; 0: written with its page
Page = namedtuple("Page", "turn epoch named")                     # named: ids; None: an earlier version wrote it
Commit = namedtuple("Commit", "follows epoch named deletes new")  # deletes, new: items that a transaction takes away, or writes
Disp = namedtuple("Disp", "phase epoch turn named rows cur drops leads")  # h(as good as new) b(items read) l(oaded) p(to commit) u(commit unanswered) c(to claim)
State = namedtuple("State", "page items jobs disps wire claims")  # wire: puts and commits that may still arrive
NOTHING = frozenset()
IDLE = Disp("h", 0, 0, NOTHING, NOTHING, None, NOTHING, False)

def put(t, i, v): return t[:i] + (v,) + t[i + 1:]
def step_job(s, j, **changes): return put(s.jobs, j, s.jobs[j]._replace(version=s.jobs[j].version + 1, **changes))
def counted(named, items): return frozenset(r for r in items if r.follows == 0 or (broken != "no-names-count-all" if named is None else r.id in named))
def is_earlier(d): return earlier and d == 1

def arrives(s, what):
    """A put, or a commit. None: its condition fails."""
    if isinstance(what, Row):
        if broken == "put-if-absent": return s._replace(items=frozenset(r for r in s.items if r.id != what.id) | {what})
        return None if any(r.id == what.id for r in s.items) else s._replace(items=s.items | {what})
    if s.page.turn != what.follows and broken != "turn": return None
    if s.page.epoch != what.epoch and broken != "epoch": return None
    if what.new is not None and any(r.id == what.new.id for r in s.items): return None
    if s.page.epoch != what.epoch: return "a superseded dispatcher's commit is applied"
    items = s.items - what.deletes | ({what.new} if what.new else NOTHING)
    return s._replace(page=Page(s.page.turn + 1, s.page.epoch, what.named), items=items)

def again(x): return IDLE._replace(epoch=x.epoch, leads=True) if x.leads else IDLE

def loaded(s, d, x, items):
    _turn, _epoch, named = s.page
    if not is_earlier(d) and named is not None and broken != "missing-reads-again" and named - {r.id for r in items}:
        return s._replace(disps=put(s.disps, d, again(x)))
    rows = items if is_earlier(d) else counted(named, items)
    return s._replace(disps=put(s.disps, d, Disp("l", x.epoch if x.leads else s.page.epoch, s.page.turn, named, rows, None, NOTHING, x.leads)))

def commit_of(d, x):
    rows = x.rows - x.drops
    if is_earlier(d): return Commit(x.turn, x.epoch, None, x.drops, x.cur)
    named = frozenset(r.id for r in rows if r.follows) | (frozenset({x.cur.id}) if x.cur else NOTHING)
    return Commit(x.turn, x.epoch, named, frozenset(r for r in x.drops if not r.follows), None)

def steps(s):
    for d, x in enumerate(s.disps):
        def disp(**changes): return put(s.disps, d, x._replace(**changes))
        begins = put(s.disps, d, again(x))
        if x != IDLE: yield f"D{d} dies", s._replace(disps=put(s.disps, d, IDLE))
        if x.phase == "h":
            if not x.leads and s.page.epoch < MAX_EPOCH:
                yield f"D{d} takes the lease of epoch {s.page.epoch + 1}", s._replace(page=s.page._replace(epoch=s.page.epoch + 1), disps=disp(epoch=s.page.epoch + 1, leads=True))
            if x.leads or s.page.epoch and not is_earlier(d):     # one read of both is no snapshot: the items may be older
                yield f"D{d} reads page and items at turn {s.page.turn}" + ("" if x.leads else ", without the lease"), loaded(s, d, x, s.items)
                yield f"D{d} reads the items", s._replace(disps=disp(phase="b", rows=s.items))
        elif x.phase == "b": yield f"D{d} reads the page at turn {s.page.turn}", loaded(s, d, x, x.rows)
        elif x.phase == "l":
            over = frozenset(r for r in x.rows if not (s.jobs[r.job].claim == r.id and s.jobs[r.job].status in "cr") and not (s.jobs[r.job].status == "p" and s.jobs[r.job].version == r.version))
            for r in x.rows - over:
                if s.jobs[r.job].status == "p": yield f"D{d} raises the version of J{r.job}", s._replace(jobs=step_job(s, r.job))
            for drops in {NOTHING, over}:
                settles = f"settles {sorted(r.id for r in drops)}" if drops else "charges keys, and settles nothing"
                yield f"D{d} {settles}", s._replace(disps=disp(phase="p", drops=drops))
                if len(x.rows - drops) >= CAP or not x.leads: continue
                for j, job in enumerate(s.jobs):
                    if job.status != "p": continue
                    r = Row(10 * x.epoch + x.turn, j, job.version, 0 if is_earlier(d) else x.turn)
                    planned = disp(phase="p", cur=r, drops=drops)
                    claims = s.claims | {r} if broken == "commit-before-claim" else s.claims
                    if is_earlier(d): yield f"D{d} plans J{j} as R{r.id}", s._replace(disps=planned)
                    else:
                        sent = s._replace(wire=s.wire | {r}, claims=claims)
                        after = sent if r in s.items else arrives(sent, r)  # what an earlier try has put is as good
                        yield f"D{d} puts R{r.id} for J{j}" + ("" if after else ": refused"), after._replace(disps=planned) if after else sent._replace(disps=begins)
                        yield f"D{d} sends the put of R{r.id} for J{j}, no answer", sent._replace(disps=planned if broken == "put-first" else begins)
            if not is_earlier(d) and x.named is not None:
                for r in s.items:
                    if r.follows and r.id not in x.named and (r.follows < x.turn or broken == "void-by-turn"):
                        yield f"D{d} deletes R{r.id}, which the page at turn {x.turn} does not name", s._replace(items=s.items - {r})
        elif x.phase in "pu":
            c = commit_of(d, x)
            if x.phase == "p" or s.page.turn == x.turn:
                after = arrives(s, c)
                if isinstance(after, str): yield f"D{d} commits", after
                elif after is None: yield f"D{d} commits: refused", s._replace(disps=begins)
                else: yield f"D{d} commits {f'R{x.cur.id} for J{x.cur.job}' if x.cur else 'nothing new'} at turn {x.turn}", after._replace(
                    wire=s.wire | {c}, disps=disp(phase="c") if x.cur else begins)
            if x.phase == "p": yield f"D{d} sends its commit at turn {x.turn}, no answer", s._replace(wire=s.wire | {c}, disps=disp(phase="u") if x.cur else begins)
            elif broken == "unknown-is-unknown": yield f"D{d} takes no answer for success", s._replace(disps=disp(phase="c"))
        elif x.phase == "c": yield f"D{d} sends the claim of J{x.cur.job} for R{x.cur.id}", s._replace(claims=s.claims | {x.cur}, disps=begins)
    for what in s.wire:
        kind = f"the put of R{what.id} for J{what.job}" if isinstance(what, Row) else f"a commit at turn {what.follows}"
        after = arrives(s, what)
        if after is not None: yield f"{kind} arrives", after
    for r in s.claims:
        job = s.jobs[r.job]
        won = job.status == "p" and job.version == r.version
        after = s._replace(jobs=step_job(s, r.job, status="c", claim=r.id)) if won else s
        yield f"the claim of J{r.job} for R{r.id} arrives: {'won' if won else 'lost'}", after._replace(claims=s.claims - {r})
    for j, job in enumerate(s.jobs):
        if job.status == "c": yield f"a worker starts J{j}", s._replace(jobs=step_job(s, j, status="r"))
        if job.status == "r": yield f"J{j} is done", s._replace(jobs=step_job(s, j, status="d"))

def useful(s):
    """Forgets what can never have an effect again: the same worlds, fewer states."""
    wire = frozenset(w for w in s.wire if isinstance(w, Row) or broken in ("turn", "epoch") or (w.follows == s.page.turn and w.epoch == s.page.epoch))
    claims = frozenset(r for r in s.claims if s.jobs[r.job].status == "p" and s.jobs[r.job].version == r.version)
    return s._replace(wire=wire, claims=claims)

def violation(s):
    active = [j for j, job in enumerate(s.jobs) if job.status in "cr"]
    if len(active) > CAP: return f"capacity {CAP} exceeded by jobs {active}"
    rows = counted(s.page.named, s.items)
    for j in active:
        if not any(r.id == s.jobs[j].claim and r.job == j for r in rows): return f"J{j} holds capacity that nobody counts"

start = State(Page(1, 0, NOTHING), NOTHING, (Job("p", 1, None),) * J, (IDLE,) * D, NOTHING, NOTHING)
seen, queue, found = {start: None}, deque([start]), None
while queue and not found and len(seen) < states_max:
    s = queue.popleft()
    for label, t in steps(s):
        if isinstance(t, str): why = t
        else:
            t = useful(t)
            if t in seen or t.page.turn > MAX_TURN or max(j.version for j in t.jobs) > 4: continue
            seen[t] = (s, label)
            queue.append(t)
            why = violation(t)
        if why: found = (s, label, why); break
print(f"{len(seen)} states", end="")
if found:
    s, label, why = found; trail = [label]
    while seen[s]: s, label = seen[s]; trail.append(label)
    print(f"; violation: {why}", *(f"{n:3}. {label}" for n, label in enumerate(reversed(trail), 1)), sep="\n")
else: print("; no violation")
sys.exit(0 if bool(found) == bool(broken) else 1)
