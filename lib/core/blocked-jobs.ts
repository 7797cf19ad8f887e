/**
 * Blocked jobs: those that a plan has found at the head of a line while their conflict key is held. They stand in no line of the
 * backlog until the key is free.
 *
 * When the key is free, the first of each line's blocked jobs may return to its line, because the line's other jobs come
 * after it. If jobs of many fairness keys wait for one conflict key, only one line of each class has its first job
 * returned: the first by share, then by rank. The other lines follow one by one, whenever the line that was returned
 * last may no longer come first, because its key's share or cap room has changed (`changed`). So a conflict key that
 * passes from job to job does not move all the jobs that wait for it each time. To return first jobs is a wake here, and a partial
 * one if other lines follow later.
 */
import type { Ledgers } from './fairness.ts';
import { JobHeaps } from './job-heaps.ts';
import { type JobTable, NONE } from './job-table.ts';

/**
 * If at most so many fairness keys wait for a free conflict key, all their lines have their first job returned at once.
 */
const WAKE_ALL_KEYS_MAX = 4;
/** The most partial wakes kept at a time. For a new one, all lines of the oldest are woken. */
const PARTIAL_WAKES_MAX = 4;

/** The jobs of one line that wait for one conflict key. */
interface BlockedOfLine {
  readonly class: number;
  readonly heap: number;
}

/** All jobs that wait for one conflict key. */
interface BlockedByKey {
  /** By fairness key. */
  readonly lines: Map<number, BlockedOfLine[]>;
  /** By class: the number of its lines. */
  readonly classes: Map<number, number>;
}

/** The line of a class whose first blocked job is the best that was found so far. */
interface BestLineSoFar {
  key: number;
  share: number;
  heap: number;
}

/** A partial wake: a conflict key with room, of which some lines still have blocked jobs. */
interface PartialWake {
  readonly conflict: number;
  /** Lines whose first blocked job was returned. */
  readonly woken: Set<number>;
  /** By class: the fairness key whose line was returned last, or -1 if none could be. */
  readonly lastKeys: Map<number, number>;
}

export class BlockedJobs {
  readonly #ledgers: Ledgers;
  readonly #classes: number;
  /** Returns a job to its line. */
  readonly #putBack: (line: number, number: number, jobRank: number) => void;
  /** By conflict key. */
  readonly #blocked = new Map<number, BlockedByKey>();
  readonly #heaps: JobHeaps;
  #partialWakes: PartialWake[] = [];

  constructor(
    jobs: JobTable,
    ledgers: Ledgers,
    classes: number,
    putBack: (line: number, number: number, jobRank: number) => void,
  ) {
    this.#ledgers = ledgers;
    this.#classes = classes;
    this.#putBack = putBack;
    this.#heaps = new JobHeaps(jobs);
  }

