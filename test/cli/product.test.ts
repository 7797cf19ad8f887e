import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Attempt, ProductResult } from '../../lib/simulate/product.ts';
import { timesOf } from '../fixtures/times.ts';
import { fairlead, resultsOf, simulated } from './run.ts';

const EXAMPLE = fileURLToPath(new URL('../../examples/simulate/two-studios.json', import.meta.url));

/** One fleet of `slots`, one type, and no surprises. */
function scenario(changes: object, slots = 1): object {
  return {
    id: 's',
    untilMs: 100_000,
    configuration: { fleets: { work: { types: ['work'], slots } } },
    ...changes,
  };
}

async function run(...scenarios: object[]): Promise<readonly (ProductResult & { readonly id: string })[]> {
  const results = await resultsOf({ schema: 'fairlead/1', scenarios });
  return results as unknown as readonly (ProductResult & { readonly id: string })[];
}

async function runOne(changes: object, slots = 1): Promise<ProductResult> {
  const [result] = await run(scenario(changes, slots));
  if (result === undefined) throw new Error('no result');
  return result;
}

const brief = ({ id, attempt, startMs, endMs, outcome }: Attempt): readonly unknown[] => [
  id,
  attempt,
  startMs,
  endMs,
  outcome,
];

const job = (changes: object) => ({ type: 'work', atMs: 0, durationMs: 1_000, ...changes });

