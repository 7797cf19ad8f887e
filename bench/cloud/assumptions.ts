/** What the model takes for granted, and from where. */
import { BATCH_SIZE_MAX } from '../../lib/core/capacity.ts';
import { DISPATCHER_MACHINE } from './bill.ts';
import { DEPLOYMENT, WORKER_FUNCTION } from './deployment.ts';
import { LATENCY } from './latency.ts';
import { TABLES } from './throttle.ts';

export interface Assumption {
  readonly what: string;
  readonly is: string;
  readonly source: string;
}

const { call, streamVisible, streamPoll, queueToFunction, invoked, busToQueue, init, environment, keptWarm } =
  LATENCY;

export const MODEL: readonly Assumption[] = [
  {
    what: 'a call of the table, a queue or the bus',
    is: `${call.p50} ms, 99 of 100 within ${call.p99} ms, log-normal; a transaction twice that`,
    source: 'assumed: single-digit milliseconds as DynamoDB promises, with a tail; measure yours',
  },
  {
    what: 'the stream',
    is: `${streamVisible.least} to ${streamVisible.most} ms until a record can be read, each shard read every ${streamPoll} ms, up to ${DEPLOYMENT.stream.batchSize} records and one invocation at a time for each shard`,
    source: 'Lambda guide: a shard is polled four times a second; the construct: batch size',
  },
  {
    what: 'from a queue to its function',
    is: `${queueToFunction.least} to ${queueToFunction.most} ms, evenly; fleets take ${DEPLOYMENT.fleetQueue.batchSize} message at a time, which tells of up to ${BATCH_SIZE_MAX} jobs, the wake and the ingest queue ${DEPLOYMENT.wakeQueue.batchSize}`,
    source: 'assumed; batch sizes and windows from the construct',
  },
  {
    what: "from a client's wake to the dispatch function",
    is: `an asynchronous invocation, ${invoked.least} to ${invoked.most} ms after it was taken, evenly; billed as the invocation that it is`,
    source: 'assumed; in an account, see `AsyncEventAge` of the function',
  },
  {
    what: 'from the bus to a queue',
    is: `${busToQueue.p50} ms, 99 of 100 within ${busToQueue.p99} ms`,
    source:
      'Amazon Key reports 80 ms for the 90th percentile (AWS architecture blog, 2026-02); the tail is assumed',
  },
  {
    what: 'cold starts',
    is: `INIT ${init.p50} ms, 99 of 100 within ${init.p99} ms, billed; ${environment.p50} ms before it, not billed; an environment is kept for ${keptWarm / 60_000} minutes, and the one used last is used next, so a dispatcher's memory lasts`,
    source: 'assumed; INIT is billed since 2025-08',
  },
  {
    what: 'throttling',
    is: `${TABLES.new.keyWriteUnits} write and ${TABLES.new.keyReadUnits} read units a second for each partition key; ${TABLES.new.writeUnits} write and ${TABLES.new.readUnits} read units a second for a new table; no burst; the SDK tries four times`,
    source:
      'DynamoDB quotas. Saturated rows with a thousand keys, with partitions or with 64 KB have a table whose quota was raised; --table takes another',
  },
  {
    what: 'functions',
    is: `dispatch ${DEPLOYMENT.dispatch.memoryMb} MB, ingest ${DEPLOYMENT.ingest.memoryMb} MB, arm64, billed by the millisecond of virtual time; a worker ${WORKER_FUNCTION.memoryMb} MB, without the time of its handler; processor time is not counted`,
    source: 'the construct; the worker is yours',
  },
  {
    what: 'pollers',
    is: 'five for each queue that functions stand behind, two where it is idle and has no maximum concurrency; an empty receive each 20 s',
    source: 'Lambda guide, scaling with SQS; --pollers five leaves the saving out',
  },
  {
    what: 'invocations of a fleet at once',
    is: 'as many as its messages ask for, at once: the load is one that lasts. Behind an idle queue Lambda begins with five, and adds up to 300 a minute, up to 1,000',
    source: 'Lambda guide, scaling with SQS',
  },
  {
    what: 'payloads',
    is: 'of 4 KB and more: an order in JSON, which gzip brings to a quarter (4 KB) or a sixth (64 KB); what it cannot shorten costs $5.5 and $76 more',
    source: 'assumed; a payload that stands apart is stored compressed where that saves a write unit',
  },
  {
    what: 'logs',
    is: "the bytes that our code logs, 26 bytes more for each event; of an invocation that ends well, Lambda says nothing of its own: a worker is a `WorkerFunction`. One with Lambda's default text costs $0.18 more; storage of logs is left out",
    source:
      'CloudWatch Logs; Lambda guide, log-level filtering; the construct: JSON, system logs from warnings on',
  },
  {
    what: 'metrics',
    is: 'each metric with its dimensions that a run has told, warm-up included, is told in every hour, and billed for it; their lines are among the bytes of the logs. As long as nobody asks for more: none of those that are told on request, none by type or tier, and of fleets only used caps; three more with the alarms, six with the dashboard and those by type. An idle scheduler tells none',
    source:
      'CloudWatch pricing: custom metrics, $0.30 a month each, prorated by the hour and metered only when data is sent; embedded metric format: each metric and set of dimensions is one',
  },
  {
    what: 'the jobs',
    is: 'three types on one fleet of functions (--workers processes takes processes), 1 s each, 5 % in conflict groups, 1 % tried again; four producers; a finished job is kept for 7 days, with point-in-time recovery',
    source: 'the construct and the defaults',
  },
  {
    what: 'the pools',
    is: '200 slots; 400 at 100 jobs a second; 1,500 for each partition where a saturated pool has a thousand keys or partitions. Half load is half of what the slots could do',
    source: 'bench/cloud/rows.ts',
  },
  {
    what: 'the runs',
    is: 'begin behind a warm-up: saturated 60 s behind 20 s, with a thousand keys 15 s behind 15 s, with ten thousand 30 s behind 15 s, with partitions 4 to 8 s behind 6 s; half load and 100 a second 60 s behind 20 s; 20 a second 120 s behind 60 s; 1 a second ten minutes behind twelve. Rows with partitions are counted while the pool fills and the stream is still behind: their rate is what passes can start, not what lasts, and most outcome events and settlements come after the window, so their bill is too low',
    source: 'bench/cloud/rows.ts',
  },
  {
    what: 'residents',
    is: `two, each on ${DISPATCHER_MACHINE.cpus} vCPU with ${DISPATCHER_MACHINE.memoryGb} GB of Fargate, arm64; the functions stay deployed`,
    source: 'docs/scale.md',
  },
];
