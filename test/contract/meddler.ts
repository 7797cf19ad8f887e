/**
 * A client that meddles: it stands between the adapter and the table, and does to each request what DynamoDB may do and
 * an emulator never does. A plan says what.
 *
 * Nobody who calls the store may notice: answers in parts (pages that are short or empty, batches of which keys
 * are left over), batches in another order, answers that are late, and, as long as they are fewer than the
 * SDK or the adapter tries, throttling, failures of the service, transactions in the way, and lost requests and answers.
 * Where a lost answer cannot be told from a lost race, it may read as one: as the contract says of `createJobs`,
 * `promote` and `unpark`; and a letter may be put twice. What goes on beyond these tries may surface, as `ThrottledError` or
 * `UnavailableError`; `claim` says `unknown`, and what only tidies is silent. Then the same call gives the right answer
 * again. What DynamoDB refuses for good surfaces as `RefusedError`. Weak reads may show the past: only verbs that
 * promise strong ones must not.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type CancellationReason,
  ConditionalCheckFailedException,
  DynamoDBClient,
  type DynamoDBClientConfig,
  DynamoDBServiceException,
  TransactionCanceledException,
} from '@aws-sdk/client-dynamodb';
import { TABLE } from '../../lib/store/table/schema.ts';
import { clientConfiguration, type TestTable } from './aws.ts';
import { type Item, nameOfKey, Past } from './past.ts';

/** A request, as the adapter makes it. */
export interface Asked {
  /** Such as `UpdateItem`. */
  readonly command: string;
  /** Of the items that it writes or reads: `<partition key> <sort key>`; of a query: the line, or the partition key. */
  readonly keys: readonly string[];
  /** Of a transaction. */
  readonly parts: number;
  /** A write that is done on a condition. */
  readonly isConditional: boolean;
}

/** What becomes of one try of a request; the SDK makes up to `TRIES` of them. */
export type TryFault =
  /** It is not done, and this is answered. */
  | { readonly kind: 'refused'; readonly error: () => Error }
  /** It is not done, and nothing is answered. */
  | { readonly kind: 'unsent' }
  /** It is done, and nothing is answered. */
  | { readonly kind: 'unanswered' }
  | { readonly kind: 'late'; readonly ms: number };

/** What becomes of a request as a whole. */
export interface Shape {
  /** Of a query: items of its page, at most; of a scan: items that are looked at for a page. */
  readonly limit?: number | undefined;
  /** Of a query: a page without items, behind which others follow. */
  readonly isEmpty?: boolean | undefined;
  /** Of a batch of keys: so many are read. None are answered in the order of the keys. */
  readonly read?: number | undefined;
  /** Of a write: so many weak reads show what was before it. */
  readonly lag?: number | undefined;
}

export interface Plan {
  readonly shape?: ((asked: Asked) => Shape) | undefined;
  /** `tries`: from 1. */
  readonly fault?: ((asked: Asked, tries: number) => TryFault | undefined) | undefined;
}

export type Meddling = TryFault['kind'] | keyof Shape;

/** What one call of the store had done, whether or not it was answered. */
export type Done = Map<string, number>;

export interface Meddler {
  readonly follow: (plan: Plan) => void;
  /** Requests since this was last asked. */
  readonly takeAsked: () => readonly Asked[];
  /** Runs a call of the store. What it writes is counted by key. */
  readonly during: <T>(done: Done, call: () => Promise<T>) => Promise<T>;
  /** How often it has meddled, by kind. */
  readonly times: ReadonlyMap<Meddling, number>;
  readonly close: () => void;
}

/** Tries of a request by the SDK. */
export const TRIES = 3;

/** Tries again what the SDK's own strategy does, at once. */
export function hurriedRetries(): NonNullable<DynamoDBClientConfig['retryStrategy']> {
  const token = (retries: number) => ({ getRetryCount: () => retries, getRetryDelay: () => 0 });
  return {
    acquireInitialRetryToken: async () => token(0),
    refreshRetryTokenForRetry: async (last, { errorType }) => {
      const retries = last.getRetryCount() + 1;
      const isPassing = errorType === 'THROTTLING' || errorType === 'TRANSIENT';
      if (!isPassing || retries === TRIES) throw new Error('no more tries');
      return token(retries);
    },
    recordSuccess: () => {},
  };
}

const STATUS = {
  ProvisionedThroughputExceededException: 400,
  ThrottlingException: 400,
  RequestLimitExceeded: 400,
  LimitExceededException: 400,
  ThrottledException: 400,
  TooManyRequestsException: 429,
  TransactionConflictException: 400,
  TransactionInProgressException: 400,
  ItemCollectionSizeLimitExceededException: 400,
  InternalServerError: 500,
  ServiceUnavailable: 503,
} as const;

/** Exceptions that DynamoDB answers. */
export type ExceptionName = keyof typeof STATUS;

export const exception = (name: ExceptionName): Error =>
  new DynamoDBServiceException({
    name,
    message: `${name}, says the meddler`,
    $fault: STATUS[name] < 500 ? 'client' : 'server',
    $metadata: { httpStatusCode: STATUS[name] },
  });

