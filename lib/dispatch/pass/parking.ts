/**
 * Parking. If many jobs wait for one conflict key, a few of them stay in their ready lines and the others move to the key's
 * blocked line. Passes then do not meet them again and again before they reach the jobs behind them. The settle step reads parked
 * jobs (`readFreed`), the admit step moves them back (`moveBack`), and the close step parks more (`park`).
 *
 * A blocked line has one group for each ready line that its jobs came from. Only the first job of a group can be the next to
 * start. Two rules are enough:
 *  - A conflict key that may have a blocked line has a mark, which is an item of its own. The mark is written before the first
 *    job is parked, and deleted only if the line was found empty long after the last parking.
 *  - While a conflict key is free, the first jobs of its groups stand in their ready lines, where every pass finds them. The pass
 *    that settles the job that held the key reads them first. Those that it does not start are moved back before the settlement
 *    is written, so a dispatcher that dies in between leaves nothing behind.
 * A job that was moved back may be cancelled or rescheduled. The image that shows this makes a pass read the blocked line. If
 * that image is lost, a sweep over all marks, some at each tick, finds the line.
 *
 * The conflict keys of limits (`conflictKeyOfLimit`) can be without room although no job runs: a rate is used up, an operator has
 * paused the key, it rests. No job's end will free them, so the first jobs of their groups stand in their ready lines, too, until
 * one of them is met there: each pass sees when the key opens, and asks for a wake.
 *
 * A parked job is still pending, at the same version, and can be claimed where it stands. Parking raises the partition's version,
 * so a settlement that read the blocked line earlier and found it empty is refused.
 */
import { fullConflicts, typesByName } from '../../core/conflict.ts';
import { isTerminal, type ReservedJob, type WaitingJob } from '../../core/job.ts';
import type { Planner } from '../../core/planner.ts';
import { parkingKeysFor, parkingKeysOf } from '../../core/scope.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { ParkedMark } from '../../store/contract/records.ts';
import { storeAnnounced, submitContextOf } from '../../submit/submit.ts';
import { type Commits, EMPTY_COMMIT } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { needsLocks, readLocksAndWait } from '../partitions/locks.ts';
import { LOOK_AROUND_MS, NAMES_MAX, PAGE_MAX } from '../tuning.ts';
import type { PartitionCache } from '../view/partition-cache.ts';

export interface FreedParked {
  /**
   * By conflict key: the first jobs of its blocked line, a few for each ready line that the parked jobs came from.
   */
  readonly heads: ReadonlyMap<string, readonly JobHead[]>;
  /** Marks to delete: their lines are empty, and were marked so long ago that the index shows every parked job. */
  readonly empty: readonly ParkedMark[];
  /** Whether the partition has no mark at all: then no job is parked. */
  readonly isNothingMarked: boolean;
  /** Conflict keys with parked jobs that other partitions hold now. */
  readonly taken: ReadonlySet<string>;
  /**
   * Epoch ms at which the first of those keys is no longer reserved for another partition. Undefined: none is reserved.
   */
  readonly openAtMs?: number | undefined;
  /** The cursor at which the next pass continues the sweep over all marks. */
  readonly cursor?: string | undefined;
}

export interface UnparkInput {
  readonly partition: number;
  /** Conflict keys that may be free now: those of settled jobs, and of jobs whose images show that they no longer wait. */
  readonly freed: Iterable<string>;
  readonly inFlight: readonly ReservedJob[];
  /** Whether to read the next part of the sweep over all marks, too. */
  readonly looksAround: boolean;
  readonly cursor: string | undefined;
  /** By conflict key: the cursor behind the part of its blocked line that the last pass read, if the line is too long for one read. */
  readonly groupCursors: Map<string, string>;
  readonly nowMs: number;
}

/**
 * Returns the conflict keys of a job that has left its ready line. A job parked for one of them may be the next. None: the
 * job still waits there, or it has no conflict key.
 */
export const freedConflictKeys = (
  { configuration }: Pick<DispatchContext, 'configuration'>,
  job: JobHead,
): readonly string[] =>
  job.state === 'scheduled' || isTerminal(job.state) ? parkingKeysFor(configuration, job) : [];

