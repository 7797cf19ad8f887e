/** Worlds of random jobs, in which explain must say of each waiting job what the next pass does with it. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { dispatch } from '../../lib/dispatch/dispatch.ts';
import { changeControl } from '../../lib/operate/controls.ts';
import { explainJob } from '../../lib/operate/explain.ts';
import type { LiveWaitsFor } from '../../lib/operate/live-waits.ts';
import { type Dice, diceOf, seeded } from '../simulation/random.ts';
import { type Stage, type Started, stage } from '../stage/stage.ts';

const ROUNDS = 4;
/** The wide worlds have numbers of their own. */
const WIDE_FIRST = 1_000;

export const waitsFor = async (
  on: Stage,
  job: Job | undefined,
): Promise<readonly LiveWaitsFor[] | undefined> => (await explainJob(on.operator(), job?.id ?? ''))?.waitsFor;

/** Jobs enough to meet caps, pauses, full fleets and held conflict keys. */
function poolOf(dice: Dice, partitions = 1, ofResource: (dice: Dice) => number = () => 0): PoolInput {
  const types = ['resize', 'index', 'mail'];
  return {
    types: Object.fromEntries(
      types.map((type) => {
        const tier = dice.pick(['gold', 'standard']);
        const isExclusive = dice.chance(0.5);
        const limit = isExclusive ? 0 : ofResource(dice);
        return [
          type,
          {
            tier,
            ...(isExclusive ? { conflictGroup: 'album' } : {}),
            ...(limit === 0 ? {} : { maxConcurrencyPerResource: limit }),
            ...(dice.chance(0.4) ? { maxConcurrency: dice.whole(1, 4) + partitions - 1 } : {}),
          },
        ];
      }),
    ),
    tiers: [{ tier: 'gold' }, { tier: 'standard', guaranteed: dice.whole(0, 2) }],
    fleets: {
      all: { types, slots: dice.whole(1, 12) + partitions - 1 },
      mails: { types: ['mail'], slots: 1 + partitions },
    },
    fairness: {
      idlePolicy: 'none',
      ...(dice.chance(0.5) ? { maxConcurrencyPerKey: dice.whole(1, 3) } : {}),
    },
    partitions,
  };
}

/** What was claimed starts, a second passes, and about half of what runs ends. */
async function endSome(on: Stage, running: Set<Started>, dice: Dice): Promise<readonly Job[]> {
  for (const each of await on.startEverywhere()) running.add(each);
  await on.advance(1_000);
  const ended: Job[] = [];
  for (const each of [...running].filter(() => dice.chance(0.5))) {
    running.delete(each);
    ended.push(await on.end(each));
  }
  return ended;
}

async function playWorld(seed: number): Promise<void> {
  const dice = diceOf(seeded(seed));
  const on = stage({ pool: poolOf(dice), seed });
  if (dice.chance(0.3)) await changeControl(on.operator(), { type: 'index' }, { paused: true });
  const all: Job[] = [];
  const running = new Set<Started>();
  for (let round = 0; round < ROUNDS; round += 1) {
    const jobs = Array.from({ length: dice.whole(1, 25) }, () =>
      on.job({
        type: dice.pick(['resize', 'index', 'mail']),
        fairnessKey: dice.pick(['a', 'b', 'c', 'd']),
        mode: dice.pick(['queued', 'queued', 'onDemand']),
        priority: dice.whole(0, 9),
        ...(dice.chance(0.6) ? { resourceId: `album-${dice.whole(1, 4)}` } : {}),
      }),
    );
    all.push(...(await on.put(...jobs)));
    const waiting = all.filter(({ id }) => on.stateOf(id) === 'pending');
    const told = new Map<string, readonly string[]>();
    for (const job of waiting)
      told.set(
        job.id,
        ((await waitsFor(on, job)) ?? []).map(({ why }) => why),
      );
    await on.pass({ jobs, reason: 'stream' });
    const started = waiting.filter(({ id }) => on.stateOf(id) !== 'pending').map(({ id }) => id);
    const expected = waiting.filter(({ id }) => told.get(id)?.includes('pass')).map(({ id }) => id);
    expect(new Set(started)).toEqual(new Set(expected));
    const ended = await endSome(on, running, dice);
    await on.pass({ jobs: ended, reason: 'stream' });
  }
}

