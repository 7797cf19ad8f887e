/** Whoever tells of many jobs and finds the lease held leaves what it knows of them: nobody need look them up. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { type HeldLease, takeLease } from '../../lib/dispatch/lease.ts';
import { NAMED_HINTS_MAX } from '../../lib/store/bounds.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import {
  MalformedItemError,
  StoreMisconfigured,
  StoreRefused,
  StoreThrottled,
  StoreUnavailable,
} from '../../lib/store/errors.ts';
import type { NamedJob } from '../../lib/store/records.ts';
import { type Stage, stage, storeWith } from './stage.ts';

const MANY = 20;
const FEW = 3;
const ROOM_PATIENCE_MS = 2_000;

interface Scene {
  readonly on: Stage;
  readonly ended: readonly Job[];
  /** Somebody else's. */
  readonly held: HeldLease;
  /** Who finds it held. */
  readonly other: DispatchContext;
  /** Calls of a verb that look jobs up. */
  readonly looks: () => number;
}

/** So many jobs have ended, in a pool with room for more, or for none, and somebody holds the lease. */
async function scene(count: number, own: Partial<JobStore> = {}, slots = 2 * count): Promise<Scene> {
  const on = stage({
    pool: {
      types: { resize: { timeoutMs: 600_000 } },
      fleets: { images: { types: ['resize'], slots } },
    },
  });
  let looks = 0;
  const store = storeWith<JobStore>(on.store, {
    lookUpJobs: (asked) => {
      looks += 1;
      return on.store.lookUpJobs(asked);
    },
    ...own,
  });
  const other = on.dispatcher({ store });
  await on.put(...Array.from({ length: count + 1 }, () => on.job()));
  await on.pass({ reason: 'tick' }, other);
  const ended = await Promise.all((await on.startEverywhere()).slice(0, count).map((each) => on.end(each)));
  const held = await takeLease(on.main, { partition: 0, patienceMs: 0 });
  if (held === undefined) throw new Error('not taken');
  looks = 0;
  return { on, ended, held, other, looks: () => looks };
}

/** Fills the mailbox with names of hints. */
async function fill({ on }: Scene): Promise<void> {
  const jobs = Array.from(
    { length: NAMED_HINTS_MAX },
    (_, at): NamedJob => ({ id: `former-${at}`, version: 0, isWaiting: false, isOfHints: true }),
  );
  await on.store.wake({ partition: 0, jobs });
}

const told = async ({
  on,
  ended,
  other,
}: Scene): Promise<{ readonly kind: string; readonly tookMs: number }> => {
  const sinceMs = on.time.nowMs;
  const { kind } = await on.pass({ reason: 'stream', jobs: ended }, other);
  return { kind, tookMs: on.time.nowMs - sinceMs };
};

/** The lease is given back, and somebody makes a pass for another reason. */
async function settledNext({ on, held, other }: Scene): Promise<number> {
  await on.store.releaseLease({ fence: held.fence });
  const [job] = (await on.put(on.job())) as [Job];
  return (await on.pass({ reason: 'stream', jobs: [job] }, other)).settled;
}

