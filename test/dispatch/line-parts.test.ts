/** Lines in parts: the same jobs are admitted in the same order as from lines that are whole. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PoolInput } from '../../lib/core/defaults.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { hashText } from '../../lib/core/partition.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { explainJob } from '../../lib/dispatch/explain.ts';
import { listJobs } from '../../lib/dispatch/inspect.ts';
import { readLineParts, withComing } from '../../lib/dispatch/line-parts.ts';
import { ANNOUNCE_EVERY_MS, placeOf, subLineOf } from '../../lib/dispatch/submit.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import type { JobHead } from '../../lib/store/job-fields.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aReadyLine } from '../fixtures/factories/ready-line.ts';
import { type Stage, stage, storeWith } from './stage.ts';

const pool = (subLines: number): PoolInput => ({
  types: {
    resize: {
      tier: 'standard',
      defaultCostMs: 1_000,
      timeoutMs: 30_000,
      subLines,
      conflictGroup: 'album',
    },
    report: { tier: 'low', defaultCostMs: 3_000, timeoutMs: 30_000, subLines },
  },
  tiers: [{ tier: 'standard' }, { tier: 'low' }],
  fleets: { images: { types: ['resize'], slots: 5 }, general: { types: ['resize', 'report'], slots: 3 } },
});

const partOf = (on: Stage, job: Job): number => subLineOf(on.configuration, job);
const rankOf = (job: JobHead): string => `${String(job.readyAtMs).padStart(15, '0')}/${job.id}`;

describe('the parts of a line', () => {
  const place = (parts: number) => (job: JobHead) => ({
    tier: 't',
    rank: rankOf(job),
    sub: hashText(job.id) % parts,
  });

  it('merge into the whole line, in whatever bites it is read', async () => {
    const cases = fc.record({
      parts: fc.integer({ min: 1, max: 6 }),
      ages: fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 60 }),
      bites: fc.array(fc.integer({ min: 1, max: 13 }), { minLength: 1, maxLength: 10 }),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ parts, ages, bites }) => {
        const store = new MemoryJobStore({ clock: () => NOW_MS, random: () => 0.5, place: place(parts) });
        const jobs = ages.map((age) => aJob({ readyAtMs: NOW_MS - age }));
        await store.createJobs(jobs);
        const [first = aJob()] = jobs;
        const line = { type: first.type, mode: first.mode, fairnessKey: first.fairnessKey };
        const subs = Array.from({ length: parts }, (_, sub) => sub);
        const read: string[] = [];
        let next: Awaited<ReturnType<typeof readLineParts>>['next'];
        for (let bite = 0; bite === 0 || next !== undefined; bite += 1) {
          const limit = bites[bite % bites.length] ?? 1;
          const heads = await readLineParts(store, { partition: 0, line, subs, rankOf }, limit, next);
          expect(heads.jobs.length).toBeLessThanOrEqual(limit);
          if (heads.next !== undefined) expect(heads.jobs).toHaveLength(limit);
          read.push(...heads.jobs.map(({ id }) => id));
          next = heads.next;
        }
        const whole = jobs.toSorted((one, other) => (rankOf(one) < rankOf(other) ? -1 : 1));
        expect(read).toEqual(whole.map(({ id }) => id));
      }),
      { numRuns: 200 },
    );
  });

  it('say of a line that it is empty only where it was read from its start', async () => {
    const store = new MemoryJobStore({ clock: () => NOW_MS, random: () => 0.5, place: place(1) });
    const jobs = Array.from({ length: 12 }, () => aJob());
    await store.createJobs(jobs);
    const { type, mode, fairnessKey } = aJob();
    const parts = { partition: 0, line: { type, mode, fairnessKey }, subs: [0], rankOf };
    // It says that more follows, and by the time that is read, nobody waits.
    const cut = storeWith(store, {
      readLine: async (asked) =>
        asked.after === undefined ? { jobs: jobs.slice(0, 6), next: 'cursor' } : { jobs: [] },
    });
    const first = await readLineParts(cut, parts, 6);
    expect(first).toMatchObject({ empty: [], next: [{ sub: 0 }] });
    expect(await readLineParts(cut, parts, 6, first.next)).toEqual({ jobs: [], empty: [] });
    const none = { ...parts, line: { ...parts.line, fairnessKey: 'nobody' } };
    expect(await readLineParts(store, none, 6)).toEqual({ jobs: [], empty: [0] });
  });

  it('cost one request where the line is whole', async () => {
    const store = new MemoryJobStore({ clock: () => NOW_MS, random: () => 0.5, place: place(1) });
    await store.createJobs(Array.from({ length: 30 }, () => aJob()));
    let requests = 0;
    const counting = storeWith(store, {
      readLine: (asked) => {
        requests += 1;
        return store.readLine(asked);
      },
    });
    const { type, mode, fairnessKey } = aJob();
    const line = { type, mode, fairnessKey };
    await readLineParts(counting, { partition: 0, line, subs: [0], rankOf }, 12);
    expect(requests).toBe(1);
  });
});

interface Load {
  readonly type: 'resize' | 'report';
  readonly fairnessKey: string;
  readonly priority: number;
  readonly mode: Job['mode'];
  readonly ageMs: number;
  readonly resourceId?: string | undefined;
}

const load: fc.Arbitrary<Load> = fc.record({
  type: fc.constantFrom('resize', 'resize', 'report'),
  fairnessKey: fc.constantFrom('a', 'b', 'c'),
  priority: fc.integer({ min: 0, max: 3 }),
  mode: fc.constantFrom('queued', 'queued', 'onDemand'),
  ageMs: fc.integer({ min: 0, max: 100_000 }),
  resourceId: fc.constantFrom(undefined, undefined, undefined, 'cats', 'dogs'),
});

/** Admits and ends until nothing is left. Answers which jobs started, pass by pass. */
async function workedOff(subLines: number, loads: readonly Load[], hinted: boolean): Promise<string[][]> {
  const on = stage({ pool: pool(subLines), budget: { parkKept: 2 } });
  const jobs = loads.map(({ ageMs, resourceId, ...rest }, at) =>
    on.job({
      ...rest,
      id: `${String(at).padStart(4, '0')}`,
      readyAtMs: on.time.nowMs - ageMs,
      ...(resourceId === undefined ? {} : { resourceId }),
    }),
  );
  await on.put(...jobs);
  const rounds: string[][] = [];
  let hints: readonly Job[] = hinted ? jobs : [];
  for (let round = 0; round <= loads.length; round += 1) {
    await on.pass({ jobs: hints, reason: 'stream' });
    const started = await on.startEverywhere();
    if (started.length === 0) break;
    rounds.push(started.map(({ job }) => job.id).toSorted());
    await on.advance(700);
    hints = await Promise.all(started.map((each) => on.end(each)));
  }
  return rounds;
}

