/** Passes without the lease: where nothing waits and little happens, a commit of the page is all that is needed. */
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { dispatch, type Trigger } from '../../lib/dispatch/dispatch.ts';
import type { PartitionState } from '../../lib/store/records.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { DEPLOYED } from './moving.ts';
import {
  answeringIn,
  disturbed,
  type Stage,
  type StageOptions,
  type Started,
  stage,
  storeWith,
} from './stage.ts';

const POOL = {
  types: { resize: {} },
  fleets: { images: { types: ['resize'], slots: 2 } },
};

/** The attempt that was sent. */
async function startedOn(on: Stage): Promise<Started> {
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing was sent');
  return started;
}

/** Of the lease that was given back open. */
const EPOCH = 3;

/** A partition that somebody has left open. */
async function opened(budget: StageOptions['budget'] = {}): Promise<Stage> {
  const on = stage({ pool: POOL, budget });
  const [job] = (await on.put(on.job())) as [Job];
  await on.pass({ reason: 'stream', jobs: [job] });
  const started = await startedOn(on);
  await on.pass({ reason: 'stream', jobs: [await on.end(started)] });
  await on.pass({ reason: 'tick' });
  // Whatever was read of the index before may have been too early.
  await on.advance(60_000);
  await on.pass({ reason: 'tick' });
  expect(await on.store.readLease(0)).toMatchObject({ epoch: EPOCH, isOpen: true });
  return on;
}

const epochOf = (on: Stage): number => on.store.inspect(0).lease.epoch;

/** What is told of a job that is stored. */
const toldOf = ({ id }: Pick<Job, 'id'>): Trigger => ({ jobs: [], reason: 'told', jobIds: [id] });

/** The epoch after a pass that is told of a job, and that first sees the partition with these changes. */
async function madeWith(
  on: Stage,
  changes: (state: PartitionState) => Partial<PartitionState>,
  own: Partial<DispatchContext> = {},
): Promise<number> {
  let isFirst = true;
  const store = storeWith(on.store, {
    loadPartition: async (asked) => {
      const state = await on.store.loadPartition(asked);
      const seen = isFirst ? { ...state, ...changes(state) } : state;
      isFirst = false;
      return seen;
    },
  });
  const [job] = (await on.put(on.job())) as [Job];
  expect(await on.pass(toldOf(job), on.dispatcher({ ...own, store }))).toMatchObject({ admitted: 1 });
  return epochOf(on);
}

