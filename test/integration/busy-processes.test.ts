/** Real worker processes whose handlers keep the event loop busy: for longer than their lease, and for ever. */
import { type ChildProcess, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { isTerminal, type Job } from '../../lib/core/job.ts';
import { submit } from '../../lib/submit/submit.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { type ProcessStage, processStage } from './process-stage.ts';

const TEST_MS = 120_000;
const ENDLESS_TIMEOUT_MS = 2_000;

const configuration = resolveConfiguration({
  types: {
    block: { conflictGroup: 'shelf', maxConcurrency: 2, timeoutMs: 60_000 },
    spin: { timeoutMs: ENDLESS_TIMEOUT_MS },
    hang: { timeoutMs: ENDLESS_TIMEOUT_MS },
  },
  fleets: { processes: { types: ['block', 'spin', 'hang'] } },
});

/** Starts a program as the first process of a namespace, as a container does. */
const FIRST_PROCESS = ['unshare', '--user', '--map-root-user', '--pid', '--fork', '--kill-child'];
const [unshare = '', ...unshareOptions] = FIRST_PROCESS;
const canUnshare = spawnSync(unshare, [...unshareOptions, 'true']).status === 0;

const put = async (on: ProcessStage, changes: readonly Partial<Job>[]): Promise<readonly string[]> => {
  const nowMs = Date.now();
  const jobs = changes.map((each) =>
    aJob({ id: randomUUID(), readyAtMs: nowMs, runAtMs: nowMs, submittedAtMs: nowMs, ...each }),
  );
  await submit({ ...on.context, nowMs: Date.now }, jobs);
  return jobs.map((job) => job.id);
};

const stop = async (worker: ChildProcess): Promise<number | null> => {
  worker.kill('SIGTERM');
  const [code] = (await once(worker, 'exit')) as [number | null];
  return code;
};

/** Runs a test on a stage of its own: they wait most of their time, so they wait together. */
const staged = (test: (on: ProcessStage) => Promise<void>) => async (): Promise<void> => {
  const on = await processStage(configuration, 'processes');
  try {
    await test(on);
  } finally {
    await on.drop();
  }
};

describe.concurrent('a worker process whose handler keeps the event loop busy', () => {
  const endless =
    (type: 'spin' | 'hang', launcher: readonly string[] = []) =>
    async (on: ProcessStage): Promise<void> => {
      const busy = on.start('busy-process.ts', `busy ${launcher.length}`, launcher);
      const gone = once(busy, 'exit').then(([code, signal]) => ({ atMs: Date.now(), code, signal }));
      const ids = await put(on, [{ type }]);
      const entries = () => on.journal().filter(({ jobId }) => jobId === ids[0]);
      await on.dispatchUntil(ids, () => entries().length > 0);
      const other = on.start('busy-process.ts', `other ${launcher.length}`);
      await on.dispatchUntil(ids, ([job]) => job !== undefined && isTerminal(job.state));
      const { atMs, code, signal } = await gone;
      expect(code ?? signal).toBe(launcher.length === 0 ? 'SIGKILL' : 137);
      const [first, second, ...more] = entries();
      expect(more).toEqual([]);
      expect(atMs - (first?.atMs ?? 0)).toBeGreaterThan(ENDLESS_TIMEOUT_MS);
      expect(second?.atMs).toBeGreaterThan(atMs);
      const [job] = await on.context.store.getJobs({ ids });
      expect(job).toMatchObject({
        state: 'succeeded',
        // Its guard has said so before it ended the process: the handler had timed out.
        attempt: 2,
        workersLost: 0,
        result: { by: `other ${launcher.length}` },
      });
      expect(await stop(other)).toBe(0);
    };

  it(
    'for ever is ended at its timeout, and its job starts again after that',
    { timeout: TEST_MS },
    staged(endless('spin')),
  );

  it.runIf(canUnshare)(
    'for ever is ended at its timeout, also as the first process of a container, which the kernel spares',
    { timeout: TEST_MS },
    staged(endless('hang', FIRST_PROCESS)),
  );
});
