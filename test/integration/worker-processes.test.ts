/** A worker process, as it is deployed, that is told to end. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { historyOf } from '../../lib/core/history.ts';
import type { Job } from '../../lib/core/job.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import { submit } from '../../lib/submit/submit.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { type ProcessStage, processStage } from './process-stage.ts';

const TEST_MS = 120_000;
const configuration = resolveConfiguration({
  types: { work: { onWorkerLost: 'resume', conflictGroup: 'shelf', timeoutMs: 60_000 } },
  fleets: { processes: { types: ['work'] } },
});

/** Less than any message of the queue stays hidden, and than any other look would take. */
const AT_ONCE_MS = 10_000;

describe('a worker process that is told to end', () => {
  let on: ProcessStage;

  beforeAll(async () => {
    on = await processStage(configuration, 'processes', DISPATCH_BUDGET.checkAfterMs);
  }, TEST_MS);

  afterAll(() => on?.drop());

  it('gives its job back, which counts nothing, and starts at once where a slot is free', {
    timeout: TEST_MS,
  }, async () => {
    const leaving = on.start('fleet-process.ts', 'leaving');
    const nowMs = Date.now();
    const times = { readyAtMs: nowMs, runAtMs: nowMs, submittedAtMs: nowMs };
    const job = aJob({ id: randomUUID(), type: 'work', payload: { forMs: 15_000 }, ...times });
    await submit({ ...on.context, nowMs: Date.now }, [job]);
    await on.dispatchUntil([job.id], () => on.journal().length > 0);
    // It waits for more in the queue, and so does the other one: whichever is served first.
    on.start('fleet-process.ts', 'lasting');
    await on.dispatchUntil([job.id], () => on.outputOf('lasting').includes('worker registered'));
    leaving.kill('SIGTERM');
    const toldAtMs = Date.now();
    const begun = () => on.journal().find(({ by, what }) => by === 'lasting' && what === 'begin');
    await on.dispatchUntil([job.id], () => begun() !== undefined);
    expect((begun()?.atMs ?? Infinity) - toldAtMs).toBeLessThan(AT_ONCE_MS);
    await on.dispatchUntil([job.id], ([now]) => now?.state === 'succeeded');
    const [done] = await on.context.store.getJobs({ ids: [job.id] });
    expect(done).toMatchObject({ attempt: 1, workersLost: 0 });
    // A middleware of the process has added the name.
    expect(done?.result).toEqual({ by: 'lasting', after: { by: 'leaving' } });
    expect(historyOf(done as Job).events).toMatchObject([
      { kind: 'submitted' },
      { outcome: 'released' },
      { outcome: 'succeeded' },
    ]);
  });
});
