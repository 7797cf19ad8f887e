/** Where two players of one scenario differ first, and the least of the scenario that still shows it. */
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { withoutChunks } from '../simulation/shrink.ts';
import { breachOf } from './bounds.ts';
import { Deployed } from './deployed.ts';
import { referenceOf } from './partitions.ts';
import { type AttemptPlan, type Player, play, type Scenario, type Start } from './play.ts';
import { ATTENTIVE } from './scenarios.ts';

export interface Difference {
  /** The place in the sequence of starts. */
  readonly at: number;
  readonly expected: Start | undefined;
  /** An error's text, where the player broke. */
  readonly actual: Start | string | undefined;
}

export type MakePlayer = (scenario: Scenario) => Player;

const deployed: MakePlayer = (scenario) => new Deployed(scenario);

const isSame = (one: Start | undefined, other: Start | undefined): boolean =>
  one?.atMs === other?.atMs &&
  one?.id === other?.id &&
  one?.fleet === other?.fleet &&
  one?.attempt === other?.attempt;

/** The first start that is not the reference's; undefined if all are. Where hints are lost, the first breach of a bound. */
export async function differenceOf(
  scenario: Scenario,
  make: MakePlayer = deployed,
): Promise<Difference | undefined> {
  if (scenario.hearing.lost > 0) {
    const breach = await breachOf(scenario);
    return breach === undefined ? undefined : { at: 0, expected: undefined, actual: breach };
  }
  if (vanishes(scenario)) return differenceWithLosses(scenario, make(scenario));
  const expected = await play(scenario, referenceOf(scenario));
  const player = make(scenario);
  const actual: Start[] = [];
  const watched: Player = {
    instant: async (atMs, happenings) => {
      const starts = await player.instant(atMs, happenings);
      actual.push(...starts);
      // What follows a difference follows from it.
      if (starts.some((start, at) => !isSame(start, expected[actual.length - starts.length + at])))
        throw new Differs();
      const next = expected[actual.length];
      if (next !== undefined && next.atMs <= atMs && !happenings.some(({ op }) => op === 'wake'))
        throw new Differs();
      return starts;
    },
    wakeBy: (wakeAt) => player.wakeBy?.(wakeAt),
  };
  try {
    await play(scenario, watched);
  } catch (error) {
    if (!(error instanceof Differs)) {
      const at = actual.length;
      return { at, expected: expected[at], actual: String(error instanceof Error ? error.stack : error) };
    }
  }
  const length = Math.max(expected.length, actual.length);
  for (let at = 0; at < length; at += 1) {
    if (!isSame(expected[at], actual[at])) return { at, expected: expected[at], actual: actual[at] };
  }
  return undefined;
}

class Differs extends Error {}

const vanishes = ({ jobs }: Scenario): boolean =>
  jobs.some(({ attempts }) => attempts.some(({ outcome }) => outcome === 'vanished'));

/**
 * When a worker that says nothing is found to be gone depends on the passes there are. So the deployed path goes first,
 * and the reference is told when each loss was found; that it is found in time is a bound of its own.
 */
async function differenceWithLosses(scenario: Scenario, player: Player): Promise<Difference | undefined> {
  const losses = player.losses ?? [];
  let actual: readonly Start[] = [];
  try {
    actual = await play(scenario, player);
  } catch (error) {
    return { at: 0, expected: undefined, actual: String(error instanceof Error ? error.stack : error) };
  }
  const told = withLosses(scenario, actual, losses);
  if (typeof told === 'string') return { at: 0, expected: undefined, actual: told };
  const expected = await play(told, referenceOf(told));
  for (let at = 0; at < Math.max(expected.length, actual.length); at += 1)
    if (!isSame(expected[at], actual[at])) return { at, expected: expected[at], actual: actual[at] };
  return undefined;
}

/** By when a loss must be found, counted from its type's timeout: its lease, a look a minute later, and a tick. */
const LOSS_FOUND_MS = 30_000 + 60_000 + 60_000;

/** The scenario with each vanished attempt lost when that was found; a text where one was not found in time. */
function withLosses(
  scenario: Scenario,
  starts: readonly Start[],
  losses: NonNullable<Player['losses']>,
): Scenario | string {
  const { types } = resolveConfiguration(scenario.pool);
  let late: string | undefined;
  const jobs = scenario.jobs.map((job) => {
    const timeoutMs = types.find(({ type }) => type === job.type)?.timeoutMs ?? 0;
    const own = starts.filter(({ id }) => id === job.id);
    const attempts = Array.from(
      { length: Math.max(own.length, job.attempts.length) },
      (_, nth): AttemptPlan => {
        const plan = job.attempts[nth] ?? job.attempts.at(-1) ?? job.attempts[0];
        const start = own[nth];
        if (plan.outcome !== 'vanished' || start === undefined) return plan;
        const loss = losses.find(({ id, startedAtMs }) => id === job.id && startedAtMs === start.atMs);
        const endMs = loss?.atMs ?? scenario.untilMs + 1;
        if (endMs > start.atMs + timeoutMs + LOSS_FOUND_MS && endMs <= scenario.untilMs)
          late = `${job.id} vanished with its worker at ${start.atMs}, and that was found at ${endMs}`;
        return { durationMs: endMs - start.atMs, outcome: 'lost' };
      },
    );
    const [first = job.attempts[0], ...others] = attempts;
    return { ...job, attempts: [first, ...others] as const };
  });
  return late ?? { ...scenario, jobs };
}

