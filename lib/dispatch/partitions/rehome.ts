/**
 * Moves jobs to the partitions of their keys after the number of partitions has changed. A partition never claims a job of
 * another partition's key, so such a job waits until it is moved:
 *
 *  - When a partition adopts the declaration, all its keys lines and its parked jobs are read once, in bounded steps (`carry`).
 *    Scheduled jobs stay, and are moved when they become due.
 *  - Later arrivals come from a producer with an old declaration, from a lost worker, or back from a removed fleet. The pass that
 *    a hint notifies of them, or that finds their key, moves them. The lines of a removed partition are read again from time to
 *    time, for jobs without a hint.
 *
 * A job is moved by one conditional write, to a line that was announced in its new partition before. So if a dispatcher dies, at
 * least one of the two partitions knows of the job. A job is not moved while an entry of an earlier attempt counts it, because
 * the pass that settles that entry must find its own claim.
 */
import { partitionOf } from '../../core/partition.ts';
import type { DeclarationState } from '../../declaration/declaration.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { ReadyLine } from '../../store/contract/lines.ts';
import type { KeyBacklog, PartitionState } from '../../store/contract/records.ts';
import { ANNOUNCE_EVERY_MS, storeAnnounced, submitContextOf } from '../../submit/submit.ts';
import { type Commits, EMPTY_COMMIT } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { wakeLater } from '../partition/timers.ts';
import { BESIDE_MAX, LOOK_AROUND_MS, NAMES_MAX, PAGE_MAX, STEP_JOBS } from '../tuning.ts';
import type { MisplacedMemory } from '../view/partition-cache.ts';

interface KeyHomes extends Pick<DispatchContext, 'configuration'> {
  readonly deployed?: Pick<DeclarationState, 'partitionNumbers'> | undefined;
}

/** Whether a partition may contain jobs of keys that belong to another one. */
export const haveKeysMoved = ({ configuration, deployed }: KeyHomes, partition: number): boolean =>
  partition >= configuration.partitions || (deployed !== undefined && deployed.partitionNumbers.length > 1);

/**
 * Whether jobs of a key may start in a partition. If keys have never moved, a producer with a newer declaration may have stored a
 * job in its future partition. This process leaves such a job alone until it has that declaration, too.
 */
export function belongsTo(
  context: KeyHomes,
  partition: number,
): (of: Pick<JobHead, 'fairnessKey'>) => boolean {
  const { partitions } = context.configuration;
  const isAlone = partitions === 1 || context.deployed === undefined;
  if (isAlone && !haveKeysMoved(context, partition)) return () => true;
  // planted: stranger-claimed
  return ({ fairnessKey }) => partitionOf(fairnessKey, partitions) === partition;
}

/** The jobs in flight, as a pass knows them. */
export interface InFlight {
  /** Ids of jobs that a reservation entry counts. */
  readonly held: ReadonlySet<string>;
  /**
   * Makes a commit without changes, which succeeds only if `held` is still complete. A job that was read after the load
   * may be the retry of an attempt that another dispatcher has started meanwhile, and whose entry still counts.
   * @throws CommitLostError if it is not complete
   */
  readonly confirm: () => Promise<void>;
}

export const inFlightOf = (held: ReadonlySet<string>, commits: Commits): InFlight => ({
  held,
  confirm: () => commits.write(EMPTY_COMMIT),
});

/** Ids of jobs whose earlier attempts still count in a partition. */
export const idsInFlight = ({ reservations }: Pick<PartitionState, 'reservations'>): ReadonlySet<string> =>
  new Set(reservations.flatMap(({ jobs }) => Array.from(jobs.values(), ({ id }) => id)));

/** Moves jobs that nothing holds to the partitions of their keys, and wakes those. Returns how many were moved. */
export async function moveToOwnPartition(
  context: DispatchContext,
  jobs: readonly JobHead[],
  { confirm }: Pick<InFlight, 'confirm'>,
): Promise<number> {
  const { store, configuration, clock, log } = context;
  if (jobs.length === 0) return 0;
  // Each job is moved at the version that was read, so later changes make its move fail.
  // planted: moved-unconfirmed
  await confirm();
  const byHome = Map.groupBy(jobs, ({ fairnessKey }) => partitionOf(fairnessKey, configuration.partitions));
  let count = 0;
  for (const [partition, ofHome] of byHome) {
    const there = ofHome.map((job) => ({ ...job, partition }));
    // planted: announced-late
    const moved = await storeAnnounced(submitContextOf(context), there, () =>
      store.rehome({ jobs: ofHome, partition, nowMs: clock.nowMs() }),
    );
    const arrived = moved.filter((job) => job !== undefined).length;
    if (arrived === 0) continue;
    count += arrived;
    log.info('jobs were moved to the partition of their keys', { partition, jobs: arrived });
    await wakeLater(context, partition, 0);
  }
  return count;
}

/** The first jobs of several lines, as many as one step moves. */
interface FoundJobs {
  readonly jobs: readonly JobHead[];
  /** Whether some of these lines have more jobs than were read. */
  readonly isCut: boolean;
  readonly empty: readonly ReadyLine[];
}

