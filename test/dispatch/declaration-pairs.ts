/**
 * Random pairs of declarations, with jobs that wait, are claimed and run while one takes the place of the other: in memory,
 * under virtual time. Dispatchers that began under the first one go on; some jobs lose their worker, some hints are lost,
 * indexes lag. Caps and exclusions are checked after each step by an observer of its own, who knows nothing but the
 * declarations and what is claimed.
 */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { type PoolInput, resolveConfiguration } from '../../lib/core/defaults.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import { isTerminal, type Job, type ReservedJob } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { dispatchAll, renewed, type WakeTrigger } from '../../lib/dispatch/dispatch.ts';
import { sharesOf } from '../../lib/worker/membership.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { type Dice, diceOf, seeded } from '../simulation/random.ts';
import { toldJobs } from '../testing/received.ts';
import { type Redeployed, redeployed } from './redeployed.ts';
import { FAILED, type Started, SUCCEEDED } from './stage.ts';

const TYPES = ['t0', 't1', 't2', 't3'] as const;
const TIERS = ['a', 'b', 'c'] as const;
const FLEETS = ['f0', 'f1', 'f2', 'f3'] as const;
const GROUPS = ['g0', 'g1'] as const;
const RESOURCES = ['r0', 'r1', 'r2'] as const;
const KEYS = ['k0', 'k1', 'k2', 'k3', 'k4', 'k5', 'k6'] as const;
const PARTITIONS_MAX = 4;
/** A function lives so long. */
const FUNCTION_MS = 60_000;
const DAY_MS = 86_400_000;
/** With what is drawn, everything ends in far fewer. */
const ROUNDS_MAX = 400;

/** A declaration of some of the types, or of all. */
function drawPool(dice: Dice, isWhole: boolean): PoolInput {
  for (;;) {
    const some = <T extends string>(names: readonly T[], least: number): T[] => {
      const chosen = names.filter(() => dice.chance(0.6));
      return chosen.length >= least ? chosen : [...names.slice(0, least)];
    };
    const types = isWhole ? [...TYPES] : some(TYPES, 1);
    const tiers = some(TIERS, 1);
    const fleets = some(FLEETS, 1);
    const partitions = dice.chance(0.3) ? 1 : dice.whole(2, 4);
    // Less than one for each partition cannot be divided.
    const cap = (least: number, most: number): number | null =>
      dice.chance(0.5) ? null : Math.max(partitions, dice.whole(least, most));
    const pool: PoolInput = {
      types: Object.fromEntries(
        types.map((type) => [
          type,
          {
            tier: dice.pick(tiers as [string, ...string[]]),
            maxConcurrency: cap(1, 3),
            conflictGroup: dice.chance(0.4) ? null : dice.pick(GROUPS),
            defaultCostMs: dice.whole(100, 5_000),
            timeoutMs: dice.whole(1_000, 30_000),
            onWorkerLost: dice.pick(['retry', 'resume', 'fail']),
            retry: { maxAttempts: dice.whole(1, 3), delayMs: dice.whole(0, 2_000), maxWorkersLost: 5 },
          },
        ]),
      ),
      tiers: tiers.map((tier) => ({ tier, maxConcurrency: cap(1, 4) })),
      fleets: Object.fromEntries(
        fleets.map((fleet, at) => [
          fleet,
          {
            // The first takes all: no type is without a fleet.
            types: at === 0 ? types : types.filter(() => dice.chance(0.5)).concat(types.slice(0, 1)),
            ...(dice.chance(0.3) ? {} : { slots: Math.max(partitions, dice.whole(1, 6)) }),
          },
        ]),
      ),
      partitions,
      maxConcurrency: cap(2, 8),
      fairness: {
        idlePolicy: dice.pick(['advance', 'none']),
        maxConcurrencyPerKey: cap(1, 3),
        weights: dice.chance(0.5) ? {} : { k0: 4 },
      },
    };
    for (const fleet of Object.values(pool.fleets ?? {}))
      Object.assign(fleet, { types: [...new Set(fleet.types)] });
    try {
      resolveConfiguration(pool);
      return pool;
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
    }
  }
}

