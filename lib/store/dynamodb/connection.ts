/**
 * The connection to one table. Every call is metered, has a bounded number of retries, and throws the project's own errors. Other files see
 * nothing of the SDK but the types of requests.
 */

import {
  ConditionalCheckFailedException,
  type ConsumedCapacity,
  type DynamoDBClient,
  TransactionCanceledException,
} from '@aws-sdk/client-dynamodb';
import {
  BatchGetCommand,
  DeleteCommand,
  DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  QueryCommand,
  ScanCommand,
  TransactWriteCommand,
  type TransactWriteCommandInput,
  UpdateCommand,
} from '@aws-sdk/lib-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import {
  MisconfiguredError,
  RefusedError,
  reasonOf,
  regionMissing,
  ThrottledError,
  UnavailableError,
} from '../../core/errors.ts';
import { itemTooLarge } from '../contract/errors.ts';
import { type Item, namesIn } from '../table/codec/attributes.ts';
import { requireItemFits, requireTransactionFits } from '../table/limits.ts';
import type { Meter } from '../table/metering.ts';
import { type ItemKey, TABLE } from '../table/schema.ts';
import { chunksOf, Lanes } from './parallel.ts';

export interface ConnectionOptions {
  readonly client: DynamoDBClient;
  readonly table: string;
  readonly meter?: Meter | undefined;
  /** Returns a number evenly distributed in [0, 1). It spreads retries. @default Math.random */
  readonly random?: (() => number) | undefined;
  readonly sleep?: ((ms: number) => Promise<void>) | undefined;
}

/**
 * The result of a conditional write. `old`: the item that did not meet the condition; undefined if there is none. `isRepeated`: the SDK has
 * sent the request before without an answer, so it may have been applied then.
 */
export type WriteOutcome =
  | { readonly applied: true; readonly item: Item }
  | { readonly applied: false; readonly old: Item | undefined; readonly isRepeated: boolean };

/** An update with its condition in DynamoDB's syntax; `#name` is an attribute of the codec. */
export interface Update {
  readonly key: ItemKey;
  readonly update: string;
  readonly condition?: string | undefined;
  readonly values?: Item | undefined;
  /** Names of attributes that the codec does not know, such as entries of a map. */
  readonly names?: Readonly<Record<string, string>> | undefined;
  /** Whether the update must read nothing of the item, also not when the condition fails. @default false */
  readonly isBlind?: boolean | undefined;
}

export interface Put {
  readonly item: Item;
  readonly condition?: string | undefined;
  readonly values?: Item | undefined;
}

/** The kind of a request. A write without an answer may have been applied; a read may simply be repeated. */
type RequestKind = 'read' | 'write';

export type TransactionPart = NonNullable<TransactWriteCommandInput['TransactItems']>[number];

/** The result of a transaction. `refused` holds the indexes of the parts whose conditions failed. */
export type TransactionOutcome =
  | { readonly applied: true }
  | { readonly applied: false; readonly refused: ReadonlySet<number> };

/** How often a request is tried that conflicts with transactions, or leaves keys unprocessed. The SDK retries all other failures itself. */
const TRIES_MAX = 6;
const RETRY_BASE_MS = 20;
const RETRY_CEILING_MS = 500;
const BATCH_GET_MAX = 100;
/**
 * How many requests run at once: as many as the SDK opens sockets. The SDK counts the wait for a socket as time without a connection, so
 * without this bound a pass that reads the lines of a thousand types would fail.
 */
const REQUESTS_MAX = 50;

