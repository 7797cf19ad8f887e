/** A run that meets its bound while somebody leaves word: a fresh invocation hears of all that it knew. */
import { describe, expect, it } from 'vitest';
import { dispatch, dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { type Stage, stage, storeWith } from './stage.ts';

/** Serves each wake with a process of its own. */
function servesWakes(on: Stage): void {
  on.queue.onWake(
    (partition) => void dispatchAll(on.dispatcher(), { jobs: [], reason: 'wake', partitions: [partition] }),
  );
}

describe('a run that meets its bound', () => {
  it.each([false, true])(
    'tells of what it was shown, whether or not others have left word: %s',
    async (isWordLeft) => {
      const on = stage();
      const job = on.job();
      await on.put(job);
      await on.pass({ jobs: [job], reason: 'ingest' });
      const [started] = await on.startAll('images');
      if (started === undefined) throw new Error('nothing started');
      const ended = await on.end(started);
      servesWakes(on);
      const { leaseMs, leaseMarginMs } = on.main.budget;
      let leaves = isWordLeft;
      const store = storeWith(on.store, {
        // No time is left to settle anything.
        loadPartition: async (asked) => {
          await on.time.sleep(leaseMs - leaseMarginMs + 1);
          return on.store.loadPartition(asked);
        },
        releaseLease: async (asked) => {
          if (leaves) {
            leaves = false;
            const other = await dispatch(on.dispatcher(), 0, {
              jobs: await on.put(on.job()),
              reason: 'stream',
            });
            expect(other.kind).toBe('left');
          }
          return on.store.releaseLease(asked);
        },
      });
      const context = on.dispatcher({ store, budget: { ...on.main.budget, passesMax: 1 } });
      const report = await on.finish(dispatch(context, 0, { jobs: [ended], reason: 'stream' }));
      expect(report.kind).toBe('outOfBudget');
      await on.advance(1_000);
      expect(on.held().map(({ id }) => id)).not.toContain(job.id);
    },
  );

  it('gives the lease back that it took again because word was left', async () => {
    const on = stage();
    let leaves = true;
    const store = storeWith(on.store, {
      releaseLease: async (asked) => {
        if (leaves) {
          leaves = false;
          await on.store.wake({ partition: 0, jobs: [{ id: 'other', version: 1, isWaiting: true }] });
        }
        return on.store.releaseLease(asked);
      },
    });
    const context = on.dispatcher({ store, budget: { ...on.main.budget, passesMax: 1, promoteMax: 1 } });
    await on.put(...Array.from({ length: 40 }, () => on.job({ state: 'scheduled' })));
    const report = await on.finish(dispatch(context, 0, { jobs: [], reason: 'tick' }));
    expect(report.kind).toBe('outOfBudget');
    const asked = { partition: 0, holder: 'other', nowMs: on.time.nowMs, leaseMs: 1_000 };
    expect((await on.store.acquireLease(asked)).kind).toBe('acquired');
  });
});
