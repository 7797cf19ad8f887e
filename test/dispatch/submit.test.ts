/** Submitting: the dispatcher knows of a line before a job stands in it, and is told again only after a while. */
import { describe, expect, it } from 'vitest';
import { ANNOUNCE_EVERY_MS, submit, tierOf } from '../../lib/dispatch/submit.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { StoreThrottled } from '../../lib/store/errors.ts';
import { type Stage, stage, storeWith } from './stage.ts';

/** Notes the verbs and what lines they were asked for. */
function watched(on: Stage): { readonly store: JobStore; readonly verbs: string[] } {
  const verbs: string[] = [];
  const store = storeWith(on.store, {
    announceLines: async (partition, lines, nowMs) => {
      verbs.push(`announce ${lines.map(({ fairnessKey }) => fairnessKey).sort()}`);
      return on.store.announceLines(partition, lines, nowMs);
    },
    createJobs: async (jobs) => {
      verbs.push(`create ${jobs.map(({ fairnessKey }) => fairnessKey).sort()}`);
      return on.store.createJobs(jobs);
    },
  });
  return { store, verbs };
}

describe('a line', () => {
  it('is announced before its jobs are put, and not again for some minutes', async () => {
    const on = stage();
    const { store, verbs } = watched(on);
    const context = on.submitter({ store });
    await submit(context, [on.job({ fairnessKey: 'a' }), on.job({ fairnessKey: 'a' })]);
    await submit(context, [on.job({ fairnessKey: 'a' }), on.job({ fairnessKey: 'b' })]);
    await on.advance(ANNOUNCE_EVERY_MS - 1);
    await submit(context, [on.job({ fairnessKey: 'a' })]);
    await on.advance(1);
    await submit(context, [on.job({ fairnessKey: 'a' })]);
    expect(verbs).toEqual([
      'announce a',
      'create a,a',
      'announce b',
      'create a,b',
      'create a',
      'announce a',
      'create a',
    ]);
  });

  it('is announced for each type, mode and key by itself', async () => {
    const on = stage();
    const { store, verbs } = watched(on);
    const context = on.submitter({ store });
    await submit(context, [on.job(), on.job({ mode: 'onDemand' })]);
    expect(verbs[0]).toBe('announce tenant-a,tenant-a');
    const { keys } = await on.store.readKeys(0, 'standard', 10);
    expect(keys[0]?.lines).toEqual([
      { type: 'resize', mode: 'queued' },
      { type: 'resize', mode: 'onDemand' },
    ]);
  });

  it('that could not be announced is tried again with the next job, and no job is put before', async () => {
    const on = stage();
    const context = on.submitter();
    const failing = {
      ...context,
      store: storeWith(on.store, { announceLines: () => Promise.reject(new StoreThrottled('busy')) }),
    };
    await expect(submit(failing, [on.job()])).rejects.toThrow('busy');
    expect([...on.store.everyJob()]).toEqual([]);
    await submit(context, [on.job()]);
    expect((await on.store.readKeys(0, 'standard', 10)).keys).toHaveLength(1);
  });

  it('of a job for later is announced too', async () => {
    const on = stage();
    await on.put(on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 1_000 }));
    expect((await on.store.readKeys(0, 'standard', 10)).keys).toHaveLength(1);
  });

  it('is remembered with a bound: beyond it, all are announced again', async () => {
    const on = stage();
    const { store, verbs } = watched(on);
    const announced = new Map(Array.from({ length: 50_000 }, (_, n) => [`line ${n}`, on.time.nowMs]));
    await submit(on.submitter({ store, announced }), [on.job()]);
    expect(announced.size).toBe(1);
    expect(verbs[0]).toBe('announce tenant-a');
  });
});

describe('submitting', () => {
  it('nothing asks the store for nothing', async () => {
    const on = stage();
    const { store, verbs } = watched(on);
    expect(await submit(on.submitter({ store }), [])).toEqual([]);
    expect(verbs).toEqual([]);
  });

  it('answers in the order of the jobs, each created once', async () => {
    const on = stage();
    const one = on.job();
    const [first] = await submit(on.submitter(), [one]);
    const outcomes = await submit(on.submitter(), [on.job(), one, { ...one, contentHash: 'other' }]);
    expect(first).toEqual({ kind: 'created', job: one });
    expect(outcomes.map(({ kind }) => kind)).toEqual(['created', 'repeated', 'conflict']);
  });
});

describe("a type's tier", () => {
  it('is the one it declares, and for a type that is gone the highest', () => {
    const on = stage({
      pool: {
        types: { low: { tier: 'low' } },
        tiers: [{ tier: 'high' }, { tier: 'low' }],
        fleets: { all: { types: ['low'], slots: 1 } },
      },
    });
    expect(tierOf(on.configuration, 'low')).toBe('low');
    expect(tierOf(on.configuration, 'gone')).toBe('high');
    expect(() => tierOf({ ...on.configuration, tiers: [] }, 'gone')).toThrow(
      'no tier for the job type "gone"',
    );
  });
});
