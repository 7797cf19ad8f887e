/** What operators see of jobs that are parked behind a conflict key, held against what the store has. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import { dispatch } from '../../lib/dispatch/dispatch.ts';
import { depthOf, type HeldJobs, LOOK_BOUNDS } from '../../lib/dispatch/partition/depth.ts';
import type { OperateContext } from '../../lib/operate/controls.ts';
import { type KeyView, listKeys } from '../../lib/operate/inspect.ts';
import { type JobFilter, listJobs } from '../../lib/operate/list-jobs.ts';
import { countParked } from '../../lib/operate/parked-lines.ts';
import { allOf } from '../client/desk.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { timesOf } from '../fixtures/times.ts';
import { seeded } from '../simulation/random.ts';
import { albums, behind } from '../stage/albums.ts';
import type { Stage } from '../stage/stage.ts';

const isWanted = (filter: JobFilter, job: Job): boolean =>
  (filter.type ?? job.type) === job.type &&
  (filter.mode ?? job.mode) === job.mode &&
  (filter.fairnessKey ?? job.fairnessKey) === job.fairnessKey;

/** What waits: pending, and without a place for it as it is now. */
const waitingIn = (on: Stage, filter: JobFilter = {}): readonly Job[] =>
  [...on.store.everyJob()].filter((job) => on.stateOf(job.id) === 'pending' && isWanted(filter, job));

const idsOf = (jobs: readonly Job[]): readonly string[] => jobs.map(({ id }) => id).toSorted();

const listed = (context: OperateContext, filter: JobFilter = {}): Promise<readonly Job[]> =>
  allOf(listJobs(context, 'pending', filter));

const keysOf = async (context: OperateContext, countUpTo = 1_000): Promise<readonly KeyView[]> =>
  (await allOf(listKeys(context, countUpTo))).filter(({ type }) => type !== undefined);

/** Each list has what waits, each job once, and each key's count is exact up to the bound. */
async function expectShown(on: Stage, context = on.operator()): Promise<void> {
  for (const fairnessKey of [undefined, ...new Set(waitingIn(on).map((job) => job.fairnessKey))])
    for (const type of [undefined, 'resize', 'mail'])
      expect(idsOf(await listed(context, { fairnessKey, type }))).toEqual(
        idsOf(waitingIn(on, { fairnessKey, type })),
      );
  expect(idsOf(await listed(context, { mode: 'onDemand' }))).toEqual(
    idsOf(waitingIn(on, { mode: 'onDemand' })),
  );
  for (const countUpTo of [1, 4, 1_000]) {
    const shown = (await keysOf(context, countUpTo)).filter(({ waiting }) => waiting > 0);
    const groups = Map.groupBy(waitingIn(on), ({ type, fairnessKey }) => JSON.stringify([type, fairnessKey]));
    expect(shown.map(({ type, fairnessKey }) => JSON.stringify([type, fairnessKey])).toSorted()).toEqual(
      [...groups.keys()].toSorted(),
    );
    for (const { type, fairnessKey, waiting, more } of shown) {
      const { length } = groups.get(JSON.stringify([type, fairnessKey])) ?? [];
      expect(waiting).toBe(Math.min(length, countUpTo));
      // With the bound met, another of its lines may not have been looked at.
      if (length !== countUpTo) expect(more).toBe(length > countUpTo);
    }
  }
}

const parkedCount = (on: Stage): number =>
  [...on.store.everyJob()].filter(({ id }) => on.store.inspectLine(id)?.startsWith('blocked/')).length;

