/** What a pass puts into the messages to its fleets. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import type { FleetInput } from '../../../lib/core/pool-input.ts';
import { redriveJob } from '../../../lib/operate/redrive.ts';
import { FUNCTION_END_MS } from '../../../lib/worker/run-job.ts';
import { aWorkerRecord } from '../../fixtures/factories/worker.ts';
import { FAILED, type Stage, stage } from '../../stage/stage.ts';

const TIMEOUT_MS = 30_000;
const HIDE_MS = 600_000;

const setting = (fleet: Omit<FleetInput, 'types'>): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: TIMEOUT_MS, retry: { delayMs: 1, jitter: 'none' } } },
      fleets: { images: { types: ['resize'], ...fleet } },
    },
  });

const waiting = async (on: Stage, count: number): Promise<readonly Job[]> =>
  on.put(...Array.from({ length: count }, () => on.job()));

/** The jobs of each message that is there. */
async function told(on: Stage): Promise<readonly (readonly string[])[]> {
  const received = [];
  for (;;) {
    const more = await on.queue.receive('images', 10, 0, HIDE_MS);
    if (more.length === 0) return received.map(({ jobs }) => jobs.map(({ jobId }) => jobId));
    received.push(...more);
  }
}

const sizes = (messages: readonly (readonly string[])[]): readonly number[] =>
  messages.map(({ length }) => length);

describe('a fleet of functions', () => {
  it('is told of ten jobs in a message, each once', async () => {
    const on = setting({ slots: 40 });
    const jobs = await waiting(on, 23);
    await on.pass();
    const messages = await told(on);
    expect(sizes(messages)).toEqual([10, 10, 3]);
    expect(messages.flat().sort()).toEqual(jobs.map(({ id }) => id).sort());
  });

  it.each([1, 4])('is told of as many as its batchSize says: %i', async (batchSize) => {
    const on = setting({ slots: 40, batchSize });
    await waiting(on, 9);
    await on.pass();
    expect(Math.max(...sizes(await told(on)))).toBe(batchSize);
  });

  it('is told of a job by itself that a function has begun before, whatever became of that', async () => {
    const on = setting({ slots: 60 });
    const [failing, lost] = await waiting(on, 2);
    await on.pass();
    const [ofFailing] = (await on.startAll('images')).filter(({ job }) => job.id === failing?.id);
    if (ofFailing === undefined) throw new Error('nothing was sent');
    const error = { name: 'Broken', message: 'it broke' };
    const failed = await on.end(ofFailing, { kind: 'retry', error, runAtMs: on.time.nowMs + 1 });
    await on.advance(1_000);
    const others = await waiting(on, 3);
    await on.pass({ jobs: [failed] });
    expect(await told(on)).toEqual(
      expect.arrayContaining([[failing?.id], expect.arrayContaining(others.map(({ id }) => id))]),
    );

    await on.advance(TIMEOUT_MS + FUNCTION_END_MS);
    const alone: string[] = [];
    // A loss waits until the partition was read for a while.
    for (let pass = 0; pass < 10; pass += 1) {
      await on.advance(30_000);
      await waiting(on, 2);
      await on.pass();
      for (const message of await told(on))
        if (message.length === 1) alone.push(...message);
        else expect(message).not.toContain(lost?.id);
    }
    expect(on.store.inspectJob(lost?.id ?? '')?.workersLost).toBe(1);
    expect(alone).toContain(lost?.id);
  });

  it('is told by itself of the other try of a dead letter, which may be what ended its processes', async () => {
    const on = setting({ slots: 40 });
    await waiting(on, 1);
    await on.pass();
    const [begun] = await on.startAll('images');
    if (begun === undefined) throw new Error('nothing was sent');
    await on.pass({ jobs: [await on.end(begun, FAILED)] });
    const redriven = await redriveJob(on.submitter(), begun.job.id);
    if (redriven.kind !== 'redriven') throw new Error(redriven.kind);
    const others = await waiting(on, 3);
    await on.pass({ jobs: others });
    const messages = await told(on);
    expect(messages).toContainEqual([redriven.jobId]);
    expect(messages).toHaveLength(2);
  });

  it('is told again of each job by itself whose message nobody took', async () => {
    const on = setting({ slots: 40 });
    const jobs = await waiting(on, 5);
    await on.pass();
    const ids = jobs.map(({ id }) => id).sort();
    for (const expected of [[5], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]]) {
      const messages = await told(on);
      expect(sizes(messages)).toEqual(expected);
      expect(messages.flat().sort()).toEqual(ids);
      await on.advance(on.main.budget.checkAfterMs + 1_000);
      await on.pass();
    }
  });
});

describe('a fleet of processes', () => {
  it('is told of each job by itself: a message is for one slot', async () => {
    const on = setting({ slots: null });
    const expiresAtMs = on.time.nowMs + 60_000;
    const record = aWorkerRecord({ workerId: 'w', incarnation: 'i', fleet: 'images', slots: 6, expiresAtMs });
    await on.store.registerWorker({ partition: 0, record });
    await on.store.heartbeat({ partition: 0, record });
    await waiting(on, 6);
    await on.pass();
    expect(sizes(await told(on))).toEqual([1, 1, 1, 1, 1, 1]);
  });
});

describe('a job that waited', () => {
  const conflicting = (slots: number | null): Stage =>
    stage({
      pool: {
        types: { resize: { timeoutMs: TIMEOUT_MS, conflictGroup: 'album' } },
        fleets: { images: { types: ['resize'], slots } },
      },
    });
  /** Runs a job until another one of its album has come, and returns what the message of that one names. */
  const blockersOfSecond = async (on: Stage, meanwhile: () => Promise<unknown>): Promise<unknown> => {
    await on.pass({ jobs: await on.put(on.job({ resourceId: '7' })) });
    const [running] = await on.startAll('images');
    if (running === undefined) throw new Error('nothing was sent');
    await on.pass({ jobs: await on.put(on.job({ resourceId: '7' })) });
    await on.advance(1_000);
    const ended = await on.end(running);
    await meanwhile();
    await on.pass({ jobs: [ended] });
    const [received] = await on.queue.receive('images', 1, 0, HIDE_MS);
    return received?.jobs[0]?.blockedBy;
  };

  it('is not said to have waited for a slot of a process that has gone', async () => {
    const on = conflicting(null);
    const expiresAtMs = on.time.nowMs + 60_000;
    const register = async (workerId: string) => {
      const record = aWorkerRecord({ workerId, fleet: 'images', slots: 1, expiresAtMs });
      await on.store.registerWorker({ partition: 0, record });
      return record;
    };
    const busy = await register('busy');
    await register('idle');
    const leave = () => on.store.deregisterWorker({ partition: 0, worker: busy });
    expect(await blockersOfSecond(on, leave)).toEqual(['conflict album/7']);
  });

  it('is said to have waited for what is still there when the end of the attempt is settled', async () => {
    const on = conflicting(1);
    expect(await blockersOfSecond(on, async () => {})).toEqual(['noSlot fleet/images', 'conflict album/7']);
  });
});
