/** DynamoDB's limits on what is written, asked before anything is: by both stores, with the same errors. */
import { ITEM_BYTES_MAX, TRANSACTION_BYTES_MAX } from './bounds.ts';
import { ItemTooLarge, StoreRefused, TransactionTooLarge } from './errors.ts';
import { itemBytes } from './metering.ts';
import { type ItemKey, TABLE } from './schema.ts';

type Values = Readonly<Record<string, unknown>>;

/** DynamoDB's bound on a partition key. */
const PARTITION_KEY_BYTES_MAX = 2_048;

/** @throws StoreRefused for a key that no item has, by which no table looks anything up */
export function requireKeyFits({ pk }: ItemKey): void {
  const bytes = Buffer.byteLength(pk, 'utf8');
  if (bytes <= PARTITION_KEY_BYTES_MAX) return;
  throw new StoreRefused(
    `the partition key ${pk.slice(0, 60)}... has ${bytes} bytes, at most ${PARTITION_KEY_BYTES_MAX} are taken; correct it`,
  );
}

/** @throws ItemTooLarge */
export function requireItemFits(item: Values): void {
  const bytes = itemBytes(item);
  if (bytes > ITEM_BYTES_MAX)
    throw new ItemTooLarge(`${String(item[TABLE.partitionKey])} ${String(item[TABLE.sortKey])}`, bytes);
}

/** @throws ItemTooLarge, TransactionTooLarge */
export function requireTransactionFits(items: readonly Values[]): void {
  let bytes = 0;
  for (const item of items) {
    requireItemFits(item);
    bytes += itemBytes(item);
  }
  if (bytes > TRANSACTION_BYTES_MAX) throw new TransactionTooLarge(bytes);
}
