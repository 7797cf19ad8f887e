/** What a waiting job is said to wait for: "the next pass" only where the next pass starts it. */
import { describe, expect, it } from 'vitest';
import type { PoolInput } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { EXPLAIN_LIMITS, explainJob, type LiveWaitsFor } from '../../lib/dispatch/explain.ts';
import { changeControl } from '../../lib/dispatch/operate.ts';
import { type Dice, diceOf, seeded } from '../simulation/random.ts';
import { type Stage, stage } from './stage.ts';

const SMALL: PoolInput = { types: { resize: {} }, tiers: [{ tier: 'standard' }] };
const SEEDS = 60;
const ROUNDS = 4;

const waitsFor = async (on: Stage, job: Job | undefined): Promise<readonly LiveWaitsFor[] | undefined> =>
  (await explainJob(on.operator(), job?.id ?? ''))?.waitsFor;

describe('a job that passes do not see', () => {
  it('waits for its line to be announced, where its submitter was stopped before', async () => {
    const on = stage();
    const job = on.job({ fairnessKey: 'stopped' });
    await on.store.createJobs([job]);
    await on.pass();
    expect(await waitsFor(on, job)).toEqual([{ why: 'announcement', fairnessKey: 'stopped' }]);
    await on.put(on.job({ fairnessKey: 'stopped' }));
    expect(await waitsFor(on, job)).toEqual([{ why: 'pass' }]);
  });

  it('waits for the index, where that lags', async () => {
    const on = stage({ store: { indexLagMs: 5_000 } });
    const [job] = await on.put(on.job());
    expect(await waitsFor(on, job)).toEqual([{ why: 'index' }]);
    await on.advance(5_000);
    expect(await waitsFor(on, job)).toEqual([{ why: 'pass' }]);
  });

  it('waits to be moved to its line, where more jobs are due than a pass moves', async () => {
    const on = stage({ pool: { ...SMALL, fleets: { images: { types: ['resize'], slots: 10_000 } } } });
    const atMs = on.time.nowMs;
    const due = (afterMs: number): Job =>
      on.job({ state: 'scheduled', runAtMs: atMs + afterMs, readyAtMs: atMs + afterMs });
    const before = Array.from({ length: EXPLAIN_LIMITS.positionMax }, () => due(1));
    const [last] = await on.put(due(2), ...before);
    await on.advance(1_000);
    expect(await waitsFor(on, last)).toEqual([{ why: 'promotion', dueSinceMs: atMs + 2 }]);
    expect(await waitsFor(on, before.at(-1))).toEqual([{ why: 'pass' }]);
  });
});

/** Jobs enough to meet caps, pauses, full fleets and held conflict keys. */
function poolOf(dice: Dice): PoolInput {
  const types = ['resize', 'index', 'mail'];
  return {
    types: Object.fromEntries(
      types.map((type) => [
        type,
        {
          tier: dice.pick(['gold', 'standard']),
          ...(dice.chance(0.5) ? { conflictGroup: 'album' } : {}),
          ...(dice.chance(0.4) ? { maxConcurrency: dice.whole(1, 4) } : {}),
          ...(dice.chance(0.3) ? { subLines: 3 } : {}),
        },
      ]),
    ),
    tiers: [{ tier: 'gold' }, { tier: 'standard', guaranteed: dice.whole(0, 2) }],
    fleets: { all: { types, slots: dice.whole(1, 12) }, mails: { types: ['mail'], slots: 2 } },
    fairness: {
      idlePolicy: 'none',
      ...(dice.chance(0.5) ? { maxConcurrencyPerKey: dice.whole(1, 3) } : {}),
    },
  };
}

describe('a job that waits for the next pass', () => {
  it.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
    'is started by it, and no other is: world %i',
    async (seed) => {
      const dice = diceOf(seeded(seed));
      const on = stage({ pool: poolOf(dice), seed });
      if (dice.chance(0.3)) await changeControl(on.operator(), { type: 'index' }, { paused: true });
      const all: Job[] = [];
      let running: readonly { readonly job: Job }[] = [];
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
        running = [...running, ...(await on.startEverywhere())];
        await on.advance(1_000);
        const ending = running.filter(() => dice.chance(0.5));
        running = running.filter((each) => !ending.includes(each));
        const ended: Job[] = [];
        for (const each of ending) ended.push(await on.end(each));
        await on.pass({ jobs: ended, reason: 'stream' });
      }
    },
  );
});
