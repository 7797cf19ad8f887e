/** What is known of the jobs that wait: of two statements about a job the later version wins, and a line has no holes. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Planner } from '../../../lib/core/planner.ts';
import { Candidates } from '../../../lib/dispatch/pass/candidates.ts';
import { NAMES_MAX, SHOWN_MS } from '../../../lib/dispatch/tuning.ts';
import { LedgerCache } from '../../../lib/dispatch/view/ledger-cache.ts';
import { keepCache, openCache, type PartitionCaches } from '../../../lib/dispatch/view/partition-cache.ts';
import { type Order, orderOf, View } from '../../../lib/dispatch/view/view.ts';
import type { JobHead } from '../../../lib/store/contract/job-fields.ts';
import { readyLineOf } from '../../../lib/submit/submit.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

const MINUTE_MS = 60_000;

/** All jobs of a stage stand in one line. */
const scene = () => {
  const on = stage();
  const order: Order = { ...orderOf(0, on.configuration), nameOf: () => 'line' };
  const view = new View();
  const note = (...images: readonly JobHead[]): void => view.note(images, order, { nowMs: on.time.nowMs });
  /** The line was read, to its end unless it goes on behind these. */
  const read = (jobs: readonly JobHead[], untilRank?: string): void => {
    const more = untilRank === undefined ? {} : { untilRank, next: 'more' };
    view.lines.set('line', { readAtMs: on.time.nowMs, jobs, ...more });
  };
  const line = (): readonly JobHead[] | undefined => view.line('line', on.time.nowMs)?.jobs;
  const told = (): readonly JobHead[] => Array.from(view.reported.all(), ({ job }) => job);
  return { on, order, view, note, read, line, told };
};

const inOrder = (jobs: readonly JobHead[], { rankOf }: Order): readonly JobHead[] => {
  const ranked = jobs.map((job) => ({ job, rank: rankOf(job) }));
  return ranked.sort((one, other) => (one.rank < other.rank ? -1 : 1)).map(({ job }) => job);
};
const endOf = (job: JobHead): JobHead => ({ ...job, version: job.version + 3, state: 'succeeded' });

