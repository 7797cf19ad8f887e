/**
 * Parking: of many jobs that wait for one conflict key, a few stay in their ready lines and the others stand in the
 * key's blocked line, so that a pass does not meet them again and again before it comes to those behind them.
 *
 * A blocked line is in groups, one for each ready line whose jobs stand in it. Of a group only the first job can be the
 * next to start. So two rules are enough:
 *  - A conflict key that may have a blocked line has a mark. It is made before any job is parked there, and taken away only
 *    when the line was found empty long after the last parking.
 *  - While a conflict key has room, the first jobs of its groups stand in their ready lines, where every pass finds
 *    them. The pass that settles the job that held the key reads them beforehand. Those that do not start in the same pass are
 *    moved back before the settlement is written, so a dispatcher that dies in between leaves nothing behind.
 * A job that was moved back may be cancelled, or moved in time: the image that shows it causes a look at the blocked line, and
 * if that is lost, a round over all marks, some at each tick.
 *
 * A parked job is pending as before, at the same version: a claim wins it where it stands. Parking raises the partition's version: a
 * settlement that read the blocked line before, and found it empty, is refused.
 */
import { conflictKeyUnder, fullConflicts, keysHeldBy, typesByName } from '../../core/conflict.ts';
import { isTerminal, type ReservedJob, type WaitingJob } from '../../core/job.ts';
import type { Planner } from '../../core/planner.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { ParkedMark } from '../../store/contract/records.ts';
import { asSubmitter, putAnnounced } from '../../submit/submit.ts';
import { type Commits, EMPTY_COMMIT } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { lookAtLocks, needsLocks } from '../partitions/locks.ts';
import { LOOK_AROUND_MS, NAMES_MAX, PAGE_MAX } from '../tuning.ts';
import type { PartitionCache } from '../view/partition-cache.ts';

export interface Unparked {
  /** The first jobs of each group, by conflict key. */
  readonly heads: ReadonlyMap<string, readonly JobHead[]>;
  /** Marks whose lines are empty for good. */
  readonly empty: readonly ParkedMark[];
  /** There is no mark at all. */
  readonly isNothingMarked: boolean;
  /** Conflict keys among them that are another partition's for now. */
  readonly taken: ReadonlySet<string>;
  /** When another partition's turn with one of them ends; undefined: none has one. */
  readonly openAtMs?: number | undefined;
  /** Where the round of all marks goes on. */
  readonly cursor?: string | undefined;
}

export interface UnparkInput {
  readonly partition: number;
  /** Conflict keys that something may have let go: of what was settled, and of images that show jobs which do not wait. */
  readonly freed: Iterable<string>;
  readonly inFlight: readonly ReservedJob[];
  /** Look at some of all marks, too. */
  readonly looksAround: boolean;
  readonly cursor: string | undefined;
  /** By conflict key: where the groups go on that were not read lately. */
  readonly groupCursors: Map<string, string>;
  readonly nowMs: number;
}

/** The conflict key of a job that does not stand in a ready line any more: what is parked behind it may be the next. */
export function keyLetGo(context: Pick<DispatchContext, 'configuration'>, job: JobHead): string | undefined {
  if (job.state !== 'scheduled' && !isTerminal(job.state)) return undefined;
  const type = typesByName(context.configuration).get(job.type);
  return conflictKeyUnder(type, job.resourceId);
}

