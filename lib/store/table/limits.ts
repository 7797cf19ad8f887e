/** Checks DynamoDB's size limits before anything is written. Both stores use them, so both throw the same errors. */

import { ITEM_BYTES_MAX, TRANSACTION_BYTES_MAX } from '../contract/bounds.ts';
import { itemTooLarge, transactionTooLarge } from '../contract/errors.ts';
import { itemBytes } from './metering.ts';
import { TABLE } from './schema.ts';

type Values = Readonly<Record<string, unknown>>;

/** @throws RefusedError */
export function requireItemFits(item: Values): void {
  const bytes = itemBytes(item);
  if (bytes > ITEM_BYTES_MAX)
    throw itemTooLarge(`${String(item[TABLE.partitionKey])} ${String(item[TABLE.sortKey])}`, bytes);
}

/** @throws RefusedError */
export function requireTransactionFits(items: readonly Values[]): void {
  let bytes = 0;
  for (const item of items) {
    requireItemFits(item);
    bytes += itemBytes(item);
  }
  if (bytes > TRANSACTION_BYTES_MAX) throw transactionTooLarge(bytes);
}
