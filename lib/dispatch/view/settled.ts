/**
 * What ended gives its capacity back, and its key is charged what it really used. A place of a reservation is settled by an
 * image of its job, from the stream or read.
 *
 * `ended` and `gone` hold for ever once any true image of the item showed them, because versions only rise, a terminal
 * state is never left, and no pass plans a job while an older reservation still counts it. So a stream record is as good
 * as a read for settling, however late it comes.
 */

import { claimIdOf, type ReservedJob } from '../../core/job.ts';
import {
  type AttemptStatus,
  attemptStatusOf,
  type PlannedAttempt,
  type PlannedClaim,
} from '../../core/life-cycle.ts';
import type { JobImage } from '../../store/contract/job-fields.ts';
import type { Reservation } from '../../store/contract/records.ts';
import { placesWithout } from '../../store/contract/records.ts';

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

/** The attempt that a place is for. */
export const attemptOf = (place: Place): PlannedAttempt => ({
  claimId: claimIdOfPlace(place),
  version: place.entry.version,
});

/** Every place of some reservations. */
export const placesOf = (reservations: readonly Reservation[]): readonly Place[] =>
  reservations.flatMap((reservation) =>
    [...reservation.jobs].map(([position, entry]) => ({ reservation, position, entry })),
  );

/** The end of an attempt: what it used, and whether it succeeded. */
type AttemptEnd = Omit<Extract<AttemptStatus, { readonly kind: 'ended' }>, 'kind'>;

/** A place whose attempt is over. Only successes teach the estimate. */
export interface Settled extends Place, AttemptEnd {
  /** Of the job, for what is learned from the attempt. */
  readonly resourceId?: string | undefined;
}

/** Images of jobs by id, the newest of each. */
export type Images = ReadonlyMap<string, JobImage>;

function newest(images: Iterable<JobImage>): Map<string, JobImage> {
  const byId = new Map<string, JobImage>();
  for (const job of images) {
    const known = byId.get(job.id);
    if (known === undefined || known.version < job.version) byId.set(job.id, job);
  }
  return byId;
}

const newestKept = new WeakMap<readonly JobImage[], Images>();

/** The newest of hints that several steps of a pass look at, made once. */
export function newestOf(hints: readonly JobImage[]): Images {
  let images = newestKept.get(hints);
  if (images === undefined) {
    images = newest(hints);
    newestKept.set(hints, images);
  }
  return images;
}

/** The newest of these and of more. */
export const newestWith = (images: Images, more: readonly JobImage[]): Images =>
  more.length === 0 ? images : newest([...images.values(), ...more]);

/** Settles what the images show, without a read. */
export function settleFrom(reservations: readonly Reservation[], images: Images): readonly Settled[] {
  if (images.size === 0) return [];
  const settled: Settled[] = [];
  for (const reservation of reservations) {
    reservation.jobs.forEach((entry, position) => {
      const image = images.get(entry.id);
      if (image === undefined) return;
      const place = { reservation, position, entry };
      const status = attemptStatusOf(attemptOf(place), image);
      if (status.kind === 'gone') settled.push({ ...place, succeeded: false });
      if (status.kind !== 'ended') return;
      const { durationMs, endedAtMs, succeeded } = status;
      const { resourceId } = image;
      settled.push({ ...place, resourceId, durationMs, endedAtMs, succeeded });
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
