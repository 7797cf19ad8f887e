/**
 * What DynamoDB lets through. Each partition key, of the table and of the index, takes so many units a second, and so does
 * the table as a whole, index included. A bucket holds one second's worth: the burst that a table may have saved up is not
 * counted on. A request is let through while there is anything in its buckets, and takes what it used out of them
 * afterwards, so a bucket may owe.
 */

export interface TableLimits {
  /** Of each partition key. */
  readonly keyWriteUnits: number;
  readonly keyReadUnits: number;
  /** Of the table. */
  readonly writeUnits: number;
  readonly readUnits: number;
}

const KEY_LIMITS = { keyWriteUnits: 1_000, keyReadUnits: 3_000 } as const;

/** Named limits: of a table that is new, by the default quota, and of one whose quota was raised and that was warmed up. */
export const TABLES: Readonly<Record<'new' | 'quota' | 'raised', TableLimits>> = {
  new: { ...KEY_LIMITS, writeUnits: 4_000, readUnits: 12_000 },
  quota: { ...KEY_LIMITS, writeUnits: 40_000, readUnits: 40_000 },
  raised: { ...KEY_LIMITS, writeUnits: Infinity, readUnits: Infinity },
};

/** Units by partition key; under the empty key, those of the table. */
export type Heat = ReadonlyMap<string, number>;

export const WHOLE_TABLE = '';

interface Bucket {
  units: number;
  atMs: number;
}

class Buckets {
  readonly #perKey: number;
  readonly #perTable: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(perKey: number, perTable: number) {
    this.#perKey = perKey;
    this.#perTable = perTable;
  }

  isOpen(key: string, nowMs: number): boolean {
    const limit = this.#limit(key);
    return limit === Infinity || this.#at(key, limit, nowMs).units > 0;
  }

  take(key: string, units: number, nowMs: number): void {
    const limit = this.#limit(key);
    if (limit !== Infinity) this.#at(key, limit, nowMs).units -= units;
  }

  #limit(key: string): number {
    return key === WHOLE_TABLE ? this.#perTable : this.#perKey;
  }

  #at(key: string, limit: number, nowMs: number): Bucket {
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = { units: limit, atMs: nowMs };
      this.#buckets.set(key, bucket);
    }
    bucket.units = Math.min(limit, bucket.units + (limit * (nowMs - bucket.atMs)) / 1_000);
    bucket.atMs = nowMs;
    return bucket;
  }
}

export class Throttle {
  readonly #writes: Buckets;
  readonly #reads: Buckets;

  constructor(limits: TableLimits) {
    this.#writes = new Buckets(limits.keyWriteUnits, limits.writeUnits);
    this.#reads = new Buckets(limits.keyReadUnits, limits.readUnits);
  }

  /** Whether a request to these keys is let through now. */
  admits(kind: 'write' | 'read', keys: Iterable<string>, nowMs: number): boolean {
    const buckets = kind === 'write' ? this.#writes : this.#reads;
    if (!buckets.isOpen(WHOLE_TABLE, nowMs)) return false;
    for (const key of keys) if (!buckets.isOpen(key, nowMs)) return false;
    return true;
  }

  /** What a request has used. */
  used(kind: 'write' | 'read', heat: Heat, nowMs: number): void {
    const buckets = kind === 'write' ? this.#writes : this.#reads;
    for (const [key, units] of heat) buckets.take(key, units, nowMs);
  }
}
