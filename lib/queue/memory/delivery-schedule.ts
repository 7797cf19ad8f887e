/** When the messages of one queue are visible, and to whose receipt they answer. */
import { TimeHeap } from '../../store/memory/time-heap.ts';
import type { DispatchMessage, ReceivedMessage } from '../contract.ts';

interface Delivery {
  readonly number: number;
  readonly message: DispatchMessage;
  readonly receiveCount: number;
  readonly receipt: string;
}

const receiptOf = (number: number, receiveCount: number): string => `${number}#${receiveCount}`;

export class DeliverySchedule {
  /** By receipt: what may still be delivered, or deleted. */
  readonly #live = new Map<string, Delivery>();
  #visible = new TimeHeap<Delivery>();
  #sent = 0;
  #armedAtMs: number | undefined;

  get size(): number {
    return this.#live.size;
  }

  add(message: DispatchMessage, visibleAtMs: number): void {
    this.#sent += 1;
    const receipt = receiptOf(this.#sent, 0);
    this.#schedule({ number: this.#sent, message, receiveCount: 0, receipt }, visibleAtMs);
  }

  /** The next visible message, hidden from now until `hiddenUntilMs`. Its older receipts are void. */
  receive(nowMs: number, hiddenUntilMs: number): ReceivedMessage | undefined {
    for (let due = this.#visible.takeDue(nowMs); due !== undefined; due = this.#visible.takeDue(nowMs)) {
      const { number, message } = due.value;
      if (!this.#live.delete(due.value.receipt)) continue;
      const receiveCount = due.value.receiveCount + 1;
      const delivery = { number, message, receiveCount, receipt: receiptOf(number, receiveCount) };
      this.#schedule(delivery, hiddenUntilMs);
      return delivery;
    }
    return undefined;
  }

  delete(receipt: string): void {
    this.#live.delete(receipt);
    // Deleted messages stay in the heap until their time: not more of them than live ones.
    if (this.#visible.size > 1_000 && this.#visible.size > 2 * this.#live.size) {
      this.#visible = this.#visible.filtered(({ receipt: own }) => this.#live.has(own));
    }
  }

  /** How long until the next message becomes visible, if nobody has been told of it yet. */
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
    this.#live.set(delivery.receipt, delivery);
    this.#visible.add(visibleAtMs, delivery);
  }
}
