/**
 * However much other keys were charged before, and whatever dispatchers remember: a key that becomes active starts within as
 * many decisions as there are active keys, for each job of a batch.
 */
import { expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { type Dice, diceOf, seeded } from '../simulation/random.ts';
import { type Stage, type Started, stage } from './stage.ts';

const SEEDS = 150;
const COST_MS = 4_000;
const HOUR_MS = 3_600_000;

/** What keys, waiting ones and others, were charged before; some of it long ago. */
async function chargeBefore(on: Stage, dice: Dice, keys: readonly string[]): Promise<void> {
  const ledgers = keys.map((fairnessKey) => ({
    fairnessKey,
    settledCostMs:
      fairnessKey === 'returning' ? 0 : dice.pick([0, dice.whole(1, 10_000), dice.whole(1, 5_000_000)]),
    lastSeenMs: on.time.nowMs - dice.pick([0, dice.whole(0, 60_000), dice.whole(0, 2 * HOUR_MS)]),
  }));
  await on.commit({ ledgers });
}

/** One that goes on, two that take turns, or one that has just started each time. */
function dispatchersOf(on: Stage, dice: Dice): () => DispatchContext {
  const both = [on.main, on.dispatcher()] as const;
  return dice.pick([
    () => on.main,
    () => dice.pick(both as unknown as [DispatchContext, ...DispatchContext[]]),
    () => on.dispatcher(),
  ]);
}

it.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
  'a key that becomes active starts soon in world %i',
  async (seed) => {
    const dice = diceOf(seeded(seed));
    const batchJobs = dice.pick([1, 2, 5, 50]);
    const slots = dice.whole(1, 8);
    const on = stage({
      seed,
      budget: { batchJobs },
      pool: {
        types: {
          resize: { defaultCostMs: COST_MS, timeoutMs: 600_000 },
          index: { defaultCostMs: COST_MS, timeoutMs: 600_000 },
        },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize', 'index'], slots } },
        fairness: {
          ...(dice.chance(0.3) ? { resetEveryMs: HOUR_MS } : {}),
          ...(dice.chance(0.3) ? { keyTtlMs: HOUR_MS } : {}),
        },
      },
    });
    const active = Array.from({ length: dice.whole(1, 12) }, (_, at) => `key-${at}`);
    const wanted = dice.pick(['new', 'returning']);
    // Who has used up more than all others waits until they have caught up: nobody is lowered.
    await chargeBefore(on, dice, [...active, 'gone', ...(wanted === 'new' ? [] : [wanted])]);
    const jobOf = (fairnessKey: string, priority = dice.whole(0, 10)): Job =>
      on.job({ fairnessKey, priority, type: dice.pick(['resize', 'index']) });
    const backlog = 2 * active.length * batchJobs + 6 * slots + 40;
    const each = Math.ceil(backlog / active.length);
    await on.put(...active.flatMap((key) => Array.from({ length: each }, () => jobOf(key))));
    const dispatcher = dispatchersOf(on, dice);
    let running: readonly Started[] = [];
    /** Ends some of what runs, and starts others in their place. */
    const goOn = async (more: readonly Job[] = []): Promise<readonly string[]> => {
      await on.advance(dice.pick([500, COST_MS, 3 * COST_MS]));
      const ending = running.filter(() => dice.chance(0.6));
      const hints: Job[] = [...more];
      for (const started of ending) hints.push(await on.end(started));
      await on.pass({ jobs: hints, reason: 'stream' }, dispatcher());
      const started = await on.startEverywhere();
      running = [...running.filter((one) => !ending.includes(one)), ...started];
      return started.map(({ job }) => job.fairnessKey);
    };
    for (let warm = dice.whole(0, 6); warm > 0; warm -= 1) await goOn();
    const late = jobOf(wanted, 0);
    await on.put(late);
    let decisions = 0;
    let starts = await goOn(dice.chance(0.8) ? [late] : []);
    for (; !starts.includes(wanted); starts = await goOn()) {
      decisions += starts.length;
      expect(decisions).toBeLessThanOrEqual((active.length + 1) * batchJobs);
    }
  },
);
