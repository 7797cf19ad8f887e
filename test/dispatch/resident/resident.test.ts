/** A dispatcher that runs on: it leads its share of the partitions, and somebody else does when it does not. */

import { afterEach, describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../../lib/core/defaults.ts';
import { RefusedError, ThrottledError, UnavailableError } from '../../../lib/core/errors.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { buildRing, type PartitionRole, ROLE_EDGES, roleOf } from '../../../lib/core/ring.ts';
import { Declarations, declaredParts } from '../../../lib/declaration/declaration.ts';
import { dispatch } from '../../../lib/dispatch/dispatch.ts';
import { residentIn } from '../../../lib/dispatch/lead/lead.ts';
import type { ResidentOptions, ResidentReport } from '../../../lib/dispatch/resident/options.ts';
import { runDispatcher } from '../../../lib/dispatch/resident/resident.ts';
import { DISPATCH_BUDGET } from '../../../lib/dispatch/tuning.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { declareIn } from '../../fixtures/declared.ts';
import { SimulatedNode } from '../../simulation/node.ts';
import { type Stage, type StageOptions, stage, storeWith } from '../../stage/stage.ts';

const MEMBER_LEASE_MS = 15_000;
const CLOCK_SKEW_MS = 5_000;
const ROUND_MS = MEMBER_LEASE_MS / 3;
const POLL_MS = 250;
/** A look at the counter, and the pass that follows. */
const SOON_MS = POLL_MS + 50;

const poolOf = (partitions: number): PoolInput => ({
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 30_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 4 * partitions } },
  partitions,
});

interface Change {
  readonly incarnation: string;
  readonly partition: number;
  readonly from: PartitionRole;
  readonly to: PartitionRole;
  readonly why?: string;
}

interface Resident {
  readonly node: SimulatedNode;
  readonly stop: () => void;
  readonly ended: Promise<ResidentReport>;
}

let latest: Stage | undefined;

function scene(partitions: number, options: StageOptions = {}) {
  const on = stage({ pool: poolOf(partitions), ...options });
  latest = on;
  const all = Array.from({ length: partitions }, (_, partition) => partition);

  /** A process that may be frozen or killed between any two steps. */
  const start = (dispatcherId: string, own: Partial<ResidentOptions> = {}): Resident => {
    const node = new SimulatedNode(dispatcherId, on.time, 0);
    const stop = new AbortController();
    const store = own.store ?? on.store;
    const gated = new Proxy(store, {
      get: (_, name) => {
        const verb: unknown = Reflect.get(store, name, store);
        if (typeof verb !== 'function') return verb;
        return async (...question: unknown[]) => {
          await node.gate();
          const answer: unknown = await verb.apply(store, question);
          await node.gate();
          return answer;
        };
      },
    });
    const ended = runDispatcher({
      queue: on.queue,
      configuration: on.configuration,
      clock: node.clock,
      random: on.random,
      log: on.log,
      dispatcherId,
      budget: on.main.budget,
      signal: stop.signal,
      ...own,
      store: gated,
    });
    return { node, stop: () => stop.abort(), ended };
  };

  /** Names of leads: each lead has its own. */
  const leads = (): readonly (string | undefined)[] =>
    all.map((partition) => on.store.inspect(partition).leader?.holder);
  const holders = (): readonly (string | undefined)[] =>
    leads().map((lead) => (lead === undefined ? undefined : residentIn(lead)));
  /** Who leads what, as the ring of these members has it. */
  const shares = (...members: readonly string[]): readonly (string | undefined)[] => {
    const ring = buildRing(members);
    return all.map((partition) => members.find((each) => roleOf(ring, partition, each) === 'leader'));
  };
  const members = async (): Promise<readonly string[]> =>
    (await on.store.listDispatchers(on.time.nowMs)).map(({ dispatcherId }) => dispatcherId).sort();
  return { ...on, start, holders, leads, shares, members };
}

const changesOf = (on: Pick<Stage, 'logged'>): readonly Change[] =>
  on.logged.flatMap(({ message, fields }) =>
    message === 'dispatcher changed its role' ? [fields as Change] : [],
  );

// Whatever happens, roles move along their edges, each from where the last one led.
afterEach(() => {
  const roles = new Map<string, PartitionRole>();
  for (const { incarnation, partition, from, to } of latest === undefined ? [] : changesOf(latest)) {
    const name = `${incarnation}/${partition}`;
    expect({ name, from }).toEqual({ name, from: roles.get(name) ?? 'offline' });
    expect(ROLE_EDGES[from]).toContain(to);
    roles.set(name, to);
  }
  latest = undefined;
});

