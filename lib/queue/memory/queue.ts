/** The fleets' queues and the wake queue in memory, with what is awkward about SQS, on an injected clock. */
import {
  type DispatchMessage,
  type JobQueue,
  type ReceivedMessage,
  WAKE_DELAY_MAX_MS,
  type WakeRequest,
} from '../contract.ts';
import { groupsOf } from '../message.ts';
import { DeliverySchedule } from './delivery-schedule.ts';

/** Chances are from 0 to 1. Times are upper bounds, of which each message draws its own. Everything is off by default. */
export interface QueueImitation {
  readonly duplicated?: number | undefined;
  readonly lateMs?: number | undefined;
  readonly lost?: number | undefined;
  /** Chance that a message of a batch is not accepted. */
  readonly rejected?: number | undefined;
  /** Chance that a message is accepted, but reported as not accepted. */
  readonly unanswered?: number | undefined;
}

export interface MemoryQueueOptions {
  /** Returns the time, in epoch milliseconds. */
  readonly clock: () => number;
  /** Returns a number evenly distributed in [0, 1). */
  readonly random: () => number;
  /** Runs an action later: a timer, or a simulation's agenda. */
  readonly after: (delayMs: number, action: () => void) => void;
  /** How often a message may be received before it becomes a dead letter. Unlimited by default. */
  readonly maxReceiveCount?: number | undefined;
  readonly imitate?: QueueImitation | undefined;
  /** Called for each imitated difficulty that occurs. */
  readonly imitated?: ((what: keyof QueueImitation) => void) | undefined;
}

const RECEIVE_MAX = 10;

type WakeListener = (partition: number, dueAtMs?: number, jobIds?: readonly string[]) => void;
type LookListener = (partition: number, atMs: number) => void;

interface Waiter {
  readonly max: number;
  readonly hideMs: number;
  readonly resolve: (received: readonly ReceivedMessage[]) => void;
}

interface FleetQueue {
  readonly deliveries: DeliverySchedule;
  readonly waiters: Set<Waiter>;
  readonly deadLetters: DispatchMessage[];
}

export class MemoryJobQueue implements JobQueue {
  readonly #options: MemoryQueueOptions;
  readonly #imitate: QueueImitation;
  readonly #fleets = new Map<string, FleetQueue>();
  readonly #wakeListeners = new Set<WakeListener>();
  readonly #lookListeners = new Set<LookListener>();

  constructor(options: MemoryQueueOptions) {
    this.#options = options;
    this.#imitate = options.imitate ?? {};
  }

