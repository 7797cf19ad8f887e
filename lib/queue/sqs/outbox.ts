/** Outcomes for the bus in two SQS queues: those that wait for the bus, and the dead letters behind them. */
import {
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { MisconfiguredError } from '../../core/errors.ts';
import type { OutcomeOutbox, TakenOutcomes, UnpublishedOutcomes } from '../contract.ts';
import { withoutTraceHeader } from '../lineage.ts';
import { decodeOutcomes, encodeOutcomes } from '../message.ts';
import { translated } from './errors.ts';

export interface SqsOutcomeOutboxOptions {
  readonly client: SQSClient;
  /** The declared queue; undefined if none is declared. */
  readonly queue: OutcomeQueue | undefined;
}

interface OutcomeQueue {
  readonly queueUrl: string;
  readonly deadLetterQueueUrl: string;
}

/** SQS's limit on the messages of one request. */
const RECEIVE_MAX = 10;
/** Seconds for which received outcomes are hidden: twice the timeout of a dispatch function. */
const HIDE_SEC = 120;

export class SqsOutcomeOutbox implements OutcomeOutbox {
  readonly #client: SQSClient;
  readonly #declared: OutcomeQueue | undefined;

  constructor({ client, queue }: SqsOutcomeOutboxOptions) {
    this.#client = withoutTraceHeader(client);
    this.#declared = queue;
  }

  async keepOutcomes(unpublished: UnpublishedOutcomes, delayMs: number): Promise<void> {
    const { queueUrl } = this.#queue();
    const command = new SendMessageCommand({
      QueueUrl: queueUrl,
      MessageBody: encodeOutcomes(unpublished),
      DelaySeconds: Math.ceil(delayMs / 1_000),
    });
    await this.#call('keepOutcomes', queueUrl, () => this.#client.send(command));
  }

  async setOutcomesAside(unpublished: UnpublishedOutcomes, reason: string): Promise<void> {
    const { deadLetterQueueUrl } = this.#queue();
    const command = new SendMessageCommand({
      QueueUrl: deadLetterQueueUrl,
      MessageBody: encodeOutcomes(unpublished, reason),
    });
    await this.#call('setOutcomesAside', deadLetterQueueUrl, () => this.#client.send(command));
  }

  async takeOutcomes(): Promise<readonly TakenOutcomes[]> {
    if (this.#declared === undefined) return [];
    const { queueUrl } = this.#declared;
    const command = new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: RECEIVE_MAX,
      VisibilityTimeout: HIDE_SEC,
    });
    const { Messages = [] } = await this.#call('takeOutcomes', queueUrl, () => this.#client.send(command));
    return Messages.flatMap(({ Body = '', ReceiptHandle }) =>
      ReceiptHandle === undefined ? [] : [{ unpublished: decodeOutcomes(Body), receipt: ReceiptHandle }],
    );
  }

  async deleteOutcomes(receipts: readonly string[]): Promise<void> {
    const { queueUrl } = this.#queue();
    const command = new DeleteMessageBatchCommand({
      QueueUrl: queueUrl,
      Entries: receipts.map((ReceiptHandle, at) => ({ Id: String(at), ReceiptHandle })),
    });
    // A message that is not deleted is published once more, and consumers recognise duplicates.
    await this.#call('deleteOutcomes', queueUrl, () => this.#client.send(command));
  }

  #queue(): OutcomeQueue {
    if (this.#declared !== undefined) return this.#declared;
    throw new MisconfiguredError(
      'the declaration names no queue for outcomes: deploy the stack with this version of the Scheduler construct',
    );
  }

  async #call<T>(verb: string, queueUrl: string, send: () => Promise<T>): Promise<T> {
    try {
      return await send();
    } catch (error) {
      throw translated(error, verb, queueUrl);
    }
  }
}
