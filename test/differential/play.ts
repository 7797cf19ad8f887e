/**
 * A scenario, and the world that plays it: jobs come, attempts end, users and operators change their minds. The world
 * asks a scheduler what starts, and lets time pass. Which scheduler that is, it does not know: the reference, the core
 * and the deployed path are played the same scenario.
 *
 * Instants of a scenario are milliseconds from its begin. At one instant, in this order: operators, workers, users,
 * submissions, ends in the order in which their attempts started; what is due becomes ready; then one decision.
 */
import type { RetryPolicy } from '../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { JobMode } from '../../lib/core/job.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import type { DispatchBudget } from '../../lib/dispatch/partition/context.ts';
import { TimeHeap } from '../../lib/runtime/time-heap.ts';

/** What the scenario's instant 0 is: a whole number of days, so that resets begin there. */
export const EPOCH_MS = 1_799_971_200_000;

const TICK_MS = 60_000;

/** How the attempts of a job go, in the order in which they start; the last one stands for all that follow. */
export interface AttemptPlan {
  readonly durationMs: number;
  /** `lost`: its worker ends in its midst, and says so. `vanished`: it never says anything again. */
  readonly outcome: 'succeeded' | 'failed' | 'lost' | 'vanished';
}

export interface ScenarioJob {
  readonly id: string;
  readonly atMs: number;
  readonly type: string;
  readonly priority: number;
  readonly mode: JobMode;
  readonly fairnessKey: string;
  readonly resourceId?: string | undefined;
  readonly keys?: Readonly<Record<string, string>> | undefined;
  readonly units?: Readonly<Record<string, number>> | undefined;
  /** Absent: at once. */
  readonly runAtMs?: number | undefined;
  readonly attempts: readonly [AttemptPlan, ...AttemptPlan[]];
}

export type ScenarioEvent =
  | { readonly op: 'cancel'; readonly atMs: number; readonly id: string }
  | { readonly op: 'retime'; readonly atMs: number; readonly id: string; readonly runAtMs: number }
  | {
      readonly op: 'control';
      readonly atMs: number;
      readonly scope: string;
      readonly paused?: boolean | undefined;
      /** Null lifts the override. */
      readonly maxConcurrency?: number | null | undefined;
      readonly weight?: number | null | undefined;
    }
  /** A worker of a fleet without declared slots has so many from now on. */
  | { readonly op: 'slots'; readonly atMs: number; readonly fleet: string; readonly slots: number };

/** How dispatchers hear of what happens. */
export interface Hearing {
  readonly dispatchers: number;
  /** The chance that another dispatcher than the last one is triggered. */
  readonly changes: number;
  /** The chance of each image that nobody waits for (a claim, a start, a promotion) to come along with the next trigger. */
  readonly noise: number;
  /** The chance that old images come again with a trigger, or by themselves to some dispatcher. */
  readonly repeats: number;
  /**
   * The chance that whoever comes with the images finds the lease held, and leaves word: the holder, whose pass is over,
   * looks up what is in flight.
   */
  readonly leftWord: number;
  /** The chance of a dispatcher to be a new process, which remembers nothing. */
  readonly forgets: number;
  /** The chance that the images of an instant are lost, and nobody is triggered. */
  readonly lost: number;
}

export interface Scenario {
  readonly seed: number;
  readonly kind: string;
  readonly pool: PoolInput;
  readonly budget: Partial<DispatchBudget>;
  readonly hearing: Hearing;
  readonly untilMs: number;
  readonly jobs: readonly ScenarioJob[];
  readonly events: readonly ScenarioEvent[];
}

/** What started. */
export interface Start {
  readonly atMs: number;
  readonly id: string;
  readonly fleet: string;
  readonly attempt: number;
}

export type Happening =
  | ScenarioEvent
  | { readonly op: 'submit'; readonly atMs: number; readonly job: ScenarioJob }
  | {
      readonly op: 'end';
      readonly atMs: number;
      readonly start: Start;
      readonly outcome: Exclude<AttemptPlan['outcome'], 'vanished'>;
    }
  /** A time that some job was given, and may still have. */
  | { readonly op: 'due'; readonly atMs: number }
  | { readonly op: 'tick'; readonly atMs: number }
  /** A wake that the scheduler sent itself. */
  | { readonly op: 'wake'; readonly atMs: number };

