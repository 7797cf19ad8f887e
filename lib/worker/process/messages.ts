/**
 * A worker process's messages: received while slots are free, and deleted in batches once their jobs have started.
 */
import type { ReceivedMessage } from '../../queue/contract.ts';
import { untilAborted } from '../../runtime/abort.ts';
import { LEASE_MARGIN_MS } from '../membership.ts';
import type { WorkerSettings } from './options.ts';

/**
 * Longest wait of one receive. A worker that ends waits for its last receive, because a queue may answer a receive that
 * was abandoned, and hide the message. Half of it: an idle worker asks twice as often ($0.4 a month instead of $0.2).
 * Twice: the worker may take twice as long to end.
 */
export const RECEIVE_WAIT_MAX_MS = 5_000;
/** Shortest wait of one receive, so that a worker with a short lease does not ask all the time. */
const RECEIVE_WAIT_MIN_MS = 2_000;
const RECEIVE_MAX = 10;
/**
 * Milliseconds for which a received message is hidden from other workers: longer than a start takes. After the start
 * the message is deleted.
 */
const HIDE_MS = 60_000;
const RECEIVE_RETRY_MS = 2_000;
/** Milliseconds for which a deletion waits for others to join it, because a batch costs as much as one deletion. */
const DELETE_AFTER_MS = 500;
const DELETE_MAX = 10;

export interface Deletions {
  readonly add: (receipt: string) => void;
  readonly flush: () => Promise<void>;
}

/**
 * Deletes messages in batches. If that fails, the message is delivered again, its job cannot start again, and it is
 * deleted then.
 */
export function deletions({ queue, clock, log, fleet }: WorkerSettings): Deletions {
  let receipts: string[] = [];
  const flush = async (): Promise<void> => {
    const batch = receipts;
    receipts = [];
    if (batch.length === 0) return;
    try {
      await queue.delete(fleet, batch);
    } catch (error) {
      log.warn('messages were not deleted and will be delivered again', { fleet, error: String(error) });
    }
  };
  const add = (receipt: string): void => {
    receipts.push(receipt);
    if (receipts.length >= DELETE_MAX) void flush();
    else if (receipts.length === 1) void clock.sleep(DELETE_AFTER_MS).then(flush);
  };
  return { add, flush };
}

export interface Receiver {
  /** Returns how many slots are free. */
  readonly free: () => number;
  /** Resolves when the number of free slots may have changed. */
  readonly changed: () => Promise<void>;
  readonly accept: (received: ReceivedMessage) => void;
}

/**
 * Receives messages until `ending`, at most as many as there are free slots. Messages that arrive after that are
 * handed back, so that other workers have them at once.
 *
 * @param lost - aborts the last receive: a worker without a lease starts no jobs
 */
export async function receiveMessages(
  { queue, clock, random, log, fleet, leaseMs }: WorkerSettings,
  { free, changed, accept }: Receiver,
  ending: AbortSignal,
  lost: AbortSignal,
): Promise<void> {
  // A queue may answer a receive whose process has died, and hide the message. So the wait is shorter than the lease,
  // after which the jobs of this worker are sent to others.
  const waitMs = Math.min(RECEIVE_WAIT_MAX_MS, Math.max(RECEIVE_WAIT_MIN_MS, leaseMs - LEASE_MARGIN_MS));
  while (!ending.aborted) {
    const max = Math.min(free(), RECEIVE_MAX);
    if (max <= 0) {
      await untilAborted(changed(), ending);
      continue;
    }
    try {
      const received = await queue.receive(fleet, max, waitMs, HIDE_MS, lost);
      if (!ending.aborted) for (const each of received) accept(each);
      else if (received.length > 0)
        await queue.handBack(
          fleet,
          received.map(({ receipt }) => receipt),
        );
    } catch (error) {
      log.warn('messages could not be received; trying again', { fleet, error: String(error) });
      await clock.sleep(RECEIVE_RETRY_MS * (0.5 + random() / 2), ending);
    }
  }
}