/** A condition that fails, of an item that is not there. */
export const conditionFailed = (): Error =>
  new ConditionalCheckFailedException({
    message: 'The conditional request failed, says the meddler',
    $metadata: { httpStatusCode: 400 },
  });

/** A transaction that is cancelled: by position, why. */
export const cancelled = (parts: number, reasons: ReadonlyMap<number, string>): Error =>
  new TransactionCanceledException({
    message: 'Transaction cancelled, says the meddler',
    CancellationReasons: Array.from({ length: parts }, (_, at): CancellationReason => {
      const Code = reasons.get(at) ?? 'None';
      return Code === 'None' ? { Code } : { Code, Message: `${Code} at ${at}` };
    }),
    $metadata: { httpStatusCode: 400 },
  });

const noAnswer = (message: string): Error =>
  Object.assign(new Error(message), { name: 'TimeoutError', code: 'ECONNRESET', $metadata: {} });

/** As much of the adapter's requests as a meddler looks at. */
interface Input {
  readonly TableName?: string;
  readonly Key?: Item;
  readonly Item?: Item;
  readonly RequestItems?: Readonly<
    Record<string, { readonly Keys: readonly Item[]; readonly ConsistentRead?: boolean }>
  >;
  readonly TransactItems?: readonly Readonly<Record<string, { readonly Key?: Item; readonly Item?: Item }>>[];
  readonly ConditionExpression?: string;
  readonly IndexName?: string;
  readonly ExpressionAttributeValues?: Item;
  readonly ConsistentRead?: boolean;
  readonly Limit?: number;
  readonly ExclusiveStartKey?: Item;
}

interface Output {
  readonly $metadata: object;
  readonly Item?: Item;
  readonly Items?: readonly Item[];
  readonly LastEvaluatedKey?: Item;
  readonly Responses?: unknown;
  readonly UnprocessedKeys?: unknown;
}

type Send = (input: Input) => Promise<Output>;

const NOT_SENT = { $metadata: { attempts: 1 } };

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export const isWrite = ({ command }: Pick<Asked, 'command'>): boolean =>
  !['GetItem', 'BatchGetItem', 'Query', 'Scan'].includes(command);

/** Keys of the items of a request, as they stand in it. */
function itemKeys(command: string, input: Input): readonly Item[] {
  switch (command) {
    case 'GetItem':
    case 'UpdateItem':
    case 'DeleteItem':
      return [input.Key ?? {}];
    case 'PutItem':
      return [input.Item ?? {}];
    case 'BatchGetItem':
      return Object.values(input.RequestItems ?? {}).flatMap(({ Keys }) => Keys);
    case 'TransactWriteItems':
      return (input.TransactItems ?? []).flatMap((part) =>
        Object.values(part).map(({ Key, Item: whole }) => Key ?? whole ?? {}),
      );
    case 'Query':
    case 'Scan':
    case 'DeleteTable':
      return [];
    default:
      throw new Error(`the meddler does not know ${command}: say here what DynamoDB may do to it`);
  }
}

function askedOf(command: string, input: Input): Asked {
  const { ':line': line, ':pk': pk } = input.ExpressionAttributeValues ?? {};
  return {
    command,
    keys: command === 'Query' ? [String(line ?? pk)] : itemKeys(command, input).map(nameOfKey),
    parts: (input.TransactItems ?? []).length,
    isConditional: input.ConditionExpression !== undefined,
  };
}

/** Stands for the place before a query's first item, where an empty page ends. */
const BEFORE_ALL = '\u0001';

