/** Schedules in memory. */

import type { ScheduleRecord, ScheduleState } from '../../core/recurring.ts';
import { MalformedItemError } from '../contract/errors.ts';
import type { Applied } from '../contract/requests.ts';
import type { ScheduleHeads, ScheduleStore } from '../contract/schedules.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { encodeScheduleSpec, encodeScheduleState, scheduleStanding } from '../table/codec/schedule.ts';
import { requireItemFits } from '../table/limits.ts';
import { instantRank, scheduleKey, schedulesLineName, stoppedSchedulesLineName } from '../table/schema.ts';
import type { MemoryItems } from './items.ts';
import type { Placed } from './sorted-line.ts';
import type { MemoryState, ScheduleEntry } from './state.ts';

const keyOf = (id: string): string => {
  const { pk, sk } = scheduleKey(id);
  return `${pk} ${sk}`;
};

const WAY_OUT = 'delete the schedule, and put it again';

const indexEntryOf = (entry: ScheduleEntry): ScheduleEntry | undefined =>
  entry.isOutOfLine ? undefined : entry;

const recordOf = ({ spec, value }: ScheduleEntry): ScheduleRecord => ({ spec, state: value });

export class MemoryScheduleStore implements ScheduleStore {
  readonly #items: MemoryItems;
  readonly #records: MemoryState['schedules'];

  constructor(items: MemoryItems) {
    this.#items = items;
    this.#records = items.state.schedules;
  }

