/** Which partitions a trigger concerns, the wakes that go out for what is due soon, and what the bus is told. */
import { describe, expect, it } from 'vitest';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { publishOutcomes } from '../../lib/dispatch/outcomes.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import type { OutcomeEvent } from '../../lib/events/contract.ts';
import type { JobQueue } from '../../lib/queue/contract.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';

const parted = (): Stage =>
  stage({
    pool: {
      types: { resize: {} },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 6 } },
      partitions: 3,
    },
  });

/** A dispatcher, and the partitions that it has loaded. */
function loading(on: Stage): { readonly context: DispatchContext; readonly loaded: () => readonly number[] } {
  const loaded = new Set<number>();
  const loadPartition: JobStore['loadPartition'] = (asked) => {
    loaded.add(asked.partition);
    return on.store.loadPartition(asked);
  };
  return {
    context: on.dispatcher({ store: storeWith(on.store, { loadPartition }) }),
    loaded: () => [...loaded].sort(),
  };
}

describe('a trigger', () => {
  it('with jobs concerns their partitions only', async () => {
    const on = parted();
    const jobs = await on.put(on.job({ partition: 1 }), on.job({ partition: 2 }), on.job({ partition: 1 }));
    const { context, loaded } = loading(on);
    const reports = await on.finish(dispatchAll(context, { jobs, reason: 'stream' }));
    expect(reports.map(({ admitted }) => admitted).toSorted()).toEqual([1, 2]);
    expect(loaded()).toEqual([1, 2]);
  });

  it('that names partitions concerns those only', async () => {
    const { context, loaded } = loading(parted());
    await dispatchAll(context, { jobs: [], reason: 'wake', partitions: [2, 0, 2] });
    expect(loaded()).toEqual([0, 2]);
  });

  it('without jobs concerns all', async () => {
    const { context, loaded } = loading(parted());
    await dispatchAll(context, { jobs: [], reason: 'tick' });
    expect(loaded()).toEqual([0, 1, 2]);
  });

  it.each(['stream', 'ingest', 'wake', 'tick'] as const)(
    'of a %s promotes what is due, if it can know of it',
    async (reason) => {
      const on = stage();
      const [due] = await on.put(on.job({ state: 'scheduled' }));
      const jobs = reason === 'stream' && due !== undefined ? [due] : [];
      await on.finish(dispatchAll(on.main, { jobs, reason }));
      expect(on.stateOf(due?.id ?? '')).toBe('claimed');
    },
  );
});

describe('a wake that cannot be sent', () => {
  it('stops nothing: the next tick finds its work', async () => {
    const on = stage();
    const sendWake = (): Promise<void> => Promise.reject(new Error('no queue'));
    const queue = new Proxy<JobQueue>(on.queue, {
      get: (target, name) => (name === 'sendWake' ? sendWake : Reflect.get(target, name).bind(target)),
    });
    const soon = on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 10_000 });
    const [ready] = await on.put(on.job(), soon);
    await on.finish(dispatchAll(on.dispatcher({ queue }), { jobs: [soon], reason: 'ingest' }));
    expect(on.stateOf(ready?.id ?? '')).toBe('claimed');
    await on.finish(dispatchAll(on.main, { jobs: [], reason: 'tick' }));
    await on.advance(10_000);
    expect(on.wakes).toHaveLength(1);
  });
});

describe('the bus', () => {
  it('is told of every terminal job, and of no other', async () => {
    const on = stage();
    const states = [
      'scheduled',
      'pending',
      'claimed',
      'running',
      'succeeded',
      'failed',
      'cancelled',
    ] as const;
    const told = await publishOutcomes(
      on.bus,
      states.map((state) => aJob({ state, finishedAtMs: NOW_MS })),
    );
    expect(told).toBe(3);
    expect(on.published.map((event) => event.kind === 'outcome' && event.detail.state)).toEqual([
      'succeeded',
      'failed',
      'cancelled',
    ]);
  });

  it('is told what somebody who waits needs, and no payload', async () => {
    const on = stage();
    const error = { name: 'E', message: 'm' };
    const times = { submittedAtMs: 1, startedAtMs: 2, finishedAtMs: 3 };
    const job = aJob({
      state: 'failed',
      version: 7,
      attempt: 2,
      resourceId: 'r',
      label: 'l',
      tags: { order: '4711' },
      error,
      ...times,
    });
    await publishOutcomes(on.bus, [job]);
    const expected = {
      id: job.id,
      version: 7,
      type: 'resize',
      state: 'failed',
      fairnessKey: 'tenant-a',
      resourceId: 'r',
      label: 'l',
      tags: { order: '4711' },
      attempt: 2,
      error,
      ...times,
    };
    expect(on.published).toEqual([{ kind: 'outcome', detail: expected }]);
  });

  it('that takes only some makes all come again', async () => {
    const events = {
      publish: async (all: readonly OutcomeEvent[]) => all.slice(1).map((event) => ({ event })),
    };
    const jobs = [aJob({ state: 'succeeded' }), aJob({ state: 'failed' })];
    await expect(publishOutcomes(events, jobs)).rejects.toThrow('did not take 1 of 2 outcome events');
  });

  it('is not asked when there is nothing to tell', async () => {
    const events = { publish: () => Promise.reject(new Error('asked')) };
    expect(await publishOutcomes(events, [aJob()])).toBe(0);
  });
});
