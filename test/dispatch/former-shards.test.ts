/** Due work in parts of lines that were once split in more: it starts when it is due, also where no process remembers the parts. */
import { describe, expect, it } from 'vitest';
import type { PoolInput } from '../../lib/core/defaults.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { dispatch, dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { placeOf } from '../../lib/dispatch/submit.ts';
import { triggersOf } from '../../lib/dispatch/woken.ts';
import { type Stage, stage } from './stage.ts';

const pool = (subLines: number): PoolInput => ({
  types: { resize: { subLines }, pack: {} },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 40 }, boxes: { types: ['pack'], slots: 0 } },
});

/** Jobs are placed as they were before a deployment. */
const staged = (): Stage => stage({ pool: pool(1), place: placeOf(resolveConfiguration(pool(4))) });

describe('due work in former parts', () => {
  it('that was left to others is promoted a second later', async () => {
    const on = staged();
    await on.put(on.job(), on.job({ type: 'pack' }));
    await on.pass({ reason: 'stream' });
    const dueAtMs = on.time.nowMs - 5;
    const due = await on.put(
      ...Array.from({ length: 8 }, () =>
        on.job({ state: 'scheduled', runAtMs: dueAtMs, readyAtMs: dueAtMs }),
      ),
    );
    await on.pass({ reason: 'stream', jobs: await on.put(on.job()) });
    const [trigger] = triggersOf([{ partition: 0, asks: 'pass', dueAtMs }]);
    if (trigger === undefined) throw new Error('no trigger');
    await dispatch(on.dispatcher(), 0, trigger);
    expect(on.states(due)).toContain('scheduled');
    await on.advance(1_000);
    // The load has ended: nobody makes a pass but who is woken again, and that one has just begun.
    await dispatch(on.dispatcher(), 0, trigger);
    expect(new Set(on.states(due))).toEqual(new Set(['claimed']));
  });

  it('has its wakes sent by a tick', async () => {
    for (let skipped = 0; skipped < 6; skipped += 1) {
      const on = staged();
      // Their ids decide on the part.
      for (let at = 0; at < skipped; at += 1) on.job();
      const runAtMs = on.time.nowMs + 5_000;
      const jobs = await on.put(on.job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs }));
      on.queue.onWake(
        (partition, dueAtMs) =>
          void dispatchAll(on.dispatcher(), {
            jobs: [],
            reason: 'wake',
            partitions: [partition],
            ...(dueAtMs === undefined ? {} : { dueAtMs, isForDue: true }),
          }),
      );
      await on.finish(dispatchAll(on.dispatcher(), { jobs: [], reason: 'tick' }));
      await on.advance(8_000);
      expect(on.states(jobs)).toEqual(['claimed']);
    }
  });
});