describe('a resident', () => {
  it('that is alone leads every partition, and makes a pass of each at once', async () => {
    const on = scene(3);
    const jobs = await on.put(on.job({ partition: 0 }), on.job({ partition: 2 }));
    const one = on.start('one');
    await on.advance(SOON_MS);
    expect(on.holders()).toEqual(['one', 'one', 'one']);
    expect(on.states(jobs)).toEqual(['claimed', 'claimed']);
    // A worker that serves both partitions tells their claims apart.
    const started = await on.startAll('images');
    expect(started.map(({ job }) => job.id).sort()).toEqual(jobs.map(({ id }) => id).sort());
    expect(new Set(started.map(({ message }) => message.claimId)).size).toBe(2);
    expect(new Set(jobs.map(({ id }) => on.store.inspectJob(id)?.claim?.claimId)).size).toBe(2);
    for (const partition of [0, 1, 2]) {
      const own = changesOf(on).filter((change) => change.partition === partition);
      expect(own).toMatchObject([
        { from: 'offline', to: 'standby' },
        { from: 'standby', to: 'leader' },
      ]);
    }
    one.stop();
    await on.finish(one.ended);
  });

  it('keeps its leads for as long as it runs', async () => {
    const on = scene(2);
    const one = on.start('one');
    await on.advance(SOON_MS);
    const leads = on.leads();
    await on.advance(10 * 60_000);
    expect([on.holders(), on.leads()]).toEqual([['one', 'one'], leads]);
    one.stop();
    const { passes } = await on.finish(one.ended);
    // Up to four at the start and one a minute, of each.
    expect(passes).toBeGreaterThanOrEqual(20);
    expect(passes).toBeLessThanOrEqual(28);
  });

  it('says with its membership what waits where it leads, how busy it is, and how its process fares', async () => {
    const on = scene(2);
    const vitals = { eventLoopLagMs: 7, memoryBytes: 50_000_000 };
    const one = on.start('one', { vitals: () => vitals });
    await on.advance(SOON_MS);
    const [first] = await on.store.listDispatchers(on.time.nowMs);
    expect(first?.load).toEqual({ busy: 0, ...vitals });
    // Of twenty, eight have a slot.
    await on.put(...Array.from({ length: 20 }, (_, at) => on.job({ partition: at % 2 })));
    await on.advance(100_000);
    const [later] = await on.store.listDispatchers(on.time.nowMs);
    expect(later?.leads).toEqual([0, 1]);
    expect(later?.load).toMatchObject({ waiting: { jobs: 12, isLeast: false }, ...vitals });
    const waitedMs = later?.load?.waitedMs ?? 0;
    expect(waitedMs).toBeGreaterThan(60_000);
    expect(waitedMs).toBeLessThanOrEqual(100_000);
    one.stop();
    await on.finish(one.ended);
  });

  it('hears of new jobs by the letters that functions leave, which do not wait for it', async () => {
    const on = scene(1);
    const one = on.start('one');
    await on.advance(SOON_MS);
    const jobs = await on.put(on.job());
    const askedMs = on.time.nowMs;
    const report = await on.finish(dispatch(on.main, 0, { jobs, reason: 'stream' }));
    expect([report.kind, on.time.nowMs - askedMs]).toEqual(['letterLeft', 0]);
    await on.advance(SOON_MS);
    expect(on.states(jobs)).toEqual(['claimed']);
    one.stop();
    await on.finish(one.ended);
  });

  it('comes to a newer declaration within a little more than a minute, though no partition was told of it', async () => {
    const on = scene(1);
    const configuration = resolveConfiguration(poolOf(1));
    const deploy = (store: JobStore): Promise<number> =>
      declareIn(store, configuration, { nowMs: on.clock.nowMs });
    await deploy(on.store);
    const declarations = new Declarations({ store: on.store, clock: on.clock, log: on.log });
    const one = on.start(
      'one',
      declaredParts(declarations, await declarations.current(), () => on.queue),
    );
    await on.advance(SOON_MS);
    const untold = storeWith(on.store, {
      announceDeclaration: async () => {
        throw new ThrottledError('announceDeclaration: try again');
      },
    });
    expect(await deploy(untold)).toBe(2);
    await on.advance(60_000 + ROUND_MS + SOON_MS);
    expect(changesOf(on).at(-1)).toMatchObject({ to: 'leader' });
    expect(on.store.inspect(0).declared).toBe(2);
    one.stop();
    await on.finish(one.ended);
  });

  it('finds what nobody told it of within its longest pause', async () => {
    const on = scene(1);
    const one = on.start('one', { passEveryMs: 2_000 });
    await on.advance(SOON_MS);
    const jobs = await on.put(on.job());
    await on.advance(2_000 + SOON_MS);
    expect(on.states(jobs)).toEqual(['claimed']);
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await on.end(started);
    await on.advance(2_000 + SOON_MS);
    expect(on.held()).toEqual([]);
    // Nothing has waited for long by then, as the partition says; where no function runs, nobody tells of what comes.
    await on.advance(10_000);
    const later = await on.put(on.job());
    await on.advance(2_000 + SOON_MS);
    expect(on.states(later)).toEqual(['claimed']);
    one.stop();
    await on.finish(one.ended);
  });

  it('starts future jobs at their time, though nobody wakes it', async () => {
    const on = scene(1);
    const runAtMs = on.time.nowMs + 40_000;
    const jobs = await on.put(on.job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs }));
    const one = on.start('one');
    await on.advance(39_999);
    expect(on.states(jobs)).toEqual(['scheduled']);
    await on.advance(1 + SOON_MS);
    expect(on.states(jobs)).toEqual(['claimed']);
    one.stop();
    await on.finish(one.ended);
  });

  it('releases its leads when it is told to end, and leaves', async () => {
    const on = scene(2);
    const one = on.start('one');
    await on.advance(SOON_MS);
    one.stop();
    expect(await on.finish(one.ended)).toMatchObject({ end: 'stopped', passes: 4 });
    await on.advance(0);
    expect(on.holders()).toEqual([undefined, undefined]);
    expect(await on.members()).toEqual([]);
    for (const partition of [0, 1]) {
      const own = changesOf(on).filter((change) => change.partition === partition);
      expect(own.slice(-2)).toMatchObject([
        { from: 'leader', to: 'standby', why: 'stopped' },
        { from: 'standby', to: 'offline' },
      ]);
    }
    // A function takes over at once, and looks up what is in flight.
    expect((await on.pass()).kind).toBe('done');
  });

  it('does not wait for ever for a request that hangs: its lead expires', async () => {
    const on = scene(1);
    await on.put(on.job());
    const hanging = storeWith(on.store, { commit: () => new Promise<never>(() => undefined) });
    const one = on.start('one', { store: hanging, shutdownMs: 2_000 });
    await on.advance(1_000);
    one.stop();
    expect((await on.finish(one.ended)).end).toBe('stopped');
    expect([on.holders(), await on.members()]).toEqual([['one'], []]);
    await on.advance(DISPATCH_BUDGET.leadMs);
    expect((await on.pass()).kind).toBe('done');
  });

  it.each([
    ['dispatcherId', { dispatcherId: '' }],
    ['pollMs', { pollMs: 0 }],
    ['pollMs', { pollMs: 5_001 }],
    ['memberLeaseMs', { memberLeaseMs: Number.NaN }],
    ['passEveryMs', { passEveryMs: -1 }],
  ])('refuses a %s that cannot work, before it does anything', async (field, own) => {
    const on = scene(1);
    await expect(on.start('one', own).ended).rejects.toMatchObject({ name: 'ConfigurationError', field });
    expect(await on.members()).toEqual([]);
  });

  it('tries to become a member for as long as the table is not there for it', async () => {
    const on = scene(1);
    let failures = 3;
    const failing = storeWith(on.store, {
      keepDispatcher: async (record) => {
        failures -= 1;
        if (failures >= 0) throw new UnavailableError('keepDispatcher: no answer');
        return on.store.keepDispatcher(record);
      },
    });
    const one = on.start('one', { store: failing });
    await on.advance(3_000 + SOON_MS);
    expect(on.holders()).toEqual(['one']);
    one.stop();
    await on.finish(one.ended);
  });

  it('says at once what waiting does not help', async () => {
    const on = scene(1);
    const refusing = storeWith(on.store, {
      keepDispatcher: async () => {
        throw new RefusedError('keepDispatcher: not allowed');
      },
    });
    await expect(on.start('one', { store: refusing }).ended).rejects.toThrow('not allowed');
  });
});

