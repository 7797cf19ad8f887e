/**
 * A pool of single slots, each with room for one running job. Source: affinity-scoring, "The slot pool" and "Slot
 * selection". The product counts slots by fleet with the same rule: see `Fleets` in `lib/core/capacity.ts`.
 */

/** A slot: room for one job of any of its types. Ids are never reused. */
export interface Slot {
  readonly id: number;
  readonly types: readonly string[];
}

interface PooledSlot {
  readonly id: number;
  readonly types: ReadonlySet<string>;
  readonly workerId: string;
  free: boolean;
}

/** All slots by id, free slots by type, and slots by worker. */
export class SlotPool {
  readonly #slots = new Map<number, PooledSlot>();
  readonly #freeByType = new Map<string, Map<number, PooledSlot>>();
  readonly #byWorker = new Map<string, readonly number[]>();

  /** Adds a worker's slots. A worker that is already registered has restarted, so its old slots are removed first. */
  register(workerId: string, slots: readonly Slot[]): void {
    this.unregister(workerId);
    const own: number[] = [];
    for (const { id, types } of slots) {
      if (this.#slots.has(id)) continue;
      const slot: PooledSlot = { id, types: new Set(types), workerId, free: false };
      this.#slots.set(id, slot);
      own.push(id);
      this.#setFree(slot);
    }
    this.#byWorker.set(workerId, own);
  }

  /** Removes the slots of a stopped or crashed worker; ignores an unknown worker. Returns the slots that were busy. */
  unregister(workerId: string): readonly number[] {
    const busy: number[] = [];
    for (const id of this.#byWorker.get(workerId) ?? []) {
      const slot = this.#slots.get(id) as PooledSlot;
      if (slot.free) this.#setBusy(slot);
      else busy.push(id);
      this.#slots.delete(id);
    }
    this.#byWorker.delete(workerId);
    return busy;
  }

  /** Returns the number of free slots that can run the type, in O(1). */
  capacity(type: string): number {
    return this.#freeByType.get(type)?.size ?? 0;
  }

  /** Returns the slot that `acquire` would take, in O(free slots of the type); undefined if none is free. */
  choose(type: string): number | undefined {
    let best: PooledSlot | undefined;
    for (const slot of this.#freeByType.get(type)?.values() ?? []) {
      if (best === undefined || isBetter(slot, best)) best = slot;
    }
    return best?.id;
  }

  /** Takes the compatible free slot with the fewest types; undefined if none is free. */
  acquire(type: string): number | undefined {
    const id = this.choose(type);
    const slot = id === undefined ? undefined : this.#slots.get(id);
    if (slot !== undefined) this.#setBusy(slot);
    return id;
  }

  /** Frees a slot. Returns false if the slot is gone or already free. */
  release(id: number): boolean {
    const slot = this.#slots.get(id);
    if (slot === undefined || slot.free) return false;
    this.#setFree(slot);
    return true;
  }

  /** Ids of the free slots, ascending. */
  freeSlots(): readonly number[] {
    return [...this.#slots.values()]
      .filter((slot) => slot.free)
      .map((slot) => slot.id)
      .sort((a, b) => a - b);
  }

  /** Number of free slots by type; types without free slots are absent. */
  freeByType(): ReadonlyMap<string, number> {
    return new Map(
      [...this.#freeByType].filter(([, slots]) => slots.size > 0).map(([type, slots]) => [type, slots.size]),
    );
  }

  /** All slots, free or not. */
  get size(): number {
    return this.#slots.size;
  }

  #setFree(slot: PooledSlot): void {
    slot.free = true;
    for (const type of slot.types) {
      const slots = this.#freeByType.get(type);
      if (slots === undefined) this.#freeByType.set(type, new Map([[slot.id, slot]]));
      else slots.set(slot.id, slot);
    }
  }

  #setBusy(slot: PooledSlot): void {
    slot.free = false;
    for (const type of slot.types) this.#freeByType.get(type)?.delete(slot.id);
  }
}

function isBetter(a: PooledSlot, b: PooledSlot): boolean {
  return a.types.size === b.types.size ? a.id < b.id : a.types.size < b.types.size;
}
