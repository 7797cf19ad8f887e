/**
 * A Lambda handler around a worker's handlers: one invocation runs a batch of messages and reports those that failed.
 */

import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import type { Metrics } from '../metrics/contract.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import { decodeDispatchMessage } from '../queue/message.ts';
import { instantOf, sinceMs } from '../runtime/instant.ts';
import type { WorkerStore } from '../store/contract/core.ts';
import type { OperateStore } from '../store/contract/operate.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { countStart, throttleProgress, watchJobs } from './attempt-host.ts';
import { endAttemptOfDeadFunction } from './dead-function.ts';
import { type AttemptError, isAttemptError, WorkerStoppedError } from './errors.ts';
import { type HostContext, type JobHandlers, runJob } from './run-job.ts';

/** The parts of a worker function. */
export interface WorkerParts extends HostContext {
  readonly store: WorkerStore & Pick<SubmitStore, 'lookUpJobs'> & Pick<OperateStore, 'rest'>;
  readonly metrics?: Metrics | undefined;
  /** Starts to measure how busy the event loop is. The returned function gives the use since then. */
  readonly measureLoop?: (() => () => LoopUse) | undefined;
  /** Aborts to make the function give its jobs back. @default - only the end of its time does */
  readonly signal?: AbortSignal | undefined;
  /** Ends the process at once: the only way to stop a handler that hangs. */
  readonly exit: (reason: string) => void;
}

/** Use of the event loop: the milliseconds in which it computed, and their share of the time. */
export interface LoopUse {
  readonly activeMs: number;
  readonly share: number;
}

/** The use of the event loop from which on handlers that run side by side are taken to compute instead of wait. */
const COMPUTING: LoopUse = { activeMs: 1_000, share: 0.8 };

/** Milliseconds between two writes of progress. A function has no heartbeats, so each time is a write. */
const PROGRESS_EVERY_MS = 5_000;

export type SqsHandler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;

/**
 * Returns a Lambda handler for a fleet's queue. The jobs of one invocation run side by side, each fenced by its claim.
 * Each invocation counts as a worker of its own, so a message that is delivered again meets another worker.
 */
export function lambdaWorker(
  parts: () => WorkerParts | Promise<WorkerParts>,
  handlers: JobHandlers,
): SqsHandler {
  let hasWarned = false;
  return async (event, lambda) => {
    const given = await parts();
    const { store, configuration, clock, log, metrics, exit } = given;
    const loopUse = given.measureLoop?.();
    const worker = {
      workerId: `${lambda.functionName}/${lambda.awsRequestId}`,
      incarnation: lambda.awsRequestId,
    };
    const life = { since: instantOf(clock), lastsMs: lambda.getRemainingTimeInMillis() };
    const over = new AbortController();
    /**
     * Ends the attempts once their lease is over: a function that was frozen, or whose event loop was busy, may run
     * past it.
     */
    const lookAtLease = (): void => {
      if (!over.signal.aborted && sinceMs(clock, life.since) >= life.lastsMs) {
        over.abort(new WorkerStoppedError("the function's time is up", { isLoss: true }));
      }
    };
    given.signal?.addEventListener('abort', () => over.abort(new WorkerStoppedError('the worker ends')), {
      once: true,
    });
    const watch = watchJobs({ store, clock, log });
    const seen = new Set<string>();
    const run = async (message: DispatchMessage): Promise<void> => {
      if (seen.has(message.claimId)) return;
      seen.add(message.claimId);
      const progress = throttleProgress({
        clock,
        log,
        everyMs: PROGRESS_EVERY_MS,
        pass: (latest, job) => {
          // A failure is only logged: an attempt that has lost its job learns so when it stores its outcome.
          store.saveProgress({ job, worker, progress: latest }).catch((error: unknown) => {
            log.warn('progress was not recorded', { jobId: job.id, error: String(error) });
          });
        },
      });
      const outcome = await runJob(
        {
          ...given,
          worker,
          life,
          signal: over.signal,
          lookAtLease,
          watch,
          onProgress: progress.say,
          onStarted: (job) => countStart(metrics, configuration, job, clock.nowMs()),
        },
        handlers,
        message,
      ).finally(progress.end);
      // The message may be delivered again because the function that ran the job's attempt has died. Then this ends that attempt.
      if (outcome === 'superseded') await endAttemptOfDeadFunction(given, message);
    };
    let hung: AttemptError | undefined;
    const runRecord = async ({ messageId, body }: SQSRecord): Promise<void> => {
      try {
        const ended = await Promise.allSettled(decodeDispatchMessage(body).map(run));
        const reasons: unknown[] = ended.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
        hung ??= reasons.find((reason) => isAttemptError(reason, 'HandlerHung'));
        // The message is delivered again with all its jobs; those that have ended are not started again.
        if (reasons.length > 0) throw reasons[0];
      } catch (error) {
        log.warn('message failed and will be delivered again', { messageId, error: String(error) });
        throw error;
      }
    };
    // Failures are collected, not thrown: otherwise every message of the batch would be delivered again, and the function would count an
    // error.
    const records = await Promise.allSettled(event.Records.map(runRecord));
    const use = loopUse?.();
    const isComputing =
      seen.size > 1 &&
      use !== undefined &&
      use.activeMs >= COMPUTING.activeMs &&
      use.share >= COMPUTING.share;
    if (isComputing && !hasWarned) {
      hasWarned = true;
      log.warn(
        'handlers that run side by side keep the processor busy and delay each other; set batchSize: 1 for their fleet',
        {
          jobs: seen.size,
          loopShare: Math.round(100 * use.share) / 100,
        },
      );
    }
    if (hung !== undefined) exit(hung.message);
    const batchItemFailures = event.Records.flatMap(({ messageId }, at) =>
      records[at]?.status === 'rejected' ? [{ itemIdentifier: messageId }] : [],
    );
    return { batchItemFailures };
  };
}
