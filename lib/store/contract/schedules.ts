/**
 * Schedules of recurring jobs. Without it there are no recurring jobs, and producers submit each one. Every write is fenced by the
 * schedule's revision as it was read.
 */
import type { ScheduleRecord, ScheduleState } from '../../core/recurring.ts';
import type { Applied } from './requests.ts';

/** A schedule as its line shows it. */
export interface ScheduleHead {
  readonly id: string;
  /** When a pass must look at it; undefined: it is not in the due line. */
  readonly dueMs?: number | undefined;
}

export interface ScheduleHeads {
  readonly schedules: readonly ScheduleHead[];
  /** The cursor of the next read; absent at the end of the line. */
  readonly next?: string | undefined;
}

export interface ScheduleStore {
  /**
   * Reads schedules, strongly consistent, in the order of the ids; undefined for an id without a schedule. If a schedule cannot be read,
   * the call throws, or, with `unreadable`, answers undefined for it, passes its id to that function, takes it out of its line and records
   * it as unreadable.
   */
  getSchedules(request: {
    readonly ids: readonly string[];
    readonly unreadable?: ((id: string) => void) | undefined;
  }): Promise<readonly (ScheduleRecord | undefined)[]>;
  /**
   * Writes a schedule's request and its state together, fenced by `afterRevision`, the revision that was read (0: none existed). `superseded`:
   * another call has written it, or this call did and its answer got lost.
   */
  putSchedule(request: { readonly record: ScheduleRecord; readonly afterRevision: number }): Promise<Applied>;
  /** Writes a schedule's state, fenced by `afterRevision`, the revision that was read. */
  saveSchedule(request: { readonly state: ScheduleState; readonly afterRevision: number }): Promise<Applied>;
  /** Deletes a schedule, fenced by `afterRevision`, the revision that was read. `superseded` as in `putSchedule`. */
  deleteSchedule(request: { readonly id: string; readonly afterRevision: number }): Promise<Applied>;
  /** Deletes a schedule that cannot be read; `superseded`: it can be read, or is gone. */
  discardSchedule(id: string): Promise<Applied>;
  /**
   * Reads the active schedules of a partition that are due after `fromMs` and until `untilMs`, soonest first; from an index, so it may lag.
   */
  readDueSchedules(request: {
    readonly partition: number;
    readonly fromMs: number;
    readonly untilMs: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<ScheduleHeads>;
  /** Reads the stopped schedules of a partition, by id; from an index, so it may lag. */
  readStoppedSchedules(request: {
    readonly partition: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<ScheduleHeads>;
  /** Reads the ids of schedules that deployments have made, or were about to make; strongly consistent. */
  readDeclaredSchedules(): Promise<readonly string[]>;
  /** Stores the ids of all schedules that deployments have made. Needs no token, because the stack makes one deployment at a time. */
  noteDeclaredSchedules(ids: readonly string[]): Promise<void>;
}
