/**
 * Bugs that are planted on purpose, each of which takes one protection away: by a switch of the simulation, or by a change of
 * the sources. Each must be found: one that is not means that an invariant is missing, or a scenario.
 */
import type { Job } from '../../lib/core/job.ts';
import type { ClaimRequest, Commit, FinishRequest, StartRequest } from '../../lib/store/contract/requests.ts';
import type { JobStore, RequestOf } from '../../lib/store/contract/verbs.ts';
import { instead } from './instead.ts';
import type { Planted } from './planted-bug.ts';
import { CHANGED } from './planted-changes.ts';

const withoutReservations = (commit: Commit): Commit => ({ ...commit, reserve: [] });

/** Switches of the simulation. */
const SWITCHED: Readonly<Record<string, Planted>> = {
  'commit-version': {
    removes: 'the version in the condition of a commit',
    foundBy: { simulation: 1 },
    store: (store) =>
      instead(store, {
        commit: ({ partition, commit }: RequestOf<'commit'>) =>
          store.commit({
            partition,
            commit: { ...commit, version: store.inspect(partition).summary.version },
          }),
      }),
  },
  'reserve-before-claim': {
    removes: 'the reservation before the claim',
    foundBy: { simulation: 1 },
    store: (store) =>
      instead(store, {
        commit: ({ partition, commit }: RequestOf<'commit'>) =>
          store.commit({ partition, commit: withoutReservations(commit) }),
      }),
  },
  'start-claim': {
    removes: 'the claim in the condition of a start',
    foundBy: { simulation: 5 },
    store: (store) =>
      instead(store, {
        startJob: async (request: StartRequest) => {
          const job = store.inspectJob(request.jobId);
          if (job?.state !== 'pending') return store.startJob(request);
          const { jobId, claimId, nowMs: claimedAtMs } = request;
          const [batchId = ''] = claimId.split('.');
          await store.claim([
            { jobId, claimId, claimedAtMs, batchId, version: job.version, fleet: 'general' },
          ]);
          return store.startJob(request);
        },
      }),
  },
  'start-version': {
    removes: 'the version in the condition of a start that claims',
    foundBy: { simulation: 1 },
    store: (store) =>
      instead(store, {
        startJob: (request: StartRequest) => {
          const { toClaim } = request;
          const version = store.inspectJob(request.jobId)?.version ?? 0;
          return store.startJob({ ...request, toClaim: toClaim && { ...toClaim, version } });
        },
      }),
  },
  'finish-claim': {
    removes: 'claim, worker and incarnation in the condition of a finish',
    foundBy: { simulation: 205 },
    store: (store) =>
      instead(store, {
        finishJob: (request: FinishRequest) => {
          const job = store.inspectJob(request.job.id) ?? request.job;
          return store.finishJob({
            ...request,
            ...(job.worker ?? {}),
            job: { ...request.job, claim: job.claim },
          });
        },
      }),
  },
  'lose-worker-claim': {
    removes: 'the lease of a worker before it is declared lost',
    foundBy: { simulation: 7 },
    store: (store) =>
      instead(store, {
        lookUpJobs: async ({ ids }: RequestOf<'lookUpJobs'>) =>
          (await store.lookUpJobs({ ids })).map((job) =>
            job?.state === 'running' ? { ...job, startedAtMs: 0 } : job,
          ),
      }),
  },
  'expired-workers': {
    removes: 'the expiry of workers',
    foundBy: { simulation: 16 },
    store: (store) =>
      instead(store, {
        loadPartition: ({ partition }: RequestOf<'loadPartition'>) =>
          store.loadPartition({ partition, nowMs: 0 }),
      }),
  },
  'look-for-letters': {
    removes: 'the letters that a leader reads',
    foundBy: { simulation: 1 },
    store: (store) => instead(store, { readLetters: async () => ({ letters: [], more: false }) }),
  },
  'true-up': {
    removes: 'the charge of what attempts used',
    foundBy: { simulation: 1 },
    store: (store) =>
      instead(store, {
        commit: ({ partition, commit }: RequestOf<'commit'>) =>
          store.commit({ partition, commit: { ...commit, ledgers: [] } }),
      }),
  },
  'due-time': {
    // Either is enough.
    removes: 'the time in the due line, and in the condition of a promotion',
    foundBy: { simulation: 2 },
    store: (store) =>
      instead(store, {
        readDue: ({ partition, nowMs, limit, after }: RequestOf<'readDue'>) =>
          store.readDue({ partition, nowMs: nowMs + 3_600_000, limit, after }),
        promote: ({ jobs, nowMs }: RequestOf<'promote'>) => store.promote({ jobs, nowMs: nowMs + 3_600_000 }),
      }),
  },
  'retime-version': {
    removes: 'the version in the condition of a move to another time',
    foundBy: { simulation: 6 },
    store: (store) =>
      instead(store, {
        retimeJob: (asked: RequestOf<'retimeJob'>) =>
          store.retimeJob({ ...asked, job: store.inspectJob(asked.job.id) ?? asked.job }),
      }),
  },
  'announce-lines': {
    removes: 'the announcement of a line before its first job',
    foundBy: { simulation: 1 },
    store: (store) => instead(store, { announceLines: async ({ lines, nowMs }) => lines.map(() => nowMs) }),
  },
  'retire-quiet-lines': {
    removes: 'the condition that a retired line was not announced meanwhile',
    foundBy: { simulation: 2 },
    store: (store) =>
      instead(store, {
        retireLine: ({ partition, line }) =>
          store.retireLine({ partition, line, announcedAtMs: Number.MAX_SAFE_INTEGER }),
        readLine: async ({ partition, line, limit, after }) => {
          const read = await store.readLine({ partition, line, limit, after });
          if (read.jobs.length === 0 && !('conflictKey' in line))
            await store.retireLine({ partition, line, announcedAtMs: Number.MAX_SAFE_INTEGER });
          return read;
        },
      }),
  },
  'conflict-keys': {
    removes: 'the conflict key in the reservation',
    foundBy: { simulation: 1 },
    store: (store) =>
      instead(store, {
        loadPartition: async ({ partition, nowMs }: RequestOf<'loadPartition'>) => {
          const state = await store.loadPartition({ partition, nowMs });
          return {
            ...state,
            reservations: state.reservations.map((reservation) => ({
              ...reservation,
              jobs: new Map(
                [...reservation.jobs].map(
                  ([at, { conflictKey: _conflictKey, ...entry }]) => [at, entry] as const,
                ),
              ),
            })),
          };
        },
      }),
  },
  'count-reservations': {
    removes: 'one place in five from what a pass counts',
    foundBy: { simulation: 1 },
    store: (store) =>
      instead(store, {
        loadPartition: async ({ partition, nowMs }: RequestOf<'loadPartition'>) => {
          const state = await store.loadPartition({ partition, nowMs });
          return { ...state, reservations: state.reservations.filter((_, at) => at % 5 !== 4) };
        },
      }),
  },
  'resend-unstarted': {
    removes: 'looking again at what was reserved',
    foundBy: { simulation: 2 },
    store: (store) =>
      instead(store, {
        loadPartition: async ({ partition, nowMs }: RequestOf<'loadPartition'>) => {
          const state = await store.loadPartition({ partition, nowMs });
          return {
            ...state,
            reservations: state.reservations.map((each) => ({ ...each, checkAtMs: Number.MAX_SAFE_INTEGER })),
          };
        },
      }),
  },
  'idempotent-create': {
    removes: 'the condition that a job is created once',
    foundBy: { simulation: 1 },
    store: (store) =>
      instead(store, {
        createJobs: (jobs: readonly Job[]) =>
          store.createJobs(
            jobs.map((job) =>
              store.inspectJob(job.id) === undefined ? job : { ...job, id: `${job.id}-again` },
            ),
          ),
      }),
  },
  'strong-reads': {
    removes: 'the strong consistency of the partition read',
    foundBy: { simulation: 1 },
    store: (store) => {
      let stale: Awaited<ReturnType<JobStore['loadPartition']>> | undefined;
      return instead(store, {
        loadPartition: async ({ partition, nowMs }: RequestOf<'loadPartition'>) => {
          const state = await store.loadPartition({ partition, nowMs });
          const seen = stale ?? state;
          stale = state;
          return { ...seen, version: state.version };
        },
      });
    },
  },
  'ingest-failures': {
    removes: 'what a batch of requests says of those that failed',
    foundBy: { simulation: 11 },
    forgetsFailures: true,
  },
  'bus-failures': {
    removes: 'what the bus says of events that it did not take',
    foundBy: { simulation: 104 },
    bus: (bus) =>
      instead(bus, {
        publish: async (events) => {
          await bus.publish(events);
          return [];
        },
      }),
  },
  'redrive-once': {
    removes: 'the note on a dead letter that another job was made of it',
    foundBy: { simulation: 7 },
    store: (store) =>
      instead(store, {
        redrive: async ({ job }: RequestOf<'redrive'>) => {
          const isThere = store.inspectJob(job.id) !== undefined;
          await store.createJobs([isThere ? { ...job, id: `${job.id}-again` } : job]);
          return 'applied';
        },
      }),
  },
  controls: {
    removes: "the operators' controls",
    foundBy: { simulation: 1 },
    store: (store) =>
      instead(store, {
        loadPartition: async ({ partition, nowMs }: RequestOf<'loadPartition'>) => ({
          ...(await store.loadPartition({ partition, nowMs })),
          controls: [],
        }),
      }),
  },
  'park-marker': {
    removes: 'the mark of a blocked line, before jobs are parked in it',
    foundBy: { simulation: 2 },
    store: (store) =>
      instead(store, {
        markParked: async () => {},
      }),
  },
  'heartbeat-incarnation': {
    removes: 'the incarnation in the condition of a heartbeat',
    foundBy: { simulation: 29 },
    store: (store) =>
      instead(store, {
        heartbeat: ({ partition, record }: RequestOf<'heartbeat'>) => {
          const { incarnation } = store.inspect(partition).workers.get(record.workerId) ?? record;
          return store.heartbeat({ partition, record: { ...record, incarnation } });
        },
      }),
  },
  'claim-with-lock': {
    removes: 'the lock of a conflict key in the condition of a claim',
    foundBy: { simulation: 22 },
    store: (store) =>
      instead(store, {
        claim: (requests: readonly ClaimRequest[]) =>
          store.claim(requests.map(({ lock: _lock, ...request }) => request)),
      }),
  },
  'lent-is-gone': {
    removes: 'what was lent from what the lender has',
    foundBy: { simulation: 5 },
    store: (store) =>
      instead(store, {
        loadPartition: async ({ partition, nowMs }: RequestOf<'loadPartition'>) => {
          const state = await store.loadPartition({ partition, nowMs });
          return { ...state, loans: state.loans.filter(({ from }) => from !== partition) };
        },
      }),
  },
  'loans-come-back': {
    removes: 'the wait of a lender until a loan that has ended was given back',
    foundBy: { simulation: 168 },
    store: (store) =>
      instead(store, {
        loadPartition: async ({ partition, nowMs }: RequestOf<'loadPartition'>) => {
          const state = await store.loadPartition({ partition, nowMs });
          const loans = state.loans.filter(
            ({ from, expiresAtMs }) => from !== partition || expiresAtMs > nowMs,
          );
          return { ...state, loans };
        },
      }),
  },
  'leave-incarnation': {
    removes: "the incarnation in the condition of a dispatcher's leave",
    foundBy: { simulation: 47 },
    store: (store) =>
      instead(store, {
        removeDispatcher: async (dispatcher) => {
          const members = await store.listDispatchers(0);
          const present = members.find(({ dispatcherId }) => dispatcherId === dispatcher.dispatcherId);
          return store.removeDispatcher(present ?? dispatcher);
        },
      }),
  },
  'locks-come-back': {
    removes: 'giving back the lock of a conflict key',
    foundBy: { simulation: 5 },
    store: (store) => instead(store, { releaseLock: async () => ({}) }),
  },
};

export const PLANTED: Readonly<Record<string, Planted>> = { ...SWITCHED, ...CHANGED };
