/** What weak reads still show: items as they were before a write, some reads long. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { BatchGetCommand, DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import { entryOf } from '../../lib/store/table/metering.ts';
import { TABLE } from '../../lib/store/table/schema.ts';

export type Item = Readonly<Record<string, unknown>>;

export interface PageOf {
  readonly Items: readonly Item[];
  readonly LastEvaluatedKey?: Item | undefined;
}

/** What says which items a query asks for. */
export interface Asks {
  readonly IndexName?: string | undefined;
  readonly ConsistentRead?: boolean | undefined;
  readonly ExpressionAttributeValues?: Item | undefined;
  readonly ExclusiveStartKey?: Item | undefined;
  readonly Limit: number;
}

export const nameOfKey = (key: Item): string => `${key[TABLE.partitionKey]} ${key[TABLE.sortKey]}`;

/** As DynamoDB orders keys: by their bytes. */
const inOrder = (one: unknown, other: unknown): number =>
  Buffer.compare(Buffer.from(String(one)), Buffer.from(String(other)));

const projected = (item: Item): Item =>
  Object.fromEntries(Object.entries(entryOf(item)).filter(([, value]) => value !== undefined));

const BATCH_MAX = 100;

export class Past {
  readonly #documents: DynamoDBDocumentClient;
  readonly #table: string;
  /** By key: what is still shown, and how many reads long. */
  readonly #kept = new Map<string, { readonly before: Item | undefined; left: number }>();

  constructor(client: DynamoDBClient, table: string) {
    this.#documents = DynamoDBDocumentClient.from(client);
    this.#table = table;
  }

  /** Items as they are, by the names of their keys. */
  async look(keys: readonly Item[]): Promise<ReadonlyMap<string, Item | undefined>> {
    const found = new Map<string, Item | undefined>();
    for (const { [TABLE.partitionKey]: pk, [TABLE.sortKey]: sk } of keys)
      found.set(nameOfKey({ pk, sk }), undefined);
    for (let from = 0; from < keys.length; from += BATCH_MAX) {
      const some = keys.slice(from, from + BATCH_MAX);
      const distinct = new Map(some.map(({ pk, sk }) => [nameOfKey({ pk, sk }), { pk, sk }]));
      let left: Item[] = [...distinct.values()];
      while (left.length > 0) {
        const { Responses, UnprocessedKeys } = await this.#documents.send(
          new BatchGetCommand({ RequestItems: { [this.#table]: { Keys: left, ConsistentRead: true } } }),
        );
        for (const item of Responses?.[this.#table] ?? []) found.set(nameOfKey(item), item);
        left = UnprocessedKeys?.[this.#table]?.Keys ?? [];
      }
    }
    return found;
  }

  /** Shows these to so many weak reads, in place of what was written since. */
  keep(items: ReadonlyMap<string, Item | undefined>, reads: number): void {
    for (const [name, before] of items) {
      const kept = this.#kept.get(name);
      this.#kept.set(name, { before: kept === undefined ? before : kept.before, left: reads });
    }
  }

  /** What a weak read by keys shows of what it found. */
  items(keys: readonly Item[], found: readonly Item[]): readonly Item[] {
    const present = new Map(found.map((item) => [nameOfKey(item), item]));
    return keys.flatMap((key): readonly Item[] | Item => {
      const name = nameOfKey(key);
      const kept = this.#kept.get(name);
      if (kept === undefined) return present.get(name) ?? [];
      this.#shown(name);
      return kept.before ?? [];
    });
  }

  /** What a weak query shows of a page that it found. */
  page(page: PageOf, asks: Asks): PageOf {
    if (asks.ConsistentRead === true || this.#kept.size === 0) return page;
    const isIndex = asks.IndexName !== undefined;
    const [of, by] = isIndex ? [TABLE.line, TABLE.rank] : [TABLE.partitionKey, TABLE.sortKey];
    const {
      ':line': line,
      ':pk': pk,
      ':above': above,
      ':below': below,
      ':from': from,
    } = asks.ExpressionAttributeValues ?? {};
    const isAsked = (item: Item): boolean => {
      const at = item[by];
      if (item[of] !== (isIndex ? line : pk)) return false;
      if (above !== undefined && inOrder(at, above) <= 0) return false;
      if (from !== undefined && inOrder(at, from) < 0) return false;
      if (below !== undefined && inOrder(at, below) >= (from === undefined ? 0 : 1)) return false;
      const { [by]: start } = asks.ExclusiveStartKey ?? {};
      const { [by]: end } = page.LastEvaluatedKey ?? {};
      if (start !== undefined && inOrder(at, start) <= 0) return false;
      return end === undefined || inOrder(at, end) <= 0;
    };
    const items = page.Items.filter((item) => !this.#kept.has(nameOfKey(item)));
    const shown = new Set(page.Items.map(nameOfKey).filter((name) => this.#kept.has(name)));
    for (const [name, { before }] of this.#kept) {
      if (before === undefined || !isAsked(before)) continue;
      items.push(isIndex ? projected(before) : before);
      shown.add(name);
    }
    for (const name of shown) this.#shown(name);
    items.sort((one, other) => inOrder(one[by], other[by]));
    if (items.length <= asks.Limit) return { ...page, Items: items };
    return { Items: items.slice(0, asks.Limit) };
  }

  #shown(name: string): void {
    const kept = this.#kept.get(name);
    if (kept === undefined) return;
    kept.left -= 1;
    if (kept.left <= 0) this.#kept.delete(name);
  }
}
