/** The emulator, seen from the producer's side: its clients, and the queue that hears of outcomes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { DeleteMessageBatchCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { DETAIL_TYPE } from '../lib/events/contract.ts';
import type { Emulator } from '../lib/testing/emulator.ts';
import { EMULATOR_REGION } from '../lib/testing/environment.ts';
import type { Outcome } from './files/watch.ts';

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface Clients {
  readonly table: DynamoDBClient;
  readonly bus: EventBridgeClient;
  readonly queue: SQSClient;
  /** What any other client of this endpoint is made with. */
  readonly settings: {
    readonly endpoint: string;
    readonly region: string;
    readonly credentials: Credentials;
  };
  readonly destroy: () => void;
}

/** Nothing is taken from the environment, so nothing can lead to another place than the endpoint. */
export function clientsOf(endpoint: string): Clients {
  const settings = {
    endpoint,
    region: EMULATOR_REGION,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  };
  const table = new DynamoDBClient(settings);
  const bus = new EventBridgeClient(settings);
  // Queue addresses name the host by which the emulator knows itself, which need not be ours.
  const queue = new SQSClient({ ...settings, useQueueUrlAsEndpoint: false });
  return {
    table,
    bus,
    queue,
    settings,
    destroy: () => {
      for (const client of [table, bus, queue]) client.destroy();
    },
  };
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;

function outcomeIn(body: string | undefined): Outcome | undefined {
  const event: unknown = JSON.parse(body ?? 'null');
  if (!isRecord(event) || !isRecord(event.detail)) return undefined;
  const { id, sourceId, position, field, reason } = event.detail;
  if (event['detail-type'] !== DETAIL_TYPE.rejected) {
    return typeof id === 'string' ? { kind: 'ended', jobId: id } : undefined;
  }
  if (typeof sourceId !== 'string' || typeof position !== 'number') return undefined;
  return { kind: 'rejected', eventId: sourceId, position, reason: `${String(field)}: ${String(reason)}` };
}

/** What a long poll waits at most; the progress is drawn again after it. */
const WAIT_SEC = 1;
const MESSAGES_MAX = 10;
/** A queue that cannot be read is only a lost hint; not to be asked in a tight loop. */
const FAILED_WAIT_MS = 1_000;

/** The next messages of the outcomes queue, deleted once read. */
export async function receiveOutcomes(
  client: SQSClient,
  queueUrl: string,
  signal: AbortSignal,
): Promise<readonly Outcome[]> {
  try {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: MESSAGES_MAX,
        WaitTimeSeconds: WAIT_SEC,
      }),
      { abortSignal: signal },
    );
    if (Messages.length === 0) return [];
    await client.send(
      new DeleteMessageBatchCommand({
        QueueUrl: queueUrl,
        Entries: Messages.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle })),
      }),
      { abortSignal: signal },
    );
    return Messages.flatMap(({ Body }) => outcomeIn(Body) ?? []);
  } catch {
    signal.throwIfAborted();
    await sleep(FAILED_WAIT_MS, undefined, { signal });
    return [];
  }
}

/** A busy emulator that has just been started takes its time. */
const ANSWER_MS = 20_000;

/** Whether anything speaks HTTP there. */
export async function answers(endpoint: string): Promise<boolean> {
  try {
    const answer = await fetch(endpoint, { signal: AbortSignal.timeout(ANSWER_MS) });
    await answer.body?.cancel();
    return true;
  } catch {
    return false;
  }
}

/** Between the last answer of an emulator that dies and the end of the process that guards it. */
const END_TOLD_MS = 10_000;

/** Returns at once if the emulator answers; waits for its end if it does not, which cannot be far. */
export async function untilEndIsTold({
  endpoint,
  exited,
}: Pick<Emulator, 'endpoint' | 'exited'>): Promise<void> {
  if (await answers(endpoint)) return;
  await Promise.race([exited, sleep(END_TOLD_MS, undefined, { ref: false })]);
}