describe('a scenario for the product', { timeout: 60_000 }, () => {
  // Until hints of new jobs reach keys and lines that a dispatcher remembers.
  it('gives free slots in turn, to the key that has had less', async () => {
    const { attempts, keys } = await runOne({
      jobs: [
        job({ id: 'a', fairnessKey: 'a', repeat: { count: 3 } }),
        job({ id: 'b', fairnessKey: 'b', atMs: 500, repeat: { count: 2 } }),
      ],
    });
    // The new key starts level with what the old one was charged: its attempt is in flight, and turns out to use less.
    expect(attempts.map(({ id }) => id)).toEqual(['a-1', 'a-2', 'b-1', 'a-3', 'b-2']);
    expect(keys.a).toMatchObject({ submitted: 3, succeeded: 3, busyMs: 3_000, weight: 1, waitMaxMs: 3_000 });
  });

  it('knows the defaults: a new key starts level, and is charged what it used', async () => {
    const { keys } = await runOne({
      jobs: [
        job({ id: 'old', fairnessKey: 'old', durationMs: 5_000, repeat: { count: 3 } }),
        job({ id: 'new', fairnessKey: 'new', atMs: 6_000, durationMs: 2_000 }),
      ],
    });
    expect(keys.old?.costMs).toBe(15_000);
    // Just behind what the other key was charged when a slot was free again: two attempts of 5 s.
    expect(keys.new?.costMs).toBeCloseTo(10_000 + 2_000, 3);
  });

  it('starts nothing early, and a moved time wins', async () => {
    const { attempts } = await runOne({
      jobs: [job({ id: 'x', runAtMs: 10_000 }), job({ id: 'y', runAtMs: 5_000 })],
      events: [
        { op: 'retime', atMs: 4_000, id: 'x', runAtMs: 2_000 },
        { op: 'retime', atMs: 4_500, id: 'y', runAtMs: 30_000 },
        { op: 'retime', atMs: 4_500, id: 'nobody', runAtMs: 30_000 },
        { op: 'retime', atMs: 30_500, id: 'y', runAtMs: 60_000 },
      ],
    });
    expect(attempts.map(brief)).toEqual([
      ['x', 1, 4_000, 5_000, 'succeeded'],
      ['y', 1, 30_000, 31_000, 'succeeded'],
    ]);
  });

  it('takes a job that waits out of its line when it is moved', async () => {
    const { attempts } = await runOne({
      jobs: [job({ id: 'x' }), job({ id: 'y' })],
      events: [{ op: 'retime', atMs: 500, id: 'y', runAtMs: 20_000 }],
    });
    expect(attempts.map(({ startMs }) => startMs)).toEqual([0, 20_000]);
  });

  it('retries as the policy says, and gives up on an error that a rule calls hopeless', async () => {
    const retry = { backoff: 'fixed', delayMs: 2_000, errors: [{ name: 'Fatal', retry: false }] };
    const { attempts, keys } = await runOne({
      configuration: { types: { work: { retry } }, fleets: { work: { types: ['work'], slots: 2 } } },
      jobs: [
        job({ id: 'busy', failures: [{ name: 'Busy', afterMs: 100 }, { name: 'Busy' }] }),
        job({ id: 'dead', atMs: 10_000, failures: [{ name: 'Fatal', afterMs: 100 }] }),
        job({ id: 'often', atMs: 20_000, failures: Array(3).fill({ name: 'Busy' }) }),
      ],
    });
    expect(attempts.map(brief)).toEqual([
      ['busy', 1, 0, 100, 'retry'],
      ['busy', 2, 2_100, 3_100, 'retry'],
      ['busy', 3, 5_100, 6_100, 'succeeded'],
      ['dead', 1, 10_000, 10_100, 'failed'],
      ['often', 1, 20_000, 21_000, 'retry'],
      ['often', 2, 23_000, 24_000, 'retry'],
      ['often', 3, 26_000, 27_000, 'failed'],
    ]);
    expect(attempts[3]?.error).toBe('Fatal');
    expect(keys['']).toMatchObject({ succeeded: 1, failed: 2, waiting: 0 });
  });

  it('ends an attempt that takes too long, with the error that a worker ends it with', async () => {
    const { attempts } = await runOne({
      configuration: {
        types: { work: { timeoutMs: 500, retry: { maxAttempts: 1 } } },
        fleets: { work: { types: ['work'], slots: 1 } },
      },
      jobs: [job({ id: 'slow' }), job({ id: 'just', durationMs: 500 })],
    });
    expect(attempts).toEqual([
      { id: 'just', attempt: 1, fleet: 'work', startMs: 0, endMs: 500, outcome: 'succeeded' },
      {
        id: 'slow',
        attempt: 1,
        fleet: 'work',
        startMs: 500,
        endMs: 1_000,
        outcome: 'failed',
        error: 'JobTimeout',
      },
    ]);
  });

  it.each([
    ['JobTimeout', 1],
    ['Timeout', 3],
  ])('matches a retry rule for timeouts by the name that it has in production: %s', async (name, tries) => {
    const retry = { backoff: 'fixed', delayMs: 1_000, errors: [{ name, retry: false }] };
    const { attempts } = await runOne({
      configuration: {
        types: { work: { timeoutMs: 500, retry } },
        fleets: { work: { types: ['work'], slots: 1 } },
      },
      jobs: [job({ id: 'slow' })],
    });
    expect(attempts.map(({ error }) => error)).toEqual(Array(tries).fill('JobTimeout'));
  });

  it.each(['fail', 'retry'])(
    'misses a vanished worker when its lease is over and its jobs are checked, and then does as the type says: %s',
    async (onWorkerLost) => {
      const { attempts, fleets } = await runOne({
        leaseMs: 10_000,
        configuration: { types: { work: { onWorkerLost } }, fleets: { work: { types: ['work'] } } },
        workers: [
          { worker: 'w1', fleet: 'work', slots: 1, lostAtMs: 1_000 },
          { worker: 'w2', fleet: 'work', slots: 1, fromMs: 5_000 },
        ],
        jobs: [job({ id: 'x', durationMs: 5_000 })],
      });
      const missedMs = attempts[0]?.endMs ?? 0;
      // Its lease, with what clocks may differ; a tick; and, as nothing else caused passes, a watch over the partition.
      expect(missedMs).toBeGreaterThanOrEqual(10_000 + 5_000);
      expect(missedMs).toBeLessThanOrEqual(60_000 + 25_000);
      const again = ['x', 1, missedMs, missedMs + 5_000, 'succeeded'];
      expect(attempts.map(brief)).toEqual([
        ['x', 1, 0, missedMs, 'workerLost'],
        ...(onWorkerLost === 'retry' ? [again] : []),
      ]);
      expect(fleets.work).toMatchObject({ slots: 1, slotMs: 95_000 + missedMs });
    },
  );

  it('gives jobs that wait to the workers that are left', async () => {
    const { attempts } = await runOne({
      untilMs: 200_000,
      configuration: { fleets: { work: { types: ['work'] } } },
      workers: [
        { worker: 'w1', fleet: 'work', slots: 2, lostAtMs: 1_500 },
        { worker: 'w2', fleet: 'work', slots: 1 },
      ],
      jobs: [job({ id: 'x', repeat: { count: 6 } })],
    });
    const succeeded = attempts.filter(({ outcome }) => outcome === 'succeeded');
    expect(succeeded.map(({ id }) => id).sort()).toEqual(['x-1', 'x-2', 'x-3', 'x-4', 'x-5', 'x-6']);
    expect(attempts.filter(({ outcome }) => outcome === 'workerLost')).toHaveLength(2);
  });

  it('gives the slot of a function that vanished back only when its time is certainly over', async () => {
    const { attempts } = await runOne({
      untilMs: 200_000,
      configuration: {
        types: { work: { timeoutMs: 1_000 } },
        fleets: { work: { types: ['work'], slots: 1 } },
      },
      jobs: [job({ id: 'x' }), job({ id: 'y', atMs: 100, priority: 10 })],
      events: [
        { op: 'lose', atMs: 500, id: 'x' },
        { op: 'lose', atMs: 600, id: 'x' },
        { op: 'lose', atMs: 600, id: 'y' },
      ],
    });
    // A job in flight is looked at after a minute; by then 30 s have passed since its type's timeout.
    expect(attempts.map(brief)).toEqual([
      ['x', 1, 0, 60_000, 'workerLost'],
      ['y', 1, 60_000, 61_000, 'succeeded'],
      ['x', 1, 61_000, 62_000, 'succeeded'],
    ]);
  });

  it('starts a process again in which a job was lost, misses all that it ran, and runs each of that apart', async () => {
    const { attempts, fleets } = await runOne({
      untilMs: 200_000,
      configuration: { fleets: { work: { types: ['work'] } } },
      workers: [{ worker: 'w', fleet: 'work', slots: 2 }],
      jobs: [job({ id: 'x', durationMs: 30_000 }), job({ id: 'y', durationMs: 30_000 })],
      events: [{ op: 'lose', atMs: 500, id: 'x' }],
    });
    const lost = attempts.filter(({ outcome }) => outcome === 'workerLost');
    expect(lost.map(({ id }) => id)).toEqual(['x', 'y']);
    const missedMs = lost[0]?.endMs ?? 0;
    expect(attempts.slice(2).map(brief)).toEqual([
      ['x', 1, missedMs, missedMs + 30_000, 'succeeded'],
      // Each may be what ended the process: they run apart.
      ['y', 1, missedMs + 30_000, missedMs + 60_000, 'succeeded'],
    ]);
    expect(fleets.work).toMatchObject({ slots: 2, slotMs: 400_000, peak: 2 });
  });

  it('cancels what waits and what is scheduled', async () => {
    const { attempts, keys } = await runOne({
      jobs: [
        job({ id: 'a-runs' }),
        job({ id: 'b-waits' }),
        job({ id: 'later', runAtMs: 50_000 }),
        job({ id: 'next' }),
      ],
      events: ['b-waits', 'later', 'nobody', 'b-waits'].map((id) => ({ op: 'cancel', atMs: 400, id })),
    });
    expect(attempts.map(brief)).toEqual([
      ['a-runs', 1, 0, 1_000, 'succeeded'],
      ['next', 1, 1_000, 2_000, 'succeeded'],
    ]);
    expect(keys['']).toMatchObject({ cancelled: 2, succeeded: 2, waiting: 0 });
  });

  it.each([
    ['a function', { fleets: { work: { types: ['work'], slots: 1 } } }, []],
    ['a process', { fleets: { work: { types: ['work'] } } }, [{ worker: 'w', fleet: 'work', slots: 1 }]],
  ])(
    'leaves its slot to a running job that is cancelled until its worker ends it: %s',
    async (_, configuration, workers) => {
      const { attempts, keys } = await runOne({
        configuration,
        workers,
        jobs: [job({ id: 'long', durationMs: 45_000 }), job({ id: 'next', atMs: 100 })],
        events: [{ op: 'cancel', atMs: 12_000, id: 'long' }],
      });
      const endMs = attempts[0]?.endMs ?? 0;
      // A worker asks every 10 s whether what it runs is still wanted.
      expect(endMs).toBeGreaterThan(12_000);
      expect(endMs).toBeLessThanOrEqual(22_000);
      expect(attempts.map(brief)).toEqual([
        ['long', 1, 0, endMs, 'cancelled'],
        ['next', 1, endMs, endMs + 1_000, 'succeeded'],
      ]);
      expect(keys['']).toMatchObject({ cancelled: 1, succeeded: 1 });
    },
  );

  it('counts what a running job has done before its worker heard that it was cancelled', async () => {
    const { attempts } = await runOne({
      jobs: [job({ id: 'short' })],
      events: [{ op: 'cancel', atMs: 400, id: 'short' }],
    });
    expect(attempts.map(brief)).toEqual([['short', 1, 0, 1_000, 'succeeded']]);
  });

  it('obeys pauses and caps from when they are set until they are lifted', async () => {
    const { attempts } = await runOne(
      {
        jobs: [job({ id: 'x', repeat: { count: 4 } })],
        events: [
          { op: 'override', atMs: 0, scope: 'type/work', maxConcurrency: 1 },
          { op: 'override', atMs: 500, scope: 'pool', paused: true },
          { op: 'override', atMs: 9_000, scope: 'type/work' },
          { op: 'override', atMs: 9_000, scope: 'pool' },
          { op: 'override', atMs: 9_000, scope: 'tier/default', maxConcurrency: 2 },
          { op: 'override', atMs: 9_000, scope: 'fleet/work' },
          { op: 'override', atMs: 9_000, scope: 'key/', weight: 2 },
        ],
      },
      3,
    );
    expect(attempts.map(({ startMs }) => startMs)).toEqual([0, 9_000, 9_000, 10_000]);
  });

  it('never runs two jobs of one conflict key at once', async () => {
    const { attempts } = await runOne({
      configuration: {
        types: { work: { conflictGroup: 'git' } },
        fleets: { work: { types: ['work'], slots: 5 } },
      },
      jobs: [
        job({ id: 'x', resourceId: 'repo', repeat: { count: 2 } }),
        job({ id: 'y', resourceId: 'other' }),
      ],
    });
    expect(attempts.map(({ id, startMs }) => [id, startMs])).toEqual([
      ['x-1', 0],
      ['y', 0],
      ['x-2', 1_000],
    ]);
  });

  it('fires schedules in their zone, from the instant that the scenario starts at', async () => {
    const { attempts } = await runOne({
      startsAt: '2026-03-29T00:00:00Z',
      untilMs: 86_400_000,
      schedules: [
        {
          id: 'night',
          schedule: '30 2 * * *',
          timeZone: 'Europe/Berlin',
          job: { type: 'work', durationMs: 5 },
        },
      ],
    });
    expect(attempts.map(({ id, startMs }) => [id, startMs])).toEqual([['night#1', 3_600_000]]);
  });

  it.each([
    ['allow', [0, 60_000, 120_000], ['succeeded', 'succeeded', 'running']],
    ['skip', [0, 120_000], ['succeeded', 'running']],
    ['wait', [0, 90_000], ['succeeded', 'running']],
    ['replace', [0, 60_000, 120_000], ['cancelled', 'cancelled', 'running']],
  ])('does with fires that overlap as the policy says: %s', async (overlap, startsMs, outcomes) => {
    const { attempts } = await runOne(
      {
        untilMs: 170_000,
        schedules: [
          { id: 'tick', schedule: 'rate(1 minute)', overlap, job: { type: 'work', durationMs: 90_000 } },
        ],
      },
      5,
    );
    expect(attempts.map(({ startMs }) => startMs)).toEqual(startsMs);
    expect(attempts.map(({ outcome }) => outcome)).toEqual(outcomes);
  });

  it('moves, cancels and loses the jobs of schedules by their names', async () => {
    const { attempts, types } = await runOne({
      untilMs: 200_000,
      configuration: {
        types: { work: { onWorkerLost: 'retry' } },
        fleets: { work: { types: ['work'], slots: 1 } },
      },
      schedules: [{ id: 'tick', schedule: 'rate(1 minute)', job: { type: 'work', durationMs: 70_000 } }],
      events: [
        { op: 'retime', atMs: 61_000, id: 'tick#2', runAtMs: 75_000 },
        { op: 'cancel', atMs: 125_000, id: 'tick#3' },
      ],
    });
    expect(attempts.map(brief)).toEqual([
      ['tick#1', 1, 0, 70_000, 'succeeded'],
      ['tick#2', 1, 75_000, 145_000, 'succeeded'],
      ['tick#4', 1, 180_000, null, 'running'],
    ]);
    expect(types.work).toMatchObject({ submitted: 4, cancelled: 1 });
  });

  it('lets a schedule fire when its last job ends at that very instant', async () => {
    const { attempts } = await runOne({
      untilMs: 130_000,
      schedules: [
        {
          id: 'tick',
          schedule: 'rate(1 minute)',
          overlap: 'skip',
          job: { type: 'work', durationMs: 60_000 },
        },
      ],
    });
    expect(attempts.map(({ id, startMs }) => [id, startMs])).toEqual([
      ['tick#1', 0],
      ['tick#2', 60_000],
      ['tick#3', 120_000],
    ]);
  });

  it('says what still waits, and what runs, at the end', async () => {
    const { attempts, waiting, keys } = await runOne({
      untilMs: 500,
      jobs: [job({ id: 'x' }), job({ id: 'y' }), job({ id: 'z', runAtMs: 9_000 })],
    });
    expect(attempts.map(brief)).toEqual([['x', 1, 0, null, 'running']]);
    expect(waiting).toEqual(['y', 'z']);
    expect(keys['']).toMatchObject({ running: 1, waiting: 2, busyMs: 500 });
  });

  it('zeroes costs as often as it is told', async () => {
    const { keys } = await runOne({
      untilMs: 90_000,
      configuration: {
        fairness: { resetEveryMs: 50_000, keyTtlMs: null },
        fleets: { work: { types: ['work'], slots: 1 } },
      },
      jobs: [job({ id: 'x', fairnessKey: 'x' }), job({ id: 'y', fairnessKey: 'y', atMs: 60_000 })],
    });
    expect(keys).toMatchObject({ x: { costMs: 0 }, y: { costMs: 1_000 } });
  });

  it('gives the same run for the same seed, and another for another', async () => {
    const flaky = scenario(
      { jobs: [job({ id: 'x', repeat: { count: 5 }, failures: [{ name: 'Busy' }, { name: 'Busy' }] })] },
      5,
    );
    const [first, again, other] = await run(flaky, { ...flaky, id: 't' }, { ...flaky, id: 'u', seed: 2 });
    expect(again?.attempts).toEqual(first?.attempts);
    expect(other?.attempts).not.toEqual(first?.attempts);
  });

  it('shows the weight that an operator set, also when its key has been away for long', async () => {
    const { keys } = await runOne({
      untilMs: 500_000,
      configuration: {
        fairness: { keyTtlMs: 60_000, weights: { y: 3 } },
        fleets: { work: { types: ['work'], slots: 1 } },
      },
      jobs: [job({ id: 'x', fairnessKey: 'x' }), job({ id: 'y', fairnessKey: 'y' })],
      events: [{ op: 'override', atMs: 0, scope: 'key/x', weight: 5 }],
    });
    expect(keys).toMatchObject({ x: { weight: 5, costMs: 0 }, y: { weight: 3, costMs: 0 } });
  });

  it('starts what is due at its very time, and what is tried again without a delay at once', async () => {
    const retry = { backoff: 'fixed', delayMs: 0 };
    const { attempts } = await runOne({
      configuration: { types: { work: { retry } }, fleets: { work: { types: ['work'], slots: 1 } } },
      jobs: [job({ id: 'due', runAtMs: 12_345, durationMs: 55, failures: [{ name: 'Busy', afterMs: 0 }] })],
    });
    expect(attempts.map(brief)).toEqual([
      ['due', 1, 12_345, 12_345, 'retry'],
      ['due', 2, 12_345, 12_400, 'succeeded'],
    ]);
  });

  it('runs a pool of several partitions, which lend to each other what they do not need', async () => {
    const { attempts, peak } = await runOne({
      untilMs: 600_000,
      configuration: { partitions: 3, fleets: { work: { types: ['work'], slots: 3 } } },
      jobs: [job({ id: 'x', fairnessKey: 'one', durationMs: 20_000, repeat: { count: 30 } })],
    });
    expect(attempts.filter(({ outcome }) => outcome === 'succeeded')).toHaveLength(30);
    expect(peak).toBe(3);
  });

  it('leaves idle time out without any difference to what happens before and after it', async () => {
    const days = 20 * 86_400_000;
    const scene = {
      untilMs: days,
      configuration: {
        types: { work: { defaultCostMs: 2_000 }, awake: { timeoutMs: 600_000 } },
        fleets: {
          work: { types: ['work'] },
          awake: { types: ['awake'], slots: 1 },
        },
      },
      workers: [
        { worker: 'w1', fleet: 'work', slots: 1, lostAtMs: 11 * 3_600_000 + 500 },
        { worker: 'w2', fleet: 'work', slots: 2, fromMs: 777 },
      ],
      jobs: [
        job({ id: 'x', fairnessKey: 'x', atMs: 1_000, repeat: { count: 5, everyMs: 3_600_000 } }),
        job({ id: 'y', fairnessKey: 'y', atMs: 11 * 3_600_000, durationMs: 3_000, repeat: { count: 4 } }),
        job({ id: 'z', fairnessKey: 'x', atMs: 12_345, runAtMs: 36 * 3_600_000 + 7 }),
      ],
    };
    const until = 40 * 3_600_000;
    const idle = await runOne(scene);
    const busy = await runOne({
      ...scene,
      untilMs: until,
      // Something runs all the time, in a fleet of its own: no minute is left out.
      jobs: [
        ...scene.jobs,
        {
          type: 'awake',
          id: 'awake',
          atMs: 0,
          durationMs: 599_000,
          repeat: { count: 241, everyMs: 599_000 },
        },
      ],
    });
    expect(idle.attempts).toHaveLength(11);
    // Which of the jobs that begin at one instant goes to which process is chance: they are compared without their names.
    const timesOf = (attempts: typeof idle.attempts): readonly string[] =>
      attempts
        .filter(({ fleet }) => fleet === 'work')
        .map(({ startMs, endMs, outcome }) => `${startMs} ${endMs} ${outcome}`)
        .sort();
    expect(timesOf(busy.attempts)).toEqual(timesOf(idle.attempts));
  });

  it('keeps every job: each is over, runs or waits, and caps hold at every instant', async () => {
    const workload = fc.array(
      fc.record({
        atMs: fc.nat(30_000),
        durationMs: fc.nat(9_000),
        fairnessKey: fc.constantFrom('', 'a', 'b'),
        priority: fc.nat(10),
        mode: fc.constantFrom('queued', 'onDemand'),
        type: fc.constantFrom('work', 'other'),
        resourceId: fc.constantFrom('r', 's', undefined),
        failures: fc.array(fc.record({ name: fc.constantFrom('Busy', 'Fatal') }), { maxLength: 4 }),
      }),
      { maxLength: 25 },
    );
    await fc.assert(
      fc.asyncProperty(workload, fc.nat(60_000), async (jobs, untilMs) => {
        const configuration = {
          maxConcurrency: 4,
          tiers: [{ tier: 'top', maxConcurrency: 2 }, { tier: 'low' }],
          types: {
            work: { tier: 'top', conflictGroup: 'g' },
            other: { conflictGroup: 'g', maxConcurrency: 3 },
          },
          fleets: { one: { types: ['work', 'other'], slots: 3 }, two: { types: ['other'], slots: 2 } },
          fairness: { maxConcurrencyPerKey: 3 },
        };
        const result = await runOne({ untilMs, configuration, jobs });
        const typeOf = new Map(jobs.map((one, index) => [`${one.type}-${index + 1}`, one]));
        for (const { startMs } of result.attempts) {
          const open = result.attempts.filter(
            (other) => other.startMs <= startMs && (other.endMs === null || other.endMs > startMs),
          );
          const most = (of: (attempt: Attempt) => unknown, value: unknown): number =>
            open.filter((attempt) => of(attempt) === value).length;
          expect(open.length).toBeLessThanOrEqual(4);
          expect(most(({ id }) => typeOf.get(id)?.type, 'work')).toBeLessThanOrEqual(2);
          expect(most(({ id }) => typeOf.get(id)?.type, 'other')).toBeLessThanOrEqual(3);
          expect(most(({ fleet }) => fleet, 'one')).toBeLessThanOrEqual(3);
          expect(most(({ fleet }) => fleet, 'two')).toBeLessThanOrEqual(2);
          for (const key of ['', 'a', 'b'])
            expect(most(({ id }) => typeOf.get(id)?.fairnessKey, key)).toBeLessThanOrEqual(3);
          for (const id of ['r', 's'])
            expect(most((one) => typeOf.get(one.id)?.resourceId, id)).toBeLessThanOrEqual(1);
        }
        for (const share of Object.values(result.keys)) {
          const { submitted, succeeded, failed, cancelled, running, waiting } = share;
          expect(succeeded + failed + cancelled + running + waiting).toBe(submitted);
          expect(Math.min(running, waiting)).toBeGreaterThanOrEqual(0);
        }
      }),
      { numRuns: timesOf(150) },
    );
  });
});

