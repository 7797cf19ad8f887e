/**
 * Wakes that tell of jobs while these are stored, as asynchronous invocations of the dispatch function by its alias: a message would
 * be sent, received and deleted for that, three billed requests. Everything else goes by the queue, and so does what cannot be invoked.
 */
import {
  InvokeCommand,
  LambdaClient,
  type LambdaClientConfig,
  LambdaServiceException,
} from '@aws-sdk/client-lambda';
import type { Clock } from '../../runtime/contract.ts';
import type { JobQueue, WakeRequest } from '../contract.ts';
import { withoutLineage } from '../lineage.ts';
import { encodeWake } from '../message.ts';

export interface InvokedWakesOptions {
  readonly client: Pick<LambdaClient, 'send'>;
  /** Of the alias by which the function takes wakes, and nothing else. */
  readonly functionArn: string;
  /** For all other wakes. */
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly clock: Pick<Clock, 'monotonicMs'>;
}

/** Where Lambda refused to invoke the function, wakes go by the queue for so long; */
const REFUSED_FOR_MS = 10 * 60_000;
/** and so long where it did not answer in time: a machine that slept meanwhile finds the way open again. */
const UNANSWERED_FOR_MS = 60_000;

/**
 * A wake is worth something at once: where Lambda cannot be reached, a message is to follow soon. The second try is for a connection that
 * was closed while nothing went on.
 */
const REQUESTS = {
  maxAttempts: 2,
  requestHandler: { connectionTimeout: 500, requestTimeout: 1_000, throwOnRequestTimeout: true },
} as const satisfies LambdaClientConfig;

export const lambdaForWakes = (aws: LambdaClientConfig): LambdaClient =>
  withoutLineage(new LambdaClient({ ...aws, ...REQUESTS }));

const ALIAS_ARN = /^arn:[\w-]+:lambda:[\w-]+:\d{12}:function:[\w-]+:[\w-]+$/;
/** Whether it names an alias: where an earlier version of the construct was deployed, there is none that may be woken. */
export const isAliasArn = (arn: string): boolean => ALIAS_ARN.test(arn);

export class InvokedWakes implements Pick<JobQueue, 'sendWake'> {
  readonly #options: InvokedWakesOptions;
  #refusedUntilMonotonicMs = -Infinity;
  /** Whether the function can be invoked: as long as nobody knows, one wake finds out, and the others go by the queue. */
  #way: 'unknown' | 'asked' | 'open' = 'unknown';

  constructor(options: InvokedWakesOptions) {
    this.#options = options;
  }

  async sendWake(wake: WakeRequest): Promise<void> {
    const { client, functionArn, queue, clock } = this.#options;
    const { delayMs = 0, jobIds, signal } = wake;
    const isForFunction = jobIds !== undefined && delayMs === 0 && this.#way !== 'asked';
    if (isForFunction && clock.monotonicMs() >= this.#refusedUntilMonotonicMs) {
      if (this.#way === 'unknown') this.#way = 'asked';
      try {
        await client.send(
          new InvokeCommand({
            FunctionName: functionArn,
            InvocationType: 'Event',
            Payload: Buffer.from(encodeWake(wake)),
          }),
          signal === undefined ? {} : { abortSignal: signal },
        );
        this.#way = 'open';
        return;
      } catch (error) {
        this.#way = 'unknown';
        // A role of before may wake by messages only; and a network may have no way to Lambda.
        const forMs = error instanceof LambdaServiceException ? REFUSED_FOR_MS : UNANSWERED_FOR_MS;
        this.#refusedUntilMonotonicMs = clock.monotonicMs() + forMs;
        signal?.throwIfAborted();
      }
    }
    await queue.sendWake(wake);
  }
}
