/** A key that came unseen while nothing seemed to wait starts level with the others once it is found. */
import { expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { LOOK_AROUND_MS } from '../../../lib/dispatch/tuning.ts';
import { type Stage, type Started, stage } from '../../stage/stage.ts';

const TWO_SLOTS = {
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 600_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 2 } },
};
/** What the key that is there was charged. */
const CHARGED_MS = 60_000;

/** Each pass is another process's. */
const tell = (on: Stage, ...jobs: readonly Job[]) => on.pass({ jobs, reason: 'stream' }, on.dispatcher());

async function begin(on: Stage): Promise<Started> {
  const [job] = (await on.put(on.job({ fairnessKey: 'charged' }))) as [Job];
  await tell(on, job);
  const [started] = await on.startEverywhere();
  if (started === undefined) throw new Error('nothing started');
  return started;
}

async function chargeOf(on: Stage, fairnessKey: string): Promise<number | undefined> {
  const { ledgers } = await on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs });
  return ledgers.find((each) => each.fairnessKey === fairnessKey)?.settledCostMs;
}

it('a new key of whose job no hint told is lifted once it is found, though keys were lifted meanwhile', async () => {
  const on = stage({ pool: TWO_SLOTS });
  const first = await begin(on);
  await on.advance(CHARGED_MS);
  await tell(on, await on.end(first));
  await on.advance(on.main.budget.seenWithinMs);
  await on.pass({}, on.dispatcher());
  const unheard = on.job({ fairnessKey: 'new' });
  await on.put(unheard);
  await on.advance(on.main.budget.seenWithinMs + 1_000);
  // No slot is left: whoever makes the next pass with room looks for keys that came, where nothing seemed to wait.
  const [one, other] = [await begin(on), await begin(on)];
  const [third] = (await on.put(on.job({ fairnessKey: 'charged' }))) as [Job];
  await tell(on, await on.end(one), third);
  expect(on.states([unheard, third])).toEqual(['pending', 'claimed']);
  await on.advance(LOOK_AROUND_MS);
  await tell(on, await on.end(other));
  expect(on.stateOf(unheard.id)).toBe('claimed');
  expect(await chargeOf(on, 'new')).toBeGreaterThanOrEqual(CHARGED_MS);
});
