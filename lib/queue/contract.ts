/** A fleet's queue. It hints: a message may be late, lost, doubled or outdated; the job item decides. */
import type { StartRequest } from '../store/contract/requests.ts';

/** What a worker is told of one job: which, and by which claim; or what its start claims it by. The payload stays in the item. */
export type DispatchMessage = Pick<StartRequest, 'jobId' | 'claimId' | 'toClaim'>;

/** What a fleet is to be told. */
export interface FleetMessage {
  readonly fleet: string;
  readonly message: DispatchMessage;
  /** It shares no message, so no process of a function, with other jobs: it may be what ended the process that ran it before. */
  readonly isAlone: boolean;
}

/** A message of the queue as a worker received it. */
export interface ReceivedMessage {
  /** One at least. */
  readonly jobs: readonly DispatchMessage[];
  /** Names this delivery, for `delete`. */
  readonly receipt: string;
  /** 1 for the first delivery. */
  readonly receiveCount: number;
}

/** Jobs that a wake may name. More of them come by the stream, or are found in their lines. */
export const TOLD_JOBS_MAX = 50;

/** Queues delay messages by whole seconds, */
export const WAKE_STEP_MS = 1_000;
/** and by no more than a quarter of an hour. */
export const WAKE_DELAY_MAX_MS = 900_000;

/** Asks for a pass of a partition. */
export interface WakeRequest {
  readonly partition: number;
  /** 0 to 900,000. @default 0 */
  readonly delayMs?: number | undefined;
  /** Epoch ms of what it is for: a dispatcher that is woken before that by its own clock sends it again. */
  readonly dueAtMs?: number | undefined;
  /** Jobs that are being stored there, at most `TOLD_JOBS_MAX`: the dispatcher that is woken looks them up. */
  readonly jobIds?: readonly string[] | undefined;
  /** Gives it up: it may have been sent by then, or not. */
  readonly signal?: AbortSignal | undefined;
}

export interface JobQueue {
  /**
   * Sends to a fleet, in batches. Answers what was not accepted, in its order.
   *
   * @param together - jobs that one message of the queue names at most: whoever receives it runs them side by side. @default 1
   */
  send(
    fleet: string,
    jobs: readonly DispatchMessage[],
    together?: number,
  ): Promise<readonly DispatchMessage[]>;
  /**
   * Up to `max` (1-10) messages, waiting at most `waitMs` for the first one, or until the signal aborts: then none. Each
   * stays hidden for `hideMs`.
   */
  receive(
    fleet: string,
    max: number,
    waitMs: number,
    hideMs: number,
    signal?: AbortSignal,
  ): Promise<readonly ReceivedMessage[]>;
  /** Makes deliveries visible again at once, for others: the process that received them does not take them. What is gone already stays so. */
  handBack(fleet: string, receipts: readonly string[]): Promise<void>;
  /** Deletes deliveries. Deleting what is gone is a no-op. */
  delete(fleet: string, receipts: readonly string[]): Promise<void>;
  /** Asks for a pass of a partition, at least once. */
  sendWake(wake: WakeRequest): Promise<void>;
  /**
   * Asks for a look at the partition's workers after `delayMs` (0 to 900,000), at least once.
   *
   * @param atMs - epoch ms for which it was noted (`Lookout.nextAtMs`): by that it knows whether another one has been noted since
   */
  sendLook(partition: number, delayMs: number, atMs: number): Promise<void>;
}

/**
 * Outcomes, and stops of schedules, that the bus did not take, until it does. The minute's tick takes them: nothing else empties their
 * queue, so a function that is throttled or fails uses up no delivery of theirs.
 */
export interface OutcomeOutbox {
  /** Keeps the ids of jobs and schedules of which the bus is to be told, and shows them after `delayMs` (0 to 900,000), at least once. */
  keepOutcomes(unpublished: UnpublishedOutcomes, delayMs: number): Promise<void>;
  /** Keeps what the bus will never take among the dead letters, with its reason: a person decides. */
  setOutcomesAside(unpublished: UnpublishedOutcomes, reason: string): Promise<void>;
  /** Up to ten of those that are due. Each is hidden for two minutes. */
  takeOutcomes(): Promise<readonly TakenOutcomes[]>;
  /** Deletes what was published, or kept anew. */
  deleteOutcomes(receipts: readonly string[]): Promise<void>;
}

export interface TakenOutcomes {
  readonly unpublished: UnpublishedOutcomes;
  /** Names this delivery, for `deleteOutcomes`. */
  readonly receipt: string;
}

export interface UnpublishedOutcomes {
  /** Jobs that have ended. */
  readonly jobIds: readonly string[];
  /** Schedules that have stopped by themselves; absent: none. */
  readonly scheduleIds?: readonly string[] | undefined;
  /** How often the bus has refused them. */
  readonly tries: number;
}

/** A queue whose messages must not be lost, as an operator sees it. Counts are SQS's, about right within a minute. */
export interface QueueView {
  /** `ingest`: events that ask for jobs; `outcomes`: those that the bus has not taken. */
  readonly queue: string;
  /** Not taken yet, or due later. */
  readonly waiting: number;
  /** Taken and not done. */
  readonly taken: number;
  readonly deadLetters: number;
  /** Some of the dead letters. */
  readonly shown: readonly DeadLetterView[];
}

export interface DeadLetterView {
  readonly sentAtMs: number;
  /** As EventBridge, or the dispatch function, said; undefined: the function did not take it in so many deliveries. */
  readonly reason?: string | undefined;
  readonly body: string;
}

/** Dead letters of the queues whose messages must not be lost. Each knows where it belongs. */
export interface DeadLetterQueues {
  /** Names of the queues there are. */
  readonly names: readonly string[];
  look(queue: string): Promise<QueueView>;
  /**
   * Looks at up to `max` dead letters, and sends them back to where they belong: one that was not deleted in time comes twice. `kept`: events of
   * rules that make jobs of them, which stay, because such a rule leaves the event as it was, and only it knows the job.
   */
  redrive(queue: string, max: number): Promise<{ readonly sentBack: number; readonly kept: number }>;
  /** Deletes all dead letters of the queue for good. SQS takes up to a minute. */
  purge(queue: string): Promise<void>;
}
