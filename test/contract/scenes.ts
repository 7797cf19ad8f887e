/** Each verb of the store in scenes: what comes before it, the call, and what it has left behind. */
import type { Job } from '../../lib/core/job.ts';
import type { Verdict } from '../../lib/core/life-cycle.ts';
import type { ScheduleRecord, ScheduleState } from '../../lib/core/recurring.ts';
import { MINUTE_MS } from '../../lib/core/statistics.ts';
import { DECLARATION_PART_CHARS } from '../../lib/store/contract/bounds.ts';
import type { ReceivedLetter, WorkerIdentity } from '../../lib/store/contract/records.ts';
import type { Applied, Commit, CommitOutcome } from '../../lib/store/contract/requests.ts';
import type { ScheduleStore } from '../../lib/store/contract/schedules.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { PAYLOAD_KEPT_MS } from '../../lib/store/table/payload.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aDispatcherRecord } from '../fixtures/factories/dispatcher.ts';
import { aJob, aScheduledJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../fixtures/factories/ledger.ts';
import { aLookout } from '../fixtures/factories/lookout.ts';
import { aMinute } from '../fixtures/factories/minute-counts.ts';
import { aReadyLine } from '../fixtures/factories/ready-line.ts';
import { aRejection } from '../fixtures/factories/rejection.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { aSchedule } from '../fixtures/factories/schedule.ts';
import { aTagEntry } from '../fixtures/factories/tag-entry.ts';
import { aWorker, aWorkerRecord } from '../fixtures/factories/worker.ts';
import { SUITE_TYPE } from './harness.ts';

export interface Scene {
  readonly call: () => Promise<unknown>;
  /** Read by a store with which nobody meddles. */
  readonly left: () => Promise<unknown>;
}

export interface Scenes {
  /** Where the verb has several. */
  readonly name?: string | undefined;
  /** Makes what comes before the call. The partition and the next one are the scene's own. */
  readonly set: (stage: Stage) => Promise<Scene>;
  /** Reads the index. */
  readonly isWeak?: true | undefined;
  /** Only tidies: what fails is made up for later, and nobody hears of it. */
  readonly isHint?: true | undefined;
  /** One of its requests only tidies. */
  readonly hasHint?: true | undefined;
  /** What the answer reads as where that of an earlier try was lost, if not as the first one would have. */
  readonly lost?: ((answer: unknown) => unknown) | undefined;
  /** What the same call answers once it was done, and its caller was told that nobody knows. */
  readonly again?: ((answer: unknown) => unknown) | undefined;
  /** By position of the transaction's part that is refused: what becomes of the call. */
  readonly refused?: readonly unknown[] | undefined;
}

export interface Stage {
  /** Under test. */
  readonly store: JobStore;
  /** Of the same table; nobody meddles with it. */
  readonly quiet: JobStore;
  readonly partition: number;
}

/** An error, as what a call came to. */
export const thrown = (name: string): unknown => ({ thrown: name });

const EXPIRES_AT_MS = NOW_MS + 3_600_000;
const LEAD_MS = 20_000;
const SUCCESS: Verdict = { kind: 'succeeded', result: { ok: true } };
const RETRY: Verdict = {
  kind: 'retry',
  error: { name: 'Flaky', message: 'try again' },
  runAtMs: NOW_MS + 50,
};
const FAILURE: Verdict = { kind: 'failed', error: { name: 'Broken', message: 'it broke' } };
const CONFLICT_KEY = 'catalogue/photos';

/** A payload that stands in an item of its own. */
const LARGE: Partial<Job> = { payload: { text: 'x'.repeat(3_000) } };
const aLargeJob = (partition: number): Job => aJob({ partition, ...LARGE });
const aDedupedJob = (partition: number, size: string): Job => {
  const job = size === 'large' ? aLargeJob(partition) : aJob({ partition });
  return { ...job, dedupe: { key: job.id, keep: 'last', whileRunning: 'another' } };
};

const jobsOf = async ({ store }: Stage, jobs: readonly Job[]): Promise<readonly Job[]> => {
  await store.createJobs(jobs);
  return jobs;
};

const left =
  ({ quiet, partition }: Stage, jobs: readonly Pick<Job, 'id'>[] = []) =>
  async (): Promise<unknown> => ({
    jobs: await quiet.getJobs({ ids: jobs.map(({ id }) => id) }),
    partition: await quiet.loadPartition({ partition, nowMs: NOW_MS }),
    letters: (await quiet.readLetters(partition)).letters.map(saysOf),
  });

/** Without its name, which is new each time. */
const saysOf = ({ letterId: _, ...says }: ReceivedLetter): Omit<ReceivedLetter, 'letterId'> => says;

/** Commits on top of what was committed last, through the store under test: so it knows the partition. */
const committed = async (
  { store, partition }: Stage,
  changes: Partial<Commit> = {},
): Promise<CommitOutcome> => {
  const { version } = await store.loadPartition({ partition, nowMs: NOW_MS });
  return store.commit({ partition, commit: aCommit({ version, ...changes }) });
};

const LEAD = { holder: 'dispatcher', nowMs: NOW_MS, untilMs: NOW_MS + LEAD_MS } as const;

const runningJob = async (
  stage: Stage,
  job: Job = aJob({ partition: stage.partition }),
): Promise<{ readonly job: Job; readonly worker: WorkerIdentity }> => {
  const { store } = stage;
  await store.createJobs([job]);
  const request = aClaimRequest(job);
  await store.claim([request]);
  const worker = aWorker();
  const started = await store.startJob({ ...worker, jobId: job.id, claimId: request.claimId, nowMs: NOW_MS });
  if (started.kind !== 'started') throw new Error('not started');
  return { job: started.job, worker };
};

const finishing =
  (verdict: Verdict, change: Partial<Job> = {}): Scenes['set'] =>
  async (stage) => {
    const waiting = aJob({ partition: stage.partition, ...change });
    const { job, worker } = await runningJob(stage, waiting);
    return {
      call: () =>
        stage.store.finishJob({ ...worker, job, verdict, nowMs: NOW_MS + 9, expiresAtMs: EXPIRES_AT_MS }),
      left: left(stage, [job]),
    };
  };

/** An answer of another kind. */
const reads =
  (from: string, to: string) =>
  (answer: unknown): unknown => {
    if (Array.isArray(answer)) return answer.map(reads(from, to));
    // Of what it says inside, such as a job's history, nothing reads otherwise.
    const outcome = JSON.parse(JSON.stringify(answer)) as { kind?: string };
    if (outcome.kind === from) outcome.kind = to;
    return outcome;
  };

const always = (answer: unknown) => (): unknown => answer;

/** Declares something, and answers its version. */
const declared = async (store: JobStore, text: string): Promise<number> => {
  const outcome = await store.putDeclaration({
    text,
    after: await store.readDeclaredVersion(),
    nowMs: NOW_MS,
  });
  if (outcome.kind !== 'declared') throw new Error('somebody else declares');
  return outcome.version;
};

/** Schedules that stand in the scene's partition, named after it. */
async function schedulesOf(
  { store, partition }: Stage,
  changes: readonly Partial<ScheduleState>[] = [{}],
): Promise<readonly ScheduleRecord[]> {
  const records = changes.map((change, at) =>
    aSchedule({ id: `${at}/${partition}`, partition, dueMs: NOW_MS + at, ...change }),
  );
  for (const record of records) await store.putSchedule({ record, afterRevision: 0 });
  return records;
}

const leftOf =
  ({ quiet }: Stage, records: readonly ScheduleRecord[]) =>
  (): Promise<unknown> =>
    quiet.getSchedules({ ids: records.map(({ state }) => state.id) });

const STOPPED: Partial<ScheduleState> = { dueMs: undefined, stopped: 'asked' };

export const SCHEDULE_SCENES: Readonly<Record<keyof ScheduleStore, readonly Scenes[]>> = {
  getSchedules: [
    {
      set: async (stage) => {
        const records = await schedulesOf(stage, [{}, STOPPED, {}]);
        const ids = [...records.map(({ state }) => state.id), 'none'];
        return {
          call: () => stage.store.getSchedules({ ids, unreadable: () => {} }),
          left: leftOf(stage, records),
        };
      },
    },
  ],
  putSchedule: [
    {
      name: 'that is new',
      lost: always('superseded'),
      again: always('superseded'),
      set: async (stage) => {
        const { partition } = stage;
        const record = aSchedule({ id: `new/${partition}`, partition });
        return {
          call: () => stage.store.putSchedule({ record, afterRevision: 0 }),
          left: leftOf(stage, [record]),
        };
      },
    },
    {
      name: 'over what was read',
      lost: always('superseded'),
      again: always('superseded'),
      set: async (stage) => {
        const records = await schedulesOf(stage);
        const [{ state, spec } = aSchedule()] = records;
        const record = { spec: { ...spec, timeZone: 'Asia/Tokyo' }, state: { ...state, revision: 2 } };
        return {
          call: () => stage.store.putSchedule({ record, afterRevision: 1 }),
          left: leftOf(stage, records),
        };
      },
    },
  ],
  saveSchedule: [
    {
      set: async (stage) => {
        const records = await schedulesOf(stage);
        const [{ state } = aSchedule()] = records;
        const next = { ...state, revision: 2, lastMs: NOW_MS, dueMs: NOW_MS + 60_000 };
        return {
          call: () => stage.store.saveSchedule({ state: next, afterRevision: 1 }),
          left: leftOf(stage, records),
        };
      },
    },
  ],
  deleteSchedule: [
    {
      lost: always('superseded'),
      again: always('superseded'),
      set: async (stage) => {
        const records = await schedulesOf(stage);
        const [{ state } = aSchedule()] = records;
        return {
          call: () => stage.store.deleteSchedule({ id: state.id, afterRevision: 1 }),
          left: leftOf(stage, records),
        };
      },
    },
  ],
  discardSchedule: [
    {
      lost: always('superseded'),
      again: always('superseded'),
      set: async (stage) => {
        const records = await schedulesOf(stage, [{ failures: -1 }]);
        const [{ state } = aSchedule()] = records;
        return { call: () => stage.store.discardSchedule(state.id), left: leftOf(stage, records) };
      },
    },
  ],
  readDueSchedules: [
    {
      isWeak: true,
      set: async (stage) => {
        const { store, partition } = stage;
        await schedulesOf(stage, [{}, STOPPED, {}, {}]);
        return {
          call: () => store.readDueSchedules({ partition, fromMs: -1, untilMs: NOW_MS + 9, limit: 9 }),
          left: async () => undefined,
        };
      },
    },
  ],
  readStoppedSchedules: [
    {
      isWeak: true,
      set: async (stage) => {
        const { store, partition } = stage;
        await schedulesOf(stage, [STOPPED, {}, STOPPED, STOPPED]);
        return {
          call: () => store.readStoppedSchedules({ partition, limit: 9 }),
          left: async () => undefined,
        };
      },
    },
  ],
  readDeclaredSchedules: [
    {
      set: async ({ store }) => {
        await store.noteDeclaredSchedules(['nightly', 'hourly']);
        return { call: () => store.readDeclaredSchedules(), left: async () => undefined };
      },
    },
  ],
  noteDeclaredSchedules: [
    {
      set: async ({ store, quiet }) => {
        await store.noteDeclaredSchedules(['nightly']);
        return {
          call: () => store.noteDeclaredSchedules(['nightly', 'hourly']),
          left: () => quiet.readDeclaredSchedules(),
        };
      },
    },
  ],
};

const parkedAs = (...outcomes: readonly Applied[]): unknown => ({ kind: 'parked', version: 1, outcomes });

/** So many jobs that their reservation has an item. */
const MANY = Array.from({ length: 40 }, (_, at) => ({ id: `any-${at}-${'long'.repeat(40)}` }));

export const SCENES: Readonly<Record<keyof JobStore, readonly Scenes[]>> = {
  ...SCHEDULE_SCENES,
  createJobs: [
    {
      name: 'with a payload apart',
      lost: reads('created', 'repeated'),
      again: reads('created', 'repeated'),
      set: async (stage) => {
        const job = aLargeJob(stage.partition);
        return { call: () => stage.store.createJobs([job]), left: left(stage, [job]) };
      },
    },
    {
      name: 'with a payload apart, of one that is there',
      hasHint: true,
      set: async (stage) => {
        const [job] = await jobsOf(stage, [aLargeJob(stage.partition)]);
        if (job === undefined) throw new Error('no job');
        return { call: () => stage.store.createJobs([job]), left: left(stage, [job]) };
      },
    },
    {
      name: 'with a payload apart, of an id that is taken',
      hasHint: true,
      set: async (stage) => {
        const [job] = await jobsOf(stage, [aLargeJob(stage.partition)]);
        if (job === undefined) throw new Error('no job');
        const other = { ...job, contentHash: 'other', payload: 'y'.repeat(3_000) };
        return { call: () => stage.store.createJobs([other]), left: left(stage, [job]) };
      },
    },
    {
      lost: reads('created', 'repeated'),
      again: reads('created', 'repeated'),
      set: async (stage) => {
        const { store, partition } = stage;
        const job = aJob({ partition });
        const scheduled = aScheduledJob(NOW_MS + 5, { partition });
        return {
          call: () => store.createJobs([job, scheduled]),
          left: left(stage, [job, scheduled]),
        };
      },
    },
  ],
  announceLines: [
    {
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        await store.announceLines({
          partition,
          lines: [aReadyLine({ fairnessKey: 'known' })],
          nowMs: NOW_MS,
        });
        const lines = ['known', 'new'].map((fairnessKey) => aReadyLine({ fairnessKey, mode: 'onDemand' }));
        return {
          call: () => store.announceLines({ partition, lines, nowMs: NOW_MS + 1 }),
          left: () => quiet.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys: ['known', 'new'] }),
        };
      },
    },
  ],
  recordRejections: [
    {
      set: async ({ store, quiet, partition }) => {
        const sourceId = `event-of-${partition}`;
        const rejections = [0, 1].map((position) => aRejection({ sourceId, position }));
        return {
          call: () => store.recordRejections(rejections),
          left: () => quiet.listRejections(sourceId),
        };
      },
    },
  ],
  recordTags: [
    {
      set: async ({ store, quiet, partition }) => {
        const entries = [0, 1].map((at) => aTagEntry({ value: `order-${partition}`, jobId: `job-${at}` }));
        return {
          call: () => store.recordTags(entries),
          left: () => quiet.readTagged({ name: 'order', value: `order-${partition}`, limit: 10 }),
        };
      },
    },
  ],
  getJobs: [
    {
      name: 'with payloads apart',
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = await jobsOf(stage, [aLargeJob(partition), aJob({ partition }), aLargeJob(partition)]);
        return { call: () => store.getJobs({ ids: jobs.map(({ id }) => id) }), left: left(stage, jobs) };
      },
    },
    {
      name: 'that are all there',
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = await jobsOf(
          stage,
          [0, 1, 2].map((at) => aJob({ partition, readyAtMs: NOW_MS + at })),
        );
        return { call: () => store.getJobs({ ids: jobs.map(({ id }) => id) }), left: left(stage, jobs) };
      },
    },
    {
      name: 'of which one is not there',
      set: async (stage) => {
        const { store, partition } = stage;
        const { job } = await runningJob(stage);
        const jobs = [job, ...(await jobsOf(stage, [aJob({ partition }), aJob({ partition })]))];
        const ids = [...jobs.map(({ id }) => id), `unheard-of-${partition}`];
        return { call: () => store.getJobs({ ids }), left: left(stage, jobs) };
      },
    },
  ],
  lookUpJobs: [
    {
      name: 'with a payload apart, of which one is not there',
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = await jobsOf(stage, [aLargeJob(partition), aJob({ partition })]);
        const ids = [...jobs.map(({ id }) => id), `unheard-of-${partition}`];
        return { call: () => store.lookUpJobs({ ids }), left: left(stage, jobs) };
      },
    },
  ],
  listRejections: [
    {
      set: async ({ store, partition }) => {
        const sourceId = `event-of-${partition}`;
        const rejections = [0, 1, 2, 3].map((position) => aRejection({ sourceId, position }));
        await store.recordRejections(rejections);
        return { call: () => store.listRejections(sourceId), left: async () => undefined };
      },
    },
  ],
  readRejections: [
    {
      isWeak: true,
      set: async ({ store, partition }) => {
        const sourceId = `event-of-${partition}`;
        await store.recordRejections([0, 1, 2].map((position) => aRejection({ sourceId, position })));
        return { call: () => store.readRejections({ limit: 2 }), left: async () => undefined };
      },
    },
  ],
  readTagged: [
    {
      set: async ({ store, partition }) => {
        const tag = { name: 'order', value: `order-${partition}` };
        await store.recordTags([0, 1, 2].map((at) => aTagEntry({ ...tag, jobId: `job-${at}` })));
        return { call: () => store.readTagged({ ...tag, limit: 2 }), left: async () => undefined };
      },
    },
  ],
  lead: [
    {
      name: 'that is free',
      set: async (stage) => {
        const { store, partition } = stage;
        return { call: () => store.lead({ ...LEAD, partition, wantsLetters: true }), left: left(stage) };
      },
    },
    {
      name: 'that another dispatcher has',
      set: async (stage) => {
        const { store, partition } = stage;
        await store.lead({ ...LEAD, partition, holder: 'another' });
        return { call: () => store.lead({ ...LEAD, partition }), left: left(stage) };
      },
    },
  ],
  stopLeading: [
    {
      set: async (stage) => {
        const { store, partition } = stage;
        await store.lead({ ...LEAD, partition });
        return { call: () => store.stopLeading({ partition, holder: LEAD.holder }), left: left(stage) };
      },
    },
  ],
  readLeader: [
    {
      set: async ({ store, partition }) => {
        await store.lead({ ...LEAD, partition });
        return { call: () => store.readLeader(partition), left: async () => undefined };
      },
    },
  ],
  putLetter: [
    {
      set: async ({ store, quiet, partition }) => {
        const letter = { hints: [aJob({ partition })], jobIds: ['one'] };
        return {
          call: () => store.putLetter({ partition, letter, nowMs: NOW_MS }),
          // Put once more, it says the same once more.
          left: async () => (await quiet.readLetters(partition)).letters.slice(0, 1).map(saysOf),
        };
      },
    },
  ],
  readLetters: [
    {
      set: async ({ store, quiet, partition }) => {
        for (const [at, jobIds] of [['a'], ['b', 'c'], []].entries())
          await quiet.putLetter({ partition, letter: { jobIds }, nowMs: NOW_MS + at });
        return {
          call: async () => {
            const { letters, more } = await store.readLetters(partition);
            return [letters.map(saysOf), more];
          },
          left: async () => undefined,
        };
      },
    },
  ],
  deleteLetters: [
    {
      set: async ({ store, quiet, partition }) => {
        for (const at of [0, 1, 2])
          await quiet.putLetter({ partition, letter: { jobIds: [`${at}`] }, nowMs: NOW_MS + at });
        const { letters } = await quiet.readLetters(partition);
        const letterIds = letters.slice(1).map(({ letterId }) => letterId);
        return {
          call: () => store.deleteLetters({ partition, letterIds }),
          left: async () => (await quiet.readLetters(partition)).letters.map(saysOf),
        };
      },
    },
  ],
  loadPartition: [
    {
      set: async (stage) => {
        const { store, partition } = stage;
        const reserve = [1, 2, 3].map((at) => aReservation([aJob({ partition })], { batchId: `1-${at}` }));
        await store.registerWorker({ partition, record: aWorkerRecord() });
        await store.changeControl({ partition, scope: 'pool', change: { paused: true } });
        await committed(stage, { reserve, ledgers: [aLedger()] });
        return { call: () => store.loadPartition({ partition, nowMs: NOW_MS }), left: async () => undefined };
      },
    },
  ],
  keepLookout: [
    {
      name: 'the first one',
      again: always('superseded'),
      set: async (stage) => ({
        call: () => stage.store.keepLookout({ partition: stage.partition, next: aLookout() }),
        left: left(stage),
      }),
    },
    {
      name: 'one after another',
      again: always('superseded'),
      set: async (stage) => {
        const { store, partition } = stage;
        const first = aLookout();
        await store.keepLookout({ partition, next: first });
        const next = aLookout({ atMs: NOW_MS + 7_000, nextAtMs: NOW_MS + 14_000 });
        return { call: () => store.keepLookout({ partition, seen: first, next }), left: left(stage) };
      },
    },
  ],
  putStatistics: [
    {
      set: async ({ store, quiet, partition }) => {
        const counts = aMinute({ admitted: 3, waits: [1, 2] });
        return {
          call: () => store.putStatistics({ partition, version: 7, counts }),
          left: () => quiet.readStatistics({ partition, fromMs: 0, toMs: 2 * NOW_MS, limit: 10 }),
        };
      },
    },
  ],
  readStatistics: [
    {
      set: async ({ store, quiet, partition }) => {
        const minutes = [0, 1, 2].map((at) => aMinute({ minuteMs: at * MINUTE_MS, admitted: 1 }));
        for (const counts of minutes) await quiet.putStatistics({ partition, version: 7, counts });
        return {
          call: () => store.readStatistics({ partition, fromMs: 0, toMs: 10 * MINUTE_MS, limit: 2 }),
          left: async () => undefined,
        };
      },
    },
  ],
  readKeys: [
    {
      isWeak: true,
      set: async ({ store, partition }) => {
        const lines = ['a', 'b', 'c', 'd', 'e'].map((fairnessKey) => aReadyLine({ fairnessKey }));
        await store.announceLines({ partition, lines, nowMs: NOW_MS });
        return {
          call: () => store.readKeys({ partition, type: SUITE_TYPE, limit: 4 }),
          left: async () => undefined,
        };
      },
    },
  ],
  readBacklogs: [
    {
      set: async ({ store, partition }) => {
        const lines = ['a', 'b', 'c'].map((fairnessKey) => aReadyLine({ fairnessKey }));
        await store.announceLines({ partition, lines, nowMs: NOW_MS });
        await store.announceLines({ partition, lines: lines.slice(0, 2), nowMs: NOW_MS + 1 });
        const keys = ['c', 'none', 'a', 'b'];
        return {
          call: () => store.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys: keys }),
          left: async () => undefined,
        };
      },
    },
  ],
  getLedgers: [
    {
      set: async (stage) => {
        const { store, partition } = stage;
        const ledgers = ['a', 'b'].map((fairnessKey) => aLedger({ fairnessKey }));
        await committed(stage, { ledgers });
        await committed(stage, { ledgers: [aLedger({ fairnessKey: 'a', settledCostMs: 9 })] });
        return {
          call: () => store.getLedgers({ partition, fairnessKeys: ['b', 'none', 'a'] }),
          left: async () => undefined,
        };
      },
    },
  ],
  getEstimates: [
    {
      set: async (stage) => {
        const { store, partition } = stage;
        const estimates = ['', 'r', 's'].map((resourceId) => anEstimate({ resourceId }));
        await committed(stage, { estimates });
        const ids = ['s', 'none', '', 'r'].map((resourceId) => ({ type: SUITE_TYPE, resourceId }));
        return { call: () => store.getEstimates({ partition, ids }), left: async () => undefined };
      },
    },
  ],
  readLine: [
    {
      isWeak: true,
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = [0, 1, 2, 3, 4].map((at) => aJob({ partition, readyAtMs: NOW_MS + at }));
        await jobsOf(stage, jobs);
        return {
          call: () => store.readLine({ partition, line: aReadyLine(), limit: 4 }),
          left: left(stage, jobs),
        };
      },
    },
  ],
  readDue: [
    {
      isWeak: true,
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = [0, 1, 2, 3, 4].map((at) => aScheduledJob(NOW_MS + at, { partition }));
        await jobsOf(stage, jobs);
        return {
          call: async () => [
            await store.readDue({ partition, nowMs: NOW_MS + 3, limit: 10 }),
            await store.readDue({ partition, nowMs: NOW_MS + 3, limit: 2, fromMs: NOW_MS + 1 }),
          ],
          left: left(stage, jobs),
        };
      },
    },
  ],
  promote: [
    {
      // What made the job pending is not known any more: another dispatcher, as far as this one can tell.
      lost: always([null]),
      again: always([null]),
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = await jobsOf(stage, [aScheduledJob(NOW_MS, { partition })]);
        return { call: () => store.promote({ jobs, nowMs: NOW_MS }), left: left(stage, jobs) };
      },
    },
  ],
  readExpired: [
    {
      set: async ({ store }) => ({
        call: () => store.readExpired({ line: 0, nowMs: 1, limit: 1 }),
        left: async () => undefined,
      }),
    },
  ],
  readDedupe: [
    {
      name: 'readDedupe',
      set: async ({ store, quiet, partition }) => {
        const job = aDedupedJob(partition, 'small');
        await quiet.createDeduped({ job, after: undefined, expiresAtMs: EXPIRES_AT_MS });
        return { call: () => store.readDedupe(job), left: async () => quiet.readDedupe(job) };
      },
    },
  ],
  createDeduped: ['small', 'large'].map((size) => ({
    name: `createDeduped with a ${size} payload`,
    lost: (answer: unknown) => ({ ...(answer as object), kind: 'repeated' }),
    again: (answer: unknown) => ({ ...(answer as object), kind: 'repeated' }),
    set: async ({ store, quiet, partition }: Stage) => {
      const job = aDedupedJob(partition, size);
      return {
        call: () => store.createDeduped({ job, after: undefined, expiresAtMs: EXPIRES_AT_MS }),
        left: async () => [await quiet.getJobs({ ids: [job.id] }), await quiet.readDedupe(job)],
      };
    },
  })),
  mergeJob: ['small', 'large'].map((size) => ({
    name: `mergeJob with a ${size} payload`,
    lost: (answer: unknown) => answer,
    again: () => ({ kind: 'superseded' }),
    set: async (stage: Stage) => {
      const { store, quiet, partition } = stage;
      const [job] = await jobsOf(stage, [aJob({ partition })]);
      const payload = size === 'large' ? aLargeJob(partition).payload : { size };
      const next = { ...job, payload, merged: ['job-0:0'] } as Job;
      return {
        call: () => store.mergeJob({ job: job as Job, next }),
        left: async () => quiet.getJobs({ ids: [next.id] }),
      };
    },
  })),
  expireJobs: [
    {
      // As of `promote`.
      lost: always([null]),
      again: always([null]),
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = await jobsOf(stage, [aJob({ partition, expireAtMs: NOW_MS })]);
        return {
          call: () => store.expireJobs({ jobs, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
          left: left(stage, jobs),
        };
      },
    },
    {
      name: 'with a payload apart',
      hasHint: true,
      lost: always([null]),
      again: always([null]),
      set: async (stage) => {
        const jobs = await jobsOf(stage, [{ ...aLargeJob(stage.partition), expireAtMs: NOW_MS }]);
        return {
          call: () => stage.store.expireJobs({ jobs, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
          left: left(stage, jobs),
        };
      },
    },
  ],
  rehome: [
    {
      // As of `promote`.
      lost: always([null]),
      again: always([null]),
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = await jobsOf(stage, [aJob({ partition })]);
        return {
          call: () => store.rehome({ jobs, partition: partition + 1, nowMs: NOW_MS }),
          left: left(stage, jobs),
        };
      },
    },
  ],
  commit: [
    {
      again: always('lost'),
      refused: ['lost', thrown('StaleCommitError'), thrown('StaleCommitError'), thrown('StaleCommitError')],
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        const [reservation, made] = ['1-1', '1-2'].map((batchId) =>
          // Too large for the page: each has an item.
          aReservation(MANY, { batchId }),
        );
        if (reservation === undefined || made === undefined) throw new Error('no reservations');
        await committed(stage, { reserve: [reservation] });
        const to = partition + 1;
        const request = { partition: to, wants: [], askedAtMs: NOW_MS, untilMs: EXPIRES_AT_MS };
        await store.askForLoan({ partition, request });
        const loan = {
          loanId: `${partition}-1-1-0`,
          from: partition,
          to,
          units: 2,
          scopes: [{ scope: 'pool', under: '8/2' }],
          expiresAtMs: EXPIRES_AT_MS,
        };
        const commit = aCommit({
          version: 1,
          drop: [{ reservation, positions: MANY.map((_, at) => at) }],
          ledgers: [aLedger()],
          reserve: [made],
          lend: [loan],
        });
        return {
          call: () => store.commit({ partition, commit }),
          left: async () => [
            await quiet.loadPartition({ partition, nowMs: NOW_MS }),
            (await quiet.loadPartition({ partition: to, nowMs: NOW_MS })).loans,
            await quiet.getLedgers({ partition, fairnessKeys: ['tenant-a'] }),
          ],
        };
      },
    },
    {
      name: 'of items before the page',
      again: always('lost'),
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        const [reservation, ...made] = ['1-1', '1-2', '1-3'].map((batchId) =>
          aReservation(MANY, { batchId }),
        );
        if (reservation === undefined) throw new Error('no reservation');
        await committed(stage, { reserve: [reservation] });
        const commit = aCommit({
          version: 1,
          drop: [{ reservation, positions: [0] }],
          ledgers: [aLedger()],
          reserve: made,
        });
        return {
          call: () => store.commit({ partition, commit }),
          left: async () => [
            await quiet.loadPartition({ partition, nowMs: NOW_MS }),
            await quiet.getLedgers({ partition, fairnessKeys: ['tenant-a'] }),
          ],
        };
      },
    },
    {
      name: 'of what resources cost',
      again: always('lost'),
      hasHint: true,
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        const estimates = ['r', 's'].map((resourceId) => anEstimate({ resourceId }));
        const commit = aCommit({ ledgers: [aLedger()], estimates });
        return {
          call: () => store.commit({ partition, commit }),
          // What was learned may be missing.
          left: () => quiet.loadPartition({ partition, nowMs: NOW_MS }),
        };
      },
    },
    {
      name: 'of one write',
      again: always('lost'),
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        const [reservation, made] = ['1-1', '1-2'].map((batchId) =>
          aReservation([{ id: 'any' }], { batchId }),
        );
        if (reservation === undefined || made === undefined) throw new Error('no reservations');
        await committed(stage, { reserve: [reservation] });
        const commit = aCommit({
          version: 1,
          drop: [{ reservation, positions: [0] }],
          ledgers: [aLedger()],
          reserve: [made],
        });
        return {
          call: () => store.commit({ partition, commit }),
          left: async () => [
            await quiet.loadPartition({ partition, nowMs: NOW_MS }),
            await quiet.getLedgers({ partition, fairnessKeys: ['tenant-a'] }),
          ],
        };
      },
    },
  ],
  tidy: [
    {
      isHint: true,
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        await store.announceLines({ partition, lines: [aReadyLine({ fairnessKey: 'a' })], nowMs: NOW_MS });
        const reservation = aReservation(MANY, { batchId: '1-1' });
        await committed(stage, { reserve: [reservation] });
        await store.loadPartition({ partition, nowMs: NOW_MS });
        await store.readKeys({ partition, type: SUITE_TYPE, limit: 10 });
        const ledgers = [aLedger({ fairnessKey: 'a' })];
        const positions = MANY.map((_, at) => at);
        await committed(stage, { drop: [{ reservation, positions }], ledgers });
        return {
          call: () => store.tidy({ partition }),
          left: () => quiet.loadPartition({ partition, nowMs: NOW_MS }),
        };
      },
    },
  ],
  markParked: [
    {
      set: async ({ store, quiet, partition }) => ({
        call: () => store.markParked({ partition, conflictKeys: ['a', 'b'], nowMs: NOW_MS }),
        left: () => quiet.listParked({ partition, limit: 10 }),
      }),
    },
  ],
  readParked: [
    {
      set: async ({ store, partition }) => {
        await store.markParked({ partition, conflictKeys: ['a', 'b', 'c'], nowMs: NOW_MS });
        await store.markParked({ partition, conflictKeys: ['b'], nowMs: NOW_MS + 1 });
        return {
          call: () => store.readParked({ partition, conflictKeys: ['c', 'none', 'b', 'a'] }),
          left: async () => undefined,
        };
      },
    },
  ],
  listParked: [
    {
      set: async ({ store, partition }) => {
        await store.markParked({ partition, conflictKeys: ['a', 'b', 'c', 'd', 'e'], nowMs: NOW_MS });
        const pages = async () => {
          const first = await store.listParked({ partition, limit: 3 });
          return [first, await store.listParked({ partition, limit: 2, after: first.next })];
        };
        return { call: pages, left: async () => undefined };
      },
    },
  ],
  unmarkParked: [
    {
      set: async ({ store, quiet, partition }) => {
        await store.markParked({ partition, conflictKeys: ['a', 'b'], nowMs: NOW_MS });
        return {
          call: () => store.unmarkParked({ partition, mark: { conflictKey: 'a', parkedAtMs: NOW_MS } }),
          left: () => quiet.listParked({ partition, limit: 10 }),
        };
      },
    },
  ],
  readBlocked: [
    {
      isWeak: true,
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = ['a', 'b', 'c'].flatMap((fairnessKey) =>
          [0, 1].map((at) => aJob({ partition, fairnessKey, readyAtMs: NOW_MS + at })),
        );
        await jobsOf(stage, jobs);
        await store.park({ partition, version: 0, jobs, conflictKey: CONFLICT_KEY });
        return {
          call: () => store.readBlocked({ partition, conflictKey: CONFLICT_KEY, groups: 2 }),
          left: left(stage, jobs),
        };
      },
    },
  ],
  park: [
    {
      refused: [
        { kind: 'lost' },
        parkedAs('superseded', 'applied', 'applied'),
        parkedAs('applied', 'superseded', 'applied'),
        parkedAs('applied', 'applied', 'superseded'),
      ],
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        const jobs = await jobsOf(
          stage,
          [0, 1, 2].map((at) => aJob({ partition, readyAtMs: NOW_MS + at })),
        );
        return {
          // Called again, it parks the same jobs on top of what is there.
          call: async () => {
            const { version } = await quiet.loadPartition({ partition, nowMs: NOW_MS });
            const outcome = await store.park({ partition, version, jobs, conflictKey: CONFLICT_KEY });
            return outcome.kind === 'lost' ? outcome : { ...outcome, version: outcome.version - version };
          },
          left: async () => [
            await quiet.readBlocked({ partition, conflictKey: CONFLICT_KEY, groups: 10 }),
            await quiet.readLine({ partition, line: aReadyLine(), limit: 10 }),
          ],
        };
      },
    },
  ],
  unpark: [
    {
      // As of `promote`.
      lost: always(['superseded']),
      again: always(['superseded']),
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        const jobs = await jobsOf(stage, [aJob({ partition })]);
        await store.park({ partition, version: 0, jobs, conflictKey: CONFLICT_KEY });
        return {
          call: () => store.unpark({ jobs, conflictKey: CONFLICT_KEY }),
          left: async () => [
            await quiet.readBlocked({ partition, conflictKey: CONFLICT_KEY, groups: 10 }),
            await quiet.readLine({ partition, line: aReadyLine(), limit: 10 }),
          ],
        };
      },
    },
  ],
  askForLoan: [
    {
      set: async (stage) => {
        const { store, partition } = stage;
        const request = { partition: partition + 1, wants: [], askedAtMs: NOW_MS, untilMs: EXPIRES_AT_MS };
        return { call: () => store.askForLoan({ partition, request }), left: left(stage) };
      },
    },
  ],
  claim: [
    {
      name: 'alone',
      set: async (stage) => {
        const jobs = await jobsOf(stage, [aJob({ partition: stage.partition })]);
        const requests = jobs.map((job) => aClaimRequest(job));
        return { call: () => stage.store.claim(requests), left: left(stage, jobs) };
      },
    },
    {
      name: 'together',
      set: async (stage) => {
        const { store, partition } = stage;
        const jobs = await jobsOf(stage, [aJob({ partition }), aJob({ partition }), aJob({ partition })]);
        const requests = jobs.map((job, at) => aClaimRequest({ ...job, version: at === 1 ? 7 : 1 }));
        return { call: () => store.claim(requests), left: left(stage, jobs) };
      },
    },
    {
      name: 'with a lock',
      refused: [['lost'], ['blocked']],
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        const conflictKey = `album/of-${partition}`;
        const jobs = await jobsOf(stage, [aJob({ partition, resourceId: 'cats' })]);
        const requests = jobs.map((job) => aClaimRequest(job, { lock: { conflictKey, partition } }));
        return {
          call: () => store.claim(requests),
          left: async () => [await left(stage, jobs)(), await quiet.readLocks([conflictKey])],
        };
      },
    },
  ],
  readLocks: [
    {
      set: async (stage) => {
        const { store, partition } = stage;
        const keys = ['a', 'b', 'c'].map((name) => `album/${name}-${partition}`);
        for (const conflictKey of keys.slice(0, 2)) {
          const [job] = await jobsOf(stage, [aJob({ partition })]);
          if (job !== undefined)
            await store.claim([aClaimRequest(job, { lock: { conflictKey, partition } })]);
        }
        return { call: () => store.readLocks(keys.toReversed()), left: async () => undefined };
      },
    },
  ],
  awaitLock: [
    {
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        const conflictKey = `album/of-${partition}`;
        const [job] = await jobsOf(stage, [aJob({ partition })]);
        if (job !== undefined) await store.claim([aClaimRequest(job, { lock: { conflictKey, partition } })]);
        return {
          call: () => store.awaitLock({ conflictKey, partition: partition + 1, nowMs: NOW_MS }),
          left: () => quiet.readLocks([conflictKey]),
        };
      },
    },
  ],
  releaseLock: [false, true].map((isNotified) => ({
    name: isNotified ? 'that another partition waits for' : 'that nobody waits for',
    set: async (stage: Stage): Promise<Scene> => {
      const { store, quiet, partition } = stage;
      const conflictKey = `album/of-${partition}`;
      const [job] = await jobsOf(stage, [aJob({ partition })]);
      if (job === undefined) throw new Error('no job');
      const request = aClaimRequest(job, { lock: { conflictKey, partition } });
      await store.claim([request]);
      if (isNotified) await store.awaitLock({ conflictKey, partition: partition + 1, nowMs: NOW_MS });
      return {
        call: () =>
          store.releaseLock({ conflictKey, partition, claimId: request.claimId, untilMs: NOW_MS + 10_000 }),
        left: () => quiet.readLocks([conflictKey]),
      };
    },
  })),
  giveBack: [
    {
      lost: always('superseded'),
      again: always('superseded'),
      set: async (stage) => {
        const job = aJob({ partition: stage.partition });
        await stage.store.createJobs([job]);
        const request = aClaimRequest(job);
        await stage.store.claim([request]);
        const [claimed = job] = await stage.store.getJobs({ ids: [job.id] });
        return {
          call: () => stage.store.giveBack({ job: claimed, claimId: request.claimId, nowMs: NOW_MS }),
          left: left(stage, [job]),
        };
      },
    },
  ],
  raiseVersion: [
    {
      again: always('lost'),
      set: async (stage) => {
        const [job] = await jobsOf(stage, [aJob({ partition: stage.partition })]);
        if (job === undefined) throw new Error('no job');
        return {
          call: () => stage.store.raiseVersion({ jobId: job.id, version: 1 }),
          left: left(stage, [job]),
        };
      },
    },
  ],
  endUnfinished: [
    {
      set: async (stage) => {
        const { job } = await runningJob(stage);
        return {
          call: () =>
            stage.store.endUnfinished({
              job,
              verdict: RETRY,
              nowMs: NOW_MS + 40,
              expiresAtMs: EXPIRES_AT_MS,
            }),
          left: left(stage, [job]),
        };
      },
    },
  ],
  retireLine: [1, 2].map((count) => ({
    name: count === 1 ? 'the last one' : 'one of two',
    set: async ({ store, quiet, partition }: Stage): Promise<Scene> => {
      const lines = [aReadyLine(), aReadyLine({ mode: 'onDemand' as const })].slice(0, count);
      await store.announceLines({ partition, lines, nowMs: NOW_MS });
      return {
        call: () => store.retireLine({ partition, line: aReadyLine(), announcedAtMs: NOW_MS }),
        left: () => quiet.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys: ['tenant-a'] }),
      };
    },
  })),
  startJob: [{}, LARGE].map((change) => ({
    ...(change === LARGE ? { name: 'with a payload apart' } : {}),
    set: async (stage: Stage): Promise<Scene> => {
      const { store, partition } = stage;
      const [job] = await jobsOf(stage, [aJob({ partition, ...change })]);
      if (job === undefined) throw new Error('no job');
      const request = aClaimRequest(job);
      await store.claim([request]);
      const start = { ...aWorker(), jobId: job.id, claimId: request.claimId, nowMs: NOW_MS + 5 };
      return {
        call: () => store.startJob({ ...start, runUntilMs: NOW_MS + 60_000 }),
        left: left(stage, [job]),
      };
    },
  })),
  finishJob: [
    { name: 'with a success', set: finishing(SUCCESS) },
    { name: 'with a failure', set: finishing(FAILURE) },
    { name: 'to be tried again', set: finishing(RETRY) },
    { name: 'with a success and a payload apart', set: finishing(SUCCESS, LARGE) },
    { name: 'to be tried again with a payload apart', set: finishing(RETRY, LARGE) },
    {
      name: 'to be tried again, which nobody wants',
      set: async (stage) => {
        const { job, worker } = await runningJob(stage);
        await stage.store.cancelJob({ jobId: job.id, nowMs: NOW_MS + 6, expiresAtMs: EXPIRES_AT_MS });
        const end = { ...worker, job, verdict: RETRY, nowMs: NOW_MS + 9, expiresAtMs: EXPIRES_AT_MS };
        return { call: () => stage.store.finishJob(end), left: left(stage, [job]) };
      },
    },
  ],
  saveCheckpoint: [
    {
      set: async (stage) => {
        const { job, worker } = await runningJob(stage);
        return {
          call: () => stage.store.saveCheckpoint({ job, worker, checkpoint: { page: 3 } }),
          left: left(stage, [job]),
        };
      },
    },
  ],
  saveSteps: [
    {
      set: async (stage) => {
        const { job, worker } = await runningJob(stage);
        return {
          call: () => stage.store.saveSteps({ job, worker, steps: { charge: { value: 3 } } }),
          left: left(stage, [job]),
        };
      },
    },
  ],
  saveProgress: [
    {
      set: async (stage) => {
        const { job, worker } = await runningJob(stage);
        return {
          call: () => stage.store.saveProgress({ job, worker, progress: 0.5 }),
          left: left(stage, [job]),
        };
      },
    },
  ],
  saveHung: [
    {
      set: async (stage) => {
        const { job, worker } = await runningJob(stage);
        const claimId = job.claim?.claimId ?? '';
        const error = { name: 'JobTimeout', message: 'too long' };
        return {
          call: () => stage.store.saveHung({ jobId: job.id, claimId, worker, error }),
          left: left(stage, [job]),
        };
      },
    },
  ],
  registerWorker: [
    {
      name: 'for the first time',
      set: async (stage) => {
        const record = aWorkerRecord();
        return {
          call: () => stage.store.registerWorker({ partition: stage.partition, record }),
          left: left(stage),
        };
      },
    },
    {
      name: 'for its next life',
      set: async (stage) => {
        const { store, partition } = stage;
        const former = aWorkerRecord({ incarnation: '0001' });
        await store.registerWorker({ partition, record: former });
        const next = { ...former, incarnation: '0002', expiresAtMs: former.expiresAtMs + 1_000 };
        return { call: () => store.registerWorker({ partition, record: next }), left: left(stage) };
      },
    },
  ],
  heartbeat: [
    {
      set: async (stage) => {
        const { store, partition } = stage;
        const record = aWorkerRecord();
        await store.registerWorker({ partition, record });
        const later = { ...record, expiresAtMs: record.expiresAtMs + 5_000 };
        return { call: () => store.heartbeat({ partition, record: later }), left: left(stage) };
      },
    },
  ],
  deregisterWorker: [
    {
      name: 'of one life',
      set: async (stage) => {
        const record = aWorkerRecord();
        await stage.store.registerWorker({ partition: stage.partition, record });
        return {
          call: () => stage.store.deregisterWorker({ partition: stage.partition, worker: record }),
          left: left(stage),
        };
      },
    },
    {
      name: 'whose former life may run',
      set: async (stage) => {
        const { store, partition } = stage;
        const former = aWorkerRecord({ incarnation: '0001' });
        const next = { ...former, incarnation: '0002' };
        await store.registerWorker({ partition, record: former });
        await store.registerWorker({ partition, record: next });
        return { call: () => store.deregisterWorker({ partition, worker: next }), left: left(stage) };
      },
    },
  ],
  keepDispatcher: [
    {
      set: async ({ store, quiet }) => {
        const record = aDispatcherRecord();
        return {
          call: () => store.keepDispatcher(record),
          left: async () =>
            (await quiet.listDispatchers(NOW_MS)).filter((each) => each.dispatcherId === record.dispatcherId),
        };
      },
    },
  ],
  removeDispatcher: [
    {
      set: async ({ store, quiet }) => {
        const record = aDispatcherRecord();
        await store.keepDispatcher(record);
        return {
          call: () => store.removeDispatcher(record),
          left: async () =>
            (await quiet.listDispatchers(NOW_MS)).filter((each) => each.dispatcherId === record.dispatcherId),
        };
      },
    },
  ],
  listDispatchers: [
    {
      set: async ({ store }) => {
        const records = [aDispatcherRecord(), aDispatcherRecord(), aDispatcherRecord()];
        for (const record of records) await store.keepDispatcher(record);
        const ids = new Set(records.map(({ dispatcherId }) => dispatcherId));
        return {
          call: async () =>
            (await store.listDispatchers(NOW_MS)).filter(({ dispatcherId }) => ids.has(dispatcherId)),
          left: async () => undefined,
        };
      },
    },
  ],
  cancelJob: [
    {
      name: 'that waits, with a payload apart',
      again: reads('cancelled', 'ended'),
      set: async (stage) => {
        const [job] = await jobsOf(stage, [aLargeJob(stage.partition)]);
        if (job === undefined) throw new Error('no job');
        return {
          call: () => stage.store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
          left: left(stage, [job]),
        };
      },
    },
    {
      name: 'that waits',
      again: reads('cancelled', 'ended'),
      set: async (stage) => {
        const [job] = await jobsOf(stage, [aJob({ partition: stage.partition })]);
        if (job === undefined) throw new Error('no job');
        return {
          call: () => stage.store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
          left: left(stage, [job]),
        };
      },
    },
    {
      name: 'that runs',
      set: async (stage) => {
        const { job } = await runningJob(stage);
        return {
          call: () => stage.store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
          left: left(stage, [job]),
        };
      },
    },
  ],
  retimeJob: [
    {
      name: 'with a payload apart, to a time years ahead',
      again: reads('moved', 'superseded'),
      set: async (stage) => {
        const [job] = await jobsOf(stage, [aLargeJob(stage.partition)]);
        if (job === undefined) throw new Error('no job');
        const runAtMs = NOW_MS + 2 * PAYLOAD_KEPT_MS;
        return {
          call: () => stage.store.retimeJob({ job, runAtMs, nowMs: NOW_MS }),
          left: left(stage, [job]),
        };
      },
    },
    {
      again: reads('moved', 'superseded'),
      set: async (stage) => {
        const job = aJob({ partition: stage.partition });
        await jobsOf(stage, [job]);
        return {
          call: () => stage.store.retimeJob({ job, runAtMs: NOW_MS + 60_000, nowMs: NOW_MS }),
          left: left(stage, [job]),
        };
      },
    },
  ],
  changeControl: [
    {
      name: 'of a scope',
      set: async (stage) => ({
        call: () =>
          stage.store.changeControl({
            partition: stage.partition,
            scope: 'pool',
            change: { paused: true, maxConcurrency: 3 },
          }),
        left: left(stage),
      }),
    },
    {
      name: 'to what is configured',
      set: async (stage) => {
        const { store, partition } = stage;
        await store.changeControl({ partition, scope: 'pool', change: { paused: true } });
        return {
          call: () => store.changeControl({ partition, scope: 'pool', change: { paused: false } }),
          left: left(stage),
        };
      },
    },
  ],
  rest: [
    {
      name: 'of a scope',
      // The rest is there by then, and it is not later than itself.
      lost: always('superseded'),
      again: always('superseded'),
      set: async (stage) => {
        const { store, partition } = stage;
        return {
          call: () => store.rest({ partition, scope: 'type/resize', untilMs: NOW_MS + 60_000 }),
          left: left(stage),
        };
      },
    },
    {
      name: 'shorter than the one before',
      set: async (stage) => {
        const { store, partition } = stage;
        await store.rest({ partition, scope: 'type/resize', untilMs: NOW_MS + 60_000 });
        return {
          call: () => store.rest({ partition, scope: 'type/resize', untilMs: NOW_MS + 30_000 }),
          left: left(stage),
        };
      },
    },
  ],
  adoptControl: [
    {
      name: 'that nobody has changed here',
      // It is there by then, from whomever.
      again: always('superseded'),
      set: async (stage) => {
        const control = { scope: 'pool', paused: true, maxConcurrency: 3 };
        return {
          call: () => stage.store.adoptControl({ partition: stage.partition, control }),
          left: left(stage),
        };
      },
    },
    {
      name: 'that somebody has changed here',
      set: async (stage) => {
        const { store, partition } = stage;
        await store.changeControl({ partition, scope: 'pool', change: { paused: false } });
        const control = { scope: 'pool', paused: true };
        return { call: () => store.adoptControl({ partition, control }), left: left(stage) };
      },
    },
  ],
  listUnreadable: [
    {
      set: async (stage) => {
        const { store, quiet, partition } = stage;
        const jobs = [0, 1, 2, 3].map((at) =>
          aJob({ partition, readyAtMs: NOW_MS + at, state: 'asleep' as 'pending' }),
        );
        await jobsOf(stage, jobs);
        await quiet.getJobs({ ids: jobs.map(({ id }) => id), unreadable: () => {} });
        return { call: () => store.listUnreadable(partition), left: async () => undefined };
      },
    },
  ],
  readDeadLetters: [
    {
      isWeak: true,
      set: async (stage) => {
        const { store, partition } = stage;
        for (const nowMs of [1, 2, 3]) {
          const { job, worker } = await runningJob(stage, nowMs === 2 ? aLargeJob(partition) : undefined);
          await store.finishJob({
            ...worker,
            job,
            verdict: FAILURE,
            nowMs: NOW_MS + nowMs,
            expiresAtMs: EXPIRES_AT_MS,
          });
        }
        return { call: () => store.readDeadLetters({ partition, limit: 2 }), left: async () => undefined };
      },
    },
  ],
  readFinished: [
    {
      isWeak: true,
      set: async (stage) => {
        const { store, partition } = stage;
        const { type } = aJob();
        for (let ended = 0; ended < 3; ended += 1) {
          const { job, worker } = await runningJob(stage, aJob({ partition, listFinished: true }));
          const end = { verdict: SUCCESS, nowMs: NOW_MS + ended, expiresAtMs: EXPIRES_AT_MS };
          await store.finishJob({ ...worker, ...end, job });
        }
        return {
          call: () => store.readFinished({ partition, type, state: 'succeeded', limit: 2 }),
          left: async () => undefined,
        };
      },
    },
  ],
  readDeclaredVersion: [
    {
      set: async ({ store, quiet }) => {
        await declared(quiet, 'a version');
        return { call: async () => (await store.readDeclaredVersion()) > 0, left: async () => undefined };
      },
    },
  ],
  readDeclaration: [
    {
      name: 'of one part',
      set: async ({ store, quiet }) => {
        await declared(quiet, 'short');
        return { call: async () => (await store.readDeclaration())?.text, left: async () => undefined };
      },
    },
    {
      name: 'of several parts',
      set: async ({ store, quiet }) => {
        const text = 'long'.repeat(DECLARATION_PART_CHARS / 2);
        const version = await declared(quiet, text);
        return {
          call: async () => (await store.readDeclaration(version))?.text === text,
          left: async () => undefined,
        };
      },
    },
  ],
  putDeclaration: [
    {
      set: async ({ store, quiet, partition }) => {
        const after = await quiet.readDeclaredVersion();
        const text = `declared by ${partition}`;
        return {
          call: async () => (await store.putDeclaration({ text, after, nowMs: NOW_MS })).kind,
          left: async () => (await quiet.readDeclaration(after + 1))?.text === text,
        };
      },
    },
    {
      name: 'too late',
      set: async ({ store, quiet }) => {
        const version = await declared(quiet, 'sooner');
        return {
          call: async () =>
            (await store.putDeclaration({ text: 'later', after: version - 1, nowMs: NOW_MS + 1 })).kind,
          left: async () => (await quiet.readDeclaration())?.text,
        };
      },
    },
  ],
  announceDeclaration: [
    {
      set: async (stage) => {
        const { store, partition } = stage;
        return { call: () => store.announceDeclaration({ partition, version: 5 }), left: left(stage) };
      },
    },
  ],
  redrive: [{}, LARGE].map((change) => ({
    ...(change === LARGE ? { name: 'with a payload apart', hasHint: true as const } : {}),
    refused: ['superseded', 'superseded'],
    set: async (stage: Stage): Promise<Scene> => {
      const { store, partition } = stage;
      const { job, worker } = await runningJob(stage);
      const end = { ...worker, job, verdict: FAILURE, nowMs: NOW_MS + 1, expiresAtMs: EXPIRES_AT_MS };
      const failed = await store.finishJob(end);
      if (failed.kind !== 'finished') throw new Error('not finished');
      const next = aJob({ partition, redriveOf: job.id, ...change });
      return {
        call: () => store.redrive({ deadLetter: failed.job, job: next }),
        left: left(stage, [job, next]),
      };
    },
  })),
};
