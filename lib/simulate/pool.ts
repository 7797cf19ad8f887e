/** Runs the product in memory, under virtual time, with the jobs' behaviour from a scenario. */
import type { PoolConfiguration } from '../core/configuration.ts';
import { type Job, type Json, TERMINAL_TTL_MS } from '../core/job.ts';
import type { ScheduleSpec } from '../core/recurring.ts';
import type { Scope } from '../core/scope.ts';
import type { DispatchContext } from '../dispatch/partition/context.ts';
import { skipIdle } from '../local/idle.ts';
import { type AttemptPlace, LocalScheduler, type WorkerLease, type WorkerPlan } from '../local/scheduler.ts';
import { seeded } from '../local/seeded.ts';
import { VirtualTime } from '../local/virtual-time.ts';
import { changeControl } from '../operate/controls.ts';
import { retimeJob } from '../operate/retime.ts';
import { putSchedule } from '../schedules/schedules.ts';
import type { ControlChange, ControlOutcome } from '../store/contract/requests.ts';
import type { StoreEvent } from '../store/memory/imitation/imitation.ts';
import type { MemoryJobStore } from '../store/memory/store.ts';
import { submit } from '../submit/submit.ts';
import type { JobContext } from '../worker/run-job.ts';

/** The behaviour of one attempt, which the scenario defines. */
export interface Work {
  readonly takesMs: number;
  /** The name of the error that it ends with; undefined if it succeeds. */
  readonly error?: string | undefined;
}

export interface SimulatedPoolOptions {
  readonly configuration: PoolConfiguration;
  /** The scenario's beginning, in epoch milliseconds. */
  readonly startMs: number;
  readonly seed: number;
  /** The lease of worker processes; undefined for the product's default. */
  readonly workerLease: WorkerLease | undefined;
  readonly workOf: (jobId: string, attempt: number) => Work;
  /** Called for every change in the store, when it happens. */
  readonly observe: (event: StoreEvent<Job>) => void;
  /** Called when a job is scheduled for later. */
  readonly onScheduled: (job: Job) => void;
}

export class SimulatedPool {
  readonly configuration: PoolConfiguration;
  readonly time: VirtualTime;
  readonly store: MemoryJobStore;
  readonly #options: SimulatedPoolOptions;
  readonly #scheduler: LocalScheduler;
  #failure: unknown;

  constructor(options: SimulatedPoolOptions) {
    const { configuration, startMs, seed, observe } = options;
    this.#options = options;
    this.configuration = configuration;
    this.time = new VirtualTime(startMs);
    this.#scheduler = new LocalScheduler({
      configuration,
      clock: this.time.clock(),
      after: this.time.after,
      random: seeded(`${seed}/pool`),
      workerRandom: seeded(`${seed}`),
      workerLease: options.workerLease,
      handle: (_payload, run, place) => this.#handle(run, place),
      observe,
      onFailure: (error) => this.fail(error),
    });
    this.store = this.#scheduler.store;
    this.store.subscribe(({ newJob }) => {
      if (newJob.state === 'scheduled' && newJob.runAtMs > this.time.nowMs) options.onScheduled(newJob);
    });
  }

  /** The caches that the dispatcher keeps between passes. */
  get caches(): DispatchContext['caches'] {
    return this.#scheduler.caches;
  }

  get partitions(): readonly number[] {
    return this.#scheduler.partitions;
  }

  partitionOf(fairnessKey: string): number {
    return this.#scheduler.client.partitionOf(fairnessKey);
  }

  // Producers and operators

  async submit(jobs: readonly Job[]): Promise<void> {
    await submit(this.#scheduler.client, jobs);
  }

  /** Puts a schedule as the client does. @param putAtMs - the schedule may fire after this instant */
  async putSchedule(id: string, spec: ScheduleSpec, putAtMs: number): Promise<void> {
    await putSchedule({ ...this.#scheduler.client, nowMs: () => putAtMs }, id, spec, false);
  }

  /** Requests a pass if the schedule is due. The pass is made at this instant, not at the next whole second. */
  wakeForSchedule(id: string): void {
    const state = this.store.inspectSchedule(id)?.state;
    if (state?.dueMs !== undefined && state.dueMs <= this.time.nowMs) this.#scheduler.wake(state.partition);
  }

  async cancel(jobId: string): Promise<void> {
    const { nowMs } = this.time;
    await this.store.cancelJob({ jobId, nowMs, expiresAtMs: nowMs + TERMINAL_TTL_MS });
  }

  async retime(jobId: string, runAtMs: number): Promise<void> {
    await retimeJob(this.#scheduler.client, jobId, runAtMs);
  }

  changeControl(scope: Scope, change: ControlChange): Promise<ControlOutcome> {
    return changeControl(this.#scheduler.client, scope, change);
  }

  /** Requests a pass if the job is due. The pass is made at this instant, not at the next whole second. */
  wakeFor(jobId: string): void {
    const job = this.store.inspectJob(jobId);
    if (job?.state === 'scheduled' && job.runAtMs <= this.time.nowMs) this.#scheduler.wake(job.partition);
  }

  // Workers

  /** Starts a worker process, as a new incarnation of its id. */
  join(plan: WorkerPlan): void {
    this.#scheduler.join(plan);
  }

  /** Makes a process vanish without notice, together with its running jobs. */
  vanish(workerId: string): void {
    this.#scheduler.vanish(workerId);
  }

  /**
   * Makes the function or process that runs this job vanish. A process vanishes with all its jobs, and its supervisor
   * starts it again at once.
   */
  lose(jobId: string): void {
    this.#scheduler.lose(jobId);
  }

  // The run

  /** Ends the simulation with this error. */
  fail(error: unknown): void {
    this.#failure ??= error;
  }

  /** Does everything that is due by now, then makes passes until nothing is left to decide at this instant. */
  async act(): Promise<void> {
    do {
      await this.time.runDue();
      if (this.#failure !== undefined) throw this.#failure;
    } while (await this.#scheduler.step());
  }

  /**
   * Skips time up to shortly before an instant, if no job waits, runs or is due until then.
   *
   * @param hasOpenJobs - whether a job is pending, claimed or running
   */
  skipIdle(untilMs: number, hasOpenJobs: boolean): void {
    if (!hasOpenJobs) skipIdle(this.#scheduler, this.time, untilMs);
  }

  /** The users' handler: works for a while, obeys its signal, and succeeds or throws. */
  async #handle(run: JobContext, { life }: AttemptPlace): Promise<Json> {
    const { takesMs, error } = this.#options.workOf(run.jobId, run.attempt);
    const endsMs = this.time.nowMs + takesMs;
    await this.time.sleep(takesMs, run.signal);
    await life.ifAlive(undefined);
    // Work that ends at the very instant of the deadline is in time.
    if (this.time.nowMs < endsMs) run.signal.throwIfAborted();
    if (error !== undefined) throw errorNamed(error);
    return null;
  }
}

function errorNamed(name: string): Error {
  const error = new Error('the scenario makes this attempt fail');
  error.name = name;
  return error;
}
