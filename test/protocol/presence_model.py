"""Presence: 9 keys with backlog and key A, 10 slots (30 in the last row), jobs of a second. A hoards for an hour (one job in `every` s; or one job after the other, each
submitted before the last one ends), then submits without end. How long do the nine get less than half of the slots they shared before?

`plan` is the rule that has a tolerance in time, `zero` the same without one, `credit` the one that the product has (lib/core/fairness.ts).
python3 presence_model.py"""
def run(rule, every, overlap=False, slots=10, idle=30.0, credit=30.0, hoard=3600):
    share = {k: 0.0 for k in "ABCDEFGHIJ"}; touched = {k: 0.0 for k in share}; flying = []  # (ends, key)
    waitsA = []; t = 0.0; starved = 0
    while t < hoard + 2000:
        for e in [e for e in flying if e[0] <= t]: flying.remove(e); touched[e[1]] = e[0]
        held = {k for _, k in flying}
        if t < hoard:
            if overlap:
                if not waitsA and sum(k == "A" for _, k in flying) <= 1 and not any(k == "A" and e - t > 0.6 for e, k in flying): waitsA.append(t)
            elif t % every == 0: waitsA.append(t)
        waiting = [k for k in share if k != "A" or waitsA or t >= hoard]
        ready = lambda k: (waitsA[0] if waitsA else hoard) if k == "A" else 0.0
        others = [share[k] for k in set(waiting) | held if k != "A"]
        if "A" in waiting and others:
            least = min(others)
            if "A" not in held and ready("A") - touched["A"] >= (idle if rule != "zero" else 1e-9): share["A"] = max(share["A"], least); touched["A"] = t
            elif rule == "credit": share["A"] = max(share["A"], least - credit)
        n = 0
        while len(flying) < slots and waiting:
            k = min(waiting, key=lambda k: (share[k], ready(k)))
            share[k] += 1; flying.append((t + 1.0, k)); touched[k] = t
            if k == "A" and waitsA:
                waitsA.pop(0)
                if not waitsA and t < hoard: waiting.remove("A")
        if t >= hoard and sum(k != "A" for _, k in flying) < slots / 2: starved += 0.5
        t += 0.5
    return starved
for name, kw in (("a job each 25 s", dict(every=25)), ("a job each 35 s", dict(every=35)), ("one always in flight", dict(every=1, overlap=True, slots=30))):
    print(f"{name:22}", ", ".join(f"{rule}: nine keys starve {run(rule, **kw):.0f} s" for rule in ("plan", "zero", "credit")))
