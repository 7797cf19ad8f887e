/**
 * What each role asks of the table by the store's verbs, and whether its policy lets it. The policies are the golden files,
 * of which a test of the construct says that they are what is deployed.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { readFileSync } from 'node:fs';
import { type DynamoDBClient, DynamoDBServiceException } from '@aws-sdk/client-dynamodb';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { LEADING_KEYS, TABLE } from '../../lib/store/table/schema.ts';
import { ROLES, type RoleName } from './roles.ts';

/** One right that a request needs; of a transaction or a batch, each of its parts needs one. */
interface Asked {
  /** Such as `dynamodb:UpdateItem`. */
  readonly action: string;
  readonly resource: 'table' | 'index';
  /** The partition key; undefined where a request has none, as a scan. */
  readonly key: string | undefined;
  /** The attributes that an update names, beside its key. */
  readonly attributes: readonly string[];
  /** What an update answers of its item. */
  readonly returns: string;
}

interface Keyed {
  readonly Key?: Readonly<Record<string, unknown>>;
  readonly Item?: Readonly<Record<string, unknown>>;
}

/** As much of the adapter's requests as is authorised. */
interface Input extends Keyed {
  readonly RequestItems?: Readonly<
    Record<string, { readonly Keys: readonly Readonly<Record<string, unknown>>[] }>
  >;
  readonly TransactItems?: readonly Readonly<Record<string, Keyed>>[];
  readonly IndexName?: string;
  readonly KeyConditionExpression?: string;
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>>;
  readonly ReturnValues?: string;
  readonly ExpressionAttributeValues?: Readonly<Record<string, unknown>>;
}

const PART_ACTIONS: Readonly<Record<string, string>> = {
  Put: 'PutItem',
  Update: 'UpdateItem',
  Delete: 'DeleteItem',
  ConditionCheck: 'ConditionCheckItem',
};

const partitionKeyOf = ({ Key, Item }: Keyed): string => String((Key ?? Item)?.[TABLE.partitionKey]);

/** @throws Error for a command of which nobody has said what it needs */
function askedBy(command: string, input: Input): readonly Asked[] {
  const of = (action: string, key: string | undefined, resource: Asked['resource'] = 'table'): Asked => ({
    action: `dynamodb:${action}`,
    resource,
    key,
    attributes: Object.values(input.ExpressionAttributeNames ?? {}),
    returns: input.ReturnValues ?? 'NONE',
  });
  switch (command) {
    case 'GetItem':
    case 'PutItem':
    case 'UpdateItem':
    case 'DeleteItem':
      return [of(command, partitionKeyOf(input))];
    case 'BatchGetItem':
      return Object.values(input.RequestItems ?? {}).flatMap(({ Keys }) =>
        Keys.map((Key) => of(command, partitionKeyOf({ Key }))),
      );
    case 'TransactWriteItems':
      return (input.TransactItems ?? []).flatMap((part) =>
        Object.entries(part).map(([kind, each]) => of(PART_ACTIONS[kind] ?? kind, partitionKeyOf(each))),
      );
    case 'Query': {
      const [, value = ''] = /^#\w+ = (:\w+)/.exec(input.KeyConditionExpression ?? '') ?? [];
      const key = String(input.ExpressionAttributeValues?.[value]);
      return [of(command, key, input.IndexName === undefined ? 'table' : 'index')];
    }
    case 'Scan':
      return [of(command, undefined)];
    default:
      throw new Error(`say here which right ${command} needs`);
  }
}

interface Statement {
  readonly Action: string | readonly string[];
  readonly Resource: string | readonly string[];
  readonly Condition?: {
    readonly 'ForAllValues:StringEquals'?: { readonly 'dynamodb:Attributes': readonly string[] };
    readonly StringEqualsIfExists?: { readonly 'dynamodb:ReturnValues': string };
    readonly 'ForAllValues:StringLike'?: { readonly 'dynamodb:LeadingKeys': readonly string[] };
  };
}

const listOf = (value: string | readonly string[]): readonly string[] =>
  typeof value === 'string' ? [value] : value;

const RESOURCES: Readonly<Record<string, Asked['resource']>> = {
  // biome-ignore-start lint/suspicious/noTemplateCurlyInString: the golden files name resources so
  '${JobsTable.Arn}': 'table',
  '${JobsTable.Arn}/index/lines': 'index',
  // biome-ignore-end lint/suspicious/noTemplateCurlyInString: the golden files name resources so
};

/** One action on the items whose partition keys are like one pattern; undefined: on all. */
interface Right {
  readonly action: string;
  readonly resource: Asked['resource'];
  readonly like: string | undefined;
  /** The only attributes that it covers; undefined: all. */
  readonly attributes: readonly string[] | undefined;
  /** The only answer of an update that it covers; undefined: any. */
  readonly returns: string | undefined;
}

