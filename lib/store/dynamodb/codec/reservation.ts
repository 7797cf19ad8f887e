/** A reservation: its jobs are packed into one attribute, because every pass reads it whole. */
import { isDeepStrictEqual } from 'node:util';
import { deflateRawSync } from 'node:zlib';
import type { ReservedJob } from '../../../core/job.ts';
import { itemBytes, writeUnitsOf } from '../../metering.ts';
import type { Reservation } from '../../records.ts';
import { RESERVATION_PREFIX, reservationKey } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable } from './cells.ts';

/** Ids of jobs are mostly 32 hexadecimal digits: those are kept as 22 characters behind a tilde, others behind an equals sign. */
const HEX_ID = /^[0-9a-f]{32}$/;

const packId = (id: string): string =>
  HEX_ID.test(id) ? `~${Buffer.from(id, 'hex').toString('base64url')}` : `=${id}`;

const unpackId = (packed: string): string =>
  packed.startsWith('~') ? Buffer.from(packed.slice(1), 'base64url').toString('hex') : packed.slice(1);

/**
 * What the jobs of a batch share, and so is written once: type, tier, fleet, estimated cost, conflict key; of a job that has
 * a resource but no conflict key: null, and the resource.
 */
type Shape = readonly [string, string, string, number, (string | null)?, string?];

/** Packed id, number of the shape, number of the fairness key; then, where they are not 1, 1 and its own index: version, attempt, position. */
type Row = readonly [string, number, number, number?, number?, number?];

/** The jobs of a reservation as text: some 35 bytes for each. */
function packJobs(jobs: ReadonlyMap<number, ReservedJob>): string {
  const shapes = new Map<string, number>();
  const keys = new Map<string, number>();
  const numberOf = (numbers: Map<string, number>, name: string): number => {
    const known = numbers.get(name);
    if (known !== undefined) return known;
    numbers.set(name, numbers.size);
    return numbers.size - 1;
  };
  const rows = [...jobs].map(([position, job], at): Row => {
    const { type, tier, fleet, estimatedCostMs, conflictKey, resourceId } = job;
    const held = [type, tier, fleet, storable(estimatedCostMs)] as const;
    const free: Shape = resourceId === undefined ? held : [...held, null, resourceId];
    const shape: Shape = conflictKey === undefined ? free : [...held, conflictKey];
    const common = [
      packId(job.id),
      numberOf(shapes, JSON.stringify(shape)),
      numberOf(keys, job.fairnessKey),
    ] as const;
    if (position !== at) return [...common, job.version, job.attempt, position];
    return job.version === 1 && job.attempt === 1 ? common : [...common, job.version, job.attempt];
  });
  return tightened(
    `[[${[...shapes.keys()].join(',')}],${JSON.stringify([...keys.keys()])},${JSON.stringify(rows)}]`,
  );
}

/** Where JSON takes six bytes for a control character, its picture takes three; pictures themselves take six. */
const PICTURES = 0x2400;

const PICTURE = /[\u2400-\u241f]/g;

const TIGHTENED = /[\\\u2400-\u241f]/;

function tightened(json: string): string {
  if (!TIGHTENED.test(json)) return json;
  return json
    .replace(PICTURE, (picture) => `\\u${picture.charCodeAt(0).toString(16)}`)
    .replace(/\\(?:u00([01][0-9a-f])|.)/gs, (escaped, code: string | undefined) =>
      code === undefined ? escaped : String.fromCharCode(PICTURES + Number.parseInt(code, 16)),
    );
}

export const loosened = (text: string): string =>
  text.replace(
    PICTURE,
    (picture) => `\\u${(picture.charCodeAt(0) - PICTURES).toString(16).padStart(4, '0')}`,
  );