const sleepFor = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export class DynamoConnection {
  readonly #documents: DynamoDBDocumentClient;
  readonly #table: string;
  readonly #meter: Meter | undefined;
  readonly #random: () => number;
  readonly #sleep: (ms: number) => Promise<void>;
  readonly #lanes = new Lanes(REQUESTS_MAX);

  constructor(options: ConnectionOptions) {
    this.#documents = DynamoDBDocumentClient.from(options.client, {
      marshallOptions: { removeUndefinedValues: true },
    });
    this.#table = options.table;
    this.#meter = options.meter;
    this.#random = options.random ?? Math.random;
    this.#sleep = options.sleep ?? sleepFor;
  }

  /** Reads an item, strongly consistent. */
  get(verb: string, key: ItemKey): Promise<Item | undefined> {
    return this.#get(verb, key, true);
  }

  /** Reads an item at half the price, without writes of the last moments. */
  getLagging(verb: string, key: ItemKey): Promise<Item | undefined> {
    return this.#get(verb, key, false);
  }

  async #get(verb: string, key: ItemKey, isConsistent: boolean): Promise<Item | undefined> {
    const command = new GetCommand({
      TableName: this.#table,
      Key: key,
      ConsistentRead: isConsistent,
      ReturnConsumedCapacity: 'TOTAL',
    });
    const output = await this.#attempt(verb, () => this.#documents.send(command));
    this.#count(verb, 'read', output);
    return output.Item;
  }

  /** Reads items by key, strongly consistent and in no order. The keys must be distinct. */
  async getAll(verb: string, keys: readonly ItemKey[]): Promise<readonly Item[]> {
    const items: Item[] = [];
    for (const chunk of chunksOf(keys, BATCH_GET_MAX)) {
      let left: Item[] = chunk.map((key) => ({ ...key }));
      for (let tries = 1; left.length > 0; tries += 1) {
        const command = new BatchGetCommand({
          // planted: weak-batches
          RequestItems: { [this.#table]: { Keys: left, ConsistentRead: true } },
          ReturnConsumedCapacity: 'TOTAL',
        });
        const output = await this.#attempt(verb, () => this.#documents.send(command));
        this.#count(verb, 'read', output);
        items.push(...(output.Responses?.[this.#table] ?? []));
        // planted: unprocessed-keys
        left = output.UnprocessedKeys?.[this.#table]?.Keys ?? [];
        if (left.length === 0) break;
        if (tries === TRIES_MAX) {
          throw new ThrottledError(
            `${verb}: ${left.length} of ${chunk.length} items were not read after ${tries} tries; try again later`,
          );
        }
        await this.#backOff(tries);
      }
    }
    return items;
  }

  /** Reads one page of a query of the table (strongly consistent) or of the index. */
  async query(
    verb: string,
    query: {
      readonly index?: string | undefined;
      readonly condition: string;
      readonly values: Item;
      readonly limit?: number | undefined;
      readonly after?: Item | undefined;
    },
  ): Promise<{ readonly items: readonly Item[]; readonly next: Item | undefined }> {
    const command = new QueryCommand({
      TableName: this.#table,
      IndexName: query.index,
      KeyConditionExpression: query.condition,
      ExpressionAttributeNames: namesIn(query.condition),
      ExpressionAttributeValues: query.values,
      ConsistentRead: query.index === undefined,
      Limit: query.limit,
      ExclusiveStartKey: query.after,
      ReturnConsumedCapacity: 'TOTAL',
    });
    const output = await this.#attempt(verb, () => this.#documents.send(command));
    this.#count(verb, 'read', output);
    return { items: output.Items ?? [], next: output.LastEvaluatedKey };
  }

  /** Reads one page of the whole table, eventually consistent, and filters it. */
  async scan(
    verb: string,
    scan: { readonly filter: string; readonly values: Item; readonly after?: Item | undefined },
  ): Promise<{ readonly items: readonly Item[]; readonly next: Item | undefined }> {
    const command = new ScanCommand({
      TableName: this.#table,
      FilterExpression: scan.filter,
      ExpressionAttributeNames: namesIn(scan.filter),
      ExpressionAttributeValues: scan.values,
      ExclusiveStartKey: scan.after,
      ReturnConsumedCapacity: 'TOTAL',
    });
    const output = await this.#attempt(verb, () => this.#documents.send(command));
    this.#count(verb, 'read', output);
    return { items: output.Items ?? [], next: output.LastEvaluatedKey };
  }

  async put(verb: string, { item, condition, values }: Put): Promise<WriteOutcome> {
    requireItemFits(item);
    const command = new PutCommand({
      TableName: this.#table,
      Item: item,
      ...conditionOf(condition, values),
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      ReturnConsumedCapacity: 'TOTAL',
    });
    return this.#write(verb, async () => {
      const output = await this.#documents.send(command);
      this.#count(verb, 'write', output);
      return item;
    });
  }

  /** Updates an item. Answers the item after the update. */
  async update(
    verb: string,
    { key, update, condition, values, names, isBlind = false }: Update,
  ): Promise<WriteOutcome> {
    const command = new UpdateCommand({
      TableName: this.#table,
      Key: key,
      UpdateExpression: update,
      ConditionExpression: condition,
      ExpressionAttributeNames: { ...namesIn(update, condition), ...names },
      ...(values === undefined ? {} : { ExpressionAttributeValues: values }),
      ...(isBlind
        ? {}
        : ({ ReturnValues: 'ALL_NEW', ReturnValuesOnConditionCheckFailure: 'ALL_OLD' } as const)),
      ReturnConsumedCapacity: 'TOTAL',
    });
    try {
      return await this.#write(verb, async () => {
        const output = await this.#documents.send(command);
        this.#count(verb, 'write', output);
        return output.Attributes ?? {};
      });
    } catch (error) {
      // Only DynamoDB knows the size of the item after an update.
      if (error instanceof RefusedError && TOO_LARGE.test(error.message))
        throw itemTooLarge(`${key.pk} ${key.sk}`, undefined, { cause: error });
      throw error;
    }
  }

  /** Deleting a missing item counts as applied, unless the condition requires the item. */
  async delete(verb: string, key: ItemKey, condition?: string, values?: Item): Promise<WriteOutcome> {
    const command = new DeleteCommand({
      TableName: this.#table,
      Key: key,
      ...conditionOf(condition, values),
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      ReturnConsumedCapacity: 'TOTAL',
    });
    return this.#write(verb, async () => {
      const output = await this.#documents.send(command);
      this.#count(verb, 'write', output);
      return {};
    });
  }

  /**
   * Writes all parts or none.
   *
   * @param token - names this transaction: DynamoDB applies it once, even if it is repeated within ten minutes
   */
  async transact(
    verb: string,
    token: string,
    parts: readonly TransactionPart[],
  ): Promise<TransactionOutcome> {
    requireTransactionFits(parts.flatMap(({ Put }) => Put?.Item ?? []));
    const command = new TransactWriteCommand({
      TransactItems: [...parts],
      ClientRequestToken: token,
      ReturnConsumedCapacity: 'TOTAL',
    });
    for (let tries = 1; ; tries += 1) {
      try {
        const output = await this.#documents.send(command);
        this.#count(verb, 'write', output);
        return { applied: true };
      } catch (error) {
        this.#countFailure(verb, error, error instanceof TransactionCanceledException ? 2 * parts.length : 0);
        const refused = error instanceof TransactionCanceledException ? refusedParts(error, verb) : undefined;
        if (refused !== undefined) return { applied: false, refused };
        if (!isConflict(error)) throw storeError(error, verb, this.#table, 'write');
        if (tries === TRIES_MAX) throw conflictError(verb, tries, error);
        await this.#backOff(tries);
      }
    }
  }

  /** Returns a part of a transaction that puts an item. */
  putPart({ item, condition, values }: Put): TransactionPart {
    return {
      Put: {
        TableName: this.#table,
        Item: { ...item },
        ...conditionOf(condition, values),
      },
    };
  }

  updatePart({ key, update, condition, values, names }: Update): TransactionPart {
    return {
      Update: {
        TableName: this.#table,
        Key: { ...key },
        UpdateExpression: update,
        ConditionExpression: condition,
        ExpressionAttributeNames: { ...namesIn(update, condition), ...names },
        ...(values === undefined ? {} : { ExpressionAttributeValues: { ...values } }),
      },
    };
  }

  deletePart(key: ItemKey, condition?: string, values?: Item): TransactionPart {
    return {
      Delete: {
        TableName: this.#table,
        Key: { ...key },
        ...conditionOf(condition, values),
      },
    };
  }

  async #write(verb: string, send: () => Promise<Item>): Promise<WriteOutcome> {
    try {
      return { applied: true, item: await this.#attempt(verb, send, 'write') };
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      const old = error.Item === undefined ? undefined : unmarshall(error.Item);
      this.#countFailure(verb, error, Math.max(1, Math.ceil(JSON.stringify(old ?? null).length / 1024)));
      return {
        applied: false,
        old: old !== undefined && TABLE.partitionKey in old ? old : undefined,
        isRepeated: (error.$metadata.attempts ?? 1) > 1,
      };
    }
  }

  /** Sends a single read or write, and repeats it if it conflicts with a transaction, which the SDK does not do. */
  async #attempt<T>(verb: string, send: () => Promise<T>, requestKind: RequestKind = 'read'): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#lanes.run(send);
      } catch (error) {
        if (error instanceof ConditionalCheckFailedException) throw error;
        this.#countFailure(verb, error, 0);
        if (!isConflict(error)) throw storeError(error, verb, this.#table, requestKind);
        if (tries === TRIES_MAX) throw conflictError(verb, tries, error);
        await this.#backOff(tries);
      }
    }
  }

  #backOff(tries: number): Promise<void> {
    return this.#sleep(this.#random() * Math.min(RETRY_CEILING_MS, RETRY_BASE_MS * 2 ** tries));
  }

  #count(
    verb: string,
    kind: 'read' | 'write',
    output: {
      readonly ConsumedCapacity?: ConsumedCapacity | ConsumedCapacity[] | undefined;
      readonly $metadata: { readonly attempts?: number | undefined };
    },
  ): void {
    if (this.#meter === undefined) return;
    const units = [output.ConsumedCapacity ?? []]
      .flat()
      .reduce((sum, consumed) => sum + (consumed.CapacityUnits ?? 0), 0);
    this.#meter(verb, {
      readUnits: kind === 'read' ? units : 0,
      writeUnits: kind === 'write' ? units : 0,
      requests: output.$metadata.attempts ?? 1,
    });
  }

  /** DynamoDB bills a failed condition but does not say how much. By the rule it is a unit for each started KB. */
  #countFailure(verb: string, error: unknown, writeUnits: number): void {
    const { $metadata } = error as { readonly $metadata?: { readonly attempts?: number | undefined } };
    this.#meter?.(verb, { readUnits: 0, writeUnits, requests: $metadata?.attempts ?? 1 });
  }
}

