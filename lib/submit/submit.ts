/** Submitting: jobs become items, once, in lines that the dispatcher knows of. */

import type { PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import type { Job } from '../core/job.ts';
import { rankKey } from '../core/score.ts';
import type { Clock } from '../runtime/contract.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import { type ReadyLine, readyLineName } from '../store/contract/lines.ts';
import type { CreateOutcome } from '../store/contract/requests.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';

/** A submitter announces a line again after this long; the dispatcher keeps a line at least twice that. */
export const ANNOUNCE_EVERY_MS = 5 * 60_000;

const REMEMBERED_LINES_MAX = 50_000;
const LATE_JOBS_MAX = 1_000;

/** Which lines this process has announced, and when. Forgetting costs one write; it never hides a job. */
export type AnnouncedLines = Map<string, number>;

export interface SubmitContext {
  readonly store: SubmitStore;
  readonly configuration: PoolConfiguration;
  readonly nowMs: () => number;
  readonly announced: AnnouncedLines;
}

/** A dispatcher as one who puts jobs into lines: those that it promotes, moves back, or takes from a worker that is gone. */
export const asSubmitter = (
  context: Omit<SubmitContext, 'nowMs'> & { readonly clock: Pick<Clock, 'nowMs'> },
): SubmitContext => ({ ...context, nowMs: () => context.clock.nowMs() });

/** The tier of a job's type. */
export function tierOf(configuration: PoolConfiguration, type: string): string {
  const tier = typesByName(configuration).get(type)?.tier ?? configuration.tiers[0]?.tier;
  if (tier === undefined)
    throw new RangeError(`the pool has no tier for the job type ${JSON.stringify(type)}`);
  return tier;
}

/** The ready line in which a job waits, or will. */
export function readyLineOf(job: Pick<JobHead, 'type' | 'mode' | 'fairnessKey'>): ReadyLine {
  return { type: job.type, mode: job.mode, fairnessKey: job.fairnessKey };
}

/** Where a pending job stands in its line, for the stores. */
export const placeOf =
  (configuration: PoolConfiguration) =>
  (job: JobHead): { readonly rank: string } => ({ rank: rankKey(job, configuration.score) });

/**
 * Makes sure that the dispatcher looks into the lines of these jobs. Before the jobs are put: a job in a line that
 * was never announced would wait for ever.
 */
async function announce(context: SubmitContext, jobs: readonly JobHead[]): Promise<void> {
  const { announced, store } = context;
  const nowMs = context.nowMs();
  const { keyTtlMs } = context.configuration.fairness;
  const everyMs = Math.min(ANNOUNCE_EVERY_MS, keyTtlMs ?? ANNOUNCE_EVERY_MS);
  const fresh = new Map<string, { partition: number; line: ReadyLine }>();
  for (const job of jobs) {
    const line = readyLineOf(job);
    const name = readyLineName(job.partition, line);
    if (nowMs - (announced.get(name) ?? -Infinity) >= everyMs) {
      fresh.set(name, { partition: job.partition, line });
    }
  }
  const byPartition = Map.groupBy(fresh.values(), (each) => each.partition);
  if (announced.size + fresh.size > REMEMBERED_LINES_MAX) announced.clear();
  // Another submitter may have announced them lately: then they last as long as that says, and reading it is all that is due.
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
 * Puts jobs into lines that were announced before, by `store`. A submitter that is stopped for so long between the two that its lines may
 * have been retired meanwhile announces them again: also when the store gave no answer, for it may have put them all the same.
 */
export async function putAnnounced<T>(
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
 * For jobs that a hint has shown. One that waits, and was ready so long ago, may have been put by a submitter that was stopped on
 * the way and is gone by now: then no other one announces its line. Each line once in `ANNOUNCE_EVERY_MS`, as far as this
 * process remembers. Of more jobs than `LATE_JOBS_MAX` those behind are left out: a stream shows a tenth as many at a time.
 */
export async function announceLate(context: SubmitContext, jobs: Iterable<JobHead>): Promise<void> {
  const readyUntilMs = context.nowMs() - ANNOUNCE_EVERY_MS;
  const late = [...jobs].filter(({ state, readyAtMs }) => state === 'pending' && readyAtMs <= readyUntilMs);
  await announce(context, late.slice(0, LATE_JOBS_MAX));
}

/**
 * Puts jobs, each once. The answers stand in the order of the jobs.
 *
 * @param around - what is done while they are stored, behind the announcement of their lines
 */
export async function submit(
  context: SubmitContext,
  jobs: readonly Job[],
  around: (store: () => Promise<readonly CreateOutcome[]>) => Promise<readonly CreateOutcome[]> = (store) =>
    store(),
): Promise<readonly CreateOutcome[]> {
  return jobs.length === 0
    ? []
    : putAnnounced(context, jobs, () => around(() => context.store.createJobs(jobs)));
}
