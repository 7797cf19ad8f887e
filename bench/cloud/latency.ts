/** How long things take in the cloud: each a distribution, drawn with a seeded generator. */

export type Draw = () => number;

/** z of a normal distribution's 99th percentile. */
const Z99 = 2.3263;

/** Log-normal: half of the draws are below `p50`, 99 of 100 below `p99`. */
export function logNormal(random: () => number, p50: number, p99: number): Draw {
  const mu = Math.log(p50);
  const sigma = (Math.log(p99) - mu) / Z99;
  return () => {
    // Box and Muller; 1 - u is never 0.
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    return Math.exp(mu + sigma * normal);
  };
}

export const uniform =
  (random: () => number, least: number, most: number): Draw =>
  () =>
    least + random() * (most - least);

/** Milliseconds. */
export const LATENCY = {
  /** A request to the table, a queue or the bus, and its answer. A transaction takes twice that. */
  call: { p50: 4, p99: 15 },
  /** From a write to where a reader of its shard can see it. */
  streamVisible: { least: 50, most: 150 },
  /** A shard is read four times a second; with the former, a function sees a record 50 to 400 ms after the write. */
  streamPoll: 250,
  /** From a message's arrival in a queue to the function behind it. */
  queueToFunction: { least: 18, most: 100 },
  /** From an asynchronous invocation that was taken to the function. */
  invoked: { least: 18, most: 100 },
  /** From an event's arrival on the bus to the queue that a rule sends it to. */
  busToQueue: { p50: 50, p99: 130 },
  /** A function's INIT, which is billed; before it, an environment is made ready, which is not. */
  init: { p50: 300, p99: 600 },
  environment: { p50: 100, p99: 250 },
  /** A function's environment that nobody used for so long is gone. */
  keptWarm: 600_000,
} as const;

export interface Latencies {
  readonly call: Draw;
  readonly streamVisible: Draw;
  readonly queueToFunction: Draw;
  readonly invoked: Draw;
  readonly busToQueue: Draw;
  readonly init: Draw;
  readonly environment: Draw;
}

export function latenciesOf(random: () => number): Latencies {
  const { call, streamVisible, queueToFunction, invoked, busToQueue, init, environment } = LATENCY;
  return {
    call: logNormal(random, call.p50, call.p99),
    streamVisible: uniform(random, streamVisible.least, streamVisible.most),
    queueToFunction: uniform(random, queueToFunction.least, queueToFunction.most),
    invoked: uniform(random, invoked.least, invoked.most),
    busToQueue: logNormal(random, busToQueue.p50, busToQueue.p99),
    init: logNormal(random, init.p50, init.p99),
    environment: logNormal(random, environment.p50, environment.p99),
  };
}
