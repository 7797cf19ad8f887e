/** The errors that only stores throw. */
import { RefusedError } from '../../core/errors.ts';
import { COMMIT_ITEMS_MAX, DECLARATION_CHARS_MAX, ITEM_BYTES_MAX, TRANSACTION_BYTES_MAX } from './bounds.ts';

/**
 * Returns the error for an item that is larger than DynamoDB allows.
 *
 * @param key - `<partition key> <sort key>`
 * @param bytes - undefined if only DynamoDB knows
 */
export const itemTooLarge = (key: string, bytes: number | undefined, options?: ErrorOptions): RefusedError =>
  new RefusedError(
    `item ${key} would have ${bytes ?? 'too many'} bytes, DynamoDB allows at most ${ITEM_BYTES_MAX}; store large data elsewhere and keep a reference`,
    options,
  );

export const declarationTooLarge = (chars: number): RefusedError =>
  new RefusedError(
    `the encoded declaration has ${chars} characters, at most ${DECLARATION_CHARS_MAX} are allowed; shorten its names, or split the work into several schedulers`,
  );

/** An item that does not follow the schema. */
export class MalformedItemError extends Error {
  override readonly name = 'MalformedItemError';
  /** The key of the item: `<partition key> <sort key>`. */
  readonly key: string;
  /** The path of the wrong attribute, such as `claim.batchId`. */
  readonly attribute: string;

  constructor(
    key: string,
    attribute: string,
    problem: string,
    wayOut = 'correct or delete the item',
    options?: ErrorOptions,
  ) {
    super(
      `item ${key}: attribute ${attribute} ${problem}; other software wrote to the table: ${wayOut}`,
      options,
    );
    this.key = key;
    this.attribute = attribute;
  }
}

/** Returns the error for a commit that changes more items than one transaction takes. */
export const commitTooLarge = (items: number): RefusedError =>
  new RefusedError(
    `the commit changes ${items} items, at most ${COMMIT_ITEMS_MAX} fit into one transaction; split the commit`,
  );

export const transactionTooLarge = (bytes: number): RefusedError =>
  new RefusedError(
    `the transaction writes ${bytes} bytes, at most ${TRANSACTION_BYTES_MAX} are allowed; split the commit`,
  );

/** Returns the error for a commit that names one item twice: a transaction takes each item once. */
export const commitNamesTwice = (item: string, name: string): RefusedError =>
  new RefusedError(`the commit names the ${item} ${JSON.stringify(name)} twice; merge its changes`);

/**
 * Thrown for a commit that has the partition's present version, although a reservation or a loan that it changes does
 * not exist, or one that it makes exists already. Nothing was changed; load the partition again.
 */
export class StaleCommitError extends Error {
  override readonly name = 'StaleCommitError';
}
