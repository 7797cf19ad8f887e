/** What became of jobs on a real table: dispatchers that die, workers that are lost, operators that act. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StoreClient } from '../../lib/client/client.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { JobEvent } from '../../lib/core/history.ts';
import { TERMINAL_TTL_MS } from '../../lib/core/job.ts';
import type { RequestOf } from '../../lib/store/contract.ts';
import { attemptsIn } from '../fixtures/attempts-in.ts';
import { aWorker } from '../fixtures/factories/worker.ts';
import { instead } from '../simulation/instead.ts';
import { type TableStage, tableStage } from './table-stage.ts';

const WAIT_MS = 60_000;
/** A process counts as lost after a lease in which the partition was read steadily; passes come often enough for that. */
const STEP_MS = 4_000;
const STEPS_MAX = 60;

describe('the history of a job on a table', () => {
  const configuration = resolveConfiguration({
    types: { resize: { timeoutMs: 30_000, onWorkerLost: 'resume' } },
    fleets: { images: { types: ['resize'] } },
  });
  let on: TableStage;
  let client: StoreClient;

  beforeAll(async () => {
    on = await tableStage(configuration);
    client = new StoreClient({
      store: on.store,
      queue: { sendWake: async () => {} },
      configuration,
      clock: on.clock,
      newId: () => crypto.randomUUID().replaceAll('-', ''),
    });
  }, WAIT_MS);
  afterAll(() => on?.drop());

  it('tells of the worker that was lost, the failure, and who did what, whichever dispatcher died', {
    timeout: WAIT_MS,
  }, async () => {
    const worker = aWorker();
    const expiresAtMs = on.clock.nowMs() + STEP_MS * STEPS_MAX * 2;
    await on.store.registerWorker({
      partition: 0,
      record: { ...worker, fleet: 'images', slots: 1, occupants: [], expiresAtMs },
    });
    const { jobId } = await client.submit({ type: 'resize', runAt: '2100-01-01T00:00:00Z' });
    await client.retime(jobId, { runAt: '1970-01-01T00:00:00Z' }, { actor: 'ann' });
    const dead = on.dispatcher();
    // Behind its commit, before it tells the fleet.
    const dies = async (asked: RequestOf<'commit'>): Promise<never> => {
      await dead.store.commit(asked);
      throw new Error('the process was killed');
    };
    const killed = { ...dead, store: instead(dead.store, { commit: dies }) };
    // The index shows the job a little later.
    await expect
      .poll(
        () =>
          on.pass(killed).then(
            () => 'alive',
            (error: Error) => error.message,
          ),
        { timeout: 10_000 },
      )
      .toBe('the process was killed');

    const heir = on.dispatcher();
    const started = await untilSome(async () => {
      on.advance(STEP_MS);
      await on.pass(heir);
      return on.startAll('images');
    });
    const [job] = started;
    expect(job?.id).toBe(jobId);
    const again = await untilSome(async () => {
      on.advance(STEP_MS);
      await on.pass(heir);
      return on.startAll('images');
    });
    const [second] = again;
    if (second?.worker === undefined) throw new Error('nobody runs it');
    const nowMs = on.clock.nowMs();
    await on.store.finishJob({
      ...second.worker,
      job: second,
      verdict: { kind: 'failed', error: { name: 'Broken', message: 'it broke' } },
      nowMs,
      expiresAtMs: nowMs + TERMINAL_TTL_MS,
    });
    const other = await client.retry(jobId, { actor: 'bob' });

    const history = await client.history(jobId);
    expect(history.events.map(told)).toEqual([
      'submitted',
      'moved by ann',
      // Of the dispatcher that died there is nothing to tell: its place was kept.
      `attempt 1 of ${job?.worker?.workerId}: lost`,
      `attempt 1 of ${second.worker.workerId}: failed`,
      `redriven by bob as ${other.jobId}`,
    ]);
    expect(attemptsIn(history)).toEqual({ attempts: 2, losses: 1 });
    expect((await client.history(other.jobId)).events).toMatchObject([{ redriveOf: jobId, by: 'bob' }]);
  });

  /** Tries until something comes of it. */
  async function untilSome<T>(attempt: () => Promise<readonly T[]>): Promise<readonly T[]> {
    for (let step = 0; step < STEPS_MAX; step += 1) {
      const some = await attempt();
      if (some.length > 0) return some;
    }
    throw new Error(`nothing came of ${STEPS_MAX} tries`);
  }
});

function told(event: JobEvent): string {
  switch (event.kind) {
    case 'attempt':
      return `attempt ${event.attempt} of ${event.workerId}: ${event.outcome}`;
    case 'moved':
      return `moved by ${event.by}`;
    case 'redriven':
      return `redriven by ${event.by} as ${event.as}`;
    default:
      return event.kind;
  }
}
