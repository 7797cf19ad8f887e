import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Attempt, ProductResult } from '../../lib/cli/simulation/product.ts';
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

describe('a scenario for the product', () => {
  it('gives free slots in turn, to the key that has had less', async () => {
    const { attempts, keys } = await runOne({
      jobs: [
        job({ id: 'a', fairnessKey: 'a', repeat: { count: 3 } }),
        job({ id: 'b', fairnessKey: 'b', atMs: 500, repeat: { count: 2 } }),
      ],
    });
    // The new key starts level with what the old one has used so far, which is nothing: the old one's first attempt runs.
    expect(attempts.map(({ id }) => id)).toEqual(['a-1', 'b-1', 'a-2', 'b-2', 'a-3']);
    expect(keys.a).toMatchObject({ submitted: 3, succeeded: 3, busyMs: 3_000, weight: 1, waitMaxMs: 4_000 });
  });

  it('knows the defaults: a new key starts level, and is charged what it used', async () => {
    const { keys } = await runOne({
      jobs: [
        job({ id: 'old', fairnessKey: 'old', durationMs: 5_000, repeat: { count: 3 } }),
        job({ id: 'new', fairnessKey: 'new', atMs: 6_000, durationMs: 2_000 }),
      ],
    });
    expect(keys.old?.costMs).toBe(15_000);
    // Level with what the other key had used by then, the 5 s of its first attempt; what is in flight may be given back.
    expect(keys.new?.costMs).toBe(5_000 + 2_000);
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

  it('ends an attempt that takes too long', async () => {
    const { attempts } = await runOne({
      configuration: {
        types: { work: { timeoutMs: 500, retry: { maxAttempts: 1 } } },
        fleets: { work: { types: ['work'], slots: 1 } },
      },
      jobs: [job({ id: 'slow' })],
    });
    expect(attempts).toEqual([
      { id: 'slow', attempt: 1, fleet: 'work', startMs: 0, endMs: 500, outcome: 'failed', error: 'Timeout' },
    ]);
  });

  it.each([
    ['fail', [['x', 1, 0, 11_000, 'workerLost']]],
    [
      'retry',
      [
        ['x', 1, 0, 11_000, 'workerLost'],
        ['x', 1, 11_000, 16_000, 'succeeded'],
      ],
    ],
  ])(
    'misses a vanished worker a lease later, and then does as the type says: %s',
    async (onWorkerLost, expected) => {
      const { attempts, fleets } = await runOne({
        leaseMs: 10_000,
        configuration: { types: { work: { onWorkerLost } }, fleets: { work: { types: ['work'] } } },
        workers: [
          { worker: 'w1', fleet: 'work', slots: 1, lostAtMs: 1_000 },
          { worker: 'w2', fleet: 'work', slots: 1, fromMs: 5_000 },
        ],
        jobs: [job({ id: 'x', durationMs: 5_000 })],
      });
      expect(attempts.map(brief)).toEqual(expected);
      expect(fleets.work).toMatchObject({ slots: 1, slotMs: 95_000 + 11_000 });
    },
  );

  it('gives the slot of a lost attempt back only when it is missed', async () => {
    const { attempts } = await runOne({
      leaseMs: 10_000,
      jobs: [job({ id: 'x' }), job({ id: 'y' })],
      events: [
        { op: 'lose', atMs: 500, id: 'x' },
        { op: 'lose', atMs: 600, id: 'x' },
        { op: 'lose', atMs: 600, id: 'y' },
      ],
    });
    expect(attempts.map(brief)).toEqual([
      ['x', 1, 0, 10_500, 'workerLost'],
      // It is ready again only now, so the other is older.
      ['y', 1, 10_500, 11_500, 'succeeded'],
      ['x', 1, 11_500, 12_500, 'succeeded'],
    ]);
  });

  it('cancels what waits, what is scheduled and what runs', async () => {
    const { attempts, keys } = await runOne({
      jobs: [
        job({ id: 'a-runs' }),
        job({ id: 'b-waits' }),
        job({ id: 'later', runAtMs: 50_000 }),
        job({ id: 'next' }),
      ],
      events: ['a-runs', 'b-waits', 'later', 'nobody', 'a-runs'].map((id) => ({
        op: 'cancel',
        atMs: 400,
        id,
      })),
    });
    expect(attempts.map(brief)).toEqual([
      ['a-runs', 1, 0, 400, 'cancelled'],
      ['next', 1, 400, 1_400, 'succeeded'],
    ]);
    expect(keys['']).toMatchObject({ cancelled: 3, succeeded: 1, waiting: 0 });
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
      { numRuns: 150 },
    );
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

describe('a scenario that is wrong', () => {
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
      /scenarios\[1\]\.jobs\[1\]\.id: x is there twice/,
    ],
    [
      'too many jobs',
      { jobs: [job({ repeat: { count: 200_000 } }), job({})] },
      /scenarios\[1\]\.jobs\[1\]: makes more than 200000 jobs/,
    ],
    [
      'a wrong pattern',
      { schedules: [{ id: 'a', schedule: 'often', job: { type: 'work', durationMs: 1 } }] },
      /scenarios\[1\]\.schedules\[0\]\.schedule: is no cron/,
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
      /workers\[0\]\.fleet: none is no fleet/,
    ],
    [
      'a worker that is lost before it is there',
      { workers: [{ worker: 'w', fleet: 'work', slots: 1, fromMs: 5, lostAtMs: 5 }] },
      /workers\[0\]\.lostAtMs: /,
    ],
    [
      'two workers of one name',
      { workers: Array(2).fill({ worker: 'w', fleet: 'work', slots: 1 }) },
      /workers\[1\]\.worker: w is there twice/,
    ],
    [
      'an unknown scope',
      { events: [{ op: 'override', atMs: 0, scope: 'type/play' }] },
      /events\[0\]\.scope: type\/play is no scope/,
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
