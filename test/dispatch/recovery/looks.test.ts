/** How often a partition looks at the others while they hand over, how many it reads, and what it makes of what it reads. */
import { describe, expect, it } from 'vitest';
import type { Control } from '../../../lib/core/capacity.ts';
import type { PoolConfiguration } from '../../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../../lib/core/defaults.ts';
import type { ReservedJob } from '../../../lib/core/job.ts';
import type { Loan } from '../../../lib/core/lending.ts';
import { partitionOf } from '../../../lib/core/partition.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import type { DeclarationState } from '../../../lib/declaration/declaration.ts';
import { CommitLostError, Commits } from '../../../lib/dispatch/partition/commits.ts';
import {
  type HandoverWait,
  NO_OTHERS,
  type OtherPartitions,
  overridesLessOthers,
  readOtherPartitions,
  slotsLessOthers,
  waitsOnHandover,
} from '../../../lib/dispatch/partitions/handover.ts';
import { BESIDE_MAX } from '../../../lib/dispatch/tuning.ts';
import type { HandoverMemory } from '../../../lib/dispatch/view/partition-cache.ts';
import type {
  DeclarationProgress,
  PartitionState,
  Reservation,
} from '../../../lib/store/contract/records.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aReservation, aReservedJob } from '../../fixtures/factories/reservation.ts';
import { stage, storeWith } from '../../stage/stage.ts';

const LATER_MS = NOW_MS + 3_600_000;
/** Of the version that hands over. */
const SINCE = 5;

const pool = (partitions: number, more: Partial<PoolInput> = {}): PoolInput => ({
  types: { resize: { conflictGroup: 'album' } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 16 } },
  partitions,
  ...more,
});

/** Keys that live in a partition. */
function keysIn(home: number, partitions: number, count: number): readonly string[] {
  const keys = Array.from({ length: 2_000 }, (_, at) => `key-${at}`);
  return keys.filter((key) => partitionOf(key, partitions) === home).slice(0, count);
}

interface Looking {
  readonly partitions?: number;
  readonly ever?: number;
  readonly more?: Partial<PoolInput>;
  readonly sharedSince?: number;
  /** By partition: loans that a read of it shows. */
  readonly loans?: Readonly<Record<number, readonly Loan[]>>;
}

/** The first partition of a pool, which looks at the others; each read and each wake is written down. */
async function looking({
  partitions = 2,
  ever = partitions,
  more,
  sharedSince = SINCE,
  loans = {},
}: Looking = {}) {
  const on = stage({ pool: pool(partitions, more) });
  const startMs = on.clock.monotonicMs();
  const sinceStart = (): number => on.clock.monotonicMs() - startMs;
  const reads: { readonly partition: number; readonly atMs: number }[] = [];
  const wakes: { readonly delayMs: number; readonly atMs: number }[] = [];
  const store = storeWith(on.store, {
    loadPartition: async (asked) => {
      reads.push({ partition: asked.partition, atMs: sinceStart() });
      return { ...(await on.store.loadPartition(asked)), loans: loans[asked.partition] ?? [] };
    },
  });
  const queue = storeWith(on.queue, {
    sendWake: async ({ delayMs = 0 }) => void wakes.push({ delayMs, atMs: sinceStart() }),
  });
  const deployed: DeclarationState = {
    version: sharedSince,
    formerTypes: [],
    partitionsEver: ever,
    partitionNumbers: [1, partitions],
    sharedSince,
    typeUnder: async () => undefined,
    newer: async () => {
      throw new Error('there is no newer one');
    },
  };
  const configuration = resolveConfiguration(pool(partitions, more));
  const context = on.dispatcher({ store, queue, configuration, deployed });
  const cached: { handover?: HandoverMemory | undefined } = {};
  const freedKeys = new Set<string>();
  const versionOf = (partition: number): number => on.store.inspect(partition).summary.version;
  return {
    ...on,
    context,
    deployed,
    reads,
    wakes,
    freedKeys,
    cached,
    versionOf,
    sinceStart,
    readsOf: (partition: number): number => reads.filter((read) => read.partition === partition).length,
    look: async (
      input: {
        readonly carried?: DeclarationProgress | undefined;
        readonly controls?: readonly Control[];
        readonly since?: number;
        readonly configuration?: PoolConfiguration;
        /** As the partition was loaded. */
        readonly version?: number;
      } = {},
    ): Promise<OtherPartitions> =>
      readOtherPartitions(
        {
          ...context,
          configuration: input.configuration ?? configuration,
          deployed: { ...deployed, sharedSince: input.since ?? sharedSince },
        },
        0,
        new Commits(on.store, 0, input.version ?? versionOf(0)),
        {
          carried:
            input.carried ?? (await on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs })).carried,
          controls: input.controls ?? [],
          cached,
          freedKeys,
          nowMs: on.time.nowMs,
          inBackground: (work) => void work,
        },
      ),
    /** A partition comes to a declaration. Answers the version from which on it plans by that. */
    come: async (partition: number, version = SINCE): Promise<number> => {
      const sinceVersion = versionOf(partition) + 1;
      await on.commit({ carried: { version, moved: 0, isDone: true, sinceVersion } }, partition);
      return sinceVersion;
    },
    /** Jobs of these keys are in flight in a partition, planned as its version is. */
    hold: async (
      partition: number,
      keys: readonly string[],
      changes: Pick<Partial<ReservedJob>, 'conflictKey' | 'fleet'> = {},
    ): Promise<() => Promise<void>> => {
      const jobs = keys.map((fairnessKey, at) => {
        const entry = aReservedJob(aJob({ fairnessKey }), changes);
        return [at, entry] as const;
      });
      const version = versionOf(partition);
      const reservation: Reservation = aReservation([], { version, jobs: new Map(jobs) });
      await on.commit({ reserve: [reservation] }, partition);
      return () => on.commit({ drop: [{ reservation, positions: [...reservation.jobs.keys()] }] }, partition);
    },
  };
}

