/** Runs the handler of an existing SQS function, unchanged, as the handler of a job type. */
import type { Context, SQSBatchResponse, SQSEvent, SQSHandler, SQSRecord } from 'aws-lambda';
import type { Json } from '../core/job.ts';
import { isFunction, objectOf, textWithin } from '../core/read-fields.ts';
import type { JobContext, JobHandler } from './run-job.ts';

/** Which queue the handler is told of. */
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
export function fromSqsHandler(handler: SQSHandler, options: SqsHandlerOptions = {}): JobHandler {
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

const recordOf = (payload: Json, job: JobContext, queueArn: string): SQSRecord => {
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

/** Handlers end by their promise, by a callback, or by the functions of the context, as those of old runtimes do. */
function answerOf(
  handler: SQSHandler,
  event: SQSEvent,
  job: JobContext,
): Promise<SQSBatchResponse | undefined> {
  return new Promise((resolve, reject) => {
    const end = (error?: unknown, answer?: unknown): void => {
      if (error === undefined || error === null)
        resolve((answer ?? undefined) as SQSBatchResponse | undefined);
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
      fail: end,
      succeed: (answer: unknown) => end(undefined, answer),
    };
    const answer = handler(event, context, end);
    if (answer instanceof Promise) answer.then((value) => end(undefined, value), reject);
    // A function without a callback that returns no promise has ended.
    else if (handler.length < 3) end(undefined, answer);
  });
}