/** Throws whatever is thrown on the way: the caller names the attribute. */
function unpackJobs(packed: unknown): ReadonlyMap<number, ReservedJob> {
  const [shapes, keys, rows] = packed as readonly [readonly Shape[], readonly string[], readonly Row[]];
  const jobs = rows.map(([id, shapeAt, keyAt, version = 1, attempt = 1, position], at) => {
    const shape = shapes[shapeAt];
    const fairnessKey = keys[keyAt];
    if (shape === undefined || typeof fairnessKey !== 'string' || typeof id !== 'string') {
      throw new TypeError(`row ${at} names what is not there`);
    }
    const [type, tier, fleet, estimatedCostMs, conflictKey, resourceId] = shape;
    if (![type, tier, fleet].every((each) => typeof each === 'string'))
      throw new TypeError(`shape ${shapeAt}`);
    if (![version, attempt, position ?? at, estimatedCostMs].every(Number.isFinite))
      throw new TypeError(`row ${at}`);
    const common = {
      id: unpackId(id),
      version,
      attempt,
      type,
      tier,
      fairnessKey,
      fleet,
      estimatedCostMs,
    };
    const free: ReservedJob = resourceId === undefined ? common : { ...common, resourceId };
    const job: ReservedJob = typeof conflictKey === 'string' ? { ...common, conflictKey } : free;
    return [position ?? at, job] as const;
  });
  return new Map(jobs.sort(([a], [b]) => a - b));
}

/** Reservations of a page as text: what their items would say. */
export const packReservations = (reservations: Iterable<Reservation>): string =>
  `[${Array.from(
    reservations,
    ({ batchId, version, checkAtMs, reservedAtMs, declared, jobs }) =>
      `[${JSON.stringify(batchId)},${version},${checkAtMs},${reservedAtMs},${packJobs(jobs)}${
        declared === undefined ? '' : `,${declared}`
      }]`,
  ).join(',')}]`;

/** Throws whatever is thrown on the way: the caller names the attribute. */
export function unpackReservations(packed: unknown): ReadonlyMap<string, Reservation> {
  const rows = packed as readonly (readonly [string, number, number, number, unknown, number?])[];
  return new Map(
    rows.map(([batchId, version, checkAtMs, reservedAtMs, jobs, declared]) => {
      const numbers = [version, checkAtMs, reservedAtMs, declared ?? 0];
      if (typeof batchId !== 'string' || !numbers.every(Number.isFinite))
        throw new TypeError(`reservation ${String(batchId)}`);
      const under = declared === undefined ? {} : { declared };
      return [
        batchId,
        { batchId, version, checkAtMs, reservedAtMs, ...under, jobs: unpackJobs(jobs) },
      ] as const;
    }),
  );
}

/** @param version - of the page before which the item is put */
export function encodeReservation(partition: number, reservation: Reservation, version: number): Item {
  const item = plainReservation(partition, reservation, version);
  const units = writeUnitsOf(itemBytes(item));
  // Written, and taken away again: its jobs are compressed where that takes fewer write units.
  if (units === 1) return item;
  const packed = { ...item, [A.reservedJobs]: deflateRawSync(String(item[A.reservedJobs])) };
  return writeUnitsOf(itemBytes(packed)) < units ? packed : item;
}

/** A reservation before anything of it is compressed: the most that it can take. */
export function plainReservation(partition: number, reservation: Reservation, version: number): Item {
  return {
    ...reservationKey(partition, reservation.batchId),
    [A.version]: version,
    [A.madeVersion]: reservation.version === version ? undefined : reservation.version,
    [A.checkAtMs]: reservation.checkAtMs,
    [A.reservedAtMs]: reservation.reservedAtMs,
    [A.declared]: reservation.declared,
    [A.reservedJobs]: packJobs(reservation.jobs),
  };
}

/** Far beyond any reservation. */
const JOBS_BYTES_MAX = 4 * 1024 * 1024;

/** An item whose jobs stand in it as text. */
function withJobs(item: Item): Item {
  if (!(item[A.reservedJobs] instanceof Uint8Array)) return item;
  const text = cellsOf(item).inflated(A.reservedJobs, 'jobs', JOBS_BYTES_MAX, (jobs) => jobs);
  return { ...item, [A.reservedJobs]: text };
}

/** Whether two items of reservations say the same. */
export const isSameReservation = (one: Item, other: Item): boolean =>
  one[A.version] === other[A.version] && isDeepStrictEqual(decodeReservation(one), decodeReservation(other));

export function decodeReservation(item: Item): Reservation {
  const cells = cellsOf(withJobs(item));
  return {
    batchId: cells.text(A.sk).slice(RESERVATION_PREFIX.length),
    version: cells.count(item[A.madeVersion] === undefined ? A.version : A.madeVersion),
    checkAtMs: cells.number(A.checkAtMs),
    reservedAtMs: cells.number(A.reservedAtMs),
    ...(item[A.declared] === undefined ? {} : { declared: cells.count(A.declared) }),
    jobs: cells.packed(A.reservedJobs, unpackJobs, loosened),
  };
}
