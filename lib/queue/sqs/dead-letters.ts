/**
 * Dead letters on SQS. They are sent back one by one, because SQS's own redrive knows only the source of letters that a
 * queue moved there, and EventBridge itself sends the events that a rule could not deliver.
 */
import {
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  PurgeQueueCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import type { DeadLetterQueues, DeadLetterView, QueueView } from '../contract.ts';
import { translated } from './errors.ts';

/** A queue and its dead-letter queue, by name. */
type Pairs = Readonly<Record<string, { readonly queueUrl: string; readonly deadLetterQueueUrl: string }>>;

/** SQS's limit on the messages of one request. */
const BATCH_MAX = 10;
/** Seconds to wait for messages. With long polling SQS asks all of its servers. */
const WAIT_SEC = 1;
/** Seconds for which a letter is hidden while it is sent and deleted. */
const HIDE_SEC = 60;

export class SqsDeadLetterQueues implements DeadLetterQueues {
  readonly #client: SQSClient;
  readonly #queues: Pairs;
  readonly #requests: ReadonlySet<string>;

  /** @param requests - detail types of the events that the queue takes */
  constructor({
    client,
    queues,
    requests,
  }: {
    readonly client: SQSClient;
    readonly queues: Pairs;
    readonly requests: Iterable<string>;
  }) {
    this.#client = client;
    this.#queues = queues;
    this.#requests = new Set(requests);
  }

  get names(): readonly string[] {
    return Object.keys(this.#queues);
  }

  async look(queue: string): Promise<QueueView> {
    const { queueUrl, deadLetterQueueUrl } = this.#pair(queue);
    const [own, dead] = await Promise.all([queueUrl, deadLetterQueueUrl].map((url) => this.#count(url)));
    // The letters are not hidden, so that the next read sees them too.
    const letters = (dead?.waiting ?? 0) === 0 ? [] : await this.#receive(deadLetterQueueUrl, BATCH_MAX, 0);
    return {
      queue,
      waiting: own?.waiting ?? 0,
      taken: own?.taken ?? 0,
      deadLetters: (dead?.waiting ?? 0) + (dead?.taken ?? 0),
      shown: letters.map(viewOf),
    };
  }

  async redrive(queue: string, max: number): Promise<{ readonly sentBack: number; readonly kept: number }> {
    const { queueUrl, deadLetterQueueUrl } = this.#pair(queue);
    let sentBack = 0;
    let kept = 0;
    while (sentBack + kept < max) {
      const most = Math.min(BATCH_MAX, max - sentBack - kept);
      const taken = await this.#receive(deadLetterQueueUrl, most, HIDE_SEC);
      if (taken.length === 0) break;
      const letters = taken.filter((letter) => !this.#isFromJobRule(letter));
      kept += taken.length - letters.length;
      if (letters.length === 0) continue;
      await Promise.all(letters.map((letter) => this.#send(queueUrl, letter)));
      await this.#call('redrive', deadLetterQueueUrl, () =>
        this.#client.send(
          new DeleteMessageBatchCommand({
            QueueUrl: deadLetterQueueUrl,
            Entries: letters.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle })),
          }),
        ),
      );
      sentBack += letters.length;
    }
    return { sentBack, kept };
  }

  /**
   * Whether the letter comes from a rule that turns business events into jobs. EventBridge stores the bare event, without the job that
   * the rule would have made. An event that a bus could not read has met no rule.
   */
  #isFromJobRule({ Body, MessageAttributes }: Message): boolean {
    if (MessageAttributes?.RULE_ARN === undefined && MessageAttributes?.ERROR_CODE === undefined)
      return false;
    const type = fieldIn(Body, 'detail-type');
    return type === undefined || !this.#requests.has(type);
  }

  async purge(queue: string): Promise<void> {
    const { deadLetterQueueUrl: QueueUrl } = this.#pair(queue);
    await this.#call('purge', QueueUrl, () => this.#client.send(new PurgeQueueCommand({ QueueUrl })));
  }

  #pair(queue: string): Pairs[string] {
    const pair = Object.hasOwn(this.#queues, queue) ? this.#queues[queue] : undefined;
    if (pair !== undefined) return pair;
    throw new RangeError(`there is no queue ${JSON.stringify(queue)}; there are: ${this.names.join(', ')}`);
  }

  async #count(QueueUrl: string): Promise<{ readonly waiting: number; readonly taken: number }> {
    const { Attributes = {} } = await this.#call('look', QueueUrl, () =>
      this.#client.send(
        new GetQueueAttributesCommand({
          QueueUrl,
          AttributeNames: [
            'ApproximateNumberOfMessages',
            'ApproximateNumberOfMessagesDelayed',
            'ApproximateNumberOfMessagesNotVisible',
          ],
        }),
      ),
    );
    const of = (what: string): number =>
      Number(Attributes[`ApproximateNumberOfMessages${what}` as keyof typeof Attributes] ?? 0);
    return { waiting: of('') + of('Delayed'), taken: of('NotVisible') };
  }

  async #receive(
    QueueUrl: string,
    MaxNumberOfMessages: number,
    hideSec: number,
  ): Promise<readonly Message[]> {
    const { Messages = [] } = await this.#call('receive', QueueUrl, () =>
      this.#client.send(
        new ReceiveMessageCommand({
          QueueUrl,
          MaxNumberOfMessages,
          VisibilityTimeout: hideSec,
          WaitTimeSeconds: WAIT_SEC,
          MessageSystemAttributeNames: ['SentTimestamp', 'AWSTraceHeader'],
          MessageAttributeNames: ['All'],
        }),
      ),
    );
    return Messages;
  }

  async #send(QueueUrl: string, { Body = '', Attributes }: Message): Promise<void> {
    const trace = Attributes?.AWSTraceHeader;
    const command = new SendMessageCommand({
      QueueUrl,
      MessageBody: Body,
      ...(trace === undefined
        ? {}
        : { MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue: trace } } }),
    });
    await this.#call('redrive', QueueUrl, () => this.#client.send(command));
  }

  async #call<T>(verb: string, queueUrl: string, send: () => Promise<T>): Promise<T> {
    try {
      return await send();
    } catch (error) {
      throw translated(error, verb, queueUrl);
    }
  }
}

/**
 * Returns a dead letter as operators see it. EventBridge gives its reason in attributes, the dispatch function in the
 * body.
 */
function viewOf({ Body = '', Attributes, MessageAttributes = {} }: Message): DeadLetterView {
  const { ERROR_CODE: code, ERROR_MESSAGE: message } = MessageAttributes;
  const given = [code?.StringValue, message?.StringValue].filter((each) => each !== undefined).join(': ');
  const reason = given === '' ? fieldIn(Body, 'reason') : given;
  return {
    sentAtMs: Number(Attributes?.SentTimestamp ?? 0),
    ...(reason === undefined ? {} : { reason }),
    body: Body,
  };
}

function fieldIn(body: string | undefined, field: string): string | undefined {
  try {
    const value: unknown = Object(JSON.parse(body ?? ''))[field];
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}
