/** Clocks differ by two seconds, as the scheduler allows for elsewhere: work for a later time starts soon after it all the same. */
import { expect, it } from 'vitest';
import { dispatchAll } from '../../../lib/dispatch/dispatch.ts';
import { aScheduledJob } from '../../fixtures/factories/job.ts';
import { stage, storeWith } from '../../stage/stage.ts';

it.each([0, 2_000, -2_000])(
  'a job starts within 3 s of its time, where the clock of whoever looked ahead is %d ms before that of whoever is woken',
  async (skewMs) => {
    const on = stage();
    const fast = on.dispatcher({ clock: on.time.clock(() => skewMs) });
    const plain = on.main;
    let work: Promise<unknown> = Promise.resolve();
    on.queue.onWake((_partition, dueAtMs) => {
      work = work.then(() =>
        dispatchAll(plain, { jobs: [], reason: 'wake', dueAtMs, isForDue: dueAtMs !== undefined }),
      );
    });
    const runAtMs = on.time.nowMs + 90_000;
    await on.put(aScheduledJob(runAtMs));
    for (let minute = 0; minute < 2; minute += 1) {
      await on.finish(dispatchAll(fast, { jobs: [], reason: 'tick' }));
      await on.advance(60_000);
    }
    await on.finish(work);
    // By now the second tick has passed by a minute, and the third has not come.
    const held = [...on.store.inspect(0).reservations.values()];
    expect(held.length).toBe(1);
    expect(held[0]?.reservedAtMs).toBeLessThanOrEqual(runAtMs + 3_000);
  },
);

it.each([0, -500, -1_000, -2_000])(
  'a job starts within 4 s of its time, where whoever has the lease is %d ms behind, and is left word of it by whoever was woken',
  async (skewMs) => {
    const on = stage();
    const woken: Promise<unknown>[] = [];
    on.queue.onWake((_partition, dueAtMs) => {
      woken.push(
        dispatchAll(on.main, { jobs: [], reason: 'wake', dueAtMs, isForDue: dueAtMs !== undefined }),
      );
    });
    let loads = 0;
    const store = storeWith(on.store, {
      loadPartition: async (asked) => {
        loads += 1;
        // The wake comes within the first pass.
        if (loads === 1) await on.time.sleep(1_050);
        return on.store.loadPartition(asked);
      },
    });
    const runAtMs = on.time.nowMs + 300;
    const job = aScheduledJob(runAtMs);
    const behind = on.dispatcher({ store, clock: on.time.clock(() => skewMs) });
    const passing = dispatchAll(behind, { jobs: [], reason: 'wake', partitions: [0] });
    await on.put(job);
    await on.queue.sendWake({ partition: 0, delayMs: 1_000, dueAtMs: runAtMs });
    await on.finish(passing);
    await on.advance(runAtMs + 4_000 - on.time.nowMs);
    await on.finish(Promise.all(woken));
    expect(loads).toBeGreaterThan(1);
    expect(on.stateOf(job.id)).toBe('claimed');
  },
);