const SHRINK_RUNS_MAX = 600;

/** Tries ever smaller scenarios that differ, too. */
export async function shrink(
  scenario: Scenario,
  isBroken: (scenario: Scenario) => Promise<boolean>,
): Promise<Scenario> {
  let best = scenario;
  let runs = 0;
  const accept = async (candidate: Scenario): Promise<boolean> => {
    if (runs >= SHRINK_RUNS_MAX) return false;
    runs += 1;
    let isSmaller = false;
    try {
      isSmaller = await isBroken(candidate);
    } catch {
      // A scenario that cannot be played is none.
    }
    if (isSmaller) best = candidate;
    return isSmaller;
  };
  for (let before = Infinity; sizeOf(best) < before; ) {
    before = sizeOf(best);
    await withoutChunks(
      () => best.jobs,
      (jobs) => accept({ ...best, jobs }),
    );
    await withoutChunks(
      () => best.events,
      (events) => accept({ ...best, events }),
    );
    for (const simpler of SIMPLER) {
      const candidate = simpler(best);
      if (sizeOf(candidate) < sizeOf(best)) await accept(candidate);
    }
    for (const [at, job] of best.jobs.entries()) {
      for (const changes of [
        { attempts: [job.attempts[0]] as const },
        { priority: 0 },
        { mode: 'queued' as const },
      ]) {
        const candidate = { ...best, jobs: best.jobs.with(at, { ...(best.jobs[at] ?? job), ...changes }) };
        if (sizeOf(candidate) < sizeOf(best)) await accept(candidate);
      }
    }
  }
  return best;
}

/** What goes wrong without a memory is simpler than what needs one. */
const MEMORY_SIZE = 10_000;

const sizeOf = (scenario: Scenario): number =>
  JSON.stringify(scenario).length + (1 - scenario.hearing.forgets) * MEMORY_SIZE;

const without = <T extends object>(record: T, ...fields: readonly string[]): T =>
  Object.fromEntries(Object.entries(record).filter(([field]) => !fields.includes(field))) as T;

const mapped = <T, U>(
  record: Readonly<Record<string, T>> | undefined,
  map: (value: T) => U,
): Record<string, U> =>
  Object.fromEntries(Object.entries(record ?? {}).map(([name, value]) => [name, map(value)]));

/** Each leaves something out of what a scenario is about. */
const SIMPLER: readonly ((scenario: Scenario) => Scenario)[] = [
  (each) => ({ ...each, hearing: { ...ATTENTIVE, forgets: 1, lost: each.hearing.lost } }),
  (each) => ({ ...each, hearing: { ...ATTENTIVE, forgets: each.hearing.forgets, lost: each.hearing.lost } }),
  (each) => ({ ...each, hearing: { ...each.hearing, noise: 0 } }),
  (each) => ({ ...each, hearing: { ...each.hearing, repeats: 0 } }),
  (each) => ({ ...each, hearing: { ...each.hearing, leftWord: 0 } }),
  (each) => ({ ...each, hearing: { ...each.hearing, forgets: 1 } }),
  (each) => ({ ...each, hearing: { ...each.hearing, dispatchers: 1, changes: 0, leftWord: 0 } }),
  // Without it, dispatchers that take turns differ by what they need not know.
  (each) => ({
    ...each,
    budget: each.budget.newsShare === undefined ? {} : { newsShare: each.budget.newsShare },
  }),
  ...['parkKept', 'batchJobs', 'passesMax', 'promoteMax'].map((field) => (each: Scenario) => ({
    ...each,
    budget: without(each.budget, field),
  })),
  // Types, fleets and tiers that nothing needs.
  (each) => {
    const used = new Set(each.jobs.map(({ type }) => type));
    const types = Object.fromEntries(
      Object.entries(each.pool.types ?? {}).filter(([type]) => used.has(type)),
    );
    const listed = new Set(Object.values(types).flatMap(({ limits = [] }) => limits));
    const limits = Object.fromEntries(
      Object.entries(each.pool.limits ?? {}).filter(([limit]) => listed.has(limit)),
    );
    const fleets = Object.fromEntries(
      Object.entries(each.pool.fleets ?? {}).flatMap(([fleet, input]) => {
        const own = input.types.filter((type) => used.has(type));
        return own.length === 0 ? [] : [[fleet, { ...input, types: own }]];
      }),
    );
    const events = each.events.filter((event) => event.op !== 'slots' || event.fleet in fleets);
    const inUse = new Set(Object.values(types).map(({ tier }) => tier));
    const tiers = (each.pool.tiers ?? []).filter(({ tier }) => inUse.has(tier));
    return {
      ...each,
      events,
      pool: { ...each.pool, types, fleets, tiers, ...(listed.size === 0 ? {} : { limits }) },
    };
  },
  (each) => ({ ...each, pool: without(each.pool, 'maxConcurrency') }),
  (each) => withoutLimits(each),
  ...['maxConcurrency', 'conflictGroup', 'maxConcurrencyPerResource', 'onWorkerLost'].map(
    (field) => (each: Scenario) => ({
      ...each,
      pool: { ...each.pool, types: mapped(each.pool.types, (type) => without(type, field)) },
    }),
  ),
  ...['maxConcurrency', 'guaranteed'].map((field) => (each: Scenario) => ({
    ...each,
    pool: { ...each.pool, tiers: (each.pool.tiers ?? []).map((tier) => without(tier, field)) },
  })),
  ...[
    'alpha',
    'admissionFloorMs',
    'weights',
    'maxConcurrencyPerKey',
    'keyTtlMs',
    'resetEveryMs',
    'estimateFallback',
    'trueUp',
  ].map((field) => (each: Scenario) => ({
    ...each,
    pool: { ...each.pool, fairness: without(each.pool.fairness ?? {}, field) },
  })),
  (each) => ({ ...each, jobs: each.jobs.map((job) => without(job, 'resourceId')) }),
];

