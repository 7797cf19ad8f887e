/** What a hint tells is not forgotten, whether or not anything may start when it comes. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { compareRanked, rankKey } from '../../lib/core/score.ts';
import { HintedJobs } from '../../lib/dispatch/hinted-jobs.ts';
import { isOutdated, noteImages, noteOutdated } from '../../lib/dispatch/line-images.ts';
import {
  keepCache,
  openCache,
  type PartitionCaches,
  READ_TRUSTED_MS,
  type RecentJob,
  RecentJobs,
} from '../../lib/dispatch/partition-cache.ts';
import type { RequestOf } from '../../lib/store/contract.ts';
import type { JobHead } from '../../lib/store/job-fields.ts';
import { type Stage, stage, storeWith } from './stage.ts';

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
    await on.advance(READ_TRUSTED_MS);
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

/** All jobs stand in one line. */
const oneLine = ({ configuration }: Stage) => ({
  nameOf: () => 'line',
  rankOf: (job: JobHead) => rankKey(job, configuration.score),
  compare: (one: JobHead, other: JobHead) => compareRanked(one, other, configuration.score),
});

describe('hints of a line of which thousands of jobs are remembered', () => {
  it('are put in their places with a few looks each, in the order of their ranks', () => {
    const on = oneSlot();
    const waiting = Array.from({ length: 4_000 }, (_, at) => on.job({ priority: at % 11 }));
    const ranks = new Map(waiting.map((job) => [job.id, rankKey(job, on.configuration.score)]));
    let looks = 0;
    const places = {
      ...oneLine(on),
      compare: (one: JobHead, other: JobHead) => {
        looks += 1;
        return compareRanked(one, other, on.configuration.score);
      },
    };
    const inOrder = (jobs: readonly JobHead[]): readonly JobHead[] =>
      jobs.toSorted((one, other) => ((ranks.get(one.id) ?? '') < (ranks.get(other.id) ?? '') ? -1 : 1));
    const { lines } = openCache(new Map(), 0, 'one');
    const known = inOrder(waiting.slice(0, 3_900));
    lines.heads.set('line', { readAtMs: on.time.nowMs, jobs: known });
    const hints = waiting.slice(3_900);
    noteImages(lines, hints, places, on.time.nowMs);
    expect(lines.heads.get('line')?.jobs).toEqual(inOrder(waiting));
    expect(looks).toBeLessThanOrEqual(hints.length * 20);
    // Once more changes nothing.
    noteImages(lines, hints, places, on.time.nowMs);
    expect(lines.heads.get('line')?.jobs).toEqual(inOrder(waiting));
  });
});

