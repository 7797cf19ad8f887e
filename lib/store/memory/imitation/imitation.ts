/**
 * The awkward behaviour of DynamoDB that the memory store can imitate. Everything is off unless it is named. The random source is passed
 * in.
 */

import type { ScheduleRecord } from '../../../core/recurring.ts';
import type { DeclarationRecord } from '../../contract/records.ts';
import type { Commit } from '../../contract/requests.ts';

/** Numbers without Ms are probabilities between 0 and 1. Times are upper bounds, below which each case draws its own. */
export interface StoreImitation {
  /** The most milliseconds by which the index lags behind an item. */
  readonly indexLagMs?: number | undefined;
  /** The most milliseconds by which stream records arrive late, and therefore in any order. */
  readonly streamLateMs?: number | undefined;
  readonly streamDuplicated?: number | undefined;
  readonly streamLost?: number | undefined;
  /** The most milliseconds by which expired items are deleted late. No read finds them in the meantime. */
  readonly ttlLateMs?: number | undefined;
  /**
   * The probability that a transaction conflicts with another one: it changes nothing, and the call throws
   * `ThrottledError`.
   */
  readonly transactionConflict?: number | undefined;
  /** The probability that a request is throttled: it changes nothing, and the call throws `ThrottledError`. */
  readonly throttled?: number | undefined;
  /** The probability that a write is applied, but the call throws `UnavailableError`; a claim answers `unknown`. */
  readonly unanswered?: number | undefined;
}

/** An event in the store, emitted at once, for a simulation's invariants. */
export type StoreEvent<T> =
  /** A job item was written; `input` is the argument of the verb. */
  | {
      readonly kind: 'job';
      readonly verb: string;
      readonly input: unknown;
      readonly oldJob?: T | undefined;
      readonly newJob: T;
    }
  /** A job was moved into a conflict key's line, or out of it, and is otherwise unchanged. */
  | { readonly kind: 'parked' | 'unparked'; readonly jobId: string }
  /** A commit was applied; `version` is the partition's version before it. */
  | {
      readonly kind: 'committed';
      readonly partition: number;
      readonly commit: Commit;
      readonly version: number;
    }
  /** A dispatcher took or renewed the lead, or ended it. */
  | {
      readonly kind: 'lead';
      readonly verb: 'lead' | 'stopLeading';
      readonly partition: number;
      readonly holder: string;
    }
  | { readonly kind: 'declared'; readonly record: DeclarationRecord }
  /** A schedule was written or deleted. */
  | {
      readonly kind: 'schedule';
      readonly before: ScheduleRecord | undefined;
      readonly after: ScheduleRecord | undefined;
    }
  /** An imitated behaviour occurred. */
  | { readonly kind: 'imitated'; readonly what: keyof StoreImitation };

/** A change of a job item. */
export interface StreamRecord<T> {
  readonly oldJob?: T | undefined;
  readonly newJob: T;
}

/** Runs an action later, by a timer or in a simulation's agenda. */
export type After = (delayMs: number, action: () => void) => void;