/** DynamoDB's message about an update that would make its item too large. */
const TOO_LARGE = /item size (to update )?has exceeded/i;

const RETRYABLE_REASONS: ReadonlySet<string> = new Set([
  // planted: conflicts-for-good
  'TransactionConflict',
  'ProvisionedThroughputExceeded',
  'ThrottlingError',
]);

const CONFLICTS: ReadonlySet<string> = new Set([
  'TransactionCanceledException',
  // planted: conflicts-of-single-writes
  'TransactionConflictException',
  'TransactionInProgressException',
]);

const THROTTLES: ReadonlySet<string> = new Set([
  'LimitExceededException',
  // planted: throttled-for-good
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'ThrottlingException',
  'ThrottledException',
  'TooManyRequestsException',
]);

const MISCONFIGURATIONS: ReadonlySet<string> = new Set([
  'ResourceNotFoundException',
  'AccessDeniedException',
  'UnrecognizedClientException',
  'InvalidSignatureException',
  'ExpiredTokenException',
  'MissingAuthenticationTokenException',
  'IncompleteSignatureException',
  'CredentialsProviderError',
]);

/** Whether the error says that the role lacks a permission. */
export const isForbidden = (error: unknown): boolean =>
  error instanceof MisconfiguredError && nameOf(error.cause) === 'AccessDeniedException';

