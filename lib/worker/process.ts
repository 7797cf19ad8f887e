/**
 * A long-running worker: it registers slots, takes as many messages as it has free ones, runs them, and ends in order:
 * on request, when its lease is lost, or when a handler does not heed its signal.
 */

import type { PoolConfiguration } from '../core/configuration.ts';
import type { Job } from '../core/job.ts';
import { partitionOfClaim } from '../dispatch/judge.ts';
import type { DispatchMessage, JobQueue, ReceivedMessage } from '../queue/contract.ts';
import { abortOf, orAborted } from '../runtime/abort.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import { incarnationOf } from '../runtime/incarnation.ts';
import { instantOf } from '../runtime/instant.ts';
import { WORKER_ID_BYTES_MAX, WORKER_SLOTS_MAX } from '../store/bounds.ts';
import type { JobStore, WorkerLoad } from '../store/contract.ts';
import { deadlinesBy } from './deadlines.ts';
import { division } from './division.ts';
import { type GuardMaker, guardHere } from './guard.ts';
import { LEASE_MARGIN_MS, LOSS_GRACE_MS, type Loss, sharesOf } from './membership.ts';
import { patienceOf, patiently } from './patience.ts';
import { progressOf } from './progress.ts';
import {
  HandlerHungError,
  type JobHandlers,
  type RunContext,
  type RunOutcome,
  runJob,
  STOP_GRACE_MS,
  WorkerStoppedError,
} from './run-job.ts';
import { WATCH_EVERY_MS, watchJobs } from './watch.ts';

/** Thrown when a worker is started with what cannot work. */
export class WorkerConfigurationError extends Error {
  override readonly name = 'WorkerConfigurationError';
}

export interface WorkerProcessOptions {
  readonly store: JobStore;
  readonly queue: JobQueue;
  readonly configuration: PoolConfiguration;
  readonly typeUnder?: RunContext['typeUnder'];
  readonly declared?: number | undefined;
  readonly declaredAtMs?: number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly fleet: string;
  /** Jobs that run at once. */
  readonly slots: number;
  /** Unique among the workers that live; a new life of the same name supersedes the former one. */
  readonly workerId: string;
  /** One for each job type of the fleet. */
  readonly handlers: JobHandlers;
  /** @default - the pool's */
  readonly partitions?: number | undefined;
  /** As many partitions as there are by now, and ever were: looked at once a minute. @default - those that it began with */
  readonly partitionsNow?:
    | (() => Promise<{ readonly partitions: number; readonly partitionsEver: number }>)
    | undefined;
  /** @default 5 s */
  readonly heartbeatMs?: number | undefined;
  /** @default 15 s */
  readonly leaseMs?: number | undefined;
  /** How often running jobs are looked up for a cancel. @default 10 s */
  readonly watchEveryMs?: number | undefined;
  /** How long running jobs may go on after `signal`. @default 30 s */
  readonly shutdownMs?: number | undefined;
  /** Measures how the process bears its work since it was last asked; with each heartbeat. @default - it is not measured */
  readonly measure?: (() => WorkerLoad) | undefined;
  /** Ends the worker in order. */
  readonly signal: AbortSignal;
  /** Ends the process at once: the only way to stop a handler that hangs. */
  readonly exit: (reason: string) => void;
  /**
   * Keeps the worker's lease, and ends the process in time.
   *
   * @default - one in the same thread, with the same store: a handler that keeps the event loop busy stops it, too
   */
  readonly guard?: GuardMaker | undefined;
}

/** How often the number of partitions is looked at. */
const PARTITIONS_EVERY_MS = 60_000;

/** Why a worker ended. */
export type WorkerEnd =
  /** It was asked to. */
  | 'stopped'
  | Loss
  /** A handler did not heed its signal. */
  | 'hung'
  /** What became of a job could not be written down. */
  | 'broken';

