/**
 * Jobs whose conflict key is held, until it is free. They stand in no line of the backlog meanwhile.
 *
 * Then the first of each line's parked jobs may go back: the others of the line cannot come before it. Where many lines
 * wait for one key, only the first of each class goes back, by share, then rank; the others are its reserve, and go back one
 * by one when the one that stands for them may no longer be first: its key's share or room has changed (`changed`). So a
 * conflict key that passes from job to job costs what its jobs cost, and not what all that wait for it would.
 */
import type { Ledgers } from './fairness.ts';
import { JobHeaps } from './job-heaps.ts';
import { type JobTable, NONE } from './job-table.ts';

/** Keys with parked jobs whose lines are all woken at once when their conflict key is free. */
const WAKE_ALL_KEYS_MAX = 4;
/** Reserves that are kept at a time; the oldest is woken for a new one. */
const RESERVES_MAX = 4;

/** The jobs of a line that wait for one conflict key. */
interface ParkedLine {
  readonly class: number;
  readonly heap: number;
}

/** All that waits for one conflict key. */
interface Parked {
  /** By key. */
  readonly lines: Map<number, ParkedLine[]>;
  /** By class: how many lines of it those are. */
  readonly classes: Map<number, number>;
}

/** The first parked line of a class, so far. */
interface StandIn {
  key: number;
  share: number;
  heap: number;
}

/** A free conflict key with parked jobs that were left behind. */
interface Reserve {
  readonly conflict: number;
  /** Lines whose first parked job went back. */
  readonly woken: Set<number>;
  /** By class: the key whose job went back last, or -1 where none could. */
  readonly standIns: Map<number, number>;
}

export class ParkedJobs {
  readonly #jobs: JobTable;
  readonly #ledgers: Ledgers;
  readonly #classes: number;
  /** Puts a job back into its line. */
  readonly #putBack: (line: number, number: number, jobRank: number) => void;
  /** By conflict key. */
  readonly #parked = new Map<number, Parked>();
  readonly #heaps: JobHeaps;
  #reserves: Reserve[] = [];

  constructor(
    jobs: JobTable,
    ledgers: Ledgers,
    classes: number,
    putBack: (line: number, number: number, jobRank: number) => void,
  ) {
    this.#jobs = jobs;
    this.#ledgers = ledgers;
    this.#classes = classes;
    this.#putBack = putBack;
    this.#heaps = new JobHeaps(jobs);
  }

