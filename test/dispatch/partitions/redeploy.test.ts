/** Redeploys while jobs wait, are claimed, and run. */

import { describe, expect, it } from 'vitest';
import { UnavailableError } from '../../../lib/core/errors.ts';
import { CLOCK_SKEW_MAX_MS } from '../../../lib/core/lease.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import type { DeclarationState } from '../../../lib/declaration/declaration.ts';
import { dispatchAll } from '../../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { DISPATCH_BUDGET, RAMP_FIRST } from '../../../lib/dispatch/tuning.ts';
import { explainJob } from '../../../lib/operate/explain.ts';
import { listJobs } from '../../../lib/operate/list-jobs.ts';
import { endAttemptOfDeadFunction } from '../../../lib/worker/dead-function.ts';
import { runJob } from '../../../lib/worker/run-job.ts';
import { allOf } from '../../client/desk.ts';
import { lockedJob, lockedPool } from '../../stage/locked.ts';
import { type Redeployed, redeployed } from '../../stage/redeployed.ts';
import { onlyJob, toldJobs } from '../../testing/received.ts';

type Type = NonNullable<PoolInput['types']>[string];

const TIERS = ['high', 'low'];
const pool = (type: Type, more: Partial<PoolInput> = {}): PoolInput => ({
  types: { resize: { tier: 'high', defaultCostMs: 1_000, timeoutMs: 30_000, ...type } },
  tiers: TIERS.map((tier) => ({ tier })),
  fleets: { images: { types: ['resize'], slots: 4 } },
  ...more,
});

/** Ends everything that can end. */
async function drain(on: Redeployed, context: DispatchContext, rounds = 40): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await on.pass({}, context);
    const { configuration } = await on.declarations.current();
    const ended = [];
    for (const { fleet } of configuration.fleets)
      for (const started of await on.startAll(fleet)) ended.push(await on.end(started));
    await on.pass({ jobs: ended, reason: 'stream' }, context);
    await on.advance(61_000);
  }
}

const many = (on: Redeployed, count: number, changes = {}) =>
  on.submitNow(...Array.from({ length: count }, () => on.job({ resourceId: 'photos', ...changes })));

/** So many jobs that were claimed by a pass under this declaration. */
async function claimedUnder(input: PoolInput, count: number) {
  const on = await redeployed(input);
  const warm = await on.process();
  const jobs = await many(on, count);
  await on.pass({}, warm);
  return { on, warm, jobs };
}

const states = (on: Redeployed, jobs: readonly { readonly id: string }[]) =>
  Object.fromEntries(
    [...Map.groupBy(jobs, ({ id }) => on.stateOf(id) ?? 'gone')].map(([state, of]) => [state, of.length]),
  );