describe('looks at other partitions', () => {
  it('read so many at once, and the others within moments: only then those again', async () => {
    const on = await looking({ ever: 400 });
    for (let step = 0; step < 140; step += 1) {
      await on.look();
      await on.advance(100);
    }
    const all = on.reads.map(({ partition }) => partition);
    expect(all.slice(0, 399)).toEqual(Array.from({ length: 399 }, (_, at) => at + 1));
    expect(all.slice(399, 402)).toEqual([1, 2, 3]);
    const looks = [...Map.groupBy(on.reads, ({ atMs }) => atMs).values()];
    expect(Math.max(...looks.map((look) => look.length))).toBe(BESIDE_MAX);
  });

  it('read those no more that are over, and the others on and on', async () => {
    const on = await looking({ partitions: 3 });
    await on.come(1);
    for (let round = 0; round < 5; round += 1) {
      await on.look();
      await on.advance(16_000);
    }
    // Once more after its note was seen.
    expect([1, 2].map(on.readsOf)).toEqual([2, 5]);
    await on.come(2);
    await on.look();
    expect(await on.look()).toBe(NO_OTHERS);
    expect(on.cached.handover).toBeUndefined();
  });

  it.each<readonly [string, Looking, DeclarationProgress | undefined]>([
    ['what they share was always so', { sharedSince: 0 }, undefined],
    ['there never was another one', { partitions: 1 }, undefined],
    ['this one is none any more', { partitions: 0, ever: 2 }, undefined],
    ['the handover is over', {}, { version: SINCE, moved: 0, isDone: true, isHandedOver: true }],
  ])('are not taken where %s', async (_, { partitions = 2, ...given }, carried) => {
    const on = await looking({ ...given, partitions: Math.max(1, partitions) });
    const configuration = { ...on.configuration, partitions };
    expect(await on.look({ configuration, carried })).toBe(NO_OTHERS);
    expect(on.reads).toEqual([]);
  });

  it('are taken where an earlier handover is over', async () => {
    const on = await looking();
    const carried = { version: SINCE - 1, moved: 0, isDone: true, isHandedOver: true };
    expect(await on.look({ carried })).toMatchObject({ behind: [1] });
  });
});

