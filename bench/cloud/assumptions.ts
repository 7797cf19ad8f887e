/** The assumptions of the model, with their sources. */
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
    is: `${queueToFunction.least} to ${queueToFunction.most} ms, evenly; fleets take ${DEPLOYMENT.fleetQueue.batchSize} message at a time, with up to ${BATCH_SIZE_MAX} jobs; the wake and the ingest queue take ${DEPLOYMENT.wakeQueue.batchSize}`,
    source: 'assumed; batch sizes and windows from the construct',
  },
  {
    what: "from a client's wake to the dispatch function",
    is: `an asynchronous invocation, ${invoked.least} to ${invoked.most} ms after Lambda accepted it, evenly; billed as an invocation`,
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
    is: `INIT ${init.p50} ms, 99 of 100 within ${init.p99} ms, billed; ${environment.p50} ms before it, not billed; an environment is kept for ${keptWarm / 60_000} minutes, and the last used one is used next, so a dispatcher keeps its memory`,
    source: 'assumed; INIT is billed since 2025-08',
  },
  {
    what: 'throttling',
    is: `${TABLES.new.keyWriteUnits} write and ${TABLES.new.keyReadUnits} read units a second for each partition key; ${TABLES.new.writeUnits} write and ${TABLES.new.readUnits} read units a second for a new table; no burst; the SDK tries four times`,
    source:
      'DynamoDB quotas. Saturated rows with a thousand keys, with partitions or with 64 KB have a table with a raised quota; --table sets another',
  },
  {
    what: 'functions',
    is: `dispatch ${DEPLOYMENT.dispatch.memoryMb} MB, ingest ${DEPLOYMENT.ingest.memoryMb} MB, arm64, billed by the millisecond of virtual time; a worker ${WORKER_FUNCTION.memoryMb} MB, without the time of its handler; processor time is not counted`,
    source: 'the construct; the worker is yours',
  },
  {
    what: 'pollers',
    is: 'five for each queue with a function, two if the queue is idle and has no maximum concurrency; an empty receive each 20 s',
    source: 'Lambda guide, scaling with SQS; --pollers five ignores that saving',
  },
  {
    what: 'invocations of a fleet at once',
    is: 'as many as its messages need, at once, because the load lasts. Behind an idle queue Lambda starts with five, and adds up to 300 a minute, up to 1,000',
    source: 'Lambda guide, scaling with SQS',
  },
  {
    what: 'payloads',
    is: 'of 4 KB and more: an order in JSON, which gzip compresses to a quarter (4 KB) or a sixth (64 KB). Incompressible ones cost $5.5 and $76 more',
    source: 'assumed; a payload with its own item is compressed if that saves a write unit',
  },
  {
    what: 'logs',
    is: 'the bytes that our code logs, plus 26 bytes for each event. Workers are `WorkerFunction`s, so Lambda itself logs nothing for a successful invocation; its default text would cost $0.18 more. Storage of logs is excluded',
    source:
      'CloudWatch Logs; Lambda guide, log-level filtering; the construct: JSON, system logs from warnings on',
  },
  {
    what: 'metrics',
    is: 'each metric with its dimensions that a run or its warm-up wrote is billed for every hour; the bytes of its lines are part of the logs. An idle scheduler writes none',
    source:
      'CloudWatch pricing: custom metrics, $0.30 a month each, prorated by the hour and metered only when data is sent; embedded metric format: each metric and set of dimensions is one',
  },
  {
    what: 'the metrics in use',
    is: 'none on request, none by type or tier, and by fleet only used caps. The alarms add three, the dashboard six and those by type',
    source: 'the construct: alarms and dashboard are optional',
  },
  {
    what: 'the jobs',
    is: 'three types on one fleet of functions (processes with --workers processes), 1 s each, 5 % in conflict groups, 1 % tried again; four producers; a finished job is kept for 7 days, with point-in-time recovery',
    source: 'the construct and the defaults',
  },
  {
    what: 'the pools',
    is: '200 slots; 400 at 100 jobs a second; 1,500 for each partition if a saturated pool has a thousand keys or several partitions. Half load uses half of the slots',
    source: 'bench/cloud/rows.ts',
  },
  {
    what: 'the runs',
    is: 'saturated: 60 s after a warm-up of 20 s; with a thousand keys 15 s after 15 s, with ten thousand 30 s after 15 s. Half load and 100 a second: 60 s after 20 s. 20 a second: 120 s after 60 s. 1 a second: ten minutes after twelve',
    source: 'bench/cloud/rows.ts',
  },
  {
    what: 'runs with partitions',
    is: '4 to 8 s after a warm-up of 6 s, while the pool fills and the stream is still behind. Their rate is the most that passes can start, and does not last. Their bill is too low, because most outcome events and settlements come later',
    source: 'bench/cloud/rows.ts',
  },
  {
    what: 'residents',
    is: `two, each on ${DISPATCHER_MACHINE.cpus} vCPU with ${DISPATCHER_MACHINE.memoryGb} GB of Fargate, arm64; the functions stay deployed`,
    source: 'docs/scale.md',
  },
];
