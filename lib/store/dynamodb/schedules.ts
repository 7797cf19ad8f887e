/** Schedules in DynamoDB. */

import { randomUUID } from 'node:crypto';
import { RefusedError } from '../../core/errors.ts';
import type { ScheduleRecord } from '../../core/recurring.ts';
import { MalformedItemError } from '../contract/errors.ts';
import type { Applied } from '../contract/requests.ts';
import type { ScheduleHeads, ScheduleStore } from '../contract/schedules.ts';
import type { RequestOf } from '../contract/verbs.ts';
import type { Item } from '../table/codec/attributes.ts';
import {
  decodeDeclaredSchedules,
  decodeSchedule,
  encodeDeclaredSchedules,
  encodeScheduleSpec,
  encodeScheduleState,
  idIn,
  isReadableSchedule,
  partitionOfLine,
} from '../table/codec/schedule.ts';
import {
  declaredSchedulesKey,
  type ItemKey,
  instantRank,
  scheduleKey,
  scheduleSpecKey,
  schedulesLineName,
  stoppedSchedulesLineName,
  TABLE,
} from '../table/schema.ts';
import type { DynamoConnection } from './connection.ts';
import type { TableItems } from './items.ts';

const IS_UNCHANGED = '#revision = :seen';

export class DynamoScheduleStore implements ScheduleStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;

  constructor(items: TableItems) {
    this.#items = items;
    this.#table = items.table;
  }

  async getSchedules({
    ids,
    unreadable,
  }: RequestOf<'getSchedules'>): Promise<readonly (ScheduleRecord | undefined)[]> {
    const records = new Map<string, ScheduleRecord | undefined>();
    for (const [id, { state, spec }] of await this.#itemsOf('getSchedules', ids)) {
      try {
        records.set(id, decodeSchedule(state, spec));
      } catch (error) {
        if (unreadable === undefined || state === undefined || !(error instanceof MalformedItemError))
          throw error;
        unreadable(id);
        // An unreadable schedule that stands in no line was taken out of it before.
        const partition = partitionOfLine(state);
        if (partition !== undefined) await this.#items.setAside(partition, state, error);
      }
    }
    return ids.map((id) => records.get(id));
  }

  async #itemsOf(
    verb: string,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, { readonly state: Item | undefined; readonly spec: Item | undefined }>> {
    const distinct = [...new Set(ids)];
    const keys = distinct.flatMap((id) => [scheduleKey(id), scheduleSpecKey(id)]);
    const items = new Map<string, Item>();
    for (const item of await this.#table.getAll(verb, keys)) items.set(`${item.pk} ${item.sk}`, item);
    const itemOf = ({ pk, sk }: ItemKey): Item | undefined => items.get(`${pk} ${sk}`);
    return new Map(
      distinct.map((id) => [id, { state: itemOf(scheduleKey(id)), spec: itemOf(scheduleSpecKey(id)) }]),
    );
  }

  async putSchedule({
    record: { spec, state },
    afterRevision: seen,
  }: RequestOf<'putSchedule'>): Promise<Applied> {
    const outcome = await this.#table.transact('putSchedule', randomUUID(), [
      this.#table.putPart({
        item: encodeScheduleState(state),
        condition: seen === 0 ? 'attribute_not_exists(#pk)' : IS_UNCHANGED,
        ...(seen === 0 ? {} : { values: { ':seen': seen } }),
      }),
      this.#table.putPart({ item: encodeScheduleSpec(state.id, state.revision, spec) }),
    ]);
    return outcome.applied ? 'applied' : 'superseded';
  }

  async saveSchedule({ state, afterRevision: seen }: RequestOf<'saveSchedule'>): Promise<Applied> {
    const item = encodeScheduleState(state);
    const outcome = await this.#table.put('saveSchedule', {
      item,
      condition: IS_UNCHANGED,
      values: { ':seen': seen },
    });
    if (outcome.applied) return 'applied';
    // The put was refused. An earlier try of this call, whose answer got lost, may have written this very state. If another caller
    // has written the same state, both may continue.
    const { old } = outcome;
    return old?.revision === item.revision && old?.text === item.text ? 'applied' : 'superseded';
  }

  async deleteSchedule({ id, afterRevision: seen }: RequestOf<'deleteSchedule'>): Promise<Applied> {
    const outcome = await this.#table.transact('deleteSchedule', randomUUID(), [
      this.#table.deletePart(scheduleKey(id), IS_UNCHANGED, { ':seen': seen }),
      this.#table.deletePart(scheduleSpecKey(id)),
    ]);
    return outcome.applied ? 'applied' : 'superseded';
  }

  async discardSchedule(id: string): Promise<Applied> {
    const { state, spec } = (await this.#itemsOf('discardSchedule', [id])).get(id) ?? {};
    if (state === undefined || isReadableSchedule(state, spec)) return 'superseded';
    // Only the item that was read is deleted: an operator may be correcting it.
    const asRead = ['revision', 'text'].map((name) =>
      state[name] === undefined ? `attribute_not_exists(#${name})` : `#${name} = :${name}`,
    );
    const outcome = await this.#table.transact('discardSchedule', randomUUID(), [
      this.#table.deletePart(
        scheduleKey(id),
        ['attribute_exists(#pk)', ...asRead].join(' AND '),
        Object.fromEntries(
          ['revision', 'text'].flatMap((name) =>
            state[name] === undefined ? [] : [[`:${name}`, state[name]]],
          ),
        ),
      ),
      this.#table.deletePart(scheduleSpecKey(id)),
    ]);
    return outcome.applied ? 'applied' : 'superseded';
  }

  readDueSchedules({ fromMs, untilMs, ...page }: RequestOf<'readDueSchedules'>): Promise<ScheduleHeads> {
    return this.#heads('readDueSchedules', schedulesLineName(page.partition), page, {
      condition: ' AND #rank BETWEEN :from AND :below',
      values: {
        ':from': instantRank(Math.floor(fromMs) + 1, ''),
        // The lowest rank of the next millisecond: all due schedules are below it.
        ':below': instantRank(Math.floor(untilMs) + 1, ''),
      },
    });
  }

  readStoppedSchedules(page: RequestOf<'readStoppedSchedules'>): Promise<ScheduleHeads> {
    const line = stoppedSchedulesLineName(page.partition);
    return this.#heads('readStoppedSchedules', line, page, { condition: '', values: {} });
  }

  async readDeclaredSchedules(): Promise<readonly string[]> {
    return decodeDeclaredSchedules(await this.#table.get('readDeclaredSchedules', declaredSchedulesKey));
  }

  async noteDeclaredSchedules(ids: readonly string[]): Promise<void> {
    await this.#table.put('noteDeclaredSchedules', { item: encodeDeclaredSchedules(ids) });
  }

  async #heads(
    verb: string,
    line: string,
    { limit, after }: RequestOf<'readStoppedSchedules'>,
    range: { readonly condition: string; readonly values: Item },
  ): Promise<ScheduleHeads> {
    const { items, last } = await this.#items.upTo(limit, verb, {
      index: TABLE.linesIndex,
      condition: `#line = :line${range.condition}`,
      values: { ':line': line, ...range.values },
      after: after === undefined ? undefined : startAfter(verb, line, after),
    });
    return {
      schedules: items.map((item) => ({ id: idIn(item), ...dueIn(item) })),
      next: last === undefined ? undefined : JSON.stringify([last[TABLE.rank], idIn(last)]),
    };
  }
}

/** Returns the start of the next read in a line: after a schedule's entry, even if the entry is gone. */
function startAfter(verb: string, line: string, cursor: string): Item {
  try {
    const [rank, id] = JSON.parse(cursor) as readonly [string, string];
    return { ...scheduleKey(id), [TABLE.line]: line, [TABLE.rank]: rank };
  } catch (cause) {
    throw new RefusedError(
      `${verb}: ${JSON.stringify(cursor)} is not a cursor; pass \`next\` as it was returned`,
      {
        cause,
      },
    );
  }
}

/** Returns the instant at the beginning of a due line's rank. */
const dueIn = (item: Item): { readonly dueMs?: number } => {
  const dueMs = String(item[TABLE.line]).startsWith('schedules/')
    ? Number.parseInt(String(item[TABLE.rank]), 10)
    : Number.NaN;
  return Number.isNaN(dueMs) ? {} : { dueMs };
};