/** Beside that: partitions that lock keys and lend capacity, limits of resources, weights, lifts, and jobs for a time to come. */
function wideWorld(dice: Dice, seed: number) {
  const partitions = dice.whole(1, 3);
  const pool = poolOf(dice, partitions, () => (dice.chance(0.5) ? dice.whole(1, 3) + partitions - 1 : 0));
  const on = stage({
    pool: {
      ...pool,
      maxConcurrency: dice.chance(0.3) ? dice.whole(3, 10) : null,
      fairness: { ...pool.fairness, idlePolicy: dice.pick(['none', 'advance']) },
    },
    budget: { parkKept: dice.pick([1, 4]) },
    seed,
  });
  const keys = ['a', 'b', 'c', 'd', 'e', 'f'] as const;
  const jobs = (): readonly Job[] =>
    Array.from({ length: dice.whole(1, 25) }, () => {
      const fairnessKey = dice.pick(keys);
      const runAtMs = on.time.nowMs + dice.pick([0, 0, 0, 1_500]);
      return on.job({
        type: dice.pick(['resize', 'index', 'mail']),
        fairnessKey,
        partition: partitionOf(fairnessKey, partitions),
        mode: dice.pick(['queued', 'queued', 'onDemand']),
        priority: dice.whole(0, 9),
        ...(dice.chance(0.7) ? { resourceId: `album-${dice.whole(1, 4)}` } : {}),
        ...(runAtMs === on.time.nowMs ? {} : { state: 'scheduled', runAtMs, readyAtMs: runAtMs }),
      });
    });
  const operator = {
    ...on.operator(),
    partitionOf: (fairnessKey: string) => partitionOf(fairnessKey, partitions),
  };
  return { on, partitions, keys, jobs, operator };
}

async function playWideWorld(seed: number): Promise<void> {
  const dice = diceOf(seeded(seed));
  const { on, partitions, keys, jobs, operator } = wideWorld(dice, seed);
  if (dice.chance(0.5))
    await changeControl(operator, { fairnessKey: dice.pick(keys) }, { weight: dice.whole(2, 5) });
  const all: Job[] = [];
  const running = new Set<Started>();
  for (let round = 0; round < ROUNDS; round += 1) {
    const put = await on.put(...jobs());
    all.push(...put);
    for (let partition = 0; partition < partitions; partition += 1) {
      const waiting = all.filter(
        ({ id, partition: home }) =>
          home === partition && ['scheduled', 'pending'].includes(on.stateOf(id) ?? ''),
      );
      const told: (readonly [string, readonly LiveWaitsFor[]])[] = [];
      for (const { id } of waiting) told.push([id, (await explainJob(operator, id))?.waitsFor ?? []]);
      const hints = put.filter(({ partition: home }) => home === partition);
      await on.finish(dispatch(on.main, partition, { jobs: hints, reason: 'tick' }));
      const seen = told.filter(([, why]) => why.length === 1 && why[0]?.why === 'pass');
      const left = seen.filter(([id]) => ['scheduled', 'pending'].includes(on.stateOf(id) ?? ''));
      expect(left).toEqual([]);
    }
    const ended = await endSome(on, running, dice);
    for (let partition = 0; partition < partitions; partition += 1)
      await on.finish(
        dispatch(on.main, partition, {
          jobs: ended.filter(({ partition: home }) => home === partition),
          reason: 'stream',
        }),
      );
  }
}

/** Each of these worlds, and the wide one of its number, in a test of its own. */
export function testWorlds(first: number, last: number): void {
  const seeds = Array.from({ length: last - first + 1 }, (_, at) => first + at);

  describe('a job that waits for the next pass', () => {
    it.each(seeds)('is started by it, and no other is: world %i', playWorld);
  });

  describe('a job of which explain says that it waits for the next pass alone', () => {
    it.each(seeds.map((seed) => WIDE_FIRST + seed))(
      'is started by the next pass of its partition: world %i',
      playWideWorld,
    );
  });
}