  /** Adds a job, taken out of its line, until this conflict key of it is free. */
  add(line: number, number: number, jobRank: number, conflict: number): void {
    const key = (line / this.#classes) | 0;
    const class_ = line % this.#classes;
    let blocked = this.#blocked.get(conflict);
    if (blocked === undefined) {
      blocked = { lines: new Map(), classes: new Map() };
      this.#blocked.set(conflict, blocked);
    }
    let lines = blocked.lines.get(key);
    if (lines === undefined) {
      lines = [];
      blocked.lines.set(key, lines);
    }
    let ofLine = lines.find((candidate) => candidate.class === class_);
    if (ofLine === undefined) {
      ofLine = { class: class_, heap: this.#heaps.open() };
      lines.push(ofLine);
      blocked.classes.set(class_, (blocked.classes.get(class_) ?? 0) + 1);
    }
    this.#heaps.push(ofLine.heap, number, jobRank);
  }

  /**
   * Called when a conflict key has room: returns the first of its blocked jobs to their lines. O(fairness keys with
   * blocked jobs), most of which only have their share read.
   */
  wake(conflict: number): void {
    const blocked = this.#blocked.get(conflict);
    if (blocked === undefined) return;
    // Ends an earlier partial wake, which began when the key already had room.
    this.held(conflict);
    if (blocked.lines.size <= WAKE_ALL_KEYS_MAX) {
      this.wakeAll(conflict);
      return;
    }
    if (this.#partialWakes.length === PARTIAL_WAKES_MAX)
      this.wakeAll((this.#partialWakes[0] as PartialWake).conflict);
    const partial: PartialWake = { conflict, woken: new Set(), lastKeys: new Map() };
    this.#partialWakes.push(partial);
    this.#wakeBest(partial, [...blocked.classes.keys()]);
  }

  /** Returns the first blocked job of every line to the line. */
  wakeAll(conflict: number): void {
    this.held(conflict);
    for (const [key, lines] of [...(this.#blocked.get(conflict)?.lines ?? [])]) {
      for (const line of [...lines]) this.#wakeLine(conflict, key, line);
    }
  }

  /** Called when a conflict key is held: the jobs that are still blocked wait until it is free again. */
  held(conflict: number): void {
    if (this.#partialWakes.length > 0) {
      this.#partialWakes = this.#partialWakes.filter((partial) => partial.conflict !== conflict);
    }
  }

  /** Called when a key's share or cap room changes. `improved`: the key may now come earlier than before. */
  changed(key: number, improved: boolean): void {
    for (const partial of this.#partialWakes) {
      for (const [class_, lastKey] of partial.lastKeys) {
        const line = this.#lineOf(key, class_);
        if (lastKey === key) this.#wakeBest(partial, [class_]);
        else if (improved && !partial.woken.has(line)) {
          partial.woken.add(line);
          const lines = this.#blocked.get(partial.conflict)?.lines.get(key);
          const ofLine = lines?.find((candidate) => candidate.class === class_);
          if (ofLine !== undefined) this.#wakeLine(partial.conflict, key, ofLine);
        }
      }
    }
  }

  /** Called when all shares may have fallen. */
  allRepriced(): void {
    for (const { conflict } of this.#partialWakes) this.wakeAll(conflict);
  }

  // Returns the first job of the best line of each of these classes, among the lines that are still blocked.
  #wakeBest(partial: PartialWake, classes: readonly number[]): void {
    const bests = new Map<number, BestLineSoFar>();
    for (const class_ of classes)
      bests.set(class_, { key: NONE, share: Number.POSITIVE_INFINITY, heap: NONE });
    // No line with a greater share than this is the best of any of the classes.
    let bound = Number.POSITIVE_INFINITY;
    const blocked = this.#blocked.get(partial.conflict)?.lines ?? new Map<number, BlockedOfLine[]>();
    for (const key of blocked.keys()) {
      const share = this.#ledgers.shareOf(key);
      // This check comes first, because it is all that is done for nearly all of the thousands of keys that may wait.
      if (share > bound || this.#ledgers.isFull(key)) continue;
      for (const line of [...(blocked.get(key) as BlockedOfLine[])]) {
        const best = bests.get(line.class);
        if (best !== undefined && share <= best.share) this.#compareWithBest(partial, best, key, share, line);
      }
      bound = 0;
      for (const best of bests.values()) bound = Math.max(bound, best.share);
    }
    for (const [class_, { key, heap }] of bests) {
      partial.lastKeys.set(class_, key);
      if (key === NONE) continue;
      partial.woken.add(this.#lineOf(key, class_));
      this.#wakeLine(partial.conflict, key, { class: class_, heap });
    }
  }

  // Makes this line the best of its class, if its first job comes before the best one's.
  #compareWithBest(
    partial: PartialWake,
    best: BestLineSoFar,
    key: number,
    share: number,
    line: BlockedOfLine,
  ): void {
    if (partial.woken.has(this.#lineOf(key, line.class))) return;
    this.#heaps.clean(line.heap);
    if (this.#heaps.first(line.heap) === NONE) {
      this.#deleteLine(partial.conflict, key, line);
    } else if (share < best.share || this.#heaps.precedes(line.heap, best.heap)) {
      best.key = key;
      best.share = share;
      best.heap = line.heap;
    }
  }

  // Returns the first blocked job of a line to the line.
  #wakeLine(conflict: number, key: number, line: BlockedOfLine): void {
    this.#heaps.clean(line.heap);
    const first = this.#heaps.first(line.heap);
    const jobRank = this.#heaps.firstRank(line.heap);
    if (first !== NONE) this.#heaps.pop(line.heap);
    if (this.#heaps.first(line.heap) === NONE) this.#deleteLine(conflict, key, line);
    if (first !== NONE) this.#putBack(this.#lineOf(key, line.class), first, jobRank);
  }

  // Called when a line has no blocked jobs left.
  #deleteLine(conflict: number, key: number, line: BlockedOfLine): void {
    this.#heaps.close(line.heap);
    const { lines, classes } = this.#blocked.get(conflict) as BlockedByKey;
    const left = (lines.get(key) as BlockedOfLine[]).filter((other) => other.class !== line.class);
    if (left.length > 0) lines.set(key, left);
    else lines.delete(key);
    const others = (classes.get(line.class) as number) - 1;
    if (others > 0) classes.set(line.class, others);
    else classes.delete(line.class);
    if (lines.size === 0) this.#blocked.delete(conflict);
  }

  #lineOf(key: number, class_: number): number {
    return key * this.#classes + class_;
  }
}