const scopesOf = ({ type, tier, fleet, fairnessKey }: ReservedJob): readonly string[] => [
  'pool',
  `type/${type}`,
  `tier/${tier}`,
  `fleet/${fleet}`,
  `key/${fairnessKey}`,
];

/** Caps as an observer counts them: by scope. */
function countsOf(held: readonly ReservedJob[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const entry of held)
    for (const scope of scopesOf(entry)) counts.set(scope, (counts.get(scope) ?? 0) + 1);
  return counts;
}

function capsOf(configuration: PoolConfiguration): ReadonlyMap<string, number> {
  const { maxConcurrency, types, tiers, fleets, fairness } = configuration;
  const caps = new Map<string, number>();
  const set = (scope: string, cap: number | null): void => {
    if (cap !== null) caps.set(scope, cap);
  };
  set('pool', maxConcurrency);
  for (const type of types) set(`type/${type.type}`, type.maxConcurrency);
  for (const tier of tiers) set(`tier/${tier.tier}`, tier.maxConcurrency);
  for (const fleet of fleets) set(`fleet/${fleet.fleet}`, fleet.slots);
  for (const key of KEYS) set(`key/${key}`, fairness.maxConcurrencyPerKey);
  return caps;
}

export interface PairReport {
  readonly seed: number;
  readonly jobs: number;
  /** What went wrong, in the order in which it did. */
  readonly wrong: readonly string[];
}

