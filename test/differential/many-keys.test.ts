/**
 * Thousands of keys with backlog at once: in the line of keys, those that were charged stand in front of others for as long as it is
 * cheaper to read past them, and a plan looks at so many keys and no more. All the same each key has its turn, and no slot is idle.
 */
import { expect, it } from 'vitest';
import { isAll } from '../fixtures/times.ts';
import { Deployed } from './deployed.ts';
import { play, type Scenario } from './play.ts';

interface Crowd {
  readonly keys: number;
  readonly types: number;
  readonly jobsPerKey: number;
  readonly slots: number;
  readonly untilMs: number;
  /** The chance that a dispatcher forgets all between passes. */
  readonly forgets?: number;
}

function crowd({ keys, types, jobsPerKey, slots, untilMs, forgets = 0 }: Crowd): Scenario {
  const names = Array.from({ length: types }, (_, at) => `type-${at}`);
  const type = { tier: 'all', defaultCostMs: 1_000, retry: { maxAttempts: 1, jitter: 'none' } };
  return {
    seed: 1,
    kind: 'crowd',
    pool: {
      types: Object.fromEntries(names.map((name) => [name, type])),
      tiers: [{ tier: 'all' }],
      fleets: { general: { types: names, slots } },
    },
    budget: {},
    hearing: { dispatchers: 1, changes: 0, noise: 0, repeats: 0, leftWord: 0, forgets, lost: 0 },
    untilMs,
    jobs: Array.from({ length: keys * jobsPerKey }, (_, at) => ({
      id: `job-${String(at).padStart(6, '0')}`,
      atMs: 0,
      type: names[Math.floor(at / keys) % types] ?? '',
      priority: 0,
      mode: 'queued',
      fairnessKey: `key-${at % keys}`,
      attempts: [{ durationMs: 1_000, outcome: 'succeeded' }],
    })),
    events: [],
  } as Scenario;
}

const CROWDS = [
  ['of one type', { keys: 3_000, types: 1, jobsPerKey: 3, slots: 100, untilMs: 70_000 }],
  ['of six types', { keys: 600, types: 6, jobsPerKey: 12, slots: 100, untilMs: 60_000 }],
  [
    'of one type, by a dispatcher that forgets',
    { keys: 2_400, types: 1, jobsPerKey: 3, slots: 100, untilMs: 60_000, forgets: 0.2 },
  ],
] as const;

it.each(isAll ? CROWDS : CROWDS.slice(1, 2))(
  'keys %s get their turns',
  { timeout: 120_000 },
  async (_, of) => {
    const scenario = crowd(of);
    const keyOf = new Map(scenario.jobs.map(({ id, fairnessKey }) => [id, fairnessKey]));
    const started = new Map(scenario.jobs.map(({ fairnessKey }) => [fairnessKey, 0]));
    const starts = await play(scenario, new Deployed(scenario));
    for (const { id } of starts) {
      const key = keyOf.get(id) ?? '';
      started.set(key, (started.get(key) ?? 0) + 1);
    }
    // Jobs of a second: each slot has had one in each, and one that it began at the end.
    expect(starts.length).toBeGreaterThanOrEqual((of.slots * of.untilMs) / 1_000);
    const counts = [...started.values()];
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
  },
);