describe('a pool whose lines stand in parts', () => {
  it('decides as one whose lines are whole', { timeout: 60_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(load, { minLength: 1, maxLength: 60 }),
        fc.boolean(),
        async (loads, hinted) => {
          const whole = await workedOff(1, loads, hinted);
          expect(whole.flat()).toHaveLength(loads.length);
          expect(await workedOff(4, loads, hinted)).toEqual(whole);
        },
      ),
      { numRuns: 40 },
    );
  });

  it('announces each part, and retires it when it has been empty for long', async () => {
    const on = stage({ pool: pool(4) });
    const jobs = await on.put(...Array.from({ length: 24 }, () => on.job()));
    const subs = new Set(jobs.map((job) => partOf(on, job)));
    expect(subs.size).toBe(4);
    const named = () =>
      on.store
        .inspect(0)
        .backlogs.get('tenant-a')
        ?.get('resize')
        ?.value.lines.map(({ sub = 0 }) => sub);
    expect(new Set(named())).toEqual(subs);
    let ended: readonly Job[] = [];
    for (let round = 0; round <= 4; round += 1) {
      await on.pass({ jobs: ended, reason: 'stream' });
      ended = await Promise.all((await on.startEverywhere()).map((started) => on.end(started)));
    }
    await on.advance(2 * ANNOUNCE_EVERY_MS + 1);
    await on.pass();
    expect(named()).toBeUndefined();
  });

  it('reads a part that was announced since the keys were read, when a slot is free', async () => {
    const on = stage({
      pool: {
        types: { resize: { defaultCostMs: 1_000, timeoutMs: 30_000, subLines: 3, maxConcurrency: 1 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 4 } },
      },
    });
    const inPart = (sub: number): Job => {
      for (;;) {
        const job = on.job();
        if (partOf(on, job) === sub) return job;
      }
    };
    const [first, late] = [inPart(0), inPart(1)];
    await on.put(first);
    await on.pass({ jobs: [first], reason: 'stream' });
    const [running] = await on.startAll('images');
    // Its hint comes while there is no room, and is gone when there is.
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' });
    if (running === undefined) throw new Error('nothing runs');
    await on.pass({ jobs: [await on.end(running)], reason: 'stream' });
    expect(on.stateOf(late.id)).toBe('claimed');
  });

  it('promotes what waits in each shard of the due line, and wakes for it in time', async () => {
    const on = stage({ pool: pool(4) });
    const dueAtMs = on.time.nowMs + 30_000;
    const jobs = await on.put(
      ...Array.from({ length: 8 }, () =>
        on.job({ state: 'scheduled', runAtMs: dueAtMs, readyAtMs: dueAtMs }),
      ),
    );
    expect(new Set(jobs.map((job) => partOf(on, job))).size).toBeGreaterThan(1);
    const [late] = await on.put(
      ...['a', 'b', 'c', 'd', 'e', 'f']
        .map((id) => on.job({ id, state: 'scheduled', runAtMs: dueAtMs + 5_000, readyAtMs: dueAtMs + 5_000 }))
        .filter((job) => partOf(on, job) > 0)
        .slice(0, 1),
    );
    await on.finish(dispatchAll(on.main, { jobs: [], reason: 'tick' }));
    await on.advance(36_000);
    expect(on.wakes).toEqual([dueAtMs, dueAtMs + 5_000]);
    await on.pass();
    expect(on.states(jobs)).toEqual(jobs.map(() => 'claimed'));
    expect(on.stateOf(late?.id ?? '')).toBe('pending');
  });

  it('says how many jobs stand before one, whichever parts they stand in', async () => {
    const on = stage({ pool: pool(4) });
    const readyAtMs = on.time.nowMs - 60_000;
    const jobs = await on.put(
      ...Array.from({ length: 20 }, (_, at) => on.job({ readyAtMs: readyAtMs + at * 1_000 })),
    );
    const context = on.operator();
    const explained = await explainJob(context, jobs[13]?.id ?? '');
    expect(explained?.position).toBe(13);
  });

  it('lists what waits and what is scheduled in the order of the whole lines', async () => {
    const on = stage({ pool: pool(4) });
    const waiting = await on.put(
      ...Array.from({ length: 15 }, (_, at) => on.job({ readyAtMs: on.time.nowMs - 60_000 + at * 1_000 })),
    );
    const scheduled = await on.put(
      ...Array.from({ length: 15 }, (_, at) => {
        const runAtMs = on.time.nowMs + 60_000 + at * 1_000;
        return on.job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs });
      }),
    );
    const context = on.operator();
    const idsOf = async (state: 'pending' | 'scheduled', fairnessKey?: string): Promise<string[]> => {
      const ids: string[] = [];
      for await (const { id } of listJobs(context, state, { fairnessKey })) ids.push(id);
      return ids;
    };
    expect(await idsOf('pending')).toEqual(waiting.map(({ id }) => id));
    expect(await idsOf('pending', 'tenant-a')).toEqual(waiting.map(({ id }) => id));
    expect(await idsOf('scheduled')).toEqual(scheduled.map(({ id }) => id));
  });

  it('strands no job when it is split less, or not at all, later', async () => {
    const on = stage({ pool: pool(4) });
    const dueAtMs = on.time.nowMs + 30_000;
    const jobs = await on.put(
      ...Array.from({ length: 12 }, () => on.job()),
      ...Array.from({ length: 12 }, () =>
        on.job({ state: 'scheduled', runAtMs: dueAtMs, readyAtMs: dueAtMs }),
      ),
    );
    // What this process knows, the next deployment does not: it splits nothing.
    const configuration = resolveConfiguration(pool(1));
    const before: JobStore = on.store;
    const place = placeOf(configuration);
    expect(place(on.job()).sub).toBe(0);
    const later = on.dispatcher({ configuration, store: before });
    await on.advance(30_000);
    await on.pass({}, later);
    expect(on.states(jobs)).not.toContain('scheduled');
    let ended: readonly Job[] = [];
    for (let round = 0; round < 8; round += 1) {
      await on.pass({ jobs: ended, reason: 'stream' }, later);
      ended = await Promise.all((await on.startEverywhere()).map((started) => on.end(started)));
    }
    expect(on.states(jobs)).toEqual(jobs.map(() => 'succeeded'));
  });
});

