/** Lists jobs by state. */

import { endedAtMs, type Job, type JobMode, type JobState, type Tags } from '../core/job.ts';
import { type HeldJobs, heldIn, isHeld } from '../dispatch/partition/depth.ts';
import { allEnded } from '../runtime/all-ended.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import type { ReadyLine } from '../store/contract/lines.ts';
import { FINISHED_STATES, type FinishedState } from '../store/contract/operate.ts';
import { pagesOf } from '../store/contract/pages.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { type OperateContext, partitionsOf, partitionsOfKey } from './controls.ts';
import { parkedIn } from './parked-lines.ts';
import { type ListPlace, pagesBehind, placed } from './places.ts';
import { ANY_STATE, hasTags, taggedJobs } from './tagged.ts';
/** The states of the lists. Succeeded, cancelled and expired jobs can be listed only by types that have `listFinished`. */
export const LISTED_STATES = [
  'scheduled',
  'pending',
  'claimed',
  'running',
  'failed',
  ...FINISHED_STATES,
] as const;
export type ListedState = (typeof LISTED_STATES)[number];
export const isFinishedState = (state: JobState): state is FinishedState =>
  FINISHED_STATES.some((each) => each === state);

export interface JobFilter {
  readonly type?: string | undefined;
  readonly fairnessKey?: string | undefined;
  readonly mode?: JobMode | undefined;
  /** Only jobs that have all these tags. */
  readonly tags?: Tags | undefined;
  /** Epoch ms, for the states `succeeded`, `cancelled` and `expired`: lists jobs that ended at this instant or later. */
  readonly sinceMs?: number | undefined;
  /** Epoch ms, for the states `succeeded`, `cancelled` and `expired`: lists jobs that ended before this instant. */
  readonly untilMs?: number | undefined;
}

const PAGE = 100;
/** The last instant that a request can name: 9999-12-31T23:59:59.999Z. */
const LAST_INSTANT_MS = 253_402_300_799_999;

const matches = (filter: JobFilter, job: Pick<Job, 'type' | 'fairnessKey' | 'mode'>): boolean =>
  (filter.type === undefined || job.type === filter.type) &&
  (filter.fairnessKey === undefined || job.fairnessKey === filter.fairnessKey) &&
  (filter.mode === undefined || job.mode === filter.mode);

/**
 * Lists the jobs of one state.
 * - `scheduled`: by their time.
 * - `pending`: in each partition key by key, the least charged first, each line in its order; then the parked jobs, one
 *   conflict key after the other. A job that is parked or moved back during the read may be listed twice, or not at
 *   all.
 * - `failed`: dead letters, the latest first.
 * - `succeeded`, `cancelled`, `expired`: the jobs of the filter's type, the latest first.
 * - `any`: the jobs with the first searchable tag of the filter, the latest submit first, read consistently.
 * - `claimed`, `running`: exactly the jobs that hold capacity now. A job that was sent to a fleet and has not started
 *   counts as claimed, even if its item says `pending` until its start claims it.
 *
 * All but `any`, `claimed` and `running` come from the index, which may lag by about a second.
 *
 * The entries of `scheduled`, `failed`, `any`, and of ended jobs in one partition, have a place (`placeOf`).
 *
 * @param from - the place behind which the list begins
 */
export async function* listJobs(
  context: OperateContext,
  state: ListedState | typeof ANY_STATE,
  filter: JobFilter,
  from?: ListPlace,
): AsyncGenerator<Job> {
  const isListed = (job: Job): boolean => matches(filter, job) && hasTags(job, filter.tags);
  if (state === ANY_STATE) {
    for await (const job of taggedJobs(context, filter.tags, from)) if (isListed(job)) yield job;
    return;
  }
  if (isFinishedState(state)) return yield* finishedJobs(context, state, filter, from);
  const partitions = partitionsOfFilter(context, filter).filter((each) => each >= (from?.partition ?? 0));
  for (const partition of partitions) {
    for await (const jobs of jobsOf(context, partition, state, filter, placeIn(partition, from)))
      yield* jobs.filter((job) => job.state === state && isListed(job));
  }
}

/** Returns the place behind which the list of a partition continues; undefined: it begins at its first page. */
const placeIn = (partition: number, from: ListPlace | undefined): ListPlace | undefined =>
  from?.partition === partition ? from : undefined;

/** The finished jobs of one type: those of all partitions, merged. */
async function* finishedJobs(
  context: OperateContext,
  state: FinishedState,
  filter: JobFilter,
  from: ListPlace | undefined,
): AsyncGenerator<Job> {
  const partitions = partitionsOfFilter(context, filter);
  const [partition = 0] = partitions;
  // A list of several partitions is merged. Its entries have no places, because a place would need a part for each partition.
  if (partitions.length === 1)
    return yield* finishedJobsOf(context.store, partition, state, filter, placeIn(partition, from), true);
  const ofPartitions = partitions.map((each) => finishedJobsOf(context.store, each, state, filter));
  const heads: { readonly job: Job; readonly rest: AsyncGenerator<Job> }[] = [];
  const advance = async (rest: AsyncGenerator<Job>): Promise<void> => {
    const next = await rest.next();
    if (next.done !== true) heads.push({ job: next.value, rest });
  };
  await allEnded(ofPartitions.map(advance));
  while (heads.length > 0) {
    const latest = heads.reduce((one, other) => (endedAtMs(other.job) > endedAtMs(one.job) ? other : one));
    heads.splice(heads.indexOf(latest), 1);
    yield latest.job;
    await advance(latest.rest);
  }
}

