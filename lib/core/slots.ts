/**
 * Slots: room for one running job each. Source: affinity-scoring, "The slot pool" and "Slot selection".
 *
 * `SlotPool` knows every slot (a long-running dispatcher, the simulation); `Fleets` is its aggregate form, counts of
 * slots by fleet, which is all that a pass needs: a fleet's workers are alike.
 * One rule chooses in both: of the slots that can run the type, one with the fewest types, so that versatile ones
 * stay free for what only they can do; ties go to the lowest slot id, in `Fleets` to the fleet configured first.
 * It is greedy, as in the text: not globally optimal without knowing future jobs.
 */
import type { FleetConfiguration } from './configuration.ts';

/** Room for one job of any of its types. Ids are never used twice. */
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

/** The inverted index: all slots by id, free slots by type, slots by worker. */
export class SlotPool {
  readonly #slots = new Map<number, PooledSlot>();
  readonly #freeByType = new Map<string, Map<number, PooledSlot>>();
  readonly #byWorker = new Map<string, readonly number[]>();

  /** Adds a worker's slots. A worker that is there already has restarted: its old slots, free or not, are gone first. */
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

  /** Takes a stopped or crashed worker's slots away; an unknown worker is a no-op. Answers the slots that were busy. */
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

  /** Free slots that can run the type: O(1). */
  capacity(type: string): number {
    return this.#freeByType.get(type)?.size ?? 0;
  }

  /** The slot that `acquire` would take: O(free slots of the type). */
  choose(type: string): number | undefined {
    let best: PooledSlot | undefined;
    for (const slot of this.#freeByType.get(type)?.values() ?? []) {
      if (best === undefined || isBetter(slot, best)) best = slot;
    }
    return best?.id;
  }

  /** Takes the compatible free slot with the fewest types; undefined when none is free. */
  acquire(type: string): number | undefined {
    const id = this.choose(type);
    const slot = id === undefined ? undefined : this.#slots.get(id);
    if (slot !== undefined) this.#setBusy(slot);
    return id;
  }

  /** Gives a slot back. Answers whether anything changed: a slot that is gone, or free already, is a no-op. */
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

  /** Free slots by type; types without one are absent. */
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

// Far more slots than anybody has, and small enough that sums over fleets stay exact.
const UNLIMITED = 2 ** 40;

/**
 * Counts of slots by fleet. Fleets and types are numbers: places in the configuration.
 * Room is what is free for new jobs: slots or the cap, whichever is less, minus the jobs that are running.
 */
export class Fleets {
  readonly names: readonly string[];
  /** By type: the fleets that take it, in the order in which they are chosen. */
  readonly #fleetsOfType: readonly Int32Array[];
  readonly #typesOfFleet: readonly Int32Array[];
  readonly #slots: Float64Array;
  readonly #caps: Float64Array;
  readonly #busy: Float64Array;
  readonly #room: Float64Array;
  readonly #roomOfType: Float64Array;
  #roomInAll = 0;

  constructor(fleets: readonly FleetConfiguration[], types: readonly string[]) {
    this.names = fleets.map((fleet) => fleet.fleet);
    const numbers = new Map(types.map((type, index) => [type, index]));
    const typesOfFleet = fleets.map((fleet) => {
      const distinct = new Set(fleet.types);
      return [...distinct].flatMap((type) => numbers.get(type) ?? []);
    });
    const breadth = fleets.map((fleet) => new Set(fleet.types).size);
    this.#typesOfFleet = typesOfFleet.map((own) => Int32Array.from(own));
    this.#fleetsOfType = types.map((_, type) =>
      Int32Array.from(
        fleets
          .map((_, fleet) => fleet)
          .filter((fleet) => typesOfFleet[fleet]?.includes(type) === true)
          .sort((a, b) => (breadth[a] as number) - (breadth[b] as number) || a - b),
      ),
    );
    this.#slots = new Float64Array(fleets.length);
    this.#caps = new Float64Array(fleets.length).fill(UNLIMITED);
    this.#busy = new Float64Array(fleets.length);
    this.#room = new Float64Array(fleets.length);
    this.#roomOfType = new Float64Array(types.length);
    fleets.forEach((fleet, index) => {
      this.setSlots(index, fleet.slots ?? 0);
    });
  }

  /** How many slots a fleet has, busy ones included. */
  setSlots(fleet: number, slots: number): void {
    this.#slots[fleet] = Math.min(slots, UNLIMITED);
    this.#settle(fleet);
  }

  /** How many jobs a fleet may run, whatever its slots; null for no cap. */
  setCap(fleet: number, cap: number | null): void {
    this.#caps[fleet] = cap === null ? UNLIMITED : Math.min(cap, UNLIMITED);
    this.#settle(fleet);
  }

  /** Room for the type, over all its fleets: O(1). */
  roomOfType(type: number): number {
    return this.#roomOfType[type] ?? 0;
  }

  /** Room over all fleets. */
  get room(): number {
    return this.#roomInAll;
  }

  roomOf(fleet: number): number {
    return this.#room[fleet] ?? 0;
  }

  busyOf(fleet: number): number {
    return this.#busy[fleet] ?? 0;
  }

  /** The fleets that take the type, in the order in which they are chosen. */
  namesFor(type: number): readonly string[] {
    return [...(this.#fleetsOfType[type] ?? [])].map((fleet) => this.names[fleet] as string);
  }

  /** The fleet on which a job of the type is placed, or -1 where all are full. */
  choose(type: number): number {
    const fleets = this.#fleetsOfType[type];
    if (fleets === undefined) return -1;
    for (let index = 0; index < fleets.length; index += 1) {
      const fleet = fleets[index] as number;
      if ((this.#room[fleet] as number) > 0) return fleet;
    }
    return -1;
  }

  /** Counts a job in, whether there is room or not: what runs, runs. */
  take(fleet: number): void {
    this.#busy[fleet] = this.busyOf(fleet) + 1;
    this.#settle(fleet);
  }

  /** Counts a job out. */
  give(fleet: number): void {
    this.#busy[fleet] = this.busyOf(fleet) - 1;
    this.#settle(fleet);
  }

  #settle(fleet: number): void {
    const limit = Math.min(this.#slots[fleet] as number, this.#caps[fleet] as number);
    const room = Math.max(0, limit - (this.#busy[fleet] as number));
    const change = room - (this.#room[fleet] as number);
    if (change === 0) return;
    this.#room[fleet] = room;
    this.#roomInAll += change;
    const types = this.#typesOfFleet[fleet] as Int32Array;
    for (let index = 0; index < types.length; index += 1) {
      const type = types[index] as number;
      this.#roomOfType[type] = (this.#roomOfType[type] as number) + change;
    }
  }
}
