/** A partition's lease, and the counter of its wakes. */
import { HINTS_KEPT_MS, HINTS_MAX } from '../bounds.ts';
import type { LeaseStore, RequestOf } from '../contract.ts';
import { hintOf, type JobHint } from '../job-fields.ts';
import { type LeaseRecord, type NamedJob, nameOfHints, type Wakes } from '../records.ts';
import type { LeaseOutcome } from '../requests.ts';
import type { MemoryItems } from './items.ts';

/** Absent, not undefined. */
export const ifPresent = <Name extends string, Value>(
  name: Name,
  value: Value | undefined,
): { readonly [Key in Name]?: Value } =>
  (value === undefined ? {} : { [name]: value }) as { readonly [Key in Name]?: Value };

export class MemoryLeaseStore implements LeaseStore {
  readonly #items: MemoryItems;
  #hintsPut = 0;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async acquireLease({
    partition,
    holder,
    nowMs,
    leaseMs,
  }: RequestOf<'acquireLease'>): Promise<LeaseOutcome> {
    return this.#items.write('acquireLease', () => {
      this.#items.bill.small('acquireLease', 'write');
      const items = this.#items.partition(partition);
      const { epoch, expiresAtMs, holder: present, isWriting = false, isOpen = false } = items.lease;
      if (present !== undefined && expiresAtMs > nowMs)
        return { kind: 'held', epoch, expiresAtMs, holder: present };
      const { wakesSeen, word } = items.lease;
      if ((present !== undefined || isWriting || isOpen) && items.page.epoch <= epoch) {
        this.#items.bill.fencedPage(partition, items.page);
        items.page = { ...items.page, epoch: epoch + 1 };
      }
      items.lease = {
        epoch: epoch + 1,
        holder,
        expiresAtMs: nowMs + leaseMs,
        takenAtMs: nowMs,
        wakesSeen,
        word,
      };
      this.#items.observe?.({ kind: 'lease', verb: 'acquireLease', partition, epoch: epoch + 1, holder });
      const known = wakesSeen === undefined ? {} : { wakesSeen };
      return { kind: 'acquired', epoch: epoch + 1, expiresAtMs: nowMs + leaseMs, ...known };
    });
  }

  async renewLease({
    fence,
    nowMs,
    leaseMs,
    wantsWord,
  }: RequestOf<'renewLease'>): Promise<'renewed' | 'lost'> {
    return this.#items.write('renewLease', () => {
      this.#items.bill.small('renewLease', 'write');
      const items = this.#items.partition(fence.partition);
      // A renewal that arrives after the release must not take the lease away from everybody.
      if (items.lease.epoch !== fence.epoch || items.lease.holder === undefined) return 'lost';
      items.lease = {
        ...items.lease,
        expiresAtMs: nowMs + leaseMs,
        word: wantsWord === undefined ? items.lease.word : { isWanted: wantsWord, saidAtMs: nowMs },
      };
      return 'renewed';
    });
  }

  async releaseLease({
    fence,
    wakesSeen,
    isWriting = false,
    isOpen = false,
  }: RequestOf<'releaseLease'>): Promise<'released' | 'lost'> {
    return this.#items.write('releaseLease', () => {
      this.#items.bill.small('releaseLease', 'write');
      const items = this.#items.partition(fence.partition);
      if (items.lease.epoch !== fence.epoch) return 'lost';
      const seen = wakesSeen ?? items.lease.wakesSeen;
      const { takenAtMs, word, holder: lastHolder = items.lease.lastHolder } = items.lease;
      items.lease = {
        epoch: fence.epoch,
        holder: undefined,
        isWriting,
        isOpen,
        lastHolder,
        takenAtMs,
        expiresAtMs: 0,
        wakesSeen: seen,
        word,
      };
      return 'released';
    });
  }

  async readLease(partition: number): Promise<LeaseRecord | undefined> {
    return this.#items.read('readLease', () => {
      this.#items.bill.small('readLease', 'read');
      const {
        epoch,
        holder,
        isOpen = false,
        lastHolder,
        takenAtMs,
        expiresAtMs,
        word,
      } = this.#items.partition(partition).lease;
      if (epoch === 0) return undefined;
      return {
        epoch,
        ...ifPresent('holder', holder ?? lastHolder),
        isHeld: holder !== undefined,
        isOpen,
        ...ifPresent('takenAtMs', takenAtMs),
        expiresAtMs,
        ...ifPresent('word', word),
      };
    });
  }

  async readWakes(partition: number): Promise<Wakes> {
    return this.#items.read('readWakes', () => {
      const { wakes } = this.#items.partition(partition);
      this.#items.bill.readWakes(partition, wakes);
      return wakes;
    });
  }

  async putHints({ partition, hints, nowMs }: RequestOf<'putHints'>): Promise<readonly NamedJob[]> {
    return this.#items.write('putHints', () => {
      const { hints: kept } = this.#items.partition(partition);
      for (const [id, { keptUntilMs }] of kept) if (keptUntilMs <= nowMs) kept.delete(id);
      const names: NamedJob[] = [];
      for (let from = 0; from < hints.length; from += HINTS_MAX) {
        const put = hints.slice(from, from + HINTS_MAX).map(hintOf);
        this.#hintsPut += 1;
        const id = `hints-${this.#hintsPut}`;
        this.#items.bill.putHints(partition, put);
        kept.set(id, { hints: put, keptUntilMs: nowMs + HINTS_KEPT_MS });
        names.push(nameOfHints(id));
      }
      return names;
    });
  }

  async readHints({ partition, names }: RequestOf<'readHints'>): Promise<readonly JobHint[] | undefined> {
    return this.#items.read('readHints', () => {
      const { hints: kept } = this.#items.partition(partition);
      const found = [...new Set(names.map(({ id }) => id))].map((id) => {
        const { hints, keptUntilMs = -Infinity } = kept.get(id) ?? {};
        return keptUntilMs <= this.#items.clock() ? undefined : hints;
      });
      this.#items.bill.readHints(partition, found);
      return found.includes(undefined) ? undefined : found.flatMap((hints) => hints ?? []);
    });
  }

  async dropNames({ partition, seen }: RequestOf<'dropNames'>): Promise<void> {
    if (seen.jobs.length === 0) return;
    return this.#items.write('dropNames', () => {
      const items = this.#items.partition(partition);
      const { wakes } = items;
      const isFirst = wakes.names - wakes.jobs.length === seen.names - seen.jobs.length;
      items.wakes = isFirst ? { ...wakes, jobs: wakes.jobs.slice(seen.jobs.length) } : wakes;
      this.#items.bill.wroteWakes('dropNames', partition, wakes, items.wakes);
    });
  }
}