export interface WorkerReport {
  readonly end: WorkerEnd;
  /** Attempts by what became of them. */
  readonly outcomes: Readonly<Partial<Record<RunOutcome, number>>>;
}

const HEARTBEAT_MS = 5_000;
const LEASE_MS = 15_000;
const SHUTDOWN_MS = 30_000;
/** The longest wait that SQS knows, and the shortest that does not ask all the time. */
const RECEIVE_WAIT_MAX_MS = 20_000;
const RECEIVE_WAIT_MIN_MS = 2_000;
const RECEIVE_MAX = 10;
/** Longer than a start takes: then the message is deleted. */
const HIDE_MS = 60_000;
const RECEIVE_RETRY_MS = 2_000;
/** Deletions wait for each other so long: a batch costs as much as one. */
const DELETE_AFTER_MS = 500;
const DELETE_MAX = 10;
/** How often the guard is told that the worker's thread has its turn. */
const ALIVE_EVERY_MS = 30_000;
/** How long the outcomes of handlers that were told to stop are waited for. */
const WRITES_MS = 5_000;
/** How long the process may take to end once everything is over: its messages are deleted. */
const EXIT_MS = 5_000;
/** How long a worker that has lost its lease goes on trying to write down what its handlers have done. */
const OUTCOMES_MS = 60_000;

/** A handler that says more than this how far it is, is heard this often. */
const PROGRESS_EVERY_MS = 500;

function requireWorkable(options: WorkerProcessOptions, heartbeatMs: number, leaseMs: number): void {
  const { configuration, fleet, slots, handlers, workerId } = options;
  const known = configuration.fleets.find((each) => each.fleet === fleet);
  if (known === undefined) {
    const names = configuration.fleets.map((each) => each.fleet).join(', ');
    throw new WorkerConfigurationError(
      `the pool has no fleet ${JSON.stringify(fleet)}; it has: ${names || 'none'}`,
    );
  }
  if (known.slots !== null) {
    throw new WorkerConfigurationError(
      `fleet ${JSON.stringify(fleet)} declares ${known.slots} slots for functions; declare it without a handler and without slots`,
    );
  }
  const missing = known.types.filter((type) => !Object.hasOwn(handlers, type));
  if (missing.length > 0) {
    throw new WorkerConfigurationError(
      `fleet ${JSON.stringify(fleet)} also takes ${missing.join(', ')}: give a handler for each of its types`,
    );
  }
  if (!Number.isInteger(slots) || slots < 1 || slots > WORKER_SLOTS_MAX) {
    throw new WorkerConfigurationError(
      `slots is ${slots}; give a whole number from 1 to ${WORKER_SLOTS_MAX}, and run several workers for more`,
    );
  }
  const nameBytes = Buffer.byteLength(workerId, 'utf8');
  if (nameBytes > WORKER_ID_BYTES_MAX) {
    throw new WorkerConfigurationError(
      `workerId has ${nameBytes} bytes; give a name of at most ${WORKER_ID_BYTES_MAX}`,
    );
  }
  if (!(heartbeatMs > 0 && heartbeatMs < leaseMs - LEASE_MARGIN_MS)) {
    throw new WorkerConfigurationError(
      `heartbeatMs is ${heartbeatMs}; it must be above 0 and below leaseMs - ${LEASE_MARGIN_MS}, which is ${leaseMs - LEASE_MARGIN_MS}`,
    );
  }
}

