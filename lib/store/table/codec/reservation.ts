/** Encodes and decodes items of reservations. All reservations of an item are one attribute, because every pass reads them whole. */

import { deflateRawSync } from 'node:zlib';
import type { JobKeys, ReservedJob } from '../../../core/job.ts';
import type { MalformedItemError } from '../../contract/errors.ts';
import type { Reservation } from '../../contract/records.ts';
import { itemBytes, writeUnitsOf } from '../metering.ts';
import { RESERVATION_PREFIX, reservationKey } from '../schema.ts';
import type { ReservationItem } from '../summary.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable } from './cells.ts';

/** Most ids of jobs are 32 hexadecimal digits. These are stored as a tilde and 22 characters, others as an equals sign and the id. */
const HEX_ID = /^[0-9a-f]{32}$/;

const packId = (id: string): string =>
  HEX_ID.test(id) ? `~${Buffer.from(id, 'hex').toString('base64url')}` : `=${id}`;

const unpackId = (packed: string): string =>
  packed.startsWith('~') ? Buffer.from(packed.slice(1), 'base64url').toString('hex') : packed.slice(1);

/**
 * The values that jobs of a batch share, each combination written once: type, tier, fleet, estimated cost, then, if it has any: conflict
 * key, resource, limits, keys, and how long after the reservation a start may be. Null stands for one that is absent before another.
 */
type Shape = readonly [
  string,
  string,
  string,
  number,
  (string | null)?,
  (string | null)?,
  (readonly string[] | null)?,
  (JobKeys | null)?,
  number?,
];

/**
 * Packed id, index of the shape, index of the fairness key, then, if they differ from 1, 1 and the row's index: version, attempt, position.
 * The last one is the job's units in the limits of its shape, in their order; 0 stands for a limit in which it has none.
 */
type Row = readonly [string, number, number, number?, number?, number?, (readonly number[])?];

function shapeOf(job: ReservedJob, reservedAtMs: number): readonly unknown[] {
  const { type, tier, fleet, estimatedCostMs, conflictKey, resourceId, limits, keys, startByMs } = job;
  const resource = conflictKey === undefined ? resourceId : undefined;
  const values = [
    type,
    tier,
    fleet,
    storable(estimatedCostMs),
    conflictKey,
    resource,
    limits,
    keys,
    startByMs === undefined ? undefined : startByMs - reservedAtMs,
  ];
  return values.slice(0, values.findLastIndex((value) => value !== undefined) + 1);
}

/** Packs the jobs of a reservation as text: some 35 bytes for each. */
function packJobs({ jobs, reservedAtMs }: Pick<Reservation, 'jobs' | 'reservedAtMs'>): string {
  const shapes = new Map<string, number>();
  const keys = new Map<string, number>();
  const numberOf = (numbers: Map<string, number>, name: string): number => {
    const known = numbers.get(name);
    if (known !== undefined) return known;
    numbers.set(name, numbers.size);
    return numbers.size - 1;
  };
  const rows = [...jobs].map(([position, job], at): Row => {
    const { limits } = job;
    const shape = shapeOf(job, reservedAtMs);
    const common = [
      packId(job.id),
      numberOf(shapes, JSON.stringify(shape)),
      numberOf(keys, job.fairnessKey),
    ] as const;
    if (job.units !== undefined) {
      const units = (limits ?? []).map((limit) => job.units?.[limit] ?? 0);
      return [...common, job.version, job.attempt, position, units];
    }
    if (position !== at) return [...common, job.version, job.attempt, position];
    return job.version === 1 && job.attempt === 1 ? common : [...common, job.version, job.attempt];
  });
  return escapeControls(
    `[[${[...shapes.keys()].join(',')}],${JSON.stringify([...keys.keys()])},${JSON.stringify(rows)}]`,
  );
}

/**
 * JSON takes six bytes for a control character. This encoding replaces it by its Unicode picture (U+2400 and up), which takes three;
 * pictures in the text are escaped, and take six.
 */
const PICTURES = 0x2400;

const PICTURE = /[\u2400-\u241f]/g;

const ESCAPABLE = /[\\\u2400-\u241f]/;

function escapeControls(json: string): string {
  if (!ESCAPABLE.test(json)) return json;
  return json
    .replace(PICTURE, (picture) => `\\u${picture.charCodeAt(0).toString(16)}`)
    .replace(/\\(?:u00([01][0-9a-f])|.)/gs, (escaped, code: string | undefined) =>
      code === undefined ? escaped : String.fromCharCode(PICTURES + Number.parseInt(code, 16)),
    );
}

export const unescapeControls = (text: string): string =>
  text.replace(
    PICTURE,
    (picture) => `\\u${(picture.charCodeAt(0) - PICTURES).toString(16).padStart(4, '0')}`,
  );

