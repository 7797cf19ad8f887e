import { describe, expect, it } from 'vitest';
import { CloudFunction } from '../../bench/cloud/functions.ts';
import { LATENCY, latenciesOf } from '../../bench/cloud/latency.ts';
import { UsageMeter } from '../../bench/cloud/usage.ts';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import { seeded } from '../simulation/random.ts';

function scene() {
  const time = new VirtualTime(0);
  const meter = new UsageMeter();
  const parts = {
    time,
    meter,
    latencies: { ...latenciesOf(seeded(1)), init: () => 300, environment: () => 100 },
  };
  const figures = { memoryMb: 512, timeoutMs: 60_000 };
  let begun = 0;
  const made = new CloudFunction(parts, 'any', figures, 'json', () => {
    begun += 1;
    return begun;
  });
  return { time, meter, made };
}

describe('a function', () => {
  it('pays for its INIT and each started millisecond of an invocation', async () => {
    const { time, meter, made } = scene();
    void made.invoke(() => time.sleep(99.5));
    await time.run();
    // 300 ms and 100 ms at half a GB; nothing for the environment.
    expect(meter.now()).toMatchObject({ invocations: 1, coldStarts: 1 });
    expect(meter.now().functionGbSeconds).toBeCloseTo(0.2, 10);
    expect(time.nowMs).toBe(499.5);
  });

  it('does not pay for what is not ours', async () => {
    const { time, meter, made } = scene();
    void made.invoke(async (_, invocation) => {
      await time.sleep(10);
      await invocation.aside(() => time.sleep(1_000));
    });
    await time.run();
    expect(meter.now().functionGbSeconds).toBeCloseTo((0.3 + 0.01) / 2, 10);
  });

  it('does not pay while one of several handlers runs, and pays between them', async () => {
    const { time, meter, made } = scene();
    void made.invoke(async (_, invocation) => {
      const handlers = [
        [0, 1_000],
        [500, 1_000],
        [1_600, 100],
      ] as const;
      await Promise.all(
        handlers.map(async ([atMs, takesMs]) => {
          await time.sleep(atMs);
          await invocation.aside(() => time.sleep(takesMs));
        }),
      );
    });
    await time.run();
    expect(meter.now().functionGbSeconds).toBeCloseTo((0.3 + 0.1) / 2, 10);
  });

  it('pays for the lines of its metrics, and tells each metric with its dimensions once, however often it is written to', async () => {
    const time = new VirtualTime(0);
    const meter = new UsageMeter();
    const parts = { time, meter, latencies: latenciesOf(seeded(1)) };
    const figures = { memoryMb: 512, timeoutMs: 60_000 };
    const telling = new CloudFunction(parts, 'any', figures, 'json', (_, __, metrics) => metrics);
    const bytes: number[] = [];
    for (const type of ['a', 'a', 'b']) {
      void telling.invoke(async (metrics) => {
        metrics.add('failed', 1, { type });
        metrics.add('lostRaces', type === 'b' ? 1 : 0);
      });
      await time.run();
      bytes.push(meter.now().logBytes);
    }
    // Started: the whole, a, and b; lost races: the whole.
    expect(meter.metrics.size).toBe(4);
    const [first = 0, second = 0, third = 0] = bytes;
    expect(second - first).toBe(first);
    expect(third - second).toBeGreaterThan(first);
  });

  it('stays warm for a while, and has one environment for each invocation at once', async () => {
    const { time, made } = scene();
    const used: number[] = [];
    const invoke = (atMs: number): void =>
      time.after(atMs, () => {
        void made.invoke(async (memory) => {
          used.push(memory);
          await time.sleep(1_000);
        });
      });
    for (const atMs of [0, 10, 5_000, 6_500 + LATENCY.keptWarm]) invoke(atMs);
    await time.run();
    // The two side by side have two; the one after them takes the last one used, and much later all are gone.
    expect(used).toEqual([1, 2, 2, 3]);
  });

  it('passes on what its work throws, and is billed all the same', async () => {
    const { time, meter, made } = scene();
    const failed = made.invoke(() => Promise.reject(new Error('broken')));
    const seen = expect(failed).rejects.toThrow('broken');
    await time.run();
    await seen;
    expect(meter.now().invocations).toBe(1);
  });
});