export function meddle({ client, table }: Pick<TestTable, 'client' | 'table'>): Meddler {
  let plan: Plan = {};
  let taken: Asked[] = [];
  const times = new Map<Meddling, number>();
  const calls = new AsyncLocalStorage<Done>();
  const quiet = new DynamoDBClient(clientConfiguration);
  const past = new Past(quiet, table);
  /** Of a request on its way: what it is, and how often it was tried. */
  const underWay = new WeakMap<object, { readonly asked: Asked; tries: number }>();

  const count = (kind: Meddling): void => {
    times.set(kind, (times.get(kind) ?? 0) + 1);
  };

  async function query(
    input: Input,
    { limit = Infinity, isEmpty = false }: Shape,
    send: Send,
  ): Promise<Output> {
    const { IndexName, ExclusiveStartKey, Limit = Infinity, ExpressionAttributeValues = {} } = input;
    const names =
      IndexName === undefined
        ? [TABLE.partitionKey, TABLE.sortKey]
        : [TABLE.line, TABLE.rank, TABLE.partitionKey, TABLE.sortKey];
    const keyOf = (item: Item): Item => Object.fromEntries(names.map((name) => [name, item[name]]));
    const of = ExpressionAttributeValues[IndexName === undefined ? ':pk' : ':line'];
    if (isEmpty) {
      count('isEmpty');
      const first = Object.fromEntries(names.map((name) => [name, name === names[0] ? of : BEFORE_ALL]));
      return { ...NOT_SENT, Items: [], LastEvaluatedKey: ExclusiveStartKey ?? first };
    }
    const isFirst = Object.values(ExclusiveStartKey ?? {}).includes(BEFORE_ALL);
    const { ExclusiveStartKey: _, ...unbounded } = input;
    const from = isFirst ? unbounded : input;
    const most = Math.min(limit, Limit);
    if (most < Limit) count('limit');
    const output = await send(most === Infinity ? from : { ...from, Limit: most });
    const page = past.page(
      { Items: output.Items ?? [], LastEvaluatedKey: output.LastEvaluatedKey },
      { ...from, Limit: most },
    );
    // A page that is full says that others may follow, also where nothing does.
    const last = page.Items.length === most ? page.Items.at(-1) : undefined;
    const next = page.LastEvaluatedKey ?? (last && keyOf(last));
    const { LastEvaluatedKey: __, ...rest } = output;
    return { ...rest, Items: page.Items, ...(next === undefined ? {} : { LastEvaluatedKey: next }) };
  }

  /** What a filter keeps of a page may be nothing, and others follow. */
  async function scan(input: Input, { limit }: Shape, send: Send): Promise<Output> {
    if (limit === undefined) return send(input);
    count('limit');
    return send({ ...input, Limit: limit });
  }

  async function batchGet(input: Input, { read = Infinity }: Shape, send: Send): Promise<Output> {
    const [[table, request] = []] = Object.entries(input.RequestItems ?? {});
    if (table === undefined || request === undefined) return send(input);
    const { Keys } = request;
    const left = Keys.slice(read);
    if (left.length > 0) count('read');
    const some = left.length === 0 ? Keys : Keys.slice(0, read);
    const output: Output =
      some.length === 0
        ? { ...NOT_SENT, Responses: { [table]: [] } }
        : await send({ ...input, RequestItems: { [table]: { ...request, Keys: some } } });
    const found = (output.Responses as Readonly<Record<string, readonly Item[]>>)[table] ?? [];
    const shown = request.ConsistentRead === true ? found : past.items(some, found);
    return {
      ...output,
      Responses: { [table]: shown.toReversed() },
      UnprocessedKeys: left.length === 0 ? {} : { [table]: { ...request, Keys: left } },
    };
  }

  client.middlewareStack.add(
    (next, context) => async (args) => {
      const command = (context.commandName ?? '').replace(/Command$/, '');
      const input = args.input as unknown as Input;
      const asked = askedOf(command, input);
      const shape = plan.shape?.(asked) ?? {};
      taken.push(asked);
      underWay.set(context, { asked, tries: 0 });
      let response: unknown;
      const send: Send = async (changed) => {
        const answer = await next({ ...args, input: changed as unknown as typeof args.input });
        response = answer.response;
        return answer.output as unknown as Output;
      };
      const carryOut = async (): Promise<Output> => {
        switch (command) {
          case 'Query':
            return query(input, shape, send);
          case 'Scan':
            return scan(input, shape, send);
          case 'BatchGetItem':
            return batchGet(input, shape, send);
          case 'GetItem': {
            const output = await send(input);
            if (input.ConsistentRead === true) return output;
            const [item] = past.items([input.Key ?? {}], output.Item === undefined ? [] : [output.Item]);
            const { Item: _, ...rest } = output;
            return item === undefined ? rest : { ...rest, Item: item };
          }
          default:
            return send(input);
        }
      };
      const keys = shape.lag === undefined || !isWrite({ command }) ? [] : itemKeys(command, input);
      const before = await past.look(keys);
      const output = await carryOut();
      if (shape.lag !== undefined && keys.length > 0) {
        count('lag');
        past.keep(before, shape.lag);
      }
      return { response, output: output as unknown as Awaited<ReturnType<typeof next>>['output'] };
    },
    { step: 'initialize', name: 'meddleWithRequests', priority: 'high' },
  );

  client.middlewareStack.add(
    (next, context) => async (args) => {
      const known = underWay.get(context);
      if (known === undefined) throw new Error('a try of a request that nobody has made');
      known.tries += 1;
      const { asked } = known;
      const fault = plan.fault?.(asked, known.tries);
      if (fault !== undefined) count(fault.kind);
      if (fault?.kind === 'refused') throw fault.error();
      if (fault?.kind === 'unsent') throw noAnswer('the request got lost');
      const carryOut = async (): Promise<Awaited<ReturnType<typeof next>>> => {
        const answer = await next(args);
        const done = calls.getStore();
        if (isWrite(asked)) for (const key of asked.keys) done?.set(key, (done.get(key) ?? 0) + 1);
        return answer;
      };
      if (fault?.kind === 'late') {
        const answer = await carryOut();
        await pause(fault.ms);
        return answer;
      }
      if (fault?.kind !== 'unanswered') return carryOut();
      // An answer that says no gets lost as well as one that says yes.
      await carryOut().catch(() => undefined);
      throw noAnswer('the answer got lost');
    },
    { step: 'deserialize', name: 'meddleWithTries', priority: 'high' },
  );

  return {
    follow: (next) => {
      plan = next;
    },
    takeAsked: () => {
      const all = taken;
      taken = [];
      return all;
    },
    during: (done, call) => calls.run(done, call),
    times,
    close: () => quiet.destroy(),
  };
}