describe('what hints tell of a line whose parts were read ahead', () => {
  /** Within this, what a hint told is no longer remembered as one, and what was read is still trusted. */
  const LATER_MS = 20_000;
  const INDEX_LAG_MS = 1_000;

  /** Five slots, one key: of each part more is read than is given out. Four jobs of priority 0 come last. */
  async function readAhead(): Promise<{ readonly on: Stage; readonly last: readonly Job[] }> {
    const on = stage({
      pool: {
        types: { resize: { defaultCostMs: 1_000, timeoutMs: 600_000, subLines: 4 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 5 } },
      },
      store: { indexLagMs: INDEX_LAG_MS },
    });
    // A dispatcher trusts what it reads after it has heard everything for so long.
    await on.pass();
    await on.advance(on.main.budget.seenWithinMs);
    const urgent = Array.from({ length: 14 }, () => on.job({ priority: 5 }));
    const last = Array.from({ length: 4 }, () => on.job({ priority: 0 }));
    await on.put(...urgent, ...last);
    await on.advance(INDEX_LAG_MS);
    return { on, last };
  }

  /** What starts together, and what follows as soon as all of that is over; and how many places were given to jobs that did not start. */
  async function inTurn(on: Stage): Promise<{ readonly rounds: string[][]; readonly lost: number }> {
    const rounds: string[][] = [];
    let lost = 0;
    for (;;) {
      const held = on.held().length;
      const started = await on.startAll('images');
      lost += held - started.length;
      if (started.length === 0) return { rounds, lost };
      rounds.push(started.map(({ job }) => job.id).toSorted());
      await on.advance(INDEX_LAG_MS);
      const jobs: Job[] = [];
      for (const each of started) jobs.push(await on.end(each));
      await on.pass({ jobs, reason: 'stream' });
    }
  }

  it.each([
    ['after the line was read', true],
    ['when it is read, and the index does not show it', false],
  ])('is not forgotten: a job that comes %s', async (_title, isRead) => {
    const { on, last } = await readAhead();
    if (isRead) await on.pass();
    const late = on.job({ priority: 2 });
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' });
    await on.advance(LATER_MS);
    const { rounds } = await inTurn(on);
    expect(rounds.map(({ length }) => length)).toEqual([5, 5, 5, 4]);
    expect(rounds[2]).toContain(late.id);
    expect(rounds[3]).toEqual(last.map(({ id }) => id).toSorted());
  });

  it('costs no place of a job that does not wait any more', async () => {
    const { on, last } = await readAhead();
    await on.pass();
    const outcome = await on.store.cancelJob({
      jobId: last[0]?.id ?? '',
      nowMs: on.time.nowMs,
      expiresAtMs: on.time.nowMs + 1_000_000,
    });
    if (outcome.kind !== 'cancelled') throw new Error('not cancelled');
    await on.pass({ jobs: [outcome.job], reason: 'stream' });
    expect(await inTurn(on)).toMatchObject({ lost: 0 });
  });
});

