/** A key whose ledger has expired stands at its old place in the keys line, and is not met where its share of now belongs. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { type Stage, stage } from '../../stage/stage.ts';

const KEYS = 250;
const RETURNING = 'returning';

const poolWith = (idlePolicy: 'advance' | 'none'): PoolInput => ({
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 3_600_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 1 } },
  fairness: { idlePolicy },
});

const keyOf = (at: number): string => `tenant-${String(at).padStart(3, '0')}`;

/**
 * One key has used 1,000 s, and was then away for two hours: its ledger has expired. 250 others come with ten jobs each, and
 * the first job of each takes a little longer than that of the one before. Answers what runs.
 */
async function past(on: Stage): Promise<Job> {
  const first = on.job({ fairnessKey: RETURNING });
  await on.put(first);
  await on.pass({ jobs: [first], reason: 'stream' });
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  await on.advance(1_000_000);
  await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
  await on.advance(2 * 3_600_000);
  const jobs: Job[] = [];
  for (let count = 0; count < 10; count += 1)
    for (let at = 0; at < KEYS; at += 1) jobs.push(on.job({ fairnessKey: keyOf(at) }));
  await on.put(...jobs);
  await on.pass({ jobs, reason: 'stream' });
  let running = await theStarted(on);
  for (let at = 0; at < KEYS; at += 1) {
    await on.advance(2_000 + 10 * at);
    await on.pass({ jobs: [await on.end({ job: running })], reason: 'stream' });
    running = await theStarted(on);
  }
  return running;
}

async function theStarted(on: Stage): Promise<Job> {
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  return started.job;
}

/** Ends what runs every second, and answers how many others start before the job does; at most so many. */
async function othersBefore(on: Stage, runs: Job, job: Job, context: DispatchContext, most: number) {
  let running = runs;
  for (let others = 0; others < most; others += 1) {
    await on.pass({ jobs: [await on.end({ job: running })], reason: 'stream' }, context);
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    if (started.job.id === job.id) return others;
    running = started.job;
    await on.advance(1_000);
  }
  return most;
}

describe('a key that comes back after its ledger has expired', () => {
  it('starts at 0 where keys are not lifted, though its hint came 20 s before a slot', async () => {
    const on = stage({ pool: poolWith('none') });
    const runs = await past(on);
    const job = on.job({ fairnessKey: RETURNING });
    await on.put(job);
    await on.pass({ jobs: [job], reason: 'stream' });
    await on.advance(20_000);
    expect(await othersBefore(on, runs, job, on.main, 500)).toBe(0);
  });

  it('is lifted to the least share and no further, whichever dispatcher makes the pass that has room', async () => {
    const on = stage({ pool: poolWith('advance') });
    const runs = await past(on);
    const job = on.job({ fairnessKey: RETURNING, priority: 10 });
    await on.put(job);
    await on.pass({ jobs: [job], reason: 'stream' });
    await on.advance(20_000);
    const other = on.dispatcher();
    // The one key of that share has a job that is older by far more than the priority is worth.
    expect(await othersBefore(on, runs, job, other, 500)).toBe(1);
  });
});

it('a ledger is kept while a job of its key runs, however long that is', async () => {
  const keyTtlMs = 60_000;
  const on = stage({ pool: { ...poolWith('none'), fairness: { idlePolicy: 'none', keyTtlMs } } });
  const run = async (tookMs: number): Promise<void> => {
    const job = on.job({ fairnessKey: RETURNING });
    await on.put(job);
    await on.pass({ jobs: [job], reason: 'stream' }, on.dispatcher());
    const running = await theStarted(on);
    await on.advance(tookMs);
    // Each pass takes away what has expired.
    await on.pass({ reason: 'tick' }, on.dispatcher());
    await on.pass({ jobs: [await on.end({ job: running })], reason: 'stream' }, on.dispatcher());
  };
  await run(50_000);
  await on.advance(keyTtlMs - 10_000);
  await run(15_000);
  expect(on.store.inspect(0).ledgers.get(RETURNING)?.settledCostMs).toBe(65_000);
});
