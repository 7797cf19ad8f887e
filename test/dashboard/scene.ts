/** A pool in the middle of its day, behind a dashboard: some of everything that the screens show. */
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { histogramOf, MINUTE_MS, minuteOf, noCounts } from '../../lib/core/statistics.ts';
import { type Dashboard, type DashboardOptions, serveDashboard } from '../../lib/dashboard/server.ts';
import type { WorkerRecord } from '../../lib/store/contract/records.ts';
import { type Desk, desk } from '../client/desk.ts';
import { aRejection } from '../fixtures/factories/rejection.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import type { Started } from '../stage/stage.ts';

const POOL: PoolInput = {
  types: {
    thumbnail: { tier: 'urgent', defaultCostMs: 800, timeoutMs: 30_000, conflictGroup: 'album' },
    transcode: { tier: 'standard', defaultCostMs: 45_000, timeoutMs: 600_000, maxConcurrency: 4 },
    report: { tier: 'standard', defaultCostMs: 9_000, timeoutMs: 120_000, retry: { maxAttempts: 3 } },
    mail: {
      tier: 'standard',
      defaultCostMs: 300,
      timeoutMs: 30_000,
      limits: ['smtp'],
      retry: { maxAttempts: 1 },
    },
    archive: { tier: 'background', defaultCostMs: 20_000, timeoutMs: 900_000 },
  },
  tiers: [
    { tier: 'urgent' },
    { tier: 'standard', maxConcurrency: 12 },
    { tier: 'background', maxConcurrency: 2 },
  ],
  fleets: {
    images: { types: ['thumbnail'], slots: 6 },
    gpu: { types: ['transcode'] },
    general: { types: ['report', 'mail', 'archive'], slots: 8 },
  },
  limits: { smtp: { total: 5, rate: { starts: 40, per: '1m' } } },
  fairness: { weights: { 'tenant-1': 3 }, maxConcurrencyPerKey: 6 },
  statistics: true,
};

export interface ShownPool extends Desk {
  readonly running: readonly Started[];
  /** A job that waits while its conflict key is held. */
  readonly waiting: string;
  /** A job that failed, was tried again and waits for its retry. */
  readonly retried: string;
  readonly failed: string;
}

export interface Texts {
  /** Stands in every name and text that users give. */
  readonly hostile: string;
}