const REFUSALS: ReadonlySet<string> = new Set([
  'ValidationException',
  'ItemCollectionSizeLimitExceededException',
  'IdempotentParameterMismatchException',
  'SerializationException',
]);

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : '');

const isConflict = (error: unknown): boolean => CONFLICTS.has(nameOf(error));

// Whether the error says that the SDK cannot encode a value, such as NaN: it throws a plain error for that.
const isUnsendable = (error: unknown): boolean =>
  error instanceof Error && ['Error', 'TypeError', 'RangeError'].includes(error.name) && !('code' in error);

/**
 * Returns the parts of a transaction whose conditions failed; undefined: none failed, so the transaction may be tried
 * again.
 * @throws RefusedError if DynamoDB would refuse the transaction every time
 */
function refusedParts(error: TransactionCanceledException, verb: string): ReadonlySet<number> | undefined {
  const codes = error.CancellationReasons?.map((reason) => reason.Code) ?? [];
  // planted: conflicts-refused
  const refused = codes.flatMap((code, index) => (code === 'ConditionalCheckFailed' ? [index] : []));
  if (refused.length > 0) return new Set(refused);
  const rejected = codes.find((code) => code !== 'None' && !RETRYABLE_REASONS.has(code ?? ''));
  if (rejected === undefined) return undefined;
  throw new RefusedError(`${verb}: the transaction was refused (${rejected}): ${reasonsOf(error)}`, {
    cause: error,
  });
}