  /** Parks a job of a line until its conflict key is free. */
  add(line: number, number: number, jobRank: number): void {
    const conflict = this.#jobs.conflictOf(number);
    const key = (line / this.#classes) | 0;
    const class_ = line % this.#classes;
    let parked = this.#parked.get(conflict);
    if (parked === undefined) {
      parked = { lines: new Map(), classes: new Map() };
      this.#parked.set(conflict, parked);
    }
    let lines = parked.lines.get(key);
    if (lines === undefined) {
      lines = [];
      parked.lines.set(key, lines);
    }
    let own = lines.find((candidate) => candidate.class === class_);
    if (own === undefined) {
      own = { class: class_, heap: this.#heaps.open() };
      lines.push(own);
      parked.classes.set(class_, (parked.classes.get(class_) ?? 0) + 1);
    }
    this.#heaps.push(own.heap, number, jobRank);
  }

  /** The conflict key has room: the first of its parked jobs go back. O(keys with parked jobs), most of them only looked at. */
  wake(conflict: number): void {
    const parked = this.#parked.get(conflict);
    if (parked === undefined) return;
    // Of an earlier wake, while there was room already.
    this.held(conflict);
    if (parked.lines.size <= WAKE_ALL_KEYS_MAX) {
      this.wakeAll(conflict);
      return;
    }
    if (this.#reserves.length === RESERVES_MAX) this.wakeAll((this.#reserves[0] as Reserve).conflict);
    const reserve: Reserve = { conflict, woken: new Set(), standIns: new Map() };
    this.#reserves.push(reserve);
    this.#wakeBest(reserve, [...parked.classes.keys()]);
  }

  /** The first parked job of every line goes back. */
  wakeAll(conflict: number): void {
    this.held(conflict);
    for (const [key, lines] of [...(this.#parked.get(conflict)?.lines ?? [])]) {
      for (const line of [...lines]) this.#wakeLine(conflict, key, line);
    }
  }

  /** The conflict key is held: what is left of its parked jobs waits for the next time. */
  held(conflict: number): void {
    if (this.#reserves.length > 0) {
      this.#reserves = this.#reserves.filter((reserve) => reserve.conflict !== conflict);
    }
  }

  /** A key's share or room changed; `improved` if it may come earlier than before. */
  changed(key: number, improved: boolean): void {
    for (const reserve of this.#reserves) {
      for (const [class_, standIn] of reserve.standIns) {
        const line = this.#lineOf(key, class_);
        if (standIn === key) this.#wakeBest(reserve, [class_]);
        else if (improved && !reserve.woken.has(line)) {
          reserve.woken.add(line);
          const lines = this.#parked.get(reserve.conflict)?.lines.get(key);
          const own = lines?.find((candidate) => candidate.class === class_);
          if (own !== undefined) this.#wakeLine(reserve.conflict, key, own);
        }
      }
    }
  }

  /** All shares may have fallen. */
  allRepriced(): void {
    for (const { conflict } of this.#reserves) this.wakeAll(conflict);
  }

  // Of each of these classes' lines that were left behind, the one that comes first goes back and stands for the others.
  #wakeBest(reserve: Reserve, classes: readonly number[]): void {
    const bests = new Map<number, StandIn>();
    for (const class_ of classes)
      bests.set(class_, { key: NONE, share: Number.POSITIVE_INFINITY, heap: NONE });
    // No line with a greater share than this comes first in any of the classes.
    let bound = Number.POSITIVE_INFINITY;
    const parked = this.#parked.get(reserve.conflict)?.lines ?? new Map<number, ParkedLine[]>();
    for (const key of parked.keys()) {
      const share = this.#ledgers.shareOf(key);
      // Asked first: thousands may wait, and this is all that is looked at of nearly every one.
      if (share > bound || this.#ledgers.isFull(key)) continue;
      for (const line of [...(parked.get(key) as ParkedLine[])]) {
        const best = bests.get(line.class);
        if (best !== undefined && share <= best.share) this.#offerBest(reserve, best, key, share, line);
      }
      bound = 0;
      for (const best of bests.values()) bound = Math.max(bound, best.share);
    }
    for (const [class_, { key, heap }] of bests) {
      reserve.standIns.set(class_, key);
      if (key === NONE) continue;
      reserve.woken.add(this.#lineOf(key, class_));
      this.#wakeLine(reserve.conflict, key, { class: class_, heap });
    }
  }

  // This line of a key is the best, if its first job comes first.
  #offerBest(reserve: Reserve, best: StandIn, key: number, share: number, line: ParkedLine): void {
    if (reserve.woken.has(this.#lineOf(key, line.class))) return;
    this.#heaps.clean(line.heap);
    if (this.#heaps.first(line.heap) === NONE) {
      this.#unpark(reserve.conflict, key, line);
    } else if (share < best.share || this.#heaps.precedes(line.heap, best.heap)) {
      best.key = key;
      best.share = share;
      best.heap = line.heap;
    }
  }

  // The first parked job of a line goes back.
  #wakeLine(conflict: number, key: number, line: ParkedLine): void {
    this.#heaps.clean(line.heap);
    const first = this.#heaps.first(line.heap);
    const jobRank = this.#heaps.firstRank(line.heap);
    if (first !== NONE) this.#heaps.pop(line.heap);
    if (this.#heaps.first(line.heap) === NONE) this.#unpark(conflict, key, line);
    if (first !== NONE) this.#putBack(this.#lineOf(key, line.class), first, jobRank);
  }

  // Nothing of a line is parked any more.
  #unpark(conflict: number, key: number, line: ParkedLine): void {
    this.#heaps.close(line.heap);
    const { lines, classes } = this.#parked.get(conflict) as Parked;
    const left = (lines.get(key) as ParkedLine[]).filter((other) => other.class !== line.class);
    if (left.length > 0) lines.set(key, left);
    else lines.delete(key);
    const others = (classes.get(line.class) as number) - 1;
    if (others > 0) classes.set(line.class, others);
    else classes.delete(line.class);
    if (lines.size === 0) this.#parked.delete(conflict);
  }

  #lineOf(key: number, class_: number): number {
    return key * this.#classes + class_;
  }
}
