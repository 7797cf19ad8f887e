/** The development server and the test kit refuse bad declarations with the construct's words. */
import { App, Stack } from 'aws-cdk-lib';
import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../cdk/scheduler.ts';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';
import { declaredLocally } from '../../lib/local/pool.ts';

const jobs = defineJobs({ a: job(), b: job() });
const COUNTING = defineJobs({ a: job({ units: { openai: () => 1 } }), b: job() });

const BAD: Readonly<Record<string, object>> = {
  'an unknown type': { types: { c: {} } },
  'an unknown setting of a type': { types: { a: { timeout: '5m' } } },
  'a timeout that is none': { types: { a: { timeoutMs: 'soon' } } },
  'a timeout of nothing': { types: { a: { timeoutMs: 0 } } },
  'a negative cost': { types: { a: { defaultCostMs: -1 } } },
  'half a job': { types: { a: { maxConcurrency: 1.5 } } },
  'an unknown tier of a type': { types: { a: { tier: 'high' } }, tiers: [{ tier: 'low' }] },
  'no tiers': { tiers: [] },
  'two tiers of one name': { tiers: [{ tier: 'x' }, { tier: 'x' }] },
  'a tier without a name': { tiers: [{ tier: '' }] },
  'a guarantee above the cap': { tiers: [{ tier: 'x', maxConcurrency: 1, guaranteed: 2 }] },
  'an unknown field of a tier': { tiers: [{ tier: 'x', weight: 2 }] },
  'a conflict group that is a number': { types: { a: { conflictGroup: 7 } } },
  'a cap for each resource beside a group': {
    types: { a: { conflictGroup: 'g', maxConcurrencyPerResource: 2 } },
  },
  'an unknown policy for lost workers': { types: { a: { onWorkerLost: 'ignore' } } },
  'no attempts': { types: { a: { retry: { maxAttempts: 0 } } } },
  'an unknown backoff': { types: { a: { retry: { backoff: 'random' } } } },
  'a longest delay below the first': { types: { a: { retry: { delayMs: '5m', maxDelayMs: '1m' } } } },
  'an unknown requirement': { types: { a: { requires: ['payload'] } } },
  'a fleet of an unknown type': { fleets: { f: { types: ['c'] } } },
  'a fleet without slots': { fleets: { f: { types: ['a'], slots: 0 } } },
  'a fleet with half a slot': { fleets: { f: { types: ['a'], slots: 0.5 } } },
  'a fleet of no type': { fleets: { f: { types: [] } } },
  'a fleet that names a type twice': { fleets: { f: { types: ['a', 'a'] } } },
  'no partitions': { partitions: 0 },
  'a negative weight': { fairness: { weights: { acme: -1 } } },
  'an unknown field of fairness': { fairness: { shares: {} } },
  'a pool below its partitions': { maxConcurrency: 1, partitions: 4 },
  'a schedule of an unknown type': { schedules: { s: { type: 'c', every: '1h' } } },
  'a schedule without a time': { schedules: { s: { type: 'a' } } },
  'a pattern that is none': { schedules: { s: { type: 'a', cron: '61 * * * *' } } },
  'an unknown zone': { schedules: { s: { type: 'a', cron: '0 2 * * *', zone: 'Mars/Base' } } },
  'a score that is text': { score: { priority: 'high' } },
  'units of a limit that its type is not under': { jobs: COUNTING },
  'units of a limit that counts starts': {
    jobs: COUNTING,
    types: { a: { limits: ['openai'] } },
    limits: { openai: { rate: { starts: 5, per: '1m' } } },
  },
};

const messageOf = (make: () => unknown): string => {
  try {
    make();
  } catch (error) {
    return String(error);
  }
  return 'nothing was refused';
};

describe('a declaration with', () => {
  it.each(Object.entries(BAD))('%s', (_, bad) => {
    const stack = new Stack(new App({ analyticsReporting: false }), 'S');
    const { jobs: own, ...declaration } = { jobs, ...bad };
    const construct = messageOf(() => new Scheduler(stack, 'Jobs', { jobs: own, ...declaration } as never));
    expect(construct).toMatch(/^ConfigurationError: /);
    expect(messageOf(() => declaredLocally(own, declaration as never))).toBe(construct);
  });
});
