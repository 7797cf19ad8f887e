import { describe, expect, it } from 'vitest';
import { StalledError } from '../../examples/failures.ts';
import { type Outcome, type WatchOptions, watch } from '../../examples/files/watch.ts';
import type { Job, JobState } from '../../lib/core/job.ts';

const job = (id: string, state: JobState, version = 1): Job => ({
  id,
  type: 'index',
  priority: 0,
  mode: 'queued',
  fairnessKey: '.',
  readyAtMs: 0,
  version,
  attempt: 1,
  partition: 0,
  state,
  payload: null,
  contentHash: '',
  runAtMs: 0,
  submittedAtMs: 0,
  workersLost: 0,
});

/** A table whose jobs the test moves, a queue of outcomes, and a clock that runs on with every poll. */
function world(jobs: readonly Job[]) {
  const table = new Map(jobs.map((each) => [each.id, each]));
  const outcomes: Outcome[][] = [];
  let nowMs = 0;
  const reads: string[][] = [];
  const options: WatchOptions = {
    jobIds: jobs.map((each) => each.id),
    jobIdAt: (eventId, position) => (eventId === 'event' ? jobs[position]?.id : undefined),
    receive: async () => {
      nowMs += 1_000;
      return outcomes.shift() ?? [];
    },
    getJobs: async (ids) => {
      reads.push([...ids]);
      return ids.map((id) => table.get(id));
    },
    onProgress: () => {},
    monotonicMs: () => nowMs,
    signal: new AbortController().signal,
    quietMs: 5_000,
    stalledMs: 60_000,
  };
  return { table, outcomes, reads, options };
}

describe('following jobs to their end', () => {
  it('reads the jobs that events tell of, and ends with the last of them', async () => {
    const { table, outcomes, reads, options } = world([job('a', 'pending'), job('b', 'pending')]);
    table.set('a', job('a', 'succeeded')).set('b', job('b', 'failed'));
    outcomes.push(
      [{ kind: 'ended', jobId: 'a' }],
      [
        { kind: 'ended', jobId: 'b' },
        { kind: 'ended', jobId: 'other' },
      ],
    );
    const { jobs } = await watch(options);
    expect([...jobs.values()].map((each) => each.state)).toEqual(['succeeded', 'failed']);
    expect(reads).toEqual([['a'], ['b']]);
  });

  it('believes the table, not an event', async () => {
    const { table, outcomes, options } = world([job('a', 'running')]);
    outcomes.push([{ kind: 'ended', jobId: 'a' }]);
    const progress: number[] = [];
    await watch({
      ...options,
      onProgress: (ended) => {
        progress.push(ended.size);
        table.set('a', job('a', 'succeeded'));
      },
    });
    expect(progress[0]).toBe(0);
  });

  it('asks the table when no event comes', async () => {
    const { table, options } = world([job('a', 'pending')]);
    table.set('a', job('a', 'succeeded'));
    expect((await watch(options)).jobs.size).toBe(1);
  });

  it('counts a rejected request as ended, with its reason', async () => {
    const { outcomes, options } = world([job('a', 'pending'), job('b', 'pending')]);
    outcomes.push([
      { kind: 'rejected', eventId: 'event', position: 0, reason: 'jobs[0].type: unknown' },
      { kind: 'rejected', eventId: 'event', position: 1, reason: 'no' },
      { kind: 'rejected', eventId: 'another', position: 0, reason: 'not ours' },
    ]);
    const { rejected } = await watch(options);
    expect(Object.fromEntries(rejected)).toEqual({ a: 'jobs[0].type: unknown', b: 'no' });
  });

  it('gives up when nothing changes, and says where the jobs stand', async () => {
    const { table, options } = world([job('a', 'pending'), job('b', 'running'), job('c', 'pending')]);
    table.delete('c');
    await expect(watch(options)).rejects.toThrow(StalledError);
    await expect(watch(options)).rejects.toThrow(
      '0 of 3 jobs ended, of the others 1 pending, 1 running, 1 not stored',
    );
  });

  it('does not give up while jobs still change', async () => {
    const { table, options } = world([job('a', 'pending', 1)]);
    let polls = 0;
    const { jobs } = await watch({
      ...options,
      getJobs: async () => {
        polls += 1;
        table.set('a', polls < 40 ? job('a', 'pending', polls) : job('a', 'succeeded', polls));
        return [table.get('a')];
      },
    });
    expect(jobs.size).toBe(1);
    expect(polls).toBe(40);
  });

  it('ends with the signal', async () => {
    const { options } = world([job('a', 'pending')]);
    await expect(watch({ ...options, signal: AbortSignal.abort(new Error('interrupted')) })).rejects.toThrow(
      'interrupted',
    );
  });
});