describe('jobs that wait', () => {
  it('leave the line of a conflict group that is gone in steps, and it shows how far they are', async () => {
    const on = await redeployed(pool({ conflictGroup: 'catalogue' }));
    const jobs = await many(on, 700);
    const first = await on.process();
    for (let passes = 0; passes < 10; passes += 1) await on.pass({}, first);
    await on.deploy(pool({}));
    const store = on.store;
    await on.pass({}, await on.process());
    const { carried } = await store.loadPartition({ partition: 0, nowMs: on.clock.nowMs() });
    expect(carried).toMatchObject({ version: 2, isDone: true });
    expect(carried?.moved).toBeGreaterThan(400);
    expect(
      on.logged.filter(({ message }) => message.startsWith('jobs were moved to where')).length,
    ).toBeGreaterThan(2);
    expect(states(on, jobs)).toEqual({ claimed: 4, pending: 696 });
  });

  it('parked in such a line are said to wait for their move until it is made', async () => {
    const on = await redeployed(pool({ conflictGroup: 'catalogue' }), {
      budget: { parkKept: 1, carryMarks: 1, carryJobs: 1 },
    });
    const jobs = await many(on, 20);
    const first = await on.process();
    for (let passes = 0; passes < 3; passes += 1) await on.pass({}, first);
    const parked = (): readonly string[] =>
      jobs.flatMap(({ id }) => (on.store.inspectLine(id)?.startsWith('blocked/') === true ? id : []));
    const whyOf = async (id: string) => {
      const { waitsFor } = (await explainJob(await on.operatorNow(), id)) ?? {};
      return waitsFor?.map(({ why }) => why);
    };
    const [one = '', other = ''] = parked();
    expect(await whyOf(other)).toEqual(['conflict']);
    await on.deploy(pool({}));
    expect(await explainJob(await on.operatorNow(), other)).toMatchObject({
      waitsFor: [{ why: 'carry', declared: 2 }],
    });
    await drain(on, await on.process(), 3);
    expect(parked()).toEqual([]);
    expect([on.stateOf(one), on.stateOf(other)]).not.toContain('pending');
  });

  it('of a type that is gone are listed, explained, cancellable, and come alive with it', async () => {
    const both: PoolInput = pool(
      {},
      { types: { resize: { tier: 'high' }, index: { tier: 'high', timeoutMs: 30_000 } } },
    );
    const withFleets = { ...both, fleets: { images: { types: ['resize', 'index'], slots: 4 } } };
    const on = await redeployed(withFleets);
    const [waits, unwanted] = await on.submitNow(on.job({ type: 'index' }), on.job({ type: 'index' }));
    await on.deploy(pool({}));
    const warm = await on.process();
    await drain(on, warm, 3);
    expect(on.stateOf(waits?.id ?? '')).toBe('pending');
    const operator = await on.operatorNow();
    const listed = await allOf(listJobs(operator, 'pending', {}));
    expect(listed.map(({ id }) => id).toSorted()).toEqual([waits?.id, unwanted?.id].toSorted());
    expect(await explainJob(operator, waits?.id ?? '')).toMatchObject({
      waitsFor: [{ why: 'unknownType', type: 'index' }],
    });
    const cancelled = await on.store.cancelJob({
      jobId: unwanted?.id ?? '',
      nowMs: on.clock.nowMs(),
      expiresAtMs: on.clock.nowMs(),
    });
    expect(cancelled.kind).toBe('cancelled');
    await on.deploy(withFleets);
    await drain(on, warm, 3);
    expect(on.stateOf(waits?.id ?? '')).toBe('succeeded');
  });
});

