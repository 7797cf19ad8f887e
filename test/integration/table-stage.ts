/** Dispatchers on the emulator's table, with a queue in memory, and a clock that a test puts forward. */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { Job } from '../../lib/core/job.ts';
import { type DispatchReport, dispatch, type Trigger } from '../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import type { Clock } from '../../lib/runtime/contract.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import type { DynamoJobStoreOptions } from '../../lib/store/dynamodb/items.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { rankOf, submit } from '../../lib/submit/submit.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { aDispatchContext } from '../fixtures/factories/dispatch-context.ts';
import { aJob } from '../fixtures/factories/job.ts';

const WORKER = { workerId: 'worker', incarnation: '1' };
const HIDE_MS = 60_000;
const KEPT_MS = 3_600_000;

export interface TableStage {
  readonly table: TestTable;
  readonly store: JobStore;
  readonly clock: Clock;
  /** A dispatch function's process, with a memory of its own. */
  readonly dispatcher: () => DispatchContext;
  readonly job: (changes?: Partial<Job>) => Job;
  /** Stores jobs as a submitter does. */
  readonly put: (jobs: readonly Job[]) => Promise<readonly Job[]>;
  readonly pass: (context: DispatchContext, trigger?: Partial<Trigger>) => Promise<DispatchReport>;
  /** Starts all that was sent, in the order in which it was. */
  readonly startAll: (fleet: string) => Promise<readonly Job[]>;
  readonly end: (job: Job) => Promise<Job>;
  readonly advance: (ms: number) => void;
  readonly drop: () => Promise<void>;
}

export async function tableStage(
  configuration: PoolConfiguration,
  own: Pick<DynamoJobStoreOptions, 'unreadable'> = {},
): Promise<TableStage> {
  let aheadMs = 0;
  const clock: Clock = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs };
  const table = await createTable();
  const store = new DynamoJobStore({ ...table, ...own, nowMs: clock.nowMs, place: rankOf(configuration) });
  const queue = new MemoryJobQueue({
    clock: clock.nowMs,
    random: Math.random,
    after: (_, action) => queueMicrotask(action),
  });
  let made = 0;
  return {
    table,
    store,
    clock,
    dispatcher: () => {
      made += 1;
      return aDispatchContext({ store, queue, configuration, clock, holder: `dispatcher-${made}` });
    },
    job: (changes = {}) => {
      const nowMs = clock.nowMs();
      return aJob({ readyAtMs: nowMs, runAtMs: nowMs, submittedAtMs: nowMs, ...changes });
    },
    put: async (jobs) => {
      await submit({ store, configuration, nowMs: clock.nowMs, clock, announced: new Map() }, jobs);
      return jobs;
    },
    pass: (context, trigger = {}) => dispatch(context, 0, { jobs: [], reason: 'tick', ...trigger }),
    startAll: async (fleet) => {
      const started: Job[] = [];
      for (;;) {
        const [received] = await queue.receive(fleet, 1, 0, HIDE_MS);
        if (received === undefined) return started;
        await queue.delete(fleet, [received.receipt]);
        for (const message of received.jobs) {
          const outcome = await store.startJob({ ...WORKER, ...message, nowMs: clock.nowMs() });
          if (outcome.kind === 'started') started.push(outcome.job);
        }
      }
    },
    end: async (job) => {
      const [verdict, nowMs] = [{ kind: 'succeeded', result: null } as const, clock.nowMs()];
      const ended = await store.finishJob({ ...WORKER, job, verdict, nowMs, expiresAtMs: nowMs + KEPT_MS });
      if (ended.kind !== 'finished') throw new Error(`${job.id} was taken from its worker`);
      return { ...ended.job, payload: job.payload };
    },
    advance: (ms) => {
      aheadMs += ms;
    },
    drop: table.drop,
  };
}
