import { COMMIT_ITEMS_MAX, DECLARATION_CHARS_MAX, ITEM_BYTES_MAX, TRANSACTION_BYTES_MAX } from './bounds.ts';

/** What can go wrong with a store. Losing a race is never among these: it is a value in a verb's answer. */

/** The store refused for now: too many requests, or a transaction met another one. Nothing was changed; try again. */
export class StoreThrottled extends Error {
  override readonly name = 'StoreThrottled';
}

/** No answer. A write may or may not have been applied: repeat it, every verb bears that, or read the item. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
}

/** The table, its index or the right to use them is missing: waiting does not help. */
export class StoreMisconfigured extends Error {
  override readonly name = 'StoreMisconfigured';
}

/** The store does not take such a request: an item too large, a key too long, a number that is none. */
export class StoreRefused extends Error {
  override readonly name: string = 'StoreRefused';
}

/** An item larger than a table holds. Nothing was changed. */
export class ItemTooLarge extends StoreRefused {
  override readonly name = 'ItemTooLarge';
  /** `<partition key> <sort key>`. */
  readonly key: string;
  /** Undefined where only the table knows. */
  readonly bytes: number | undefined;

  constructor(key: string, bytes: number | undefined, options?: ErrorOptions) {
    super(
      `item ${key} would have ${bytes ?? 'too many'} bytes, a table holds at most ${ITEM_BYTES_MAX}; store what is large elsewhere and keep a reference`,
      options,
    );
    this.key = key;
    this.bytes = bytes;
  }
}

/** A declaration of more text than is kept. Nothing was changed. */
export class DeclarationTooLarge extends StoreRefused {
  override readonly name = 'DeclarationTooLarge';
  readonly chars: number;

  constructor(chars: number) {
    super(
      `the declaration takes ${chars} characters once encoded, at most ${DECLARATION_CHARS_MAX} are kept; shorten its names, or split the work into several schedulers`,
    );
    this.chars = chars;
  }
}

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

/** A commit that changes more items than one transaction takes. Nothing was changed; decide less in one pass. */
export class CommitTooLarge extends Error {
  override readonly name = 'CommitTooLarge';
  readonly items: number;

  constructor(items: number) {
    super(
      `the commit changes ${items} items, at most ${COMMIT_ITEMS_MAX} fit into one transaction; split what the pass decides`,
    );
    this.items = items;
  }
}

/** A transaction of more bytes than one takes. Nothing was changed; decide less in one pass. */
export class TransactionTooLarge extends Error {
  override readonly name = 'TransactionTooLarge';
  readonly bytes: number;

  constructor(bytes: number) {
    super(
      `the transaction writes ${bytes} bytes, one takes at most ${TRANSACTION_BYTES_MAX}; split what the pass decides`,
    );
    this.bytes = bytes;
  }
}

/** A commit that names one item twice: a transaction takes each once. Nothing was changed. */
export class CommitAmbiguous extends Error {
  override readonly name = 'CommitAmbiguous';

  constructor(item: string, name: string) {
    super(`the commit names the ${item} ${JSON.stringify(name)} twice; merge what the pass decides about it`);
  }
}

/**
 * A commit that follows the partition's version, but not what is there: a reservation or a loan to change is gone, or one to make is
 * there. Nothing was changed; load the partition again.
 */
export class StaleCommit extends Error {
  override readonly name = 'StaleCommit';
}