/** Deletes messages in batches. One that stays comes again, finds its job gone on, and is deleted then. */
function deletions({ queue, clock, log, fleet }: WorkerProcessOptions): {
  readonly add: (receipt: string) => void;
  readonly flush: () => Promise<void>;
} {
  let receipts: string[] = [];
  const flush = async (): Promise<void> => {
    const batch = receipts;
    receipts = [];
    if (batch.length === 0) return;
    try {
      await queue.delete(fleet, batch);
    } catch (error) {
      log.warn('messages were not deleted and will come again', { fleet, error: String(error) });
    }
  };
  const add = (receipt: string): void => {
    receipts.push(receipt);
    if (receipts.length >= DELETE_MAX) void flush();
    else if (receipts.length === 1) void clock.sleep(DELETE_AFTER_MS).then(flush);
  };
  return { add, flush };
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

/**
 * Runs a worker until it is told to end, or has to. When this resolves, no handler runs any more, or `exit` was called.
 *
 * @throws WorkerConfigurationError - before anything was registered
 * @throws the store's errors - when the worker could not be registered
 */
export async function runWorker(options: WorkerProcessOptions): Promise<WorkerReport> {
  const { store, queue, configuration, clock, random, log, fleet, slots, workerId, signal } = options;
  const { heartbeatMs = HEARTBEAT_MS, leaseMs = LEASE_MS, shutdownMs = SHUTDOWN_MS } = options;
  requireWorkable(options, heartbeatMs, leaseMs);
  const partitions = options.partitions ?? configuration.partitions;
  /** From the moment at which a handler hangs: what the others are given, and the process for its end. */
  const endMs = shutdownMs + STOP_GRACE_MS + WRITES_MS + EXIT_MS;
  const life = { workerId, incarnation: incarnationOf(clock.nowMs(), random()) };

  /** What was accepted, by claim; with the job, once it has started. */
  const occupants = new Map<string, { readonly job?: Job | undefined }>();
  const outcomes: Partial<Record<RunOutcome, number>> = {};
  const deleted = deletions(options);
  const changed = bell();
  let handling = 0;
  let end: WorkerEnd | undefined;
  /** Nothing new is begun. */
  const ending = new AbortController();
  /** Nobody may run any longer. */
  const lost = new AbortController();
  /** Handlers are told to stop. */
  const stop = new AbortController();
  /** What was done, and could not be written down so far, is given up. */
  const over = new AbortController();

  const beginEnd = (why: WorkerEnd): void => {
    end ??= why;
    ending.abort();
  };
  const onLost = (loss: Loss): void => {
    // Worse than whatever ended it so far.
    end = loss;
    lost.abort();
    ending.abort();
    stop.abort(new WorkerStoppedError(`the worker lost its lease (${loss})`));
  };
  const onSignal = (): void => beginEnd('stopped');

  const offset = random();
  /** Many small workers do not all serve the same partitions. */
  const firstOf = (count: number): number => Math.floor(offset * count);
  const shares = new Map(sharesOf(slots, partitions, firstOf(partitions)));
  // Jobs may be under way in partitions that are none any more.
  const { partitionsEver = partitions } = (await options.partitionsNow?.()) ?? {};
  for (let partition = partitions; partition < partitionsEver; partition += 1) shares.set(partition, 0);
  const makeGuard = options.guard ?? guardHere({ store, clock, log, kill: options.exit });
  const guard = await makeGuard({ life, fleet, shares, heartbeatMs, leaseMs }, { onLost, signal });
  if (guard === 'aborted') return { end: 'stopped', outcomes };
  if (guard === 'superseded') return { end: 'superseded', outcomes };
  log.info('worker registered', { ...life, fleet, slots });
  ending.signal.addEventListener('abort', () => guard.tell({ kind: 'ending' }));
  if (signal.aborted) onSignal();
  signal.addEventListener('abort', onSignal);

  const deadlines = deadlinesBy(clock);
  const watch = watchJobs({ store, clock, log, everyMs: options.watchEveryMs ?? WATCH_EVERY_MS });
  const patience = patienceOf({ clock, random, log });
  const patient = patiently(store, patience, { lost: lost.signal, over: over.signal });
  const typeUnder = options.typeUnder && patience('typeUnder', over.signal, options.typeUnder);
  const isServed = new Set(shares.keys());
  /** A partition that came to be since this life began is registered with first. */
  const serves = async (partition: number): Promise<boolean> => {
    if (!isServed.has(partition) && (await guard.serve(partition))) isServed.add(partition);
    return isServed.has(partition);
  };
  const run = async (message: DispatchMessage, receipt: string): Promise<void> => {
    const { claimId } = message;
    if (!(await serves(partitionOfClaim(claimId)))) {
      occupants.delete(claimId);
      // Its message comes again.
      changed.ring();
      return;
    }
    let isHung = false;
    const progress = progressOf({
      clock,
      log,
      everyMs: PROGRESS_EVERY_MS,
      pass: (latest) => guard.tell({ kind: 'progress', claimId, progress: latest }),
    });
    try {
      const outcome = await runJob(
        {
          store: patient,
          configuration,
          typeUnder,
          declared: options.declared,
          declaredAtMs: options.declaredAtMs,
          clock,
          random,
          log,
          worker: life,
          signal: stop.signal,
          lookAtLease: guard.isTrusted,
          deadlines,
          watch,
          // From here on the job's reservation brings it back, not its message.
          onStarted: (job) => {
            // The start may have been answered after the lease was over: then the job is on its way to another worker.
            if (!guard.isTrusted()) throw new WorkerStoppedError('the lease ended during the start');
            occupants.set(claimId, { job });
            deleted.add(receipt);
          },
          onHandling: (job, endsInMs) => {
            const { id: jobId, partition } = job;
            handling += 1;
            guard.tell({ kind: 'began', claimId, jobId, partition, since: instantOf(clock), endsInMs });
            return () => {
              handling -= 1;
              guard.tell({ kind: 'handled', claimId });
              changed.ring();
            };
          },
          onProgress: progress.say,
        },
        options.handlers,
        message,
      );
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      if (outcome === 'superseded' && occupants.get(claimId)?.job === undefined) deleted.add(receipt);
    } catch (error) {
      log.warn('the worker has to end', { ...life, ...message, error: String(error) });
      // Only the end of this life brings the job back.
      isHung = error instanceof HandlerHungError;
      beginEnd(isHung ? 'hung' : 'broken');
    } finally {
      progress.end();
      occupants.delete(claimId);
      // The others may end before the process does.
      if (isHung) guard.tell({ kind: 'hung', claimId, since: instantOf(clock), endsInMs: endMs });
      else guard.tell({ kind: 'over', claimId });
      changed.ring();
    }
  };

  const accept = ({ message, receipt }: ReceivedMessage): void => {
    // Not another attempt: a repeated start would be answered as if it were the first one.
    if (occupants.has(message.claimId)) deleted.add(receipt);
    else if (guard.isTrusted()) {
      occupants.set(message.claimId, {});
      void run(message, receipt);
    }
  };

  // A queue may answer a receive whose process has died, and hide the message: so the wait is over before the lease is, when
  // the jobs of this worker are sent to others.
  const receiveWaitMs = Math.min(
    RECEIVE_WAIT_MAX_MS,
    Math.max(RECEIVE_WAIT_MIN_MS, leaseMs - LEASE_MARGIN_MS),
  );
  const receiveOn = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      const free = slots - occupants.size;
      if (free <= 0) {
        await orAborted(changed.next(), ending.signal);
        continue;
      }
      try {
        const max = Math.min(free, RECEIVE_MAX);
        const received = await queue.receive(fleet, max, receiveWaitMs, HIDE_MS, ending.signal);
        // What comes when the end has begun is hidden for a while, and then comes to another worker.
        if (!ending.signal.aborted) for (const each of received) accept(each);
      } catch (error) {
        log.warn('messages could not be received; trying again', { fleet, error: String(error) });
        await clock.sleep(RECEIVE_RETRY_MS * (0.5 + random() / 2), ending.signal);
      }
    }
  };

  /** Waits until it is so, at most so long, or until `signal` aborts. */
  const until = async (isSo: () => boolean, ms: number, early: AbortSignal): Promise<void> => {
    const over = new AbortController();
    const time = clock.sleep(ms, over.signal).then(() => over.abort());
    const cut = (): void => over.abort();
    early.addEventListener('abort', cut);
    while (!isSo() && !over.signal.aborted && !early.aborted) await orAborted(changed.next(), over.signal);
    early.removeEventListener('abort', cut);
    over.abort();
    await time;
  };

  const ended = new AbortController();
  /** The guard hears of each attempt; this is for the time between them. */
  const liveOn = async (): Promise<void> => {
    for (; !ended.signal.aborted; await clock.sleep(ALIVE_EVERY_MS, ended.signal))
      guard.tell({ kind: 'alive' });
  };
  void liveOn();
  const tellLoad = async (): Promise<void> => {
    const { measure } = options;
    if (measure === undefined) return;
    for (; !ended.signal.aborted; await clock.sleep(heartbeatMs, ended.signal))
      guard.tell({ kind: 'load', load: measure(), since: instantOf(clock), nextInMs: heartbeatMs });
  };
  void tellLoad();

  const divide = division({
    store,
    nowMs: () => clock.nowMs(),
    life,
    fleet,
    slots,
    shares,
    tell: (partition, share) => guard.tell({ kind: 'share', partition, slots: share }),
  });
  const followPartitions = async (): Promise<void> => {
    const { partitionsNow } = options;
    if (partitionsNow === undefined) return;
    for (;;) {
      await clock.sleep(PARTITIONS_EVERY_MS, ended.signal);
      if (ended.signal.aborted || ending.signal.aborted) return;
      try {
        const now = await partitionsNow();
        const all = Array.from({ length: now.partitionsEver }, (_, at) => at);
        for (const partition of all.filter((each) => !isServed.has(each)))
          if (await serves(partition)) await wake(options, [partition]);
        if (all.every((each) => isServed.has(each))) await divide(now.partitions, firstOf(now.partitions));
      } catch (error) {
        log.warn('the number of partitions could not be followed; trying again', {
          ...life,
          error: String(error),
        });
      }
    }
  };
  void followPartitions();

  await wake(options, shares.keys());
  void receiveOn();
  await abortOf(ending.signal);

  // An attempt outlasts its handler, unless that hangs: what is handled after the last attempt hangs.
  const isIdle = (): boolean => occupants.size === 0;
  const never = new AbortController().signal;
  await until(isIdle, shutdownMs, lost.signal);
  if (!lost.signal.aborted && !isIdle()) {
    stop.abort(new WorkerStoppedError('the worker is shut down'));
    await until(isIdle, STOP_GRACE_MS + WRITES_MS, lost.signal);
  }
  if (lost.signal.aborted) await until(isIdle, LOSS_GRACE_MS, never);
  // Nothing runs here any more. In an outage, what was done is still ours to write down: nobody could take it away.
  if (lost.signal.aborted && handling === 0 && !isIdle()) await until(isIdle, OUTCOMES_MS, never);
  over.abort();

  signal.removeEventListener('abort', onSignal);
  ended.abort();
  if (handling === 0 && !lost.signal.aborted) await guard.leave();
  // As long as handlers run, the lease is kept: it must not end before they do.
  await orAborted(deleted.flush(), lost.signal);
  guard.abandon();
  log.info('worker ended', { ...life, fleet, end, outcomes });
  if (handling > 0) {
    options.exit(`worker ${workerId} ends (${end}): ${handling} of its handlers did not heed their signal`);
  }
  return { end: end ?? 'stopped', outcomes };
}

/** There are new slots: jobs may be waiting for them. A hint; the next tick makes up for a lost one. */
async function wake(options: WorkerProcessOptions, partitions: Iterable<number>): Promise<void> {
  const { store, queue, log } = options;
  await Promise.all(
    Array.from(partitions, async (partition) => {
      try {
        await store.wake(partition);
        await queue.sendWake(partition, 0);
      } catch (error) {
        log.warn('the partition was not woken; the next tick will', { partition, error: String(error) });
      }
    }),
  );
}
