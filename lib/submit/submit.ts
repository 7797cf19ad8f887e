/** Stores submitted jobs, each once, in lines that the dispatcher reads. */

import type { PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import type { Job } from '../core/job.ts';
import { rankKey } from '../core/score.ts';
import type { Clock } from '../runtime/contract.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import { type ReadyLine, readyLineName } from '../store/contract/lines.ts';
import type { CreateOutcome } from '../store/contract/requests.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';

/** Milliseconds after which a submitter announces a line again. The dispatcher keeps a line at least twice as long. */
export const ANNOUNCE_EVERY_MS = 5 * 60_000;

const REMEMBERED_LINES_MAX = 50_000;
const LATE_JOBS_MAX = 1_000;

/**
 * When this process last announced each line, by line name, in epoch milliseconds. A lost entry costs one write and
 * never hides a job.
 */
export type AnnouncedLines = Map<string, number>;

export interface SubmitContext {
  readonly store: SubmitStore;
  readonly configuration: PoolConfiguration;
  readonly nowMs: () => number;
  readonly announced: AnnouncedLines;
}

/**
 * Lets a dispatcher put jobs into lines as a submitter does: jobs that it promotes, moves back, or recovers from a lost
 * worker.
 */
export const submitContextOf = (
  context: Omit<SubmitContext, 'nowMs'> & { readonly clock: Pick<Clock, 'nowMs'> },
): SubmitContext => ({ ...context, nowMs: () => context.clock.nowMs() });

/** The tier of a job's type. */
export function tierOf(configuration: PoolConfiguration, type: string): string {
  const tier = typesByName(configuration).get(type)?.tier ?? configuration.tiers[0]?.tier;
  if (tier === undefined)
    throw new RangeError(`the pool has no tier for the job type ${JSON.stringify(type)}`);
  return tier;
}

/** The ready line in which a job waits or will wait. */
export function readyLineOf(job: Pick<JobHead, 'type' | 'mode' | 'fairnessKey'>): ReadyLine {
  return { type: job.type, mode: job.mode, fairnessKey: job.fairnessKey };
}

/** The store calls this to compute a pending job's rank in its line. */
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
 * Stores jobs, each once. The outcomes have the order of the jobs.
 *
 * @param around - wraps the store call; it runs after the lines were announced
 */
export async function submit(
  context: SubmitContext,
  jobs: readonly Job[],
  around: (store: () => Promise<readonly CreateOutcome[]>) => Promise<readonly CreateOutcome[]> = (store) =>
    store(),
): Promise<readonly CreateOutcome[]> {
  return jobs.length === 0
    ? []
    : storeAnnounced(context, jobs, () => around(() => context.store.createJobs(jobs)));
}
