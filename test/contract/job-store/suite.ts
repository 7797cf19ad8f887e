/** What the files of this suite share: one store, opened once, and the ways to bring a job into a state. */
import { afterAll, beforeAll, expect, vi } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import type { Verdict } from '../../../lib/core/life-cycle.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { ReadyLine } from '../../../lib/store/contract/lines.ts';
import type { EstimateRecord, WorkerIdentity } from '../../../lib/store/contract/records.ts';
import type { Commit, CommitOutcome } from '../../../lib/store/contract/requests.ts';
import { aClaimRequest } from '../../fixtures/factories/claim-request.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aWorker } from '../../fixtures/factories/worker.ts';
import type { JobStoreHarness } from '../harness.ts';

export const EXPIRES_AT_MS = NOW_MS + 7 * 24 * 3_600_000;
export const SUCCESS: Verdict = { kind: 'succeeded', result: { ok: true } };
export const FAILURE: Verdict = { kind: 'failed', error: { name: 'Broken', message: 'it broke' } };
export const TABLE_WAIT_MS = 60_000;
export const CONCURRENT_MS = 30_000;
/** The index may lag: so long at most. */
export const SHOWN = { timeout: 10_000 };

export const retryAt = (runAtMs: number): Verdict => ({
  kind: 'retry',
  error: { name: 'Flaky', message: 'try again' },
  runAtMs,
});

export const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));

export type StoreSuite<Store extends CoreStore> = ReturnType<typeof openSuite<Store>>;

/** Opens the store before the first test and closes it after the last one: to be called within a `describe`. */
export function openSuite<Store extends CoreStore>(makeHarness: () => Promise<JobStoreHarness<Store>>) {
  let harness: JobStoreHarness<Store>;
  let store: Store;
  let partitions = 0;

  beforeAll(async () => {
    harness = await makeHarness();
    store = harness.store;
  }, TABLE_WAIT_MS);
  afterAll(async () => {
    await harness?.close();
  });

  /** Tests share a table: each takes a partition of its own. */
  const freshPartition = (): number => {
    partitions += 1;
    return partitions;
  };

  const created = async (job: Job): Promise<Job> => {
    const [outcome] = await store.createJobs([job]);
    expect(outcome?.kind).toBe('created');
    return job;
  };

  const stored = async (id: string): Promise<Job> => {
    const [job] = await store.getJobs({ ids: [id] });
    if (job === undefined) throw new Error(`no job ${id}`);
    return job;
  };

  const claimedJob = async (job: Job = aJob(), changes = {}): Promise<{ job: Job; claimId: string }> => {
    await created(job);
    const request = aClaimRequest(job, changes);
    expect(await store.claim([request])).toEqual(['claimed']);
    return { job: await stored(job.id), claimId: request.claimId };
  };

  const runningJob = async (
    job: Job = aJob(),
    worker: WorkerIdentity = aWorker(),
  ): Promise<{ job: Job; worker: WorkerIdentity; claimId: string }> => {
    const { claimId } = await claimedJob(job);
    const outcome = await store.startJob({ ...worker, jobId: job.id, claimId, nowMs: NOW_MS + 5 });
    if (outcome.kind !== 'started') throw new Error('not started');
    return { job: outcome.job, worker, claimId };
  };

  /** A job that ended, and is kept so long. */
  const endedJob = async (keptMs: number, verdict: Verdict): Promise<Job> => {
    const { job, worker } = await runningJob();
    const expiresAtMs = NOW_MS + keptMs;
    await store.finishJob({ ...worker, job, verdict, nowMs: NOW_MS + 9, expiresAtMs });
    return stored(job.id);
  };

  const finish = (job: Job, worker: WorkerIdentity, verdict: Verdict) =>
    store.finishJob({ ...worker, job, verdict, nowMs: NOW_MS + 9, expiresAtMs: EXPIRES_AT_MS });

  const versionOf = async (partition: number): Promise<number> =>
    (await store.loadPartition({ partition, nowMs: NOW_MS })).version;

  /** Commits on top of what was committed last. */
  const commit = async (partition: number, changes: Partial<Commit> = {}): Promise<CommitOutcome> =>
    store.commit({ partition, commit: aCommit({ version: await versionOf(partition), ...changes }) });

  /** What resources cost is put behind a commit, and may get lost there: it is learned again until it is there. */
  const untilLearned = async (partition: number, estimates: readonly EstimateRecord[]): Promise<void> => {
    for (let lost = 0; lost < 20; lost += 1) {
      const found = await store.getEstimates({ partition, ids: estimates });
      const missing = estimates.filter((_, at) => found[at] === undefined);
      if (missing.length === 0) return;
      await commit(partition, { estimates: missing });
    }
  };

  /** The index may lag: reads it until it shows what was written. */
  const untilLine = (partition: number, line: ReadyLine, ids: readonly string[]) =>
    vi.waitFor(async () => {
      const { jobs } = await store.readLine({ partition, line, limit: 100 });
      expect(jobs.map((job) => job.id)).toEqual(ids);
    }, SHOWN);
  const untilDue = (partition: number, nowMs: number, ids: readonly string[]) =>
    vi.waitFor(async () => {
      const { jobs } = await store.readDue({ partition, nowMs, limit: 100 });
      expect(jobs.map((job) => job.id)).toEqual(ids);
    }, SHOWN);
  const untilKeys = (partition: number, type: string, keys: readonly string[]) =>
    vi.waitFor(async () => {
      const read = await store.readKeys({ partition, type, limit: 100 });
      expect(read.keys.map((key) => key.fairnessKey)).toEqual(keys);
    }, SHOWN);

  return {
    /** There from the first `beforeAll` on. */
    opened: (): JobStoreHarness<Store> => harness,
    freshPartition,
    created,
    stored,
    claimedJob,
    runningJob,
    endedJob,
    finish,
    versionOf,
    commit,
    untilLearned,
    untilLine,
    untilDue,
    untilKeys,
  };
}
