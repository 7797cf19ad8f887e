/** Every call of some small runs, with everything that can happen to a call. */
import { describe, expect, it } from 'vitest';
import type { EventBus } from '../../lib/events/contract.ts';
import type { JobQueue } from '../../lib/queue/contract.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import type { CallFault } from './faults.ts';
import { type RunReport, run } from './run.ts';
import { SMALL_RUNS, type SmallRun } from './small-runs.ts';

Error.stackTraceLimit = 0;

const MATRIX_MS = 300_000;

/** The contracts' verbs: the compiler misses one that is left out, and one that is not there any more. */
const VERBS = {
  createJobs: true,
  announceLines: true,
  recordRejections: true,
  getJobs: true,
  listRejections: true,
  listUnreadable: true,
  acquireLease: true,
  renewLease: true,
  releaseLease: true,
  wake: true,
  readWakes: true,
  loadPartition: true,
  readKeys: true,
  readBacklogs: true,
  getLedgers: true,
  getEstimates: true,
  readLine: true,
  readDue: true,
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
  startJob: true,
  finishJob: true,
  saveCheckpoint: true,
  saveProgress: true,
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
  redrive: true,
  send: true,
  receive: true,
  delete: true,
  sendWake: true,
  publish: true,
} as const satisfies Readonly<Record<keyof JobStore | keyof JobQueue | keyof EventBus, true>>;

/** What can happen to a call: each of these happens to each call. */
const CRASH_POINTS: readonly (readonly [string, CallFault])[] = [
  ['the caller dies before it', 'crashBeforeCall'],
  ['the caller dies after it', 'crashAfterCall'],
  ['it is applied, and not answered', 'answerLostThoughApplied'],
  ['it is not applied, and not answered', 'notAppliedAndNoAnswer'],
  ['it is throttled', 'throttled'],
  ['it is delayed past the lease', 'frozenBeforeCall'],
];

const again = (
  { plan, forced }: SmallRun,
  more: ReadonlyMap<string, CallFault> = new Map(),
): Promise<RunReport> => run(plan.seed, { plan, forced: new Map([...forced, ...more]) });

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

describe.each(Object.entries(SMALL_RUNS))('%s', (_, small) => {
  it.each(CRASH_POINTS)(
    'ends well whichever call it is of which %s',
    { timeout: MATRIX_MS },
    async (_what, fault) => {
      const { calls } = await again(small);
      const tried = new Set(calls.filter((call) => !small.forced.has(call)));
      const broken: string[] = [];
      const missed: string[] = [];
      for (const call of tried) {
        const report = await again(small, new Map([[call, fault]]));
        if (!report.fired.includes(`${call}:${fault}`)) missed.push(call);
        if (report.violations.length > 0) broken.push(`${call}: ${report.violations[0]?.what}`);
      }
      expect(broken).toEqual([]);
      // Each was met: the run up to it is the same each time.
      expect(missed).toEqual([]);
      expect(tried.size).toBeGreaterThan(50);
    },
  );
});
