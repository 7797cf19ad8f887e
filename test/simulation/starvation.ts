/**
 * Invariant 8, job by job: a job that may start all the time, because it is eligible and capacity for it is free, starts within
 * a bound that follows from the configuration.
 *
 * It is `starvationBoundMs` of a job that nothing goes before, less the time for which others could overtake it: where
 * capacity is free, nobody does. That is one hold, H. In the simulation hints are lost as well, so what it takes until a job is
 * seen that nobody was told of comes on top: `unseenMs`.
 *
 * `order.ts` says what may start. It is looked at now and then for all that waits, and at each commit for those that could start
 * at the last look: so a job whose capacity others take in the meantime is not taken for one that starves.
 */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { Job } from '../../lib/core/job.ts';
import { overtakenForMs, starvationBoundMs } from '../../lib/core/score.ts';

export interface StarvationOptions {
  /** All that were declared so far: what runs keeps the terms of any of them. */
  readonly configurations: () => readonly PoolConfiguration[];
  readonly nowMs: () => number;
  /** Before that anything may fail. Infinity: always. */
  readonly fromMs: number;
  /** The longest until a job that nobody was told of is seen. */
  readonly unseenMs: number;
}

export class Starvation {
  readonly #options: StarvationOptions;
  /** By job: since when it may start. */
  readonly #sinceMs = new Map<string, number>();

  constructor(options: StarvationOptions) {
    this.#options = options;
  }

  /** The longest for which a job may wait beside capacity that is free. */
  get boundMs(): number {
    const { configurations, unseenMs } = this.#options;
    const types = configurations().flatMap((each) => each.types);
    return Math.max(0, ...types.map(({ timeoutMs }) => timeoutMs)) + unseenMs;
  }

  /** Looks at these jobs. Answers one that has starved. */
  look(ids: Iterable<string>, mayStart: (id: string) => boolean): string | undefined {
    this.lookAgain(mayStart);
    const nowMs = this.#options.nowMs();
    if (nowMs < this.#options.fromMs) return undefined;
    for (const id of ids) {
      if (this.#sinceMs.has(id) || !mayStart(id)) continue;
      this.#sinceMs.set(id, nowMs);
    }
    for (const [id, sinceMs] of this.#sinceMs)
      if (nowMs - sinceMs > this.boundMs)
        return `${id.slice(0, 12)} may start since ${nowMs - sinceMs} ms; the bound is ${this.boundMs} ms`;
    return undefined;
  }

  /** Looks again at those that could start at the last look. */
  lookAgain(mayStart: (id: string) => boolean): void {
    for (const id of this.#sinceMs.keys()) if (!mayStart(id)) this.#sinceMs.delete(id);
  }

  /** How many could start at the last look. */
  get suspects(): number {
    return this.#sinceMs.size;
  }
}

/**
 * The same invariant where nothing is free, because more comes than can be done: a job starts within `starvationBoundMs` of when it became
 * ready, of all that was accepted. Nothing is promised under the condition that is documented beside it: a queued job of a key that is sent
 * on-demand jobs, where these age faster.
 */
export class Turns {
  readonly #configuration: PoolConfiguration;
  readonly #slackMs: number;
  readonly #tierOf: ReadonlyMap<string, string>;
  /** By fairness key, each once. */
  readonly #accepted = new Map<string, Map<string, Job>>();

  /** @param slackMs - what passes between a start and its write, and between two looks */
  constructor(configuration: PoolConfiguration, slackMs: number) {
    this.#configuration = configuration;
    this.#slackMs = slackMs;
    this.#tierOf = new Map(configuration.types.map(({ type, tier }) => [type, tier]));
  }

  onAccepted(job: Job): void {
    const ofKey = this.#accepted.get(job.fairnessKey) ?? new Map<string, Job>();
    this.#accepted.set(job.fairnessKey, ofKey);
    ofKey.set(job.id, job);
  }

  /** Whether the configuration lets on-demand jobs hold this one back for as long as they come. */
  isHeldBack({ type, mode, fairnessKey }: Pick<Job, 'type' | 'mode' | 'fairnessKey'>): boolean {
    return (
      mode === 'queued' &&
      this.#configuration.score.onDemandAgeSec > 0 &&
      this.#ofTier(fairnessKey, type).some((other) => other.mode === 'onDemand')
    );
  }

  /** From when it is ready to when it has started at the latest; Infinity: nothing is promised. */
  boundMs(job: Job): number {
    if (this.isHeldBack(job)) return Number.POSITIVE_INFINITY;
    const { type, fairnessKey, mode, priority, readyAtMs } = job;
    const untilMs = readyAtMs + overtakenForMs(job, this.#configuration.score);
    return starvationBoundMs(this.#configuration, {
      type,
      fairnessKey,
      mode,
      priority,
      activeKeys: this.#accepted.size,
      jobsAhead: this.#ofTier(fairnessKey, type).filter(
        (other) => other.id !== job.id && other.readyAtMs <= untilMs,
      ).length,
    });
  }

  /** What is wrong with a job that waits; undefined: nothing. */
  overdue(job: Job, nowMs: number): string | undefined {
    const [waitsMs, boundMs] = [nowMs - job.readyAtMs, this.boundMs(job)];
    if (waitsMs <= boundMs + this.#slackMs) return undefined;
    return `${job.id} waits for ${waitsMs} ms, ${job.mode}; the bound is ${boundMs} ms`;
  }

  #ofTier(fairnessKey: string, type: string): readonly Job[] {
    const tier = this.#tierOf.get(type);
    const ofKey = this.#accepted.get(fairnessKey)?.values() ?? [];
    return [...ofKey].filter((other) => this.#tierOf.get(other.type) === tier);
  }
}
