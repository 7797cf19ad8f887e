/**
 * What ended gives its capacity back, and its key is charged what it really used. A place of a reservation is settled by an
 * image of its job, from the stream or read.
 *
 * `ended` and `gone` hold for ever once any true image of the item showed them, because versions only rise, a terminal
 * state is never left, and nobody plans a job while an older reservation still counts it. So a stream record is as good
 * as a read for settling, however late it comes.
 */
import { claimIdOf, isTerminal, type ReservedJob } from '../../core/job.ts';
import type { PlannedClaim } from '../../core/life-cycle.ts';
import type { JobHead, JobImage } from '../../store/job-fields.ts';
import { placesWithout } from '../../store/page.ts';
import type { Reservation } from '../../store/records.ts';

/** What a job item says about a place in a reservation. */
export type AttemptStatus =
  /** Not claimed so far; the claim may still arrive. */
  | { readonly kind: 'mayCome' }
  | { readonly kind: 'claimed' }
  | { readonly kind: 'running'; readonly startedAtMs: number }
  /** The attempt is over. `durationMs`, what it used, and `endedAtMs` are absent if it never started. */
  | {
      readonly kind: 'ended';
      readonly durationMs?: number | undefined;
      readonly endedAtMs?: number | undefined;
      readonly succeeded: boolean;
    }
  /** Never claimed for this place, and it cannot be any more. */
  | { readonly kind: 'gone' };

/** What an image of the job says of one place of a reservation; undefined: the item is not there. */
export function attemptStatusOf(
  reservation: Pick<Reservation, 'batchId'>,
  position: number,
  entry: ReservedJob,
  job: JobHead | undefined,
): AttemptStatus {
  if (job === undefined) return { kind: 'gone' };
  if (job.claim?.claimId === claimIdOf(reservation.batchId, position)) {
    if (job.state === 'claimed') return { kind: 'claimed' };
    if (job.state === 'running')
      return { kind: 'running', startedAtMs: job.startedAtMs ?? job.claim.claimedAtMs };
    const { startedAtMs, finishedAtMs } = job;
    // A claim clears both: what is there belongs to this attempt.
    const ran = startedAtMs !== undefined && finishedAtMs !== undefined;
    return {
      kind: 'ended',
      ...(ran ? { durationMs: Math.max(0, finishedAtMs - startedAtMs), endedAtMs: finishedAtMs } : {}),
      succeeded: job.state === 'succeeded',
    };
  }
  if (job.version > entry.version || isTerminal(job.state)) return { kind: 'gone' };
  return { kind: 'mayCome' };
}

/** What a start claims the job of a place by. */
export const plannedOf = (
  { reservedAtMs, declared }: Pick<Reservation, 'reservedAtMs' | 'declared'>,
  { version, fleet }: Pick<ReservedJob, 'version' | 'fleet'>,
): PlannedClaim => ({
  version,
  fleet,
  claimedAtMs: reservedAtMs,
  ...(declared === undefined ? {} : { declared }),
});

/** A place of a reservation, with the job that holds it. */
export interface Place {
  readonly reservation: Reservation;
  readonly position: number;
  readonly entry: ReservedJob;
}

/** The claim by which the job of a place starts. */
export const claimIdOfPlace = ({ reservation, position }: Pick<Place, 'reservation' | 'position'>): string =>
  claimIdOf(reservation.batchId, position);

/** The end of an attempt: what it used, and whether it succeeded. */
type AttemptEnd = Omit<Extract<AttemptStatus, { readonly kind: 'ended' }>, 'kind'>;

/** A place whose attempt is over. Only successes teach the estimate. */
export interface Settled extends Place, AttemptEnd {
  /** Of the job, for what is learned from the attempt. */
  readonly resourceId?: string | undefined;
  /** When the job is tried again; undefined: it is not. */
  readonly againAtMs?: number | undefined;
}

/** When a job whose attempt has ended is tried again. */
export const againAtMsOf = (job: JobHead): number | undefined =>
  job.state === 'scheduled' ? job.runAtMs : undefined;

/** Images of jobs by id, the newest of each. */
export type Images = ReadonlyMap<string, JobImage>;

export function newest(images: Iterable<JobImage>): Map<string, JobImage> {
  const byId = new Map<string, JobImage>();
  for (const job of images) {
    const known = byId.get(job.id);
    if (known === undefined || known.version < job.version) byId.set(job.id, job);
  }
  return byId;
}

/** Settles what the images show, without a read. */
export function settleFrom(reservations: readonly Reservation[], images: Images): readonly Settled[] {
  if (images.size === 0) return [];
  const settled: Settled[] = [];
  for (const reservation of reservations) {
    reservation.jobs.forEach((entry, position) => {
      const image = images.get(entry.id);
      if (image === undefined) return;
      const status = attemptStatusOf(reservation, position, entry, image);
      if (status.kind === 'gone') settled.push({ reservation, position, entry, succeeded: false });
      if (status.kind !== 'ended') return;
      const { durationMs, endedAtMs, succeeded } = status;
      const { resourceId } = image;
      const againAtMs = againAtMsOf(image);
      settled.push({
        ...{ reservation, position, entry, resourceId },
        durationMs,
        endedAtMs,
        succeeded,
        againAtMs,
      });
    });
  }
  return settled;
}

/** Reservations without the settled places; empty ones are gone. */
export function withoutSettled(
  reservations: readonly Reservation[],
  settled: readonly Settled[],
): readonly Reservation[] {
  const dropped = new Map<string, Set<number>>();
  for (const { reservation, position } of settled) {
    const positions = dropped.get(reservation.batchId);
    if (positions === undefined) dropped.set(reservation.batchId, new Set([position]));
    else positions.add(position);
  }
  return reservations.flatMap((reservation) => {
    const positions = dropped.get(reservation.batchId);
    if (positions === undefined) return [reservation];
    const jobs = placesWithout(reservation.jobs, positions);
    return jobs.size === 0 ? [] : [{ ...reservation, jobs }];
  });
}
