/**
 * Refuses what DynamoDB would refuse for its size, measured by the real codec. A write that is certainly small enough is not measured,
 * because that would cost more than the write.
 */
import { RefusedError } from '../../../core/errors.ts';
import type { Job, Json } from '../../../core/job.ts';
import type { LoanRequest } from '../../../core/lending.ts';
import { ITEM_BYTES_MAX, reservationBytesAtMost } from '../../contract/bounds.ts';
import type { WorkerRecord } from '../../contract/records.ts';
import { encodeDeclarationText } from '../../table/codec/declaration.ts';
import { encodeRequest } from '../../table/codec/loan.ts';
import { encodeReservations } from '../../table/codec/reservation.ts';
import { encodeWorkerRecord } from '../../table/codec/worker.ts';
import { declarationHash, declarationParts } from '../../table/declaration.ts';
import { requireItemFits } from '../../table/limits.ts';
import type { ItemKey } from '../../table/schema.ts';
import type { SummaryChange } from '../../table/summary.ts';
import { tableItemsOf } from './bill.ts';

/** The most bytes of a partition key that DynamoDB accepts. */
const PARTITION_KEY_BYTES_MAX = 2_048;

/**
 * Refuses a partition key that is too long: DynamoDB refuses reads by such a key, too.
 * @throws RefusedError if the partition key is too long: DynamoDB refuses reads by such a key, too
 */
export function requireKeyFits({ pk }: ItemKey): void {
  const bytes = Buffer.byteLength(pk, 'utf8');
  if (bytes <= PARTITION_KEY_BYTES_MAX) return;
  throw new RefusedError(
    `the partition key ${pk.slice(0, 60)}... has ${bytes} bytes, at most ${PARTITION_KEY_BYTES_MAX} are allowed; shorten it`,
  );
}

/** The largest payload, result or checkpoint that is not measured. A job's item with four of them is far from its bound. */
const CONTENT_CHARS_SMALL = 16_000;

const isSmall = (content: Json | undefined): boolean =>
  content === undefined ||
  content === null ||
  typeof content === 'number' ||
  typeof content === 'boolean' ||
  (typeof content === 'string' ? content.length : JSON.stringify(content).length) <= CONTENT_CHARS_SMALL;

/**
 * Refuses a job that is too large. `written` are the contents that the call writes.
 * @throws RefusedError if the job is too large; `written` are the contents that the call writes
 */
export function requireJobFits(job: Job, ...written: readonly (Json | undefined)[]): void {
  if (written.every(isSmall)) return;
  for (const item of tableItemsOf(job)) requireItemFits(item);
}

/** @throws RefusedError */
export const requireWorkerFits = (partition: number, record: WorkerRecord): void =>
  requireItemFits(encodeWorkerRecord(partition, record));

/** @throws RefusedError */
export const requireRequestFits = (partition: number, request: LoanRequest): void =>
  requireItemFits(encodeRequest(partition, request));

/** @throws RefusedError */
export function requireDeclarationFits(text: string): void {
  const hash = declarationHash(text);
  for (const [at, part] of declarationParts(text).entries()) {
    requireItemFits(encodeDeclarationText(hash, at, part));
  }
}

/** @throws RefusedError */
export function requireCommitFits(partition: number, { ahead, summary }: SummaryChange): void {
  for (const item of ahead) {
    const [, reservations] = item;
    if (reservationBytesAtMost(reservations.flatMap(({ jobs }) => [...jobs.values()])) > ITEM_BYTES_MAX)
      requireItemFits(encodeReservations(partition, item, summary.version - 1));
  }
}
