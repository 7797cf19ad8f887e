/** What is awkward about DynamoDB, for the memory store to imitate. Everything is off unless named; chance is injected. */

import type { ScheduleRecord } from '../../../core/recurring.ts';
import type { DeclarationRecord } from '../../contract/records.ts';
import type { Commit } from '../../contract/requests.ts';

/** Chances are between 0 and 1, times are upper bounds from which each case draws its own. */
export interface StoreImitation {
  /** The index lags behind an item by up to this. */
  readonly indexLagMs?: number | undefined;
  /** Stream records come up to this late, and so in any order. */
  readonly streamLateMs?: number | undefined;
  readonly streamDuplicated?: number | undefined;
  readonly streamLost?: number | undefined;
  /** Expired items are collected up to this late. They are gone for every reader all the same. */
  readonly ttlLateMs?: number | undefined;
  /** A transaction meets another one: nothing happens, `ThrottledError`. */
  readonly transactionConflict?: number | undefined;
  /** A request is refused: nothing happens, `ThrottledError`. */
  readonly throttled?: number | undefined;
  /** A write is applied, but its answer gets lost: `UnavailableError`, or `unknown` for a claim. */
  readonly unanswered?: number | undefined;
}

/** What happened in the store, in the very moment: for a simulation's invariants. */
export type StoreEvent<T> =
  /** A job item was written; `input` is what the verb was asked. */
  | {
      readonly kind: 'job';
      readonly verb: string;
      readonly input: unknown;
      readonly oldJob?: T | undefined;
      readonly newJob: T;
    }
  /** A job was put into a conflict key's line, or taken out of it; the job itself is as before. */
  | { readonly kind: 'parked' | 'unparked'; readonly jobId: string }
  /** A commit counts; `version` is the one that the partition had until then. */
  | {
      readonly kind: 'committed';
      readonly partition: number;
      readonly commit: Commit;
      readonly version: number;
    }
  /** A dispatcher leads from now on, or goes on to, or has released. */
  | {
      readonly kind: 'lead';
      readonly verb: 'lead' | 'stopLeading';
      readonly partition: number;
      readonly holder: string;
    }
  | { readonly kind: 'declared'; readonly record: DeclarationRecord }
  /** A schedule was written, or removed. */
  | {
      readonly kind: 'schedule';
      readonly before: ScheduleRecord | undefined;
      readonly after: ScheduleRecord | undefined;
    }
  /** An imitated awkwardness took place. */
  | { readonly kind: 'imitated'; readonly what: keyof StoreImitation };

/** A job item changed. */
export interface StreamRecord<T> {
  readonly oldJob?: T | undefined;
  readonly newJob: T;
}

/** Does something later: a timer, or a simulation's agenda. */
export type After = (delayMs: number, action: () => void) => void;
