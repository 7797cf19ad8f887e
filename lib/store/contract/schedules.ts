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
   * Strongly consistent, in the order of the ids; undefined where there is none. `unreadable` hears of those that are there and
   * cannot be read, which are taken out of their line and noted; without it they are an error.
   */
  getSchedules(request: {
    readonly ids: readonly string[];
    readonly unreadable?: ((id: string) => void) | undefined;
  }): Promise<readonly (ScheduleRecord | undefined)[]>;
  /**
   * Writes what is asked for and how far it is, together, if the schedule is at exactly the revision that was read (0: there
   * is none). `superseded`: somebody else has written it, or this very call before, whose answer got lost.
   */
  putSchedule(request: { readonly record: ScheduleRecord; readonly seen: number }): Promise<Applied>;
  /** Writes how far it is, if it is at exactly the revision that was read. */
  saveSchedule(request: { readonly state: ScheduleState; readonly seen: number }): Promise<Applied>;
  /** Removes it, if it is at exactly the revision that was read. `superseded`: as `putSchedule` says. */
  deleteSchedule(request: { readonly id: string; readonly seen: number }): Promise<Applied>;
  /** Removes one that cannot be read, whatever it says; `superseded`: it can be, or is gone. */
  discardSchedule(id: string): Promise<Applied>;
  /**
   * Active schedules of a partition that are to be looked at after `fromMs` and until `untilMs`, soonest first; from the index,
   * so it may lag.
   */
  readDueSchedules(request: {
    readonly partition: number;
    readonly fromMs: number;
    readonly untilMs: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<ScheduleHeads>;
  /** Those that are stopped, by id; from the index, so it may lag. */
  readStoppedSchedules(request: {
    readonly partition: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<ScheduleHeads>;
  /** Ids of schedules that deployments have made, or were about to make; strongly consistent. */
  readDeclaredSchedules(): Promise<readonly string[]>;
  /** Notes these as all that deployments have made. One deployment at a time: the stack sees to that. */
  noteDeclaredSchedules(ids: readonly string[]): Promise<void>;
}
