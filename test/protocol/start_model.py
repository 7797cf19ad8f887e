"""Exhaustive check of starts that claim (docs/decisions/starts-claim.md).

World: one partition, CAP units of capacity, J jobs, D dispatchers. A dispatcher reads the page, commits a page with the row of a
reservation on condition of the version that it read (a turn here), and, once it knows that this was applied, sends a message with the row.
It does not claim: a worker's start does both steps in one write, if the job is pending at the version that the row says. A dispatcher that
reads the page later recovers a row whose job is pending still: it claims the job and sends the message again, or it raises the version and
then drops the row. Every interleaving of single writes is explored, with: dispatchers that freeze and go on with what they knew, commits,
claims and messages that arrive late, twice or never, answers that get lost, dispatchers that die, workers that are lost, and users who
cancel jobs or move them. A row is in the page: `cas_model.py` has what items of their own take. A row is numbered by its turn alone, as if
no nonce told two dispatchers apart: that is harder than what they do.

Messages are never deleted. One that says the version may do all that one without it may do, so all of them say it here. Recovery sends them
whether or not its claim was answered, or made.

A version counts from 1 again where an ended job's item was collected and another job was stored under its id. A message of the former job
would start the new one. So an ended job's item must be kept longer than any of its messages lives, wherever it is kept, and longer than
its row is in the page, or a dispatcher may freeze that knows the row. Here no item is collected, except without `id-outlives-messages`.

Run: python3 start_model.py                   all states must hold the invariants
     python3 start_model.py --break NAME      removes one protection; a violation must be found
     python3 start_model.py --states N        only the N states, or a few more, that fewest steps lead to
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""
import gc
import sys
from collections import deque, namedtuple

J, D, CAP, MAX_TURN, MAX_VERSION, MAX_MOVES = 2, 2, 1, 3, 4, 1
BREAKS = ("send-after-commit", "unknown-is-unknown", "known-by-commit", "start-by-version", "start-by-claim", "claim-by-version",
          "send-again-as-planned", "give-up-by-version", "drop-after-raise", "settle-what-ended", "move-raises-version", "turn",
          "id-outlives-messages")
broken = sys.argv[sys.argv.index("--break") + 1] if "--break" in sys.argv else None
states_max = float(sys.argv[sys.argv.index("--states") + 1]) if "--states" in sys.argv else float("inf")
if broken and broken not in BREAKS:
    sys.exit(f"unknown protection {broken}: one of {', '.join(BREAKS)}")

# status: p(ending) c(laimed) r(unning) e(nded for good). Every transition raises the version. claim: id of the row that it is held for.
# moves: how often users moved it, which nobody in this world can see.
Job = namedtuple("Job", "status version claim moves")
Row = namedtuple("Row", "id job version moves")          # version, moves: the job's, when it was planned
Page = namedtuple("Page", "turn rows")
Commit = namedtuple("Commit", "follows rows")
Disp = namedtuple("Disp", "phase turn rows cur drops")  # h(as good as new) l(oaded) p(to commit) u(commit unanswered) s(to send)
State = namedtuple("State", "page jobs disps commits claims messages")  # the last three: what may still arrive
NOTHING = frozenset()
ENDED = Job("e", 0, None, 0)
IDLE = Disp("h", 0, NOTHING, None, NOTHING)

def put(t, i, v): return t[:i] + (v,) + t[i + 1:]
def step_job(s, j, by=1, **changes): return put(s.jobs, j, s.jobs[j]._replace(version=s.jobs[j].version + by, **changes))
def may_come(job, r): return job.status == "p" and job.version == r.version
def is_held(job, r): return job.status in "cr" and job.claim == r.id
def may_start(job, r): return may_come(job, r) or job.status == "c" and job.claim == r.id
def name(r): return f"J{r.job} at version {r.version} as R{r.id}"

def arrives(s, c):
    """A commit. None: its condition fails."""
    if s.page.turn != c.follows and broken != "turn": return None
    return s._replace(page=Page(s.page.turn + 1, c.rows))

def begun(s, r):
    """A worker received a message. None: the start is refused."""
    job = s.jobs[r.job]
    if job.status == "p" and (job.version == r.version or broken == "start-by-version"): by = 2
    elif job.status == "c" and (job.claim == r.id or broken == "start-by-claim"): by = 1
    else: return None
    if job.moves != r.moves: return f"J{r.job} was moved and starts for R{r.id}, which was planned before"
    return s._replace(jobs=step_job(s, r.job, by, status="r", claim=r.id))

def is_over(job, r):
    """Whether the row of this job may be dropped. It stays so: versions only rise."""
    if broken == "settle-what-ended" and is_held(job, r): return True
    return not is_held(job, r) and (not may_come(job, r) or broken == "give-up-by-version")

def steps(s):
    for d, x in enumerate(s.disps):
        def disp(**changes): return put(s.disps, d, x._replace(**changes))
        def with_message(r): return s.messages | {r}
        begins = put(s.disps, d, IDLE)
        if x != IDLE: yield f"D{d} dies", s._replace(disps=put(s.disps, d, IDLE))
        if x.phase == "h":
            yield f"D{d} reads the page at turn {s.page.turn}", s._replace(disps=disp(phase="l", turn=s.page.turn, rows=s.page.rows))
        elif x.phase == "l":
            for r in x.rows:                                              # at any time: checkAt says when it is sensible, not when it is safe
                job = s.jobs[r.job]
                if may_come(job, r):
                    yield f"D{d} sends the claim of {name(r)}", s._replace(claims=s.claims | {r})
                    yield f"D{d} raises the version of J{r.job}", s._replace(jobs=step_job(s, r.job))
                if job.status == "p" and broken == "send-again-as-planned":
                    yield f"D{d} sends the message of {name(r)} again, with the version {job.version}", s._replace(messages=with_message(r._replace(version=job.version)))
                if may_come(job, r) or is_held(job, r):                   # also before its claim was answered
                    yield f"D{d} sends the message of {name(r)} again", s._replace(messages=with_message(r))
                if job.status == "c" and is_held(job, r):
                    yield f"D{d} gives the claim of J{r.job} for R{r.id} back", s._replace(jobs=step_job(s, r.job, status="p", claim=None))
                if broken == "drop-after-raise":
                    yield f"D{d} sends the raise of {name(r)}, no answer, and will drop it", s._replace(disps=disp(drops=x.drops | {r}))
            over = x.drops | {r for r in x.rows if is_over(s.jobs[r.job], r)}
            for drops in {NOTHING, over}:
                yield f"D{d} drops {sorted(r.id for r in drops)}" if drops else f"D{d} drops nothing", s._replace(disps=disp(phase="p", rows=x.rows - drops, drops=NOTHING))
                if len(x.rows - drops) >= CAP: continue
                for j, job in enumerate(s.jobs):
                    if job.status != "p": continue
                    r = Row(x.turn, j, job.version, job.moves)
                    sent = with_message(r) if broken == "send-after-commit" else s.messages
                    dropped = f"drops {sorted(r.id for r in drops)} and " if drops else ""
                    yield f"D{d} {dropped}plans {name(r)}", s._replace(messages=sent, disps=disp(phase="p", rows=x.rows - drops, cur=r, drops=NOTHING))
        elif x.phase in "pu":
            c = Commit(x.turn, x.rows | ({x.cur} if x.cur else NOTHING))
            what = f"commits {name(x.cur)}" if x.cur else "commits nothing new"
            after = arrives(s, c)
            if after is None:
                if x.phase == "p": yield f"D{d} {what}: refused", s._replace(disps=begins)
            else: yield f"D{d} {what} at turn {x.turn}", after._replace(commits=s.commits | {c}, disps=disp(phase="s", turn=0, rows=NOTHING) if x.cur else begins)
            if x.phase == "p": yield f"D{d} {what} at turn {x.turn}, no answer", s._replace(commits=s.commits | {c}, disps=disp(phase="u") if x.cur else begins)
            else:
                yield f"D{d} reads again", s._replace(disps=begins)
                if x.cur in s.page.rows or broken == "known-by-commit" and any(r.id == x.cur.id for r in s.page.rows):
                    yield f"D{d} finds its commit in the page", s._replace(disps=disp(phase="s", turn=0, rows=NOTHING))
                if broken == "unknown-is-unknown": yield f"D{d} takes no answer for success", s._replace(disps=disp(phase="s", turn=0, rows=NOTHING))
        elif x.phase == "s": yield f"D{d} sends the message of {name(x.cur)}", s._replace(messages=with_message(x.cur), disps=begins)
    for c in s.commits:
        after = arrives(s, c)
        if after is not None: yield f"a commit at turn {c.follows} arrives", after
    for r in s.claims:
        job = s.jobs[r.job]
        if may_come(job, r) or broken == "claim-by-version" and job.status == "p":
            yield f"the claim of {name(r)} arrives: won", s._replace(jobs=step_job(s, r.job, status="c", claim=r.id))
    for r in s.messages:
        after = begun(s, r)
        if after is not None: yield f"a worker starts {name(r)}", after
    for j, job in enumerate(s.jobs):
        if job.status == "r":
            yield f"J{j} is done", s._replace(jobs=step_job(s, j, status="e"))
            yield f"J{j} loses its worker and is pending again", s._replace(jobs=step_job(s, j, status="p"))  # or fails, and is tried again
        if job.status in "pc": yield f"J{j} is cancelled", s._replace(jobs=step_job(s, j, status="e"))
        if job.status == "p" and job.moves < MAX_MOVES:
            yield f"J{j} is moved", s._replace(jobs=step_job(s, j, 0 if broken == "move-raises-version" else 1, moves=job.moves + 1))
        if job.status == "e" and broken == "id-outlives-messages":
            yield f"J{j}'s item is collected, and another job is stored under its id", s._replace(jobs=put(s.jobs, j, Job("p", 1, None, 0)))

def useful(s):
    """Forgets what can never have an effect again: the same worlds, fewer states."""
    page, jobs, disps, commits, claims, messages = s
    reused = broken == "id-outlives-messages"
    all_messages = reused or broken in ("start-by-version", "start-by-claim", "send-again-as-planned")
    jobs = tuple([ENDED if job.status == "e" else Job("p", job.version, None, job.moves) if job.status == "p" else job for job in jobs])
    if broken != "turn": commits = frozenset([c for c in commits if c.follows == page.turn])
    if not (reused or broken == "claim-by-version"): claims = frozenset([r for r in claims if may_come(jobs[r.job], r)])
    if not all_messages: messages = frozenset([r for r in messages if may_start(jobs[r.job], r)])
    if not broken: disps = tuple([useful_disp(s, x) for x in disps])
    return State(page, jobs, disps, commits, claims, messages)

def in_any_order(s):
    """Who of the dispatchers is who does not matter: worlds in which they have changed places are one."""
    return s._replace(disps=tuple(sorted(s.disps, key=rank, reverse=True)))

def rank(x):
    """By what they know, not by hashes, which differ from run to run: each run is to find the same violation first."""
    return x.phase, x.turn, x.cur[:3] if x.cur else (), sorted([r[:3] for r in x.rows])

def useful_disp(s, x):
    """A dispatcher that knows an earlier turn commits nothing any more, and a message may be too late to be sent."""
    is_late = x.turn != s.page.turn
    if x.phase == "l" and is_late:
        rows = frozenset(r for r in x.rows if not is_over(s.jobs[r.job], r))
        return x._replace(turn=0, rows=rows) if rows else IDLE
    if x.phase in "pu" and is_late and not (x.phase == "u" and x.cur in s.page.rows): return IDLE
    if x.phase == "s" and not may_start(s.jobs[x.cur.job], x.cur): return IDLE
    return x

def violation(s):
    active = [j for j, job in enumerate(s.jobs) if job.status in "cr"]
    if len(active) > CAP: return f"capacity {CAP} exceeded by jobs {active}"
    for j in active:
        if not any(r.id == s.jobs[j].claim and r.job == j for r in s.page.rows): return f"J{j} holds capacity that nobody counts"

gc.disable()  # states refer to no cycles, and looking for some among millions of them takes a quarter of the time
start = State(Page(1, NOTHING), (Job("p", 1, None, 0),) * J, (IDLE,) * D, NOTHING, NOTHING, NOTHING)
seen, queue, found = {start: None}, deque([start]), None
while queue and not found and len(seen) < states_max:
    s = queue.popleft()
    for label, t in steps(s):
        if isinstance(t, str): why = t
        else:
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
        label, s = next((label, useful(t)) for label, t in steps(s) if not isinstance(t, str) and in_any_order(useful(t)) == then)
        trail.append(label)
    trail.append(next(label for label, t in steps(s) if (t if isinstance(t, str) else violation(useful(t))) == why))
    print(f"; violation: {why}", *(f"{n:3}. {label}" for n, label in enumerate(trail, 1)), sep="\n")
else: print("; no violation")
sys.exit(0 if bool(found) == bool(broken) else 1)
