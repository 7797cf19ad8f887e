/**
 * The reference texts and the oracles' rulings once more, written to be read and not to be fast: everything is scored
 * and sorted at every decision. Shares no code with lib.
 */

export interface NaiveFairness {
  readonly config: {
    readonly globalMax: number | null;
    readonly alpha: number;
    readonly types: readonly {
      readonly type: string;
      readonly priority: number;
      readonly maxConcurrency: number;
      readonly conflictGroup: string;
      readonly defaultCost: number;
    }[];
    readonly initialEstimates: readonly {
      readonly type: string;
      readonly jobId: string;
      readonly cost: number;
    }[];
    readonly keyTtlMs: number | null;
    readonly estimateTtlMs: number | null;
    readonly idlePolicy: 'none' | 'advance';
    readonly resetEveryMs: number | null;
  };
  readonly untilMs: number;
  readonly arrivals: readonly {
    readonly atMs: number;
    readonly id: number;
    readonly type: string;
    readonly jobId: string;
    readonly fairnessKey: string;
    readonly durationMs: number;
  }[];
}

/** Ledgers count in whole units, of which 65,536 are a millisecond: a tie on paper is a tie here. */
const UNITS_PER_SEC = 65_536_000;

export function naiveFairness({ config, untilMs, arrivals }: NaiveFairness) {
  type Arrival = (typeof arrivals)[number];
  const typeOf = (job: Arrival) => config.types.find(({ type }) => type === job.type);
  const pair = (job: { type: string; jobId: string }): string => JSON.stringify([job.type, job.jobId]);
  const ledger = new Map<string, number>();
  const keySeen = new Map<string, number>();
  const estimates = new Map<string, number>();
  const pairSeen = new Map<string, number>();
  let pending: Arrival[] = [];
  let running: { job: Arrival; endMs: number }[] = [];
  const dispatch: [number, number][] = [];
  for (const known of config.initialEstimates) {
    estimates.set(pair(known), known.cost);
    pairSeen.set(pair(known), 0);
  }
  const inUse = () => [...pending, ...running.map(({ job }) => job)];
  let resets = 0;
  const keepCache = (nowMs: number): void => {
    const keys = new Set(inUse().map(({ fairnessKey }) => fairnessKey));
    for (const [key, seen] of keySeen) {
      if (config.keyTtlMs !== null && !keys.has(key) && nowMs - seen >= config.keyTtlMs) {
        ledger.delete(key);
        keySeen.delete(key);
      }
    }
    const pairs = new Set(inUse().map(pair));
    for (const [name, seen] of pairSeen) {
      if (config.estimateTtlMs !== null && !pairs.has(name) && nowMs - seen >= config.estimateTtlMs) {
        estimates.delete(name);
        pairSeen.delete(name);
      }
    }
    while (config.resetEveryMs !== null && (resets + 1) * config.resetEveryMs <= nowMs) {
      resets += 1;
      for (const key of ledger.keys()) ledger.set(key, 0);
    }
  };
  const see = (job: Arrival, nowMs: number): void => {
    keySeen.set(job.fairnessKey, nowMs);
    pairSeen.set(pair(job), nowMs);
  };
  const queue = [...arrivals].sort((a, b) => a.atMs - b.atMs || a.id - b.id);
  for (;;) {
    const nowMs = Math.min(queue[0]?.atMs ?? Infinity, ...running.map(({ endMs }) => endMs));
    if (nowMs > untilMs || nowMs === Infinity) break;
    keepCache(nowMs);
    while (queue[0]?.atMs === nowMs) {
      const job = queue.shift() as Arrival;
      if (typeOf(job) === undefined) continue;
      const active = new Set(inUse().map(({ fairnessKey }) => fairnessKey));
      const least = Math.min(...[...active].map((key) => ledger.get(key) ?? 0));
      if (config.idlePolicy === 'advance' && active.size > 0 && !active.has(job.fairnessKey)) {
        ledger.set(job.fairnessKey, Math.max(ledger.get(job.fairnessKey) ?? 0, least));
      }
      pending.push(job);
      see(job, nowMs);
    }
    for (const { job } of running.filter(({ endMs }) => endMs === nowMs)) {
      const before = estimates.get(pair(job)) ?? typeOf(job)?.defaultCost ?? 0;
      estimates.set(pair(job), config.alpha * (job.durationMs / 1000) + (1 - config.alpha) * before);
      see(job, nowMs);
    }
    running = running.filter(({ endMs }) => endMs !== nowMs);
    for (;;) {
      const next = [...pending]
        .sort(
          (a, b) =>
            (typeOf(b)?.priority ?? 0) - (typeOf(a)?.priority ?? 0) ||
            (ledger.get(a.fairnessKey) ?? 0) - (ledger.get(b.fairnessKey) ?? 0) ||
            a.atMs - b.atMs ||
            a.id - b.id,
        )
        .find((job) => {
          const own = typeOf(job);
          if (own === undefined || running.length >= (config.globalMax ?? Infinity)) return false;
          const inTier = running.filter((other) => typeOf(other.job)?.priority === own.priority).length;
          const ofType = running.filter((other) => other.job.type === job.type).length;
          const conflicts = running.some(
            (other) =>
              own.conflictGroup !== '' &&
              typeOf(other.job)?.conflictGroup === own.conflictGroup &&
              other.job.jobId === job.jobId,
          );
          return inTier < own.priority && ofType < own.maxConcurrency && !conflicts;
        });
      if (next === undefined) break;
      pending = pending.filter((job) => job !== next);
      running.push({ job: next, endMs: nowMs + next.durationMs });
      const cost = estimates.get(pair(next)) ?? typeOf(next)?.defaultCost ?? 0;
      ledger.set(next.fairnessKey, (ledger.get(next.fairnessKey) ?? 0) + Math.round(cost * UNITS_PER_SEC));
      see(next, nowMs);
      dispatch.push([nowMs, next.id]);
    }
  }
  keepCache(untilMs);
  const arrived = arrivals.filter(({ atMs }) => atMs <= untilMs);
  return {
    dispatch,
    accumulated: Object.fromEntries(
      arrived.map(({ fairnessKey }) => [fairnessKey, (ledger.get(fairnessKey) ?? 0) / UNITS_PER_SEC]),
    ),
    estimates: [...estimates]
      .map(([name, cost]) => [...(JSON.parse(name) as [string, string]), cost] as const)
      .sort((a, b) => (a[0] === b[0] ? (a[1] < b[1] ? -1 : 1) : a[0] < b[0] ? -1 : 1)),
  };
}

