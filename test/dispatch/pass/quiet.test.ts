/** A partition in which nothing waits says so: whoever makes the next pass reads no line that it has no reason to read. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { dispatch } from '../../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { quietOf as quietIn } from '../../../lib/dispatch/pass/quiet.ts';
import { noKeys, orderOf, View } from '../../../lib/dispatch/view/view.ts';
import type { NothingWaits, PartitionState } from '../../../lib/store/contract/records.ts';
import { lockedJob, lockedPool } from '../../stage/locked.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

const KEYS = 30;
/** A minute: how long what nobody told of may wait. */
const LOOKED_AT_EVERY_MS = 60_000;

/** One of two types, on four slots. */
const twoTypes = (more: Pick<PoolInput, 'fairness'> = {}): Stage =>
  stage({
    pool: {
      ...more,
      types: {
        resize: { defaultCostMs: 1_000, timeoutMs: 600_000 },
        pack: { defaultCostMs: 1_000, timeoutMs: 600_000 },
      },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'pack'], slots: 4 } },
    },
  });

const ONE_TYPE = {
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 600_000 } },
  tiers: [{ tier: 'standard' }],
};

const tell = (on: Stage, job: Job, context?: DispatchContext) =>
  on.pass({ jobs: [job], reason: 'stream' }, context);

/** Each key has had one job, which is over. */
async function quiet(on: Stage): Promise<void> {
  for (let at = 0; at < KEYS; at += 1) await run(on, on.job({ fairnessKey: `key-${at}` }));
  expect(await quietOf(on)).toBeDefined();
}

async function run(on: Stage, job: Job, context?: DispatchContext): Promise<void> {
  await on.put(job);
  await tell(on, job, context);
  for (const started of await on.startEverywhere()) await tell(on, await on.end(started), context);
}

const stateOf = (on: Stage): Promise<PartitionState> =>
  on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs });
const quietOf = async (on: Stage): Promise<NothingWaits | undefined> => (await stateOf(on)).quiet;
/** From when on every read shows what was left waiting, from now. */
const unseenForMs = async (on: Stage): Promise<number> =>
  ((await stateOf(on)).unseenUntilMs ?? -Infinity) - on.time.nowMs;
const pausePack = (on: Stage, paused: boolean) =>
  on.store.changeControl({ partition: 0, scope: 'type/pack', change: { paused } });

/** A dispatcher that has just started, and how often it reads of the index what waits. */
function counting(on: Stage): { readonly context: DispatchContext; readonly reads: () => number } {
  let reads = 0;
  const context = on.dispatcher({
    store: storeWith(on.store, {
      readLine: (asked) => {
        reads += 1;
        return on.store.readLine(asked);
      },
      readKeys: (asked) => {
        reads += 1;
        return on.store.readKeys(asked);
      },
    }),
  });
  return { context, reads: () => reads };
}

