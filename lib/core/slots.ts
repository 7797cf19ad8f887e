/**
 * Slots: room for one running job each. Source: affinity-scoring, "The slot pool" and "Slot selection".
 *
 * `Fleets` counts them by fleet, which is all that a pass needs: a fleet's workers are alike. Of the fleets that can run the
 * type, the one with the fewest types is chosen, so that versatile ones stay free for what only they can do; ties go to the
 * fleet configured first. It is greedy, as in the text: not globally optimal without knowing future jobs.
 */
import type { FleetConfiguration } from './configuration.ts';

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
