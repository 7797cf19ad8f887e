"""Exhaustive check of leads, letters and triggers on top of the version as the only lock (cas_model.py has reservations, claims and items;
here a commit is one write of the summary on condition of its version).

News: 'ended j' and 'came j'. Each has a trigger of its own (a stream batch), which comes again if its invocation fails, until it is given up.
Wakes say nothing: a dispatcher that is woken reads the letters, or, with --woken-lead, takes the lead, so that only leads read letters, as
`lib/dispatch/lead/lead.ts` does. Leads are invocations without news. A freeze is an interleaving, with 'the lead expires' at any moment. Commits,
deletes and puts of letters may be late, repeated or never arrive. No tick is modelled: the invariant says that none is needed, but for what
is excused: a leader that died, a batch or a wake that was given up after its last try.

Run: python3 letters_model.py                   all states must hold the invariants
     python3 letters_model.py --break NAME      removes one rule; a violation must be found, but without one of SPARE, which is waste only
     python3 letters_model.py --no-excuse NAME  does not excuse one; a violation must be found: the tick is needed for it
     python3 letters_model.py --states N        only the N states, or a few more, that fewest steps lead to
     [--woken-lead] [--world abc|abB] [--dispatchers D] [--leads L] [--tries K] [--deaths F]
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""

import sys
from collections import deque, namedtuple
def arg(name, default): return sys.argv[sys.argv.index(name)+1] if name in sys.argv else default
SAFETY = ("version", "send-after-commit")
RULES = ("second-look", "release-then-look", "look-when-expired", "delete-after-commit", "refused-deletes-nothing", "delete-what-was-read", "own-name", "put-answered",
         "fail-loudly", "loser-leaves-letter", "loser-wakes", "letter-before-wake", "woken-loser-wakes", "waits-if-left", "view-by-version", "no-silent-pass")
SPARE = ("take-then-read", "release-own-only", "first-look", "superseded-looks", "retake-forgets")     # not needed beside the others: waste only, or implied
BREAKS = SAFETY + RULES + SPARE
EXCUSES = ("leader-dies", "batch-given-up", "wake-given-up")
broken, noexcuse = arg("--break", None), arg("--no-excuse", None)
if broken and broken not in BREAKS:
    sys.exit(f"unknown rule {broken}: one of {', '.join(BREAKS)}")
D, K, DEATHS, LEADS, EXPIRIES, LATE = int(arg("--dispatchers", 2)), int(arg("--tries", 1)), int(arg("--deaths", 1 if broken in (None, "fail-loudly", "delete-after-commit") else 0)), int(arg("--leads", 2)), int(arg("--expiries", 1)), int(arg("--late", 1))
WOKEN_LEAD = "--woken-lead" in sys.argv
WORLD = arg("--world", {"own-name": "abB"}.get(broken, "abc"))
A, B, C = 1, 2, 4
NEWS = {"ab": (("ended", A), ("came", B)), "abc": (("ended", A), ("came", B), ("came", C)), "abB": (("ended", A), ("came", B), ("ended", B))}[WORLD]
CAP, N = 1, len(NEWS)
BITS = [1 << n for n in range(N)]
NAME = {A: "a", B: "b", C: "c"}
SAME = [sum(1 << m for m in range(N) if NEWS[m][1] == NEWS[n][1]) for n in range(N)]       # news of the same job
Page = namedtuple("Page", "version counted charged twice waits")   # bits of jobs; waits: something is known to wait
# ph: a look at the leader, p put letter, b look again, L load, C commit, D delete, q/v loser's letter and wake, r read letters, t take the lead, i lead, x release, y look
P = namedtuple("P", "kind ph trig lid own seen version new tell tries view at")
S = namedtuple("S", "page lead letters trig wakes procs late dels puts told deaths leads expiries excused nlate")
def text(bits): return "{" + ", ".join(f"{NAME[j]} {what}" for n, (what, j) in enumerate(NEWS) if bits >> n & 1) + "}"
def who(p): return {"s": f"batch({text(p.own)})", "w": "woken", "l": f"lead{p.lid}"}[p.kind]
def ended(s):
    e = 0
    for n, (what, j) in enumerate(NEWS):
        if what == "ended" and s.trig[n] != "-": e |= j
    return e
def came(s): return sum(j for n, (what, j) in enumerate(NEWS) if what == "came" and s.trig[n] != "-")
def jobs(bits, kind):
    r = 0
    for n, (what, j) in enumerate(NEWS):
        if bits >> n & 1 and what == kind: r |= j
    return r
def alive(s, lid): return any(p.lid == lid for p in s.procs)
def live(s, p): return s.lead is not None and not s.lead[1] and s.lead[0] != p.lid
def decide(s, p):
    """What a pass of p decides if it loads now: the new summary or None, what it tells fleets of, what waits as far as it knows."""
    page, news = s.page, p.own | p.seen
    over = ended(s) | s.told
    told = jobs(news, "came")
    if p.kind == "l": cands = p.view | told if p.view >= 0 and (p.at == page.version or broken == "view-by-version") else came(s)
    else: cands = came(s) | told if page.waits else told
    cands &= ~(page.counted | over)                    # what is chosen is read first: items decide
    ends = jobs(news, "ended") & page.counted
    counted, tell = page.counted & ~ends, 0
    for j in (A, B, C):
        if cands & j and counted.bit_count() < CAP: counted |= j; tell |= j
    left = cands & ~tell
    waits = bool(left) if broken != "waits-if-left" else bool(left & ~told)
    new = Page(page.version+1, counted, page.charged | ends, page.twice | (page.charged & ends), waits)
    same = new[1:] == page[1:]
    silent = same and (broken == "no-silent-pass" or not (left & told))     # whoever leaves a job of which it was told waiting turns the version
    return None if silent else new, tell, left
def steps(s):
    def procs(old, *new): l = list(s.procs); l.remove(old); return tuple(sorted(l + list(new)))
    def go(p, **c):
        sc = {k[2:]: v for k, v in c.items() if k.startswith("s_")}
        pc = {k: v for k, v in c.items() if not k.startswith("s_")}
        return s._replace(procs=procs(p, p._replace(**pc)), **sc)
    def drop_trig(p, to): return s.trig if p.trig < 0 else s.trig[:p.trig] + (to,) + s.trig[p.trig+1:]
    def end(p, **c): return s._replace(procs=procs(p), trig=drop_trig(p, "x"), **c)
    def excuse(name, bits): return s.excused | bits if noexcuse != name else s.excused
    def dead(p): return s.lead is not None and not alive(s, s.lead[0])
    def to_leader(p, bits, **c):                       # p goes, because somebody leads: excused if that one is dead
        return end(p, excused=excuse("leader-dies", bits) if dead(p) else s.excused, **c)
    new = P("s", "a", -1, 0, 0, 0, 0, None, 0, 0, -1, 0)
    if len(s.procs) < D:
        for n in range(N):
            if s.trig[n] == "q":
                yield f"batch({text(1<<n)}) begins", s._replace(trig=s.trig[:n]+("h",)+s.trig[n+1:], procs=tuple(sorted(s.procs+(new._replace(trig=n, own=1<<n),))))
        if s.wakes and WOKEN_LEAD:
            if s.leads < LEADS: yield f"a wake comes: lead{s.leads+1}", s._replace(wakes=s.wakes-1, leads=s.leads+1, procs=tuple(sorted(s.procs+(new._replace(kind="l", ph="t", lid=s.leads+1, trig=-2),))))
        elif s.wakes: yield "a wake comes", s._replace(wakes=s.wakes-1, procs=tuple(sorted(s.procs+(new._replace(kind="w"),))))
        if s.leads < LEADS: yield f"lead{s.leads+1} is invoked", s._replace(leads=s.leads+1, procs=tuple(sorted(s.procs+(new._replace(kind="l", ph="t", lid=s.leads+1),))))
    for n, (what, j) in enumerate(NEWS):
        if s.trig[n] == "-" and what == "came": yield f"{NAME[j]} comes", s._replace(trig=s.trig[:n]+("q",)+s.trig[n+1:])
        if s.trig[n] == "-" and what == "ended" and s.told & j: yield f"{NAME[j]} ends", s._replace(trig=s.trig[:n]+("q",)+s.trig[n+1:])
    if s.lead and not s.lead[1] and s.expiries < EXPIRIES: yield f"lead{s.lead[0]} expires", s._replace(lead=(s.lead[0], True), expiries=s.expiries+1)
    if s.late:
        follows, core = s.late
        ok = s.page.version == follows or broken == "version"
        yield f"a late commit on version {follows} arrives: {'applied' if ok else 'refused'}", s._replace(late=None, page=core._replace(version=s.page.version+1) if ok else s.page)
    for n in range(N):
        if s.dels >> n & 1:
            gone = s.letters & ~(SAME[n] if broken == "own-name" else 1<<n)
            yield f"a late delete of the letter {text(1<<n)} arrives", s._replace(dels=s.dels & ~(1<<n), letters=gone)
            if gone != s.letters: yield f"a late delete of the letter {text(1<<n)} arrives, will come again", s._replace(letters=gone)
        if s.puts >> n & 1:
            yield f"a late letter {text(1<<n)} arrives", s._replace(puts=s.puts & ~(1<<n), letters=s.letters | 1<<n)
    for p in sorted(set(s.procs)):
        w = who(p)
        def put_letter(then, label):
            kept = s.letters & ~SAME[p.trig] if broken == "own-name" else s.letters
            yield f"{w} {label}: {text(p.own)}", then(s_letters=kept | p.own)
            if s.nlate < LATE:
                if broken == "put-answered": yield f"{w} {label}: {text(p.own)}, unanswered", then(s_puts=s.puts | p.own, s_nlate=s.nlate+1)
                elif s.deaths < DEATHS: yield f"{w} {label}: {text(p.own)}, unanswered, and fails", s._replace(procs=procs(p), trig=drop_trig(p, "q"), puts=s.puts | p.own, nlate=s.nlate+1, deaths=s.deaths+1)
        def ending(**c): return end(p, **{k[2:]: v for k, v in c.items()})
        if s.deaths < DEATHS:
            more = dict(procs=procs(p), deaths=s.deaths+1)
            if p.kind == "s":
                if broken == "fail-loudly": yield f"{w} fails, and says nothing", s._replace(**more, trig=drop_trig(p, "x"))
                else: yield f"{w} dies, its batch comes again", s._replace(**more, trig=drop_trig(p, "q"))
                yield f"{w} dies, its batch is given up", s._replace(**more, trig=drop_trig(p, "l"), excused=excuse("batch-given-up", p.own))
            elif p.kind == "w":
                yield f"{w} dies, its wake comes again", s._replace(**more, wakes=min(2, s.wakes+1))
                yield f"{w} dies, its wake is given up", s._replace(**more, excused=excuse("wake-given-up", s.letters))
            elif p.trig == -2:
                yield f"{w} dies, its wake comes again", s._replace(**more, wakes=min(2, s.wakes+1))
                yield f"{w} dies, its wake is given up", s._replace(**more, excused=excuse("wake-given-up", s.letters))
            else: yield f"{w} dies", s._replace(**more, excused=excuse("leader-dies", s.letters))
        if p.ph == "a":
            if live(s, p) and broken != "first-look":
                if p.kind == "w": yield f"{w} finds a leader, goes", to_leader(p, s.letters)
                else: yield f"{w} finds a leader", go(p, ph="p")
            elif broken == "first-look" and p.kind == "s" and s.lead: yield f"{w} makes a pass though somebody leads", go(p, ph="L")
            else: yield f"{w} finds no leader", go(p, ph="r" if p.kind == "w" else "L")
        elif p.ph == "p":
            if broken == "second-look": yield from put_letter(ending, "leaves a letter and goes")
            else: yield from put_letter(lambda **c: go(p, ph="b", **c), "leaves a letter")
        elif p.ph == "b":
            if live(s, p): yield f"{w} looks again: somebody leads, goes", to_leader(p, p.own)
            else: yield f"{w} looks again: nobody leads", go(p, ph="L", seen=p.own)
        elif p.ph == "r":
            gone = s.letters if broken != "delete-after-commit" else 0
            if p.kind == "w" and not s.letters: yield f"{w} reads no letter, goes", end(p)
            else: yield f"{w} reads the letters {text(s.letters)}", go(p, ph="L", seen=s.letters, s_letters=gone)
        elif p.ph == "L":
            core, tell, left = decide(s, p)
            if core is None: yield f"{w} loads version {s.page.version}, has nothing to write", go(p, ph="D", view=left if p.kind == "l" else -1, at=s.page.version if p.kind == "l" else 0, version=0, tries=0)
            else:
                t = go(p, ph="C", version=s.page.version, new=core, tell=tell, view=left if p.kind == "l" else -1, at=s.page.version+1 if p.kind == "l" else 0)
                if broken == "send-after-commit": t = t._replace(told=t.told | tell)
                yield f"{w} loads version {s.page.version}, decides: counted {[NAME[j] for j in (A,B,C) if core.counted & j]}{', something waits' if core.waits else ', nothing waits'}", t
        elif p.ph == "C":
            clean = dict(version=0, new=None, tell=0)
            ok = s.page.version == p.version or broken == "version"
            if ok: yield f"{w} commits: version {s.page.version+1}", go(p, ph="D", **clean, tries=0, s_page=p.new._replace(version=s.page.version+1), s_told=s.told | p.tell)
            def lost():
                tries = p.tries + 1
                forget = dict(view=-1, at=0) if broken != "view-by-version" else {}
                if broken == "refused-deletes-nothing" and p.seen: return dict(ph="D", **clean, **forget)
                if p.kind == "l": return dict(ph="r", **clean, **forget)
                if tries < K: return dict(ph="L", tries=tries, **clean)
                if p.kind == "w": return dict(ph="v", tries=0, **clean)
                return dict(ph="W" if broken == "letter-before-wake" else "q", tries=0, **clean)
            if not ok: yield f"{w} is refused at version {p.version}", go(p, **lost())
            elif s.late is None and s.nlate < LATE: yield f"{w} gets no answer to its commit", go(p, **lost(), s_late=(p.version, p.new), s_nlate=s.nlate+1)
        elif p.ph == "D":
            done = (lambda **c: go(p, ph="i", seen=0, **c)) if p.kind == "l" else ending
            if not p.seen: yield f"{w} is done", done()
            else:
                bits = 0
                for n in range(N):
                    if p.seen >> n & 1: bits |= SAME[n] if broken == "own-name" else 1<<n
                if broken == "delete-what-was-read": bits = -1
                if broken == "delete-after-commit": bits = 0
                yield f"{w} deletes the letters {text(p.seen)}", done(s_letters=s.letters & ~bits)
                if s.nlate < LATE and broken != "delete-what-was-read": yield f"{w} deletes the letters {text(p.seen)}, late", done(s_dels=s.dels | p.seen, s_nlate=s.nlate+1)
        elif p.ph == "q":
            if broken == "loser-leaves-letter": yield f"{w} has lost, goes", end(p)
            else: yield from put_letter(lambda **c: go(p, ph="v", **c), "has lost, leaves a letter")
        elif p.ph == "v":
            if live(s, p): yield f"{w} has lost, somebody leads, goes", to_leader(p, p.own | p.seen)
            elif broken == "loser-wakes" and p.kind == "s" or broken == "woken-loser-wakes" and p.kind == "w": yield f"{w} has lost, goes", end(p)
            else: yield f"{w} has lost, sends a wake, goes", end(p, wakes=min(2, s.wakes+1))
        elif p.ph == "W": yield f"{w} has lost, sends a wake", go(p, ph="Q", s_wakes=min(2, s.wakes+1))
        elif p.ph == "Q": yield from put_letter(ending, "leaves a letter and goes")
        elif p.ph == "t":
            if s.lead is None or s.lead[1] or s.lead[0] == p.lid:
                if broken == "take-then-read" and p.seen == 0 and p.tries == 0: yield f"{w} reads the letters {text(s.letters)}", go(p, seen=s.letters, tries=1)
                else: yield f"{w} takes the lead", go(p, ph="L" if broken == "take-then-read" else "r", tries=0, s_lead=(p.lid, False))
            else: yield f"{w} finds another leader, goes", to_leader(p, s.letters)
        elif p.ph == "i":
            mine = s.lead is not None and s.lead[0] == p.lid
            if s.letters: yield f"{w} polls", go(p, ph="r")
            if mine and s.lead[1] and broken == "look-when-expired": yield f"{w} sees that its time is over, goes", end(p)
            if not mine and broken != "superseded-looks": yield f"{w} sees that another leads or led, goes on as one that ends", go(p, ph="y", view=-1, at=0)
            if not mine and broken == "superseded-looks" and live(s, p): yield f"{w} sees that another leads, goes at once", end(p)
            if mine and s.lead[1]: yield f"{w} renews", go(p, s_lead=(p.lid, False))
            yield f"{w} ends its lead", go(p, ph="k" if broken == "release-then-look" else "x")
        elif p.ph == "k":                              # broken: looks, then releases
            if s.letters: yield f"{w} looks: letters", go(p, ph="r")
            else: yield f"{w} looks: no letter", go(p, ph="z")
        elif p.ph == "z": yield f"{w} releases, goes", end(p, lead=None if s.lead and s.lead[0] == p.lid else s.lead)
        elif p.ph == "x":
            forget = dict(view=-1, at=0) if broken != "retake-forgets" else {}
            free = s.lead is not None and (s.lead[0] == p.lid or broken == "release-own-only")
            yield f"{w} releases", go(p, ph="y", **forget, s_lead=None if free else s.lead)
        elif p.ph == "y":
            if not s.letters: yield f"{w} looks: no letter, goes", end(p)
            elif live(s, p): yield f"{w} looks: letters, and another leads, goes", to_leader(p, s.letters)
            else:
                yield f"{w} looks: letters, goes on", go(p, ph="t")
                yield f"{w} looks: letters, sends a wake, goes", end(p, wakes=min(2, s.wakes+1))
def covered(s, n):
    bit = 1 << n
    if s.trig[n] == "q": return True
    inbox = bool(s.letters & bit)
    if inbox and s.wakes: return True
    for p in s.procs:
        if p.own & bit and p.ph in "apbLCqvWQ": return True
        if p.kind == "w" and (inbox and p.ph in "ar" or p.seen & bit and p.ph in "LC" or inbox and p.ph == "v"): return True
        if p.kind == "l":
            if p.seen & bit and p.ph in "LCt": return True
            if inbox and p.ph in "trLCDixyk" and not (p.ph == "D" and p.seen & bit): return True
    return False
def bad(s):
    page = s.page
    running = (A if s.trig[0] == "-" else 0) | s.told & ~ended(s)
    if running & ~page.counted: return f"{[NAME[j] for j in (A,B,C) if running & ~page.counted & j]} runs uncounted"
    if running.bit_count() > CAP: return "cap exceeded"
    if page.twice: return "charged twice"
    over = ended(s)
    for n, (what, j) in enumerate(NEWS):
        if s.trig[n] == "-" or s.excused >> n & 1: continue
        done = not page.counted & j if what == "ended" else bool((page.counted | over | s.told) & j) or page.waits and page.counted.bit_count() >= CAP
        if not done and not covered(s, n): return f"'{NAME[j]} {what}' waits for a tick" + ("" if s.letters >> n & 1 or page.waits else ", and only one that looks at everything finds it")
trig = tuple("-" if (what == "ended" and j == B) or j == C else "q" for what, j in NEWS)
start = S(Page(0, A, 0, 0, False), None, 0, trig, 0, (), None, 0, 0, 0, 0, 0, 0, 0, 0)
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
sys.exit(0 if bool(found) == bool(noexcuse or broken and broken not in SPARE) else 1)