describe('a partition in which nothing waits', () => {
  it('costs a dispatcher that has just started one read for a job of which it is told', async () => {
    const on = twoTypes();
    await quiet(on);
    const { context, reads } = counting(on);
    await on.pass({}, context);
    expect(reads()).toBe(0);
    const job = on.job({ fairnessKey: 'key-3' });
    await on.put(job);
    expect(await tell(on, job, context)).toMatchObject({ admitted: 1 });
    expect(reads()).toBe(1);
  });

  it('is looked at as a whole once a minute, so a job whose hint was lost starts with the first pass after that', async () => {
    const on = twoTypes();
    await quiet(on);
    const unheard = on.job({ fairnessKey: 'key-3', type: 'pack' });
    await on.put(unheard);
    await on.advance(LOOKED_AT_EVERY_MS - 1);
    const context = on.dispatcher();
    expect(await on.pass({}, context)).toMatchObject({ admitted: 0 });
    await on.advance(1);
    expect(await on.pass({}, context)).toMatchObject({ admitted: 1 });
    expect(on.stateOf(unheard.id)).toBe('claimed');
  });

  it('is looked at where a letter asks for that', async () => {
    const on = twoTypes();
    await quiet(on);
    const unheard = on.job({ fairnessKey: 'key-3' });
    await on.put(unheard);
    await on.store.putLetter({ partition: 0, letter: { looksAtAll: true }, nowMs: on.time.nowMs });
    expect(await on.pass({ reason: 'wake' }, on.dispatcher())).toMatchObject({ admitted: 1 });
  });

  it('says so no more when a pass leaves a job waiting, though that pass has nothing else to write', async () => {
    // Where keys that come are lifted, it would write that.
    const on = twoTypes({ fairness: { idlePolicy: 'none' } });
    await quiet(on);
    await pausePack(on, true);
    const held = on.job({ type: 'pack', fairnessKey: 'key-3' });
    await on.put(held);
    expect(await tell(on, held)).toMatchObject({ admitted: 0, settled: 0 });
    expect(await quietOf(on)).toBeUndefined();
    await pausePack(on, false);
    expect(await on.pass({}, on.dispatcher())).toMatchObject({ admitted: 1 });
  });

  it('says so no more while jobs wait for room', async () => {
    const on = twoTypes();
    await quiet(on);
    const jobs = Array.from({ length: 5 }, (_, at) => on.job({ fairnessKey: `key-${at}` }));
    await on.put(...jobs);
    expect(await on.pass({ jobs, reason: 'stream' })).toMatchObject({ admitted: 4 });
    expect(await quietOf(on)).toBeUndefined();
    const [started] = await on.startEverywhere();
    if (started === undefined) throw new Error('nothing started');
    const { context, reads } = counting(on);
    expect(await tell(on, await on.end(started), context)).toMatchObject({ admitted: 1, settled: 1 });
    expect(reads()).toBeGreaterThan(0);
  });

  it('does not say so when a line goes on behind what was read of it, though all of that starts', async () => {
    // Of three lines, 12 jobs are read of each at first: that many of the long one start, and those of the others.
    const slots = 14;
    const on = stage({ pool: { ...ONE_TYPE, fleets: { images: { types: ['resize'], slots } } } });
    const long = Array.from({ length: 2 * slots }, () => on.job({ fairnessKey: 'long' }));
    await on.put(...long, on.job({ fairnessKey: 'one' }), on.job({ fairnessKey: 'two' }));
    expect(await on.pass()).toMatchObject({ admitted: slots });
    expect(await quietOf(on)).toBeUndefined();
  });

  it('says so no more when a claim is lost: what waits of its type is looked up', async () => {
    // Its key has a lock, so that its pass claims it.
    const on = stage({ pool: lockedPool(4, { timeoutMs: 600_000 }) });
    for (let at = 0; at < KEYS; at += 1) await run(on, lockedJob(on));
    expect(await quietOf(on)).toBeDefined();
    const job = lockedJob(on);
    await on.put(job);
    const store = storeWith(on.store, {
      claim: async (requests) => {
        await on.store.raiseVersion({ jobId: job.id, version: job.version });
        return on.store.claim(requests);
      },
    });
    expect(await tell(on, job, { ...on.main, store })).toMatchObject({ lostClaims: 1 });
    // Its place was given up, so it counts as told of.
    expect([await quietOf(on), (await unseenForMs(on)) > 0]).toEqual([undefined, true]);
    expect(await on.pass()).toMatchObject({ admitted: 1 });
  });

  it.each([
    ['a hint', true],
    ['the look at its place', false],
  ])('lets a job that has changed since it was told of start by %s', async (_, isTold) => {
    const on = twoTypes();
    await quiet(on);
    const job = on.job({ fairnessKey: 'key-3' });
    await on.put(job);
    expect(await tell(on, job)).toMatchObject({ admitted: 1 });
    await on.store.raiseVersion({ jobId: job.id, version: job.version });
    expect(await on.startAll('images')).toEqual([]);
    if (!isTold) await on.advance(on.main.budget.checkAfterMs);
    const changed = [on.store.inspectJob(job.id)].filter((each) => each !== undefined);
    expect(await on.pass(isTold ? { jobs: changed, reason: 'stream' } : {})).toMatchObject({
      settled: 1,
      admitted: 1,
    });
    expect((await on.startAll('images')).map((started) => started.job.id)).toEqual([job.id]);
  });

  it('was found so by the types of one declaration, and is looked at by those of the next', async () => {
    const on = twoTypes();
    await quiet(on);
    const before = await quietOf(on);
    if (before === undefined) throw new Error('not quiet');
    const unheard = on.job({ fairnessKey: 'key-3' });
    await on.put(unheard);
    await on.commit({ quiet: { ...before, declared: 7 } });
    expect(await on.pass({}, on.dispatcher())).toMatchObject({ admitted: 1 });
  });
});