describe('what an independent reference found', () => {
  const startsOf = async (file: string): Promise<readonly (readonly [string, number])[]> => {
    const url = new URL(`../fixtures/scenarios/${file}.json`, import.meta.url);
    const [result] = await resultsOf(JSON.parse(readFileSync(fileURLToPath(url), 'utf8')));
    const { attempts } = result as unknown as ProductResult;
    return attempts.map(({ id, startMs }) => [id, startMs]);
  };

  // Until costs are counted in whole units: a ledger that is a running sum of fractions decides a tie by rounding.
  it('of two keys that have had the same, the more urgent job goes first', async () => {
    expect(await startsOf('ties')).toContainEqual(['urgent', 4_000]);
  });
});

describe('the sample scenario', () => {
  it('runs, and shows keys, types, fleets and a chart', async () => {
    const { code, out } = await fairlead('simulate', EXAMPLE);
    expect(code).toBe(0);
    for (const text of ['studio-a │', 'studio-b │', 'preview', 'gpu', 'of capacity'])
      expect(out).toContain(text);
  });

  it('is read by the documentation under its name', () => {
    const docs = readFileSync(fileURLToPath(new URL('../../docs/simulate.md', import.meta.url)), 'utf8');
    expect(docs).toContain('examples/simulate/two-studios.json');
  });
});

