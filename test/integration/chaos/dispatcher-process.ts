/**
 * A dispatch function of the chaos test, as a process: it hears of the table's stream, the wake queue and a tick, one
 * after the other, as one Lambda environment does. It says each step on its standard output. Usage: dispatcher-process.ts NAME
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DeleteMessageBatchCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { resolveConfiguration } from '../../../lib/core/defaults.ts';
import type { MovingJob } from '../../../lib/core/job.ts';
import { dispatchAll, type Trigger } from '../../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { SqsJobQueue } from '../../../lib/queue/sqs/queue.ts';
import { systemClock } from '../../../lib/runtime/system.ts';
import { DynamoJobStore } from '../../../lib/store/dynamodb/store.ts';
import { decodeMovingJob, isJobItem } from '../../../lib/store/table/codec/job.ts';
import { BLOCKED_PREFIX, TABLE } from '../../../lib/store/table/schema.ts';
import { rankOf } from '../../../lib/submit/submit.ts';
import { BUDGET, POOL, STEPS } from './pool.ts';
import { readStream } from './table-stream.ts';

const TICK_MS = 1_000;
const REST_MS = 40;

const [, , holder = ''] = process.argv;
const { AWS_ENDPOINT_URL: endpoint = '', AWS_REGION: region = '' } = process.env;
const {
  FAIRLEAD_TABLE: table = '',
  FAIRLEAD_QUEUES = '{}',
  FAIRLEAD_WAKE_QUEUE: wakeQueueUrl = '',
} = process.env;
const queueUrls = JSON.parse(FAIRLEAD_QUEUES) as Readonly<Record<string, string>>;

const REQUESTS = {
  maxAttempts: 2,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 1_500, throwOnRequestTimeout: true },
} as const;
const sqs = new SQSClient(REQUESTS);

const saying = <Target extends object>(target: Target): Target =>
  new Proxy(target, {
    get: (given, name) => {
      const verb: unknown = Reflect.get(given, name, given);
      if (typeof verb !== 'function') return verb;
      return (...question: unknown[]) => {
        if (STEPS.some((step) => step === name)) process.stdout.write(`${String(name)}\n`);
        return verb.apply(given, question);
      };
    },
  });

const configuration = resolveConfiguration(POOL);
const context: DispatchContext = {
  store: saying(
    new DynamoJobStore({
      client: new DynamoDBClient(REQUESTS),
      table,
      place: rankOf(configuration),
    }),
  ),
  queue: saying(new SqsJobQueue({ client: sqs, queueUrls, wakeQueueUrl })),
  configuration,
  clock: systemClock,
  random: Math.random,
  log: { info: () => {}, warn: () => {}, error: () => {} },
  holder,
  budget: BUDGET,
  announced: new Map(),
  caches: new Map(),
  seen: new Map(),
};

const dispatch = async (jobs: readonly MovingJob[], reason: Trigger['reason']): Promise<void> => {
  await dispatchAll(context, { jobs, reason });
};

const jobsOf = (items: Awaited<ReturnType<typeof read>>): readonly MovingJob[] =>
  items
    .filter((item) => {
      const line = item[TABLE.line];
      const isParked = typeof line === 'string' && line.startsWith(BLOCKED_PREFIX);
      return isJobItem(item) && !isParked;
    })
    .map(decodeMovingJob);

const wakesTaken = async (): Promise<boolean> => {
  const QueueUrl = wakeQueueUrl;
  const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
  if (Messages.length === 0) return false;
  await dispatch([], 'wake');
  const Entries = Messages.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle }));
  await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
  return true;
};

process.stdin.on('end', () => process.exit(1)).resume();
process.on('SIGTERM', () => process.exit(0));
const read = await readStream({ endpoint, region, table, from: 'LATEST' });
let tickedAtMs = 0;
for (;;) {
  // What fails is tried again by the next hint, as a function's next invocation would.
  try {
    const jobs = jobsOf(await read());
    if (jobs.length > 0) await dispatch(jobs, 'stream');
    if (Date.now() - tickedAtMs >= TICK_MS) {
      tickedAtMs = Date.now();
      await dispatch([], 'tick');
    }
    if (!(await wakesTaken())) await sleep(REST_MS);
  } catch (error) {
    process.stderr.write(`${holder}: ${String(error)}\n`);
    await sleep(REST_MS);
  }
}