/** The first jobs of the blocked lines of conflict keys that nothing holds any more. */
export async function readFreed(context: DispatchContext, input: UnparkInput): Promise<Unparked> {
  const { store, budget } = context;
  const { partition, inFlight, groupCursors, nowMs } = input;
  const types = typesByName(context.configuration);
  const full = fullConflicts(types, inFlight);
  const held = idsByConflict(types, inFlight);
  const isFree = (conflictKey: string): boolean => !full.has(conflictKey);
  const [freed, round] = await Promise.all([
    store.readParked({ partition, conflictKeys: [...new Set(input.freed)].filter(isFree) }),
    input.looksAround ? store.listParked({ partition, limit: PAGE_MAX, after: input.cursor }) : NO_ROUND,
  ]);
  const marks = new Map([...freed, ...round.marks].map((mark) => [mark.conflictKey, mark]));
  const free = [...marks.values()].filter(({ conflictKey }) => isFree(conflictKey));
  // A mark outlives its jobs.
  const hasJobs = async (conflictKey: string): Promise<boolean> =>
    (await store.readBlocked({ partition, conflictKey, groups: 1 })).jobs.length > 0;
  const { taken, openAtMs } = needsLocks(context)
    ? await lookAtLocks(
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
      // What has a place stands here until it starts.
      const butFor = held.get(conflictKey);
      // planted: told-heads-hide-others
      const asked = { partition, conflictKey, groups: budget.blockedGroups, butFor };
      const first = await store.readBlocked(asked);
      // No group stands behind the others for ever.
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
  const isWholeRound = input.looksAround && input.cursor === undefined && round.next === undefined;
  return {
    heads,
    taken,
    empty,
    isNothingMarked: isWholeRound && round.marks.length === 0,
    openAtMs,
    cursor: input.looksAround ? round.next : input.cursor,
  };
}

/** Jobs in flight by the conflict keys that they hold. */
function idsByConflict(
  types: ReturnType<typeof typesByName>,
  inFlight: readonly ReservedJob[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const ids = new Map<string, Set<string>>();
  for (const entry of inFlight) {
    for (const conflictKey of keysHeldBy(types, entry)) {
      const ofKey = ids.get(conflictKey);
      if (ofKey === undefined) ids.set(conflictKey, new Set([entry.id]));
      else ofKey.add(entry.id);
    }
  }
  return ids;
}

const NO_ROUND: { readonly marks: readonly ParkedMark[]; readonly next?: string | undefined } = { marks: [] };

/** Moves the first jobs of groups whose conflict key stays free back to their ready lines. Answers those that stand there now. */
export async function moveBack(
  context: DispatchContext,
  planner: Planner,
  { heads, taken }: Pick<Unparked, 'heads' | 'taken'>,
  admitted: ReadonlySet<string>,
): Promise<readonly JobHead[]> {
  // What another partition has is waited for in a ready line, too.
  const free = [...heads].filter(
    ([conflictKey]) => taken.has(conflictKey) || !planner.isConflictHeld(conflictKey),
  );
  const moved = await Promise.all(
    free.map(async ([conflictKey, jobs]) => {
      const waiting = jobs.filter(({ id }) => !admitted.has(id));
      if (waiting.length === 0) return [];
      // Their lines may have been retired while they stood elsewhere.
      // planted: retired-while-parked
      const outcomes = await putAnnounced(asSubmitter(context), waiting, () =>
        context.store.unpark({ jobs: waiting, conflictKey }),
      );
      return waiting.filter((_, at) => outcomes[at] === 'applied');
    }),
  );
  return moved.flat();
}

/** What a pass met that is blocked, and is to be parked: by conflict key. */
export function toPark(
  blocked: readonly { readonly job: WaitingJob; readonly conflictKey: string }[],
  known: ReadonlySet<string>,
  kept: number,
): ReadonlyMap<string, readonly WaitingJob[]> {
  const waiting = blocked.filter(({ job }) => !known.has(job.id));
  const groups = [...Map.groupBy(waiting, ({ conflictKey }) => conflictKey)].flatMap(
    ([conflictKey, group]) => {
      const rest = group.slice(kept).map(({ job }) => job);
      // A few more than are kept are not worth their writes.
      return rest.length > kept ? [[conflictKey, rest] as const] : [];
    },
  );
  return new Map(groups);
}

/**
 * Parks them. Answers those that stand in their blocked lines now.
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
