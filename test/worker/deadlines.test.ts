/** One sleep for the deadlines of all attempts of a host. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import { createDeadlines } from '../../lib/worker/attempt-host.ts';

const START_MS = 1_800_000_000_000;

describe('deadlines', () => {
  it('are each told at their instant, unless they were ended before', async () => {
    const aDeadline = fc.record({
      fromMs: fc.integer({ min: 0, max: 50 }),
      afterMs: fc.integer({ min: 0, max: 50 }),
      endedAfterMs: fc.option(fc.integer({ min: 0, max: 60 }), { nil: undefined }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(aDeadline, { maxLength: 12 }), async (asked) => {
        const time = new VirtualTime(START_MS);
        const deadlines = createDeadlines(time.clock());
        const told: (number | undefined)[] = asked.map(() => undefined);
        for (const [at, { fromMs, afterMs, endedAfterMs }] of asked.entries()) {
          time.after(fromMs, () => {
            const end = deadlines(afterMs, () => {
              expect(told[at]).toBeUndefined();
              told[at] = time.nowMs - START_MS;
            });
            if (endedAfterMs !== undefined) time.after(endedAfterMs, end);
          });
        }
        await time.run({ untilMs: START_MS + 200 });
        for (const [at, { fromMs, afterMs, endedAfterMs = Infinity }] of asked.entries()) {
          // Of one instant, either may come first.
          if (endedAfterMs === afterMs) continue;
          expect(told[at]).toBe(endedAfterMs < afterMs ? undefined : fromMs + afterMs);
        }
      }),
    );
  });

  it('sleep once for many, and not at all when there are none', async () => {
    const time = new VirtualTime(START_MS);
    const clock = time.clock();
    let sleeping = 0;
    let sleeps = 0;
    const deadlines = createDeadlines({
      ...clock,
      sleep: async (ms, signal) => {
        sleeps += 1;
        sleeping += 1;
        await clock.sleep(ms, signal);
        sleeping -= 1;
      },
    });
    const ends = Array.from({ length: 100 }, () => deadlines(1_000, () => {}));
    expect([sleeps, sleeping]).toEqual([1, 1]);
    for (const end of ends) end();
    await time.run({ untilMs: START_MS + 1 });
    expect([sleeps, sleeping]).toEqual([1, 0]);
  });

  it('may be asked for by one that is over', async () => {
    const time = new VirtualTime(START_MS);
    const deadlines = createDeadlines(time.clock());
    const told: number[] = [];
    const again = (): void => {
      told.push(time.nowMs - START_MS);
      if (told.length < 4) deadlines(10, again);
    };
    deadlines(10, again);
    deadlines(25, () => told.push(25));
    await time.run({ untilMs: START_MS + 100 });
    expect(told).toEqual([10, 20, 25, 30]);
  });

  it('may be ended by one that is over at the same instant, and are not told then', async () => {
    const time = new VirtualTime(START_MS);
    const deadlines = createDeadlines(time.clock());
    const told: string[] = [];
    const ends: (() => void)[] = [];
    for (const name of ['first', 'second', 'third']) {
      ends.push(
        deadlines(10, () => {
          told.push(name);
          for (const end of ends) end();
        }),
      );
    }
    await time.run({ untilMs: START_MS + 100 });
    expect(told).toEqual(['first']);
  });
});
