/** Lines that a pass has used up, and when they are read again. */
import type { LineName } from '../core/planner.ts';

/** Whether nothing is known of a line beyond so many heads, and it does not go on. */
export const isUsedUp = (
  { jobs, next }: { readonly jobs: readonly unknown[]; readonly next?: string | undefined },
  offered: number,
): boolean => next === undefined && jobs.length <= offered;

/**
 * Lines that a pass uses up and reads again, because a job may have come without a hint; of more, what was read last and what hints
 * told since is believed for as long as of lines that are found used up. A small pass sees all, and a large one waits for few reads.
 */
const USED_UP_READ = 64;
/** Lines that are read beside those whose turn has come, at most: twice as many each time that a pass has to read. */
const AHEAD_MAX = 256;
/** And the second time that it has to. None the first time: who reads little reads nothing for nothing. */
const AHEAD_FIRST = 8;

/**
 * Lines whose remembered jobs a pass has used up, in the order in which it asked for them: each is read when its turn comes, and reads
 * that wait for each other hold up all slots. So some are read sooner, beside others.
 */
export class ReadAhead {
  readonly #usedUp = new Map<string, LineName>();
  #usedUpCount = 0;
  #count = 0;
  /** Lines are read now, whatever is ahead. */
  isReading = false;

  note(name: string, line: LineName): void {
    this.#usedUp.set(name, line);
  }

  forget(name: string): void {
    this.#usedUp.delete(name);
  }

  /** One more line is used up. Answers whether it is to be read again, whatever is believed of it. */
  readsUsedUp(): boolean {
    this.#usedUpCount += 1;
    return this.#usedUpCount <= USED_UP_READ;
  }

  /** What to read beside what is read now, no more than there is room for. */
  take(room: number): readonly (readonly [name: string, line: LineName])[] {
    if (!this.isReading) return [];
    this.isReading = false;
    const next = [...this.#usedUp].slice(0, Math.min(this.#count, room));
    for (const [name] of next) this.#usedUp.delete(name);
    this.#count = Math.min(AHEAD_MAX, Math.max(AHEAD_FIRST, 2 * this.#count));
    return next;
  }
}
