/** Messages as text: to a fleet's queue, and to the wake queue. */
import { RefusedError } from '../core/errors.ts';
import { isClaimId, isJobId } from '../core/job.ts';
import type { PlannedClaim } from '../core/life-cycle.ts';
import {
  type DispatchMessage,
  TOLD_JOBS_MAX,
  type UnpublishedOutcomes,
  type WakeRequest,
} from './contract.ts';

/** One job as it is, several as a list. */
export function encodeDispatchMessage(jobs: readonly DispatchMessage[]): string {
  const named = jobs.map(({ jobId, claimId, toClaim }) => ({ jobId, claimId, toClaim }));
  return JSON.stringify(named.length === 1 ? named[0] : { jobs: named });
}

/** In groups of at most so many, in their order: jobs of a message, or messages of a request. */
export function* groupsOf<T>(all: readonly T[], most: number): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += most) yield all.slice(from, from + most);
}

/** Who does not know of jobs takes it for a wake as any other. */
export const encodeWake = ({ partition, dueAtMs, jobIds }: WakeRequest): string =>
  JSON.stringify({ partition, dueAtMs, jobIds });

/** Who does not know looks takes it for a wake, which finds the same. */
export const encodeLook = (partition: number, atMs: number): string =>
  JSON.stringify({ partition, asks: 'look', atMs });

/** Ids of jobs, and of schedules: whoever may send a message may name anything. */
const idsIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === 'string' && isJobId(each)) : [];

/** What a message of the wake queue asks for: a look at the workers, or a pass. */
export type Wake = LookWake | PassWake;

export interface LookWake {
  readonly partition: number;
  readonly asks: 'look';
  /** Epoch ms for which it was noted (`Lookout.nextAtMs`). */
  readonly atMs: number;
}

export interface PassWake {
  readonly partition: number;
  readonly asks: 'pass';
  /** What a pass is for becomes due then; undefined: it is due. */
  readonly dueAtMs?: number | undefined;
  /** What a pass is for was being stored when it was sent; undefined: it does not say. */
  readonly jobIds?: readonly string[] | undefined;
}

/** Undefined for what names no partition: it wakes them all. */
export function decodeWake(body: string): Wake | undefined {
  try {
    return wakeIn(JSON.parse(body));
  } catch {
    return undefined;
  }
}

/** The same of what is not text any more. */
export function wakeIn(value: unknown): Wake | undefined {
  if (typeof value !== 'object' || value === null || !('partition' in value)) return undefined;
  const { partition } = value;
  if (!Number.isSafeInteger(partition) || Number(partition) < 0) return undefined;
  // A look that does not say which one it is goes on as a pass, as with who does not know looks.
  if ('asks' in value && value.asks === 'look' && 'atMs' in value && Number.isFinite(value.atMs))
    return { partition: Number(partition), asks: 'look', atMs: Number(value.atMs) };
  const dueAtMs = 'dueAtMs' in value && Number.isFinite(value.dueAtMs) ? Number(value.dueAtMs) : undefined;
  const jobIds = 'jobIds' in value ? idsIn(value.jobIds).slice(0, TOLD_JOBS_MAX) : [];
  return {
    partition: Number(partition),
    asks: 'pass',
    ...(dueAtMs === undefined ? {} : { dueAtMs }),
    ...(jobIds.length === 0 ? {} : { jobIds }),
  };
}

/** @param reason - why the bus will never take them, for the person who reads the dead letter */
export const encodeOutcomes = (
  { jobIds, scheduleIds, tries }: UnpublishedOutcomes,
  reason?: string,
): string => JSON.stringify({ jobIds, scheduleIds, tries, reason });

/** Of a message that names nothing: nothing. */
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
 * The jobs that a message names, one at least.
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
  const jobs = namedIn(value);
  if (jobs === undefined) throw broken();
  return jobs;
}

/** Undefined for what names no job, or something else beside jobs. */
function namedIn(value: unknown): readonly DispatchMessage[] | undefined {
  const named =
    typeof value === 'object' && value !== null && 'jobs' in value && Array.isArray(value.jobs)
      ? value.jobs
      : [value];
  const jobs = named.flatMap((each: unknown) => {
    if (typeof each !== 'object' || each === null || !('jobId' in each) || !('claimId' in each)) return [];
    const { jobId, claimId } = each;
    if (typeof jobId !== 'string' || typeof claimId !== 'string') return [];
    if (!('toClaim' in each)) return [{ jobId, claimId }];
    const toClaim = plannedIn(each.toClaim);
    return toClaim === undefined || !isClaimId(claimId) ? [] : [{ jobId, claimId, toClaim }];
  });
  return jobs.length > 0 && jobs.length === named.length ? jobs : undefined;
}

/** Undefined for what is no planned claim. */
function plannedIn(value: unknown): PlannedClaim | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { version, fleet, claimedAtMs, declared } = value as Readonly<Record<string, unknown>>;
  const isWhole = (each: unknown): each is number => Number.isSafeInteger(each);
  if (!isWhole(version) || typeof fleet !== 'string') return undefined;
  if (typeof claimedAtMs !== 'number' || !Number.isFinite(claimedAtMs)) return undefined;
  if (declared !== undefined && !isWhole(declared)) return undefined;
  return { version, fleet, claimedAtMs, ...(declared === undefined ? {} : { declared }) };
}