describe('statements about jobs', () => {
  it('say the same in whatever order they come: of each job the one of the highest version counts', () => {
    const { on, order } = scene();
    const jobs = Array.from({ length: 4 }, (_, at) => on.job({ priority: at }));
    const statement = fc.record({
      at: fc.nat(3),
      version: fc.integer({ min: 1, max: 6 }),
      how: fc.constantFrom('told', 'reserved'),
    });
    /** A job waits at odd versions, and not at even ones. */
    const imageOf = (at: number, version: number): JobHead => ({
      ...(jobs[at] as JobHead),
      version,
      state: version % 2 === 1 ? 'pending' : 'claimed',
    });
    fc.assert(
      fc.property(fc.array(statement, { maxLength: 20 }), fc.boolean(), (statements, isReadFirst) => {
        const view = new View();
        const read = (): void => {
          const shown = jobs.map((_, at) => imageOf(at, 1)).filter((job) => !view.isGone(job));
          if (!view.lines.has('line')) view.lines.set('line', { readAtMs: 0, jobs: inOrder(shown, order) });
        };
        if (isReadFirst) read();
        const newest = jobs.map(() => 1);
        const gone = jobs.map(() => 0);
        for (const { at, version, how } of statements) {
          if (how === 'reserved') {
            view.noteGone(imageOf(at, version));
            gone[at] = Math.max(gone[at] ?? 0, version);
          } else {
            view.note([imageOf(at, version)], order, { nowMs: 0 });
          }
          newest[at] = Math.max(newest[at] ?? 0, version);
        }
        read();
        const known = new Map((view.line('line', 0)?.jobs ?? []).map(({ id, version }) => [id, version]));
        for (const { job } of view.reported.all())
          known.set(job.id, Math.max(job.version, known.get(job.id) ?? 0));
        const expected = jobs.flatMap(({ id }, at) => {
          const version = newest[at] as number;
          return version % 2 === 1 && version > (gone[at] ?? 0) ? [[id, version] as const] : [];
        });
        expect(known).toEqual(new Map(expected));
      }),
    );
  });

  it.each(['told of', 'read'])('change nothing where they are older: %s', (how) => {
    const { on, note, read, line, told } = scene();
    const before = on.job({ priority: 9 });
    const now: JobHead = { ...before, version: before.version + 2, priority: 1 };
    read(how === 'read' ? [now] : []);
    if (how === 'told of') note(now);
    note(before);
    // Nor that it did not wait then.
    note({ ...before, state: 'claimed' });
    expect(line()).toEqual([now]);
    expect(how === 'read' ? [] : told()).toEqual(how === 'read' ? [] : [now]);
  });

  it('are put in their places with a few looks each, also in a line of which thousands of jobs are known', () => {
    const { on, order, read, line, view } = scene();
    const waiting = Array.from({ length: 4_000 }, (_, at) => on.job({ priority: at % 11 }));
    let looks = 0;
    const counted: Order = {
      ...order,
      rankOf: (job) => {
        looks += 1;
        return order.rankOf(job);
      },
    };
    read(inOrder(waiting.slice(0, 3_900), order));
    const hints = waiting.slice(3_900);
    // Once more changes nothing.
    for (let time = 0; time < 2; time += 1) {
      view.note(hints, counted, { nowMs: on.time.nowMs });
      expect(line()).toEqual(inOrder(waiting, order));
    }
    expect(looks).toBeLessThanOrEqual(hints.length * 20);
  });

  it('leave a job behind all that was read of a line to the read that comes to it', () => {
    const { on, order, note, read, line, told } = scene();
    const [first, last, behind] = [on.job({ priority: 8 }), on.job({ priority: 6 }), on.job({ priority: 1 })];
    read([first, last], order.rankOf(last));
    note(behind);
    expect([line(), told()]).toEqual([[first, last], [behind]]);
  });

  it.each([
    ['went straight there from what was reserved', 0],
    ['waited anew after it was reserved', 3],
  ])('take a job away with its end, also where it %s', (_, more) => {
    const { on, note, read, line, told, view } = scene();
    const job = on.job();
    view.noteGone(job);
    const again = { ...job, version: job.version + more };
    read([again]);
    note(endOf(again));
    expect(line()).toEqual([]);
    // What an old hint says of it is old still.
    note(again);
    expect(told()).toEqual([]);
  });

  it('of many jobs that wait no more are remembered of each of them', () => {
    const { on, note, told } = scene();
    const jobs = Array.from({ length: 5 }, () => on.job());
    note(...jobs.map(endOf));
    note(...jobs);
    expect(told()).toEqual([]);
  });

  it('that a job waits no more count for a minute after the last of them, and for two at most', () => {
    const { on, view } = scene();
    const job = on.job();
    const nowMs = on.time.nowMs;
    view.begin(undefined, nowMs);
    view.noteGone(job);
    view.begin(undefined, nowMs + MINUTE_MS);
    view.noteGone(endOf(job));
    view.begin(undefined, nowMs + 2 * MINUTE_MS - 1);
    expect(view.isGone(job)).toBe(true);
    view.begin(undefined, nowMs + 2 * MINUTE_MS);
    expect(view.isGone(job)).toBe(true);
    // An id may come again.
    view.begin(undefined, nowMs + 3 * MINUTE_MS);
    expect(view.isGone(job)).toBe(false);
    view.noteGone(job);
    view.begin(undefined, nowMs + 60 * MINUTE_MS);
    expect(view.isGone(job)).toBe(false);
  });

  it('that a job waits are kept until the index shows it for certain, and the oldest are left to it where there are too many', () => {
    const { on, view, order, note, told } = scene();
    const [old, young] = [on.job(), on.job()];
    note(old);
    view.note([young], order, { nowMs: on.time.nowMs + 1 });
    view.begin(undefined, on.time.nowMs + SHOWN_MS + 1);
    expect(told()).toEqual([young]);
    note(...Array.from({ length: NAMES_MAX }, () => on.job()));
    view.begin(undefined, on.time.nowMs);
    expect(told()).toHaveLength(NAMES_MAX);
    expect(told()).not.toContain(young);
  });
});