export interface NaiveSlot {
  readonly id: number;
  readonly types: readonly number[];
}

export interface NaiveJob {
  readonly id: number;
  readonly type: number;
  readonly priority: number;
  readonly createdAt: number;
  readonly onDemand: boolean;
  readonly durationMs: number;
}

/** One pass: which job gets which slot. Takes what starts, or is lost, out of `waiting`. */
export function naivePass(
  nowMs: number,
  free: Set<number>,
  slots: readonly NaiveSlot[],
  waiting: NaiveJob[],
  lost: ReadonlySet<number>,
): [job: number, slot: number][] {
  const assigned: [number, number][] = [];
  const compatible = (job: NaiveJob): NaiveSlot[] =>
    slots.filter(({ id, types }) => free.has(id) && types.includes(job.type));
  let losses = 0;
  for (let again = true; again; ) {
    again = false;
    const score = (job: NaiveJob): number => {
      const ageMs = Math.max(0, nowMs - job.createdAt);
      const count = compatible(job).length;
      const rarity = count === 0 ? 0 : Math.floor(500 / count);
      const bonus = job.onDemand ? 4096 * 1000 + ageMs * 32 : 0;
      return job.priority * 1024 * 1000 + ageMs * 16 + rarity * 1000 + bonus;
    };
    const scored = waiting.map((job) => ({ job, points: score(job) }));
    scored.sort((a, b) => b.points - a.points || a.job.createdAt - b.job.createdAt || a.job.id - b.job.id);
    for (const { job } of scored) {
      const [best] = compatible(job).sort(
        (a, b) => new Set(a.types).size - new Set(b.types).size || a.id - b.id,
      );
      if (best === undefined) continue;
      waiting.splice(waiting.indexOf(job), 1);
      if (!job.onDemand && lost.has(job.id)) {
        losses += 1;
        if (losses <= 5) continue;
        losses = 0;
        again = true;
        break;
      }
      if (!job.onDemand) losses = 0;
      free.delete(best.id);
      assigned.push([job.id, best.id]);
    }
  }
  return assigned;
}

export function naiveStream(slots: readonly NaiveSlot[], jobs: readonly NaiveJob[], untilMs: number) {
  const free = new Set(slots.map(({ id }) => id));
  const queue = [...jobs].sort((a, b) => a.createdAt - b.createdAt || a.id - b.id);
  const waiting: NaiveJob[] = [];
  let running: { slot: number; endMs: number }[] = [];
  const starts: [number, number, number][] = [];
  for (;;) {
    const nowMs = Math.min(queue[0]?.createdAt ?? Infinity, ...running.map(({ endMs }) => endMs));
    if (nowMs > untilMs || nowMs === Infinity) return starts;
    while (queue[0]?.createdAt === nowMs) waiting.push(queue.shift() as NaiveJob);
    for (const { slot, endMs } of running) if (endMs === nowMs) free.add(slot);
    running = running.filter(({ endMs }) => endMs !== nowMs);
    for (const [id, slot] of naivePass(nowMs, free, slots, waiting, new Set())) {
      starts.push([nowMs, id, slot]);
      running.push({ slot, endMs: nowMs + (jobs.find((job) => job.id === id)?.durationMs ?? 0) });
    }
  }
}
