/** Worker processes as they are deployed: several, real, and one of them killed in the middle. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { historyOf } from '../../lib/core/history.ts';
import { isTerminal, type Job } from '../../lib/core/job.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/context.ts';
import { submit } from '../../lib/dispatch/submit.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { type ProcessStage, processStage } from './process-stage.ts';

const JOBS = 50;
const SLOTS_OF_ONE = 3;
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
    expect(historyOf(done as Job).events).toMatchObject([
      { kind: 'submitted' },
      { outcome: 'released' },
      { outcome: 'succeeded' },
    ]);
  });
});

describe('worker processes', () => {
  let on: ProcessStage;

  beforeAll(async () => {
    on = await processStage(configuration, 'processes');
  }, TEST_MS);

  afterAll(() => on?.drop());

  it('lose nothing when one of them is killed in the middle, and overlap nowhere', {
    timeout: TEST_MS,
  }, async () => {
    const killed = on.start('fleet-process.ts', 'killed');
    const lasting = on.start('fleet-process.ts', 'lasting');
    const nowMs = Date.now();
    const jobs = Array.from({ length: JOBS }, (_, n) =>
      aJob({
        id: randomUUID(),
        type: 'work',
        // Ten pairs must not run together.
        ...(n < 20 ? { resourceId: `shelf-${n % 10}` } : {}),
        // Some are long enough to be met in the middle.
        payload: { forMs: n % 3 === 0 ? 4_000 : 100 },
        readyAtMs: nowMs,
        runAtMs: nowMs,
        submittedAtMs: nowMs,
      }),
    );
    const ids = jobs.map((job) => job.id);
    await submit({ ...on.context, nowMs: Date.now }, jobs);

    const busyWith = (name: string): number => {
      const entries = on.journal().filter((entry) => entry.by === name);
      return (
        entries.filter(({ what }) => what === 'begin').length -
        entries.filter(({ what }) => what === 'end').length
      );
    };
    await on.dispatchUntil(
      ids,
      (now) => now.filter((job) => job.state === 'succeeded').length >= 10 && busyWith('killed') > 0,
    );
    killed.kill('SIGKILL');
    await once(killed, 'exit');
    const killedAtMs = Date.now();
    await on.dispatchUntil(ids, (now) => now.every((job) => isTerminal(job.state)));

    const done = (await on.context.store.getJobs({ ids })).filter((job) => job !== undefined);
    expect(done.map((job) => job.state)).toEqual(ids.map(() => 'succeeded'));
    const lost = done.filter((job) => job.workersLost > 0);
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.length).toBeLessThanOrEqual(SLOTS_OF_ONE);
    // Whoever took over went on from what the killed one had kept, where it had come so far.
    for (const { result } of lost) {
      expect([{ by: 'killed' }, null]).toContainEqual((result as { readonly after: unknown }).after);
    }

    const entries = on.journal();
    for (const id of ids) {
      const ended = entries.filter(({ jobId, what }) => jobId === id && what === 'end');
      const isLost = lost.some((job) => job.id === id);
      // A killed process may have come to the end of its work, but not to that of its job.
      expect(ended.length).toBeGreaterThanOrEqual(1);
      expect(ended.length).toBeLessThanOrEqual(isLost ? 2 : 1);
    }
    for (const name of ['killed', 'lasting']) {
      let running = 0;
      for (const { what } of entries.filter(({ by }) => by === name)) {
        running += what === 'begin' ? 1 : -1;
        expect(running).toBeLessThanOrEqual(SLOTS_OF_ONE);
      }
    }
    for (let shelf = 0; shelf < 10; shelf += 1) {
      const pair = [ids[shelf], ids[shelf + 10]];
      const intervals = pair.flatMap((id) =>
        entries
          .filter(({ jobId, what }) => jobId === id && what === 'begin')
          .map(({ by, atMs }) => {
            const end = entries.find(
              (entry) => entry.jobId === id && entry.by === by && entry.what === 'end',
            );
            return { id, fromMs: atMs, toMs: end?.atMs ?? killedAtMs };
          }),
      );
      for (const one of intervals) {
        for (const other of intervals) {
          if (one.id !== other.id) expect(one.toMs <= other.fromMs || other.toMs <= one.fromMs).toBe(true);
        }
      }
    }

    lasting.kill('SIGTERM');
    const [code] = (await once(lasting, 'exit')) as [number | null];
    expect(code).toBe(0);
    // What it has started stands in its output, as CloudWatch takes it from a log.
    const told = on
      .outputOf('lasting')
      .split('\n')
      .flatMap((line) => (line.includes('"_aws"') ? [JSON.parse(line) as Record<string, unknown>] : []));
    const countOf = (value: unknown): number => (typeof value === 'number' ? value : 0);
    expect(told.reduce((sum, { JobsStarted }) => sum + countOf(JobsStarted), 0)).toBe(
      entries.filter(({ by, what }) => by === 'lasting' && what === 'begin').length,
    );
    // The one expired, the other left.
    expect((await on.context.store.loadPartition({ partition: 0, nowMs: Date.now() })).workers).toEqual([]);
  });
});
