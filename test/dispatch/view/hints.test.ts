/** What a hint tells is not forgotten, whether or not anything may start when it comes. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { LOOK_AROUND_MS } from '../../../lib/dispatch/tuning.ts';
import type { JobHead } from '../../../lib/store/contract/job-fields.ts';
import type { RequestOf } from '../../../lib/store/contract/verbs.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

const INDEX_LAG_MS = 10_000;

const withSlots = (slots: number, leads = false): Stage =>
  stage({
    leads,
    pool: {
      types: { resize: { timeoutMs: 600_000, defaultCostMs: 1_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots } },
    },
  });
const oneSlot = (): Stage => withSlots(1);

/** A pool that is busy, with ten jobs waiting; and the job that runs. */
async function busy(on: Stage): Promise<Job> {
  const jobs = Array.from({ length: 11 }, () => on.job());
  await on.put(...jobs);
  await on.pass({ jobs, reason: 'stream' });
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  await on.advance(1_000);
  return started.job;
}

/** Ends what runs, four seconds later, and answers what starts in its place. */
async function next(on: Stage, job: Job, context = on.main): Promise<Job> {
  await on.advance(4_000);
  await on.pass({ jobs: [await on.end({ job })], reason: 'stream' }, context);
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  return started.job;
}

describe('a job that comes while every slot is busy', () => {
  it.each([
    ['is more urgent', { priority: 10 }],
    ['is on demand', { mode: 'onDemand' as const, priority: 10 }],
  ])('and %s starts next, for a dispatcher that remembers what waited before', async (_, changes) => {
    const on = oneSlot();
    const runs = await busy(on);
    const urgent = on.job(changes);
    await on.put(urgent);
    await on.pass({ jobs: [urgent], reason: 'stream' });
    expect((await next(on, runs)).id).toBe(urgent.id);
  });

  it('starts behind the oldest job of the key that is there, if its own is new', async () => {
    const on = oneSlot();
    const runs = await busy(on);
    const urgent = on.job({ priority: 10, fairnessKey: 'another' });
    await on.put(urgent);
    await on.pass({ jobs: [urgent], reason: 'stream' });
    const oldest = await next(on, runs);
    expect(oldest.fairnessKey).toBe(runs.fairnessKey);
    expect((await next(on, oldest)).id).toBe(urgent.id);
  });

  it('and is cancelled before its turn costs no place', async () => {
    const on = oneSlot();
    const runs = await busy(on);
    const urgent = on.job({ priority: 10 });
    await on.put(urgent);
    await on.pass({ jobs: [urgent], reason: 'stream' });
    const outcome = await on.store.cancelJob({
      jobId: urgent.id,
      nowMs: on.time.nowMs,
      expiresAtMs: on.time.nowMs + 1_000_000,
    });
    if (outcome.kind !== 'cancelled') throw new Error('not cancelled');
    // Hints come in any order, and more than once.
    await on.pass({ jobs: [outcome.job, urgent], reason: 'stream' });
    await on.pass({ jobs: [urgent], reason: 'stream' });
    await on.advance(4_000);
    const report = await on.pass({ jobs: [await on.end({ job: runs })], reason: 'stream' });
    expect(report).toMatchObject({ admitted: 1, lostClaims: 0 });
    expect(await on.startAll('images')).toHaveLength(1);
    expect(on.stateOf(urgent.id)).toBe('cancelled');
  });
});

describe('a hint that comes late', () => {
  it('of a job that does not wait any more costs no place, though its line is not read again', async () => {
    const on = oneSlot();
    const old = on.job({ priority: 10 });
    await on.put(old);
    // Nobody has told this dispatcher.
    await on.store.cancelJob({ jobId: old.id, nowMs: on.time.nowMs, expiresAtMs: on.time.nowMs + 1_000_000 });
    await on.advance(1_000);
    const runs = await busy(on);
    const reserved: string[] = [];
    const store = storeWith(on.store, {
      commit: (request) => {
        for (const { jobs } of request.commit.reserve) for (const { id } of jobs.values()) reserved.push(id);
        return on.store.commit(request);
      },
    });
    const jobs = [await on.end({ job: runs }), old];
    const report = await on.pass({ jobs, reason: 'stream' }, { ...on.main, store });
    expect(report).toMatchObject({ admitted: 1, lostClaims: 0 });
    expect(reserved).toHaveLength(1);
    expect(reserved).not.toContain(old.id);
    expect(await on.startAll('images')).toHaveLength(1);
  });
});