describe('a partition that has come', () => {
  it('is one that has come to this declaration, not to an earlier one', async () => {
    const on = await looking();
    await on.come(1, SINCE - 1);
    expect([await on.look(), await on.look()]).toMatchObject([
      { behind: [1], isNews: false },
      { behind: [1], isNews: false },
    ]);
  });

  it('is news once: what it told of controls before is read before anything starts', async () => {
    const on = await looking({ partitions: 3 });
    const [key = ''] = keysIn(0, 3, 1);
    await on.come(2);
    await on.hold(2, [key]);
    expect(await on.look()).toMatchObject({ behind: [1], isNews: false });
    await on.come(1);
    await on.advance(1_000);
    expect(await on.look()).toMatchObject({ behind: [1], isNews: true });
    expect(await on.look()).toMatchObject({
      behind: [],
      isNews: false,
      ofKeys: new Map([[`key/${key}`, 1]]),
    });
  });

  it('ends the handover when nothing of any is in the way: that is noted beside what was known', async () => {
    const on = await looking();
    await on.come(1);
    const carried = { version: SINCE + 2, moved: 7, isDone: false, after: 'a key', sinceVersion: 1 };
    await on.look({ carried });
    const state = await on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs });
    expect(state.carried).toEqual({ ...carried, isHandedOver: true });
  });

  it('ends no handover where another commit came first', async () => {
    const on = await looking();
    await on.come(1);
    const version = on.versionOf(0);
    await on.commit({});
    await expect(on.look({ version })).rejects.toThrow(CommitLostError);
  });
});

describe('what is in the way of a partition', () => {
  /** What is left of the others, all of which have come. */
  const seen = async (on: Awaited<ReturnType<typeof looking>>, controls: readonly Control[] = []) => {
    await on.look({ controls });
    return on.look({ controls });
  };

  it('is nothing where a partition runs what is its own, as much as its share', async () => {
    const on = await looking({ more: { maxConcurrency: 16 } });
    await on.come(1);
    // It came, and goes on: what it plans by now holds its locks.
    await on.hold(1, keysIn(1, 2, 8), { conflictKey: 'album/photos' });
    const controls = [{ scope: 'fleet/images', paused: false, maxConcurrency: 16 }];
    expect(await seen(on, controls)).toBe(NO_OTHERS);
  });

  it('are jobs of its own keys, in all others together', async () => {
    const on = await looking({ partitions: 3 });
    const [mine = '', also = ''] = keysIn(0, 3, 2);
    const [third = ''] = keysIn(2, 3, 1);
    await on.come(1);
    await on.come(2);
    await on.hold(1, [mine, mine, also, third, ...keysIn(1, 3, 2)]);
    await on.hold(2, [mine]);
    const { ofKeys } = await seen(on);
    expect(ofKeys).toEqual(
      new Map([
        [`key/${mine}`, 3],
        [`key/${also}`, 1],
      ]),
    );
  });

  it('are conflict keys that were claimed before it came, until they are free: those are told', async () => {
    const on = await looking();
    const free = await on.hold(1, keysIn(1, 2, 1), { conflictKey: 'album/photos' });
    await on.hold(1, keysIn(1, 2, 1), { conflictKey: 'album/books' });
    await on.come(1);
    expect((await seen(on)).conflictKeys).toEqual(new Set(['album/photos', 'album/books']));
    expect(on.freedKeys).toEqual(new Set());
    await free();
    await on.advance(16_000);
    expect((await on.look()).conflictKeys).toEqual(new Set(['album/books']));
    expect(on.freedKeys).toEqual(new Set(['album/photos']));
  });

  it.each<readonly [string, Partial<PoolInput>, readonly string[]]>([
    ['a pool', { maxConcurrency: 8, fleets: { images: { types: ['resize'], slots: 40 } } }, ['pool']],
    ['a fleet', { fleets: { images: { types: ['resize'], slots: 8 } } }, ['fleet/images']],
  ])('is what others run above their shares of %s, all together, and no more', async (_, more, scopes) => {
    const on = await looking({ partitions: 4, more });
    for (const partition of [1, 2, 3]) await on.come(partition);
    await on.hold(1, keysIn(1, 4, 5));
    await on.hold(2, keysIn(2, 4, 3));
    await on.hold(3, keysIn(3, 4, 2));
    expect((await seen(on)).above).toEqual(new Map(scopes.map((scope) => [scope, 4])));
  });

  it("follows an operator's cap at once, without another look", async () => {
    const on = await looking();
    await on.come(1);
    await on.hold(1, [...keysIn(1, 2, 7), ...keysIn(0, 2, 1)]);
    expect((await seen(on)).above).toEqual(new Map());
    const { length } = on.reads;
    const cap = { scope: 'type/resize', paused: false, maxConcurrency: 4 };
    expect((await on.look({ controls: [cap] })).above).toEqual(new Map([['type/resize', 6]]));
    expect(on.reads.length).toBe(length);
  });

  const loan = (from: number, to: number, units: number, expiresAtMs = LATER_MS): Loan => ({
    loanId: `${from}-${to}`,
    from,
    to,
    units,
    scopes: [{ scope: 'fleet/images', under: '16/2' }],
    expiresAtMs,
  });

  it('is not what runs on capacity that was lent to its partition and not given back, though the loan has ended', async () => {
    const on = await looking({ loans: { 1: [loan(0, 1, 4, NOW_MS - 1)] } });
    await on.come(1);
    await on.hold(1, keysIn(1, 2, 13));
    expect((await seen(on)).above).toEqual(new Map([['fleet/images', 1]]));
  });

  it('is what runs on capacity that its partition has lent', async () => {
    const on = await looking({ loans: { 1: [loan(1, 0, 4)] } });
    await on.come(1);
    await on.hold(1, keysIn(1, 2, 6));
    expect((await seen(on)).above).toEqual(new Map([['fleet/images', 2]]));
  });
});

