/**
 * A fleet's queue. Its messages are only hints: a message may be late, lost, duplicated or outdated, and the job's item
 * decides.
 */
import type { StartRequest } from '../store/contract/requests.ts';

/**
 * The message about one job: its id and its claim, or what the worker's start needs to make the claim. The payload
 * stays with the item.
 */
export interface DispatchMessage extends Pick<StartRequest, 'jobId' | 'claimId' | 'toClaim' | 'startByMs'> {
  /**
   * The bounds that were full while the job waited, for people who look at its trace: see `blockersBefore`. Absent: none
   * is known. A message that is sent again names none.
   */
  readonly blockedBy?: readonly string[] | undefined;
}

/** A message and the fleet that it is for. */
export interface FleetMessage {
  readonly fleet: string;
  readonly message: DispatchMessage;
  /**
   * Whether the job is sent in a message of its own, so that no process of a function runs it together with others. It
   * may have ended the process that ran it before.
   */
  readonly isAlone: boolean;
}

/** A queue message as a worker received it. */
export interface ReceivedMessage {
  /** The jobs of the message, at least one. */
  readonly jobs: readonly DispatchMessage[];
  /** Identifies this delivery, for `delete` and `handBack`. */
  readonly receipt: string;
  /** How often the message was received; 1 for the first delivery. */
  readonly receiveCount: number;
}

/** The most jobs that a wake names. The stream, or the reads of their lines, bring further ones. */
export const WAKE_JOBS_MAX = 50;

/** The step of delays: queues delay messages by whole seconds. */
export const WAKE_STEP_MS = 1_000;
/** The longest delay of a message: a quarter of an hour. */
export const WAKE_DELAY_MAX_MS = 900_000;

/** Asks for a pass of a partition. */
export interface WakeRequest {
  readonly partition: number;
  /** The delay of the wake, 0 to 900,000. @default 0 */
  readonly delayMs?: number | undefined;
  /**
   * Epoch ms at which the work is due that the wake is for. A dispatcher that is woken before that by its own clock
   * sends the wake again.
   */
  readonly dueAtMs?: number | undefined;
  /**
   * Ids of jobs that are being stored in the partition, at most `WAKE_JOBS_MAX`. The dispatcher that is woken looks
   * them up.
   */
  readonly jobIds?: readonly string[] | undefined;
  /** Aborts to give the request up. The wake may have been sent by then, or not. */
  readonly signal?: AbortSignal | undefined;
}

export interface JobQueue {
  /**
   * Sends jobs to a fleet, in batches. Returns the jobs that were not accepted, in their order.
   *
   * @param together - the most jobs in one queue message, whose receiver runs them side by side. @default 1
   */
  send(
    fleet: string,
    jobs: readonly DispatchMessage[],
    together?: number,
  ): Promise<readonly DispatchMessage[]>;
  /**
   * Receives up to `max` (1-10) messages, waiting at most `waitMs` for the first one. Returns none if the signal aborts
   * first. Each message stays hidden from other receivers for `hideMs`.
   */
  receive(
    fleet: string,
    max: number,
    waitMs: number,
    hideMs: number,
    signal?: AbortSignal,
  ): Promise<readonly ReceivedMessage[]>;
  /**
   * Makes deliveries visible again at once, because the process that received them does not handle them. Deliveries
   * that are already gone are ignored.
   */
  handBack(fleet: string, receipts: readonly string[]): Promise<void>;
  /** Deletes deliveries. Deliveries that are already gone are ignored. */
  delete(fleet: string, receipts: readonly string[]): Promise<void>;
  /** Asks for a pass of a partition, at least once. */
  sendWake(wake: WakeRequest): Promise<void>;
  /**
   * Requests a check of the partition's workers after `delayMs` (0 to 900,000), at least once.
   *
   * @param atMs - epoch ms that was recorded for this check (`Lookout.nextAtMs`). It shows whether a later check was
   * requested since
   */
  sendLook(partition: number, delayMs: number, atMs: number): Promise<void>;
}

/**
 * Keeps outcomes, and stops of schedules, that the bus did not take, until it does. Only the minute's tick reads them.
 * A throttled or failing function therefore uses up none of their deliveries.
 */
export interface OutcomeOutbox {
  /**
   * Stores the ids of jobs and schedules whose events are to be published. They become visible after `delayMs` (0 to
   * 900,000), at least once.
   */
  keepOutcomes(unpublished: UnpublishedOutcomes, delayMs: number): Promise<void>;
  /** Moves events that the bus will never take to the dead letters, with the reason, for a person to decide. */
  setOutcomesAside(unpublished: UnpublishedOutcomes, reason: string): Promise<void>;
  /** Returns up to ten visible entries, and hides each for two minutes. */
  takeOutcomes(): Promise<readonly TakenOutcomes[]>;
  /** Deletes the entries that were published or stored again. */
  deleteOutcomes(receipts: readonly string[]): Promise<void>;
}

export interface TakenOutcomes {
  readonly unpublished: UnpublishedOutcomes;
  /** Identifies this delivery, for `deleteOutcomes`. */
  readonly receipt: string;
}

export interface UnpublishedOutcomes {
  /** Jobs that have ended. */
  readonly jobIds: readonly string[];
  /** Schedules that have stopped by themselves; undefined if there are none. */
  readonly scheduleIds?: readonly string[] | undefined;
  /** How often the bus has refused them. */
  readonly tries: number;
}

/**
 * A queue whose messages must not be lost, as an operator sees it. The counts are SQS's approximations, which are about
 * right within a minute.
 */
export interface QueueView {
  /** `ingest`: events that request jobs. `outcomes`: events that the bus has not taken. */
  readonly queue: string;
  /** Messages that were not received yet, or are delayed. */
  readonly waiting: number;
  /** Messages that were received and not deleted yet. */
  readonly taken: number;
  readonly deadLetters: number;
  /** Some of the dead letters, to show them. */
  readonly shown: readonly DeadLetterView[];
}

export interface DeadLetterView {
  readonly sentAtMs: number;
  /**
   * The reason that EventBridge or the dispatch function gave; undefined if the function failed on each delivery until
   * the limit.
   */
  readonly reason?: string | undefined;
  readonly body: string;
}

/** The dead letters of the queues whose messages must not be lost. */
export interface DeadLetterQueues {
  /** Names of the queues. */
  readonly names: readonly string[];
  look(queue: string): Promise<QueueView>;
  /**
   * Sends up to `max` dead letters back to their queue. A letter whose deletion came too late is sent twice. `kept`
   * counts events of rules that turn business events into jobs. They stay, because the dead letter holds the bare
   * event, and only the rule knows the job.
   */
  redrive(queue: string, max: number): Promise<{ readonly sentBack: number; readonly kept: number }>;
  /** Deletes all dead letters of the queue for good. SQS takes up to a minute. */
  purge(queue: string): Promise<void>;
}
