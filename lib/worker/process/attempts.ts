/** The attempts of a worker process, from the message that it accepts to the outcome. */

import { type Job, type MovingJob, partitionOfClaim } from '../../core/job.ts';
import { mayHaveRun } from '../../core/life-cycle.ts';
import type { DispatchMessage, ReceivedMessage } from '../../queue/contract.ts';
import { untilAborted } from '../../runtime/abort.ts';
import { instantOf } from '../../runtime/instant.ts';
import type { WorkerIdentity } from '../../store/contract/records.ts';
import { countStart, createDeadlines, type Progress, throttleProgress, watchJobs } from '../attempt-host.ts';
import { endAttemptOfDeadFunction } from '../dead-function.ts';
import { isAttemptError, WorkerStoppedError } from '../errors.ts';
import type { Guard } from '../guard.ts';
import { createRetrying, retryingStore } from '../retrying-store.ts';
import { type RunContext, type RunOutcome, runJob, STOP_GRACE_MS } from '../run-job.ts';
import type { WorkerShutdown } from './ending.ts';
import type { Deletions } from './messages.ts';
import type { WorkerReport, WorkerSettings } from './options.ts';
import type { ServedPartitions } from './partitions.ts';

/** Milliseconds for which the worker waits until the outcomes of handlers that were told to stop are stored. */
export const WRITES_MS = 5_000;
/** Milliseconds that the process may take to end after its attempts are over, with the deletion of their messages. */
const EXIT_MS = 5_000;
/** Milliseconds between two reports of an attempt's progress to the guard, at least. */
const PROGRESS_EVERY_MS = 500;

export interface AttemptsScope {
  readonly settings: WorkerSettings;
  readonly life: WorkerIdentity;
  readonly guard: Guard;
  readonly ending: WorkerShutdown;
  readonly partitions: ServedPartitions;
  readonly deletions: Deletions;
}

/** Returns a signal for changes: `ring` wakes all callers that wait for the next change. */
function changeNotifier(): { readonly ring: () => void; readonly next: () => Promise<void> } {
  let waiting: (() => void)[] = [];
  return {
    ring: () => {
      const woken = waiting;
      waiting = [];
      for (const wake of woken) wake();
    },
    next: () => new Promise((resolve) => waiting.push(resolve)),
  };
}

/**
 * Whether the message's claim may still start the job. A job's version only rises, so a claim that was passed over
 * never holds the job again.
 */
function mayStillStart(job: MovingJob, { claimId, toClaim }: DispatchMessage): boolean {
  if (job.state === 'pending') return job.version === toClaim?.version;
  return job.state === 'claimed' && job.claim?.claimId === claimId;
}

export class Attempts {
  readonly #scope: AttemptsScope;
  /** Accepted attempts by claim, with the job once it has started. */
  readonly #occupants = new Map<string, { readonly job?: Job | undefined }>();
  /**
   * Claims of jobs that have lost a worker, in order of arrival. The first of them runs once no other attempt does,
   * and alone.
   */
  readonly #runAlone = new Set<string>();
  readonly #outcomes: Partial<Record<RunOutcome, number>> = {};
  readonly #changed = changeNotifier();
  #handling = 0;
  readonly #context: Omit<RunContext, 'onStarted' | 'onHandling' | 'onProgress'>;