describe('what is left for a partition', () => {
  const elsewhere = (changes: Partial<OtherPartitions>): OtherPartitions => ({ ...NO_OTHERS, ...changes });

  it('are slots of workers, less those that jobs elsewhere take; declared ones are divided', () => {
    const configuration = resolveConfiguration({
      ...pool(2),
      types: { resize: {}, index: {}, pack: {} },
      fleets: {
        images: { types: ['resize'], slots: 16 },
        boxes: { types: ['index'] },
        crates: { types: ['pack'] },
      },
    });
    const free = new Map([
      ['images', 5],
      ['boxes', 5],
      ['crates', 1],
    ]);
    const above = new Map([
      ['fleet/images', 2],
      ['fleet/boxes', 3],
      ['fleet/crates', 4],
    ]);
    expect(slotsLessOthers(free, configuration, elsewhere({ above }))).toEqual(
      new Map([
        ['images', 5],
        ['boxes', 2],
        ['crates', 0],
      ]),
    );
  });

  const inKey = (maxConcurrencyPerKey: number | undefined) =>
    resolveConfiguration({
      ...pool(2),
      ...(maxConcurrencyPerKey === undefined ? {} : { fairness: { maxConcurrencyPerKey } }),
    });
  const weighed = { scope: 'key/a', paused: false, weight: 3 };
  const fleet = { scope: 'fleet/images', paused: true, maxConcurrency: 4 };

  it.each<
    readonly [string, readonly Control[], Partial<OtherPartitions>, number | undefined, readonly object[]]
  >([
    ['nothing where nothing is elsewhere', [weighed, fleet], {}, 2, [weighed, fleet]],
    [
      "an operator's cap of a fleet, less what is above it",
      [fleet],
      { above: new Map([['limit of fleet/images', 3]]) },
      2,
      [{ ...fleet, maxConcurrency: 1 }],
    ],
    [
      'and never less than none',
      [fleet],
      { above: new Map([['limit of fleet/images', 5]]) },
      2,
      [{ ...fleet, maxConcurrency: 0 }],
    ],
    [
      "a key's cap, as declared",
      [weighed],
      { ofKeys: new Map([['key/a', 1]]) },
      2,
      [{ ...weighed, maxConcurrency: 1 }],
    ],
    [
      "a key's cap, as an operator set it",
      [{ ...weighed, maxConcurrency: 5 }],
      { ofKeys: new Map([['key/a', 1]]) },
      2,
      [{ ...weighed, maxConcurrency: 4 }],
    ],
    [
      'and never less than none of it',
      [],
      { ofKeys: new Map([['key/a', 3]]) },
      2,
      [{ scope: 'key/a', paused: false, maxConcurrency: 0 }],
    ],
    ['no cap of a key without one', [weighed], { ofKeys: new Map([['key/a', 3]]) }, undefined, [weighed]],
    [
      'nothing at all while one is behind',
      [{ scope: 'pool', paused: false, maxConcurrency: 7 }],
      { behind: [1] },
      2,
      [{ scope: 'pool', paused: true, maxConcurrency: 7 }],
    ],
  ])('is %s', (_, overrides, changes, perKey, expected) => {
    expect(overridesLessOthers(overrides, inKey(perKey), elsewhere(changes))).toEqual(expected);
  });
});