async function readLines(
  { store }: Pick<DispatchContext, 'store'>,
  partition: number,
  lines: readonly ReadyLine[],
  held: ReadonlySet<string>,
): Promise<FoundJobs> {
  const jobs: JobHead[] = [];
  const empty: ReadyLine[] = [];
  let isCut = false;
  // The lines that are read at once have, together, at most as many jobs as one step moves.
  const atOnce = STEP_JOBS / PAGE_MAX;
  for (let from = 0; from < lines.length; from += atOnce) {
    if (jobs.length >= STEP_JOBS) return { jobs, isCut: true, empty };
    const some = lines.slice(from, from + atOnce);
    const pages = await Promise.all(some.map((line) => store.readLine({ partition, line, limit: PAGE_MAX })));
    for (const [at, page] of pages.entries()) {
      const line = some[at];
      // planted: retired-with-jobs
      if (page.jobs.length === 0 && line !== undefined) empty.push(line);
      jobs.push(...page.jobs.filter(({ id }) => !held.has(id)));
      // planted: cut-line-left
      isCut ||= page.next !== undefined;
    }
  }
  return { jobs, isCut, empty };
}

const linesOf = (type: string, { fairnessKey, lines }: KeyBacklog): readonly ReadyLine[] =>
  lines.map((line) => ({ ...line, type, fairnessKey }));

/** Cursor of a walk through a partition's keys lines. */
export interface WalkCursor {
  readonly type: string;
  readonly after?: string | undefined;
}

/** Makes one step of a walk through the keys lines, type by type. `next` undefined: the walk has ended. */
export async function moveMisplacedStep(
  context: DispatchContext,
  partition: number,
  inFlight: InFlight,
  from: WalkCursor | undefined,
): Promise<{ readonly moved: number; readonly next: WalkCursor | undefined }> {
  const { store, configuration, deployed } = context;
  if (!haveKeysMoved(context, partition)) return { moved: 0, next: undefined };
  const types = [...configuration.types.map(({ type }) => type), ...(deployed?.formerTypes ?? [])];
  const lives = belongsTo(context, partition);
  let moved = 0;
  const startAt = from === undefined ? -1 : types.indexOf(from.type);
  let at = Math.max(0, startAt);
  let after = startAt < 0 ? undefined : from?.after;
  for (let pages = 0; pages < BESIDE_MAX && moved < STEP_JOBS; pages += 1) {
    const type = types[at];
    if (type === undefined) return { moved, next: undefined };
    const { keys, next } = await store.readKeys({ partition, type, limit: PAGE_MAX, after });
    const lines = keys.filter((key) => !lives(key)).flatMap((key) => linesOf(type, key));
    const { jobs, isCut } = await readLines(context, partition, lines, inFlight.held);
    moved += await moveToOwnPartition(context, jobs, inFlight);
    // A line had more jobs than one step moves, so the next step begins at the same keys.
    if (isCut) return { moved, next: { type, after } };
    if (next === undefined) at += 1;
    after = next;
  }
  const type = types[at];
  return { moved, next: type === undefined ? undefined : { type, after } };
}

/** Jobs and keys that a pass found in a partition to which they do not belong. */
export interface Strangers {
  readonly jobs: readonly JobHead[];
  readonly keys: readonly { readonly type: string; readonly key: KeyBacklog }[];
}

/** At the end of a pass, once its settlement is written: moves the misplaced jobs that it has found. */
export async function moveMisplaced(
  context: DispatchContext,
  partition: number,
  inFlight: InFlight,
  { jobs, keys }: Strangers,
  memory: MisplacedMemory,
  nowMs: number,
): Promise<number> {
  let moved = 0;
  // planted: moved-uncharged
  const misplaced = jobs.filter(({ id }) => !inFlight.held.has(id));
  if (misplaced.length > 0) moved += await moveToOwnPartition(context, misplaced, inFlight);
  const isDue = ({ type, key }: Strangers['keys'][number]): boolean =>
    nowMs - (memory.lookedAtMs.get(JSON.stringify([type, key.fairnessKey])) ?? -Infinity) >= LOOK_AROUND_MS;
  for (const { type, key } of keys.filter(isDue).slice(0, BESIDE_MAX)) {
    const found = await readLines(context, partition, linesOf(type, key), inFlight.held);
    const sent = await moveToOwnPartition(context, found.jobs, inFlight);
    moved += sent;
    if (memory.lookedAtMs.size >= NAMES_MAX) memory.lookedAtMs.clear();
    // A key whose jobs were moved may have more. Only a key without moved jobs is left alone for a while.
    if (sent === 0) memory.lookedAtMs.set(JSON.stringify([type, key.fairnessKey]), nowMs);
    if (nowMs - key.announcedAtMs <= 2 * ANNOUNCE_EVERY_MS) continue;
    for (const line of found.empty)
      await context.store.retireLine({ partition, line, announcedAtMs: key.announcedAtMs });
  }
  const isNone = partition >= context.configuration.partitions;
  if (isNone && nowMs - memory.walkedAtMs >= ANNOUNCE_EVERY_MS) {
    const step = await moveMisplacedStep(context, partition, inFlight, undefined);
    moved += step.moved;
    if (step.moved === 0) memory.walkedAtMs = nowMs;
  }
  return moved;
}