describe('jobs that are parked', () => {
  it('are listed behind those in ready lines, in the order of their own', async () => {
    const on = albums();
    await behind(on, { fairnessKey: 'ann', resourceId: 'beach' }, 130);
    await on.put(on.job({ type: 'mail', fairnessKey: 'ben' }));
    const parked = waitingIn(on).filter(({ id }) => on.store.inspectLine(id)?.startsWith('blocked/'));
    expect(parked.length).toBeGreaterThan(100);
    const shown = await listed(on.operator());
    expect(idsOf(shown)).toEqual(idsOf(waitingIn(on)));
    expect(shown.slice(-parked.length).map(({ id }) => id)).toEqual(parked.map(({ id }) => id));
  });

  it.each([
    ['of no key’s own', { idlePolicy: 'none', keyTtlMs: null }, 'beach'],
    ['too long to be named with a key', {}, 'x'.repeat(140)],
  ] as const)('are shown where their conflict key is %s', async (_what, fairness, resourceId) => {
    const on = albums({ fairness });
    await behind(on, { fairnessKey: 'ann', resourceId }, 60);
    expect(parkedCount(on)).toBeGreaterThan(40);
    await expectShown(on);
    expect(await depthOf(on.main, 0, LOOK_BOUNDS)).toMatchObject({ isLeast: true });
  });

  it.each(Array.from({ length: timesOf(6) }, (_, at) => at + 1))(
    'are shown in three partitions, whatever comes, ends and moves: seed %i',
    async (seed) => {
      const random = seeded(seed);
      const below = (count: number): number => Math.floor(random() * count);
      const on = albums({ partitions: 3, fleets: { images: { types: ['resize', 'mail'], slots: 30 } } });
      const context: OperateContext = { ...on.operator(), partitionOf: (key) => partitionOf(key, 3) };
      const dispatchers = [0, 1, 2].map(() => on.dispatcher());
      const hints: Job[][] = [[], [], []];
      let parked = 0;
      for (let step = 0; step < 40; step += 1) {
        const fairnessKey = `key-${below(9)}`;
        const partition = partitionOf(fairnessKey, 3);
        const jobs = await on.put(
          ...Array.from({ length: 1 + below(12) }, () =>
            on.job({
              type: below(5) === 0 ? 'mail' : 'resize',
              fairnessKey,
              partition,
              resourceId: `album/${below(2)}`,
              mode: below(3) === 0 ? 'onDemand' : 'queued',
            }),
          ),
        );
        hints[partition]?.push(...jobs);
        const [one] = waitingIn(on).slice(below(40));
        if (one !== undefined && below(2) === 0)
          await on.store.cancelJob({
            jobId: one.id,
            nowMs: on.time.nowMs,
            expiresAtMs: on.time.nowMs + 1_000_000,
          });
        for (const [at, dispatcher] of dispatchers.entries()) {
          if (below(2) === 0) continue;
          await on.finish(dispatch(dispatcher, at, { jobs: hints[at] ?? [], reason: 'stream' }));
          hints[at] = [];
        }
        if (below(3) === 0)
          for (const started of await on.startEverywhere()) if (below(2) === 0) await on.end(started);
        await on.advance(below(2) * 1_000);
        parked = Math.max(parked, parkedCount(on));
        if (step % 8 === 7) await expectShown(on, context);
      }
      expect(parked).toBeGreaterThan(10);
    },
  );
});

describe('the count of what is parked', () => {
  it.each([
    ['all that wait', undefined, false],
    ['the first ones', 'behind', true],
  ] as const)('leaves out what has a place, where %s are shown', async (_what, next, more) => {
    const [placed, waiting] = [
      aJob({ type: 'resize', fairnessKey: 'ann' }),
      aJob({ type: 'resize', fairnessKey: 'ann' }),
    ];
    const place = aReservation([{ id: placed.id, version: placed.version }]).jobs.get(0);
    const held: HeldJobs = {
      places: new Map(place === undefined ? [] : [[placed.id, place]]),
      countIn: () => 1,
    };
    const counted = async (...jobs: readonly Job[]) => {
      const store = {
        listParked: async () => ({ marks: [{ conflictKey: 'album/beach', parkedAtMs: 0 }] }),
        readLine: async () => ({ jobs, next }),
        readBlocked: async () => ({ jobs }),
      };
      const { keysOf, of } = await countParked(store, 0, held);
      return { keys: keysOf('resize'), ...of('resize', 'ann') };
    };
    expect(await counted(placed, waiting)).toEqual({ keys: ['ann'], waiting: 1, more });
    expect(await counted(placed)).toEqual({ keys: more ? ['ann'] : [], waiting: 0, more });
  });

  it.each([
    ['conflict keys', 1_000, 1, false],
    ['conflict keys', 1_001, 1, true],
    ['groups of one conflict key', 1, 900, false],
    ['groups of one conflict key', 1, 1_200, true],
  ])(
    'says of every key that there may be more, where it left something out: %s (%i, %i)',
    async (_what, marks, groups, more) => {
      const page = (count: number, after = '0') => {
        const from = Number(after);
        const to = Math.min(count, from + 100);
        const numbers = Array.from({ length: to - from }, (_, at) => String(from + at));
        return { numbers, ...(to < count ? { next: String(to) } : {}) };
      };
      const jobsOf = (numbers: readonly string[]): readonly Job[] =>
        numbers.map((number) => aJob({ type: 'resize', fairnessKey: `key-${number}` }));
      const heads = (after?: string) => {
        const { numbers, ...next } = page(groups, after);
        return { jobs: jobsOf(numbers), ...next };
      };
      const store = {
        listParked: async ({ after }: { readonly after?: string | undefined }) => {
          const { numbers, ...next } = page(marks, after);
          return { marks: numbers.map((conflictKey) => ({ conflictKey, parkedAtMs: 0 })), ...next };
        },
        readLine: async () => heads(),
        readBlocked: async ({ after }: { readonly after?: string | undefined }) => heads(after),
      };
      const { of } = await countParked(store, 0, { places: new Map(), countIn: () => 0 });
      expect(of('resize', 'key-0').waiting).toBe(marks === 1 ? 1 : 1_000);
      expect(of('resize', 'of nobody')).toEqual({ waiting: 0, more });
    },
  );
});
