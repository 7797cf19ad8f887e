/**
 * Declaring: the store keeps the declaration of types, tiers, fleets and partitions, and waiting jobs follow a new declaration. Without it
 * each process gets its configuration when it starts, and types, fleets and partitions must not change while jobs wait.
 */
import type { Control } from '../../core/capacity.ts';
import type { MovingJob } from '../../core/job.ts';
import type { JobHead } from './job-fields.ts';
import type { DeclarationRecord } from './records.ts';
import type { Applied, DeclareOutcome } from './requests.ts';

export interface DeclareStore {
  /** Reads the newest version, strongly consistent; 0 if nothing was declared. */
  readDeclaredVersion(): Promise<number>;
  /** Reads a declaration, by default the newest, strongly consistent; undefined if it does not exist. */
  readDeclaration(version?: number): Promise<DeclarationRecord | undefined>;
  /**
   * Stores a declaration with the version that follows `after` (0: the first), fenced by `after` as the newest version. All earlier ones
   * can still be read: a running job continues under the declaration under which it was claimed.
   */
  putDeclaration(request: {
    readonly text: string;
    readonly after: number;
    readonly nowMs: number;
  }): Promise<DeclareOutcome>;
  /**
   * Writes a declaration's version to a partition, so that every load shows it. The version never goes back, and the write never conflicts
   * with a pass.
   */
  announceDeclaration(request: { readonly partition: number; readonly version: number }): Promise<void>;
  /**
   * Moves jobs to their ready lines in another partition, which the caller announced before, each fenced by its version: pending jobs in
   * any line, and scheduled jobs that are due. Answers as `promote` does.
   */
  rehome(request: {
    readonly jobs: readonly JobHead[];
    readonly partition: number;
    readonly nowMs: number;
  }): Promise<readonly (MovingJob | undefined)[]>;
  /** Copies a control to a partition, unless a control of its scope was ever changed there, even if it was only ended. */
  adoptControl(request: { readonly partition: number; readonly control: Control }): Promise<Applied>;
  /**
   * Returns a claimed job of a fleet that is no longer declared to its ready line, which the caller announced before, fenced by the claim:
   * the job has not started. The job's history records it. A repeated call may report its own success as a lost race.
   */
  giveBack(request: {
    readonly job: MovingJob;
    readonly claimId: string;
    readonly nowMs: number;
  }): Promise<Applied>;
}