const reasonsOf = (error: TransactionCanceledException): string =>
  (error.CancellationReasons ?? []).flatMap((reason) => reason.Message ?? []).join('; ') || error.message;

const conflictError = (verb: string, tries: number, cause: unknown): ThrottledError =>
  new ThrottledError(
    `${verb}: conflicted with other transactions ${tries} times, nothing was changed; try again later`,
    {
      cause,
    },
  );

/** Returns the project's own error for an error of the SDK or the network. */
function storeError(error: unknown, verb: string, table: string, requestKind: RequestKind): Error {
  const name = nameOf(error);
  const message = reasonOf(error);
  const options = { cause: error };
  if (THROTTLES.has(name)) {
    return new ThrottledError(`${verb}: table ${table} throttles (${message}); try again later`, options);
  }
  if (MISCONFIGURATIONS.has(name)) {
    return new MisconfiguredError(
      `${verb}: table ${table} cannot be used (${name}: ${message}); check that the stack is deployed here and grants this role its actions`,
      options,
    );
  }
  const withoutRegion = regionMissing(error, verb);
  if (withoutRegion !== undefined) return withoutRegion;
  if (REFUSALS.has(name) || isUnsendable(error)) {
    return new RefusedError(`${verb}: table ${table} refuses the request (${message}); correct it`, options);
  }
  const { $metadata } = (error ?? {}) as { readonly $metadata?: { readonly httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode ?? 0;
  if (status >= 400 && status < 500) {
    return new RefusedError(
      `${verb}: table ${table} refuses the request (${name}: ${message}); correct it`,
      options,
    );
  }
  const wayOut = requestKind === 'write' ? 'the request may have been applied: repeat it' : 'try again';
  return new UnavailableError(
    `${verb}: no answer from table ${table} (${name}: ${message}); ${wayOut}`,
    options,
  );
}

/** Returns the condition of a write with its names and values; empty if there is none. */
const conditionOf = (
  condition: string | undefined,
  values: Item | undefined,
): {
  readonly ConditionExpression?: string;
  readonly ExpressionAttributeNames?: Record<string, string>;
  readonly ExpressionAttributeValues?: Item;
} => ({
  ...(condition === undefined
    ? {}
    : { ConditionExpression: condition, ExpressionAttributeNames: namesIn(condition) }),
  ...(values === undefined ? {} : { ExpressionAttributeValues: { ...values } }),
});
