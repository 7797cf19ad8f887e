/** Fleets' queues and the wake queue on SQS standard queues. */

import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { MisconfiguredError, RefusedError, UnavailableError } from '../../core/errors.ts';
import type { DispatchMessage, JobQueue, ReceivedMessage, WakeRequest } from '../contract.ts';
import { withoutTraceHeader } from '../lineage.ts';
import {
  decodeDispatchMessage,
  encodeDispatchMessage,
  encodeLook,
  encodeWake,
  groupsOf,
} from '../message.ts';
import { translated } from './errors.ts';

export interface SqsJobQueueOptions {
  readonly client: SQSClient;
  /** URL of each fleet's queue, by fleet. */
  readonly queueUrls: Readonly<Record<string, string>>;
  readonly wakeQueueUrl: string;
}

/** SQS's limit on the messages of one send or delete. */
const BATCH_MAX = 10;
/** SQS's limit on the messages of one receive. */
const RECEIVE_MAX = 10;
/** SQS's limit on waiting for messages. */
const WAIT_MAX_SEC = 20;
/** SQS's limit on hiding a message: 12 hours. */
const HIDE_MAX_SEC = 12 * 60 * 60;
/** SQS's limit on a message's delay: 15 minutes. */
const DELAY_MAX_SEC = 15 * 60;

const secondsOf = (ms: number): number => Math.ceil(Math.max(0, ms) / 1000);

export class SqsJobQueue implements JobQueue {
  readonly #client: SQSClient;
  readonly #queueUrls: ReadonlyMap<string, string>;
  readonly #wakeQueueUrl: string;

  constructor(options: SqsJobQueueOptions) {
    this.#client = withoutTraceHeader(options.client);
    this.#queueUrls = new Map(Object.entries(options.queueUrls));
    this.#wakeQueueUrl = options.wakeQueueUrl;
  }

  async send(
    fleet: string,
    jobs: readonly DispatchMessage[],
    together = 1,
  ): Promise<readonly DispatchMessage[]> {
    const QueueUrl = this.#queueOf(fleet);
    const batches = await Promise.all(
      Array.from(groupsOf([...groupsOf(jobs, together)], BATCH_MAX), async (batch) => {
        const command = new SendMessageBatchCommand({
          QueueUrl,
          Entries: batch.map((message, index) => ({
            Id: String(index),
            MessageBody: encodeDispatchMessage(message),
          })),
        });
        try {
          const { Failed = [] } = await this.#call('send', QueueUrl, () => this.#client.send(command));
          const failed = new Set(Failed.map((entry) => entry.Id));
          return batch.filter((_, index) => failed.has(String(index))).flat();
        } catch (error) {
          // The messages may have been sent. A second copy loses the race to start its job.
          if (error instanceof UnavailableError) return batch.flat();
          throw error;
        }
      }),
    );
    return batches.flat();
  }

  async receive(
    fleet: string,
    max: number,
    waitMs: number,
    hideMs: number,
    signal?: AbortSignal,
  ): Promise<readonly ReceivedMessage[]> {
    const QueueUrl = this.#queueOf(fleet);
    if (!Number.isInteger(max) || max < 1 || max > RECEIVE_MAX) {
      throw new RangeError(`receive: max is ${max}; it must be a whole number from 1 to ${RECEIVE_MAX}`);
    }
    const command = new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: max,
      WaitTimeSeconds: Math.min(WAIT_MAX_SEC, secondsOf(waitMs)),
      VisibilityTimeout: Math.min(HIDE_MAX_SEC, secondsOf(hideMs)),
      MessageSystemAttributeNames: ['ApproximateReceiveCount'],
    });
    if (signal?.aborted) return [];
    const options = signal === undefined ? {} : { abortSignal: signal };
    try {
      const { Messages = [] } = await this.#call('receive', QueueUrl, () =>
        this.#client.send(command, options),
      );
      return Messages.flatMap(receivedOf);
    } catch (error) {
      // Messages that the queue had sent by then are hidden for a while, and delivered again.
      if (signal?.aborted) return [];
      throw error;
    }
  }

  handBack(fleet: string, receipts: readonly string[]): Promise<void> {
    // A delivery that could not be changed becomes visible when its hiding ends.
    return this.#inBatches(fleet, receipts, 'handBack', (QueueUrl, batch) => {
      const Entries = batch.map((entry) => ({ ...entry, VisibilityTimeout: 0 }));
      return this.#client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }));
    });
  }

  delete(fleet: string, receipts: readonly string[]): Promise<void> {
    // A message that could not be deleted is delivered once more. Its worker finds that the job has moved on, and deletes it.
    return this.#inBatches(fleet, receipts, 'delete', (QueueUrl, Entries) =>
      this.#client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries })),
    );
  }

  async #inBatches(
    fleet: string,
    receipts: readonly string[],
    verb: string,
    send: (
      queueUrl: string,
      entries: { readonly Id: string; readonly ReceiptHandle: string }[],
    ) => Promise<unknown>,
  ): Promise<void> {
    const queueUrl = this.#queueOf(fleet);
    await Promise.all(
      Array.from(groupsOf(receipts, BATCH_MAX), (batch) => {
        const entries = batch.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
        return this.#call(verb, queueUrl, () => send(queueUrl, entries));
      }),
    );
  }

  sendWake(wake: WakeRequest): Promise<void> {
    return this.#sendLater('sendWake', encodeWake(wake), wake.delayMs ?? 0, wake.signal);
  }

  sendLook(partition: number, delayMs: number, atMs: number): Promise<void> {
    return this.#sendLater('sendLook', encodeLook(partition, atMs), delayMs);
  }

  async #sendLater(verb: string, MessageBody: string, delayMs: number, signal?: AbortSignal): Promise<void> {
    // The delay is rounded up, because an early wake would find nothing due.
    const DelaySeconds = Math.ceil(delayMs / 1000);
    if (!(DelaySeconds >= 0 && DelaySeconds <= DELAY_MAX_SEC)) {
      throw new RangeError(
        `${verb}: a delay of ${delayMs} ms is out of range; use 0 to ${DELAY_MAX_SEC * 1000} and leave later times to the tick`,
      );
    }
    const command = new SendMessageCommand({
      QueueUrl: this.#wakeQueueUrl,
      MessageBody,
      DelaySeconds,
    });
    const options = signal === undefined ? {} : { abortSignal: signal };
    await this.#call(verb, this.#wakeQueueUrl, () => this.#client.send(command, options));
  }

  #queueOf(fleet: string): string {
    const url = this.#queueUrls.get(fleet);
    if (url === undefined)
      throw new MisconfiguredError(
        `fleet ${JSON.stringify(fleet)} has no queue; the stack has queues for: ${[...this.#queueUrls.keys()].join(', ') || 'none'}; deploy it again`,
      );
    return url;
  }

  async #call<T>(verb: string, queueUrl: string, send: () => Promise<T>): Promise<T> {
    try {
      return await send();
    } catch (error) {
      throw translated(error, verb, queueUrl);
    }
  }
}

/** Returns the messages that were received. A malformed one is ignored, and delivered again until SQS drops it. */
function receivedOf({ Body = '', ReceiptHandle, Attributes }: Message): ReceivedMessage[] {
  if (ReceiptHandle === undefined) return [];
  try {
    const receiveCount = Number(Attributes?.ApproximateReceiveCount ?? 1);
    return [{ jobs: decodeDispatchMessage(Body), receipt: ReceiptHandle, receiveCount }];
  } catch (error) {
    if (error instanceof RefusedError) return [];
    throw error;
  }
}