describe('a job that is left waiting by a pass that was told of it', () => {
  it('is not seen by others before an instant that the partition names, some seconds ahead of need', async () => {
    const on = twoTypes();
    await quiet(on);
    await pausePack(on, true);
    const leave = async (): Promise<void> => {
      const job = on.job({ type: 'pack', fairnessKey: 'key-3' });
      await on.put(job);
      expect(await tell(on, job)).toMatchObject({ admitted: 0 });
    };
    const { seenWithinMs } = on.main.budget;
    await leave();
    expect(await unseenForMs(on)).toBeGreaterThan(seenWithinMs + 5_000);
    const { version } = on.store.inspect(0).summary;
    await on.advance(5_000);
    await leave();
    // Most of these passes write nothing.
    expect(on.store.inspect(0).summary.version).toBe(version);
    await on.advance(6_000);
    expect(await unseenForMs(on)).toBeLessThan(seenWithinMs);
    await leave();
    expect(await unseenForMs(on)).toBeGreaterThanOrEqual(seenWithinMs);
  });

  it('keeps the partition from being quiet until all lines were read from that instant on', async () => {
    const on = twoTypes();
    await quiet(on);
    await pausePack(on, true);
    const held = on.job({ type: 'pack', fairnessKey: 'key-3' });
    await on.put(held);
    await tell(on, held);
    await pausePack(on, false);
    expect(await on.pass({}, on.dispatcher())).toMatchObject({ admitted: 1 });
    expect(await quietOf(on)).toBeUndefined();
    await on.advance((await unseenForMs(on)) - 1);
    await on.pass({}, on.dispatcher());
    expect(await quietOf(on)).toBeUndefined();
    await on.advance(1);
    const [started] = await on.startEverywhere();
    if (started === undefined) throw new Error('nothing started');
    await tell(on, await on.end(started), on.dispatcher());
    expect(await quietOf(on)).toBeDefined();
  });

  it('starts by a wake for that instant where slots are free, though no line showed it before', async () => {
    const on = twoTypes({ fairness: { idlePolicy: 'none' } });
    await quiet(on);
    await pausePack(on, true);
    const held = on.job({ type: 'pack', fairnessKey: 'key-3' });
    await on.put(held);
    let isShown = false;
    const nothing = { readLine: async () => ({ jobs: [] }), readKeys: async () => ({ keys: [] }) };
    const newLate = () => on.dispatcher({ store: storeWith(on.store, nothing) });
    const late = newLate();
    let wakes = 0;
    // Whoever is woken does not see it either, until then, and remembers nothing.
    on.queue.onWake(() => {
      wakes += 1;
      void dispatch(isShown ? on.dispatcher() : newLate(), 0, { jobs: [], reason: 'wake' });
    });
    await tell(on, held, late);
    await pausePack(on, false);
    const seenAtMs = on.time.nowMs + (await unseenForMs(on));
    await on.pass({}, late);
    await on.advance(seenAtMs - on.time.nowMs - 1);
    expect(on.stateOf(held.id)).toBe('pending');
    isShown = true;
    await on.advance(1_001);
    expect(on.stateOf(held.id)).toBe('claimed');
    // Wakes ask for no wakes: one came soon, and one at that instant.
    expect(wakes).toBeLessThanOrEqual(3);
  });
});

it('that nothing waits is said under the declaration that it holds for', () => {
  const on = twoTypes();
  const { nowMs } = on.time;
  const view = new View();
  for (const { type } of on.configuration.types) view.keys.set(type, noKeys(nowMs));
  const said = (deployed: DispatchContext['deployed']) =>
    quietIn({ configuration: on.configuration, deployed }, view, {
      order: orderOf(0, on.configuration),
      nowMs,
      unseenUntilMs: nowMs,
    });
  expect(said(undefined)).toEqual({ lookedAtMs: nowMs });
  expect(said({ version: 7 } as DispatchContext['deployed'])).toEqual({ lookedAtMs: nowMs, declared: 7 });
});