describe('residents', () => {
  it('have the partitions that the ring gives them, each one leader', async () => {
    const on = scene(8);
    const all = ['one', 'two', 'three'].map((name) => on.start(name));
    await on.advance(3 * ROUND_MS);
    expect(on.holders()).toEqual(on.shares('one', 'two', 'three'));
    expect(new Set(on.holders()).size).toBe(3);
    for (const each of all) each.stop();
    for (const each of all) await on.finish(each.ended);
  });

  it('hand over what a new one is to lead, and nothing else', async () => {
    const on = scene(8);
    const one = on.start('one');
    await on.advance(SOON_MS);
    const before = on.leads();
    const two = on.start('two');
    await on.advance(2 * ROUND_MS);
    const shares = on.shares('one', 'two');
    expect(on.holders()).toEqual(shares);
    const kept = on.leads().map((lead, at) => lead === before[at]);
    expect(kept).toEqual(shares.map((name) => name === 'one'));
    for (const each of [one, two]) each.stop();
    for (const each of [one, two]) await on.finish(each.ended);
  });

  it('take over from one that died once its membership and its leads are over, and lose no letter', async () => {
    const on = scene(4);
    const one = on.start('one');
    const two = on.start('two');
    await on.advance(3 * ROUND_MS);
    const partition = on.holders().indexOf('one');
    one.node.kill();
    const jobs = await on.put(on.job({ partition }));
    expect((await on.finish(dispatch(on.main, partition, { jobs, reason: 'stream' }))).kind).toBe(
      'letterLeft',
    );
    await on.advance(MEMBER_LEASE_MS + CLOCK_SKEW_MS + ROUND_MS + SOON_MS);
    expect(on.holders()).toEqual(['two', 'two', 'two', 'two']);
    expect(on.states(jobs)).toEqual(['claimed']);
    two.stop();
    await on.finish(two.ended);
  });

  it('that were frozen while another took over change nothing, and take their share again', async () => {
    const on = scene(4);
    const one = on.start('one');
    const two = on.start('two');
    await on.advance(3 * ROUND_MS);
    one.node.freeze(60_000);
    await on.advance(50_000);
    expect(on.holders()).toEqual(['two', 'two', 'two', 'two']);
    await on.advance(10_000 + 3 * ROUND_MS);
    expect(on.holders()).toEqual(on.shares('one', 'two'));
    for (const each of [one, two]) each.stop();
    for (const each of [one, two]) await on.finish(each.ended);
  });

  it.each<readonly [string, () => Promise<never>]>([
    ['is refused', () => Promise.reject(new ThrottledError('keepDispatcher: too many requests'))],
    ['hangs', () => new Promise<never>(() => undefined)],
  ])(
    'stop leading a margin before their membership can be seen expired when its renewal %s',
    async (what, fail) => {
      const on = scene(1);
      let fails = false;
      const unreachable = storeWith(on.store, {
        keepDispatcher: (record) => (fails ? fail() : on.store.keepDispatcher(record)),
      });
      const one = on.start('one', { store: unreachable });
      await on.advance(SOON_MS);
      fails = true;
      await on.advance(MEMBER_LEASE_MS - SOON_MS - 1);
      expect(on.holders()).toEqual([undefined]);
      expect(changesOf(on)).toContainEqual(
        expect.objectContaining({
          from: 'leader',
          to: 'standby',
          why: what === 'hangs' ? 'done' : 'stopped',
        }),
      );
      await on.advance(MEMBER_LEASE_MS);
      expect(on.holders()).toEqual([undefined]);
      if (what !== 'hangs') {
        expect(changesOf(on).at(-1)).toMatchObject({ from: 'standby', to: 'offline' });
        fails = false;
        await on.advance(ROUND_MS + SOON_MS);
        expect(on.holders()).toEqual(['one']);
      }
      one.stop();
      await on.finish(one.ended);
    },
  );

  it('count as members for the difference of clocks longer than they believe it', async () => {
    const on = scene(1);
    const one = on.start('one');
    await on.advance(1);
    one.node.kill();
    await on.advance(MEMBER_LEASE_MS + CLOCK_SKEW_MS - 2);
    expect(await on.members()).toEqual(['one']);
    await on.advance(2);
    expect(await on.members()).toEqual([]);
  });

  it('that cannot make their passes leave the lead to others, and are stood in for', async () => {
    const on = scene(4);
    const shares = on.shares('one', 'two');
    const partition = shares.indexOf('one');
    let isBroken = true;
    const broken: JobStore = storeWith(on.store, {
      loadPartition: async ({ partition: asked, nowMs }) => {
        if (isBroken && asked === partition) throw new ThrottledError('loadPartition: too many requests');
        return on.store.loadPartition({ partition: asked, nowMs });
      },
    });
    const one = on.start('one', { store: broken });
    const two = on.start('two');
    await on.advance(5 * ROUND_MS);
    expect(on.holders()).toEqual(shares.map((name, at) => (at === partition ? 'two' : name)));
    const jobs = await on.put(on.job({ partition }));
    await dispatch(on.main, partition, { jobs, reason: 'ingest' });
    await on.advance(SOON_MS);
    expect(on.states(jobs)).toEqual(['claimed']);
    // Its turn comes again.
    isBroken = false;
    await on.advance(12 * ROUND_MS);
    expect(on.holders()).toEqual(shares);
    for (const each of [one, two]) each.stop();
    for (const each of [one, two]) await on.finish(each.ended);
  });
});
