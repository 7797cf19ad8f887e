/** What invokes functions: pollers of a queue, with long polls and empty receives, and the shards of the table's stream. */
import type { VirtualTime } from '../../lib/local/virtual-time.ts';
import { LONG_POLL_MS } from './deployment.ts';
import { LATENCY, type Latencies } from './latency.ts';
import type { UsageMeter } from './usage.ts';

/** A queue as a poller sees it. Nobody else receives from it. */
export interface PolledQueue<T> {
  /** Up to `max` messages, waiting at most `waitMs` for the first one. */
  receive(max: number, waitMs: number): Promise<readonly T[]>;
  delete(messages: readonly T[]): Promise<void>;
}

/** A queue of our own for what the memory adapters have no receiver for: wakes, and events on their way in. */
export class MessageQueue<T> implements PolledQueue<T> {
  readonly #time: VirtualTime;
  readonly #messages: T[] = [];
  readonly #waiters: { readonly max: number; readonly resolve: (messages: readonly T[]) => void }[] = [];

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  put(message: T): void {
    this.#messages.push(message);
    const waiter = this.#waiters.shift();
    waiter?.resolve(this.#messages.splice(0, waiter.max));
  }

  async receive(max: number, waitMs: number): Promise<readonly T[]> {
    if (this.#messages.length > 0) return this.#messages.splice(0, max);
    return new Promise((resolve) => {
      const waiter = { max, resolve };
      this.#waiters.push(waiter);
      this.#time.after(waitMs, () => {
        const at = this.#waiters.indexOf(waiter);
        if (at === -1) return;
        this.#waiters.splice(at, 1);
        resolve([]);
      });
    });
  }

  /** What was received is gone; what failed is put again. */
  async delete(_messages: readonly T[]): Promise<void> {}
}

export interface QueueSourceOptions<T> {
  readonly name: string;
  readonly time: VirtualTime;
  readonly latencies: Latencies;
  readonly meter: UsageMeter;
  readonly queue: PolledQueue<T>;
  readonly pollers: number;
  readonly batchSize: number;
  readonly maxConcurrency: number | undefined;
  readonly invoke: (messages: readonly T[]) => Promise<void>;
  /** Of messages whose invocation failed: they come again after their visibility timeout. */
  readonly failed?: ((messages: readonly T[]) => void) | undefined;
}

/** Lambda's pollers on a queue: each receive is a request, also an empty one, and so is each delete. */
export function pollQueue<T>(options: QueueSourceOptions<T>): void {
  const {
    name,
    time,
    latencies,
    meter,
    queue,
    pollers,
    batchSize,
    maxConcurrency = Infinity,
    invoke,
  } = options;
  let running = 0;
  const waiting: (() => void)[] = [];
  const deliver = async (messages: readonly T[]): Promise<void> => {
    await time.sleep(latencies.queueToFunction());
    try {
      await invoke(messages);
      meter.add('queueRequests', 1, `${name} delete`);
      await queue.delete(messages);
    } catch {
      options.failed?.(messages);
    } finally {
      running -= 1;
      waiting.shift()?.();
    }
  };
  const poll = async (): Promise<void> => {
    for (;;) {
      if (running >= maxConcurrency) await new Promise<void>((resolve) => waiting.push(resolve));
      meter.add('queueRequests', 1, `${name} receive`);
      // One that waits for a message holds no invocation; what comes meanwhile may be one more than may run.
      const messages = await queue.receive(batchSize, LONG_POLL_MS);
      if (messages.length === 0) continue;
      while (running >= maxConcurrency) await new Promise<void>((resolve) => waiting.push(resolve));
      running += 1;
      void deliver(messages);
      // A receive that finds something is a round trip.
      await time.sleep(latencies.call());
    }
  };
  for (let poller = 0; poller < pollers; poller += 1) void poll();
}

export interface StreamOptions<T> {
  readonly time: VirtualTime;
  readonly latencies: Latencies;
  readonly random: () => number;
  readonly shards: number;
  readonly batchSize: number;
  /** Rejects: the batch comes again. */
  readonly invoke: (records: readonly T[]) => Promise<void>;
}

/** A failed batch is tried again after a second, by halves: what spoils it spoils the least. */
const RETRY_MS = 1_000;
const TRIES_MAX = 11;

/**
 * The table's stream: records stand in shards, by their item's key, each read in its order four times a second. A shard has
 * one invocation at a time, with what has come by then; while there is more, the next one follows at once.
 */
export class Stream<T> {
  readonly #options: StreamOptions<T>;
  readonly #shards: {
    readonly records: { readonly record: T; readonly visibleMs: number }[];
    lastMs: number;
  }[];

  constructor(options: StreamOptions<T>) {
    this.#options = options;
    this.#shards = Array.from({ length: options.shards }, () => ({ records: [], lastMs: 0 }));
    for (let shard = 0; shard < options.shards; shard += 1) {
      options.time.after(options.random() * LATENCY.streamPoll, () => void this.#read(shard));
    }
  }

  /** A record that the event source's filter lets through. */
  put(shard: number, record: T): void {
    const { time, latencies } = this.#options;
    const to = this.#shards[shard];
    if (to === undefined) throw new RangeError(`there is no shard ${shard} of ${this.#shards.length}`);
    to.lastMs = Math.max(to.lastMs, time.nowMs + latencies.streamVisible());
    to.records.push({ record, visibleMs: to.lastMs });
  }

  async #read(shard: number): Promise<void> {
    const { time, batchSize } = this.#options;
    for (;;) {
      const records = this.#shards[shard]?.records ?? [];
      let count = 0;
      while (count < batchSize && (records[count]?.visibleMs ?? Infinity) <= time.nowMs) count += 1;
      if (count === 0) await time.sleep(LATENCY.streamPoll);
      else await this.#deliver(records.splice(0, count).map(({ record }) => record));
    }
  }

  async #deliver(records: readonly T[]): Promise<void> {
    const { time, invoke } = this.#options;
    let batches: readonly (readonly T[])[] = [records];
    for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
      const failed: (readonly T[])[] = [];
      for (const batch of batches) await invoke(batch).catch(() => failed.push(batch));
      if (failed.length === 0) return;
      await time.sleep(RETRY_MS);
      batches = failed.flatMap((batch) => {
        const half = Math.ceil(batch.length / 2);
        return batch.length === 1 ? [batch] : [batch.slice(0, half), batch.slice(half)];
      });
    }
  }
}
