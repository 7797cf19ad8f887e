/** Conflict keys whose jobs live in several partitions. */
import { describe, expect, it } from 'vitest';
import type { Job, ReservedJob } from '../../../lib/core/job.ts';
import { partitionOf } from '../../../lib/core/partition.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { dispatchAll, type WakeTrigger } from '../../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { explainJob } from '../../../lib/operate/explain.ts';
import type { ClaimRequest } from '../../../lib/store/contract/requests.ts';
import { type Stage, type Started, stage, storeWith } from '../../stage/stage.ts';

const PARTITIONS = 3;
const CATS = 'album/cats';

const pool = (partitions = PARTITIONS): PoolInput => ({
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 30_000, conflictGroup: 'album' } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 30 } },
  partitions,
});

const keyIn = (partition: number): string => {
  for (let at = 0; ; at += 1) if (partitionOf(`key-${at}`, PARTITIONS) === partition) return `key-${at}`;
};

interface World {
  readonly on: Stage;
  readonly jobIn: (partition: number, changes?: Partial<Job>) => Job;
  /** Passes for the trigger, and for every wake that it and they cause at once. */
  readonly run: (trigger?: Partial<WakeTrigger>, context?: DispatchContext) => Promise<void>;
  readonly running: () => readonly string[];
  readonly heldIn: (partition: number) => readonly ReservedJob[];
}

function world(): World {
  const on = stage({ pool: pool() });
  const woken: number[] = [];
  on.queue.onWake((partition) => woken.push(partition));
  const run: World['run'] = async (trigger = {}, context = on.main) => {
    await on.finish(dispatchAll(context, { jobs: [], reason: 'tick', ...trigger }));
    for (let rounds = 0; rounds < 20; rounds += 1) {
      await on.advance(1);
      const partitions = woken.splice(0);
      if (partitions.length === 0) return;
      await on.finish(dispatchAll(context, { jobs: [], reason: 'wake', partitions }));
    }
    throw new Error('wakes without end');
  };
  return {
    on,
    run,
    jobIn: (partition, changes = {}) =>
      on.job({ partition, fairnessKey: keyIn(partition), resourceId: 'cats', ...changes }),
    running: () =>
      [...on.store.everyJob()].flatMap(({ id, state }) =>
        state === 'claimed' || state === 'running' ? [id] : [],
      ),
    heldIn: (partition) =>
      [...on.store.inspect(partition).reservations.values()].flatMap(({ jobs }) => [...jobs.values()]),
  };
}

/** Ends the only job that runs, and lets the passes that follow start the next one. */
async function next({ on, run }: World): Promise<Started | undefined> {
  const [started] = await on.startEverywhere();
  if (started === undefined) return undefined;
  await on.advance(100);
  await run({ jobs: [await on.end(started)], reason: 'stream' });
  return started;
}

