/** Messages as text: to a fleet's queue, and to the wake queue. */
import { RefusedError } from '../core/errors.ts';
import { isClaimId, isJobId } from '../core/job.ts';
import type { PlannedClaim } from '../core/life-cycle.ts';
import {
  type DispatchMessage,
  type UnpublishedOutcomes,
  WAKE_JOBS_MAX,
  type WakeRequest,
} from './contract.ts';

/** Encodes a single job as an object, and several as a list. */
export function encodeDispatchMessage(jobs: readonly DispatchMessage[]): string {
  const named = jobs.map(({ jobId, claimId, toClaim, startByMs, blockedBy }) => ({
    jobId,
    claimId,
    toClaim,
    startByMs,
    blockedBy,
  }));
  return JSON.stringify(named.length === 1 ? named[0] : { jobs: named });
}

/** Splits into groups of at most `most`, in their order: jobs of a message, or messages of a request. */
export function* groupsOf<T>(all: readonly T[], most: number): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += most) yield all.slice(from, from + most);
}

/** Returns a wake's body. A receiver that ignores `jobIds` treats it as any other wake. */
export const encodeWake = ({ partition, dueAtMs, jobIds }: WakeRequest): string =>
  JSON.stringify({ partition, dueAtMs, jobIds });

export const encodeLook = (partition: number, atMs: number): string =>
  JSON.stringify({ partition, asks: 'look', atMs });

/** Returns the valid ids of jobs or schedules. The sender is not trusted, so anything else is dropped. */
const idsIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === 'string' && isJobId(each)) : [];

/** The request in a wake message: a check of the workers, or a pass. */
export type Wake = WorkerCheck | PassWake;

export interface WorkerCheck {
  readonly partition: number;
  readonly asks: 'look';
  /** Epoch ms that was recorded for this check (`Lookout.nextAtMs`). */
  readonly atMs: number;
}

export interface PassWake {
  readonly partition: number;
  readonly asks: 'pass';
  /** Epoch ms when the pass's work becomes due; undefined if it is due already. */
  readonly dueAtMs?: number | undefined;
  /** Jobs that were being stored when the wake was sent; undefined if it names none. */
  readonly jobIds?: readonly string[] | undefined;
}

/** Decodes a message; undefined if it names no partition. Such a message wakes all partitions. */
export function decodeWake(body: string): Wake | undefined {
  try {
    return wakeIn(JSON.parse(body));
  } catch {
    return undefined;
  }
}

/** Reads a wake from a parsed value. */
export function wakeIn(value: unknown): Wake | undefined {
  if (typeof value !== 'object' || value === null || !('partition' in value)) return undefined;
  const { partition } = value;
  if (!Number.isSafeInteger(partition) || Number(partition) < 0) return undefined;
  // A check without its `atMs` is handled as a pass, which checks the workers too.
  if ('asks' in value && value.asks === 'look' && 'atMs' in value && Number.isFinite(value.atMs))
    return { partition: Number(partition), asks: 'look', atMs: Number(value.atMs) };
  const dueAtMs = 'dueAtMs' in value && Number.isFinite(value.dueAtMs) ? Number(value.dueAtMs) : undefined;
  const jobIds = 'jobIds' in value ? idsIn(value.jobIds).slice(0, WAKE_JOBS_MAX) : [];
  return {
    partition: Number(partition),
    asks: 'pass',
    ...(dueAtMs === undefined ? {} : { dueAtMs }),
    ...(jobIds.length === 0 ? {} : { jobIds }),
  };
}

/**
 * Encodes outcomes for the outbox, or for the dead letters.
 * @param reason - why the bus will never take them, for the person who reads the dead letter
 */
export const encodeOutcomes = (
  { jobIds, scheduleIds, tries }: UnpublishedOutcomes,
  reason?: string,
): string => JSON.stringify({ jobIds, scheduleIds, tries, reason });

/** Decodes a message. An unreadable one gives empty lists. */
export function decodeOutcomes(body: string): UnpublishedOutcomes {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return { jobIds: [], tries: 1 };
  }
  const { jobIds, scheduleIds, tries } = Object(value) as Readonly<Record<string, unknown>>;
  const schedules = idsIn(scheduleIds);
  return {
    jobIds: idsIn(jobIds),
    ...(schedules.length === 0 ? {} : { scheduleIds: schedules }),
    tries: Number.isSafeInteger(tries) ? Number(tries) : 1,
  };
}

/**
 * Decodes the jobs of a message, at least one.
 * @throws RefusedError
 */
export function decodeDispatchMessage(body: string): readonly DispatchMessage[] {
  const broken = (cause?: unknown): RefusedError =>
    new RefusedError(
      `not a dispatch message: ${body.slice(0, 200)}; only the dispatcher may send to a fleet's queue`,
      { cause },
    );
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (cause) {
    throw broken(cause);
  }
  const jobs = jobsIn(value);
  if (jobs === undefined) throw broken();
  return jobs;
}

/** Returns the jobs in a value; undefined if the value names no job, or has an entry that is not a job. */
function jobsIn(value: unknown): readonly DispatchMessage[] | undefined {
  const named =
    typeof value === 'object' && value !== null && 'jobs' in value && Array.isArray(value.jobs)
      ? value.jobs
      : [value];
  const jobs = named.flatMap((each: unknown) => {
    if (typeof each !== 'object' || each === null || !('jobId' in each) || !('claimId' in each)) return [];
    const { jobId, claimId } = each;
    if (typeof jobId !== 'string' || typeof claimId !== 'string') return [];
    const startBy = 'startByMs' in each ? { startByMs: Number(each.startByMs) } : {};
    if (Number.isNaN(startBy.startByMs)) return [];
    const rest = { ...startBy, ...('blockedBy' in each ? { blockedBy: textsIn(each.blockedBy) } : {}) };
    if (!('toClaim' in each)) return [{ jobId, claimId, ...rest }];
    const toClaim = plannedClaimIn(each.toClaim);
    return toClaim === undefined || !isClaimId(claimId) ? [] : [{ jobId, claimId, toClaim, ...rest }];
  });
  return jobs.length > 0 && jobs.length === named.length ? jobs : undefined;
}

/** Returns the texts in a value that only people read; none if it is no list. */
const textsIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];

/** Returns the planned claim in a value; undefined if the value is none. */
function plannedClaimIn(value: unknown): PlannedClaim | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { version, fleet, claimedAtMs, declared } = value as Readonly<Record<string, unknown>>;
  const isWhole = (each: unknown): each is number => Number.isSafeInteger(each);
  if (!isWhole(version) || typeof fleet !== 'string') return undefined;
  if (typeof claimedAtMs !== 'number' || !Number.isFinite(claimedAtMs)) return undefined;
  if (declared !== undefined && !isWhole(declared)) return undefined;
  return { version, fleet, claimedAtMs, ...(declared === undefined ? {} : { declared }) };
}