describe('a shard that finds the lease held', () => {
  it('leaves what it knows of many jobs, and whoever has the lease next settles them without a look', async () => {
    const at = await scene(MANY);
    expect((await told(at)).kind).toBe('left');
    const { jobs, wakes, named } = await at.on.store.readWakes(0);
    expect([jobs.length, wakes, named]).toEqual([1, 1, 1]);
    expect([await settledNext(at), at.looks()]).toEqual([MANY, 0]);
  });

  it('is heard of with the others: what each of several has left is settled', async () => {
    const at = await scene(MANY);
    for (const part of [at.ended.slice(0, MANY / 2), at.ended.slice(MANY / 2)])
      await at.on.pass({ reason: 'stream', jobs: part }, at.on.dispatcher());
    expect((await at.on.store.readWakes(0)).jobs).toHaveLength(2);
    expect([await settledNext(at), at.looks()]).toEqual([MANY, 0]);
  });

  it('is heard of beside what the next pass is told of itself', async () => {
    const at = await scene(MANY);
    const [own, ...others] = at.ended;
    await at.on.pass({ reason: 'stream', jobs: others }, at.other);
    await at.on.store.releaseLease({ fence: at.held.fence });
    const { settled } = await at.on.pass({ reason: 'stream', jobs: [own as Job] }, at.other);
    expect([settled, at.looks()]).toEqual([MANY, 0]);
  });

  it('looks up what another one has left word of without names, if it has the lease after its own word', async () => {
    // The stream never tells of these.
    const at = await scene(MANY);
    const store = storeWith<JobStore>(at.other.store as JobStore, {
      wake: async (asked) => {
        const left = await at.on.store.wake(asked);
        await at.on.store.wake({ partition: 0 });
        await at.on.store.releaseLease({ fence: at.held.fence });
        return left;
      },
    });
    const jobs = await at.on.put(at.on.job());
    const { settled } = await at.on.pass(
      { reason: 'stream', jobs: jobs as Job[] },
      at.on.dispatcher({ store }),
    );
    expect(settled).toBe(MANY);
    expect(at.looks()).toBeGreaterThan(0);
  });

  it('looks everything up where what was left is gone, or cannot be read', async () => {
    const at = await scene(MANY, { readHints: async () => undefined });
    await told(at);
    expect(await settledNext(at)).toBe(MANY);
    expect(at.looks()).toBeGreaterThan(0);
  });

  it.each([
    ['is malformed', new MalformedItemError('hints/0/x hints', 'hints', 'is 5')],
    ['is refused', new StoreRefused('readHints: ValidationException')],
    ['may not be read', new StoreMisconfigured('readHints: AccessDeniedException')],
  ])('looks everything up where what was left %s, and each pass goes on', async (_title, error) => {
    const at = await scene(MANY, { readHints: () => Promise.reject(error) });
    await told(at);
    expect(await settledNext(at)).toBe(MANY);
    expect(at.looks()).toBeGreaterThan(0);
    const [warned] = at.on.logged.filter(({ message }) => message.includes('cannot be read'));
    expect(warned?.fields).toMatchObject({ partition: 0, error: String(error) });
    await at.on.advance(60_000);
    expect((await at.on.pass({ reason: 'tick' }, at.other)).kind).toBe('done');
  });

  it.each([new StoreThrottled('readHints: slow down'), new StoreUnavailable('readHints: no answer')])(
    'leaves it to be read again where that may help: %s',
    async (error) => {
      const at = await scene(MANY, { readHints: () => Promise.reject(error) });
      await told(at);
      await expect(settledNext(at)).rejects.toBe(error);
      const next = await at.on.pass({ reason: 'tick' }, at.on.dispatcher());
      expect([next.kind, next.settled]).toEqual(['done', MANY]);
    },
  );

  it('names few jobs, after it has tried for the lease for a while', async () => {
    const at = await scene(FEW);
    const { kind, tookMs } = await told(at);
    expect(kind).toBe('left');
    expect(tookMs).toBeGreaterThan(200);
    expect(tookMs).toBeLessThanOrEqual(300);
    const { jobs } = await at.on.store.readWakes(0);
    expect(jobs.map(({ id }) => id)).toEqual(at.ended.map(({ id }) => id));
  });

  it('names them at once where nothing was free when it made its last pass', async () => {
    const at = await scene(FEW, {}, FEW + 1);
    expect(await told(at)).toEqual({ kind: 'left', tookMs: 0 });
  });

  it('waits until there is room for its names', async () => {
    const at = await scene(MANY);
    await fill(at);
    const full = await at.on.store.readWakes(0);
    at.on.time.after(500, () => void at.on.store.dropNames({ partition: 0, seen: full }));
    const { kind, tookMs } = await told(at);
    expect(kind).toBe('left');
    expect(tookMs).toBeGreaterThanOrEqual(500);
    expect(tookMs).toBeLessThan(900);
    expect(await at.on.store.readWakes(0)).toMatchObject({ wakes: 2, named: 2 });
  });

  it('leaves word without names where there is none for long, and all is looked up', async () => {
    const at = await scene(MANY);
    await fill(at);
    const { kind, tookMs } = await told(at);
    expect(kind).toBe('left');
    expect(tookMs).toBeGreaterThanOrEqual(ROOM_PATIENCE_MS);
    expect(tookMs).toBeLessThan(ROOM_PATIENCE_MS + 600);
    expect(await at.on.store.readWakes(0)).toMatchObject({ wakes: 2, named: 1 });
    expect(await settledNext(at)).toBe(MANY);
  });

  it('makes the pass itself where the lease is given back while it waits for room', async () => {
    const at = await scene(MANY);
    await fill(at);
    at.on.time.after(600, () => void at.on.store.releaseLease({ fence: at.held.fence }));
    const sinceMs = at.on.time.nowMs;
    const report = await at.on.pass({ reason: 'stream', jobs: at.ended }, at.other);
    expect([report.kind, report.settled]).toEqual(['done', MANY]);
    expect(at.on.time.nowMs - sinceMs).toBeLessThan(900);
    expect((await at.on.store.readWakes(0)).wakes).toBe(1);
  });
});