/** Whatever decides what starts. */
export interface Player {
  /** All that happens at an instant, in order; answers what starts then, in the order in which it was chosen. */
  instant(atMs: number, happenings: readonly Happening[]): readonly Start[] | Promise<readonly Start[]>;
  /** Workers that vanished, and when the player found that. */
  readonly losses?: readonly { readonly id: string; readonly startedAtMs: number; readonly atMs: number }[];
  /** Given before the first instant: wakes the player at a later one. */
  wakeBy?(wakeAt: (atMs: number) => void): void;
}

const RANKS: Readonly<Record<Happening['op'], number>> = {
  control: 0,
  slots: 1,
  cancel: 2,
  retime: 2,
  submit: 3,
  end: 4,
  due: 5,
  tick: 5,
  wake: 5,
};

/** The delay before the attempt after number `attempt`; scenarios know no jitter. */
export function delayMs({ backoff, delayMs: first, maxDelayMs }: RetryPolicy, attempt: number): number {
  const factor = backoff === 'exponential' ? 2 ** (attempt - 1) : backoff === 'linear' ? attempt : 1;
  return Math.min(maxDelayMs, first * factor);
}

/** Plays a scenario. Answers every start. */
export async function play(scenario: Scenario, player: Player): Promise<readonly Start[]> {
  const { untilMs } = scenario;
  const policies = new Map(resolveConfiguration(scenario.pool).types.map(({ type, retry }) => [type, retry]));
  const jobs = new Map(scenario.jobs.map((job) => [job.id, job]));
  const agenda = new TimeHeap<Happening>();
  const add = (happening: Happening): void => {
    if (happening.atMs <= untilMs) agenda.add(happening.atMs, happening);
  };
  for (const event of scenario.events) {
    add(event);
    if (event.op === 'retime' && event.runAtMs > event.atMs) add({ op: 'due', atMs: event.runAtMs });
  }
  for (const job of scenario.jobs) {
    add({ op: 'submit', atMs: job.atMs, job });
    if (job.runAtMs !== undefined && job.runAtMs > job.atMs) add({ op: 'due', atMs: job.runAtMs });
  }
  for (let atMs = 0; atMs <= untilMs; atMs += TICK_MS) add({ op: 'tick', atMs });
  let nowMs = 0;
  player.wakeBy?.((atMs) => {
    if (atMs > nowMs) add({ op: 'wake', atMs });
  });
  const starts: Start[] = [];
  const started = new Map<string, number>();
  for (;;) {
    const atMs = agenda.nextAtMs;
    if (atMs === undefined) return starts;
    nowMs = atMs;
    const happenings: Happening[] = [];
    for (let due = agenda.takeDue(atMs); due !== undefined; due = agenda.takeDue(atMs))
      happenings.push(due.value);
    happenings.sort((one, other) => RANKS[one.op] - RANKS[other.op]);
    for (const happening of happenings) {
      if (happening.op !== 'end' || happening.outcome !== 'failed') continue;
      const policy = policies.get(jobs.get(happening.start.id)?.type ?? '');
      if (policy !== undefined) add({ op: 'due', atMs: atMs + delayMs(policy, happening.start.attempt) });
    }
    for (const start of await player.instant(atMs, happenings)) {
      starts.push(start);
      const plans = jobs.get(start.id)?.attempts ?? [];
      const nth = started.get(start.id) ?? 0;
      started.set(start.id, nth + 1);
      const plan = plans[Math.min(nth, plans.length - 1)];
      if (plan === undefined) throw new Error(`${start.id} was started, and is not in the scenario`);
      const { durationMs, outcome } = plan;
      if (outcome !== 'vanished') add({ op: 'end', atMs: atMs + durationMs, start, outcome });
    }
  }
}