describe('jobs that are claimed', () => {
  it('keep the terms that they were planned under, whenever their fleet is told of them again', async () => {
    const { on, warm } = await claimedUnder(pool({ maxConcurrency: 4 }), 1);
    const [first] = toldJobs(await on.queue.receive('images', 10, 0, 3_600_000));
    const declared = first?.message.toClaim?.declared;
    expect(declared).toBeGreaterThan(0);
    await on.deploy(pool({ maxConcurrency: 3 }));
    for (let passes = 0; passes < 3; passes += 1) await on.pass({}, warm);
    await on.advance(warm.budget.checkAfterMs);
    for (let passes = 0; passes < 3; passes += 1) await on.pass({}, warm);
    const [again] = toldJobs(await on.queue.receive('images', 10, 0, 3_600_000));
    const { jobId = '', claimId } = first?.message ?? {};
    expect(again?.message).toEqual({ jobId, claimId });
    expect(on.store.inspectJob(jobId)).toMatchObject({ state: 'claimed', claim: { claimId, declared } });
  });

  it('with a lock, for a fleet that is gone, wait again at once, which their histories tell', async () => {
    const locked = (fleet: string): PoolInput => ({
      ...lockedPool(4),
      fleets: { [fleet]: { types: ['resize'], slots: 8 } },
    });
    const on = await redeployed(locked('images'));
    const warm = await on.process();
    await on.submitNow(...Array.from({ length: 4 }, () => lockedJob(on)));
    await on.pass({}, warm);
    const late = toldJobs(await on.queue.receive('images', 10, 0, 60_000));
    expect(late).toHaveLength(4);
    await on.deploy(locked('pictures'));
    await on.pass({}, warm);
    for (const { message } of late) {
      expect(message.toClaim).toBeUndefined();
      const [given] = await on.store.getJobs({ ids: [message.jobId] });
      expect(given?.history?.entries).toEqual([
        { kind: 'givenBack', atMs: on.clock.nowMs(), claimId: message.claimId, fleet: 'images' },
      ]);
      const start = { ...message, workerId: 'w', incarnation: 'i', nowMs: on.clock.nowMs() };
      expect(await on.store.startJob(start)).toEqual({ kind: 'superseded' });
    }
    // Once both partitions have come to the declaration.
    for (let round = 0; round < 3; round += 1) {
      await on.finish(dispatchAll(warm, { jobs: [], reason: 'tick' }));
      await on.advance(1_000);
    }
    expect(await on.startAll('pictures')).toHaveLength(4);
  });

  it.each([
    ['one pass acts on', 45, 3, 9_000],
    ['one commit postpones', 245, 10, 30_000],
  ])(
    'for a fleet that is gone wait again within seconds, also where they are more than %s',
    async (_, count, checkMax, withinMs) => {
      const on = await redeployed(pool({}, { fleets: { images: { types: ['resize'], slots: 260 } } }));
      // One job in each reservation, as of jobs that come one after the other.
      const budget = { ...DISPATCH_BUDGET, checkMax, batchJobs: 1 };
      const warm = { ...(await on.process()), budget };
      const look = () => on.pass({ reason: 'wake', partitions: [0] }, warm);
      const jobs = await many(on, count, { resourceId: undefined });
      await on.pass({ jobs, reason: 'stream' }, warm);
      for (let round = 0; round < count + 10; round += 1) await look();
      expect(states(on, jobs)).toEqual({ claimed: count });
      expect(on.store.inspect(0).reservations.size).toBe(count);
      await on.deploy(pool({}, { fleets: { pictures: { types: ['resize'], slots: 260 } } }));
      const orphans = () => on.held().filter(({ fleet }) => fleet === 'images').length;
      // From here on only the wakes that passes ask for cause passes.
      on.queue.onWake(() => void look());
      await look();
      expect(orphans()).toBe(count - RAMP_FIRST);
      await on.advance(withinMs);
      expect(orphans()).toBe(0);
      // Each is told of for the fleet that there is, and none twice.
      expect(
        on
          .held()
          .map(({ id }) => id)
          .toSorted(),
      ).toEqual(jobs.map(({ id }) => id).toSorted());
      expect(await on.startAll('pictures')).toHaveLength(count);
    },
  );
});