const withFairness = (each: Scenario, changes: FairnessInput): Scenario => ({
  ...each,
  pool: { ...each.pool, fairness: { ...each.pool.fairness, ...changes } },
});

type FairnessInput = NonNullable<Scenario['pool']['fairness']>;

const withoutLimits = (each: Scenario): Scenario => ({
  ...each,
  pool: {
    ...without(each.pool, 'limits'),
    types: mapped(each.pool.types, (type) => without(type, 'limits')),
  },
});

const withTypes = (each: Scenario, field: string): Scenario => ({
  ...each,
  pool: { ...each.pool, types: mapped(each.pool.types, (type) => without(type, field)) },
});

/** What a scenario may owe its difference to: left out, one at a time. */
const LEFT_OUT: Readonly<Record<string, (scenario: Scenario) => Scenario>> = {
  memory: (each) => ({ ...each, hearing: { ...each.hearing, forgets: 1 } }),
  repeats: (each) => ({ ...each, hearing: { ...each.hearing, repeats: 0 } }),
  noise: (each) => ({ ...each, hearing: { ...each.hearing, noise: 0 } }),
  leftWord: (each) => ({ ...each, hearing: { ...each.hearing, leftWord: 0 } }),
  lifts: (each) => withFairness(each, { idlePolicy: 'none' }),
  conflicts: (each) => withTypes(each, 'conflictGroup'),
  limits: withoutLimits,
  resourceCaps: (each) => withTypes(each, 'maxConcurrencyPerResource'),
  parking: (each) => ({ ...each, budget: { ...each.budget, parkKept: 1_000_000 } }),
  promoteMax: (each) => ({ ...each, budget: without(each.budget, 'promoteMax') }),
  passesMax: (each) => ({ ...each, budget: without(each.budget, 'passesMax') }),
  batchJobs: (each) => ({ ...each, budget: without(each.budget, 'batchJobs') }),
  lost: (each) => ({
    ...each,
    jobs: each.jobs.map((job) => {
      const [first, ...others] = job.attempts.map((attempt) =>
        attempt.outcome === 'lost' || attempt.outcome === 'vanished'
          ? { ...attempt, outcome: 'failed' as const }
          : attempt,
      );
      return first === undefined ? job : { ...job, attempts: [first, ...others] };
    }),
  }),
  moves: (each) => ({ ...each, events: each.events.filter(({ op }) => op !== 'retime') }),
  cancels: (each) => ({ ...each, events: each.events.filter(({ op }) => op !== 'cancel') }),
  controls: (each) => ({ ...each, events: each.events.filter(({ op }) => op !== 'control') }),
  resets: (each) => withFairness(each, { resetEveryMs: null }),
  keyTtl: (each) => withFairness(each, { keyTtlMs: null }),
  weights: (each) => withFairness(each, { weights: {} }),
  keyCaps: (each) => withFairness(each, { maxConcurrencyPerKey: null }),
  rounding: (each) => withFairness(each, { alpha: 0 }),
  rarity: (each) => ({ ...each, pool: { ...each.pool, score: { rarity: 0 } } }),
  onDemand: (each) => ({ ...each, jobs: each.jobs.map((job) => ({ ...job, mode: 'queued' as const })) }),
};

/** Without which of these a scenario does not differ, each left out alone. */
export async function causesOf(
  scenario: Scenario,
  isBroken: (scenario: Scenario) => Promise<boolean>,
): Promise<readonly string[]> {
  const causes: string[] = [];
  for (const [cause, leaveOut] of Object.entries(LEFT_OUT)) {
    const without = leaveOut(scenario);
    if (JSON.stringify(without) !== JSON.stringify(scenario) && !(await isBroken(without)))
      causes.push(cause);
  }
  return causes;
}
