"""Exhaustive check of the commit that is one conditional write of the page (docs/decisions/2026-11-23-commits-of-one-write.md).

World: one partition, CAP units of capacity, J jobs, D dispatchers. The lease and the page are two items. A commit writes the
whole page: it follows a turn, and is written under an epoch. Every interleaving of single item operations is explored, with:
leases that expire at any moment, commits that arrive late, twice or never, answers that get lost, dispatchers that die, and
claims as in `protocol_model.py`. A lease may be given back open (docs/decisions/2026-11-25-passes-without-a-lease.md): then every
dispatcher may commit under its epoch, until one takes it.

Run: python3 commit_model.py                   all states must hold the invariants
     python3 commit_model.py --break NAME      removes one protection; a violation must be found
     python3 commit_model.py --states N        only the N states, or a few more, that fewest steps lead to
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""
import sys
from collections import deque, namedtuple

J, D, CAP, MAX_EPOCH, MAX_COMMITS = 2, 2, 1, 3, 4
BREAKS = ("turn", "page-epoch", "fence-first", "take-what-was-fenced", "release-says-writing", "unknown-is-unknown", "open-is-fenced", "open-was-not-fenced")
broken = sys.argv[sys.argv.index("--break") + 1] if "--break" in sys.argv else None
states_max = float(sys.argv[sys.argv.index("--states") + 1]) if "--states" in sys.argv else float("inf")
if broken and broken not in BREAKS:
    sys.exit(f"unknown protection {broken}: one of {', '.join(BREAKS)}")

# status: p(ending) c(laimed) r(unning) d(one). Every transition raises the version. claim: id of the row it was won for.
Job = namedtuple("Job", "status version claim")
Row = namedtuple("Row", "id job version")                       # version: the job's, when it was planned
Page = namedtuple("Page", "turn epoch rows by")                 # epoch: nothing of an earlier one turns it; by: the commit that wrote it
Lease = namedtuple("Lease", "epoch holder writing")             # holder: None once it was given back; writing: a commit may still come; "open": anybody's
Commit = namedtuple("Commit", "id epoch follows rows new")      # new: the row that it reserves, or None
Disp = namedtuple("Disp", "epoch known fenced pending todo")    # known: (turn, rows) as loaded; fenced: the epoch that it saw expired
State = namedtuple("State", "lease page jobs disps wire claims messages next_id superseded")
IDLE = Disp(0, None, None, None, None)

def put(t, i, v): return t[:i] + (v,) + t[i + 1:]
def step_job(s, j, **changes): return put(s.jobs, j, s.jobs[j]._replace(version=s.jobs[j].version + 1, **changes))

def takes(s, d):
    lease = Lease(s.lease.epoch + 1, d, False)
    return s._replace(lease=lease, disps=put(s.disps, d, Disp(lease.epoch, None, None, None, None)))

def steps(s):
    for d, x in enumerate(s.disps):
        def disp(**changes): return put(s.disps, d, x._replace(**changes))
        is_free = s.lease.holder is None and (not s.lease.writing or (broken == "open-is-fenced" and s.lease.writing == "open"))
        if s.lease.epoch < MAX_EPOCH and x.pending is None and x.todo is None:
            if is_free:
                yield f"D{d} takes the free lease", takes(s, d)
            elif x.fenced is None and s.lease.epoch < MAX_EPOCH:          # it has expired: expiry is a matter of clocks
                if broken == "fence-first": yield f"D{d} takes the expired lease", takes(s, d)
                else:
                    page = s.page._replace(epoch=max(s.page.epoch, s.lease.epoch + 1))
                    yield f"D{d} fences the page for epoch {s.lease.epoch + 1}", s._replace(page=page, disps=put(s.disps, d, IDLE._replace(fenced=s.lease.epoch)))
            if x.fenced is not None and not is_free and (s.lease.epoch == x.fenced or broken == "take-what-was-fenced"):
                yield f"D{d} takes the expired lease", takes(s, d)
        # Lease and page come with one read, or the lease first: who finds the page fenced sees that somebody is about to take it.
        is_open = s.lease.holder is None and s.lease.writing == "open" and (s.page.epoch <= s.lease.epoch or broken == "open-was-not-fenced")
        if is_open and x == IDLE:
            yield f"D{d} loads without the lease", s._replace(disps=put(s.disps, d, Disp(max(s.lease.epoch, s.page.epoch), (s.page.turn, s.page.rows), None, None, None)))
        if x.fenced is not None and (is_free or s.lease.epoch != x.fenced):
            yield f"D{d} finds another holder", s._replace(disps=put(s.disps, d, IDLE))
        if x.epoch and x.known is None and x.pending is None:
            yield f"D{d} loads", s._replace(disps=disp(known=(s.page.turn, s.page.rows)))
        if x.pending is not None:
            c = x.pending
            after = (c.follows + 1, c.rows)
            if s.page.by == c.id or broken == "unknown-is-unknown":
                yield f"D{d} hears that commit {c.id} is applied", s._replace(disps=disp(known=after, pending=None, todo=c.new))
            elif c not in s.wire:
                yield f"D{d} hears that commit {c.id} is refused, and ends", s._replace(disps=put(s.disps, d, IDLE))
            given = s._replace(disps=put(s.disps, d, IDLE))
            if s.lease.epoch == x.epoch and s.lease.holder == d:
                given = given._replace(lease=s.lease._replace(holder=None, writing=broken != "release-says-writing"))
            yield f"D{d} hears nothing of commit {c.id}, and gives the lease back", given
            continue
        if x.todo is not None:
            yield f"D{d} sends the claim of J{x.todo.job} for R{x.todo.id}", s._replace(claims=s.claims | {x.todo}, disps=disp(todo=None))
            yield f"D{d} dies before it claims", s._replace(disps=put(s.disps, d, IDLE))
            continue
        if x.known is None: continue
        turn, rows = x.known
        if s.lease.epoch == x.epoch and s.lease.holder == d:
            for writing in (False, "open"):
                what = " open" if writing and broken != "open-is-fenced" else ""
                yield f"D{d} gives the lease back{what}", s._replace(lease=s.lease._replace(holder=None, writing=writing), disps=put(s.disps, d, IDLE))
        elif not (s.lease.holder == d and s.lease.epoch == x.epoch): yield f"D{d} ends", s._replace(disps=put(s.disps, d, IDLE))
        if s.next_id <= MAX_COMMITS:
            def commits(rows, new, what):
                c = Commit(s.next_id, x.epoch, turn, rows, new)
                return f"D{d} sends commit {c.id}: {what}", s._replace(wire=s.wire | {c}, next_id=s.next_id + 1, disps=disp(pending=c, known=None))
            for j, job in enumerate(s.jobs):
                if job.status == "p" and len(rows) < CAP:
                    r = Row(s.next_id, j, job.version)
                    yield commits(rows | {r}, r, f"reserves J{j} as R{r.id}")
            for r in rows:
                job = s.jobs[r.job]
                if not (job.claim == r.id and job.status in "cr") and not (job.status == "p" and job.version == r.version):
                    yield commits(rows - {r}, None, f"drops R{r.id}")
                elif job.status == "p":
                    yield f"D{d} raises the version of J{r.job}", s._replace(jobs=step_job(s, r.job))
    for c in s.wire:
        applies = (s.page.turn == c.follows or broken == "turn") and (s.page.epoch <= c.epoch or broken == "page-epoch")
        after = s._replace(page=Page(s.page.turn + 1, c.epoch, c.rows, c.id), superseded=s.superseded or s.lease.epoch > c.epoch) if applies else s
        for again in (False, True):                                       # the answer gets lost: the same request is sent again
            if again and not applies: continue
            yield f"commit {c.id} arrives: {'applied' if applies else 'refused'}{', will come again' if again else ''}", after if again else after._replace(wire=s.wire - {c})
        if not any(x.pending == c for x in s.disps): yield f"commit {c.id} never arrives", s._replace(wire=s.wire - {c})
    for r in s.claims:
        job = s.jobs[r.job]
        won = job.status == "p" and job.version == r.version
        after = s._replace(jobs=step_job(s, r.job, status="c", claim=r.id), messages=s.messages | {(r.job, r.id)}) if won else s
        yield f"claim of J{r.job} for R{r.id} arrives: {'won' if won else 'lost'}", after._replace(claims=s.claims - {r})
        yield f"claim of J{r.job} for R{r.id} never arrives", s._replace(claims=s.claims - {r})
    for j, c in s.messages:
        if s.jobs[j].status == "c" and s.jobs[j].claim == c: yield f"worker starts J{j} for R{c}", s._replace(jobs=step_job(s, j, status="r"))
    for j, job in enumerate(s.jobs):
        if job.status == "r": yield f"J{j} is done", s._replace(jobs=step_job(s, j, status="d"))

def violation(s):
    active = [j for j, job in enumerate(s.jobs) if job.status in "cr"]
    if s.superseded: return "a superseded dispatcher's commit was applied"
    if len(active) > CAP: return f"capacity {CAP} exceeded by jobs {active}"
    for j in active:
        if not any(r.id == s.jobs[j].claim for r in s.page.rows): return f"J{j} holds capacity that nobody counts"

start = State(Lease(0, None, False), Page(0, 0, frozenset(), 0), (Job("p", 0, None),) * J, (IDLE,) * D, frozenset(), frozenset(), frozenset(), 1, False)
seen, queue, found = {start: None}, deque([start]), None
while queue and not found and len(seen) < states_max:
    s = queue.popleft()
    if why := violation(s): found = (s, why)
    else:
        for label, t in steps(s):
            if t not in seen and max(j.version for j in t.jobs) < 5: seen[t] = (s, label); queue.append(t)
print(f"{len(seen)} states", end="")
if found:
    s, why = found; trail = []
    while seen[s]: s, label = seen[s]; trail.append(label)
    print(f"; violation: {why}", *(f"{n:3}. {label}" for n, label in enumerate(reversed(trail), 1)), sep="\n")
else: print("; no violation")
sys.exit(0 if bool(found) == bool(broken) else 1)
