/** Counts what DynamoDB and SQS would bill for a test's jobs. */
import type { LocalAdapters } from '../local/scheduler.ts';
import type { Meter } from '../store/table/metering.ts';

/** The costs that were counted so far, in units as AWS bills them. */
export interface CostSoFar {
  readonly writeUnits: number;
  readonly readUnits: number;
  /** Requests of up to ten messages to queues. */
  readonly messages: number;
}

/** The most messages of one request. */
const BATCH_MAX = 10;

export class CostCount {
  #writeUnits = 0;
  #readUnits = 0;
  #messages = 0;

  readonly meter: Meter = (_, { writeUnits, readUnits }) => {
    this.#writeUnits += writeUnits;
    this.#readUnits += readUnits;
  };

  get soFar(): CostSoFar {
    return { writeUnits: this.#writeUnits, readUnits: this.#readUnits, messages: this.#messages };
  }

  through({ store, queue }: LocalAdapters): LocalAdapters {
    const count = (messages: number): void => {
      this.#messages += Math.ceil(messages / BATCH_MAX);
    };
    return {
      store,
      queue: {
        send: (fleet, jobs, together = 1) => {
          count(jobs.length / together);
          return queue.send(fleet, jobs, together);
        },
        receive: async (...asked) => {
          const received = await queue.receive(...asked);
          if (received.length > 0) count(1);
          return received;
        },
        handBack: (fleet, receipts) => {
          count(receipts.length);
          return queue.handBack(fleet, receipts);
        },
        delete: (fleet, receipts) => {
          count(receipts.length);
          return queue.delete(fleet, receipts);
        },
        sendWake: (wake) => {
          count(1);
          return queue.sendWake(wake);
        },
        sendLook: (...asked) => {
          count(1);
          return queue.sendLook(...asked);
        },
      },
    };
  }
}
