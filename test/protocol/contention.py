"""How passes contend for the version of one partition summary: N shards in a closed loop, each with a gap (its invocation), 30 ms from load to
commit (lognormal), K tries, then a letter. It prints what is committed, refused and left in letters, for an open stream of passes too.

Run: python3 contention.py
"""
import heapq, random, math
def run(n, T=30.0, gap=20.0, K=3, slow=0, slowT=120.0, secs=60, sigma=0.35, backoff=0.0, seed=1):
    r = random.Random(seed); version = 0; q = []; ok = lost = letters = 0; sl = [0, 0, 0]
    def dur(i): return r.lognormvariate(math.log(slowT if i < slow else T), sigma)
    for i in range(n): heapq.heappush(q, (r.random()*(T+gap), i, "load", 0, 0))
    while q:
        t, i, what, v, tries = heapq.heappop(q)
        if t > secs*1000: break
        if what == "load": heapq.heappush(q, (t+dur(i), i, "commit", version, tries)); continue
        if v == version:
            version += 1; ok += 1
            if i < slow: sl[0] += 1
            heapq.heappush(q, (t+gap*(0.5+r.random()), i, "load", 0, 0))
        else:
            lost += 1; tries += 1
            if i < slow: sl[1] += 1
            if tries >= K:
                letters += 1
                if i < slow: sl[2] += 1
                heapq.heappush(q, (t+12+gap*(0.5+r.random()), i, "load", 0, 0))
            else: heapq.heappush(q, (t+backoff*r.random(), i, "load", 0, tries))
    return ok/secs, lost/secs, letters/secs, [x/secs for x in sl]
for n in (1, 2, 4, 8, 16, 32):
    o, l, le, _ = run(n)
    print(f"{n:2} shards: {o:5.1f} commits/s, {l:6.1f} refused/s ({l/(o+l):4.0%}), {le:5.1f} letters/s ({le/(o+le):4.0%} of batches)")
for n in (4, 8): 
    o, l, le, s = run(n, slow=1)
    print(f"{n} shards, one of 120 ms: {o:.1f}/s; the slow one {s[0]:.2f} commits/s, {s[1]:.1f} refused/s, {s[2]:.2f} letters/s")
for rate in (2, 5, 10, 20, 33):
    p = 1-math.exp(-rate*0.03); print(f"open, {rate}/s: a try loses {p:.0%}, three {p**3:.2%}")