describe('a pass without the lease', () => {
  it('starts a job and settles it, and takes no lease', async () => {
    const on = await opened();
    const [job] = (await on.put(on.job())) as [Job];
    expect(await on.pass(toldOf(job))).toMatchObject({ kind: 'done', admitted: 1 });
    const started = await startedOn(on);
    const ended = await on.end(started);
    expect(await on.pass({ reason: 'stream', jobs: [ended] })).toMatchObject({ kind: 'done', settled: 1 });
    expect([epochOf(on), on.held()]).toEqual([EPOCH, []]);
  });

  it('is made again where somebody has committed first: no slot is given to two jobs', async () => {
    const on = await opened();
    const jobs = (await on.put(on.job(), on.job(), on.job())) as [Job, Job, Job];
    const other = on.dispatcher();
    const context = disturbed(on, 'commit', () => dispatch(other, 0, toldOf(jobs[0])));
    await on.finish(dispatch(context, 0, toldOf(jobs[1])));
    expect(on.held()).toHaveLength(2);
    expect(on.states(jobs).filter((state) => state === 'claimed')).toHaveLength(2);
  });

  it('whose page was fenced commits nothing, and goes on under the lease', async () => {
    const on = await opened();
    const [job] = (await on.put(on.job())) as [Job];
    let applied = 0;
    const context = disturbed(on, 'commit', async () => {
      const lease = await on.store.acquireLease({
        partition: 0,
        holder: 'x',
        nowMs: on.time.nowMs,
        leaseMs: 20_000,
      });
      applied = on.store.inspect(0).reservations.size;
      await on.store.releaseLease({ fence: { partition: 0, epoch: lease.epoch } });
    });
    expect(await on.finish(dispatch(context, 0, { jobs: [job], reason: 'stream' }))).toMatchObject({
      kind: 'done',
      admitted: 1,
    });
    expect([applied, on.held().length, epochOf(on)]).toEqual([0, 1, EPOCH + 2]);
  });

  it('says that something waits, and whoever comes next takes the lease', async () => {
    const on = await opened();
    const jobs = (await on.put(on.job(), on.job(), on.job())) as [Job, Job, Job];
    // It finds the others, and has no slot for the last one.
    await on.pass(toldOf(jobs[0]));
    expect([on.held().length, epochOf(on)]).toEqual([2, EPOCH]);
    const started = await startedOn(on);
    const ended = await on.end(started);
    expect(await on.pass({ reason: 'stream', jobs: [ended] }, on.dispatcher())).toMatchObject({
      admitted: 1,
    });
    expect(epochOf(on)).toBe(EPOCH + 1);
  });

  it('knows that another process has made one, what its jobs were charged, and what their resource costs', async () => {
    const on = await opened({ newsShare: 0 });
    const one = on.main;
    const two = on.dispatcher();
    const run = async (context: DispatchContext, fairnessKey: string): Promise<void> => {
      const [job] = (await on.put(on.job({ fairnessKey, resourceId: 'printer' }))) as [Job];
      await on.pass(toldOf(job), context);
      const started = await startedOn(on);
      await on.advance(1_000);
      await on.pass({ reason: 'stream', jobs: [await on.end(started)] }, context);
    };
    await run(one, 'a');
    await run(two, 'a');
    await run(one, 'a');
    expect(on.store.inspect(0).ledgers.get('a')?.settledCostMs).toBe(3_000);
    const ids = [{ type: 'resize', resourceId: 'printer' }];
    expect(await on.store.getEstimates({ partition: 0, ids })).toMatchObject([{ samples: 3 }]);
    expect(epochOf(on)).toBe(EPOCH);
  });

  it('is not made of a tick, which looks at everything', async () => {
    const on = await opened();
    await on.pass({ reason: 'tick' });
    expect(await on.store.readLease(0)).toMatchObject({ epoch: EPOCH + 1, isOpen: true });
  });

  it('is not made where passes get into each other’s way again and again', async () => {
    const on = await opened();
    const busy = on.dispatcher({
      store: storeWith(on.store, {
        commit: async ({ fence, commit }) => {
          if (commit.isWithoutLease !== true) return on.store.commit({ fence, commit });
          return 'lost';
        },
      }),
    });
    const [job] = (await on.put(on.job())) as [Job];
    expect(await on.pass(toldOf(job), busy)).toMatchObject({ kind: 'done', admitted: 1 });
    expect(await on.store.readLease(0)).toMatchObject({ epoch: EPOCH + 1, isOpen: false });
  });

  it('is not made of jobs that are due, nor while something waits is it left open', async () => {
    const on = await opened();
    const [later] = (await on.put(on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 1_000 }))) as [Job];
    await on.advance(1_000);
    await on.pass({ reason: 'stream', jobs: [later] });
    expect([on.stateOf(later.id), epochOf(on)]).toEqual(['claimed', EPOCH + 1]);
    await on.pass({ reason: 'wake', jobs: await on.put(on.job(), on.job()) });
    expect(await on.store.readLease(0)).toMatchObject({ epoch: EPOCH + 2, isOpen: false });
  });

  it('is made once where its commit needs the lease, and those that follow take it at once', async () => {
    const on = await opened();
    let tries = 0;
    const context = on.dispatcher({
      store: storeWith(on.store, {
        commit: async (request) => {
          if (request.commit.isWithoutLease !== true) return on.store.commit(request);
          tries += 1;
          return 'needsLease';
        },
      }),
    });
    const jobs = (await on.put(on.job(), on.job())) as [Job, Job];
    for (const job of jobs) await on.pass(toldOf(job), context);
    expect([tries, on.held().length]).toEqual([1, 2]);
  });

  it.each<readonly [string, (state: PartitionState) => Partial<PartitionState>]>([
    ['the lease is not open', () => ({ isOpen: false })],
    ['jobs may be parked', () => ({ parks: true })],
    ['something may wait', () => ({ quiet: undefined })],
    [
      'nothing waited under another declaration',
      ({ quiet }) => ({ quiet: quiet && { ...quiet, declared: 7 } }),
    ],
    [
      'much was reserved lately',
      () => ({
        reservations: Array.from({ length: 7 }, () => aReservation([], { reservedAtMs: NOW_MS + 3_600_000 })),
      }),
    ],
  ])('is not made where %s', async (_, changes) => {
    const on = await opened();
    expect(await madeWith(on, changes)).toBe(EPOCH + 1);
  });

  it('is not made before the partition has come to the declaration', async () => {
    const on = await opened();
    const version = 5;
    const quietUnder = ({ quiet }: PartitionState) => ({ quiet: quiet && { ...quiet, declared: version } });
    const deployed = { ...DEPLOYED, version, sharedSince: 0 };
    expect(await madeWith(on, quietUnder, { deployed })).toBe(EPOCH + 1);
    const carried = { version, moved: 0, isDone: true };
    const come = (state: PartitionState) => ({ ...quietUnder(state), declared: version, carried });
    const there = await opened();
    expect(await madeWith(there, come, { deployed })).toBe(EPOCH);
  });

  it('is not made where there are other partitions', async () => {
    const on = await opened();
    const configuration = resolveConfiguration({ ...POOL, partitions: 2 });
    expect(await madeWith(on, () => ({}), { configuration })).toBe(EPOCH + 1);
  });

  it('is not made where the store answers slowly: nothing lengthens its time', async () => {
    const on = await opened();
    // Half as long at least.
    const slow = answeringIn(on, 8_000);
    const [job] = (await on.put(on.job())) as [Job];
    const report = await on.pass({ reason: 'stream', jobs: [job] }, on.dispatcher({ store: slow }));
    expect(report).toMatchObject({ kind: 'done', passes: 1, admitted: 1 });
    expect(await on.store.readLease(0)).toMatchObject({ epoch: EPOCH + 1, isOpen: false });
  });

  it.each([
    ['somebody else commits before its next commit', false],
    ['its next commit needs the lease', true],
  ])('counts what it has told of when %s, and that starts once', async (_what, needsLease) => {
    // Of two jobs each is reserved by a commit of its own.
    const on = await opened();
    const jobs = (await on.put(on.job({ priority: 5 }), on.job())) as [Job, Job];
    const late = on.job();
    const other = on.dispatcher();
    const counted: string[] = [];
    let commits = 0;
    const told: string[] = [];
    const context = on.dispatcher({
      budget: { ...on.main.budget, batchJobs: 1 },
      metrics: {
        add: (name: string, by = 1) => void counted.push(`${name} ${by}`),
        record: () => {},
      } as never,
      queue: storeWith(on.queue, {
        send: (fleet, messages, together) => {
          told.push(...messages.map(({ jobId }) => jobId));
          return on.queue.send(fleet, messages, together);
        },
      }),
      store: storeWith(on.store, {
        commit: async (request) => {
          commits += 1;
          if (commits <= 2) expect(request.commit.isWithoutLease).toBe(true);
          if (commits === 2 && needsLease) return 'needsLease';
          if (commits === 2) {
            await on.put(late);
            await dispatch(other, 0, toldOf(late));
          }
          return on.store.commit(request);
        },
      }),
    });
    await on.finish(dispatch(context, 0, { jobs, reason: 'stream' }));
    expect(counted[0]).toBe('claimed 1');
    const total = (name: string): number =>
      counted.reduce((sum, each) => sum + (each.startsWith(`${name} `) ? Number(each.split(' ')[1]) : 0), 0);
    expect([total('claimed'), total('lostRaces')]).toEqual([1, 0]);
    const [first, second] = jobs;
    // Two slots: where somebody else came in between, that one has told of the second.
    expect(told).toEqual(needsLease ? [first.id, second.id] : [first.id]);
    const started = await on.startAll('images');
    expect(started.map(({ job }) => job.id).sort()).toEqual([first.id, second.id].sort());
    expect(on.held()).toHaveLength(2);
  });
});
