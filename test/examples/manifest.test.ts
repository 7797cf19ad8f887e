import { describe, expect, it } from 'vitest';
import type { PlannedFile } from '../../examples/files/input.ts';
import { manifestOf } from '../../examples/files/manifest.ts';
import { formatSummary, summaryOf } from '../../examples/files/summary.ts';
import type { Job } from '../../lib/core/job.ts';

const planned = (path: string): PlannedFile => ({
  path,
  jobId: path,
  request: {
    type: 'index',
    idempotencyKey: path,
    payload: { path, file: path, out: '/out' },
    fairnessKey: '.',
    resourceId: '.',
    priority: 4,
  },
});

const job = (id: string, more: Partial<Job>): Job => ({
  id,
  type: 'index',
  priority: 4,
  mode: 'queued',
  fairnessKey: '.',
  readyAtMs: 1_000,
  version: 4,
  attempt: 1,
  partition: 0,
  state: 'succeeded',
  payload: null,
  contentHash: '',
  runAtMs: 1_000,
  submittedAtMs: 1_000,
  workersLost: 0,
  claim: { claimId: '1-1.0', batchId: '1-1', fleet: 'text', claimedAtMs: 1_100 },
  startedAtMs: 1_200,
  finishedAtMs: 1_500,
  ...more,
});

const run = () => {
  const files = ['good', 'bad\nname', 'refused'].map(planned);
  const jobs = new Map([
    ['good', job('good', { result: { output: 'files/%2E/good.words.json', sha256: 'ab' } })],
    [
      'bad\nname',
      job('bad\nname', { state: 'failed', attempt: 2, error: { name: 'NotText', message: 'is not text' } }),
    ],
  ]);
  return manifestOf(files, [{ path: 'pipe', reason: 'is a pipe' }], {
    jobs,
    rejected: new Map([['refused', 'jobs[2].priority: must be at most 10']]),
  });
};

describe('the manifest', () => {
  it('lists every file with what became of its job', () => {
    expect(run().files).toEqual([
      {
        path: 'good',
        jobs: [
          {
            id: 'good',
            type: 'index',
            fleet: 'text',
            state: 'succeeded',
            attempts: 1,
            submittedAt: '1970-01-01T00:00:01.000Z',
            claimedAt: '1970-01-01T00:00:01.100Z',
            startedAt: '1970-01-01T00:00:01.200Z',
            finishedAt: '1970-01-01T00:00:01.500Z',
            output: 'files/%2E/good.words.json',
            sha256: 'ab',
          },
        ],
      },
      {
        path: 'bad\nname',
        jobs: [expect.objectContaining({ state: 'failed', attempts: 2, error: 'NotText: is not text' })],
      },
      {
        path: 'refused',
        jobs: [
          expect.objectContaining({
            state: 'rejected',
            fleet: null,
            startedAt: null,
            error: 'jobs[2].priority: must be at most 10',
          }),
        ],
      },
    ]);
  });

  it('comes with a summary: counts, waiting and run times, failures, what was skipped', () => {
    const summary = summaryOf(run(), { out: '/out', manifest: '/out/manifest.json' }, 2_000);
    expect(summary).toMatchObject({
      files: 3,
      jobs: { total: 3, byState: { failed: 1, rejected: 1, succeeded: 1 }, byFleet: { none: 1, text: 2 } },
      jobsPerSec: 1.5,
      waitingMs: { p50: 200, max: 200 },
      runMs: { p50: 300, max: 300 },
      skipped: [{ path: 'pipe', reason: 'is a pipe' }],
    });
    expect(summary.failed.map((failure) => failure.path)).toEqual(['bad\nname', 'refused']);
  });

  it('is readable whatever the names of the files', () => {
    const text = formatSummary(summaryOf(run(), { out: '/out', manifest: '/out/manifest.json' }, 2_000));
    expect(text).toContain('bad\\nname: NotText: is not text');
    expect(text).toContain('pipe: is a pipe');
  });

  it('comes with a summary of nothing, too', () => {
    const nothing = manifestOf([], [], { jobs: new Map(), rejected: new Map() });
    const summary = summaryOf(nothing, { out: '/out', manifest: '/out/manifest.json' }, 0);
    expect(summary).toMatchObject({ files: 0, jobsPerSec: 0, waitingMs: { p50: 0, max: 0 } });
    expect(formatSummary(summary)).toContain('/out');
  });
});