  async getSchedules({
    ids,
    unreadable,
  }: RequestOf<'getSchedules'>): Promise<readonly (ScheduleRecord | undefined)[]> {
    return this.#items.read('getSchedules', () => {
      this.#items.bill.readItems('getSchedules', 2 * ids.length);
      return ids.map((id) => {
        const entry = this.#records.get(id);
        if (entry?.damage === undefined) return entry && recordOf(entry);
        const damage = new MalformedItemError(keyOf(id), 'text', entry.damage, WAY_OUT);
        if (unreadable === undefined) throw damage;
        unreadable(id);
        // planted: met-for-ever
        this.#takeOutOfLine(entry, damage);
        return undefined;
      });
    });
  }

  /** Imitates a write by other software: with a problem the schedule can no longer be read, without one it can be again. */
  damage(id: string, damage: string | undefined): void {
    const entry = this.#records.get(id);
    if (entry === undefined) throw new RangeError(`there is no schedule ${id}`);
    this.#records.set(id, { ...entry, damage });
  }

  #takeOutOfLine(entry: ScheduleEntry, { message: reason }: MalformedItemError): void {
    if (entry.isOutOfLine) return;
    const { id, line, rank, value } = entry;
    this.#records.set(id, { ...entry, isOutOfLine: true });
    this.#items.scheduleLines.move(id, entry, undefined);
    this.#items.noteUnreadable(value.partition, {
      key: keyOf(id),
      reason,
      line,
      rank,
      seenAtMs: this.#items.clock(),
    });
  }

  async discardSchedule(id: string): Promise<Applied> {
    return this.#items.write('discardSchedule', () => {
      const present = this.#records.get(id);
      if (present?.damage === undefined) return 'superseded';
      this.#remove('discardSchedule', present);
      return 'applied';
    });
  }

  /** Returns the keys of the schedules that cannot be read. */
  get damagedKeys(): ReadonlySet<string> {
    return new Set([...this.#records.values()].flatMap(({ id, damage }) => (damage ? [keyOf(id)] : [])));
  }

  async putSchedule({
    record: { spec, state },
    afterRevision: seen,
  }: RequestOf<'putSchedule'>): Promise<Applied> {
    return this.#items.write('putSchedule', () => {
      if (this.#revisionOf(state.id) !== seen) return 'superseded';
      const item = encodeScheduleSpec(state.id, state.revision, spec);
      requireItemFits(item);
      this.#items.bill.inTransaction('putSchedule', () => {
        this.#write('putSchedule', state, spec);
        this.#items.bill.wroteItem('putSchedule', undefined, item);
      });
      return 'applied';
    });
  }

  async saveSchedule({ state, afterRevision: seen }: RequestOf<'saveSchedule'>): Promise<Applied> {
    return this.#items.write('saveSchedule', () => {
      const present = this.#records.get(state.id);
      if (present === undefined || present.value.revision !== seen) {
        this.#items.bill.small('saveSchedule', 'write');
        return 'superseded';
      }
      this.#write('saveSchedule', state, present.spec);
      return 'applied';
    });
  }

  async deleteSchedule({ id, afterRevision: seen }: RequestOf<'deleteSchedule'>): Promise<Applied> {
    return this.#items.write('deleteSchedule', () => {
      const present = this.#records.get(id);
      if (present === undefined || present.value.revision !== seen) return 'superseded';
      this.#remove('deleteSchedule', present);
      return 'applied';
    });
  }

  #remove(verb: string, present: ScheduleEntry): void {
    this.#records.delete(present.id);
    this.#items.scheduleLines.move(present.id, indexEntryOf(present), undefined);
    this.#items.observe?.({ kind: 'schedule', before: recordOf(present), after: undefined });
    this.#items.bill.inTransaction(verb, () => {
      this.#items.bill.wroteItem(verb, encodeScheduleState(present.value), undefined);
      this.#items.bill.small(verb, 'write');
    });
  }

  async readDueSchedules(request: RequestOf<'readDueSchedules'>): Promise<ScheduleHeads> {
    const { partition, fromMs, untilMs, limit, after } = request;
    const from = placeOf(after) ?? { rank: instantRank(fromMs + 1, ''), id: '' };
    const below = instantRank(untilMs + 1, '');
    return this.#items.read('readDueSchedules', () =>
      this.#heads('readDueSchedules', schedulesLineName(partition), limit, from, below),
    );
  }

  async readStoppedSchedules(request: RequestOf<'readStoppedSchedules'>): Promise<ScheduleHeads> {
    const { partition, limit, after } = request;
    const line = stoppedSchedulesLineName(partition);
    return this.#items.read('readStoppedSchedules', () =>
      this.#heads('readStoppedSchedules', line, limit, placeOf(after), undefined),
    );
  }

  async readDeclaredSchedules(): Promise<readonly string[]> {
    return this.#items.read('readDeclaredSchedules', () => {
      this.#items.bill.small('readDeclaredSchedules', 'read');
      return this.#items.state.declaredSchedules;
    });
  }

  async noteDeclaredSchedules(ids: readonly string[]): Promise<void> {
    return this.#items.write('noteDeclaredSchedules', () => {
      this.#items.bill.small('noteDeclaredSchedules', 'write');
      this.#items.state.declaredSchedules = [...ids];
    });
  }

  peek(id: string): ScheduleRecord | undefined {
    const entry = this.#records.get(id);
    return entry && recordOf(entry);
  }

  /** All schedules, for inspection. */
  get all(): Iterable<ScheduleRecord> {
    return [...this.#records.values()].map(recordOf);
  }

  #revisionOf(id: string): number {
    return this.#records.get(id)?.value.revision ?? 0;
  }

  #write(verb: string, state: ScheduleState, spec: ScheduleRecord['spec']): void {
    const before = this.#records.get(state.id);
    const { line, rank } = scheduleStanding(state);
    const after: ScheduleEntry = { id: state.id, line, rank, value: state, spec };
    this.#records.set(state.id, after);
    this.#items.bill.wroteItem(verb, before && encodeScheduleState(before.value), encodeScheduleState(state));
    this.#items.scheduleLines.move(state.id, before && indexEntryOf(before), after);
    this.#items.observe?.({ kind: 'schedule', before: before && recordOf(before), after: { spec, state } });
  }

  #heads(
    verb: string,
    line: string,
    limit: number,
    after: Placed | undefined,
    below: string | undefined,
  ): ScheduleHeads {
    const entries = this.#items.scheduleLines
      .read(line, limit + 1, after)
      .filter(({ rank }) => below === undefined || rank < below);
    const shown = entries.slice(0, limit);
    this.#items.bill.readEntries(
      verb,
      shown.map(({ value }) => encodeScheduleState(value)),
    );
    const last = entries.length > limit ? shown.at(-1) : undefined;
    return {
      schedules: shown.map(({ id, value }) => ({ id, dueMs: value.dueMs })),
      next: last === undefined ? undefined : JSON.stringify([last.rank, last.id]),
    };
  }
}

function placeOf(cursor: string | undefined): Placed | undefined {
  if (cursor === undefined) return undefined;
  const [rank, id] = JSON.parse(cursor) as [string, string];
  return { rank, id };
}
