"""Exhaustive check of the conflict lock between partitions, on top of reserve-then-claim (cas_model.py).

World: two partitions, each with one dispatcher and one job; both jobs have one conflict key. Every interleaving of single
item operations is explored, with: claims that arrive late, twice or never, answers that get lost, dispatchers that die at
any step and start again from the items, cancels, failures that make a job pending again, and turns that nobody takes.

A claim is one transaction: the job is won at its version, and the lock is taken if it is free, or if it is this
partition's turn. Whoever settles an attempt gives the lock back before it drops the place that counts the attempt.

Run: python3 lock_model.py                   all states must hold the invariants
     python3 lock_model.py --break NAME      removes one protection; a violation must be found
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""
import sys
from collections import deque, namedtuple

P, MAX_ATTEMPT, MAX_RESERVATIONS, MAX_VERSION = 2, 2, 3, 7
BREAKS = ("claim-takes-lock", "release-by-claim", "release-after-end", "release-before-drop", "blocked-raises-version")
broken = sys.argv[sys.argv.index("--break") + 1] if "--break" in sys.argv else None
if broken and broken not in BREAKS:
    sys.exit(f"unknown protection {broken}: one of {', '.join(BREAKS)}")

# Partition n has job n. status: p(ending) c(laimed) r(unning) d(one) x (cancelled). claim: the reservation it was won for.
Job = namedtuple("Job", "status version attempt claim")
Res = namedtuple("Res", "id part version")
Disp = namedtuple("Disp", "todo blocked freed")           # reserved, not yet claimed; answered: blocked; lock given back, not yet dropped
State = namedtuple("State", "jobs res disps wire lock next_id")   # lock: None, ("held", reservation) or ("turn", partition)

IDLE = Disp(None, None, None)
def put(t, i, v): return t[:i] + (v,) + t[i + 1:]
def step_job(s, j, **changes): return put(s.jobs, j, s.jobs[j]._replace(version=s.jobs[j].version + 1, **changes))
def is_live(job, r): return job.claim == r.id and job.status in "cr"
def may_come(job, r): return job.status == "p" and job.version == r.version

def steps(s):
    for p, x in enumerate(s.disps):
        job = s.jobs[p]
        def disp(**changes): return put(s.disps, p, x._replace(**changes))
        if x != IDLE:
            yield f"P{p} dies", s._replace(disps=put(s.disps, p, IDLE))
        if x.todo is not None:
            yield f"P{p} sends the claim of J{p} for R{x.todo.id}", s._replace(wire=s.wire | {x.todo}, disps=disp(todo=None))
            continue
        own = [r for r in s.res if r.part == p]
        if job.status == "p" and not own and s.next_id <= MAX_RESERVATIONS:
            r = Res(s.next_id, p, job.version)
            yield f"P{p} reserves J{p} as R{r.id}", s._replace(res=s.res | {r}, next_id=s.next_id + 1, disps=disp(todo=r))
        for r in own:
            over = not is_live(job, r) and not may_come(job, r)
            if may_come(job, r):
                yield f"P{p} raises the version of J{p}", s._replace(jobs=step_job(s, p))
            if x.freed != r and (over or broken == "release-after-end"):
                mine = s.lock == ("held", r.id) or broken == "release-by-claim"
                for after in ((None, ("turn", 1 - p)) if mine else (s.lock,)):
                    what = "keeps the lock as it is" if not mine else "frees the lock" if after is None else f"leaves the lock to P{1 - p}"
                    yield f"P{p} settles R{r.id}: {what}", s._replace(lock=after, disps=disp(freed=r))
            if over and (x.freed == r or broken == "release-before-drop"):
                yield f"P{p} drops R{r.id}", s._replace(res=s.res - {r}, disps=disp(freed=None, blocked=None))
            if broken == "blocked-raises-version" and x.blocked == r and may_come(job, r):
                yield f"P{p} drops R{r.id}, which was blocked", s._replace(res=s.res - {r}, disps=disp(blocked=None))
    for r in s.wire:
        job, x = s.jobs[r.part], s.disps[r.part]
        free = s.lock is None or s.lock == ("turn", r.part) or broken == "claim-takes-lock"
        if not may_come(job, r): verdict, after = "lost", s
        elif not free: verdict, after = "blocked", s._replace(disps=put(s.disps, r.part, x._replace(blocked=r)) if x.todo is None else s.disps)
        else: verdict, after = "won", s._replace(jobs=step_job(s, r.part, status="c", claim=r.id), lock=("held", r.id))
        for again in (False, True):                                   # the answer gets lost: the same request is sent again
            yield f"claim of J{r.part} for R{r.id} arrives: {verdict}{', will come again' if again else ''}", after if again else after._replace(wire=s.wire - {r})
        yield f"claim of J{r.part} for R{r.id} never arrives", s._replace(wire=s.wire - {r})
    if s.lock is not None and s.lock[0] == "turn":
        yield f"P{s.lock[1]} does not take its turn", s._replace(lock=None)
    for j, job in enumerate(s.jobs):
        if job.status == "c":
            yield f"worker starts J{j}", s._replace(jobs=step_job(s, j, status="r"))
        if job.status == "r":
            yield f"J{j} is done", s._replace(jobs=step_job(s, j, status="d"))
            if job.attempt < MAX_ATTEMPT:
                yield f"J{j} fails and is pending again", s._replace(jobs=step_job(s, j, status="p", attempt=job.attempt + 1))
        if job.status in "pc":
            yield f"J{j} is cancelled", s._replace(jobs=step_job(s, j, status="x"))

def violation(s):
    active = [j for j, job in enumerate(s.jobs) if job.status in "cr"]
    if len(active) > 1: return f"jobs {active} of one conflict key run together"
    for j in active:
        if not any(r.id == s.jobs[j].claim for r in s.res): return f"J{j} holds capacity that nobody counts"
        if s.lock != ("held", s.jobs[j].claim): return f"J{j} runs without the lock"
    if s.lock is not None and s.lock[0] == "held" and not any(r.id == s.lock[1] for r in s.res):
        return f"the lock is held for R{s.lock[1]}, which nobody will settle"

start = State((Job("p", 0, 1, None),) * P, frozenset(), (IDLE,) * P, frozenset(), None, 1)
seen, queue, found = {start: None}, deque([start]), None
while queue and not found:
    s = queue.popleft()
    if why := violation(s): found = (s, why)
    else:
        for label, t in steps(s):
            if t not in seen and max(j.version for j in t.jobs) < MAX_VERSION: seen[t] = (s, label); queue.append(t)
print(f"{len(seen)} states", end="")
if found:
    s, why = found; trail = []
    while seen[s]: s, label = seen[s]; trail.append(label)
    print(f"; violation: {why}"); print("\n".join(f"  {i + 1}. {l}" for i, l in enumerate(reversed(trail))))
else: print("; no violation")
sys.exit(0 if bool(found) == bool(broken) else 1)
