import { describe, expect, it } from 'vitest';
import { latenciesOf, logNormal } from '../../bench/cloud/latency.ts';
import { percentile } from '../../bench/cloud/measure.ts';
import { MessageQueue, pollQueue, Stream } from '../../bench/cloud/sources.ts';
import { UsageMeter } from '../../bench/cloud/usage.ts';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import { seeded } from '../simulation/random.ts';

const SECOND = 1_000;

function scene() {
  const time = new VirtualTime(0);
  const random = seeded(1);
  return { time, random, latencies: latenciesOf(random), meter: new UsageMeter() };
}

describe('a latency', () => {
  it('has the median and the tail that it is named by', () => {
    const draw = logNormal(seeded(1), 4, 15);
    const draws = Array.from({ length: 20_000 }, draw);
    expect(percentile(draws, 0.5)).toBeCloseTo(4, 0);
    expect(percentile(draws, 0.99)).toBeGreaterThan(13);
    expect(percentile(draws, 0.99)).toBeLessThan(17);
  });
});

describe('the stream', () => {
  it('shows a record 50 to 400 ms after its write', async () => {
    const { time, random, latencies } = scene();
    const lateMs: number[] = [];
    const stream = new Stream<number>({
      time,
      random,
      latencies,
      shards: 1,
      batchSize: 100,
      invoke: async (writtenAtMs) => void lateMs.push(...writtenAtMs.map((atMs) => time.nowMs - atMs)),
    });
    for (let at = 0; at < 300; at += 1) time.after((at + random()) * SECOND, () => stream.put(0, time.nowMs));
    await time.run({ untilMs: 302 * SECOND });
    expect(lateMs).toHaveLength(300);
    expect(Math.min(...lateMs)).toBeGreaterThanOrEqual(50);
    expect(Math.max(...lateMs)).toBeLessThanOrEqual(400);
    expect(percentile(lateMs, 0.5)).toBeGreaterThan(180);
  });

  it('has one invocation at a time for each shard, in order, with what has come by then', async () => {
    const { time, random, latencies } = scene();
    const running = [0, 0];
    const seen: number[][] = [[], []];
    const batches: number[] = [];
    const stream = new Stream<number>({
      time,
      random,
      latencies,
      shards: 2,
      batchSize: 10,
      invoke: async (records) => {
        const shard = (records[0] ?? 0) % 2;
        running[shard] = (running[shard] ?? 0) + 1;
        expect(running[shard]).toBe(1);
        batches.push(records.length);
        seen[shard]?.push(...records);
        await time.sleep(SECOND);
        running[shard] = (running[shard] ?? 0) - 1;
      },
    });
    const records = Array.from({ length: 60 }, (_, at) => at);
    for (const at of records) stream.put(at % 2, at);
    await time.run({ untilMs: 10 * SECOND });
    expect(seen).toEqual([records.filter((at) => at % 2 === 0), records.filter((at) => at % 2 === 1)]);
    // Those that could be read at the first poll, then full batches.
    expect(Math.max(...batches)).toBe(10);
  });

  it('tries a batch again by halves, until what spoils it is alone', async () => {
    const { time, random, latencies } = scene();
    const done: number[] = [];
    const stream = new Stream<number>({
      time,
      random,
      latencies,
      shards: 1,
      batchSize: 4,
      invoke: async (records) => {
        if (records.includes(3)) throw new Error('spoilt');
        done.push(...records);
      },
    });
    for (const at of [1, 2, 3, 4]) stream.put(0, at);
    await time.run({ untilMs: 60 * SECOND });
    expect(done.sort()).toEqual([1, 2, 4]);
  });
});

describe('pollers of a queue', () => {
  it('pay for empty receives: three a minute each', async () => {
    const { time, latencies, meter } = scene();
    const queue = new MessageQueue<number>(time);
    const invoke = async (): Promise<void> => {};
    pollQueue({
      name: 'fleet',
      time,
      latencies,
      meter,
      queue,
      pollers: 5,
      batchSize: 10,
      maxConcurrency: 2,
      invoke,
    });
    await time.run({ untilMs: 600 * SECOND - 1 });
    expect(meter.now().queueRequests).toBe(5 * 30);
  });

  it('bring a message to its function within 18 to 100 ms, and delete it', async () => {
    const { time, latencies, meter } = scene();
    const queue = new MessageQueue<string>(time);
    let atMs = 0;
    const invoke = async (): Promise<void> => {
      atMs = time.nowMs;
    };
    pollQueue({
      name: 'fleet',
      time,
      latencies,
      meter,
      queue,
      pollers: 1,
      batchSize: 1,
      maxConcurrency: undefined,
      invoke,
    });
    time.after(SECOND, () => queue.put('a message'));
    await time.run({ untilMs: 2 * SECOND });
    expect(atMs).toBeGreaterThanOrEqual(SECOND + 18);
    expect(atMs).toBeLessThanOrEqual(SECOND + 100);
    // The receive that found it, its delete, and the receive that goes on.
    expect(meter.now().queueRequests).toBe(3);
    expect(Object.fromEntries(meter.sources())).toEqual({
      'queueRequests: fleet receive': 2,
      'queueRequests: fleet delete': 1,
    });
  });

  it('have no more invocations at once than the event source allows', async () => {
    const { time, latencies, meter } = scene();
    const queue = new MessageQueue<number>(time);
    let running = 0;
    let most = 0;
    let done = 0;
    const invoke = async (): Promise<void> => {
      running += 1;
      most = Math.max(most, running);
      await time.sleep(SECOND);
      running -= 1;
      done += 1;
    };
    pollQueue({
      name: 'fleet',
      time,
      latencies,
      meter,
      queue,
      pollers: 5,
      batchSize: 1,
      maxConcurrency: 2,
      invoke,
    });
    for (let at = 0; at < 10; at += 1) queue.put(at);
    await time.run({ untilMs: 30 * SECOND });
    expect([most, done]).toEqual([2, 10]);
  });
});