  constructor(scope: AttemptsScope) {
    const { settings, life, guard, ending } = scope;
    const { store, configuration, clock, random, log } = settings;
    const retrying = createRetrying({ clock, random, log });
    this.#scope = scope;
    this.#context = {
      store: retryingStore(store, retrying, { lost: ending.lost, over: ending.over }),
      configuration,
      typeUnder: settings.typeUnder && retrying('typeUnder', ending.over, settings.typeUnder),
      declared: settings.declared,
      declaredAtMs: settings.declaredAtMs,
      clock,
      random,
      log,
      client: settings.client,
      large: settings.large,
      worker: life,
      signal: ending.stopped,
      lookAtLease: guard.isTrusted,
      deadlines: createDeadlines(clock),
      watch: watchJobs({ store, clock, log, everyMs: settings.watchEveryMs }),
    };
  }

  get outcomes(): WorkerReport['outcomes'] {
    return this.#outcomes;
  }

  /** Returns how many handlers run. */
  get handling(): number {
    return this.#handling;
  }

  readonly free = (): number =>
    this.#runAlone.size > 0 ? 0 : this.#scope.settings.slots - this.#occupants.size;

  /**
   * Whether no attempt is left. An attempt lasts longer than its handler, so a handler that still runs then is hung.
   */
  readonly isIdle = (): boolean => this.#occupants.size === 0;

  /** Whether a job of the partition was accepted and its attempt is not over. */
  isAtWork(partition: number): boolean {
    return [...this.#occupants.keys()].some((claimId) => partitionOfClaim(claimId) === partition);
  }

  /** Resolves at the next change. */
  readonly changed = (): Promise<void> => this.#changed.next();

  readonly accept = ({ jobs, receipt }: ReceivedMessage): void => {
    const [message] = jobs;
    // A message with several jobs was sent while the fleet had functions. Its jobs are sent again one by one when their
    // reservations are checked.
    if (message === undefined || jobs.length > 1) void this.#discard(jobs, receipt);
    // A duplicate must not start again: the store would answer it like the first start.
    else if (this.#occupants.has(message.claimId)) this.#scope.deletions.add(receipt);
    // No attempt begins beside a job that runs alone, so other workers get the message.
    else if (this.#runAlone.size > 0) void this.#handBack(receipt);
    else if (this.#scope.guard.isTrusted()) {
      this.#occupants.set(message.claimId, {});
      void this.#run(message, receipt);
    }
  };

  /** Waits until no attempt is left, for at most `ms`, or until `early` aborts. */
  async untilIdle(ms: number, early?: AbortSignal | undefined): Promise<void> {
    const over = new AbortController();
    const time = this.#scope.settings.clock.sleep(ms, over.signal).then(() => over.abort());
    const cut = (): void => over.abort();
    early?.addEventListener('abort', cut);
    while (!this.isIdle() && !over.signal.aborted && early?.aborted !== true)
      await untilAborted(this.changed(), over.signal);
    early?.removeEventListener('abort', cut);
    over.abort();
    await time;
  }

  async #run(message: DispatchMessage, receipt: string): Promise<void> {
    const { claimId } = message;
    if (!(await this.#scope.partitions.serves(partitionOfClaim(claimId)))) {
      this.#occupants.delete(claimId);
      // The message is delivered again.
      this.#changed.ring();
      return;
    }
    if (!(await this.#waitToBegin(message))) {
      this.#remove(claimId);
      // A worker that ends gives the message back, so that others have it at once; otherwise it is delivered again.
      if (this.#scope.ending.begun.aborted) await this.#handBack(receipt);
      return;
    }
    const { settings, life, guard, ending } = this.#scope;
    const { clock, log } = settings;
    let isHung = false;
    const progress = throttleProgress({
      clock,
      log,
      everyMs: PROGRESS_EVERY_MS,
      pass: (latest) => guard.tell({ kind: 'progress', claimId, progress: latest }),
    });
    try {
      const outcome = await runJob(this.#contextOf(claimId, receipt, progress), settings.handlers, message);
      this.#outcomes[outcome] = (this.#outcomes[outcome] ?? 0) + 1;
      if (outcome === 'superseded' && this.#occupants.get(claimId)?.job === undefined)
        await this.#discard([message], receipt);
    } catch (error) {
      log.warn('the worker has to end', { ...life, ...message, error: String(error) });
      // Other workers take the job over only after this worker has ended.
      isHung = isAttemptError(error, 'HandlerHung');
      ending.begin(isHung ? 'hung' : 'broken');
    } finally {
      progress.end();
      // Other attempts may end before the process does.
      if (isHung)
        guard.tell({ kind: 'hung', claimId, since: instantOf(clock), endsInMs: this.#processEndMs() });
      else guard.tell({ kind: 'over', claimId });
      this.#remove(claimId);
    }
  }

  #remove(claimId: string): void {
    this.#occupants.delete(claimId);
    this.#runAlone.delete(claimId);
    this.#changed.ring();
  }

  /**
   * Waits until a job may begin. A job that has lost a worker may end the next one too, so it runs alone and takes no
   * other job along. An outdated message does not wait, because its start is refused in any case. False: the worker
   * ends before the job may begin, or the job could not be looked up.
   */
  async #waitToBegin(message: DispatchMessage): Promise<boolean> {
    const { jobId, claimId, toClaim } = message;
    const { settings, ending } = this.#scope;
    // Most jobs have never begun before: their version shows it, without a read.
    if (settings.slots === 1 || (toClaim !== undefined && !mayHaveRun(toClaim))) return true;
    try {
      const [job] = await settings.store.lookUpJobs({ ids: [jobId], unreadable: () => {} });
      // planted: suspects-beside-others
      if (job === undefined || job.workersLost === 0) return true;
      // planted: outdated-waits-alone
      if (!mayStillStart(job, message)) return true;
    } catch (error) {
      settings.log.warn('message failed and will be delivered again', { jobId, error: String(error) });
      return false;
    }
    this.#runAlone.add(claimId);
    // Other jobs that must run alone wait until nothing else runs.
    this.#changed.ring();
    const isNext = (): boolean =>
      this.#runAlone.values().next().value === claimId &&
      [...this.#occupants.keys()].every((each) => this.#runAlone.has(each));
    while (!ending.begun.aborted && !isNext()) await untilAborted(this.changed(), ending.begun);
    return !ending.begun.aborted;
  }

  async #handBack(receipt: string): Promise<void> {
    const { queue, fleet, log } = this.#scope.settings;
    try {
      await queue.handBack(fleet, [receipt]);
    } catch (error) {
      log.warn('a message was not handed back and will be delivered again', { fleet, error: String(error) });
    }
  }

  /**
   * Deletes a message whose attempt is not this worker's. If a function of the fleet had started the job and died,
   * its attempt is ended first: nothing else reports that.
   */
  async #discard(jobs: readonly DispatchMessage[], receipt: string): Promise<void> {
    const { settings, deletions } = this.#scope;
    try {
      for (const each of jobs) await endAttemptOfDeadFunction(settings, each);
      deletions.add(receipt);
    } catch (error) {
      settings.log.warn('message failed and will be delivered again', { jobs, error: String(error) });
    }
  }

  #contextOf(claimId: string, receipt: string, progress: Progress): RunContext {
    const { settings, guard, deletions } = this.#scope;
    return {
      ...this.#context,
      // Once the job has started, its reservation brings it back if the worker is lost, so the message may go.
      onStarted: (job) => {
        // The start may have been answered after the lease was over: then another worker may get the job.
        // planted: started-after-lease
        if (!guard.isTrusted())
          throw new WorkerStoppedError('the lease ended during the start', { isLoss: true });
        this.#occupants.set(claimId, { job });
        deletions.add(receipt);
        countStart(settings.metrics, settings.configuration, job, settings.clock.nowMs());
      },
      onHandling: (job, endsInMs) => {
        const { id: jobId, partition } = job;
        this.#handling += 1;
        guard.tell({ kind: 'began', claimId, jobId, partition, since: instantOf(settings.clock), endsInMs });
        return () => {
          this.#handling -= 1;
          guard.tell({ kind: 'handled', claimId });
          this.#changed.ring();
        };
      },
      onProgress: progress.say,
    };
  }

  /**
   * Returns for how many milliseconds the process may live on after a handler hangs: the other attempts' grace, and the
   * process's own end.
   */
  #processEndMs(): number {
    return this.#scope.settings.shutdownMs + STOP_GRACE_MS + WRITES_MS + EXIT_MS;
  }
}
