/** What a deployment has used so far, in what its user is billed for. */

export interface Usage {
  readonly writeUnits: number;
  readonly readUnits: number;
  /** Of all queues, by whoever asks: our code, the bus, and Lambda's pollers, whose empty receives are billed too. */
  readonly queueRequests: number;
  readonly invocations: number;
  /** INIT included; of worker functions without their handlers' own time. */
  readonly functionGbSeconds: number;
  /** Events put on the bus, for each started 64 KB. */
  readonly events: number;
  /** Lines of metrics included. */
  readonly logBytes: number;
  /** Hours in which a metric with its dimensions was written to, over all metrics. */
  readonly metricHours: number;
  /** What stays in the table, by how long it stays. */
  readonly storedGbMonths: number;
  /** Hours of machines that dispatchers run on. */
  readonly machineHours: number;
  /** Requests that DynamoDB refused. They cost nothing but time. */
  readonly throttled: number;
  /** INITs. */
  readonly coldStarts: number;
}

export const NOTHING: Usage = {
  writeUnits: 0,
  readUnits: 0,
  queueRequests: 0,
  invocations: 0,
  functionGbSeconds: 0,
  events: 0,
  logBytes: 0,
  metricHours: 0,
  storedGbMonths: 0,
  machineHours: 0,
  throttled: 0,
  coldStarts: 0,
};

const LINES = Object.keys(NOTHING) as (keyof Usage)[];

const combined = (of: (line: keyof Usage) => number): Usage =>
  Object.fromEntries(LINES.map((line) => [line, of(line)])) as Record<keyof Usage, number>;

/** What was used between two moments. */
export const between = (from: Usage, until: Usage): Usage => combined((line) => until[line] - from[line]);

export const times = (usage: Usage, factor: number): Usage => combined((line) => usage[line] * factor);

/** Counts, and answers what was counted until now. */
export class UsageMeter {
  readonly #counts: Record<keyof Usage, number> = { ...NOTHING };
  readonly #sources = new Map<string, number>();
  readonly #metrics = new Set<string>();

  /** @param source - who or what used it, such as a verb of the store */
  add(line: keyof Usage, amount: number, source?: string): void {
    this.#counts[line] += amount;
    if (source === undefined) return;
    const name = `${line}: ${source}`;
    this.#sources.set(name, (this.#sources.get(name) ?? 0) + amount);
  }

  /** What was used, by line and source, where the source was named. */
  sources(): ReadonlyMap<string, number> {
    return new Map(this.#sources);
  }

  /** A metric with its dimensions was written to. */
  told(metric: string): void {
    this.#metrics.add(metric);
  }

  /** Metrics that were written to since the beginning, each with its dimensions. */
  get metrics(): ReadonlySet<string> {
    return this.#metrics;
  }

  now(): Usage {
    return { ...this.#counts };
  }
}
