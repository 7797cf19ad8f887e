/** Keys that came while nothing had room: what counts of them is the newest that was told, when there is room again. */
import { describe, expect, it } from 'vitest';
import type { PoolInput } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { retimeJob } from '../../lib/dispatch/retime.ts';
import { type Stage, stage } from './stage.ts';

const oneSlot = (...types: readonly string[]): PoolInput => ({
  types: Object.fromEntries(types.map((type) => [type, { defaultCostMs: 1_000, timeoutMs: 600_000 }])),
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: [...types], slots: 1 } },
  fairness: { idlePolicy: 'advance', trueUp: true },
});

const chargedOf = (on: Stage, fairnessKey: string): number | undefined =>
  on.store.inspect(0).ledgers.get(fairnessKey)?.settledCostMs;

const hear = (on: Stage, ...jobs: readonly Job[]) => on.pass({ jobs, reason: 'stream' });
const ingest = (on: Stage, ...jobs: readonly Job[]) => on.pass({ jobs, reason: 'ingest' });

async function putOne(on: Stage, changes: Partial<Job>): Promise<Job> {
  const job = on.job(changes);
  await on.put(job);
  return job;
}

/** Two keys take turns with the one slot. */
async function busy(on: Stage, type: string): Promise<void> {
  await on.pass();
  await on.advance(60_000);
  const jobs = Array.from({ length: 12 }, (_, at) => on.job({ type, fairnessKey: at % 2 === 0 ? 'x' : 'y' }));
  await on.put(...jobs);
  await ingest(on, ...jobs);
  for (let turns = 0; turns < 2; turns += 1) await afterTurn(on, 10_000);
}

/** What runs ends after this time. */
async function afterTurn(on: Stage, ms: number): Promise<void> {
  const [running] = await on.startAll('images');
  if (running === undefined) throw new Error('nothing started');
  await on.advance(ms);
  await hear(on, await on.end(running));
}

describe('a key that came while nothing had room', () => {
  /** What it was charged at the first pass with room. */
  async function liftedTo(isRepeated: boolean): Promise<number | undefined> {
    const on = stage({ pool: oneSlot('resize', 'stopped') });
    await on.store.changeControl({ partition: 0, scope: 'type/stopped', change: { paused: true } });
    await busy(on, 'resize');
    const [running] = await on.startAll('images');
    if (running === undefined) throw new Error('nothing started');
    const runAtMs = on.time.nowMs + 1_000;
    const later = await putOne(on, { type: 'stopped', fairnessKey: 'new', state: 'scheduled', runAtMs });
    await ingest(on, later);
    await on.advance(1_000);
    await on.pass({ reason: 'wake' });
    expect(on.stateOf(later.id)).toBe('pending');
    // By then, what the stream told is left to the index.
    await on.advance(20_000);
    await hear(on, await putOne(on, { type: 'resize', fairnessKey: 'x' }));
    if (isRepeated) await hear(on, later);
    await on.advance(5_000);
    await hear(on, await on.end(running));
    return chargedOf(on, 'new');
  }

  it('is lifted as soon as there is room, though a late copy tells that its job waits for its time', async () => {
    const chargedMs = await liftedTo(false);
    expect(chargedMs).toBeGreaterThan(0);
    expect(await liftedTo(true)).toBe(chargedMs);
  });

  it.each([1_000, 20_000])('is not lifted if its only job was cancelled %i ms later', async (ms) => {
    const on = stage({ pool: oneSlot('resize') });
    await busy(on, 'resize');
    const [running] = await on.startAll('images');
    if (running === undefined) throw new Error('nothing started');
    const { id } = await putOne(on, { type: 'resize', fairnessKey: 'new' });
    await hear(on, on.store.inspectJob(id) as Job);
    await on.advance(ms);
    const nowMs = on.time.nowMs;
    await on.store.cancelJob({ jobId: id, nowMs, expiresAtMs: nowMs + 1_000_000 });
    await hear(on, on.store.inspectJob(id) as Job);
    await on.advance(1_000);
    await hear(on, await on.end(running));
    expect(chargedOf(on, 'new')).toBeUndefined();
  });
});

describe('of a job that was moved to a later time, since its key came', () => {
  /** Two keys come while the pool is paused, `a` before `b`. Then the job of `a` is moved behind that of `b`. */
  async function play(how: 'remembers' | 'forgets', gapMs: number, isTold: boolean) {
    const on = stage({ pool: oneSlot('resize') });
    const lastSeenMs = on.time.nowMs;
    const ledgers = [
      { fairnessKey: 'a', settledCostMs: 5_000, lastSeenMs },
      { fairnessKey: 'b', settledCostMs: 1_000, lastSeenMs },
    ];
    await on.commit({ ledgers });
    await on.advance(60_000);
    await on.pass();
    await on.advance(60_000);
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: true } });
    const { id } = await putOne(on, { fairnessKey: 'a' });
    await hear(on, on.store.inspectJob(id) as Job);
    await on.advance(2_000);
    await hear(on, await putOne(on, { fairnessKey: 'b' }));
    await on.advance(gapMs);
    await retimeJob(on.operator(), id, on.time.nowMs + 1_000);
    await on.advance(1_000);
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: false } });
    if (how === 'forgets') on.main.caches.clear();
    await on.pass({ jobs: isTold ? [on.store.inspectJob(id) as Job] : [], reason: 'wake' });
    return { a: chargedOf(on, 'a'), b: chargedOf(on, 'b'), held: on.held().map((each) => each.fairnessKey) };
  }

  it.each([
    [3_000, true],
    [3_000, false],
    [20_000, true],
    [20_000, false],
  ])('counts where it stands now (after %i ms, told of it: %s)', async (gapMs, isTold) => {
    const forgot = await play('forgets', gapMs, isTold);
    expect(forgot).toEqual({ a: 5_000, b: 1_000, held: ['b'] });
    expect(await play('remembers', gapMs, isTold)).toEqual(forgot);
  });
});