  async send(
    fleet: string,
    jobs: readonly DispatchMessage[],
    together = 1,
  ): Promise<readonly DispatchMessage[]> {
    await undefined;
    const queue = this.#fleet(fleet);
    const unsent = [...groupsOf(jobs, together)].filter((message) => {
      if (this.#happens('rejected')) return true;
      for (const delayMs of this.#deliveries()) {
        queue.deliveries.add(message, this.#options.clock() + delayMs);
      }
      return this.#happens('unanswered');
    });
    this.#serve(queue);
    return unsent.flat();
  }

  async receive(
    fleet: string,
    max: number,
    waitMs: number,
    hideMs: number,
    signal?: AbortSignal,
  ): Promise<readonly ReceivedMessage[]> {
    if (!Number.isInteger(max) || max < 1 || max > RECEIVE_MAX) {
      throw new RangeError(`max is ${max}: a receive takes 1 to ${RECEIVE_MAX} messages`);
    }
    await undefined;
    const queue = this.#fleet(fleet);
    const received = this.#take(queue, max, hideMs);
    if (received.length > 0 || waitMs <= 0 || signal?.aborted) return received;
    return new Promise((resolve) => {
      const giveUp = (): void => {
        if (queue.waiters.delete(waiter)) waiter.resolve([]);
      };
      const waiter: Waiter = {
        max,
        hideMs,
        resolve: (messages) => {
          signal?.removeEventListener('abort', giveUp);
          resolve(messages);
        },
      };
      queue.waiters.add(waiter);
      signal?.addEventListener('abort', giveUp, { once: true });
      this.#serve(queue);
      this.#options.after(waitMs, giveUp);
    });
  }

  async handBack(fleet: string, receipts: readonly string[]): Promise<void> {
    await undefined;
    const queue = this.#fleet(fleet);
    for (const receipt of receipts) queue.deliveries.show(receipt, this.#options.clock());
    this.#serve(queue);
  }

  async delete(fleet: string, receipts: readonly string[]): Promise<void> {
    await undefined;
    const { deliveries } = this.#fleet(fleet);
    for (const receipt of receipts) deliveries.delete(receipt);
  }

  sendWake({ partition, delayMs = 0, dueAtMs, jobIds }: WakeRequest): Promise<void> {
    return this.#sendLater(delayMs, () => {
      for (const listener of this.#wakeListeners) listener(partition, dueAtMs, jobIds);
    });
  }

  sendLook(partition: number, delayMs: number, atMs: number): Promise<void> {
    return this.#sendLater(delayMs, () => {
      for (const listener of this.#lookListeners) listener(partition, atMs);
    });
  }

  async #sendLater(delayMs: number, arrive: () => void): Promise<void> {
    if (!(delayMs >= 0 && delayMs <= WAKE_DELAY_MAX_MS)) {
      throw new RangeError(`delayMs is ${delayMs}: a wake is delayed by 0 to ${WAKE_DELAY_MAX_MS} ms`);
    }
    await undefined;
    for (const lateMs of this.#deliveries()) this.#options.after(delayMs + lateMs, arrive);
  }

  /**
   * Calls the listener for each wake when it is due.
   *
   * @returns a function that ends the subscription
   */
  onWake(listener: WakeListener): () => void {
    this.#wakeListeners.add(listener);
    return () => this.#wakeListeners.delete(listener);
  }

  /**
   * Calls the listener for each requested check of workers when it is due.
   *
   * @returns a function that ends the subscription
   */
  onLook(listener: LookListener): () => void {
    this.#lookListeners.add(listener);
    return () => this.#lookListeners.delete(listener);
  }

  /** Returns the jobs of messages that were received too often. */
  deadLetters(fleet: string): readonly DispatchMessage[] {
    return this.#fleet(fleet).deadLetters;
  }

  /** Returns how many messages of a fleet are not deleted, including hidden ones. */
  sizeOf(fleet: string): number {
    return this.#fleet(fleet).deliveries.size;
  }

  #happens(what: keyof QueueImitation): boolean {
    const chance = this.#imitate[what];
    if (chance === undefined || chance <= 0 || this.#options.random() >= chance) return false;
    this.#options.imitated?.(what);
    return true;
  }

  /** Returns the delay of each copy of a message, drawn anew. */
  #deliveries(): readonly number[] {
    const copies = this.#happens('lost') ? 0 : this.#happens('duplicated') ? 2 : 1;
    const lateMs = this.#imitate.lateMs ?? 0;
    return Array.from({ length: copies }, () => {
      if (lateMs <= 0) return 0;
      this.#options.imitated?.('lateMs');
      return this.#options.random() * lateMs;
    });
  }

  #fleet(fleet: string): FleetQueue {
    let queue = this.#fleets.get(fleet);
    if (queue === undefined) {
      queue = { deliveries: new DeliverySchedule(), waiters: new Set(), deadLetters: [] };
      this.#fleets.set(fleet, queue);
    }
    return queue;
  }

  #take(queue: FleetQueue, max: number, hideMs: number): ReceivedMessage[] {
    const nowMs = this.#options.clock();
    const received: ReceivedMessage[] = [];
    while (received.length < max) {
      const delivery = queue.deliveries.receive(nowMs, nowMs + hideMs);
      if (delivery === undefined) break;
      if (delivery.receiveCount > (this.#options.maxReceiveCount ?? Infinity)) {
        queue.deliveries.delete(delivery.receipt);
        queue.deadLetters.push(...delivery.jobs);
      } else received.push(delivery);
    }
    return received;
  }

  /** Gives visible messages to waiting receivers, and sets a timer for the next message. */
  #serve(queue: FleetQueue): void {
    for (const waiter of queue.waiters) {
      const received = this.#take(queue, waiter.max, waiter.hideMs);
      if (received.length === 0) break;
      queue.waiters.delete(waiter);
      waiter.resolve(received);
    }
    if (queue.waiters.size === 0) return;
    const delayMs = queue.deliveries.armed(this.#options.clock());
    if (delayMs === undefined) return;
    this.#options.after(delayMs, () => {
      queue.deliveries.disarm();
      this.#serve(queue);
    });
  }
}
