/** What a store throws of its own, beside the errors that all parts share. */
import { RefusedError } from '../../core/errors.ts';
import { COMMIT_ITEMS_MAX, DECLARATION_CHARS_MAX, ITEM_BYTES_MAX, TRANSACTION_BYTES_MAX } from './bounds.ts';

/**
 * An item larger than a table holds.
 *
 * @param key - `<partition key> <sort key>`
 * @param bytes - undefined where only the table knows
 */
export const itemTooLarge = (key: string, bytes: number | undefined, options?: ErrorOptions): RefusedError =>
  new RefusedError(
    `item ${key} would have ${bytes ?? 'too many'} bytes, a table holds at most ${ITEM_BYTES_MAX}; store what is large elsewhere and keep a reference`,
    options,
  );

export const declarationTooLarge = (chars: number): RefusedError =>
  new RefusedError(
    `the declaration takes ${chars} characters once encoded, at most ${DECLARATION_CHARS_MAX} are kept; shorten its names, or split the work into several schedulers`,
  );

/** An item that is not what the schema says. */
export class MalformedItemError extends Error {
  override readonly name = 'MalformedItemError';
  /** `<partition key> <sort key>`. */
  readonly key: string;
  /** The attribute that is wrong; a path, such as `claim.batchId`. */
  readonly attribute: string;

  constructor(
    key: string,
    attribute: string,
    problem: string,
    wayOut = 'correct or delete the item',
    options?: ErrorOptions,
  ) {
    super(
      `item ${key}: attribute ${attribute} ${problem}; something else than this scheduler wrote to the table: ${wayOut}`,
      options,
    );
    this.key = key;
    this.attribute = attribute;
  }
}

/** A commit that changes more items than one transaction takes. */
export const commitTooLarge = (items: number): RefusedError =>
  new RefusedError(
    `the commit changes ${items} items, at most ${COMMIT_ITEMS_MAX} fit into one transaction; split what the pass decides`,
  );

export const transactionTooLarge = (bytes: number): RefusedError =>
  new RefusedError(
    `the transaction writes ${bytes} bytes, one takes at most ${TRANSACTION_BYTES_MAX}; split what the pass decides`,
  );

/** A commit that names one item twice: a transaction takes each once. */
export const commitNamesTwice = (item: string, name: string): RefusedError =>
  new RefusedError(
    `the commit names the ${item} ${JSON.stringify(name)} twice; merge what the pass decides about it`,
  );

/**
 * A commit that follows the partition's version, but not what is there: a reservation or a loan to change is gone, or one to make is
 * there. Nothing was changed; load the partition again.
 */
export class StaleCommitError extends Error {
  override readonly name = 'StaleCommitError';
}
