"""Exhaustive check of jobs that move between partitions when their number changes, on top of commits by version (cas_model.py).

World: a key lived in P0, and by a new declaration it lives in P1. One job of it waits in P0, another one was submitted to P1, on demand,
so in another line, and one job of the key may run at a time. P0 has two dispatchers: D0 knows the former declaration, until it loads a note
that P0 has come to the new one; D1 knows the new one. P1 has one dispatcher, of the new one. A commit of P0 is on condition of the version
that its dispatcher loaded, or has made since. Every interleaving of single item operations is explored, with: starts, notes, moves
(`rehome`), parking and moves to another time that arrive late, twice or never, dispatchers that die or load again at any moment, reads that
are not one moment, cancels, and failures that are tried again later.

By the former declaration, a job in P0 is planned and parked; by the new one it is only moved to P1: once P0 has noted, by a commit, that it
has come; to a line that was announced there before, by one write on what was read, while no place of an earlier attempt counts it. That
none does, what was loaded shows, and a commit that writes nothing proves that it is still all after the job was read. P1 starts nothing before
the note, and it counts what a read showed of P0 that began after the note was seen.

Run: python3 rehome_model.py                   all states must hold the invariants
     python3 rehome_model.py --break NAME      removes one protection; a violation must be found
     python3 rehome_model.py --states N        only the N states, or a few more, that fewest steps lead to
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""
import sys
from collections import deque, namedtuple

MAX_TURN, MAX_ATTEMPT, MAX_RESERVATIONS, MAX_WIRE, MAX_VERSION = 3, 2, 2, 2, (5, 3)
CAP = 1
states_max = float(sys.argv[sys.argv.index("--states") + 1]) if "--states" in sys.argv else float("inf")
BREAKS = ("move-as-read", "move-raises-version", "move-what-is-settled", "announce-before-move", "park-as-read",
          "retime-by-version", "reserve-by-version", "start-after-come", "read-after-come", "count-elsewhere")
broken = sys.argv[sys.argv.index("--break") + 1] if "--break" in sys.argv else None
if broken and broken not in BREAKS:
    sys.exit(f"unknown protection {broken}: one of {', '.join(BREAKS)}")

# status: s(cheduled) p(ending) r(unning) d(one) x (cancelled). part: where its key's jobs are looked for. line: the kind and the partition
# of the line it stands in. due: its time has come. claim: of its last attempt, until the next one. owed: attempts to charge.
Job = namedtuple("Job", "status version part line due attempt claim owed")
Res = namedtuple("Res", "id part job version")
Disp = namedtuple("Disp", "turn known todo")                  # of P0. turn: the version that it commits on. todo: reserved, not yet sent
Far = namedtuple("Far", "todo noted reading seen")            # of P1. seen: how much it knows to be in flight in P0; None: nothing it may believe
State = namedtuple("State", "turn come jobs res disps far wire announced next_id")
# turn: the version of P0's summary. wire: ("start", place), ("move" or "retime", job, version, ...), ("park", job, version, turn), ("come", turn).
# announced: the line of J0 in P1.

AWAY, GONE = Disp(0, None, None), Far(None, False, None, None)
def put(t, i, v): return t[:i] + (v,) + t[i + 1:]
def step_job(s, j, **changes): return put(s.jobs, j, s.jobs[j]._replace(version=s.jobs[j].version + 1, **changes))
def may_come(job, r): return job.status == "p" and job.version == r.version
def is_ready(job): return job.status == "p" or job.status == "s" and job.due

def settling(s, r):
    """What a dispatcher does about a place: gives it up, or charges its attempt and drops it."""
    job = s.jobs[r.job]
    if may_come(job, r):
        yield f"raises the version of J{r.job}", s._replace(jobs=step_job(s, r.job)), False
    elif not (job.claim == r.id and job.status == "r"):
        # Only an attempt whose claim is there is known to have run.
        charged = job._replace(owed=job.owed - {r.id}) if job.claim == r.id else job
        yield f"drops R{r.id}", s._replace(res=s.res - {r}, jobs=put(s.jobs, r.job, charged)), True

def of_former_home(s, d):
    x, is_new = s.disps[d], d == 1
    own = frozenset(r for r in s.res if r.part == 0)
    def after(t, **changes): return t._replace(disps=put(t.disps, d, x._replace(**changes)))
    def committed(t, **changes): return after(t._replace(turn=s.turn + 1), turn=x.turn + 1, **changes)
    def sent(*what): return s.wire | {what} if len(s.wire) < MAX_WIRE else None
    # It leaves the rest to D1.
    is_outdated = s.come > 0 and not is_new
    # Also one that has died, whose commit was refused, or that has heard nothing of its commit.
    yield "loads", s._replace(disps=put(s.disps, d, AWAY if is_outdated else Disp(s.turn, own, None)))
    if x.known is None: return
    if x.todo is not None:
        if wire := sent("start", x.todo): yield f"tells a worker of R{x.todo.id}", after(s._replace(wire=wire), todo=None)
        return
    may_commit = x.turn == s.turn and s.turn < MAX_TURN
    for r in x.known & own:
        for what, t, commits in settling(s, r):
            if not commits: yield what, t
            elif may_commit: yield what, committed(t, known=x.known - {r})
    if is_new and not s.come and (wire := sent("come", x.turn)):
        yield "sends that P0 has come", s._replace(wire=wire, disps=put(s.disps, d, AWAY))
    for j, job in enumerate(s.jobs):
        if job.part != 0: continue
        counted = any(r.job == j for r in x.known)
        if not is_new:
            is_in_turn = may_commit or broken == "reserve-by-version"
            if job.status == "p" and job.line == ("ready", 0) and is_in_turn and not counted and len(x.known) < CAP and s.next_id <= MAX_RESERVATIONS:
                r = Res(s.next_id, 0, j, job.version)
                yield f"reserves J{j} as R{r.id}", committed(s._replace(res=s.res | {r}, next_id=s.next_id + 1), known=x.known | {r}, todo=r)
            if job.status == "p" and job.line == ("ready", 0) and (wire := sent("park", j, job.version, x.turn)):
                yield f"sends that J{j} is parked", s._replace(wire=wire, disps=put(s.disps, d, AWAY))
            if job.status == "s" and job.due:
                yield f"promotes J{j}", s._replace(jobs=step_job(s, j, status="p", line=("ready", 0)))
        elif is_ready(job) and (not counted or broken == "move-what-is-settled") and s.come:
            # It commits nothing after it has read the job: what it loaded is still all that is in flight.
            if not s.announced and broken != "announce-before-move": yield "announces the line in P1", s._replace(announced=True)
            elif may_commit and (wire := sent("move", j, job.version)):
                yield f"reads J{j}, commits, and sends that it moves", committed(s._replace(wire=wire))

def of_new_home(s):
    x = s.far
    def far(**changes): return x._replace(**changes)
    own = frozenset(r for r in s.res if r.part == 1)
    if x.todo is not None:
        yield "dies", s._replace(far=GONE)
        if len(s.wire) < MAX_WIRE: yield f"tells a worker of R{x.todo.id}", s._replace(wire=s.wire | {("start", x.todo)}, far=far(todo=None))
        return
    for r in own:
        for what, t, _ in settling(s, r): yield what, t
    if x.reading is None and x.seen is None:
        yield "reads the places of P0", s._replace(far=far(reading=sum(r.part == 0 for r in s.res)))
    if x.reading is not None:
        # The note is behind them: what it finds there says nothing of places that it has passed by.
        is_known = x.noted or s.come and broken == "read-after-come" or broken == "start-after-come"
        yield "reads whether P0 has come", s._replace(far=far(reading=None, noted=x.noted or s.come > 0, seen=x.reading if is_known else None))
    for j, job in enumerate(s.jobs):
        if job.part != 1: continue
        if job.status == "s" and job.due:
            yield f"promotes J{j}", s._replace(jobs=step_job(s, j, status="p", line=("ready", 1)))
        elsewhere = 0 if broken == "count-elsewhere" else x.seen
        counted = any(r.job == j for r in own)
        if job.status == "p" and job.line == ("ready", 1) and x.seen is not None and not counted and len(own) + elsewhere < CAP and s.next_id <= MAX_RESERVATIONS:
            r = Res(s.next_id, 1, j, job.version)
            reserved = s._replace(res=s.res | {r}, next_id=s.next_id + 1)
            if j == MOVED: yield f"reserves J{j} as R{r.id}", reserved._replace(far=far(todo=r))
            else: yield f"reserves J{j} as R{r.id}, and it runs", reserved._replace(jobs=step_job(s, j, status="r", claim=r.id, line=None))
    if x.seen:
        yield "looks at P0 again", s._replace(far=far(seen=None))

def arrival(s, kind, *of):
    """The state after a request was done; None: its condition fails."""
    if kind == "come":
        return s._replace(turn=s.turn + 1, come=s.turn + 1) if s.turn == of[0] and s.turn < MAX_TURN else None
    if kind == "start":
        r, = of
        return s._replace(jobs=step_job(s, r.job, status="r", claim=r.id, line=None)) if may_come(s.jobs[r.job], r) else None
    j, version, *rest = of
    job = s.jobs[j]
    is_as_read = job.version == version
    if kind == "move":
        if not (is_ready(job) and is_as_read) and broken != "move-as-read": return None
        after = dict(status="p", part=1, line=("ready", 1))
        return s._replace(jobs=put(s.jobs, j, job._replace(**after)) if broken == "move-raises-version" else step_job(s, j, **after))
    if kind == "park":                                                    # the job's version stays, the partition's turns
        if job.status != "p" or s.turn >= MAX_TURN or not (is_as_read and s.turn == rest[0]) and broken != "park-as-read": return None
        return s._replace(turn=s.turn + 1, jobs=put(s.jobs, j, job._replace(line=("blocked", 0))))
    if job.status not in "ps" or not is_as_read and broken != "retime-by-version": return None
    return s._replace(jobs=step_job(s, j, status="s", due=False, line=("due", rest[0])))

NAMES = {"move": "move", "park": "parking", "retime": "other time"}
def named(kind, of): return f"start for R{of[0].id}" if kind == "start" else f"note on version {of[0]}" if kind == "come" else f"{NAMES[kind]} of J{of[0]}"

def steps(s):
    for d in range(len(s.disps)):
        for what, t in of_former_home(s, d): yield f"D{d} {what}", t
    for what, t in of_new_home(s): yield f"P1 {what}", t
    for kind, *of in s.wire:
        rest = s.wire - {(kind, *of)}
        after = arrival(s, kind, *of)
        yield f"the {named(kind, of)} is refused, or never arrives", s._replace(wire=rest)
        if after is not None:
            yield f"the {named(kind, of)} arrives", after._replace(wire=rest)
            if kind in ("start", "move"): yield f"the {named(kind, of)} arrives, and will come again", after
    for j, job in enumerate(s.jobs):
        if job.status == "s" and not job.due: yield f"the time of J{j} comes", s._replace(jobs=put(s.jobs, j, job._replace(due=True)))
        if job.status == "r":
            ended = dict(owed=job.owed | {job.claim})
            yield f"J{j} is done", s._replace(jobs=step_job(s, j, status="d", **ended))
            if j == MOVED and job.attempt < MAX_ATTEMPT:
                again = dict(status="s", due=False, line=("due", job.part), attempt=job.attempt + 1)
                yield f"J{j} fails and is tried again later", s._replace(jobs=step_job(s, j, **again, **ended))
        if j == MOVED and job.status in "ps": yield f"J{j} is cancelled", s._replace(jobs=step_job(s, j, status="x", line=None))
        if job.status in "ps" and job.part == 0 and len(s.wire) < MAX_WIRE:
            yield f"a user asks for another time of J{j}", s._replace(wire=s.wire | {("retime", j, job.version, job.part)})

def violation(s):
    active = [j for j, job in enumerate(s.jobs) if job.status == "r"]
    if len(active) > CAP: return f"jobs {active} of one key run together"
    for j, job in enumerate(s.jobs):
        if job.status == "r" and not any(r.id == job.claim for r in s.res): return f"J{j} holds capacity that nobody counts"
        if job.status == "p" and not job.due: return f"J{j} may start before its time"
        if job.status in "ps" and job.line[1] != job.part: return f"J{j} lives in P{job.part} and stands in a line of P{job.line[1]}"
        if job.status in "ps" and j == MOVED and job.part == 1 and not s.announced: return f"J{j} stands in a line of P1 that nobody knows of"
        for r in s.res:                                                   # the dispatcher that settles it in P0 may not find its claim any more
            if r.part == 0 and r.id in job.owed and job.part == 1: return f"J{j} moved while R{r.id} counts what it used"
        if uncharged := [i for i in job.owed if not any(r.id == i for r in s.res)]: return f"what J{j} used for R{uncharged[0]} is charged to nobody"

MOVED = 0
FIRST, SECOND = Job("p", 0, 0, ("ready", 0), True, 1, None, frozenset()), Job("p", 0, 1, ("ready", 1), True, 1, None, frozenset())
start = State(0, 0, (FIRST, SECOND), frozenset(), (AWAY, AWAY), GONE, frozenset(), False, 1)
seen, queue, found = {start: None}, deque([start]), None
while queue and not found and len(seen) < states_max:
    s = queue.popleft()
    if why := violation(s): found = (s, why)
    else:
        for label, t in steps(s):
            if t not in seen and all(job.version < most for job, most in zip(t.jobs, MAX_VERSION)): seen[t] = (s, label); queue.append(t)
print(f"{len(seen)} states", end="")
if found:
    s, why = found; trail = []
    while seen[s]: s, label = seen[s]; trail.append(label)
    print(f"; violation: {why}"); print("\n".join(f"  {i + 1}. {l}" for i, l in enumerate(reversed(trail))))
else: print("; no violation")
sys.exit(0 if bool(found) == bool(broken) else 1)