describe('explain, of a job that waits for others', () => {
  type On = Awaited<ReturnType<typeof looking>>;
  const [MINE = ''] = keysIn(0, 2, 1);
  const waits = async (
    on: On,
    job: { readonly type?: string; readonly fairnessKey?: string; readonly resourceId?: string } = {},
    state: Partial<PartitionState> = {},
  ): Promise<readonly HandoverWait[]> =>
    waitsOnHandover(
      on.context,
      on.deployed,
      { partition: 0, type: 'resize', fairnessKey: MINE, ...job },
      { ...(await on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs })), ...state },
    );
  const cap = (name: string): HandoverWait => ({ why: 'handover', partition: 1, holds: 'cap', name });
  /** The other partition has come, and runs so many jobs of its own keys, and of ours. */
  const running = async (given: Looking, own: number, ours = 0) => {
    const on = await looking(given);
    await on.come(1);
    await on.hold(1, [...keysIn(1, 2, own), ...Array.from({ length: ours }, () => MINE)]);
    return on;
  };

  it('names no cap that has room beside what runs elsewhere, and names it once that is full', async () => {
    const on = await running({ more: { tiers: [{ tier: 'standard', maxConcurrency: 12 }] } }, 8);
    // Six each: two are above.
    await on.hold(0, keysIn(0, 2, 3));
    expect(await waits(on)).toEqual([]);
    await on.hold(0, keysIn(0, 2, 1));
    expect(await waits(on)).toEqual([cap('tier/standard')]);
  });

  it("names an operator's cap of a fleet where that is full, and nobody without a part in it", async () => {
    const controls = [{ scope: 'fleet/images', paused: false, maxConcurrency: 8 }];
    const on = await running({}, 5);
    await on.hold(0, keysIn(0, 2, 2));
    await on.hold(0, keysIn(0, 2, 2), { fleet: 'boxes' });
    expect(await waits(on, {}, { controls })).toEqual([]);
    await on.hold(0, keysIn(0, 2, 1));
    expect(await waits(on, {}, { controls })).toEqual([cap('fleet/images')]);
    const alone = await running({}, 4);
    await alone.hold(0, keysIn(0, 2, 4));
    expect(await waits(alone, {}, { controls })).toEqual([]);
  });

  it("names its key's cap, the operator's before the declared one, counted here and elsewhere", async () => {
    const on = await running({ more: { fairness: { maxConcurrencyPerKey: 3 } } }, 0, 1);
    const [, other = ''] = keysIn(0, 2, 2);
    await on.hold(0, [MINE, other]);
    expect(await waits(on)).toEqual([]);
    const controls = [{ scope: `key/${MINE}`, paused: false, maxConcurrency: 2 }];
    expect(await waits(on, {}, { controls })).toEqual([cap(`key/${MINE}`)]);
    await on.hold(0, [MINE]);
    expect(await waits(on)).toEqual([cap(`key/${MINE}`)]);
    expect(await waits(on, { fairnessKey: other })).toEqual([]);
  });

  it('names its own conflict key, and no other', async () => {
    const on = await looking();
    await on.hold(1, keysIn(1, 2, 1), { conflictKey: 'album/photos' });
    await on.come(1);
    const wait = { why: 'handover', partition: 1, holds: 'conflict', name: 'album/photos' };
    expect(await waits(on, { resourceId: 'photos' })).toEqual([wait]);
    expect(await waits(on, { resourceId: 'books' })).toEqual([]);
    expect(await waits(on)).toEqual([]);
  });
});
