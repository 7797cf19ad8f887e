/** Clocks differ by two seconds, as the scheduler allows for elsewhere: work for a later time starts soon after it all the same. */
import { expect, it } from 'vitest';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { aScheduledJob } from '../fixtures/factories/job.ts';
import { stage } from './stage.ts';

it.each([0, 2_000, -2_000])(
  'a job starts within 3 s of its time, where the clock of whoever looked ahead is %d ms before that of whoever is woken',
  async (skewMs) => {
    const on = stage();
    const fast = on.dispatcher({ clock: on.time.clock(() => skewMs) });
    const plain = on.main;
    let work: Promise<unknown> = Promise.resolve();
    on.queue.onWake((_partition, dueAtMs) => {
      work = work.then(() => dispatchAll(plain, { jobs: [], reason: 'wake', dueAtMs }));
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