describe('what a process remembers of a line', () => {
  it('stands there once where a read has shown it before it was told of', () => {
    const on = oneSlot();
    const { lines } = openCache(new Map(), 0, 'one');
    const [first, last] = [on.job({ priority: 8 }), on.job({ priority: 2 })];
    const later = on.job({ priority: 5, readyAtMs: on.time.nowMs + 5 });
    // It was read on with a job that came after the line was read first.
    lines.heads.set('line', { readAtMs: on.time.nowMs, jobs: [first, later, last] });
    noteImages(lines, [{ ...later }], oneLine(on), on.time.nowMs + 10);
    expect(lines.heads.get('line')?.jobs).toEqual([first, later, last]);
  });

  it('has the later version of a job, though its first image comes last', () => {
    const on = oneSlot();
    const { lines } = openCache(new Map(), 0, 'one');
    const first = on.job({ priority: 8, readyAtMs: on.time.nowMs + 5 });
    const moved = { ...first, version: first.version + 1 };
    // The clock of whoever made it is ahead, or the line was read on since.
    lines.heads.set('line', { readAtMs: on.time.nowMs, jobs: [moved] });
    noteImages(lines, [first], oneLine(on), on.time.nowMs + 10);
    expect(lines.heads.get('line')?.jobs).toEqual([moved]);
  });

  it('knows for a minute from its end that a job does not wait any more', () => {
    const on = oneSlot();
    const { lines } = openCache(new Map(), 0, 'one');
    const job = on.job();
    noteOutdated(lines, [job], on.time.nowMs);
    const endedAtMs = on.time.nowMs + 50_000;
    const ended: JobHead = { ...job, version: job.version + 3, state: 'succeeded' };
    noteImages(lines, [ended], oneLine(on), endedAtMs);
    noteOutdated(lines, [on.job()], endedAtMs + 59_000);
    expect(isOutdated(lines, job)).toBe(true);
  });

  it.each([
    ['went straight there from what was admitted', 0],
    ['waited anew after it was admitted', 3],
  ])('forgets a job with its end, also where it %s', (_, more) => {
    const on = oneSlot();
    const { lines } = openCache(new Map(), 0, 'one');
    const job = on.job();
    noteOutdated(lines, [job], on.time.nowMs);
    const again = { ...job, version: job.version + more };
    if (more > 0) lines.heads.set('line', { readAtMs: on.time.nowMs, jobs: [again] });
    const ended: JobHead = { ...again, version: again.version + 3, state: 'succeeded' };
    noteImages(lines, [ended], oneLine(on), on.time.nowMs);
    expect(lines.heads.get('line')?.jobs ?? []).toEqual([]);
    // What an old hint says of it is old still.
    noteImages(lines, [again], oneLine(on), on.time.nowMs);
    expect([...lines.recent.all()]).toEqual([]);
  });

  it('has a job where it stands now, if a read shows that it has changed since it was told of', async () => {
    const on = oneSlot();
    const { lines } = openCache(new Map(), 0, 'one');
    const places = oneLine(on);
    const [first, last] = [on.job({ priority: 8 }), on.job({ priority: 6 })];
    const untilRank = places.rankOf(last);
    lines.heads.set('line', { readAtMs: on.time.nowMs, jobs: [first, last], untilRank, next: 'more' });
    const before = on.job({ priority: 1 });
    const now: Job = { ...before, version: before.version + 1, priority: 7 };
    await on.put(now);
    noteImages(lines, [before], places, on.time.nowMs);
    expect(lines.heads.get('line')?.jobs).toEqual([first, last]);
    const hinted = new HintedJobs(on.main, {
      partition: 0,
      places,
      cached: lines,
      parkedHeads: [],
      justStored: new Set(),
      isHeld: () => false,
      nowMs: on.time.nowMs,
    });
    await hinted.confirm('line', [first, last], undefined);
    expect(lines.heads.get('line')?.jobs.map(({ id }) => id)).toEqual([first.id, before.id, last.id]);
  });
});

describe('jobs that hints told of', () => {
  const recents = (on: Stage, count: number): readonly RecentJob[] =>
    Array.from({ length: count }, (_, at) => {
      const line = at % 3;
      const job = on.job({ fairnessKey: `tenant-${line % 2}` });
      return { name: `line-${line}`, job, rank: '', seenAtMs: at };
    });
  const idsOf = (jobs: Iterable<RecentJob>): readonly string[] => Array.from(jobs, ({ job: { id } }) => id);

  it('are forgotten with their time, and the oldest where there are too many', () => {
    const known = new RecentJobs();
    const told = recents(oneSlot(), 10);
    for (const each of told) known.note(each);
    // Told of once more: it is the last now.
    known.note({ ...told[0], seenAtMs: 10 } as RecentJob);
    known.forgetOld(3, 100);
    expect(idsOf(known.all())).toEqual([...idsOf(told.slice(3)), told[0]?.job.id]);
    known.forgetOld(3, 2);
    expect(idsOf(known.all())).toEqual([told[9]?.job.id, told[0]?.job.id]);
  });

  it('are found by line, and by key', () => {
    const known = new RecentJobs();
    const told = recents(oneSlot(), 6);
    for (const each of told) known.note(each);
    known.forget(told[1]?.job.id ?? '');
    const [first, , third, fourth, fifth, sixth] = told as [RecentJob, ...RecentJob[]];
    expect([...known.inLine('line-0')]).toEqual([first, fourth]);
    expect([...known.ofKey('tenant-0')]).toEqual([first, fourth, third, sixth].map((each) => each?.job));
    expect([...known.oneOfEach()]).toEqual([first, fifth, third]);
    // It stands in another line by now.
    known.note({ ...first, name: 'line-1' });
    expect([...known.inLine('line-0')]).toEqual([fourth]);
    for (const { job } of told) known.forget(job.id);
    expect([known.size, known.hasLine('line-0'), [...known.keys()]]).toEqual([0, false, []]);
  });
});