describe('whoever is told of jobs that the stream tells of, too, and finds the lease held', () => {
  const RESIDENT = 'resident/one/1';

  it('leaves what it knows of them where there is room', async () => {
    const at = await scene(MANY);
    const jobs = (await at.on.put(...Array.from({ length: MANY }, () => at.on.job()))) as Job[];
    expect((await at.on.pass({ reason: 'ingest', jobs }, at.other)).kind).toBe('left');
    expect(await at.on.store.readWakes(0)).toMatchObject({ wakes: 1, named: 1, names: 1 });
  });

  it.each([
    ['a function', 'ingest'],
    ['a dispatcher that runs on', 'ingest'],
    ['a dispatcher that runs on', 'told'],
  ] as const)('leaves no word where there is none: %s has the lease (%s)', async (holder, reason) => {
    const at = await scene(MANY);
    if (holder !== 'a function') {
      await at.on.store.releaseLease({ fence: at.held.fence });
      const { nowMs } = at.on.time;
      await at.on.store.acquireLease({ partition: 0, holder: RESIDENT, nowMs, leaseMs: 60_000 });
    }
    await fill(at);
    const before = await at.on.store.readWakes(0);
    const jobs = (await at.on.put(...Array.from({ length: MANY }, () => at.on.job()))) as Job[];
    const trigger = reason === 'ingest' ? { jobs } : { jobIds: jobs.map(({ id }) => id) };
    const sinceMs = at.on.time.nowMs;
    expect((await at.on.pass({ reason, ...trigger }, at.other)).kind).toBe('left');
    expect(at.on.time.nowMs).toBe(sinceMs);
    expect(await at.on.store.readWakes(0)).toEqual(before);
  });
});

describe('a pass that somebody has superseded', () => {
  it('leaves what it was told of many jobs to whoever has the partition', async () => {
    const at = await scene(MANY);
    await at.on.store.releaseLease({ fence: at.held.fence });
    let isFirst = true;
    const store = storeWith<JobStore>(at.other.store as JobStore, {
      loadPartition: async (asked) => {
        if (isFirst) {
          isFirst = false;
          await at.on.clock.sleep(60_000);
          const taken = await takeLease(at.on.main, { partition: 0, patienceMs: 0 });
          if (taken !== undefined) await at.on.store.releaseLease({ fence: taken.fence });
        }
        return at.on.store.loadPartition(asked);
      },
    });
    expect((await at.on.pass({ reason: 'stream', jobs: at.ended }, at.on.dispatcher({ store }))).kind).toBe(
      'lost',
    );
    expect((await at.on.store.readWakes(0)).jobs).toHaveLength(1);
    expect(await settledNext(at)).toBe(MANY);
  });
});
