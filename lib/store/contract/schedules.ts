/**
 * Schedules: jobs that come again at their times. Without it there are no recurring jobs; producers submit each one. Every write
 * is fenced by the schedule's revision as it was read.
 */
import type { ScheduleRecord, ScheduleState } from '../../core/recurring.ts';
import type { Applied } from './requests.ts';

/** A schedule as its line shows it. */
export interface ScheduleHead {
  readonly id: string;
  /** When a pass must look at it; absent: it is in no due line. */
  readonly dueMs?: number | undefined;
}

export interface ScheduleHeads {
  readonly schedules: readonly ScheduleHead[];
  /** Where to read on; absent at the line's end. */
  readonly next?: string | undefined;
}

export interface ScheduleStore {
  /**
   * Reads schedules, strongly consistent, in the order of the ids; undefined where there is none. A schedule that is there and cannot
   * be read is an error, or, with `unreadable`, undefined: its id is passed to that function, and it is taken out of its line and noted.
   */
  getSchedules(request: {
    readonly ids: readonly string[];
    readonly unreadable?: ((id: string) => void) | undefined;
  }): Promise<readonly (ScheduleRecord | undefined)[]>;
  /**
   * Writes a schedule's request and its state together, fenced by `seen`, the revision that was read (0: there is none).
   * `superseded`: another call has written it, or this very call before, whose answer got lost.
   */
  putSchedule(request: { readonly record: ScheduleRecord; readonly seen: number }): Promise<Applied>;
  /** Writes a schedule's state, fenced by `seen`, the revision that was read. */
  saveSchedule(request: { readonly state: ScheduleState; readonly withJobStates: number }): Promise<Applied>;
  /** Removes a schedule, fenced by `seen`, the revision that was read. `superseded`: as `putSchedule` says. */
  deleteSchedule(request: { readonly id: string; readonly seen: number }): Promise<Applied>;
  /** Removes a schedule, fenced by its being unreadable; `superseded`: it can be read, or is gone. */
  discardSchedule(id: string): Promise<Applied>;
  /**
   * Reads the active schedules of a partition that are due after `fromMs` and until `untilMs`, soonest first; from an index, so it may
   * lag.
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
  /** Notes these as all schedules that deployments have made; needs no token, because the stack makes one deployment at a time. */
  noteDeclaredSchedules(ids: readonly string[]): Promise<void>;
}
