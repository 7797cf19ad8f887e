/**
 * Operating: controls, dead letters, rejected requests, searchable tags and items that cannot be read. Without it operators cannot pause a
 * scope or set its cap or weight, nor retry failed jobs or find jobs by tags, and a rejected request is answered but not stored.
 */
import type { Job, JobState, MovingJob } from '../../core/job.ts';
import type { Rejection, TagEntry, UnreadableItem } from './records.ts';
import type {
  Applied,
  ControlChange,
  ControlOutcome,
  Heads,
  LinePage,
  RejectionPage,
  TagPage,
} from './requests.ts';

/** The states whose jobs are listed only if their type has `listFinished`. */
export const FINISHED_STATES = ['succeeded', 'cancelled', 'expired'] as const satisfies readonly JobState[];
export type FinishedState = (typeof FINISHED_STATES)[number];

export interface OperateStore {
  /**
   * Changes the named parts of a scope's control, each fenced by that part's revision when the call began. If two operators change
   * different parts at once, both changes are applied. If they change the same part, one is superseded unless both set the same value.
   * Answers the control after the call, which the next pass obeys. A control without any setting is not among those in force.
   */
  changeControl(request: {
    readonly partition: number;
    readonly scope: string;
    readonly change: ControlChange;
  }): Promise<ControlOutcome>;
  /**
   * Lets a scope rest: no pass that loads the partition afterwards starts its jobs before `untilMs`. A rest that would
   * end earlier than the present one changes nothing: `superseded` means that the scope rests as long already.
   */
  rest(request: {
    readonly partition: number;
    readonly scope: string;
    readonly untilMs: number;
  }): Promise<Applied>;
  /**
   * Reads the notes about items that cannot be read, unless the item was repaired since. Notes about jobs belong to the partition of the
   * line in which the job stood. At most 1,000.
   */
  listUnreadable(partition: number): Promise<readonly UnreadableItem[]>;
  /** Reads failed jobs that were not redriven, latest first; from an index, so it may lag. */
  readDeadLetters(request: {
    readonly partition: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<LinePage<Job>>;
  /**
   * Reads the jobs with `listFinished` that have ended in this state, latest first, from the instant `sinceMs` on and before `untilMs`;
   * from an index, so it may lag. A record that has expired may still be among them.
   */
  readFinished(request: {
    readonly partition: number;
    readonly state: FinishedState;
    readonly type: string;
    readonly sinceMs?: number | undefined;
    readonly untilMs?: number | undefined;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<Heads>;
  /**
   * Redrives a dead letter: puts a new job and records its id, the time and the author in the dead letter, in one write. Fenced by the dead
   * letter's version, and by its not being redriven yet.
   */
  redrive(request: { readonly deadLetter: MovingJob; readonly job: Job }): Promise<Applied>;
  /** Stores rejected requests. Needs no token, because one with the same source and position is stored once. */
  recordRejections(rejections: readonly Rejection[]): Promise<void>;
  /** Reads the rejections of one event, strongly consistent, in the order of their positions. */
  listRejections(sourceId: string): Promise<readonly Rejection[]>;
  /** Reads the rejections of all events, latest first; from an index, so it may lag. */
  readRejections(request: {
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<RejectionPage>;
  /** Stores entries of tags. Needs no token, because an entry never changes. To be called before the jobs are put. */
  recordTags(entries: readonly TagEntry[]): Promise<void>;
  /** Reads the entries of one tag, the latest submit first, strongly consistent. An entry that has expired may still be among them. */
  readTagged(request: {
    readonly name: string;
    readonly value: string;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<TagPage>;
}