describe('jobs that run', () => {
  it('in functions whose fleet is gone are taken when their own times are over, each, also long after they would be checked', async () => {
    const type = { timeoutMs: 300_000, onWorkerLost: 'retry' } as const;
    const { on, warm, jobs } = await claimedUnder(pool(type), 2);
    const { checkAtMs = Number.NaN } = [...on.store.inspect(0).reservations.values()][0] ?? {};
    const { store, clock } = on;
    const endsMs: number[] = [];
    for (const [at, { message }] of toldJobs(await on.queue.receive('images', 2, 0, 900_000)).entries()) {
      const worker = { workerId: `w-${at}`, incarnation: 'i' };
      const runUntilMs = checkAtMs + 20_000 * (at + 1);
      await store.startJob({ ...message, ...worker, nowMs: clock.nowMs(), runUntilMs });
      endsMs.push(runUntilMs + CLOCK_SKEW_MAX_MS);
    }
    expect(jobs.map(({ id }) => on.stateOf(id))).toEqual(['running', 'running']);
    await on.deploy(pool(type, { fleets: { pictures: { types: ['resize'], slots: 4 } } }));
    await on.pass({ reason: 'wake' }, warm);
    for (const endMs of endsMs) {
      await on.advance(endMs + 1_000 - clock.nowMs());
      expect(on.wakes.some((atMs) => atMs >= endMs && atMs <= endMs + 1_000)).toBe(true);
      await on.pass({ reason: 'wake', partitions: [0] }, warm);
    }
    expect(jobs.map(({ id }) => store.inspectJob(id)?.workersLost)).toEqual([1, 1]);
  });

  it('in a function whose fleet is gone are taken at its end also where another job of their reservation has just ended', async () => {
    const type = { timeoutMs: 30_000, onWorkerLost: 'retry' } as const;
    const { on, warm } = await claimedUnder(pool(type), 2);
    expect(on.store.inspect(0).reservations.size).toBe(1);
    const [lost, ended] = await on.startAll('images');
    if (lost === undefined || ended === undefined) throw new Error('nothing was started');
    const { runUntilMs = Number.NaN } = on.store.inspectJob(lost.job.id) ?? {};
    await on.deploy(pool(type, { fleets: { pictures: { types: ['resize'], slots: 4 } } }));
    await on.pass({ jobs: [await on.end(ended)], reason: 'stream' }, warm);
    const endMs = runUntilMs + CLOCK_SKEW_MAX_MS;
    expect([...on.store.inspect(0).reservations.values()].map(({ checkAtMs }) => checkAtMs)).toEqual([endMs]);
    await on.advance(endMs + 1_000 - on.clock.nowMs());
    await on.pass({ reason: 'wake', partitions: [0] }, warm);
    expect(on.store.inspectJob(lost.job.id)?.workersLost).toBe(1);
  });

  it('are tried again by that policy also when the message of their function says that it died', async () => {
    const on = await redeployed(pool({ onWorkerLost: 'retry', retry: { maxWorkersLost: 3 } }));
    const [job] = await many(on, 1);
    await on.pass({}, await on.process());
    const [received] = await on.queue.receive('images', 1, 0, 60_000);
    if (received === undefined) throw new Error('nothing was sent');
    const { store, clock, random, log, declarations } = on;
    const worker = { workerId: 'w', incarnation: 'i' };
    const nowMs = clock.nowMs();
    await store.startJob({ ...onlyJob(received), ...worker, nowMs, runUntilMs: nowMs + 10_000 });
    await on.deploy(pool({ onWorkerLost: 'fail' }));
    await on.advance(60_000);
    const { configuration } = await declarations.current();
    const typeUnder = declarations.typeUnder.bind(declarations);
    const context = { store, configuration, typeUnder, clock, random, log };
    expect(await endAttemptOfDeadFunction(context, onlyJob(received))).toBe('ended');
    expect(store.inspectJob(job?.id ?? '')).toMatchObject({ state: 'scheduled', workersLost: 1 });
  });

  it.each<[string, (on: Redeployed) => DeclarationState['typeUnder']]>([
    ['whatever their worker knows', (on) => (version, type) => on.declarations.typeUnder(version, type)],
    [
      'also when their worker could not read it, and knows a shorter one',
      () => async () => {
        throw new UnavailableError('no answer');
      },
    ],
  ])('keep the time that they were claimed under, %s', async (_, reading) => {
    const {
      on,
      jobs: [job],
    } = await claimedUnder(pool({ timeoutMs: 30_000 }), 1);
    await on.deploy(pool({ timeoutMs: 1_000, retry: { maxAttempts: 1 } }));
    const { configuration } = await on.declarations.current();
    const [received] = await on.queue.receive('images', 1, 0, 60_000);
    if (received === undefined) throw new Error('nothing was sent');
    const { store, clock, random, log } = on;
    const context = { store, configuration, typeUnder: reading(on), clock, random, log };
    const resize = async () => {
      await clock.sleep(10_000);
      return 'done';
    };
    const worker = { workerId: 'w', incarnation: 'i' };
    expect(await on.finish(runJob({ ...context, worker }, { resize }, onlyJob(received)))).toBe('succeeded');
    expect(on.stateOf(job?.id ?? '')).toBe('succeeded');
  });

  it('are not failed by a worker that began before their type was declared: they come again', async () => {
    const on = await redeployed(pool({}));
    await on.deploy(pool({ timeoutMs: 20_000 }));
    const warm = await on.process();
    const [job] = await many(on, 1);
    await on.pass({}, warm);
    const [received] = await on.queue.receive('images', 1, 0, 60_000);
    if (received === undefined) throw new Error('nothing was sent');
    const { configuration } = await on.declarations.current();
    const { store, clock, random, log } = on;
    const worker = { workerId: 'w', incarnation: 'i' };
    const context = { store, configuration, clock, random, log, worker };
    const outcome = await on.finish(runJob({ ...context, declared: 1 }, {}, onlyJob(received)));
    expect(outcome).toBe('released');
    expect(on.store.inspectJob(job?.id ?? '')).toMatchObject({
      state: 'scheduled',
      attempt: 1,
      workersLost: 0,
    });
  });
});
