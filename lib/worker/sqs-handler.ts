/** Runs the handler of an existing SQS function, unchanged, as the handler of a job type. */
import type { Context, SQSBatchResponse, SQSEvent, SQSHandler, SQSRecord } from 'aws-lambda';
import { isFunction, objectOf, textWithin } from '../core/read-fields.ts';
import type { JobContext } from './run-job.ts';

/** The queue that the handler finds named in its records. */
interface SqsHandlerOptions {
  /**
   * The ARN of the queue that the handler was written for, if it looks at `eventSourceARN` or `awsRegion`.
   * @default - an ARN without Region and account, whose queue has the name of the job's type
   */
  readonly queueArn?: string | undefined;
}

const ARN_BYTES_MAX = 1_024;
const checkOptions = objectOf({
  queueArn: textWithin(ARN_BYTES_MAX, 'Leave it out for the name of the type.'),
});

/** The name of the error of an attempt whose message the handler reported in `batchItemFailures`. */
const REPORTED = 'SqsMessageFailed';

/**
 * Makes a job handler of an `SQSHandler`. Each attempt gets an event with one record: its `body` is the payload, as it is
 * if it is a text and as JSON otherwise, `messageId` is the job's id, `ApproximateReceiveCount` the attempt, and
 * `MessageGroupId` the fairness key. The record has no message attributes and no MD5 sum. An error that the handler throws
 * fails the attempt, and so does a record that it names in `batchItemFailures`, as an error named `SqsMessageFailed`.
 * Retries follow the type's `retry`, instead of the queue's redrive policy. The job has no result.
 *
 * @example export const handler = worker({ invoice: fromSqsHandler(existing) });
 * @throws ConfigurationError - the handler is not a function, or an option is wrong
 */
export function fromSqsHandler(
  handler: SQSHandler,
  options: SqsHandlerOptions = {},
): (payload: unknown, context: JobContext) => Promise<undefined> {
  isFunction('handler', handler);
  checkOptions('', options);
  return async (payload, job) => {
    const queueArn = options.queueArn ?? `arn:aws:sqs:::${job.type}`;
    const answer = await answerOf(handler, { Records: [recordOf(payload, job, queueArn)] }, job);
    if ((answer?.batchItemFailures ?? []).length === 0) return undefined;
    const error = new Error('the handler reported its message as failed, in batchItemFailures');
    error.name = REPORTED;
    throw error;
  };
}

const recordOf = (payload: unknown, job: JobContext, queueArn: string): SQSRecord => {
  const sentAt = String(Date.now());
  return {
    messageId: job.id,
    receiptHandle: `${job.id}/${job.fencingToken}`,
    body: typeof payload === 'string' ? payload : JSON.stringify(payload),
    attributes: {
      ApproximateReceiveCount: String(job.attempt),
      SentTimestamp: sentAt,
      ApproximateFirstReceiveTimestamp: sentAt,
      SenderId: 'fairlead',
      ...(job.fairnessKey === '' ? {} : { MessageGroupId: job.fairnessKey }),
    },
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: queueArn,
    awsRegion: queueArn.split(':')[3] ?? '',
  };
};

/**
 * Waits for the end of the handler, and decides it as the runtimes of Lambda up to Node.js 22 do: by the promise that
 * the handler returns, whatever its class, or by the first call of the callback or of a function of the context. The
 * runtime of Node.js 24 has only the promise, and answers what another handler returns.
 *
 * Lambda also ends a handler that does none of this once its event loop is empty. Here the handler shares the loop with
 * the worker, and what it has begun may go on, so it never counts as done: its attempt goes on until its timeout.
 */
async function answerOf(
  handler: SQSHandler,
  event: SQSEvent,
  job: JobContext,
): Promise<SQSBatchResponse | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  let hasEnded = false;
  const end = (error?: unknown, answer?: unknown): void => {
    hasEnded = true;
    if (error === undefined || error === null) resolve(answer);
    else reject(typeof error === 'string' ? new Error(error) : error);
  };
  const context: Context = {
    awsRequestId: `${job.id}/${job.attempt}`,
    functionName: job.type,
    functionVersion: '$LATEST',
    invokedFunctionArn: `arn:aws:lambda:::function:${job.type}`,
    memoryLimitInMB: '',
    logGroupName: '',
    logStreamName: '',
    callbackWaitsForEmptyEventLoop: false,
    getRemainingTimeInMillis: () => job.remainingMs(),
    done: end,
    fail: (error: unknown) => end(error ?? 'handled'),
    succeed: (answer: unknown) => end(undefined, answer),
  };
  const returned: unknown = handler(event, context, end);
  // A thenable is awaited, too.
  if (returned !== undefined) resolve(returned);
  else if (!hasEnded && handler.length < 3)
    job.log.warn(
      'the handler returned no promise, so its attempt ends when it calls its callback; make it async if it never does',
    );
  return ((await promise) ?? undefined) as SQSBatchResponse | undefined;
}
