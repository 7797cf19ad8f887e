/** What a worker process is at: attempts that were accepted, and what becomes of them. */

import { type Job, partitionOfClaim } from '../../core/job.ts';
import { mayHaveRun } from '../../core/life-cycle.ts';
import type { DispatchMessage, ReceivedMessage } from '../../queue/contract.ts';
import { untilAborted } from '../../runtime/abort.ts';
import { instantOf } from '../../runtime/instant.ts';
import type { WorkerIdentity } from '../../store/contract/records.ts';
import { deadlinesBy, noteStart, type Progress, progressOf, watchJobs } from '../attempt-host.ts';
import { endIfDead } from '../dead-function.ts';
import { isAttemptError, WorkerStoppedError } from '../errors.ts';
import type { Guard } from '../guard.ts';
import { retryingOf, retryingStore } from '../retrying-store.ts';
import { type RunContext, type RunOutcome, runJob, STOP_GRACE_MS } from '../run-job.ts';
import type { Ending } from './ending.ts';
import type { Deletions } from './messages.ts';
import type { WorkerReport, WorkerSettings } from './options.ts';
import type { ServedPartitions } from './partitions.ts';

/** How long the outcomes of handlers that were told to stop are waited for. */
export const WRITES_MS = 5_000;
/** How long the process may take to end once everything is over: its messages are deleted. */
const EXIT_MS = 5_000;
/** A handler that says more than this how far it is, is heard this often. */
const PROGRESS_EVERY_MS = 500;

export interface AttemptsScope {
  readonly settings: WorkerSettings;
  readonly life: WorkerIdentity;
  readonly guard: Guard;
  readonly ending: Ending;
  readonly partitions: ServedPartitions;
  readonly deletions: Deletions;
}