describe('what a process was shown of jobs that do not wait', () => {
  it('is remembered of each of them: an old hint of none brings it back', () => {
    const on = oneSlot();
    const { lines } = openCache(new Map(), 0, 'one');
    const places = oneLine(on);
    const jobs = Array.from({ length: 5 }, () => on.job());
    const ended = jobs.map((job): JobHead => ({ ...job, version: job.version + 3, state: 'succeeded' }));
    noteImages(lines, ended, places, on.time.nowMs);
    noteImages(lines, jobs, places, on.time.nowMs);
    expect([...lines.recent.all()]).toEqual([]);
  });
});

describe('what a process remembers, when that is more than it may', () => {
  /** Remembers so many jobs of lines, and so many keys; answers what is left of that for the next pass. */
  function leftOf(caches: PartitionCaches, partition: number, jobs: number, keys: number): readonly number[] {
    const cache = openCache(caches, partition, 'one');
    const line = Array.from({ length: 99 }, () => ({}) as JobHead);
    for (let at = 0; at < jobs / 100; at += 1)
      cache.lines.heads.set(`line-${at}`, { readAtMs: 0, jobs: line });
    for (let at = 0; at < keys; at += 1) cache.ledgers.set(`key-${at}`, undefined);
    keepCache(caches, partition, cache, 0);
    const { ledgers, lines } = openCache(caches, partition, 'one');
    return [ledgers.size, lines.heads.size];
  }

  it('is without the jobs of lines, and has the keys and what they were charged', () => {
    expect(leftOf(new Map(), 0, 100_000, 10_000)).toEqual([10_000, 1_000]);
    expect(leftOf(new Map(), 0, 250_000, 10_000)).toEqual([10_000, 0]);
    expect(leftOf(new Map(), 0, 0, 250_000)).toEqual([0, 0]);
  });

  it('is less of each partition where it makes passes of many', () => {
    const caches: PartitionCaches = new Map();
    for (let partition = 1; partition < 16; partition += 1)
      keepCache(caches, partition, openCache(caches, partition, 'one'), 0);
    expect(leftOf(caches, 0, 20_000, 20_000)).toEqual([20_000, 200]);
    expect(leftOf(caches, 0, 100_000, 40_000)).toEqual([40_000, 0]);
  });
});

describe('a hint that is older than what is known of its job', () => {
  it.each(['told of', 'read'])('changes nothing: %s', (how) => {
    const on = oneSlot();
    const { lines } = openCache(new Map(), 0, 'one');
    const places = oneLine(on);
    const before = on.job({ priority: 9 });
    const now: JobHead = { ...before, version: before.version + 2, priority: 1 };
    lines.heads.set('line', { readAtMs: on.time.nowMs, jobs: how === 'read' ? [now] : [] });
    if (how === 'told of') noteImages(lines, [now], places, on.time.nowMs);
    noteImages(lines, [before], places, on.time.nowMs);
    // Nor that it did not wait then.
    noteImages(lines, [{ ...before, state: 'claimed' }], places, on.time.nowMs);
    expect(lines.heads.get('line')?.jobs).toEqual([now]);
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
