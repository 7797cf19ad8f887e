/**
 * The thread that guards a worker process. It has its own client of the store and its own event loop, so no handler
 * can keep it from its work. It ends the process with SIGKILL, which the busy main thread cannot hold up.
 */
import { writeSync } from 'node:fs';
import { Session } from 'node:inspector';
import { parentPort, workerData } from 'node:worker_threads';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { jsonLog, systemClock } from '../runtime/system.ts';
import { DynamoJobStore } from '../store/dynamodb/store.ts';
import { rankOf } from '../submit/submit.ts';
import { guardInSameThread } from './guard.ts';
import type { GuardAnswer, GuardRequest, GuardThreadData } from './thread-guard.ts';

const STDOUT = 1;
const STDERR = 2;
const LOOK_EVERY_MS = 500;
/** The exit code that a shell reports for SIGKILL. */
const KILLED = 137;

/** Writes a line without the worker's own streams, which need its main thread. */
function write(to: number, line: string): void {
  try {
    writeSync(to, `${line}\n`);
  } catch {
    // If the pipe is closed or full, this line is lost, and nothing else.
  }
}

/**
 * Ends the process even if its main thread is busy. The kernel spares the first process of a container, even from its
 * own SIGKILL: there the engine interrupts the busy thread. It cannot do so while that thread waits in a system call.
 * Until the call returns, the process lives and this thread keeps sending heartbeats, so no other worker starts its
 * jobs.
 */
const kill = (reason: string): void => {
  write(STDERR, reason);
  process.kill(process.pid, 'SIGKILL');
  const session = new Session();
  session.connectToMainThread();
  session.post('Runtime.evaluate', { expression: `process.reallyExit(${KILLED})` });
};

process.on('uncaughtException', (error) => kill(`the guard thread of this worker failed: ${String(error)}`));

const port = parentPort;
if (port === null)
  throw new Error('guard-thread.ts is started by runFleetWorker, as a thread of a worker process');

const { guarded, table, configuration, requests, leaseSince } = workerData as GuardThreadData;
const reply = (answer: GuardAnswer): void => port.postMessage(answer);
const aborted = new AbortController();
const early: GuardRequest[] = [];
let onRequest = (request: GuardRequest): void => {
  if (request.kind === 'abort') aborted.abort();
  else early.push(request);
};
port.on('message', (request: GuardRequest) => onRequest(request));

const makeGuard = guardInSameThread({
  store: new DynamoJobStore({ client: new DynamoDBClient(requests), table, place: rankOf(configuration) }),
  clock: systemClock,
  log: jsonLog((line) => write(STDOUT, line)),
  kill,
  lookEveryMs: LOOK_EVERY_MS,
  // The times are rounded down, so that the lease never seems younger than it is. A reader between the two stores sees
  // an older lease.
  onRenewed: ({ wallMs, monotonicMs }) => {
    Atomics.store(leaseSince, 0, BigInt(Math.floor(wallMs)));
    Atomics.store(leaseSince, 1, BigInt(Math.floor(monotonicMs)));
  },
});
// This is a function, because a CommonJS module has no top-level await.
async function join(): Promise<void> {
  try {
    const guard = await makeGuard(guarded, {
      onLost: (loss) => reply({ kind: 'lost', loss }),
      signal: aborted.signal,
    });
    if (typeof guard === 'string') reply({ kind: guard });
    else {
      onRequest = (request) => {
        if (request.kind === 'leave') void guard.leave().then(() => reply({ kind: 'left' }));
        else if (request.kind === 'serve') {
          const { partition } = request;
          void guard.serve(partition).then((isServed) => reply({ kind: 'served', partition, isServed }));
        } else if (request.kind !== 'abort') guard.tell(request);
      };
      reply({ kind: 'joined' });
      for (const request of early) onRequest(request);
    }
  } catch (error) {
    reply({ kind: 'failed', error: String(error) });
  }
}

void join();
