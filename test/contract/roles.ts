/** Which verbs of the store each role uses. Where the code says it by a type, the compiler compares. */
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import type { ResidentOptions } from '../../lib/dispatch/resident/options.ts';
import type { EndedJobs } from '../../lib/store/contract/ended.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import type { WorkerParts } from '../../lib/worker/lambda-batch.ts';
import type { WorkerProcessOptions } from '../../lib/worker/process/options.ts';

type Verb = keyof JobStore | keyof EndedJobs;

/** Every verb of the type, and no other. */
const verbsOf = <Store>(verbs: Readonly<Record<keyof Store, true>>): readonly Verb[] =>
  Object.keys(verbs) as Verb[];

const DECLARED: readonly Verb[] = ['readDeclaredVersion', 'readDeclaration'];

/** Of whoever submits, moves and cancels with the client. */
const SUBMIT: readonly Verb[] = [
  ...DECLARED,
  'createJobs',
  'announceLines',
  'getJobs',
  'lookUpJobs',
  'recordTags',
  'readDedupe',
  'createDeduped',
  'mergeJob',
  'readKeys',
  'readLine',
  'getEstimates',
  'readLeader',
  'putLetter',
  'retimeJob',
  'cancelJob',
];

const PASS = verbsOf<
  Omit<DispatchContext['store'], 'recordRejections' | 'readDeclaredVersion' | 'readDeclaration'>
>({
  createJobs: true,
  announceLines: true,
  getJobs: true,
  lookUpJobs: true,
  putLetter: true,
  recordTags: true,
  readDedupe: true,
  createDeduped: true,
  mergeJob: true,
  lead: true,
  stopLeading: true,
  readLeader: true,
  readLetters: true,
  deleteLetters: true,
  loadPartition: true,
  commit: true,
  tidy: true,
  keepLookout: true,
  askForLoan: true,
  readKeys: true,
  readBacklogs: true,
  getLedgers: true,
  getEstimates: true,
  readLine: true,
  readDue: true,
  promote: true,
  rehome: true,
  retireLine: true,
  markParked: true,
  readParked: true,
  listParked: true,
  unmarkParked: true,
  readBlocked: true,
  park: true,
  unpark: true,
  claim: true,
  readLocks: true,
  awaitLock: true,
  releaseLock: true,
  raiseVersion: true,
  giveBack: true,
  endUnfinished: true,
  adoptControl: true,
  announceDeclaration: true,
  listDispatchers: true,
  cancelJob: true,
  readExpired: true,
  expireJobs: true,
  getSchedules: true,
  saveSchedule: true,
  readDueSchedules: true,
  putStatistics: true,
});

const MEMBERSHIP = verbsOf<Omit<ResidentOptions['store'], keyof DispatchContext['store']>>({
  keepDispatcher: true,
  removeDispatcher: true,
});

/** A function has no record of its own, whatever its type would let it do. */
const WORK = verbsOf<Omit<WorkerParts['store'], 'registerWorker' | 'heartbeat' | 'deregisterWorker'>>({
  startJob: true,
  finishJob: true,
  endUnfinished: true,
  saveCheckpoint: true,
  saveSteps: true,
  saveProgress: true,
  saveHung: true,
  rest: true,
  lookUpJobs: true,
});

const SERVE = verbsOf<Omit<WorkerProcessOptions['store'], 'saveProgress'>>({
  startJob: true,
  finishJob: true,
  endUnfinished: true,
  saveCheckpoint: true,
  saveSteps: true,
  saveHung: true,
  rest: true,
  registerWorker: true,
  heartbeat: true,
  deregisterWorker: true,
  lookUpJobs: true,
  loadPartition: true,
});

const READ: readonly Verb[] = [
  ...DECLARED,
  'getJobs',
  'lookUpJobs',
  'loadPartition',
  'readKeys',
  'readBacklogs',
  'readLine',
  'readDue',
  'listParked',
  'readBlocked',
  'readLocks',
  'readLeader',
  'readDeadLetters',
  'readFinished',
  'getEstimates',
  'getLedgers',
  'listDispatchers',
  'listUnreadable',
  'listRejections',
  'readRejections',
  'readTagged',
  'getSchedules',
  'readDueSchedules',
  'readStoppedSchedules',
  'readStatistics',
];

/** Of whoever puts and removes schedules: a firing that was decided already is submitted first. */
const SCHEDULE: readonly Verb[] = [
  'getSchedules',
  'putSchedule',
  'saveSchedule',
  'deleteSchedule',
  'discardSchedule',
  'createJobs',
  'announceLines',
  'recordTags',
  'getJobs',
];

/** Each role with the verbs that it uses, and the golden file of its policy. */
export const ROLES = {
  submit: { golden: 'submit', verbs: SUBMIT },
  declare: {
    golden: 'function-declare',
    verbs: [
      ...DECLARED,
      ...SCHEDULE,
      'putDeclaration',
      'announceDeclaration',
      'readDeclaredSchedules',
      'noteDeclaredSchedules',
    ],
  },
  'the dispatch function': { golden: 'function-dispatch', verbs: [...DECLARED, ...PASS] },
  'the ingest function': {
    golden: 'function-ingest',
    verbs: [...DECLARED, ...PASS, ...SCHEDULE, 'recordRejections', 'retimeJob', 'cancelJob'],
  },
  'a fleet’s function': { golden: 'function-worker', verbs: [...DECLARED, ...WORK] },
  dispatch: { golden: 'dispatch', verbs: [...DECLARED, ...PASS, ...MEMBERSHIP] },
  work: { golden: 'work', verbs: [...DECLARED, ...SERVE] },
  read: { golden: 'read', verbs: READ },
  operate: {
    golden: 'operate',
    verbs: [
      ...READ,
      ...SCHEDULE,
      'readDedupe',
      'createDeduped',
      'mergeJob',
      'changeControl',
      'cancelJob',
      'retimeJob',
      'announceLines',
      'redrive',
      'putLetter',
      'endedJobs',
    ],
  },
} as const satisfies Record<string, { readonly golden: string; readonly verbs: readonly Verb[] }>;

export type RoleName = keyof typeof ROLES;
