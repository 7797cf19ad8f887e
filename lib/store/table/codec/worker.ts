/** Encodes and decodes a worker's heartbeat record. */

import type { MalformedItemError } from '../../contract/errors.ts';
import type { WorkerRecord } from '../../contract/records.ts';
import { WORKER_PREFIX, workerKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, encodeJson, ttlSec } from './cells.ts';
import { decodeWorkerIdentity, encodeWorker } from './job.ts';

export function encodeWorkerRecord(partition: number, worker: WorkerRecord): Item {
  return {
    ...workerKey(partition, worker.workerId),
    ...encodeWorker(worker),
    [A.fleet]: worker.fleet,
    [A.slots]: worker.slots,
    [A.expiresAtMs]: worker.expiresAtMs,
    [A.ttl]: workerTtlSec(worker),
    [A.formerUntilMs]: worker.formerUntilMs,
    [A.heardAtMs]: worker.heardAtMs,
    [A.lagMs]: worker.load?.lagMs,
    [A.memoryMb]: worker.load?.memoryMb,
    [A.isEnding]: worker.isEnding === true,
    [A.occupants]: encodeOccupants(worker),
  };
}

/**
 * Returns the `ttl` of a worker's record. The record is kept long after it has expired, because an earlier incarnation
 * may have had a longer lease.
 */
export const workerTtlSec = ({ expiresAtMs }: Pick<WorkerRecord, 'expiresAtMs'>): number =>
  ttlSec(expiresAtMs + WORKER_KEPT_MS);

const WORKER_KEPT_MS = 3_600_000;

export const encodeOccupants = ({ occupants }: Pick<WorkerRecord, 'occupants'>): readonly Item[] =>
  occupants.map(({ claimId, jobId, progress }) => ({
    [A.claimId]: claimId,
    [A.jobId]: jobId,
    [A.progress]: progress === undefined ? undefined : encodeJson(progress),
  }));

export function decodeWorkerRecord(item: Item): WorkerRecord {
  const cells = cellsOf(item);
  return {
    ...decodeWorkerIdentity(cells),
    fleet: cells.text(A.fleet),
    slots: cells.count(A.slots),
    expiresAtMs: cells.number(A.expiresAtMs),
    ...(cells.has(A.formerUntilMs) ? { formerUntilMs: cells.number(A.formerUntilMs) } : {}),
    ...(cells.has(A.lagMs) && cells.has(A.memoryMb)
      ? { load: { lagMs: cells.number(A.lagMs), memoryMb: cells.number(A.memoryMb) } }
      : {}),
    ...(cells.has(A.heardAtMs) ? { heardAtMs: cells.number(A.heardAtMs) } : {}),
    ...(cells.has(A.isEnding) && cells.flag(A.isEnding) ? { isEnding: true } : {}),
    occupants: cells.list(A.occupants).map((occupant) => ({
      claimId: occupant.text(A.claimId),
      jobId: occupant.text(A.jobId),
      ...(occupant.has(A.progress) ? { progress: occupant.json(A.progress) } : {}),
    })),
  };
}

/**
 * Returns the substitute for a worker's record that cannot be read: a worker without a slot that never expires, because
 * its jobs may be running. Undefined once the record's `ttl` is over.
 * @throws MalformedItemError `cause`, if the item does not say whose record it is
 */
export function unreadableWorker(
  partition: number,
  item: Item,
  nowMs: number,
  cause: MalformedItemError,
): WorkerRecord | undefined {
  const ttl = item[A.ttl];
  if (typeof ttl === 'number' && ttl * 1000 <= nowMs) return undefined;
  const sk = String(item[A.sk]);
  const workerId = [item[A.workerId], decodedName(sk.slice(WORKER_PREFIX.length))].find(
    (name): name is string => typeof name === 'string' && workerKey(partition, name).sk === sk,
  );
  if (workerId === undefined) throw cause;
  const neverMs = Number.MAX_SAFE_INTEGER;
  const substitute = { workerId, incarnation: '', fleet: '', slots: 0, isEnding: true, occupants: [] };
  return { ...substitute, expiresAtMs: neverMs, formerUntilMs: neverMs };
}

function decodedName(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
