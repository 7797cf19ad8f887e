/** What a Lambda worker wraps around its handlers: one invocation, a batch of messages, partial failures. */

import { BatchProcessor, EventType, processPartialResponse } from '@aws-lambda-powertools/batch';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import type { Metrics } from '../metrics/contract.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import { decodeDispatchMessage } from '../queue/message.ts';
import { instantOf, sinceMs } from '../runtime/instant.ts';
import type { WorkerStore } from '../store/contract/core.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { noteStart, progressOf, watchJobs } from './attempt-host.ts';
import { endIfDead } from './dead-function.ts';
import { type AttemptError, isAttemptError, WorkerStoppedError } from './errors.ts';
import { type HostContext, type JobHandlers, runJob } from './run-job.ts';

/** What a worker function needs of its surroundings. */
export interface WorkerParts extends HostContext {
  readonly store: WorkerStore & Pick<SubmitStore, 'lookUpJobs'>;
  readonly metrics?: Metrics | undefined;
  /** Begins to measure how busy the event loop is; the answer says so, from then on. */
  readonly measureLoop?: (() => () => LoopUse) | undefined;
  /** Ends the process at once: the only way to stop a handler that hangs. */
  readonly exit: (reason: string) => void;
}

/** What the event loop did: milliseconds in which it computed, and their share of the time. */
export interface LoopUse {
  readonly activeMs: number;
  readonly share: number;
}

/** Handlers that run side by side compute, instead of waiting, from here on. */
const COMPUTING: LoopUse = { activeMs: 1_000, share: 0.8 };

/** A function has no heartbeats: progress is a write of its own. */
const PROGRESS_EVERY_MS = 5_000;

export type SqsHandler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;

/**
 * A Lambda handler for a fleet's queue. The jobs of one invocation run side by side, each fenced by its claim; the invocation
 * is the worker, so a message that comes again meets another worker.
 */
export function lambdaWorker(
  parts: () => WorkerParts | Promise<WorkerParts>,
  handlers: JobHandlers,
): SqsHandler {
  let isToldOfComputing = false;
  return async (event, lambda) => {
    const given = await parts();
    const { store, configuration, typeUnder, declared, declaredAtMs, clock, random, log, metrics, exit } =
      given;
    const loopUse = given.measureLoop?.();
    const worker = {
      workerId: `${lambda.functionName}/${lambda.awsRequestId}`,
      incarnation: lambda.awsRequestId,
    };
    const life = { since: instantOf(clock), lastsMs: lambda.getRemainingTimeInMillis() };
    const over = new AbortController();
    /** A function that was frozen, or whose event loop was busy, may go on when nobody counts it any more. */
    const lookAtLease = (): void => {
      if (!over.signal.aborted && sinceMs(clock, life.since) >= life.lastsMs) {
        over.abort(new WorkerStoppedError("the function's time is over", { isLoss: true }));
      }
    };
    const watch = watchJobs({ store, clock, log });
    const seen = new Set<string>();
    const run = async (message: DispatchMessage): Promise<void> => {
      if (seen.has(message.claimId)) return;
      seen.add(message.claimId);
      const progress = progressOf({
        clock,
        log,
        everyMs: PROGRESS_EVERY_MS,
        pass: (latest, job) => {
          // Nothing depends on it: whoever does not hold the job any more learns that elsewhere.
          store.saveProgress({ job, worker, progress: latest }).catch((error: unknown) => {
            log.warn('progress was not recorded', { jobId: job.id, error: String(error) });
          });
        },
      });
      const outcome = await runJob(
        {
          store,
          configuration,
          typeUnder,
          declared,
          declaredAtMs,
          clock,
          random,
          log,
          worker,
          life,
          signal: over.signal,
          lookAtLease,
          watch,
          onProgress: progress.say,
          onStarted: (job) => noteStart(metrics, configuration, job, clock.nowMs()),
        },
        handlers,
        message,
      ).finally(progress.end);
      // Nobody else says of a function that died that it did.
      if (outcome === 'superseded') await endIfDead(given, message);
    };
    let hung: AttemptError | undefined;
    const runRecord = async ({ messageId, body }: SQSRecord): Promise<void> => {
      try {
        const ended = await Promise.allSettled(decodeDispatchMessage(body).map(run));
        const reasons: unknown[] = ended.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
        hung ??= reasons.find((reason) => isAttemptError(reason, 'HandlerHung'));
        // It comes again with all its jobs: those that have ended are not begun again.
        if (reasons.length > 0) throw reasons[0];
      } catch (error) {
        log.warn('message failed and will come again', { messageId, error: String(error) });
        throw error;
      }
    };
    const batch = new BatchProcessor(EventType.SQS);
    const response = await processPartialResponse(event, runRecord, batch, {
      // Thrown, every message of the batch would come again, also as an error of the function.
      throwOnFullBatchFailure: false,
    });
    const use = loopUse?.();
    const isComputing =
      seen.size > 1 &&
      use !== undefined &&
      use.activeMs >= COMPUTING.activeMs &&
      use.share >= COMPUTING.share;
    if (isComputing && !isToldOfComputing) {
      isToldOfComputing = true;
      log.warn(
        'handlers that ran side by side computed, and held each other up; give their fleet batchSize: 1',
        {
          jobs: seen.size,
          loopShare: Math.round(100 * use.share) / 100,
        },
      );
    }
    if (hung !== undefined) exit(hung.message);
    return response;
  };
}