/** What is offered of a line, asked for twice, with reads of the index that show these pages. */
async function offered(
  on: Stage,
  view: View,
  pages: readonly (readonly JobHead[])[],
  told: readonly JobHead[] = [],
) {
  const store = storeWith(on.store, {
    readLine: async ({ after }) => {
      const at = Number(after ?? 0);
      return { jobs: pages[at] ?? [], ...(at + 1 < pages.length ? { next: String(at + 1) } : {}) };
    },
  });
  const context = { ...on.main, store };
  const { configuration } = context;
  const nowMs = on.time.nowMs;
  const ledgerCache = new LedgerCache(store, configuration, 0, nowMs, openCache(new Map(), 0, undefined));
  const candidates = new Candidates(context, {
    partition: 0,
    ledgerCache,
    images: [],
    parkedHeads: [],
    justStored: new Set(),
    reservations: [],
    view,
    nowMs,
  });
  view.note(told, orderOf(0, configuration), { nowMs: nowMs - 1 });
  const heads: JobHead[] = [];
  const planner: Pick<Planner, 'room' | 'offerHeads' | 'offerLedgers'> = {
    room: 1,
    offerHeads: (_, jobs) => heads.push(...(jobs as readonly JobHead[])),
    offerLedgers: () => {},
  };
  const line = readyLineOf(pages.flat()[0] as JobHead);
  for (let time = 0; time < 2; time += 1)
    await candidates.answer(planner as Planner, {
      kind: 'need',
      lines: [{ line, count: 9 }],
      keys: [],
    });
  return heads.map(({ id, version }) => [id, version]);
}

describe('a job that was told of, and that a read of its line does not show', () => {
  it('is offered as it is now', async () => {
    const on = stage();
    const [first, last] = [on.job({ priority: 8 }), on.job({ priority: 6 })];
    const before = on.job({ priority: 1 });
    const now = { ...before, version: before.version + 1, priority: 7 };
    await on.put(now);
    expect(await offered(on, new View(), [[first, last]], [before])).toEqual([
      [first.id, first.version],
      [now.id, now.version],
      [last.id, last.version],
    ]);
  });

  it('is not offered where it waits no more', async () => {
    const on = stage();
    const first = on.job();
    const ended = on.job();
    await on.put({ ...ended, state: 'cancelled' });
    expect(await offered(on, new View(), [[first]], [ended, on.job({ id: 'unknown' })])).toEqual([
      [first.id, first.version],
    ]);
  });
});

describe('a line whose first page shows only jobs that wait no more', () => {
  it('is read on', async () => {
    const on = stage();
    const view = new View();
    const gone = [on.job(), on.job()];
    for (const job of gone) view.noteGone(job);
    const behind = on.job();
    expect(await offered(on, view, [gone, [behind]])).toEqual([[behind.id, behind.version]]);
  });
});

describe('jobs that do not wait any more', () => {
  it.each([
    ['none', 0, true],
    ['none, and no hint tells of it', 0, false],
    ['one other', 1, true],
    ['three others', 3, false],
  ])(
    'keep no job waiting that comes with the id of one whose record is gone, after %s',
    async (_, others, isTold) => {
      const on = stage();
      const run = async (id: string): Promise<void> => {
        const [job] = await on.put(on.job({ id, version: 1 }));
        if (job === undefined) throw new Error('nothing was stored');
        await on.pass({ jobs: [job], reason: 'stream' });
        for (const started of await on.startEverywhere())
          await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
      };
      const sleep = async (minutes: number): Promise<void> => {
        for (let minute = 0; minute < minutes; minute += 1) {
          await on.advance(60_000);
          await on.pass();
        }
      };
      await run('monthly');
      for (let at = 0; at < others; at += 1) {
        await sleep(1);
        await run(`other-${at}`);
      }
      await sleep(62);
      expect(on.store.inspectJob('monthly')).toBeUndefined();
      const again = await on.put(on.job({ id: 'monthly', version: 1 }));
      await on.pass(isTold ? { jobs: again, reason: 'stream' } : {});
      if (!isTold) await sleep(1);
      expect((await on.startEverywhere()).map(({ job }) => job.id)).toEqual(['monthly']);
    },
  );
});

describe('what a process remembers, when that is more than it may', () => {
  /** Remembers so many jobs of lines, and so many keys; answers what is left of that for the next pass. */
  function leftOf(caches: PartitionCaches, partition: number, jobs: number, keys: number): readonly number[] {
    const cache = openCache(caches, partition, 'one');
    const line = Array.from({ length: 99 }, () => ({}) as JobHead);
    for (let at = 0; at < jobs / 100; at += 1)
      cache.view.lines.set(`line-${at}`, { readAtMs: 0, jobs: line });
    for (let at = 0; at < keys; at += 1) cache.ledgers.set(`key-${at}`, undefined);
    keepCache(caches, partition, cache, 0);
    const { ledgers, view } = openCache(caches, partition, 'one');
    return [ledgers.size, view.lines.size];
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
    expect(leftOf(caches, 0, 10_000, 10_000)).toEqual([10_000, 100]);
    expect(leftOf(caches, 0, 20_000, 20_000)).toEqual([20_000, 0]);
  });
});