/** Tells whoever waits that something has changed. */
function bell(): { readonly ring: () => void; readonly next: () => Promise<void> } {
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

export class Attempts {
  readonly #scope: AttemptsScope;
  /** What was accepted, by claim; with the job, once it has started. */
  readonly #occupants = new Map<string, { readonly job?: Job | undefined }>();
  /** Jobs that have lost a worker, by claim, in the order in which they came: the first of them runs once nothing else does, and nothing beside it. */
  readonly #apart = new Set<string>();
  readonly #outcomes: Partial<Record<RunOutcome, number>> = {};
  readonly #changed = bell();
  #handling = 0;
  readonly #context: Omit<RunContext, 'onStarted' | 'onHandling' | 'onProgress'>;

  constructor(scope: AttemptsScope) {
    const { settings, life, guard, ending } = scope;
    const { store, configuration, clock, random, log } = settings;
    const retrying = retryingOf({ clock, random, log });
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
      worker: life,
      signal: ending.stopped,
      lookAtLease: guard.isTrusted,
      deadlines: deadlinesBy(clock),
      watch: watchJobs({ store, clock, log, everyMs: settings.watchEveryMs }),
    };
  }

  get outcomes(): WorkerReport['outcomes'] {
    return this.#outcomes;
  }

  /** Handlers that run. */
  get handling(): number {
    return this.#handling;
  }

  readonly free = (): number =>
    this.#apart.size > 0 ? 0 : this.#scope.settings.slots - this.#occupants.size;

  /** An attempt outlasts its handler, unless that hangs: what is handled after the last attempt hangs. */
  readonly isIdle = (): boolean => this.#occupants.size === 0;

  /** Whether anything of a partition was accepted, and is not over. */
  isAtWork(partition: number): boolean {
    return [...this.#occupants.keys()].some((claimId) => partitionOfClaim(claimId) === partition);
  }

  /** Resolves at the next change. */
  readonly changed = (): Promise<void> => this.#changed.next();

  readonly accept = ({ jobs, receipt }: ReceivedMessage): void => {
    const [message] = jobs;
    // Sent when the fleet had functions: its jobs are sent again one by one, when their reservations are checked.
    if (message === undefined || jobs.length > 1) void this.#passOver(jobs, receipt);
    // Not another attempt: a repeated start would be answered as if it were the first one.
    else if (this.#occupants.has(message.claimId)) this.#scope.deletions.add(receipt);
    // Nothing begins beside a job that runs apart.
    else if (this.#apart.size > 0) void this.#handBack(receipt);
    else if (this.#scope.guard.isTrusted()) {
      this.#occupants.set(message.claimId, {});
      void this.#run(message, receipt);
    }
  };

  /** Waits until nothing is under way, at most so long, or until `early` aborts. */
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
      // Its message comes again.
      this.#changed.ring();
      return;
    }
    if (!(await this.#mayBegin(message))) {
      this.#leave(claimId);
      // Others may have it at once, or it comes again.
      if (this.#scope.ending.begun.aborted) await this.#handBack(receipt);
      return;
    }
    const { settings, life, guard, ending } = this.#scope;
    const { clock, log } = settings;
    let isHung = false;
    const progress = progressOf({
      clock,
      log,
      everyMs: PROGRESS_EVERY_MS,
      pass: (latest) => guard.tell({ kind: 'progress', claimId, progress: latest }),
    });
    try {
      const outcome = await runJob(this.#contextOf(claimId, receipt, progress), settings.handlers, message);
      this.#outcomes[outcome] = (this.#outcomes[outcome] ?? 0) + 1;
      if (outcome === 'superseded' && this.#occupants.get(claimId)?.job === undefined)
        await this.#passOver([message], receipt);
    } catch (error) {
      log.warn('the worker has to end', { ...life, ...message, error: String(error) });
      // Only the end of this life brings the job back.
      isHung = isAttemptError(error, 'HandlerHung');
      ending.begin(isHung ? 'hung' : 'broken');
    } finally {
      progress.end();
      // The others may end before the process does.
      if (isHung) guard.tell({ kind: 'hung', claimId, since: instantOf(clock), endsInMs: this.#endMs() });
      else guard.tell({ kind: 'over', claimId });
      this.#leave(claimId);
    }
  }

  #leave(claimId: string): void {
    this.#occupants.delete(claimId);
    this.#apart.delete(claimId);
    this.#changed.ring();
  }

  /**
   * Waits until a job may begin: one that has lost a worker may end the next one too, so nothing runs beside it, and it takes no other job along.
   * False: the worker ends before that, or it is not known what the job is.
   */
  async #mayBegin({ jobId, claimId, toClaim }: DispatchMessage): Promise<boolean> {
    const { settings, ending } = this.#scope;
    // Most jobs were never begun before: their version tells, without a read.
    if (settings.slots === 1 || (toClaim !== undefined && !mayHaveRun(toClaim))) return true;
    try {
      const [job] = await settings.store.lookUpJobs({ ids: [jobId], unreadable: () => {} });
      // planted: suspects-beside-others
      if (job === undefined || job.workersLost === 0) return true;
    } catch (error) {
      settings.log.warn('message failed and will come again', { jobId, error: String(error) });
      return false;
    }
    this.#apart.add(claimId);
    // Another one may have waited to know what this one is.
    this.#changed.ring();
    const isTurn = (): boolean =>
      this.#apart.values().next().value === claimId &&
      [...this.#occupants.keys()].every((each) => this.#apart.has(each));
    while (!ending.begun.aborted && !isTurn()) await untilAborted(this.changed(), ending.begun);
    return !ending.begun.aborted;
  }

  async #handBack(receipt: string): Promise<void> {
    const { queue, fleet, log } = this.#scope.settings;
    try {
      await queue.handBack(fleet, [receipt]);
    } catch (error) {
      log.warn('a message was not handed back and will come again', { fleet, error: String(error) });
    }
  }

  /** A message of an attempt that is not this worker's. Where the fleet had functions before, nobody else says of one that died that it did. */
  async #passOver(jobs: readonly DispatchMessage[], receipt: string): Promise<void> {
    const { settings, deletions } = this.#scope;
    try {
      for (const each of jobs) await endIfDead(settings, each);
      deletions.add(receipt);
    } catch (error) {
      settings.log.warn('message failed and will come again', { jobs, error: String(error) });
    }
  }

  #contextOf(claimId: string, receipt: string, progress: Progress): RunContext {
    const { settings, guard, deletions } = this.#scope;
    return {
      ...this.#context,
      // From here on the job's reservation brings it back, not its message.
      onStarted: (job) => {
        // The start may have been answered after the lease was over: then the job is on its way to another worker.
        // planted: started-after-lease
        if (!guard.isTrusted())
          throw new WorkerStoppedError('the lease ended during the start', { isLoss: true });
        this.#occupants.set(claimId, { job });
        deletions.add(receipt);
        noteStart(settings.metrics, settings.configuration, job, settings.clock.nowMs());
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

  /** From the moment at which a handler hangs: what the others are given, and the process for its end. */
  #endMs(): number {
    return this.#scope.settings.shutdownMs + STOP_GRACE_MS + WRITES_MS + EXIT_MS;
  }
}