/** Puts some of everything into a pool. */
export async function shownPool({ hostile }: Texts = { hostile: '' }): Promise<ShownPool> {
  const scene = desk({ pool: POOL });
  const { advance, pass, startEverywhere, end, client, time, store } = scene;
  const recordOf = (workerId: string, leaseMs: number, occupants: WorkerRecord['occupants'] = []) => ({
    partition: 0,
    record: aWorkerRecord({
      workerId: `${workerId}${hostile}`,
      fleet: 'gpu',
      slots: 2,
      heardAtMs: time.nowMs,
      expiresAtMs: time.nowMs + leaseMs,
      load: { lagMs: 12, memoryMb: 1_840 },
      occupants,
    }),
  });
  for (const workerId of ['gpu-a1', 'gpu-b7']) await store.registerWorker(recordOf(workerId, 400_000));
  // The hour before: a rush in its middle.
  for (let at = 58; at > 10; at -= 1) {
    const rush = Math.exp(-(((at - 34) / 7) ** 2));
    const jobs = Math.round(24 + 60 * rush + 6 * Math.sin(at * 1.7));
    const waits = Array.from({ length: jobs }, (_, nth) => 90 + (nth / jobs) ** 3 * (900 + 14_000 * rush));
    await store.putStatistics({
      partition: 0,
      version: 1,
      counts: {
        ...noCounts(minuteOf(time.nowMs) - (at - 8) * MINUTE_MS),
        admitted: jobs,
        succeeded: jobs - 3,
        failed: at % 9 === 0 ? 4 : 0,
        waits: histogramOf(waits),
        runs: histogramOf(waits.map((ms) => 4 * ms)),
      },
    });
  }
  const submit = async (type: string, key: string, more: object = {}): Promise<string> => {
    const { jobId } = await client.submit({
      type,
      fairnessKey: `${key}${hostile}`,
      payload: { page: 7, apiKey: 'sk-live-1234567890', note: `as asked${hostile}` },
      label: `for ${key}${hostile}`,
      tags: { order: `4711${hostile}` },
      ...more,
    });
    return jobId;
  };
  const runAll = async (
    verdictOf: (started: Started) => Parameters<Desk['end']>[1],
    ms: number,
  ): Promise<void> => {
    await pass();
    const started = await startEverywhere();
    await advance(ms);
    const ended = await Promise.all(started.map((each) => end(each, verdictOf(each))));
    await pass({ jobs: ended, reason: 'stream' });
  };
  // Work of the last hour, from which costs are learned.
  for (let round = 0; round < 5; round += 1) {
    for (const key of ['tenant-1', 'tenant-2', 'tenant-7', 'acme']) await submit('report', key);
    await submit('transcode', 'tenant-7');
    await submit('thumbnail', 'tenant-1', { resourceId: `album-${round}` });
    await runAll(() => ({ kind: 'succeeded', result: { pages: 12 } }), 4_000 + round * 1_500);
  }
  const broken = (name: string, message: string, at: string) => ({
    kind: 'failed' as const,
    error: {
      name: `${name}${hostile}`,
      message: `${message}${hostile}`,
      stack: `${name}: ${message}${hostile}\n    at ${at}\n    at processTicksAndRejections (node:internal/process)`,
    },
  });
  const failures: string[] = [];
  for (let at = 0; at < 7; at += 1) failures.push(await submit('mail', `tenant-${1 + (at % 3)}`));
  for (let at = 0; at < 2; at += 1) failures.push(await submit('archive', 'acme'));
  const refused = broken(
    'SmtpRefused',
    '550 mailbox unavailable, password=hunter2',
    'send (/app/mail.ts:41:9)',
  );
  const full = broken('DiskFull', 'no space left on /mnt/archive', 'write (/app/archive.ts:18:3)');
  const judge = ({ job }: Started) => (job.type === 'mail' ? refused : full);
  await runAll(judge, 900);
  await runAll(judge, 900);
  for (let at = 0; at < 2; at += 1) await runAll(judge, 20_000);
  await advance(57_000);
  const retried = await submit('report', 'tenant-2', { payload: { month: 3, token: 'abc' } });
  await advance(4_000);
  const rows = broken(
    'TypeError',
    "Cannot read properties of undefined (reading 'rows')",
    'build (/app/report.ts:88:4)',
  );
  await runAll(() => ({ ...rows, kind: 'retry', runAtMs: time.nowMs + 30_000 }), 6_000);
  await advance(31_000);
  await runAll(() => ({ ...rows, kind: 'retry', runAtMs: time.nowMs + 3_600_000 }), 9_000);
  await submit('report', 'acme', { runAt: new Date(time.nowMs + 1_800_000).toISOString() });
  await submit('archive', 'tenant-2', { runAt: new Date(time.nowMs + 5_400_000).toISOString() });
  await client.schedules.put(`nightly-report${hostile === '' ? '' : '-x'}`, {
    cron: '30 2 * * *',
    zone: 'Europe/Berlin',
    type: 'report',
    payload: { note: hostile },
  });
  await client.schedules.put('clean-up', { every: '15m', type: 'archive' });
  await client.schedules.put('weekly-mail', { cron: '0 9 * * 1', zone: 'America/New_York', type: 'mail' });
  await client.schedules.pause('weekly-mail');
  await store.recordRejections([
    aRejection({
      field: 'jobs[0].priority',
      reason: `must be a whole number from 0 to 10 (got "high${hostile}")`,
      detail: `{"type":"mail","priority":"high","authorization":"Bearer abcdefghijkl"}${hostile}`,
      rejectedAtMs: time.nowMs - 480_000,
    }),
    aRejection({
      field: 'jobs[0].type',
      reason: 'no job type has the name "mial"',
      rejectedAtMs: time.nowMs - 5_000,
    }),
  ]);
  // What runs now, and what waits behind it.
  for (let at = 0; at < 9; at += 1) await submit('transcode', at < 7 ? 'tenant-7' : 'tenant-1');
  for (let at = 0; at < 6; at += 1) await submit('report', `tenant-${1 + (at % 3)}`);
  const holder = await submit('thumbnail', 'tenant-1', { resourceId: `summer${hostile}` });
  await pass();
  const running = await startEverywhere();
  const waiting = await submit('thumbnail', 'tenant-2', { resourceId: `summer${hostile}`, priority: 8 });
  await submit('thumbnail', 'acme', { resourceId: `summer${hostile}` });
  await pass();
  await advance(41_000);
  const occupants = running
    .filter(({ fleet }) => fleet === 'gpu')
    .map(({ job, message }) => ({ claimId: message.claimId, jobId: job.id, progress: { percent: 40 } }));
  await store.heartbeat(recordOf('gpu-a1', 400_000, occupants.slice(0, 2)));
  await store.heartbeat(recordOf('gpu-b7', 400_000, occupants.slice(2)));
  await client.override(
    { type: 'archive' },
    { maxConcurrency: 1, for: '2h', reason: 'the disk is full' },
    { actor: 'arn:aws:iam::111122223333:user/ada' },
  );
  if (!running.some(({ job }) => job.id === holder)) throw new Error('the holder was not started');
  return { ...scene, running, waiting, retried, failed: failures[0] ?? '' };
}

/** Serves a pool. */
export const served = (
  scene: Pick<Desk, 'client'>,
  pageFolder: string,
  own: Partial<DashboardOptions> = {},
): Promise<Dashboard> =>
  serveDashboard({ client: scene.client, actor: 'arn:aws:iam::111122223333:user/ada', pageFolder, ...own });