async function* finishedJobsOf(
  store: OperateContext['store'],
  partition: number,
  state: FinishedState,
  filter: JobFilter,
  from?: ListPlace,
  hasPlaces = false,
): AsyncGenerator<Job> {
  const { type, sinceMs, untilMs } = filter;
  if (type === undefined) return;
  for await (const { entries, after } of headsBehind(from, (cursor) =>
    store.readFinished({ partition, state, type, sinceMs, untilMs, limit: PAGE, after: cursor }),
  ))
    for (const job of await wholeJobs(store, filter, entries))
      if (hasTags(job, filter.tags)) yield hasPlaces ? placed(job, { partition, after, id: job.id }) : job;
}

/** Yields the pages of a line that follow a place (`places.ts`). */
const headsBehind = <Head extends JobHead>(
  from: ListPlace | undefined,
  read: (
    after: string | undefined,
  ) => Promise<{ readonly jobs: readonly Head[]; readonly next?: string | undefined }>,
) =>
  pagesBehind<Head>(
    from,
    ({ id }) => id,
    async (after) => {
      const { jobs, next } = await read(after);
      return { entries: jobs, next };
    },
  );

function partitionsOfFilter(context: OperateContext, filter: JobFilter): readonly number[] {
  return filter.fairnessKey === undefined
    ? partitionsOf(context)
    : partitionsOfKey(context, filter.fairnessKey);
}

async function* jobsOf(
  context: OperateContext,
  partition: number,
  state: Exclude<ListedState, FinishedState>,
  filter: JobFilter,
  from: ListPlace | undefined,
): AsyncGenerator<readonly Job[]> {
  const { store } = context;
  switch (state) {
    case 'scheduled':
      for await (const { entries, after } of headsBehind(from, (cursor) =>
        store.readDue({ partition, nowMs: LAST_INSTANT_MS, limit: PAGE, after: cursor }),
      ))
        yield (await wholeJobs(store, filter, entries)).map((job) =>
          placed(job, { partition, after, id: job.id }),
        );
      return;
    case 'failed':
      for await (const { entries, after } of headsBehind(from, (cursor) =>
        store.readDeadLetters({ partition, limit: PAGE, after: cursor }),
      ))
        yield entries.map((job) => placed(job, { partition, after, id: job.id }));
      return;
    case 'pending': {
      const held = await heldJobs(context, partition);
      const shown = async (heads: readonly JobHead[]): Promise<readonly Job[]> =>
        (await wholeJobs(store, filter, heads)).map((job) => asClaimed(job, held));
      for await (const line of linesOf(context, partition, filter)) {
        for await (const { jobs } of pagesOf((after: string | undefined) =>
          store.readLine({ partition, line, limit: PAGE, after }),
        ))
          yield shown(jobs);
      }
      for await (const heads of parkedIn(store, partition)) yield shown(heads);
      return;
    }
    case 'claimed':
    case 'running': {
      const held = await heldJobs(context, partition);
      const ids = [...held.places.keys()];
      for (let from = 0; from < ids.length; from += PAGE) {
        const jobs = await store.getJobs({ ids: ids.slice(from, from + PAGE), unreadable: ignoreUnreadable });
        yield jobs.flatMap((job) => (job === undefined ? [] : asClaimed(job, held)));
      }
      return;
    }
  }
}

async function heldJobs(
  { store, clock }: Pick<OperateContext, 'store' | 'clock'>,
  partition: number,
): Promise<HeldJobs> {
  return heldIn(await store.loadPartition({ partition, nowMs: clock.nowMs() }));
}

/** Shows a job in flight as `claimed`, even if its item is still `pending`. */
const asClaimed = (job: Job, held: HeldJobs): Job =>
  job.state === 'pending' && isHeld(held, job) ? { ...job, state: 'claimed' } : job;

/** Unreadable jobs are left out; they have a list of their own. */
const ignoreUnreadable = (): void => {};

/** Reads the jobs that match, as they are now, because lines show only their heads. */
async function wholeJobs(
  store: Pick<SubmitStore, 'getJobs'>,
  filter: JobFilter,
  heads: readonly JobHead[],
): Promise<readonly Job[]> {
  const ids = heads.filter((head) => matches(filter, head)).map((head) => head.id);
  const jobs = await store.getJobs({ ids, unreadable: ignoreUnreadable });
  return jobs.filter((job) => job !== undefined);
}

/** Declared types and former ones, whose jobs may still wait. */
const typesEver = (context: OperateContext): readonly { readonly type: string }[] => [
  ...context.configuration.types,
  ...formerTypesOf(context),
];

export const formerTypesOf = ({ formerTypes = [] }: OperateContext): readonly { readonly type: string }[] =>
  formerTypes.map((type) => ({ type }));

/** The lines in which jobs of this filter may wait. */
async function* linesOf(
  context: OperateContext,
  partition: number,
  filter: JobFilter,
): AsyncGenerator<ReadyLine> {
  const { store } = context;
  const { fairnessKey, type } = filter;
  for (const each of typesEver(context)) {
    if (type !== undefined && each.type !== type) continue;
    const pages =
      fairnessKey === undefined
        ? pagesOf((after: string | undefined) =>
            store.readKeys({ partition, type: each.type, limit: PAGE, after }),
          )
        : [
            {
              keys: (
                await store.readBacklogs({ partition, type: each.type, fairnessKeys: [fairnessKey] })
              ).filter((key) => key !== undefined),
            },
          ];
    for await (const { keys } of pages) {
      for (const key of keys) {
        for (const { mode } of key.lines) {
          const line = { type: each.type, mode, fairnessKey: key.fairnessKey };
          if (matches(filter, line)) yield line;
        }
      }
    }
  }
}
