/** What becomes of jobs whose worker process dies, by what their type declares; and of a process that cannot run its fleet's types. */

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { isTerminal, type Job } from '../../lib/core/job.ts';
import { submit } from '../../lib/submit/submit.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { type ProcessStage, processStage } from './process-stage.ts';

const TEST_MS = 120_000;
const configuration = resolveConfiguration({
  types: {
    long: { onWorkerLost: 'resume', timeoutMs: 60_000 },
    short: { onWorkerLost: 'retry', timeoutMs: 60_000 },
  },
  fleets: { processes: { types: ['long', 'short'] } },
});

describe('a fleet of processes', () => {
  let on: ProcessStage;
  beforeAll(async () => {
    on = await processStage(configuration, 'processes');
  }, TEST_MS);
  afterAll(() => on?.drop());

  const workers = async () =>
    (await on.context.store.loadPartition({ partition: 0, nowMs: Date.now() })).workers;

  it('gives what is resumed its last checkpoint, and what is tried again none, when their worker is killed; neither takes a done step again', {
    timeout: TEST_MS,
  }, async () => {
    const killed = on.start('lost-process.ts', 'killed');
    const nowMs = Date.now();
    const jobs = ['long', 'short'].map((type): Job => {
      const times = { readyAtMs: nowMs, runAtMs: nowMs, submittedAtMs: nowMs };
      return aJob({ id: randomUUID(), type, ...times });
    });
    const ids = jobs.map(({ id }) => id);
    await submit({ ...on.context, nowMs: Date.now }, jobs);
    const kept = (): number => on.journal().filter(({ what }) => what === 'kept').length;
    await on.dispatchUntil(ids, () => kept() === jobs.length);
    killed.kill('SIGKILL');
    await once(killed, 'exit');

    const next = on.start('lost-process.ts', 'next');
    await on.dispatchUntil(ids, (now) => now.every(({ state }) => isTerminal(state)));
    const ended = await on.context.store.getJobs({ ids });
    expect(ended.map((job) => [job?.state, job?.workersLost, job?.result])).toEqual([
      ['succeeded', 1, { after: { by: 'killed' }, stepBy: `killed of ${ids[0]}` }],
      ['succeeded', 1, { after: null, stepBy: `killed of ${ids[1]}` }],
    ]);
    next.kill('SIGTERM');
    expect(await once(next, 'exit')).toEqual([0, null]);
  });

  it('has no worker that lacks a handler: it ends as it starts, and names the types', {
    timeout: TEST_MS,
  }, async () => {
    const script = fileURLToPath(new URL('./fleet-process.ts', import.meta.url));
    const worker = spawn(process.execPath, [script, 'lacking', '/dev/null'], {
      env: on.environment,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const [said, [code]] = await Promise.all([text(worker.stderr), once(worker, 'exit')]);
    expect(said).toMatch(/has none for long, short, which fleet/);
    expect(code).toBe(1);
    expect(await workers()).toEqual([]);
  });
});
