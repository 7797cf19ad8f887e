"""Exhaustive check of slots that are taken over (docs/decisions/2026-11-27-slots-are-taken-over.md).

World: one partition, CAP slots, J jobs, D dispatchers. A dispatcher takes the lease, reads the page, commits a page, and sends messages. Where a
slot is free it reserves a row for a job that waits. Where none is, it may reserve a row that takes over the slot of another one: both hold that
slot together, until the other one's attempt is over and its row is dropped. The message of such a row says whose end its worker waits for. The
worker reads that job, as it was at any time, and starts its own once it has seen the other attempt to be over.

Every interleaving of single steps is explored, with dispatchers that freeze and go on with what they knew, or die, messages that arrive late,
twice or never, jobs that end, are cancelled, or lose their worker and wait again, and rows that are given up. What unanswered commits and claims
take is in `start_model.py`: a commit is one step here, a start claims, and nobody else does.

Run: python3 takeover_model.py                all states must hold the invariants
     python3 takeover_model.py --break NAME   removes one protection; a violation must be found
     python3 takeover_model.py --states N     only the N states, or a few more, that fewest steps lead to
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""
import gc
import sys
from collections import deque, namedtuple

J, D, CAP, MAX_EPOCH, MAX_TURN, MAX_VERSION = 3, 2, 1, 2, 4, 4
BREAKS = ("wait-for-end", "wait-for-the-claim", "tell-again-after-end", "once", "not-from-who-waits", "counts-once-left", "raise-before-drop",
          "turn")
broken = sys.argv[sys.argv.index("--break") + 1] if "--break" in sys.argv else None
states_max = float(sys.argv[sys.argv.index("--states") + 1]) if "--states" in sys.argv else float("inf")
if broken and broken not in BREAKS:
    sys.exit(f"unknown protection {broken}: one of {', '.join(BREAKS)}")

# status: p(ending) r(unning) e(nded for good). Every transition raises the version. claim: id of the row that it runs for.
Job = namedtuple("Job", "status version claim")
# takes: the row, without what that took itself, whose slot this one takes over.
Row = namedtuple("Row", "id job version takes")
Page = namedtuple("Page", "turn epoch rows")
Disp = namedtuple("Disp", "phase epoch turn rows cur leads")         # h(as good as new) l(oaded) p(to commit) s(to send)
Message = namedtuple("Message", "row waits")
State = namedtuple("State", "page jobs disps messages")               # messages: what may still arrive
NOTHING = frozenset()
ENDED = Job("e", 0, None)
IDLE = Disp("h", 0, 0, NOTHING, None, False)

def put(t, i, v): return t[:i] + (v,) + t[i + 1:]
def step_job(s, j, by=1, **changes): return put(s.jobs, j, s.jobs[j]._replace(version=s.jobs[j].version + by, **changes))
def may_come(job, r): return job.status == "p" and job.version == r.version
def runs(job, r): return job.status == "r" and job.claim == r.id
def name(r): return f"J{r.job} at version {r.version} as R{r.id}" + (f", after R{r.takes.id}" if r.takes else "")

def is_over(job, r):
    """Whether an attempt is over, or can never begin. It stays so, so whoever saw it at any time is right."""
    return not runs(job, r) and not may_come(job, r)

def is_seen_over(job, r):
    """What a worker takes for the end of the attempt that it waits for."""
    if broken == "wait-for-the-claim": return not runs(job, r)
    return is_over(job, r)

def waits(r, rows):
    """Whether a row holds no slot of its own: that of another row, which is in the page still."""
    if r.takes is None: return False
    return broken == "counts-once-left" or any(other.id == r.takes.id for other in rows)

def again(x): return IDLE._replace(epoch=x.epoch, leads=True)

def steps(s):
    for d, x in enumerate(s.disps):
        def disp(**changes): return put(s.disps, d, x._replace(**changes))
        if x != IDLE: yield f"D{d} dies", s._replace(disps=put(s.disps, d, IDLE))
        if x.phase == "h":
            if not x.leads and s.page.epoch < MAX_EPOCH:
                yield f"D{d} takes the lease of epoch {s.page.epoch + 1}", s._replace(page=s.page._replace(epoch=s.page.epoch + 1), disps=disp(epoch=s.page.epoch + 1, leads=True))
            if x.leads: yield f"D{d} reads the page at turn {s.page.turn}", s._replace(disps=disp(phase="l", turn=s.page.turn, rows=s.page.rows))
        elif x.phase == "l":
            for r in x.rows:                                              # at any time: what is sensible is another matter
                job = s.jobs[r.job]
                if not may_come(job, r): continue
                yield f"D{d} raises the version of J{r.job}", s._replace(jobs=step_job(s, r.job))
                is_left = not waits(r, x.rows) or is_over(s.jobs[r.takes.job], r.takes)
                if is_left or broken == "tell-again-after-end":
                    yield f"D{d} sends the message of {name(r)} again", s._replace(messages=s.messages | {Message(r, False)})
            gone = frozenset(r for r in x.rows if is_over(s.jobs[r.job], r) or broken == "raise-before-drop" and may_come(s.jobs[r.job], r))
            for drops in {NOTHING, gone}:
                left = x.rows - drops
                if drops: yield f"D{d} drops {sorted(r.id for r in drops)}", s._replace(disps=disp(phase="p", rows=left))
                taken = {r.takes.id for r in left if r.takes and broken != "once"}
                ends = {r for r in left if r.id not in taken and (broken == "not-from-who-waits" or not waits(r, left))}
                is_free = sum(not waits(r, left) for r in left) < CAP
                for j, job in enumerate(s.jobs):
                    if job.status != "p" or any(r.job == j and r.version == job.version for r in left): continue
                    for takes in {None} if is_free else ends:
                        r = Row(10 * x.epoch + x.turn, j, job.version, takes._replace(takes=None) if takes else None)
                        yield f"D{d} plans {name(r)}" + (f", drops {sorted(r.id for r in drops)}" if drops else ""), s._replace(disps=disp(phase="p", rows=left, cur=r))
        elif x.phase == "p":
            if s.page.turn == x.turn and s.page.epoch == x.epoch or broken == "turn":
                page = Page(s.page.turn + 1, s.page.epoch, x.rows | ({x.cur} if x.cur else NOTHING))
                yield f"D{d} commits", s._replace(page=page, disps=disp(phase="s", turn=0, rows=NOTHING) if x.cur else put(s.disps, d, again(x)))
            else: yield f"D{d} commits: refused", s._replace(disps=put(s.disps, d, again(x)))
        elif x.phase == "s":
            told = Message(x.cur, x.cur.takes is not None)
            yield f"D{d} sends the message of {name(x.cur)}", s._replace(messages=s.messages | {told}, disps=put(s.disps, d, again(x)))
    for m in s.messages:
        r, job = m.row, s.jobs[m.row.job]
        if not may_come(job, r): continue
        if m.waits and broken != "wait-for-end" and not is_seen_over(s.jobs[r.takes.job], r.takes): continue
        yield f"a worker starts {name(r)}", s._replace(jobs=step_job(s, r.job, 2, status="r", claim=r.id))
    for j, job in enumerate(s.jobs):
        if job.status == "r":
            yield f"J{j} is done", s._replace(jobs=step_job(s, j, status="e"))
            yield f"J{j} loses its worker and is pending again", s._replace(jobs=step_job(s, j, status="p", claim=None))
        if job.status == "p": yield f"J{j} is cancelled", s._replace(jobs=step_job(s, j, status="e"))

def useful(s):
    """Forgets what can never have an effect again: the same worlds, fewer states."""
    page, jobs, disps, messages = s
    jobs = tuple([ENDED if job.status == "e" else job for job in jobs])
    messages = frozenset([m for m in messages if may_come(jobs[m.row.job], m.row)])
    if broken != "turn": disps = tuple([useful_disp(s, x) for x in disps])
    return State(page, jobs, disps, messages)

def in_any_order(s):
    """Who of the dispatchers is who does not matter: worlds in which they have changed places are one."""
    return s._replace(disps=tuple(sorted(s.disps, key=rank, reverse=True)))

def rank(x):
    """By what they know, not by hashes, which differ from run to run: each run is to find the same violation first."""
    return x.phase, x.epoch, x.turn, x.leads, x.cur[:3] if x.cur else (), sorted([r[:3] for r in x.rows])

def useful_disp(s, x):
    """Whoever is superseded commits nothing any more; what it knows of jobs that may come still, it may act on."""
    is_late = x.epoch != s.page.epoch or x.turn != s.page.turn
    if x.phase == "l" and is_late and not any(may_come(s.jobs[r.job], r) for r in x.rows): return again(x)
    if x.phase == "p" and is_late: return again(x)
    if x.phase == "s" and not may_come(s.jobs[x.cur.job], x.cur): return again(x)
    return x

def violation(s):
    active = [j for j, job in enumerate(s.jobs) if job.status == "r"]
    if len(active) > CAP: return f"capacity {CAP} exceeded by jobs {active}"
    for j in active:
        if not any(r.id == s.jobs[j].claim and r.job == j for r in s.page.rows): return f"J{j} holds capacity that nobody counts"

gc.disable()  # states refer to no cycles, and looking for some among millions of them takes a sixth of the time
start = State(Page(1, 0, NOTHING), (Job("p", 1, None),) * J, (IDLE,) * D, NOTHING)
seen, queue, found = {start: None}, deque([start]), None
while queue and not found and len(seen) < states_max:
    s = queue.popleft()
    for label, t in steps(s):
        t = in_any_order(useful(t))
        if t in seen or t.page.turn > MAX_TURN or max(j.version for j in t.jobs) > MAX_VERSION: continue
        seen[t] = s
        queue.append(t)
        why = violation(t)
        if why: found = (s, why); break
print(f"{len(seen)} states", end="")
if found:
    s, why = found; states = []
    while seen[s]: states.append(s); s = seen[s]
    trail = []                                            # taken again, each dispatcher under its own name
    for then in reversed(states):
        label, s = next((label, useful(t)) for label, t in steps(s) if in_any_order(useful(t)) == then)
        trail.append(label)
    trail.append(next(label for label, t in steps(s) if violation(useful(t)) == why))
    print(f"; violation: {why}", *(f"{n:3}. {label}" for n, label in enumerate(trail, 1)), sep="\n")
else: print("; no violation")
sys.exit(0 if bool(found) == bool(broken) else 1)