describe('a scenario that is wrong', { timeout: 60_000 }, () => {
  const two = (changes: object): object => ({
    schema: 'fairlead/1',
    scenarios: [scenario({}), { ...scenario(changes), id: 't' }],
  });

  it.each([
    ['a misspelt field', { untillMs: 3 }, /scenarios\[1\]\.untillMs: is not a known field/],
    ['no configuration', { configuration: undefined }, /scenarios\[1\]\.configuration: /],
    [
      'a wrong configuration',
      { configuration: { fleets: { a: { types: [] } } } },
      /scenarios\[1\]\.configuration\.fleets\.a\.types: names no type/,
    ],
    [
      'an empty configuration',
      { configuration: {} },
      /scenarios\[1\]\.configuration\.fleets: the pool has no type/,
    ],
    [
      'an unknown type',
      { jobs: [job({ type: 'play' })] },
      /scenarios\[1\]\.jobs\[0\]\.type: play is not a type .*\(work\)/,
    ],
    [
      'a misspelt field of a job',
      { jobs: [job({}), job({ prio: 3 })] },
      /scenarios\[1\]\.jobs\[1\]\.prio: is not/,
    ],
    ['a priority out of range', { jobs: [job({ priority: 11 })] }, /scenarios\[1\]\.jobs\[0\]\.priority: /],
    ['a negative instant', { jobs: [job({ atMs: -1 })] }, /scenarios\[1\]\.jobs\[0\]\.atMs: /],
    [
      'two jobs of one name',
      { jobs: [job({ id: 'x' }), job({ id: 'x' })] },
      /scenarios\[1\]\.jobs\[1\]\.id: x is used twice/,
    ],
    [
      'too many jobs',
      { jobs: [job({ repeat: { count: 200_000 } }), job({})] },
      /scenarios\[1\]\.jobs\[1\]: makes more than 200000 jobs/,
    ],
    [
      'a wrong pattern',
      { schedules: [{ id: 'a', schedule: 'often', job: { type: 'work', durationMs: 1 } }] },
      /scenarios\[1\]\.schedules\[0\]\.schedule: is not a cron/,
    ],
    [
      'a wrong zone',
      { schedules: [{ id: 'a', schedule: '@daily', timeZone: 'X/Y', job: { type: 'work', durationMs: 1 } }] },
      /schedules\[0\]\.timeZone: is no known zone/,
    ],
    [
      'an unknown type of a schedule',
      { schedules: [{ id: 'a', schedule: '@daily', job: { type: 'x', durationMs: 1 } }] },
      /schedules\[0\]\.job\.type: x is not/,
    ],
    [
      'an unknown fleet',
      { workers: [{ worker: 'w', fleet: 'none', slots: 1 }] },
      /workers\[0\]\.fleet: none is not a fleet/,
    ],
    [
      'a worker of a fleet of functions',
      { workers: [{ worker: 'w', fleet: 'work', slots: 1 }] },
      /workers\[0\]\.fleet: work declares 1 slots for functions/,
    ],
    ['a lease that no worker can have', { leaseMs: 3_000 }, /scenarios\[1\]\.leaseMs: is 3000: /],
    [
      'a worker that is lost before it is there',
      { workers: [{ worker: 'w', fleet: 'work', slots: 1, fromMs: 5, lostAtMs: 5 }] },
      /workers\[0\]\.lostAtMs: /,
    ],
    [
      'two workers of one name',
      { workers: Array(2).fill({ worker: 'w', fleet: 'work', slots: 1 }) },
      /workers\[1\]\.worker: w is used twice/,
    ],
    [
      'an unknown scope',
      { events: [{ op: 'override', atMs: 0, scope: 'type/play' }] },
      /events\[0\]\.scope: type\/play is not a scope/,
    ],
    ['an unknown event', { events: [{ op: 'explode', atMs: 0 }] }, /events\[0\]\.op: /],
    ['an instant without a zone', { startsAt: '2026-01-01T00:00:00' }, /scenarios\[1\]\.startsAt: /],
    [
      'endless fires',
      {
        untilMs: 1e12,
        schedules: [
          { id: 'a', schedule: 'rate(1 second)', overlap: 'skip', job: { type: 'work', durationMs: 1e12 } },
        ],
      },
      /scenarios\[1\]: fires more than 200000 times/,
    ],
  ])('is refused: %s', async (_, changes, message) => {
    const { code, error, out } = await simulated(two(changes), '--json');
    expect(error).toMatch(message);
    expect(out).toBe('');
    expect(code).toBe(2);
  });
});
