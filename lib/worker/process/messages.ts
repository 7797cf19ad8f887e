/** Messages of a worker process: received while slots are free, deleted in batches once their jobs have started. */
import type { ReceivedMessage } from '../../queue/contract.ts';
import { untilAborted } from '../../runtime/abort.ts';
import { LEASE_MARGIN_MS } from '../membership.ts';
import type { WorkerSettings } from './options.ts';

/**
 * A worker that is told to end waits for the end of its last receive: a queue may serve one that is not waited for any more, and hide the
 * message. With half of it an idle worker asks twice as often ($0.4 a month instead of $0.2); with twice, it ends as much later.
 */
export const RECEIVE_WAIT_MAX_MS = 5_000;
/** The shortest that does not ask all the time. */
const RECEIVE_WAIT_MIN_MS = 2_000;
const RECEIVE_MAX = 10;
/** Longer than a start takes: then the message is deleted. */
const HIDE_MS = 60_000;
const RECEIVE_RETRY_MS = 2_000;
/** Deletions wait for each other so long: a batch costs as much as one. */
const DELETE_AFTER_MS = 500;
const DELETE_MAX = 10;

export interface Deletions {
  readonly add: (receipt: string) => void;
  readonly flush: () => Promise<void>;
}

/** Deletes messages in batches. One that stays comes again, finds its job gone on, and is deleted then. */
export function deletions({ queue, clock, log, fleet }: WorkerSettings): Deletions {
  let receipts: string[] = [];
  const flush = async (): Promise<void> => {
    const batch = receipts;
    receipts = [];
    if (batch.length === 0) return;
    try {
      await queue.delete(fleet, batch);
    } catch (error) {
      log.warn('messages were not deleted and will come again', { fleet, error: String(error) });
    }
  };
  const add = (receipt: string): void => {
    receipts.push(receipt);
    if (receipts.length >= DELETE_MAX) void flush();
    else if (receipts.length === 1) void clock.sleep(DELETE_AFTER_MS).then(flush);
  };
  return { add, flush };
}

/** Whoever takes messages. */
export interface Receiver {
  /** Slots that are free. */
  readonly free: () => number;
  /** Resolves when that may have changed. */
  readonly changed: () => Promise<void>;
  readonly accept: (received: ReceivedMessage) => void;
}

/**
 * Receives until `ending`, as many messages as there are free slots. What comes after that is handed back: others may have it at once.
 *
 * @param lost - ends the wait for what may come: this worker is not counted on any more
 */
export async function receiveOn(
  { queue, clock, random, log, fleet, leaseMs }: WorkerSettings,
  { free, changed, accept }: Receiver,
  ending: AbortSignal,
  lost: AbortSignal,
): Promise<void> {
  // A queue may answer a receive whose process has died, and hide the message: so the wait is over before the lease is, when
  // the jobs of this worker are sent to others.
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
