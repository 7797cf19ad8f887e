/**
 * Reads parked jobs for operators, by conflict key. The fairness keys' own records of parked jobs are bounded
 * and incomplete, so they are not used. All of this reads the index, which may lag.
 */

import { type HeldJobs, isHeld } from '../dispatch/partition/depth.ts';
import { allEnded } from '../runtime/all-ended.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import { blockedGroup } from '../store/contract/lines.ts';
import { pagesOf } from '../store/contract/pages.ts';
import type { ParkedMark } from '../store/contract/records.ts';
import type { Heads } from '../store/contract/requests.ts';
import type { PassStore } from '../store/contract/verbs.ts';

type ParkedStore = Pick<PassStore, 'listParked' | 'readLine' | 'readBlocked'>;

const PAGE = 100;
/** From so many conflict keys on, no further page of them is read in a partition. */
const MARKS_MAX = 1_000;
/** The most groups that are read of a blocked line with more than a page of jobs. */
const GROUPS_MAX = 1_000;

/** Pages of conflict keys that may have parked jobs. */
const parkedKeyPages = (store: ParkedStore, partition: number) =>
  pagesOf((after: string | undefined) => store.listParked({ partition, limit: PAGE, after }));

/** All parked jobs of a partition, page by page, one conflict key after the other. */
export async function* parkedIn(store: ParkedStore, partition: number): AsyncGenerator<readonly JobHead[]> {
  for await (const { marks } of parkedKeyPages(store, partition)) {
    for (const { conflictKey } of marks) {
      for await (const { jobs } of pagesOf((after: string | undefined) =>
        store.readLine({ partition, line: { conflictKey }, limit: PAGE, after }),
      ))
        yield jobs;
    }
  }
}

export interface ParkedCount {
  readonly waiting: number;
  /** Whether there may be more jobs than were counted. */
  readonly more: boolean;
}

export interface ParkedCounts {
  readonly of: (type: string, fairnessKey: string) => ParkedCount;
  /** Returns the fairness keys that have parked jobs of a type. */
  readonly keysOf: (type: string) => readonly string[];
}

/**
 * Counts a partition's parked jobs by type and fairness key. If up to a page of jobs is parked for a conflict key, all
 * of them count; otherwise only the first ones of each type and fairness key.
 */
export async function countParked(
  store: ParkedStore,
  partition: number,
  held: HeldJobs,
): Promise<ParkedCounts> {
  const counts = new Map<string, Map<string, ParkedCount>>();
  // This is false if a bound was reached. Any key may then have more jobs.
  let isComplete = true;
  const add = (jobs: readonly JobHead[], more: boolean): void => {
    for (const job of jobs) {
      const waits = isHeld(held, job) ? 0 : 1;
      if (waits === 0 && !more) continue;
      const ofType = counts.get(job.type) ?? new Map<string, ParkedCount>();
      const before = ofType.get(job.fairnessKey);
      ofType.set(job.fairnessKey, {
        waiting: (before?.waiting ?? 0) + waits,
        more: more || before?.more === true,
      });
      counts.set(job.type, ofType);
    }
  };
  const count = async ({ conflictKey }: ParkedMark): Promise<void> => {
    const line = await store.readLine({ partition, line: { conflictKey }, limit: PAGE });
    if (line.next === undefined) {
      add(line.jobs, false);
      return;
    }
    const groups = new Set<string>();
    for await (const { jobs } of pagesOf(
      (after: string | undefined): Promise<Heads> =>
        store.readBlocked({ partition, conflictKey, groups: PAGE, after }),
    )) {
      add(jobs, true);
      for (const job of jobs) groups.add(blockedGroup(job));
      if (groups.size < GROUPS_MAX) continue;
      isComplete = false;
      break;
    }
  };
  let marks = 0;
  for await (const page of parkedKeyPages(store, partition)) {
    await allEnded(page.marks.map(count));
    marks += page.marks.length;
    if (page.next === undefined || marks < MARKS_MAX) continue;
    isComplete = false;
    break;
  }
  return {
    of: (type, fairnessKey) => {
      const { waiting, more } = counts.get(type)?.get(fairnessKey) ?? { waiting: 0, more: false };
      return { waiting, more: more || !isComplete };
    },
    keysOf: (type) => [...(counts.get(type)?.keys() ?? [])],
  };
}
