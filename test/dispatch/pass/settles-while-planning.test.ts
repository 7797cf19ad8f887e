/** A settlement of several commits: it is written while the pass plans, and before anything is claimed. */

import { describe, expect, it } from 'vitest';
import { ThrottledError } from '../../../lib/core/errors.ts';
import type { Job } from '../../../lib/core/job.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import type { MemoryJobQueue } from '../../../lib/queue/memory/queue.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

const KEYS = 240;
const COMMIT_MS = 100;

/** As many jobs as there are keys have ended, nobody has been told, and as many wait again. */
async function ended(): Promise<{
  readonly on: Stage;
  readonly over: readonly Job[];
  readonly next: readonly Job[];
}> {
  const on = stage({
    pool: {
      types: { resize: { timeoutMs: 30_000 } },
      fleets: { images: { types: ['resize'], slots: KEYS } },
    },
  });
  const ofEachKey = (): Job[] =>
    Array.from({ length: KEYS }, (_, at) => on.job({ fairnessKey: `key-${at}` }));
  await on.put(...ofEachKey());
  await on.pass();
  const started = await on.startAll('images');
  const over = await Promise.all(started.map((each) => on.end(each)));
  const next = await on.put(...ofEachKey());
  return { on, over, next };
}

interface Watched {
  readonly context: DispatchContext;
  /** Verbs by their beginnings and, for commits, their ends. */
  readonly order: string[];
}

/** A dispatcher whose commits take their time. */
function slowly(on: Stage, own: Partial<JobStore> = {}): Watched {
  const order: string[] = [];
  const noted = <Verb extends 'readLine' | 'stopLeading'>(verb: Verb): Partial<JobStore> => ({
    [verb]: (request: never) => {
      order.push(verb);
      return (own[verb] ?? on.store[verb].bind(on.store))(request);
    },
  });
  const store = storeWith<JobStore>(on.store, {
    ...noted('readLine'),
    ...noted('stopLeading'),
    commit: async (request) => {
      order.push('commit');
      await on.clock.sleep(COMMIT_MS);
      const outcome = await (own.commit ?? on.store.commit.bind(on.store))(request);
      order.push(outcome);
      return outcome;
    },
  });
  const send: MemoryJobQueue['send'] = (fleet, jobs, together) => {
    order.push('send');
    return on.queue.send(fleet, jobs, together);
  };
  return { context: on.dispatcher({ store, queue: storeWith(on.queue, { send }) }), order };
}

describe('a settlement of several commits', () => {
  it('is written while lines are read, and before anything is told of', async () => {
    const { on, over, next } = await ended();
    const { context, order } = slowly(on);
    const report = await on.pass({ reason: 'stream', jobs: [...over, ...next] }, context);
    expect(report).toMatchObject({ kind: 'done', settled: KEYS, admitted: KEYS });
    expect(new Set(on.states(next))).toEqual(new Set(['claimed']));
    const firstWritten = order.indexOf('committed');
    const read = order.indexOf('readLine');
    expect(read).toBeGreaterThan(order.indexOf('commit'));
    expect(read).toBeLessThan(firstWritten);
    expect(order).toContain('send');
    const beforeMessages = order.slice(0, order.indexOf('send')).filter((each) => each === 'committed');
    // Two of the settlement at least, and the one that reserves.
    expect(beforeMessages.length).toBeGreaterThanOrEqual(3);
  });

  it('that somebody else overtook lets nothing start', async () => {
    const { on, over, next } = await ended();
    const { context, order } = slowly(on, { commit: async () => 'lost' });
    const report = await on.pass({ reason: 'stream', jobs: [...over, ...next] }, context);
    expect(report.kind).toBe('lost');
    expect(order).not.toContain('send');
    // Each of its tries ends with the first commit that is lost.
    expect(order.filter((each) => each === 'commit')).toHaveLength(3);
    expect(new Set(on.states(next))).toEqual(new Set(['pending']));
  });

  it('that could not be written fails the pass, which has told of nothing', async () => {
    const { on, over, next } = await ended();
    const { context, order } = slowly(on, {
      commit: async () => Promise.reject(new ThrottledError('commit: too many requests')),
    });
    await expect(on.pass({ reason: 'stream', jobs: [...over, ...next] }, context)).rejects.toThrow(
      'too many requests',
    );
    expect(order).not.toContain('send');
  });
});
