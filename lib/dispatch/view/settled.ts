/**
 * Settles reservation entries from images of their jobs, whether these come from the stream or from a read. An ended
 * attempt releases its capacity, and its key is charged what the attempt really used. The settle step and recovery use
 * this file.
 *
 * Once an image of the job has shown that an attempt is `ended` or `neverClaimed`, that stays true: versions only rise,
 * a terminal state is never left, and no pass plans a job while an older reservation counts it. So a stream record is
 * as good as a read for settling, however late it arrives.
 */

import { claimIdOf, type JobState, type ReservedJob } from '../../core/job.ts';
import {
  type AttemptStatus,
  attemptStatusOf,
  type PlannedAttempt,
  type PlannedClaim,
} from '../../core/life-cycle.ts';
import type { DispatchMessage } from '../../queue/contract.ts';
import type { JobImage } from '../../store/contract/job-fields.ts';
import type { Reservation } from '../../store/contract/records.ts';
import { entriesWithout } from '../../store/contract/records.ts';

/** Returns the claim that a worker's start will make for a reserved job. */
export const plannedOf = (
  { reservedAtMs, declared }: Pick<Reservation, 'reservedAtMs' | 'declared'>,
  { version, fleet }: Pick<ReservedJob, 'version' | 'fleet'>,
): PlannedClaim => ({
  version,
  fleet,
  claimedAtMs: reservedAtMs,
  ...(declared === undefined ? {} : { declared }),
});

/**
 * Returns the fields of a message that say until when the job may start, if a rate counts its start. No field: no rate
 * does.
 */
export const startByOf = ({
  startByMs,
}: Pick<ReservedJob, 'startByMs'>): Pick<DispatchMessage, 'startByMs'> =>
  startByMs === undefined ? {} : { startByMs };

/** One job of a reservation, with the reservation that it belongs to and its position there. */
export interface ReservationEntry {
  readonly reservation: Reservation;
  readonly position: number;
  readonly entry: ReservedJob;
}

/** The id of the claim that starts the job of an entry. */
export const claimIdOfEntry = ({
  reservation,
  position,
}: Pick<ReservationEntry, 'reservation' | 'position'>): string => claimIdOf(reservation.batchId, position);

/** Returns the attempt that an entry was made for. */
export const attemptOfEntry = (place: ReservationEntry): PlannedAttempt => ({
  claimId: claimIdOfEntry(place),
  version: place.entry.version,
});

/** Returns all entries of these reservations. */
export const entriesOf = (reservations: readonly Reservation[]): readonly ReservationEntry[] =>
  reservations.flatMap((reservation) =>
    [...reservation.jobs].map(([position, entry]) => ({ reservation, position, entry })),
  );

/** The end of an attempt: when it was, how long the attempt took, and whether it succeeded. */
type AttemptEnd = Omit<Extract<AttemptStatus, { readonly kind: 'ended' }>, 'kind'>;

/** An entry whose attempt is over. The cost estimate learns from successes only. */
export interface Settled extends ReservationEntry, AttemptEnd {
  /** The job's state after the attempt; undefined: no worker can have started it. */
  readonly state?: JobState | undefined;
  /** The job's resource, for the cost estimate. */
  readonly resourceId?: string | undefined;
}

/** Whether a worker has run the attempt. If not, it was never claimed, or it ended before its start. */
export const hasRun = ({ durationMs }: Pick<Settled, 'durationMs'>): boolean => durationMs !== undefined;

/** The newest image of each job, by id. */
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

/**
 * Returns the newest image of each job among these hints. The result is cached, because several steps of a pass ask for
 * it.
 */
export function newestOf(hints: readonly JobImage[]): Images {
  let images = newestKept.get(hints);
  if (images === undefined) {
    images = newest(hints);
    newestKept.set(hints, images);
  }
  return images;
}

/** Returns the newest image of each job among `images` and `more`. */
export const newestWith = (images: Images, more: readonly JobImage[]): Images =>
  more.length === 0 ? images : newest([...images.values(), ...more]);

/**
 * Returns the reservation entries whose attempts are over according to these images of jobs, from stream records or
 * earlier reads. It reads nothing itself.
 */
export function settleFrom(reservations: readonly Reservation[], images: Images): readonly Settled[] {
  if (images.size === 0) return [];
  const settled: Settled[] = [];
  for (const reservation of reservations) {
    reservation.jobs.forEach((entry, position) => {
      const image = images.get(entry.id);
      if (image === undefined) return;
      const place = { reservation, position, entry };
      const status = attemptStatusOf(attemptOfEntry(place), image);
      if (status.kind === 'neverClaimed') settled.push({ ...place, succeeded: false });
      if (status.kind !== 'ended') return;
      const { durationMs, endedAtMs, succeeded } = status;
      const { resourceId, state } = image;
      settled.push({ ...place, state, resourceId, durationMs, endedAtMs, succeeded });
    });
  }
  return settled;
}

/** Returns the reservations without their settled entries. Reservations that become empty are left out. */
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
    const jobs = entriesWithout(reservation.jobs, positions);
    return jobs.size === 0 ? [] : [{ ...reservation, jobs }];
  });
}