/** Reads the first jobs of the blocked lines of conflict keys that are free now. */
export async function readFreed(context: DispatchContext, input: UnparkInput): Promise<FreedParked> {
  const { store, budget } = context;
  const { partition, inFlight, groupCursors, nowMs } = input;
  const types = typesByName(context.configuration);
  const full = fullConflicts(types, inFlight);
  const held = idsByConflict(context.configuration, inFlight);
  const isFree = (conflictKey: string): boolean => !full.has(conflictKey);
  const [freed, sweep] = await Promise.all([
    store.readParked({ partition, conflictKeys: [...new Set(input.freed)].filter(isFree) }),
    input.looksAround ? store.listParked({ partition, limit: PAGE_MAX, after: input.cursor }) : NO_SWEEP,
  ]);
  const marks = new Map([...freed, ...sweep.marks].map((mark) => [mark.conflictKey, mark]));
  const free = [...marks.values()].filter(({ conflictKey }) => isFree(conflictKey));
  // Whether jobs are parked for the key. The mark may be of an earlier parking, so an empty read proves nothing while
  // the index lags.
  const hasJobs = async (conflictKey: string): Promise<boolean> =>
    (await store.readBlocked({ partition, conflictKey, groups: 1 })).jobs.length > 0;
  const { taken, openAtMs } = needsLocks(context)
    ? await readLocksAndWait(
        context,
        partition,
        free.map(({ conflictKey }) => conflictKey),
        hasJobs,
      )
    : { taken: new Set<string>(), openAtMs: undefined };
  const heads = new Map<string, readonly JobHead[]>();
  const empty: ParkedMark[] = [];
  await Promise.all(
    free.map(async (mark) => {
      const { conflictKey, parkedAtMs } = mark;
      // A reserved job stands in its line until it starts, so it must not be read as parked.
      const butFor = held.get(conflictKey);
      // planted: told-heads-hide-others
      const asked = { partition, conflictKey, groups: budget.blockedGroups, butFor };
      const first = await store.readBlocked(asked);
      // Each pass reads the front of the blocked line and one later part, so that the jobs of every ready line get their turn.
      const from = groupCursors.get(conflictKey) ?? first.next;
      const behind =
        first.next !== undefined && from !== undefined
          ? await store.readBlocked({ ...asked, after: from })
          : undefined;
      if (behind?.next === undefined) groupCursors.delete(conflictKey);
      else groupCursors.set(conflictKey, behind.next);
      if (groupCursors.size > NAMES_MAX) groupCursors.clear();
      const jobs = [...first.jobs, ...(behind?.jobs ?? [])];
      if (jobs.length > 0) heads.set(conflictKey, jobs);
      else if (butFor === undefined && nowMs - parkedAtMs > LOOK_AROUND_MS) empty.push(mark);
    }),
  );
  const isWholeSweep = input.looksAround && input.cursor === undefined && sweep.next === undefined;
  return {
    heads,
    taken,
    empty,
    isNothingMarked: isWholeSweep && sweep.marks.length === 0,
    openAtMs,
    cursor: input.looksAround ? sweep.next : input.cursor,
  };
}

/** Ids of jobs in flight, by the conflict keys that they hold. */
function idsByConflict(
  configuration: DispatchContext['configuration'],
  inFlight: readonly ReservedJob[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const ids = new Map<string, Set<string>>();
  for (const entry of inFlight) {
    for (const conflictKey of parkingKeysOf(configuration, entry)) {
      const ofKey = ids.get(conflictKey);
      if (ofKey === undefined) ids.set(conflictKey, new Set([entry.id]));
      else ofKey.add(entry.id);
    }
  }
  return ids;
}

const NO_SWEEP: { readonly marks: readonly ParkedMark[]; readonly next?: string | undefined } = { marks: [] };

/**
 * Moves parked jobs back to their ready lines: those of `heads` that were not admitted, for each conflict key that another
 * partition holds, or for which nothing here would cause the next look (`staysBlocked`). Returns the jobs that were moved.
 */
export async function moveBack(
  context: DispatchContext,
  planner: Planner,
  { heads, taken }: Pick<FreedParked, 'heads' | 'taken'>,
  admitted: ReadonlySet<string>,
): Promise<readonly JobHead[]> {
  // Jobs whose key another partition holds wait in their ready lines, too.
  const free = [...heads].filter(
    ([conflictKey, jobs]) =>
      taken.has(conflictKey) || !planner.staysBlocked(conflictKey, new Set(jobs.map(({ id }) => id))),
  );
  const moved = await Promise.all(
    free.map(async ([conflictKey, jobs]) => {
      const waiting = jobs.filter(({ id }) => !admitted.has(id));
      if (waiting.length === 0) return [];
      // The jobs' lines may have been retired while they were parked, so they are announced again.
      // planted: retired-while-parked
      const outcomes = await storeAnnounced(submitContextOf(context), waiting, () =>
        context.store.unpark({ jobs: waiting, conflictKey }),
      );
      return waiting.filter((_, at) => outcomes[at] === 'applied');
    }),
  );
  return moved.flat();
}

/** Returns the blocked jobs to park, by conflict key. */
export function jobsToPark(
  blocked: readonly { readonly job: WaitingJob; readonly conflictKey: string }[],
  known: ReadonlySet<string>,
  kept: number,
): ReadonlyMap<string, readonly WaitingJob[]> {
  const waiting = blocked.filter(({ job }) => !known.has(job.id));
  const groups = [...Map.groupBy(waiting, ({ conflictKey }) => conflictKey)].flatMap(
    ([conflictKey, group]) => {
      const rest = group.slice(kept).map(({ job }) => job);
      // A few jobs more than `kept` are not worth the writes.
      return rest.length > kept ? [[conflictKey, rest] as const] : [];
    },
  );
  return new Map(groups);
}

/**
 * Parks jobs in the blocked lines of their conflict keys. Returns those that stand there now.
 *
 * @throws CommitLostError if another commit came first
 */
export async function park(
  context: DispatchContext,
  partition: number,
  commits: Commits,
  groups: ReadonlyMap<string, readonly JobHead[]>,
  {
    parks,
    cached,
  }: {
    readonly parks: boolean;
    readonly cached: Pick<PartitionCache, 'marked'>;
  },
): Promise<readonly JobHead[]> {
  const { store, clock } = context;
  const { marked } = cached;
  const nowMs = clock.nowMs();
  if (!parks) await commits.write({ ...EMPTY_COMMIT, parks: true });
  const stale = [...groups.keys()].filter(
    // planted: marks-not-renewed
    (conflictKey) => nowMs - (marked.get(conflictKey) ?? -Infinity) > LOOK_AROUND_MS / 3,
  );
  await store.markParked({ partition, conflictKeys: stale, nowMs });
  if (marked.size > NAMES_MAX) marked.clear();
  for (const conflictKey of stale) marked.set(conflictKey, nowMs);
  const moved: JobHead[] = [];
  for (const [conflictKey, jobs] of groups) {
    const outcomes = await commits.park({ jobs, conflictKey });
    moved.push(...jobs.filter((_, at) => outcomes[at] === 'applied'));
  }
  return moved;
}