it('a job that hints told of while parts were read on stands in its place', async () => {
  const head = (at: number, sub: number): JobHead =>
    aJob({ id: `${sub}-${at}`, readyAtMs: NOW_MS + at }) as JobHead;
  const rankOf = (job: Pick<JobHead, 'readyAtMs'>): string => `${job.readyAtMs}`;
  const parts = [
    [10, 30, 50, 70, 90, 110].map((at) => head(at, 0)),
    [20, 40, 60, 80, 100, 120].map((at) => head(at, 1)),
  ];
  const store: Pick<JobStore, 'readLine'> = {
    readLine: async ({ line, limit, after = '0' }) => {
      const all = parts['sub' in line ? (line.sub ?? 0) : 0] ?? [];
      const behind = Number(after) + limit;
      const next = behind < all.length ? { next: `${behind}` } : {};
      return { jobs: all.slice(Number(after), behind), ...next };
    },
  };
  const input = { partition: 0, line: aReadyLine(), subs: [0, 1], rankOf };
  const first = await readLineParts(store, input, 4);
  if (first.next === undefined) throw new Error('the line ends');
  const coming = head(65, 0);
  const compare = (one: JobHead, other: JobHead): number => one.readyAtMs - other.readyAtMs;
  const next = withComing(first.next, [{ job: coming, rank: rankOf(coming), sub: 0 }], compare);
  const rest = await readLineParts(store, input, 20, next);
  const seen = [...first.jobs, ...rest.jobs].map(({ readyAtMs }) => readyAtMs - NOW_MS);
  expect(seen).toEqual([10, 20, 30, 40, 50, 60, 65, 70, 80, 90, 100, 110, 120]);
});

describe('a job that a hint tells of, of a line that goes on', () => {
  const job = aJob({ id: 'told', readyAtMs: NOW_MS + 50 }) as JobHead;
  const rank = rankOf(job);
  const compare = (one: JobHead, other: JobHead): number => one.readyAtMs - other.readyAtMs;
  const open = { sub: 0, ahead: [], isOpen: true, next: 'more' };

  it('is left to the index where nothing was read beyond it', () => {
    for (const cursor of [[open], [{ ...open, untilRank: rankOf(aJob({ readyAtMs: NOW_MS + 49 })) }]])
      expect(withComing(cursor, [{ job, rank, sub: 0 }], compare)).toEqual(cursor);
  });

  it('is kept where it ranks before what was read of its part', () => {
    const cursor = [{ ...open, untilRank: rankOf(aJob({ readyAtMs: NOW_MS + 51 })) }];
    expect(withComing(cursor, [{ job, rank, sub: 0 }], compare)).toEqual([{ ...cursor[0], ahead: [job] }]);
  });

  it('is kept for the part that was read to its end, though another goes on', () => {
    const ended = { sub: 1, ahead: [job], isOpen: false };
    expect(withComing([open], [{ job, rank, sub: 1 }], compare)).toEqual([open, ended]);
  });
});
