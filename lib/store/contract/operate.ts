/**
 * Operating: controls, dead letters, rejected requests and items that cannot be read. Without it operators cannot pause, cap or weigh
 * a scope, nor try failed jobs again, and a rejected request is only answered, not kept.
 */
import type { Job, MovingJob } from '../../core/job.ts';
import type { Rejection, UnreadableItem } from './records.ts';
import type { Applied, ControlChange, ControlOutcome, LinePage, RejectionPage } from './requests.ts';

export interface OperateStore {
  /**
   * Changes the named parts of a scope's control, each fenced by that part's revision, as it was when the call began. Of two operators
   * who change different parts at once, neither is lost; of two who change the same part, one is superseded unless both want the same.
   * Answers the control as it is then; the next pass obeys it, and a control that says nothing any more is not shown.
   */
  changeControl(request: {
    readonly partition: number;
    readonly scope: string;
    readonly change: ControlChange;
  }): Promise<ControlOutcome>;
  /**
   * Reads the notes of items that were found and could not be read, as long as that is so; those of jobs by the partition in whose
   * line they stood. At most 1,000.
   */
  listUnreadable(partition: number): Promise<readonly UnreadableItem[]>;
  /** Reads failed jobs that were not redriven, latest first; from an index, so it may lag. */
  readDeadLetters(request: {
    readonly partition: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<LinePage<Job>>;
  /**
   * Makes a new job of a dead letter, fenced by its version and once: the new job is put, and the dead letter names it with the time
   * and the author, in one write.
   */
  redrive(request: { readonly deadLetter: MovingJob; readonly job: Job }): Promise<Applied>;
  /** Keeps rejected requests; needs no token, because one of the same source and position is kept once. */
  recordRejections(rejections: readonly Rejection[]): Promise<void>;
  /** Reads the rejections of one event, strongly consistent, in the order of their positions. */
  listRejections(sourceId: string): Promise<readonly Rejection[]>;
  /** Reads the rejections of all events, latest first; from an index, so it may lag. */
  readRejections(request: {
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<RejectionPage>;
}
