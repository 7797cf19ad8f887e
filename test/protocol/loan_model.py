"""Exhaustive check of capacity that moves between partitions, on top of reserve-then-claim (cas_model.py).

World: two partitions with a share of one unit each, and a dispatcher for each. Every interleaving is explored, with commits
that arrive late (so do those of a dispatcher that froze), twice or never, answers that get lost, and loans that end while jobs hold
what was lent.

A commit changes a partition at the turn that it follows, and raises the turn (the version of the partition summary). It reserves a unit, settles one, lends one (the
loan then stands with both partitions), or gives a loan back. The turn alone refuses a commit that does not
follow the last one. Lender and borrower know only what they
have loaded. When a loan ends is the borrower's to see; the lender counts on nothing before it is given back.

Run: python3 loan_model.py                   all states must hold the invariant
     python3 loan_model.py --break NAME      removes one protection; a violation must be found
Exit status 0: as it must be. The trail to a violation is the shortest one.
"""
import sys
from collections import deque, namedtuple

P, SHARE, MAX_TURN, MAX_LOANS, MAX_WIRE = 2, 1, 4, 2, 2
BREAKS = ("commit-turn-check", "lender-counts-loan", "return-by-borrower", "return-what-is-free")
broken = sys.argv[sys.argv.index("--break") + 1] if "--break" in sys.argv else None
if broken and broken not in BREAKS:
    sys.exit(f"unknown protection {broken}: one of {', '.join(BREAKS)}")

Part = namedtuple("Part", "turn held")                    # held: units that reservations count
Loan = namedtuple("Loan", "id to")                        # of one unit, from the other partition
Known = namedtuple("Known", "turn held loans")            # what a dispatcher has loaded
Commit = namedtuple("Commit", "part turn kind loan")
State = namedtuple("State", "parts loans knows wire next_id")

def put(t, i, v): return t[:i] + (v,) + t[i + 1:]

def capacity(p, loans, ended):
    borrowed = sum(1 for l in loans if l.to == p and not ended)
    lent = sum(1 for l in loans if l.to != p and not (ended and broken == "return-by-borrower"))
    return max(0, SHARE + borrowed - (0 if broken == "lender-counts-loan" else lent))

def choices(s, p):
    """What the partition's dispatcher may commit, by what it knows."""
    _turn, held, loans = s.knows[p]
    for ended in (False, True):                           # clocks: whether loans have ended by now
        if capacity(p, loans, ended) > held:
            yield "reserves", None
            if s.next_id <= MAX_LOANS: yield "lends", Loan(s.next_id, 1 - p)
    if held: yield "settles", None
    for l in loans:
        if l.to == p and (capacity(p, loans, False) > held or broken == "return-what-is-free"):
            yield "gives back", l

def applied(s, c):
    part = s.parts[c.part]
    if part.turn != c.turn and broken != "commit-turn-check": return None
    held = part.held + (c.kind == "reserves") - (c.kind == "settles")
    loans = s.loans
    if c.kind == "lends":
        if c.loan in loans: return None                   # it is put where there is none
        loans = loans | {c.loan}
    if c.kind == "gives back":
        if c.loan not in loans: return None               # it is taken away where it is
        loans = loans - {c.loan}
    if held < 0: return None
    return s._replace(parts=put(s.parts, c.part, Part(part.turn + 1, held)), loans=loans)

def steps(s):
    for p, part in enumerate(s.parts):
        now = Known(part.turn, part.held, s.loans)
        if s.knows[p] != now:
            yield f"P{p} is loaded", s._replace(knows=put(s.knows, p, now))
        if s.knows[p] is None or len(s.wire) >= MAX_WIRE: continue
        for kind, loan in set(choices(s, p)):
            c = Commit(p, s.knows[p].turn, kind, loan)
            what = f"P{p} sends that it {kind}" + ("" if loan is None else f" loan {loan.id}")
            # Answered or not, nothing is known for certain before it is loaded again.
            yield what, s._replace(wire=s.wire | {c}, next_id=s.next_id + (kind == "lends"), knows=put(s.knows, p, None))
    for c in s.wire:
        rest = s.wire - {c}
        after = applied(s, c)
        what = f"P{c.part} {c.kind}"
        yield f"the commit by which {what} is lost, or refused", s._replace(wire=rest)
        if after is not None:
            yield what, after._replace(wire=rest)
            # A reservation is put where there is none: its repetition changes nothing.
            if c.kind != "reserves": yield f"{what}, and the request will come again", after

def violation(s):
    held = sum(p.held for p in s.parts)
    if held > P * SHARE: return f"capacity {P * SHARE} exceeded: {held} units are held"

start = State((Part(0, 0),) * P, frozenset(), (None,) * P, frozenset(), 1)
seen, queue, found = {start: None}, deque([start]), None
while queue and not found:
    s = queue.popleft()
    if why := violation(s): found = (s, why)
    else:
        for label, t in steps(s):
            if t not in seen and max(p.turn for p in t.parts) <= MAX_TURN: seen[t] = (s, label); queue.append(t)
print(f"{len(seen)} states", end="")
if found:
    s, why = found; trail = []
    while seen[s]: s, label = seen[s]; trail.append(label)
    print(f"; violation: {why}"); print("\n".join(f"  {i + 1}. {l}" for i, l in enumerate(reversed(trail))))
else: print("; no violation")
sys.exit(0 if bool(found) == bool(broken) else 1)
