"""Exhaustive check of 'nothing waits' in the partition summary, with an index that lags (lib/dispatch/pass/quiet.ts).

Passes begin empty, know what they were told of, and read lines only where the summary does not say quiet. No job may be forgotten: each that
waits has a hint on its way, or the summary says so and a dispatcher will come that sees it.

The rule. The summary has `quiet` (nothing waits) and `unseenUntil` (an instant: what a pass was told of and left may be missing in reads before).
 1 leave-clears       a pass that leaves a job waiting that it was told of, or read, clears quiet in that commit
 2 until-written      ... and of a job that it was told of, though its own read shows it: unseenUntil >= now + LAG, also where quiet is off already
                      (written ahead, now + LAG + AHEAD, so that where much is left one pass in so long writes it; --ahead)
   until-if-shown     left out where the own read shows the job: not enough, for another pass may have read before that
 3 quiet-after-until  quiet is set only by a pass that has read all lines to their ends, and began to read at unseenUntil or later, and leaves nothing
 4 read-begins        (the beginning of the read counts, not the commit)
 5 all-lines          (a pass that read only the lines of what it was told of says nothing of the others)
 6 wake-at-until      a pass that ends with room free while unseenUntil is to come sends a wake delayed until then
 7 woken-reads        a dispatcher that is woken reads the lines where the summary does not say quiet, whatever it was told of
 8 dropped-is-told    a place that is given up leaves its job as if it had been told of
 9 version            all of that in the one conditional commit

Run: python3 quiet_model.py                   all states must hold the invariants
     python3 quiet_model.py --break NAME      removes one rule; a violation must be found
     python3 quiet_model.py --states N        only the N states, or a few more, that fewest steps lead to
     [--jobs N] [--dispatchers D] [--ahead T]
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""

import sys
from collections import deque, namedtuple
def arg(name, default): return sys.argv[sys.argv.index(name)+1] if name in sys.argv else default
BREAKS = ("leave-clears", "until-written", "until-if-shown", "quiet-after-until", "read-begins", "all-lines", "wake-at-until", "woken-reads", "dropped-is-told", "version")
broken = arg("--break", None)
if broken and broken not in BREAKS:
    sys.exit(f"unknown rule {broken}: one of {', '.join(BREAKS)}")
J, D, CAP, LAG, T, DROPS, AHEAD = int(arg("--jobs", 3)), int(arg("--dispatchers", 2)), 1, 2, 6, 1, int(arg("--ahead", 1))     # job 0 runs at the start
Job = namedtuple("Job", "state at shown told end")       # state: - w(aits) c(ounted) e(nded); told, end: its records: - q(ueued) h(eld) x
P = namedtuple("P", "kind news phase version read readAt page")  # news: (what, job); page: the summary as loaded
Page = namedtuple("Page", "version counted quiet until")
S = namedtuple("S", "t jobs page wakes procs drops")
NAME = "abcd"
def setj(s, j, **c): return s._replace(jobs=s.jobs[:j]+(s.jobs[j]._replace(**c),)+s.jobs[j+1:])
def shownby(jobs, t): return tuple(j._replace(shown=True) if j.state in "wc" and j.at >= 0 and j.at+LAG <= t else j for j in jobs)
def steps(s):
    def begin(s, kind, news): return s._replace(procs=tuple(sorted(s.procs+(P(kind, news, "a", 0, (), -1, None),))))
    def go(s, p, **c): l = list(s.procs); l.remove(p); return s._replace(procs=tuple(sorted(l+[p._replace(**c)])))
    def end(s, p):
        l = list(s.procs); l.remove(p); s = s._replace(procs=tuple(l))
        if p.kind == "stream":
            what, j = p.news
            s = setj(s, j, **({"told": "x"} if what == "came" else {"end": "x"}))
        return s
    if s.t < T: yield f"time is {s.t+1}", s._replace(t=s.t+1, jobs=shownby(s.jobs, s.t+1))
    for j, job in enumerate(s.jobs):
        if job.state == "-": yield f"{NAME[j]} is stored", setj(s, j, state="w", at=s.t, told="q")
        if job.state in "wc" and job.at >= 0 and not job.shown: yield f"the index shows {NAME[j]}", setj(s, j, shown=True)
        if j == 0 and job.state == "c" and job.end == "-": yield f"{NAME[j]} ends", setj(s, j, end="q")
        if len(s.procs) < D:
            if job.told == "q": yield f"batch({NAME[j]} came) begins", begin(setj(s, j, told="h"), "stream", ("came", j))
            if job.end == "q": yield f"batch({NAME[j]} ended) begins", begin(setj(s, j, end="h"), "stream", ("ended", j))
            if j == 1 and job.state == "c" and s.drops < DROPS: yield f"a check of {NAME[j]}, which nobody has started, begins", begin(s._replace(drops=s.drops+1), "check", ("dropped", j))
    if len(s.procs) < D:
        for w in s.wakes:
            if w <= s.t:
                l = list(s.wakes); l.remove(w)
                yield f"the wake for {w} comes", begin(s._replace(wakes=tuple(l)), "wake", ("", -1))
    for p in sorted(set(s.procs)):
        what, j = p.news
        w = "woken" if p.kind == "wake" else f"batch({NAME[j]} {what})" if p.kind == "stream" else f"check({NAME[j]})"
        if p.phase == "a":
            if p.kind == "wake" and (s.page.quiet or broken == "woken-reads"): yield f"{w} finds the summary quiet, goes" if s.page.quiet else f"{w} was told of nothing, goes", end(s, p)
            else: yield f"{w} loads version {s.page.version}", go(s, p, phase="c" if s.page.quiet else "r", version=s.page.version, page=s.page)
        elif p.phase == "r":
            read = tuple(i for i, job in enumerate(s.jobs) if job.shown and job.state == "w" and (broken != "all-lines" or p.kind == "wake" or i == j))
            yield f"{w} reads the lines: {[NAME[i] for i in read]}", go(s, p, phase="c", read=read, readAt=s.t)
        elif p.phase == "c":
            page = p.page
            told = {j} if what == "came" or what == "dropped" and broken != "dropped-is-told" else set()
            counted = page.counted - {j} if what in ("ended", "dropped") else page.counted
            if what == "dropped" and j not in page.counted: yield f"{w} finds its place gone, goes", end(s, p); continue
            waits = [i for i in sorted(told | set(p.read)) if i not in counted and (s.jobs[i].state == "w" or what == "dropped" and i == j)]
            admit = waits[:max(0, CAP-len(counted))]
            left = waits[len(admit):]
            counted = counted | set(admit)
            unseen = [i for i in left if i in told and (broken != "until-if-shown" or i not in p.read)]
            until = page.until
            if unseen and (page.quiet or broken != "until-written"): until = until if until >= s.t + LAG else s.t + LAG + AHEAD
            mayquiet = p.readAt >= 0 and ((s.t if broken == "read-begins" else p.readAt) >= page.until or broken == "quiet-after-until")
            quiet = not left and (page.quiet or mayquiet)
            if broken == "leave-clears" and page.quiet: quiet = True
            new = Page(page.version+1, frozenset(counted), quiet, until)
            if new[1:] == page[1:]: n, label = s, f"{w} has nothing to write"
            elif s.page.version == page.version or broken == "version":
                n, label = s._replace(page=new._replace(version=s.page.version+1)), f"{w} commits: counted {[NAME[i] for i in sorted(counted)]}, {'quiet' if quiet else 'not quiet'}{f', unseen until {until}' if until > s.t else ''}"
                if what in ("ended", "dropped") and j in page.counted: n = setj(n, j, state="e" if what == "ended" else "w")
                for i in admit: n = setj(n, i, state="c")
            else: yield f"{w} is refused at version {page.version}", go(s, p, phase="a", version=0, read=(), readAt=-1, page=None); continue
            if not quiet and len(counted) < CAP and until > p.readAt and broken != "wake-at-until":
                if until not in n.wakes: n = n._replace(wakes=tuple(sorted(n.wakes+(until,)))); label += f", sends a wake for {until}"
            yield label, end(n, p)
def bad(s):
    if len(s.page.counted) > CAP: return "cap exceeded"
    if any(job.state == "c" and j not in s.page.counted for j, job in enumerate(s.jobs)): return "a job is counted no more"
    if s.procs: return None
    for j, job in enumerate(s.jobs):
        if job.state != "w" or job.told == "q": continue
        if s.page.quiet: return f"{NAME[j]} waits, and the summary says that nothing does"
        if len(s.page.counted) < CAP and not s.wakes and not any(i.told == "q" or i.end == "q" for i in s.jobs): return f"{NAME[j]} waits where a slot is free, and nobody comes"
start = S(0, (Job("c", -1, False, "x", "-"),) + (Job("-", -1, False, "-", "-"),)*(J-1), Page(0, frozenset({0}), True, 0), (), (), 0)
limit = int(arg("--states", 10**9))
seen, queue, found = {start: None}, deque([start]), None
while queue and len(seen) < limit:
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
