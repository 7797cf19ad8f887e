/** Stores submitted jobs, each once, in lines that the dispatcher reads. */

import type { PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import { dedupeNameOf } from '../core/dedupe.ts';
import type { Job } from '../core/job.ts';
import { isReference } from '../core/object-reference.ts';
import { rankKey } from '../core/score.ts';
import { type LargeValues, withPayloadKept } from '../objects/large-values.ts';
import { allEnded } from '../runtime/all-ended.ts';
import type { Clock } from '../runtime/contract.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import { type ReadyLine, readyLineName } from '../store/contract/lines.ts';
import type { CreateOutcome } from '../store/contract/requests.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { type Deduplicated, mergeOnly, storeDeduped } from './dedupe.ts';
import { type BacklogFull, type CountedBacklogs, giveBackPlace, placesFor } from './waiting.ts';

/**
 * Milliseconds after which a submitter announces a line again. A pass removes an empty line only if it was last
 * announced more than twice as long ago.
 */
export const ANNOUNCE_EVERY_MS = 5 * 60_000;

const REMEMBERED_LINES_MAX = 50_000;
const LATE_JOBS_MAX = 1_000;
/** Dedupe keys whose jobs are stored at once: each needs a few requests, one after the other. */
const KEYS_AT_ONCE = 25;

/**
 * When this process last announced each line, by line name, in epoch milliseconds. A lost entry costs one write and
 * never hides a job.
 */
export type AnnouncedLines = Map<string, number>;

export interface SubmitContext {
  readonly store: SubmitStore;
  readonly configuration: PoolConfiguration;
  readonly nowMs: () => number;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly announced: AnnouncedLines;
  /** Payloads over 64 KB. @default - they are not accepted */
  readonly large?: LargeValues | undefined;
  /** The last counts of this process for bounds on waiting jobs. Undefined: its jobs are stored however many wait. */
  readonly counted?: CountedBacklogs | undefined;
}

/** The outcome of a submitted job: as the store says it, that another job stands for it, or that too many jobs wait. */
export type SubmitOutcome = CreateOutcome | Deduplicated | BacklogFull;

/**
 * Lets a dispatcher put jobs into lines as a submitter does: jobs that it promotes, moves back, or recovers from a lost
 * worker.
 */
export const submitContextOf = (
  context: Omit<SubmitContext, 'nowMs'> & { readonly clock: Pick<Clock, 'nowMs' | 'sleep'> },
): SubmitContext => ({ ...context, nowMs: () => context.clock.nowMs() });

/** Returns the tier of a job's type. */
export function tierOf(configuration: PoolConfiguration, type: string): string {
  const tier = typesByName(configuration).get(type)?.tier ?? configuration.tiers[0]?.tier;
  if (tier === undefined)
    throw new RangeError(`the pool has no tier for the job type ${JSON.stringify(type)}`);
  return tier;
}

/** Returns the ready line in which a job waits or will wait. */
export function readyLineOf(job: Pick<JobHead, 'type' | 'mode' | 'fairnessKey'>): ReadyLine {
  return { type: job.type, mode: job.mode, fairnessKey: job.fairnessKey };
}

/** Returns a function by which the store computes a pending job's rank in its line. */
export const rankOf =
  (configuration: PoolConfiguration) =>
  (job: JobHead): { readonly rank: string } => ({ rank: rankKey(job, configuration.score) });

/**
 * Makes sure that the dispatcher reads the lines of these jobs. It runs before the jobs are stored, because a job in a
 * line that was never announced would wait for ever.
 */
async function announce(context: SubmitContext, jobs: readonly JobHead[]): Promise<void> {
  const { announced, store } = context;
  const nowMs = context.nowMs();
  const { keyTtlMs } = context.configuration.fairness;
  const everyMs = Math.min(ANNOUNCE_EVERY_MS, keyTtlMs ?? ANNOUNCE_EVERY_MS);
  const due = new Map<string, { partition: number; line: ReadyLine }>();
  for (const job of jobs) {
    const line = readyLineOf(job);
    const name = readyLineName(job.partition, line);
    if (nowMs - (announced.get(name) ?? -Infinity) >= everyMs) {
      due.set(name, { partition: job.partition, line });
    }
  }
  const byPartition = Map.groupBy(due.values(), (each) => each.partition);
  if (announced.size + due.size > REMEMBERED_LINES_MAX) announced.clear();
  // Another submitter may have announced a line since `afterMs`. The store then returns that time and writes nothing.
  const afterMs = nowMs - everyMs;
  for (const [partition, own] of byPartition) {
    const lines = own.map(({ line }) => line);
    const atMs = await store.announceLines({ partition, lines, nowMs, keyTtlMs, afterMs });
    // planted: announcements-of-others-last
    for (const [at, line] of lines.entries())
      announced.set(readyLineName(partition, line), Math.min(nowMs, atMs[at] ?? -Infinity));
  }
}

/**
 * Announces the lines of these jobs, then stores the jobs by calling `store`. If the process was paused in between for
 * so long that the lines may have been retired, it announces them again. It does so even if `store` throws, because the
 * jobs may have been stored anyway.
 */
export async function storeAnnounced<T>(
  context: SubmitContext,
  jobs: readonly JobHead[],
  store: () => Promise<T>,
): Promise<T> {
  const startedMs = context.nowMs();
  await announce(context, jobs);
  try {
    return await store();
  } finally {
    if (context.nowMs() - startedMs >= ANNOUNCE_EVERY_MS) await announce(context, jobs);
  }
}

/**
 * Announces the lines of jobs that a hint has shown. A job that has been ready for longer than `ANNOUNCE_EVERY_MS` may
 * have been stored by a submitter that was paused between announcing and storing, and has crashed since; then no one
 * else announces its line. Each line is announced at most once in `ANNOUNCE_EVERY_MS`, as far as this process
 * remembers. It handles at most `LATE_JOBS_MAX` jobs; a stream batch holds a tenth as many.
 */
export async function announceLinesOf(context: SubmitContext, jobs: Iterable<JobHead>): Promise<void> {
  const readyUntilMs = context.nowMs() - ANNOUNCE_EVERY_MS;
  const late = [...jobs].filter(({ state, readyAtMs }) => state === 'pending' && readyAtMs <= readyUntilMs);
  await announce(context, late.slice(0, LATE_JOBS_MAX));
}

/**
 * Milliseconds after its time for which a job is found by its tags. It ends long before that, and its record is kept
 * for days. The entries are not touched when it ends, because that would cost as much as to write them.
 */
const TAGGED_FOR_MS = 90 * 86_400_000;

/** Stores the entries of the jobs' searchable tags. It runs before the jobs are stored, so that every stored job is found. */
export async function recordTagsOf(
  { store, configuration }: Pick<SubmitContext, 'store' | 'configuration'>,
  jobs: readonly Pick<Job, 'id' | 'tags' | 'runAtMs' | 'submittedAtMs'>[],
): Promise<void> {
  const { searchableTags: names = [] } = configuration;
  const entries = jobs.flatMap(({ id, tags = {}, runAtMs, submittedAtMs }) =>
    names
      .filter((name) => Object.hasOwn(tags, name))
      .map((name) => ({
        name,
        value: tags[name] ?? '',
        jobId: id,
        submittedAtMs,
        expiresAtMs: Math.max(runAtMs, submittedAtMs) + TAGGED_FOR_MS,
      })),
  );
  if (entries.length > 0) await store.recordTags(entries);
}

/** Whether the entries of a job that was moved must be kept for longer. */
export const needsLaterTags = ({ runAtMs, submittedAtMs }: Pick<Job, 'runAtMs' | 'submittedAtMs'>): boolean =>
  runAtMs > submittedAtMs + TAGGED_FOR_MS / 2;

/** Stores the jobs without a dedupe key at once, and those of each dedupe key one after the other. */
async function storeAll(context: SubmitContext, jobs: readonly Job[]): Promise<readonly SubmitOutcome[]> {
  const byKey = Map.groupBy(jobs, (job) =>
    job.dedupe === undefined ? '' : JSON.stringify(dedupeNameOf(job)),
  );
  if (byKey.size <= 1 && byKey.has('')) return context.store.createJobs(jobs);
  const outcomes = new Map<Job, SubmitOutcome>();
  const store = async (key: string, some: readonly Job[]): Promise<void> => {
    if (key !== '') for (const job of some) outcomes.set(job, await storeDeduped(context, job));
    else
      for (const [at, outcome] of (await context.store.createJobs(some)).entries()) {
        const job = some[at];
        if (job !== undefined) outcomes.set(job, outcome);
      }
  };
  const groups = [...byKey];
  for (let from = 0; from < groups.length; from += KEYS_AT_ONCE)
    await allEnded(groups.slice(from, from + KEYS_AT_ONCE).map(([key, some]) => store(key, some)));
  // The entries of the tags that the waiting job had before stay: a list leaves out what does not have its tag any more.
  const replaced = [...outcomes.values()].filter(({ kind }) => kind === 'replaced');
  if (replaced.length > 0)
    await recordTagsOf(
      context,
      replaced.map(({ job }) => job),
    );
  return jobs.flatMap((job) => outcomes.get(job) ?? []);
}

/**
 * Stores jobs, each once, unless more would wait than the declaration lets wait. The outcomes have the order of the jobs.
 *
 * @param around - wraps the store call; it runs after the lines were announced
 */
export async function submit(
  context: SubmitContext,
  jobs: readonly Job[],
  around: (store: () => Promise<readonly SubmitOutcome[]>) => Promise<readonly SubmitOutcome[]> = (store) =>
    store(),
): Promise<readonly SubmitOutcome[]> {
  if (jobs.length === 0) return [];
  const places = await placesFor(context, jobs);
  const { refused } = places;
  const admitted = refused.size === 0 ? jobs : jobs.filter((job) => !refused.has(job));
  const outcomes = new Map<Job, SubmitOutcome>(refused);
  for (const job of refused.keys()) {
    // A job that waits already may stand for the request.
    const merged = job.dedupe === undefined ? undefined : await mergeOnly(context, job);
    if (merged !== undefined) outcomes.set(job, merged);
  }
  if (admitted.length > 0) {
    const kept = await withPayloadsKept(context, admitted);
    const stored = await storeAnnounced(context, kept, async () => {
      await recordTagsOf(context, kept);
      return around(() => storeAll(context, kept));
    });
    for (const [at, outcome] of stored.entries()) {
      const job = admitted[at];
      if (job === undefined) continue;
      if (outcome.kind !== 'created') giveBackPlace(places, job);
      outcomes.set(job, withPayloadOf(job, outcome));
    }
  }
  return jobs.flatMap((job) => outcomes.get(job) ?? []);
}

/** The outcome with the payload that the submitter has, and need not read. */
const withPayloadOf = ({ id, payload }: Job, outcome: SubmitOutcome): SubmitOutcome =>
  (outcome.kind === 'created' || outcome.kind === 'repeated' || outcome.kind === 'replaced') &&
  isReference(outcome.job.payload) &&
  (outcome.kind === 'replaced' || outcome.job.id === id)
    ? { ...outcome, job: { ...outcome.job, payload } }
    : outcome;

/**
 * The jobs as they are stored. Large payloads are put before the jobs, so that every stored job has its payload. A job with
 * a dedupe key may become the payload of another job, to which its object must belong.
 */
async function withPayloadsKept(context: SubmitContext, jobs: readonly Job[]): Promise<readonly Job[]> {
  if (context.large === undefined || context.configuration.largePayloads === undefined) return jobs;
  const kept: Job[] = [];
  for (const job of jobs)
    kept.push(job.dedupe === undefined ? await withPayloadKept(context, job, job.id) : job);
  return kept;
}
