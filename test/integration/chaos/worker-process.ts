/** A worker process of the chaos test. Usage: worker-process.ts NAME FILE */
import { setTimeout as sleep } from 'node:timers/promises';
import { runFleetWorker } from '../../../lib/worker/fleet-worker.ts';
import type { JobHandler } from '../../../lib/worker/run-job.ts';
import { BUSY_STEP_MS, type Entry, note, type Payload, SLOTS_OF_ONE, TYPES, WORKER_TIMES } from './pool.ts';

const EFFECT_MS = 90;
/** Nobody changes it: whoever waits for that keeps its thread, as a call does that waits for the system. */
const STILL = new Int32Array(new SharedArrayBuffer(4));

const [, , workerId = '', journal = ''] = process.argv;

const work: JobHandler = async (payload, { jobId, fencingToken, attempt, signal }) => {
  const { effects, failsFirst, isBusy } = payload as unknown as Payload;
  const { pid } = process;
  const write = (what: Entry['what']): void =>
    note(journal, { what, pid, jobId, token: fencingToken, atMs: Date.now() });
  signal.throwIfAborted();
  write('begin');
  try {
    for (let effect = 0; effect < effects; effect += 1) {
      // Without the signal: whoever was stopped in here finds the time over, and nobody who has told it to stop.
      if (isBusy) Atomics.wait(STILL, 0, 0, BUSY_STEP_MS);
      else await sleep(EFFECT_MS);
      signal.throwIfAborted();
      write('effect');
    }
  } finally {
    write('end');
  }
  if (failsFirst && attempt === 1) throw new Error('the first attempt fails');
  return { pid, token: fencingToken };
};

// Its test is its supervisor: without it there is nothing to do.
process.stdin.on('end', () => process.exit(1)).resume();
await runFleetWorker(Object.fromEntries(TYPES.map((type) => [type, work])), {
  workerId,
  slots: SLOTS_OF_ONE,
  ...WORKER_TIMES,
});
process.exit();
