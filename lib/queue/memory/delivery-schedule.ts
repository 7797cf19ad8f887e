/** Keeps the messages of one queue: when each becomes visible, and which receipt deletes it. */
import { TimeHeap } from '../../runtime/time-heap.ts';
import type { DispatchMessage, ReceivedMessage } from '../contract.ts';

interface Delivery {
  readonly number: number;
  readonly jobs: readonly DispatchMessage[];
  readonly receiveCount: number;
  readonly receipt: string;
}

/** The deliveries of messages with consecutive numbers. */
interface Block {
  readonly deliveries: (Delivery | undefined)[];
  live: number;
}

const BLOCK = 256;

/**
 * The last delivery of each message that is not deleted, by the message's number. It is not a Map, because a Map that
 * constantly fills and empties is rebuilt each time. A rebuilt one that reached the old generation of the garbage
 * collector keeps its successors, and all messages in them, alive until a full collection.
 */
class LiveDeliveries {
  /** Blocks from the first one with a live delivery, which is block number `#from`. */
  readonly #blocks: (Block | undefined)[] = [];
  #from = 0;
  size = 0;

  /** Returns the delivery that this receipt stands for; undefined if the receipt is outdated or was never given. */
  find(receipt: string): Delivery | undefined {
    const number = Number.parseInt(receipt, 10);
    const delivery = this.#blockOf(number)?.deliveries[number % BLOCK];
    return delivery?.receipt === receipt ? delivery : undefined;
  }

  has({ number, receipt }: Pick<Delivery, 'number' | 'receipt'>): boolean {
    return this.#blockOf(number)?.deliveries[number % BLOCK]?.receipt === receipt;
  }

  /** Replaces the message's last delivery, or adds the first one. */
  put(delivery: Delivery): void {
    if (this.#blocks.length === 0) this.#from = Math.floor(delivery.number / BLOCK);
    let block = this.#blockOf(delivery.number);
    if (block === undefined) {
      block = { deliveries: new Array<undefined>(BLOCK).fill(undefined), live: 0 };
      this.#blocks[Math.floor(delivery.number / BLOCK) - this.#from] = block;
    }
    const index = delivery.number % BLOCK;
    if (block.deliveries[index] === undefined) {
      block.live += 1;
      this.size += 1;
    }
    block.deliveries[index] = delivery;
  }

  /** Deletes the delivery that this receipt stands for. A receipt that is outdated or was never given is ignored. */
  delete(receipt: string): void {
    const number = Number.parseInt(receipt, 10);
    const block = this.#blockOf(number);
    if (block === undefined || !this.has({ number, receipt })) return;
    block.deliveries[number % BLOCK] = undefined;
    block.live -= 1;
    this.size -= 1;
    if (block.live > 0) return;
    this.#blocks[Math.floor(number / BLOCK) - this.#from] = undefined;
    while (this.#blocks.length > 0 && this.#blocks[0] === undefined) {
      this.#blocks.shift();
      this.#from += 1;
    }
  }

  #blockOf(number: number): Block | undefined {
    return this.#blocks[Math.floor(number / BLOCK) - this.#from];
  }
}

const receiptOf = (number: number, receiveCount: number): string => `${number}#${receiveCount}`;

export class DeliverySchedule {
  readonly #live = new LiveDeliveries();
  #visible = new TimeHeap<Delivery>();
  #sent = 0;
  #armedAtMs: number | undefined;

  get size(): number {
    return this.#live.size;
  }

  add(jobs: readonly DispatchMessage[], visibleAtMs: number): void {
    this.#sent += 1;
    const receipt = receiptOf(this.#sent, 0);
    this.#schedule({ number: this.#sent, jobs, receiveCount: 0, receipt }, visibleAtMs);
  }

  /** Returns the next visible message and hides it until `hiddenUntilMs`. Its older receipts become invalid. */
  receive(nowMs: number, hiddenUntilMs: number): ReceivedMessage | undefined {
    for (let due = this.#visible.takeDue(nowMs); due !== undefined; due = this.#visible.takeDue(nowMs)) {
      const { number, jobs } = due.value;
      if (!this.#live.has(due.value)) continue;
      const receiveCount = due.value.receiveCount + 1;
      const delivery = { number, jobs, receiveCount, receipt: receiptOf(number, receiveCount) };
      this.#schedule(delivery, hiddenUntilMs);
      return delivery;
    }
    return undefined;
  }

  /** Makes the message that was received with this receipt visible now. */
  show(receipt: string, nowMs: number): void {
    const delivery = this.#live.find(receipt);
    if (delivery !== undefined) this.#visible.add(nowMs, delivery);
  }

  delete(receipt: string): void {
    this.#live.delete(receipt);
    // Deleted messages stay in the heap until their time. A large heap is rebuilt when more than half of it is deleted.
    if (this.#visible.size > 1_000 && this.#visible.size > 2 * this.#live.size) {
      this.#visible = this.#visible.filtered((delivery) => this.#live.has(delivery));
    }
  }

  /**
   * Returns the time until the next message becomes visible, and remembers that a timer is set for it; undefined if a
   * timer is set already.
   */
  armed(nowMs: number): number | undefined {
    const nextAtMs = this.#visible.nextAtMs;
    if (nextAtMs === undefined || (this.#armedAtMs !== undefined && this.#armedAtMs <= nextAtMs)) {
      return undefined;
    }
    this.#armedAtMs = nextAtMs;
    return Math.max(0, nextAtMs - nowMs);
  }

  disarm(): void {
    this.#armedAtMs = undefined;
  }

  #schedule(delivery: Delivery, visibleAtMs: number): void {
    this.#live.put(delivery);
    this.#visible.add(visibleAtMs, delivery);
  }
}
