/** Waits for the slot that a job takes over: a worker is told of it before the attempt that has the slot ends. */
import { isAttemptOver } from '../core/life-cycle.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import type { SubmitStore } from '../store/contract.ts';

/** How long that end is waited for at most. Where it comes later, the job is planned anew. */
export const SLOT_WAIT_MS = 300;
const LOOK_EVERY_MS = 20;

interface WaitContext {
  readonly store: Pick<SubmitStore, 'lookUpJobs'>;
  readonly clock: Pick<Clock, 'monotonicMs' | 'sleep'>;
  readonly log: Log;
}

/**
 * The message as it is once its job has a slot; undefined: the slot was not free within the time that is waited. Then nothing is started, and
 * the job is planned anew. Never rejects.
 */
export async function inItsSlot(
  { store, clock, log }: WaitContext,
  { takesOver, ...told }: DispatchMessage,
): Promise<DispatchMessage | undefined> {
  if (takesOver === undefined) return told;
  const untilMs = clock.monotonicMs() + SLOT_WAIT_MS;
  for (;;) {
    try {
      const [job] = await store.lookUpJobs({ ids: [takesOver.jobId] });
      if (isAttemptOver(takesOver, job)) return { ...told, toClaim: takesOver.toClaim };
    } catch (error) {
      log.warn('a slot could not be looked at', { jobId: takesOver.jobId, error: String(error) });
    }
    if (clock.monotonicMs() >= untilMs) break;
    await clock.sleep(LOOK_EVERY_MS);
  }
  log.info('the slot that a job takes over is not free yet; the job is planned anew', {
    ...told,
    takesOver: takesOver.claimId,
  });
  return undefined;
}