/** What the role's golden file lets it do to the table. */
export function rightsOf(role: RoleName): readonly Right[] {
  const file = new URL(`../cdk/golden/${ROLES[role].golden}.json`, import.meta.url);
  const statements = JSON.parse(readFileSync(file, 'utf8')) as readonly Statement[];
  return statements.flatMap(({ Action, Resource, Condition }) => {
    const patterns = Condition?.['ForAllValues:StringLike']?.['dynamodb:LeadingKeys'] ?? [undefined];
    const attributes = Condition?.['ForAllValues:StringEquals']?.['dynamodb:Attributes'];
    const returns = Condition?.StringEqualsIfExists?.['dynamodb:ReturnValues'];
    return listOf(Resource).flatMap((name) => {
      const resource = RESOURCES[name];
      if (resource === undefined) return [];
      return listOf(Action).flatMap((action) =>
        patterns.map((like) => ({ action, resource, like, attributes, returns })),
      );
    });
  });
}

const isLike = (key: string, pattern: string): boolean =>
  pattern.endsWith('*') ? key.startsWith(pattern.slice(0, -1)) : key === pattern;

function isOf({ action, resource, key, attributes, returns }: Asked, right: Right): boolean {
  if (right.action !== action || right.resource !== resource) return false;
  if (right.returns !== undefined && right.returns !== returns) return false;
  if (!attributes.every((name) => right.attributes?.includes(name) ?? true)) return false;
  return right.like === undefined || (key !== undefined && isLike(key, right.like));
}

/** For people, and to compare: the key by its family, the line of an index as any. */
function named({ action, resource, key }: Asked): string {
  const [family] = Object.values(LEADING_KEYS).filter((pattern) => key !== undefined && isLike(key, pattern));
  return `${action.replace('dynamodb:', '')} ${resource === 'index' ? 'index' : (family ?? key ?? 'all')}`;
}

export type AskedByVerb = ReadonlyMap<string, ReadonlySet<Asked>>;

export interface Watch {
  /** The same store, of which each request is known by its verb. */
  readonly watched: (store: JobStore) => JobStore;
  /** By verb, since this was last taken. */
  readonly take: () => AskedByVerb;
  /** Runs what is no verb of the store as if it were one. */
  readonly during: <T>(verb: string, call: () => T) => T;
}

/** Hears each request of a client, by the verb that makes it; `refuse` stands for IAM. */
export function watch(client: DynamoDBClient, refuse: (asked: Asked) => boolean = () => false): Watch {
  const verbs = new AsyncLocalStorage<string>();
  let asked = new Map<string, Set<Asked>>();
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const verb = verbs.getStore();
      if (verb === undefined) return next(args);
      const command = (context.commandName ?? '').replace(/Command$/, '');
      const all = askedBy(command, args.input as unknown as Input);
      const known = asked.get(verb) ?? new Set<Asked>();
      for (const each of all) known.add(each);
      asked.set(verb, known);
      const refused = all.find(refuse);
      if (refused !== undefined) throw accessDenied(refused);
      return next(args);
    },
    { step: 'initialize', name: 'watchRights', priority: 'high' },
  );
  return {
    watched: (store) =>
      new Proxy(store, {
        get: (_, verb: keyof JobStore) => {
          const call: (...parameters: never[]) => unknown = store[verb].bind(store);
          return (...parameters: never[]) => verbs.run(verb, () => call(...parameters));
        },
      }),
    take: () => {
      const taken = asked;
      asked = new Map();
      return taken;
    },
    during: (verb, call) => verbs.run(verb, call),
  };
}

const accessDenied = (asked: Asked): Error =>
  new DynamoDBServiceException({
    name: 'AccessDeniedException',
    message: `not authorized to perform: ${named(asked)}`,
    $fault: 'client',
    $metadata: { httpStatusCode: 400 },
  });

/** What requests of these verbs the role's policy would refuse. */
export function refusedTo(role: RoleName, asked: AskedByVerb): readonly string[] {
  const rights = rightsOf(role);
  const refused = ROLES[role].verbs.flatMap((verb) =>
    [...(asked.get(verb) ?? [])]
      .filter((each) => !rights.some((right) => isOf(each, right)))
      .map((each) => `${verb}: ${named(each)}`),
  );
  return [...new Set(refused)];
}

/** The two ways to get an item are one right: who may get it alone may get it among others. */
const gets = (action: string): string => action.replace('BatchGetItem', 'GetItem');

/** What the role's policy lets it do, and no request of its verbs needs. */
export function unusedBy(role: RoleName, asked: AskedByVerb): readonly string[] {
  const all = ROLES[role].verbs.flatMap((verb) => [...(asked.get(verb) ?? [])]);
  const used = all.map((each) => ({ ...each, action: gets(each.action) }));
  return rightsOf(role)
    .map((right) => ({ ...right, action: gets(right.action) }))
    .filter((right) => !used.some((each) => isOf(each, right)))
    .map(({ action, resource, like }) => `${action} ${resource} ${like ?? '*'}`);
}

/** Stands for IAM: what the role's policy does not allow. */
export function mayNot(role: RoleName): (asked: Asked) => boolean {
  const rights = rightsOf(role);
  return (asked) => !rights.some((right) => isOf(asked, right));
}
