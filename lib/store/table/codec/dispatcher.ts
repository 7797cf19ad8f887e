/** Encodes and decodes the membership of a long-running dispatcher. */
import type { DispatcherLoad, DispatcherRecord } from '../../contract/records.ts';
import { dispatcherKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, numberIn, present } from './cells.ts';
import { decodePartitions, encodePartition } from './lock.ts';

/**
 * Packs a load: the part of the time in passes, the number of waiting jobs, whether there are more, the longest wait,
 * lag and memory; null for an unknown value.
 */
const packLoad = ({ waiting, waitedMs, busy, eventLoopLagMs, memoryBytes }: DispatcherLoad): string =>
  JSON.stringify([
    busy,
    waiting?.jobs ?? null,
    waiting?.isLeast ?? null,
    waitedMs ?? null,
    eventLoopLagMs ?? null,
    memoryBytes ?? null,
  ]);

/** Throws any error if the format is wrong: the caller names the attribute. */
function unpackLoad(packed: unknown): DispatcherLoad {
  const [busy, jobs, isLeast, waitedMs, eventLoopLagMs, memoryBytes] = packed as readonly unknown[];
  const known = (value: unknown): number | undefined => (value === null ? undefined : numberIn(value));
  return {
    ...(jobs === null ? {} : { waiting: { jobs: numberIn(jobs), isLeast: isLeast === true } }),
    ...present({ waitedMs: known(waitedMs) }),
    busy: numberIn(busy),
    ...present({ eventLoopLagMs: known(eventLoopLagMs), memoryBytes: known(memoryBytes) }),
  };
}

export function encodeDispatcher(record: DispatcherRecord, collectedAtSec: number): Item {
  const { dispatcherId, incarnation, leads, load, expiresAtMs } = record;
  return {
    ...dispatcherKey(dispatcherId),
    [A.dispatcherId]: dispatcherId,
    [A.incarnation]: incarnation,
    [A.leads]: leads.length === 0 ? undefined : new Set(leads.map(encodePartition)),
    [A.load]: load && packLoad(load),
    [A.expiresAtMs]: expiresAtMs,
    [A.ttl]: collectedAtSec,
  };
}

export function decodeDispatcher(item: Item): DispatcherRecord {
  const cells = cellsOf(item);
  return {
    dispatcherId: cells.text(A.dispatcherId),
    incarnation: cells.text(A.incarnation),
    leads: decodePartitions(cells, A.leads),
    ...(cells.has(A.load) ? { load: cells.packed(A.load, unpackLoad) } : {}),
    expiresAtMs: cells.number(A.expiresAtMs),
  };
}
