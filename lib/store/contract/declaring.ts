/**
 * Declaring: the store keeps the declaration of types, tiers, fleets and partitions, and jobs that wait follow it. Without it each
 * process is handed its configuration when it starts, and types, fleets and partitions stay as they are while jobs wait.
 */
import type { Control } from '../../core/capacity.ts';
import type { MovingJob } from '../../core/job.ts';
import type { JobHead } from './job-fields.ts';
import type { DeclarationRecord } from './records.ts';
import type { Applied, DeclareOutcome } from './requests.ts';

export interface DeclareStore {
  /** Reads the newest version, strongly consistent; 0 while nothing is declared. */
  readDeclaredVersion(): Promise<number>;
  /** Reads a declaration, the newest unless a version is given, strongly consistent; undefined where there is none. */
  readDeclaration(version?: number): Promise<DeclarationRecord | undefined>;
  /**
   * Declares the version that follows `after` (0: the first), fenced by `after` as the newest version. All earlier ones can still be
   * read: a job that runs goes on under the declaration under which it was claimed.
   */
  putDeclaration(request: {
    readonly text: string;
    readonly after: number;
    readonly nowMs: number;
  }): Promise<DeclareOutcome>;
  /** Tells a partition of a version, which every load then shows; fenced by the version, which never goes back. No pass conflicts. */
  announceDeclaration(request: { readonly partition: number; readonly version: number }): Promise<void>;
  /**
   * Moves jobs to their ready lines in another partition, which were announced there before, each fenced by its version: pending jobs,
   * wherever they stand, and scheduled ones whose time has come. Answers as `promote` does.
   */
  rehome(request: {
    readonly jobs: readonly JobHead[];
    readonly partition: number;
    readonly nowMs: number;
  }): Promise<readonly (MovingJob | undefined)[]>;
  /** Gives a partition a control that others have, unless its scope's control was ever changed there, if only to end it. */
  adoptControl(request: { readonly partition: number; readonly control: Control }): Promise<Applied>;
  /**
   * Gives back a claim of a fleet that is not declared any more, fenced by the claim: the job has not started. It stands in its ready
   * line again, which was announced before, and its history tells of it. A repetition may read its own success as a lost race.
   */
  giveBack(request: {
    readonly job: MovingJob;
    readonly claimId: string;
    readonly nowMs: number;
  }): Promise<Applied>;
}
