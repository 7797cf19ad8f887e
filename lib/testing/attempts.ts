/** The attempts of a test's jobs: what started when, what ran side by side, and what test code waits for. */
import type { PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import { ValidationError } from '../core/errors.ts';
import { limitKeyOf, limitsCounting, parseScope, type Scope, undeclaredIn } from '../core/scope.ts';
import { didYouMean } from '../core/spelling.ts';
import type { Incarnation } from '../local/incarnation.ts';
import type { AttemptPlace } from '../local/scheduler.ts';
import type { JobContext } from '../worker/run-job.ts';

/** One attempt that has started. */
export interface StartedAttempt {
  readonly jobId: string;
  readonly type: string;
  readonly attempt: number;
  readonly fleet: string;
  readonly tier: string;
  readonly fairnessKey: string;
  readonly resourceId?: string | undefined;
  readonly startedAt: Date;
  /** When the attempt ended; undefined while it runs. */
  readonly endedAt?: Date | undefined;
}

/** An attempt with the facts that the kit needs about it. */
export class KnownAttempt implements StartedAttempt {
  readonly jobId: string;
  readonly type: string;
  readonly attempt: number;
  readonly fleet: string;
  readonly tier: string;
  readonly fairnessKey: string;
  readonly resourceId: string | undefined;
  readonly startedAt: Date;
  readonly life: Incarnation;
  readonly context: JobContext;
  /** Whether its process vanishes when its handler has ended, before the outcome is stored. */
  crashesAtEnd = false;
  endedAt: Date | undefined;
  /** The attempt's number in the order of all starts and ends. */
  readonly began: number;
  over: number | undefined;
  /** How many sleeps of virtual time its handler waits for. */
  sleeps = 0;

  constructor(context: JobContext, place: AttemptPlace, tier: string, at: Date, began: number) {
    this.jobId = context.jobId;
    this.type = context.type;
    this.attempt = context.attempt;
    this.fairnessKey = context.fairnessKey;
    this.resourceId = context.resourceId;
    this.fleet = place.fleet;
    this.life = place.life;
    this.context = context;
    this.tier = tier;
    this.startedAt = at;
    this.began = began;
  }

  get isRunning(): boolean {
    return this.over === undefined;
  }
}

export class TestedAttempts {
  readonly #configuration: PoolConfiguration;
  readonly #nowMs: () => number;
  readonly #all: KnownAttempt[] = [];
  readonly running = new Set<KnownAttempt>();
  #moments = 0;

  constructor(configuration: PoolConfiguration, nowMs: () => number) {
    this.#configuration = configuration;
    this.#nowMs = nowMs;
  }

  begin(context: JobContext, place: AttemptPlace): KnownAttempt {
    const tier = typesByName(this.#configuration).get(context.type)?.tier ?? '';
    this.#moments += 1;
    const attempt = new KnownAttempt(context, place, tier, new Date(this.#nowMs()), this.#moments);
    this.#all.push(attempt);
    this.running.add(attempt);
    return attempt;
  }

  end(attempt: KnownAttempt): void {
    if (!attempt.isRunning) return;
    this.#moments += 1;
    attempt.over = this.#moments;
    attempt.endedAt = new Date(this.#nowMs());
    this.running.delete(attempt);
  }

  get all(): readonly KnownAttempt[] {
    return this.#all;
  }

  /** Returns the most attempts of a scope that ran at once. @throws ValidationError - it is no scope, or names nothing that is declared */
  peak(given: Scope | string): number {
    const scope = typeof given === 'string' ? parseScope(given) : given;
    if (scope === undefined || (scope !== 'pool' && 'resource' in scope))
      throw new ValidationError(
        'scope',
        `${given} is none: use pool, tier/<tier>, type/<type>, fleet/<fleet>, key/<key>, limit/<limit> or limit/<limit>/<key>`,
      );
    if (scope === 'pool') return mostAtOnce(this.#all);
    const unknown = undeclaredIn(scope, this.#configuration);
    if (unknown !== undefined) {
      const { kind, name, known } = unknown;
      throw new ValidationError(
        'scope',
        `names the ${kind} ${JSON.stringify(name)}, which is not declared. ${didYouMean(name, known)}Declared are: ${known.join(', ') || 'none'}`,
      );
    }
    if ('limit' in scope) return mostAtOnce(this.#all.filter((attempt) => this.#isIn(scope, attempt)));
    const [[field, name] = []] = Object.entries(scope);
    return mostAtOnce(this.#all.filter((attempt) => attempt[field as keyof StartedAttempt] === name));
  }

  #isIn({ limit, key }: Extract<Scope, { readonly limit: string }>, attempt: KnownAttempt): boolean {
    const counting = limitsCounting(this.#configuration, attempt).find((each) => each.limit === limit);
    if (counting === undefined) return false;
    const { fairnessKey, context } = attempt;
    return key === undefined || limitKeyOf(counting, { fairnessKey, keys: context.keys }) === key;
  }

  /** Returns the most attempts on one resource that ran at once. */
  overlap(resourceId: string): number {
    return mostAtOnce(this.#all.filter((attempt) => attempt.resourceId === resourceId));
  }
}

function mostAtOnce(attempts: readonly KnownAttempt[]): number {
  const changes = attempts.flatMap(({ began, over }) => [
    { at: began, by: 1 },
    ...(over === undefined ? [] : [{ at: over, by: -1 }]),
  ]);
  changes.sort((one, other) => one.at - other.at);
  let now = 0;
  let most = 0;
  for (const { by } of changes) {
    now += by;
    most = Math.max(most, now);
  }
  return most;
}
