/**
 * The thread that guards a worker process: its own client of the store, its own event loop, so that nothing a handler does
 * keeps it from its work. It ends the process itself: a signal that cannot be caught needs no turn of anybody else.
 */
import { writeSync } from 'node:fs';
import { Session } from 'node:inspector';
import { parentPort, workerData } from 'node:worker_threads';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { jsonLog, systemClock } from '../runtime/system.ts';
import { DynamoJobStore } from '../store/dynamodb/store.ts';
import { rankOf } from '../submit/submit.ts';
import { guardHere } from './guard.ts';
import type { GuardQuestion, GuardThreadData, GuardWord } from './thread-guard.ts';

const STDOUT = 1;
const STDERR = 2;
const LOOK_EVERY_MS = 500;
/** As a shell tells of a SIGKILL. */
const KILLED = 137;

/** Past the worker's own streams: those wait for its thread. */
function write(to: number, line: string): void {
  try {
    writeSync(to, `${line}\n`);
  } catch {
    // Nobody reads, or not fast enough: a line is lost, and nothing else.
  }
}

/**
 * Ends the process whatever its other thread does. The first process of a container is spared by the kernel, also by its own
 * SIGKILL: there the engine interrupts the busy thread. It cannot while that waits for the system; until it comes back, the
 * process lives, and so do this thread's heartbeats: nobody starts its jobs.
 */
const kill = (reason: string): void => {
  write(STDERR, reason);
  process.kill(process.pid, 'SIGKILL');
  const session = new Session();
  session.connectToMainThread();
  session.post('Runtime.evaluate', { expression: `process.reallyExit(${KILLED})` });
};

process.on('uncaughtException', (error) => kill(`the guard of this worker has failed: ${String(error)}`));

const port = parentPort;
if (port === null)
  throw new Error('guard-thread.ts runs as a thread of a worker process; use runFleetWorker');

const { guarded, table, configuration, requests, leaseSince } = workerData as GuardThreadData;
const say = (word: GuardWord): void => port.postMessage(word);
const aborted = new AbortController();
const early: GuardQuestion[] = [];
let answer = (question: GuardQuestion): void => {
  if (question.kind === 'abort') aborted.abort();
  else early.push(question);
};
port.on('message', (question: GuardQuestion) => answer(question));

const makeGuard = guardHere({
  store: new DynamoJobStore({ client: new DynamoDBClient(requests), table, place: rankOf(configuration) }),
  clock: systemClock,
  log: jsonLog((line) => write(STDOUT, line)),
  kill,
  lookEveryMs: LOOK_EVERY_MS,
  // Rounded down: the lease seems a little older than it is. Whoever reads between the two sees an older one.
  onRenewed: ({ wallMs, monotonicMs }) => {
    Atomics.store(leaseSince, 0, BigInt(Math.floor(wallMs)));
    Atomics.store(leaseSince, 1, BigInt(Math.floor(monotonicMs)));
  },
});
// A function, because a CommonJS module cannot wait at its top.
async function join(): Promise<void> {
  try {
    const guard = await makeGuard(guarded, {
      onLost: (loss) => say({ kind: 'lost', loss }),
      signal: aborted.signal,
    });
    if (typeof guard === 'string') say({ kind: guard });
    else {
      answer = (question) => {
        if (question.kind === 'leave') void guard.leave().then(() => say({ kind: 'left' }));
        else if (question.kind === 'serve') {
          const { partition } = question;
          void guard.serve(partition).then((isServed) => say({ kind: 'served', partition, isServed }));
        } else if (question.kind !== 'abort') guard.tell(question);
      };
      say({ kind: 'joined' });
      for (const question of early) answer(question);
    }
  } catch (error) {
    say({ kind: 'failed', error: String(error) });
  }
}

void join();