describe('jobs of one conflict key in several partitions', () => {
  it('take turns: a partition with many does not keep the others waiting', async () => {
    const scene = world();
    const many = await scene.on.put(...Array.from({ length: 40 }, () => scene.jobIn(0)));
    await scene.run();
    const few = await scene.on.put(scene.jobIn(1), scene.jobIn(2), scene.jobIn(1));
    await scene.run();
    const order: number[] = [];
    for (let started = await next(scene); started !== undefined; started = await next(scene)) {
      order.push(started.job.partition);
      expect(scene.running().length).toBeLessThanOrEqual(1);
    }
    expect(order.slice(0, 6)).toEqual([0, 1, 2, 0, 1, 0]);
    expect(order).toHaveLength(many.length + few.length);
  });

  it('that were parked are woken when it is their turn', async () => {
    const scene = world();
    const [first] = await scene.on.put(scene.jobIn(0));
    await scene.run();
    const others = await scene.on.put(...Array.from({ length: 30 }, () => scene.jobIn(1)));
    await scene.run();
    expect(scene.on.store.inspectLock(CATS)?.waiting).toEqual([1]);
    expect(scene.on.stateOf(first?.id ?? '')).toBe('claimed');
    expect([...scene.on.store.inspect(1).parked.keys()]).toEqual([CATS]);
    let done = 0;
    for (let started = await next(scene); started !== undefined; started = await next(scene)) done += 1;
    expect(done).toBe(others.length + 1);
  });

  it('say which job in another partition holds their key, and whose turn it is', async () => {
    const scene = world();
    const { on } = scene;
    const [holder, waiting] = await on.put(scene.jobIn(0), scene.jobIn(1));
    await scene.run();
    const context = { ...on.submitter(), clock: on.clock, queue: on.queue, partitionOf: () => 1 };
    const explained = await explainJob(context, waiting?.id ?? '');
    expect(explained?.waitsFor).toEqual([{ why: 'conflict', conflictKey: CATS, holder: holder?.id }]);
    expect(explained?.blocker).toBe(holder?.id);
    await on.store.awaitLock({ conflictKey: CATS, partition: 2, nowMs: on.time.nowMs });
    const [started] = await on.startEverywhere();
    if (started === undefined) throw new Error('nothing started');
    await on.end(started);
    const untilMs = on.time.nowMs + 5_000;
    const claimId = holder === undefined ? '' : (on.store.inspectJob(holder.id)?.claim?.claimId ?? '');
    // Partition 1 has its turn first; once that is over, it is partition 2's.
    await on.store.releaseLock({ conflictKey: CATS, partition: 0, claimId, untilMs });
    expect((await explainJob(context, waiting?.id ?? ''))?.waitsFor).toEqual([{ why: 'pass' }]);
    const [other] = await on.put(scene.jobIn(2));
    expect((await explainJob(context, other?.id ?? ''))?.waitsFor).toEqual([
      { why: 'otherTurn', conflictKey: CATS, partition: 1, untilMs },
    ]);
  });
});

describe('a claim that meets a taken lock', () => {
  /** A dispatcher that believes every lock to be open. */
  const hasty = (on: Stage, claims: ClaimRequest[] = []): DispatchContext =>
    on.dispatcher({
      store: storeWith(on.store, {
        readLocks: async (keys) => keys.map(() => undefined),
        claim: (requests) => {
          claims.push(...requests);
          return on.store.claim(requests);
        },
      }),
    });

  it('is given up with a raised version, and cannot be won by a repetition that comes late', async () => {
    const scene = world();
    const { on } = scene;
    const [, blocked] = await on.put(scene.jobIn(0), scene.jobIn(1));
    const claims: ClaimRequest[] = [];
    await scene.run({}, hasty(on, claims));
    const late = claims.filter(({ jobId }) => jobId === blocked?.id);
    expect(late).toHaveLength(1);
    expect(scene.running()).toHaveLength(1);
    expect(scene.heldIn(1)).toEqual([]);
    const [started] = await on.startEverywhere();
    if (started === undefined) throw new Error('nothing started');
    await on.end(started);
    const { batchId = '', claimId = '' } = started.job.claim ?? {};
    await on.store.releaseLock({ conflictKey: CATS, partition: 0, claimId, untilMs: on.time.nowMs });
    expect(batchId).not.toBe('');
    expect(await on.store.claim(late)).toEqual(['lost']);
    expect(scene.running()).toEqual([]);
    await scene.run({ reason: 'wake' });
    expect(scene.running()).toEqual([blocked?.id]);
    expect(scene.heldIn(1)).toHaveLength(1);
  });
});

describe('one partition', () => {
  it('takes no lock and reads none', async () => {
    const on = stage({ pool: pool(1) });
    const refuse = (): Promise<never> => Promise.reject(new Error('nobody needs a lock'));
    const context = on.dispatcher({
      store: storeWith(on.store, { readLocks: refuse, awaitLock: refuse, releaseLock: refuse }),
    });
    const jobs = await on.put(...Array.from({ length: 30 }, () => on.job({ resourceId: 'cats' })));
    let hints: readonly Job[] = [];
    for (let round = 0; round < jobs.length; round += 1) {
      await on.pass({ jobs: hints, reason: 'stream' }, context);
      expect(on.held()).toHaveLength(1);
      hints = await Promise.all((await on.startEverywhere()).map((each) => on.end(each)));
    }
    expect(on.store.inspectLock(CATS)).toBeUndefined();
    expect(new Set(on.states(jobs))).toEqual(new Set(['succeeded']));
  });
});
