/** Lambda functions: environments that start cold and stay warm for a while, invocations that are timed and billed. */

import type { VirtualTime } from '../../lib/local/virtual-time.ts';
import { MetricCollector } from '../../lib/metrics/collector.ts';
import type { Metrics } from '../../lib/metrics/contract.ts';
import type { Log } from '../../lib/runtime/contract.ts';
import type { FunctionFigures } from './deployment.ts';
import { LATENCY, type Latencies } from './latency.ts';
import { type LogFormat, logLineBytes, metricLineBytes, metricsOf, platformBytes } from './logs.ts';
import type { UsageMeter } from './usage.ts';

export interface FunctionParts {
  readonly time: VirtualTime;
  readonly latencies: Latencies;
  readonly meter: UsageMeter;
}

/** An environment of a function, with what its process remembers between invocations. */
interface Environment<T> {
  /** What the invocation that runs there has to tell. */
  readonly metrics: MetricCollector;
  readonly memory: T;
  lastUsedMs: number;
}

/** What an invocation may say of itself. */
export interface Invocation {
  /** Runs what is not ours: a user's handler. While one or several run, nothing is billed. */
  aside<R>(work: () => Promise<R>): Promise<R>;
}

const MB_PER_GB = 1_024;

export class CloudFunction<T> {
  readonly #parts: FunctionParts;
  readonly #figures: FunctionFigures;
  readonly #format: LogFormat;
  readonly #begin: (name: string, log: Log, metrics: Metrics) => T;
  readonly #name: string;
  /** The one used last is the last one. */
  readonly #idle: Environment<T>[] = [];
  #made = 0;

  /** @param begin - what a process of this function builds when it begins */
  constructor(
    parts: FunctionParts,
    name: string,
    figures: FunctionFigures,
    format: LogFormat,
    begin: (name: string, log: Log, metrics: Metrics) => T,
  ) {
    this.#parts = parts;
    this.#name = name;
    this.#figures = figures;
    this.#format = format;
    this.#begin = begin;
  }

  /** Runs an invocation to its end, and bills it. What the work throws is thrown. */
  async invoke<R>(work: (memory: T, invocation: Invocation) => Promise<R>): Promise<R> {
    const { time, meter } = this.#parts;
    const environment = this.#warm() ?? (await this.#start());
    const startedMs = time.nowMs;
    let notOursMs = 0;
    let handlers = 0;
    let sinceMs = 0;
    const invocation: Invocation = {
      aside: async (handle) => {
        if (handlers === 0) sinceMs = time.nowMs;
        handlers += 1;
        try {
          return await handle();
        } finally {
          handlers -= 1;
          if (handlers === 0) notOursMs += time.nowMs - sinceMs;
        }
      },
    };
    try {
      return await work(environment.memory, invocation);
    } finally {
      meter.add('invocations', 1, this.#name);
      meter.add('logBytes', platformBytes(this.#format), `${this.#name}, the platform`);
      for (const line of environment.metrics.take()) {
        meter.add('logBytes', metricLineBytes(line), `${this.#name}, metrics`);
        for (const metric of metricsOf(line)) meter.told(metric);
      }
      this.#bill(time.nowMs - startedMs - notOursMs);
      environment.lastUsedMs = time.nowMs;
      this.#idle.push(environment);
    }
  }

  /** The environment that was used last, unless it has been idle for too long; then all others have been too. */
  #warm(): Environment<T> | undefined {
    const last = this.#idle.pop();
    if (last === undefined || this.#parts.time.nowMs - last.lastUsedMs <= LATENCY.keptWarm) return last;
    this.#idle.length = 0;
    return undefined;
  }

  async #start(): Promise<Environment<T>> {
    const { time, latencies, meter } = this.#parts;
    this.#made += 1;
    const name = `${this.#name}-${this.#made}`;
    await time.sleep(latencies.environment());
    const initMs = latencies.init();
    await time.sleep(initMs);
    meter.add('coldStarts', 1);
    this.#bill(initMs);
    const write: Log['info'] = (message, fields) =>
      meter.add('logBytes', logLineBytes(message, fields ?? {}), `${this.#name}, ${message}`);
    const metrics = new MetricCollector({});
    const memory = this.#begin(name, { info: write, warn: write, error: write }, metrics);
    return { memory, metrics, lastUsedMs: time.nowMs };
  }

  /** Lambda bills each started millisecond. */
  #bill(ms: number): void {
    const gigabytes = this.#figures.memoryMb / MB_PER_GB;
    this.#parts.meter.add('functionGbSeconds', (Math.ceil(ms) / 1_000) * gigabytes, this.#name);
  }
}
