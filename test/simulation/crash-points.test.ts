/** Calls of some small runs, and their caller dies; `crash-points.long.test.ts` has all calls, and what else can happen. */
import { describe, expect, it } from 'vitest';
import type { EventBus } from '../../lib/events/contract.ts';
import type { JobQueue } from '../../lib/queue/contract.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import type { ScheduleStore } from '../../lib/store/schedules.ts';
import { again, QUICK, testCrashPoints } from './crash-points.ts';
import { SMALL_RUNS } from './small-runs.ts';

/** The contracts' verbs: the compiler misses one that is left out, and one that is not there any more. */
const VERBS = {
  createJobs: true,
  announceLines: true,
  recordRejections: true,
  getJobs: true,
  lookUpJobs: true,
  listRejections: true,
  listUnreadable: true,
  lead: true,
  stopLeading: true,
  readLeader: true,
  putLetter: true,
  readLetters: true,
  deleteLetters: true,
  loadPartition: true,
  readKeys: true,
  readBacklogs: true,
  getLedgers: true,
  getEstimates: true,
  readLine: true,
  readDue: true,
  readDueSchedules: true,
  readDeclaredSchedules: true,
  promote: true,
  commit: true,
  tidy: true,
  readBlocked: true,
  markParked: true,
  readParked: true,
  listParked: true,
  unmarkParked: true,
  park: true,
  unpark: true,
  claim: true,
  raiseVersion: true,
  loseWorker: true,
  retireLine: true,
  keepLookout: true,
  startJob: true,
  finishJob: true,
  saveCheckpoint: true,
  saveProgress: true,
  saveHung: true,
  registerWorker: true,
  heartbeat: true,
  deregisterWorker: true,
  keepDispatcher: true,
  removeDispatcher: true,
  listDispatchers: true,
  cancelJob: true,
  retimeJob: true,
  changeControl: true,
  readLocks: true,
  askForLoan: true,
  awaitLock: true,
  releaseLock: true,
  readDeadLetters: true,
  giveBack: true,
  adoptControl: true,
  rehome: true,
  readDeclaredVersion: true,
  readDeclaration: true,
  putDeclaration: true,
  announceDeclaration: true,
  redrive: true,
  send: true,
  receive: true,
  delete: true,
  handBack: true,
  sendWake: true,
  sendLook: true,
  publish: true,
} as const satisfies Readonly<
  Record<
    | Exclude<keyof JobStore, Exclude<keyof ScheduleStore, 'readDueSchedules' | 'readDeclaredSchedules'>>
    | keyof JobQueue
    | keyof EventBus,
    true
  >
>;

const verbOf = (call: string): string => /([a-zA-Z]+)#\d+$/.exec(call)?.[1] ?? call;

describe('small runs', () => {
  it('together make every call that the contracts know, and end well', async () => {
    const reached = new Set<string>();
    for (const small of Object.values(SMALL_RUNS)) {
      const { violations, calls } = await again(small);
      expect(violations).toEqual([]);
      for (const call of calls) reached.add(verbOf(call));
    }
    expect([...reached].sort()).toEqual(Object.keys(VERBS).sort());
  });
});

testCrashPoints([['the caller dies after it', 'crashAfterCall']], QUICK, true);