/** Plays one pair: the first declaration, the second while work is in flight, at last one with every type. */
async function playPair(seed: number): Promise<PairReport> {
  const dice = diceOf(seeded(seed));
  const first = drawPool(dice, false);
  const on = await redeployed(first, {
    seed,
    store: { indexLagMs: dice.chance(0.5) ? dice.whole(1, 2_000) : 0 },
  });
  const wrong: string[] = [];
  const jobs: Job[] = [];
  const running = new Map<string, Started>();
  let processes: DispatchContext[] = [await on.process(), await on.process()];
  let declared = (await on.declarations.current()).configuration;
  /** Of partitions, as they were declared so far. */
  const numbers: [number, ...number[]] = [declared.partitions];
  let before: readonly ReservedJob[] = [];

  /** What holds capacity, in whatever partition. */
  const heldNow = (): readonly ReservedJob[] =>
    Array.from({ length: PARTITIONS_MAX }, (_, partition) =>
      [...on.store.inspect(partition).reservations.values()].flatMap(({ jobs: places }) => [
        ...places.values(),
      ]),
    ).flat();

  /** Sees what has changed since the last look. */
  const observe = (): void => {
    const held = heldNow();
    const [are, caps] = [countsOf(held), capsOf(declared)];
    const known = new Set(before.map(({ id, version }) => `${id}/${version}`));
    for (const entry of held) {
      if (known.has(`${entry.id}/${entry.version}`)) continue;
      // What ran when a cap was lowered goes on; nothing comes to it.
      for (const scope of scopesOf(entry)) {
        const [count, cap] = [are.get(scope) ?? 0, caps.get(scope) ?? Number.POSITIVE_INFINITY];
        if (count > cap) wrong.push(`${scope}: ${count} of ${cap}, with ${entry.id}`);
      }
      for (const other of held) {
        if (other.id === entry.id) continue;
        if (areExclusive(on, declared, entry, other))
          wrong.push(`${entry.id} (${entry.conflictKey}) was admitted beside ${other.id}`);
      }
    }
    before = held;
  };

  const registerWorkers = async (): Promise<void> => {
    for (const { fleet, slots } of declared.fleets) {
      if (slots !== null) continue;
      const life = { workerId: `of ${fleet}`, incarnation: 'one' };
      const expiresAtMs = on.clock.nowMs() + DAY_MS;
      for (const [partition, share] of sharesOf(2, declared.partitions, 0)) {
        const record = aWorkerRecord({ ...life, fleet, slots: share, expiresAtMs });
        await on.store.registerWorker({ partition, record });
        await on.store.heartbeat({ partition, record });
      }
    }
  };

  const submitSome = async (count: number): Promise<void> => {
    const { types } = declared;
    for (let at = 0; at < count; at += 1) {
      const runAtMs = on.clock.nowMs() + (dice.chance(0.2) ? dice.whole(1, 20_000) : 0);
      const fairnessKey = dice.pick(KEYS);
      // Some producers have not heard of the number that is declared by now.
      const partitions = dice.chance(0.1) ? dice.pick(numbers) : declared.partitions;
      const job = on.job({
        id: `${seed}-${jobs.length}`,
        type: dice.pick(types.map(({ type }) => type) as [string, ...string[]]),
        fairnessKey,
        partition: partitionOf(fairnessKey, partitions),
        priority: dice.whole(0, 10),
        mode: dice.chance(0.2) ? 'onDemand' : 'queued',
        ...(dice.chance(0.7) ? { resourceId: dice.pick(RESOURCES) } : {}),
        ...(runAtMs > on.clock.nowMs() ? { state: 'scheduled' as const, runAtMs, readyAtMs: runAtMs } : {}),
      });
      jobs.push(...(await on.submitNow(job)));
    }
  };

  /** A function that is called long after a deployment has read what is declared; one that is called at once may not have. */
  const newest = async (context: DispatchContext): Promise<DispatchContext> => {
    const { deployed } = context;
    const { version } = await on.declarations.current(0);
    if (deployed === undefined || deployed.version === version || dice.chance(0.5)) return context;
    const next = await renewed(context, deployed, version);
    processes = processes.map((each) => (each === context ? next : each));
    return next;
  };

  const pass = async (hints: readonly Job[] = []): Promise<void> => {
    const context = dice.pick(processes as [DispatchContext, ...DispatchContext[]]);
    const trigger: WakeTrigger =
      hints.length > 0 ? { jobs: hints, reason: 'stream' } : { jobs: [], reason: 'tick' };
    await on.finish(dispatchAll(await newest(context), trigger));
    observe();
  };

  let invocations = 0;
  /** Fleets that are declared receive; those that are gone have no queue any more. */
  const start = async (): Promise<void> => {
    for (const { fleet, slots } of declared.fleets) {
      for (const { message, receipt } of toldJobs(await on.queue.receive(fleet, 10, 0, DAY_MS))) {
        const worker =
          slots === null
            ? { workerId: `of ${fleet}`, incarnation: 'one' }
            : { workerId: `λ/${invocations}`, incarnation: `${invocations}` };
        invocations += 1;
        // A process knows what it runs.
        if (slots === null && running.get(message.jobId)?.message.claimId === message.claimId) {
          await on.queue.delete(fleet, [receipt]);
          continue;
        }
        const outcome = await on.store.startJob({
          ...message,
          ...worker,
          nowMs: on.clock.nowMs(),
          runUntilMs: slots === null ? undefined : on.clock.nowMs() + FUNCTION_MS,
        });
        await on.queue.delete(fleet, [receipt]);
        if (outcome.kind !== 'started') continue;
        const other = running.get(outcome.job.id);
        if (other !== undefined && isAlive(other)) wrong.push(`${outcome.job.id} runs twice`);
        running.set(outcome.job.id, { fleet, message, job: outcome.job });
      }
    }
  };

  /** A function that has lived its time is over. */
  const isAlive = ({ job }: Started): boolean => on.clock.nowMs() < (job.runUntilMs ?? Infinity);

  const endSome = async (share: number): Promise<void> => {
    const hints: Job[] = [];
    for (const [id, started] of running) {
      if (!dice.chance(share)) continue;
      running.delete(id);
      if (!isAlive(started)) continue;
      // Its function dies without a word.
      if (started.job.runUntilMs !== undefined && dice.chance(0.1)) continue;
      const ended = await on.end(started, dice.chance(0.2) ? FAILED : SUCCEEDED);
      if (dice.chance(0.7)) hints.push(ended);
    }
    if (hints.length > 0) await pass(hints);
  };

  const deploy = async (pool: PoolInput): Promise<void> => {
    await on.deploy(pool);
    declared = (await on.declarations.current()).configuration;
    numbers.push(declared.partitions);
    await registerWorkers();
    if (dice.chance(0.5)) processes = [...processes.slice(1), await on.process()];
  };

  const live = async (steps: number): Promise<void> => {
    for (let step = 0; step < steps; step += 1) {
      if (dice.chance(0.3)) await submitSome(dice.whole(1, 6));
      if (dice.chance(0.8)) await pass();
      if (dice.chance(0.6)) await start();
      if (dice.chance(0.5)) await endSome(0.4);
      if (dice.chance(0.05)) {
        const job = jobs[dice.whole(0, jobs.length - 1)];
        if (job !== undefined && !running.has(job.id))
          await on.store.cancelJob({
            jobId: job.id,
            nowMs: on.clock.nowMs(),
            expiresAtMs: on.clock.nowMs() + DAY_MS,
          });
      }
      await on.advance(dice.whole(100, 15_000));
    }
  };

  await registerWorkers();
  await submitSome(20);
  await live(8);
  const second = drawPool(dice, false);
  await deploy(second);
  await live(8);
  // A rollback is a deployment as any other.
  if (dice.chance(0.3)) await deploy(first);
  await live(4);
  await deploy(drawPool(dice, true));
  let rounds = 0;
  const isOver = (): boolean =>
    jobs.every(({ id }) => isTerminal(on.stateOf(id) ?? 'cancelled')) && heldNow().length === 0;
  while (!isOver() && rounds < ROUNDS_MAX) {
    rounds += 1;
    await pass();
    await start();
    await endSome(1);
    await on.advance(dice.whole(1_000, 61_000));
  }
  const left = Map.groupBy(
    jobs.filter(({ id }) => !isTerminal(on.stateOf(id) ?? 'cancelled')),
    ({ id }) => on.stateOf(id),
  );
  for (const [state, stranded] of left)
    wrong.push(`${stranded.length} jobs stay ${state}, such as ${stranded[0]?.id} (${stranded[0]?.type})`);
  if (left.size === 0 && heldNow().length > 0) wrong.push(`${heldNow().length} places are held by nobody`);
  return { seed, jobs: jobs.length, wrong };
}

/** Whether two jobs in flight exclude each other: the later one by what was declared when it was admitted. */
function areExclusive(
  on: Redeployed,
  declared: PoolConfiguration,
  entry: ReservedJob,
  other: ReservedJob,
): boolean {
  const resource = on.store.inspectJob(entry.id)?.resourceId;
  if (resource === undefined || on.store.inspectJob(other.id)?.resourceId !== resource) return false;
  const groupNow = (type: string): string | null =>
    declared.types.find((each) => each.type === type)?.conflictGroup ?? null;
  const own = groupNow(entry.type);
  if (own === null) return false;
  return groupNow(other.type) === own || other.conflictKey === `${own}/${resource}`;
}

/** So many pairs, from a seed on; of each, the first two things that are wrong. */
export async function playPairs(
  firstSeed: number,
  count: number,
): Promise<{ readonly wrong: readonly string[]; readonly jobs: number }> {
  const wrong: string[] = [];
  let jobs = 0;
  for (let seed = firstSeed; seed < firstSeed + count; seed += 1) {
    const report = await playPair(seed);
    jobs += report.jobs;
    for (const what of report.wrong.slice(0, 2)) wrong.push(`seed ${seed}: ${what}`);
  }
  return { wrong, jobs };
}
