/**
 * Sends wakes that name jobs as asynchronous invocations of the dispatch function, by its alias. A message would have
 * to be sent, received and deleted, which are three billed requests. Other wakes go by the queue, and so do all wakes
 * while the function cannot be invoked.
 */
import {
  InvokeCommand,
  LambdaClient,
  type LambdaClientConfig,
  LambdaServiceException,
} from '@aws-sdk/client-lambda';
import type { Clock } from '../../runtime/contract.ts';
import type { JobQueue, WakeRequest } from '../contract.ts';
import { withoutTraceHeader } from '../lineage.ts';
import { encodeWake } from '../message.ts';

export interface InvokedWakesOptions {
  readonly client: Pick<LambdaClient, 'send'>;
  /** ARN of the alias by which the function accepts wakes, and nothing else. */
  readonly functionArn: string;
  /** The queue for all other wakes. */
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly clock: Pick<Clock, 'monotonicMs'>;
}

/** How long wakes go by the queue after Lambda refused an invocation. */
const REFUSED_FOR_MS = 10 * 60_000;
/**
 * How long wakes go by the queue after Lambda did not answer in time. It is short, because a machine that was suspended
 * can reach Lambda again at once.
 */
const UNANSWERED_FOR_MS = 60_000;

/**
 * Timeouts of the request. A wake is only useful at once, so an unanswered request fails fast and the wake goes by the
 * queue. The second attempt is for a connection that was closed while it was idle.
 */
const REQUESTS = {
  maxAttempts: 2,
  requestHandler: { connectionTimeout: 500, requestTimeout: 1_000, throwOnRequestTimeout: true },
} as const satisfies LambdaClientConfig;

export const wakeClient = (aws: LambdaClientConfig): LambdaClient =>
  withoutTraceHeader(new LambdaClient({ ...aws, ...REQUESTS }));

const ALIAS_ARN = /^arn:[\w-]+:lambda:[\w-]+:\d{12}:function:[\w-]+:[\w-]+$/;
/** Whether the ARN names an alias. Only by an alias may producers invoke the function. */
export const isAliasArn = (arn: string): boolean => ALIAS_ARN.test(arn);

export class InvokedWakes implements Pick<JobQueue, 'sendWake'> {
  readonly #options: InvokedWakesOptions;
  #refusedUntilMonotonicMs = -Infinity;
  /** Whether the function can be invoked. While that is unknown, one wake tries, and the others go by the queue. */
  #reachable: 'unknown' | 'trying' | 'yes' = 'unknown';

  constructor(options: InvokedWakesOptions) {
    this.#options = options;
  }

  async sendWake(wake: WakeRequest): Promise<void> {
    const { client, functionArn, queue, clock } = this.#options;
    const { delayMs = 0, jobIds, signal } = wake;
    const isForFunction = jobIds !== undefined && delayMs === 0 && this.#reachable !== 'trying';
    if (isForFunction && clock.monotonicMs() >= this.#refusedUntilMonotonicMs) {
      if (this.#reachable === 'unknown') this.#reachable = 'trying';
      try {
        await client.send(
          new InvokeCommand({
            FunctionName: functionArn,
            InvocationType: 'Event',
            Payload: Buffer.from(encodeWake(wake)),
          }),
          signal === undefined ? {} : { abortSignal: signal },
        );
        this.#reachable = 'yes';
        return;
      } catch (error) {
        this.#reachable = 'unknown';
        // The producer's role may lack the permission to invoke, or its network may block Lambda's API.
        const forMs = error instanceof LambdaServiceException ? REFUSED_FOR_MS : UNANSWERED_FOR_MS;
        this.#refusedUntilMonotonicMs = clock.monotonicMs() + forMs;
        signal?.throwIfAborted();
      }
    }
    await queue.sendWake(wake);
  }
}