describe('a job that came without a hint', () => {
  it('starts once its line is not trusted any more, also where more lines were found empty than one pass reads again', async () => {
    const on = stage();
    const jobs = Array.from({ length: 60 }, (_, at) => on.job({ fairnessKey: `key${at}` }));
    await on.put(...jobs);
    // Every key runs one job, and has nothing more: so all their lines are remembered as empty, the last ones latest.
    for (let round = 0; round < 20; round += 1) {
      const ended: Job[] = [];
      for (const started of await on.startAll('images')) ended.push(await on.end(started));
      await on.pass({ jobs: round === 0 ? jobs : ended, reason: 'stream' });
      await on.advance(100);
    }
    expect(new Set(on.states(jobs))).toEqual(new Set(['succeeded']));
    const unheard = jobs.map(({ fairnessKey }) => on.job({ fairnessKey }));
    await on.put(...unheard);
    await on.advance(LOOK_AROUND_MS);
    let ended: Job[] = [];
    for (let round = 0; round < unheard.length / 4; round += 1) {
      expect(await on.pass({ jobs: ended, reason: 'stream' })).toMatchObject({ admitted: 4 });
      ended = [];
      for (const started of await on.startAll('images')) ended.push(await on.end(started));
    }
  });
});

describe('a job that another dispatcher was told of', () => {
  it('starts in its turn once the index shows it, though the line was read before that', async () => {
    const on = withSlots(1, true);
    const runs = await busy(on);
    const urgent = on.job({ priority: 10 });
    await on.put(urgent);
    const shownAtMs = on.time.nowMs + INDEX_LAG_MS;
    // As an index that lags.
    const store = storeWith(on.store, {
      readLine: async (parameters) => {
        const heads = await on.store.readLine(parameters);
        const isShown = ({ id }: JobHead): boolean => id !== urgent.id || on.time.nowMs >= shownAtMs;
        return { ...heads, jobs: heads.jobs.filter(isShown) };
      },
    });
    await on.pass({ jobs: [urgent], reason: 'stream' }, on.dispatcher({ store }));
    // It begins to lead, and reads lines that do not show that job yet.
    const main = on.dispatcher({ store });
    const second = await next(on, runs, main);
    expect(second.id).not.toBe(urgent.id);
    await on.advance(2 * INDEX_LAG_MS);
    expect((await next(on, second, main)).id).toBe(urgent.id);
  });
});

it('a job that waits anew while it is held stands in its place once its attempt is settled', async () => {
  const on = withSlots(2, true);
  const reserved: string[] = [];
  const store = storeWith(on.store, {
    commit: (request: RequestOf<'commit'>) => {
      for (const { jobs } of request.commit.reserve) for (const { id } of jobs.values()) reserved.push(id);
      return on.store.commit(request);
    },
  });
  const context = { ...on.main, store };
  await on.pass({}, context);
  await on.advance(20_000);
  const [again, first] = [on.job({ id: 'again' }), on.job({ id: 'first' })];
  await on.put(again, first);
  await on.pass({ jobs: [again, first], reason: 'stream' }, context);
  const begun = await on.startAll('images');
  const running = (id: string) => {
    const found = begun.find(({ job }) => job.id === id);
    if (found === undefined) throw new Error(`${id} did not start`);
    return found;
  };
  await on.advance(1_000);
  const failed = await on.end(running('again'), {
    kind: 'retry',
    error: { name: 'Busy', message: 'try again' },
    runAtMs: on.time.nowMs + 30_000,
  });
  const waiting = Array.from({ length: 5 }, (_, at) => on.job({ id: `waits-${at}` }));
  await on.put(...waiting);
  await on.advance(1_000);
  // An operator moves it to now. Of that no hint comes, and of its failure a late one.
  const present = on.store.inspectJob('again');
  if (present === undefined) throw new Error('gone');
  await on.store.retimeJob({ job: present, runAtMs: on.time.nowMs - 1, nowMs: on.time.nowMs });
  await on.advance(1_000);
  await on.pass(
    { jobs: [await on.end(running('first')), ...waiting.slice(0, 1)], reason: 'stream' },
    context,
  );
  const runs = [...(await on.startAll('images'))];
  await on.advance(1_000);
  await on.pass({ jobs: [failed], reason: 'stream' }, context);
  runs.push(...(await on.startAll('images')));
  const late = Array.from({ length: 4 }, (_, at) => on.job({ id: `late-${at}` }));
  await on.put(...late);
  await on.pass({ jobs: late, reason: 'stream' }, context);
  for (let ends = 0; ends < 6; ends += 1) {
    await on.advance(1_000);
    const next = runs.shift();
    if (next === undefined) throw new Error('nothing runs');
    await on.pass({ jobs: [await on.end(next)], reason: 'stream' }, context);
    runs.push(...(await on.startAll('images')));
  }
  expect(reserved.indexOf('again', 2)).toBeGreaterThan(0);
  expect(reserved.indexOf('again', 2)).toBeLessThan(reserved.indexOf('late-0'));
});