/** Throws any error if the format is wrong: the caller names the attribute. */
function unpackJobs(packed: unknown, reservedAtMs: number): ReadonlyMap<number, ReservedJob> {
  const [shapes, keys, rows] = packed as readonly [readonly Shape[], readonly string[], readonly Row[]];
  const jobs = rows.map(([id, shapeAt, keyAt, version = 1, attempt = 1, position, units], at) => {
    const shape = shapes[shapeAt];
    const fairnessKey = keys[keyAt];
    if (shape === undefined || typeof fairnessKey !== 'string' || typeof id !== 'string') {
      throw new TypeError(`row ${at} refers to a missing shape or key`);
    }
    const limits = shape[6] ?? [];
    const numbers = [version, attempt, position ?? at, ...(units ?? [])];
    if (!numbers.every(Number.isFinite)) throw new TypeError(`row ${at}`);
    const job: ReservedJob = {
      id: unpackId(id),
      version,
      attempt,
      fairnessKey,
      ...sharedIn(shape, shapeAt, reservedAtMs),
      ...unitsIn(limits, units),
    };
    return [position ?? at, job] as const;
  });
  return new Map(jobs.sort(([a], [b]) => a - b));
}

/** Returns the values that the jobs of a shape share. */
function sharedIn(
  shape: Shape,
  at: number,
  reservedAtMs: number,
): Omit<ReservedJob, 'id' | 'version' | 'attempt' | 'fairnessKey' | 'units'> {
  const [type, tier, fleet, estimatedCostMs, conflictKey, resourceId, limits, keys, startWithinMs = null] =
    shape;
  const texts = [type, tier, fleet, ...(limits ?? []), ...Object.values(keys ?? {})];
  const isText = texts.every((each) => typeof each === 'string');
  if (!(isText && Number.isFinite(estimatedCostMs) && Number.isFinite(startWithinMs ?? 0)))
    throw new TypeError(`shape ${at}`);
  return {
    type,
    tier,
    fleet,
    estimatedCostMs,
    ...(typeof conflictKey === 'string' ? { conflictKey } : {}),
    ...(typeof resourceId === 'string' ? { resourceId } : {}),
    ...(limits ? { limits } : {}),
    ...(keys ? { keys } : {}),
    ...(startWithinMs === null ? {} : { startByMs: reservedAtMs + startWithinMs }),
  };
}

function unitsIn(
  limits: readonly string[],
  units: readonly number[] | undefined,
): Pick<ReservedJob, 'units'> {
  if (units === undefined) return {};
  return {
    units: Object.fromEntries(limits.flatMap((limit, at) => (units[at] ? [[limit, units[at]]] : []))),
  };
}

/** Packs reservations as text. */
export const packReservations = (reservations: Iterable<Reservation>): string =>
  `[${Array.from(
    reservations,
    ({ batchId, version, checkAtMs, reservedAtMs, declared, jobs }) =>
      `[${JSON.stringify(batchId)},${version},${checkAtMs},${reservedAtMs},${packJobs({ jobs, reservedAtMs })}${
        declared === undefined ? '' : `,${declared}`
      }]`,
  ).join(',')}]`;

/** Throws any error if the format is wrong: the caller names the attribute. */
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
        { batchId, version, checkAtMs, reservedAtMs, ...under, jobs: unpackJobs(jobs, reservedAtMs) },
      ] as const;
    }),
  );
}

/** @param version - the version of the summary that the commit loaded */
export function encodeReservations(partition: number, item: ReservationItem, version: number): Item {
  const plain = plainReservations(partition, item, version);
  const units = writeUnitsOf(itemBytes(plain));
  // The item is written and deleted once each, so it is compressed only if that takes fewer write units.
  if (units === 1) return plain;
  const packed = { ...plain, [A.reservations]: deflateRawSync(String(plain[A.reservations])) };
  return writeUnitsOf(itemBytes(packed)) < units ? packed : plain;
}

/** Returns the uncompressed item, which is its largest possible form. */
export const plainReservations = (
  partition: number,
  [itemId, reservations]: ReservationItem,
  version: number,
): Item => ({
  ...reservationKey(partition, itemId),
  [A.version]: version,
  [A.reservations]: packReservations(reservations),
});

/** More bytes than any item of reservations has. */
const BYTES_MAX = 4 * 1024 * 1024;

/** Returns the item with its reservations uncompressed. */
function withText(item: Item): Item {
  if (!(item[A.reservations] instanceof Uint8Array)) return item;
  const text = cellsOf(item).inflated(A.reservations, 'reservations', BYTES_MAX, (each) => each);
  return { ...item, [A.reservations]: text };
}

/** Returns the error for a missing item that a summary names. Its jobs in flight are recorded nowhere else. */
export const reservationsMissing = (partition: number, itemId: string): MalformedItemError =>
  cellsOf({ ...reservationKey(partition, itemId) }).malformed(
    A.reservations,
    'the reservations of an item that the partition summary names',
  );

export function decodeReservations(item: Item): ReservationItem {
  const cells = cellsOf(withText(item));
  const reservations = cells.packed(A.reservations, unpackReservations, unescapeControls);
  return [cells.text(A.sk).slice(RESERVATION_PREFIX.length), [...reservations.values()]];
}
