/**
 * The jobs of a `Scheduler` as limits see them: the running jobs that limits count, and the conflict keys of waiting jobs in
 * limits that are declared with `keyedBy`. A line has jobs of several such keys, so a job whose key has no room is blocked
 * like one whose resource is busy.
 */
import type { Backlog } from './backlog.ts';
import { type Conflicts, type KeyOfLimit, keyOfLimitIn } from './conflict.ts';
import type { ReservedJob, WaitingJob } from './job.ts';
import type { CountedJob, LimitGates } from './limits.ts';

export class JobsInLimits {
  readonly #gates: LimitGates;
  readonly #conflicts: Conflicts;
  readonly #backlog: Backlog;
  /** By ticket: what limits count of a running job. Empty in a pool without limits. */
  readonly #counted = new Map<number, CountedJob>();
  /** By number of a conflict key that waiting or running jobs have in a limit: that key of the limit. */
  readonly #keys = new Map<number, KeyOfLimit>();

  constructor(gates: LimitGates, conflicts: Conflicts, backlog: Backlog) {
    this.#gates = gates;
    this.#conflicts = conflicts;
    this.#backlog = backlog;
  }

  /** Notes the keys of a waiting job under its number. */
  arrive(number: number, type: number, job: WaitingJob): void {
    const { keys, units } = job;
    // planted: larger-than-allowed
    if (units !== undefined) this.#gates.makeRoomFor(type, job);
    const isLimited = !this.#gates.isEmpty && this.#gates.hasOtherKeys(type);
    if (keys === undefined && units === undefined && !isLimited) return;
    const conflicts = this.#gates.conflictKeysOf(type, job).map((conflictKey) => {
      const conflict = this.#conflicts.use(conflictKey);
      const key = keyOfLimitIn(conflictKey);
      if (key !== undefined) this.#keys.set(conflict, key);
      return conflict;
    });
    this.#backlog.jobs.setLimited(number, { keys, units, conflicts });
  }

  /** Called when a waiting job with these conflict keys was withdrawn: blocked jobs may have been waiting behind it. */
  withdrawn(conflicts: readonly number[]): void {
    for (const each of conflicts) {
      if (!this.isHeld(each)) this.#backlog.wakeAll(each);
      this.#leave(each);
    }
  }

  /** Counts a running job. The next blocked job of each line may start, too, while its keys have room. */
  count(ticket: number, number: number, job: CountedJob): void {
    if (this.#gates.isEmpty) return;
    this.#counted.set(ticket, job);
    this.#gates.count(job);
    for (const conflict of this.#backlog.jobs.limitConflictsOf(number)) {
      if (this.isHeld(conflict)) this.#backlog.held(conflict);
      else this.#backlog.wake(conflict);
    }
  }

  /** Removes a running job that has ended; `usedMs` is undefined for one that never started. */
  uncount(ticket: number, conflicts: readonly number[], usedMs: number | undefined, nowMs: number): void {
    const job = this.#counted.get(ticket);
    if (job === undefined) return;
    this.#gates.uncount(job, usedMs, nowMs);
    this.#counted.delete(ticket);
    for (const each of conflicts) this.#leave(each);
    if (this.#keys.size === 0) return;
    for (const conflictKey of this.#gates.conflictKeysIn(job.limits, job)) {
      const conflict = this.#conflicts.numberOf(conflictKey);
      if (conflict !== undefined && !this.isHeld(conflict)) this.#backlog.wake(conflict);
    }
  }

  /** Called when time or an operator may have made room. */
  open(): void {
    this.#backlog.openAll();
    for (const conflict of this.#keys.keys()) if (!this.isHeld(conflict)) this.#backlog.wake(conflict);
  }

  /** Whether a conflict key of a limit has no room left. */
  isHeld(conflict: number): boolean {
    if (this.#conflicts.isHeld(conflict)) return true;
    const key = this.#keys.get(conflict);
    return key !== undefined && !this.#gates.isOpenTo(key);
  }

  /** Whether a conflict key, of a limit or a resource, has no room left. */
  isKeyHeld(conflictKey: string): boolean {
    if (this.#conflicts.isKeyHeld(conflictKey)) return true;
    const key = keyOfLimitIn(conflictKey);
    return key !== undefined && !this.#gates.isOpenTo(key);
  }

  /** Whether a conflict key of a job of this type in a limit has no room left. */
  isBlocked(type: number, job: Pick<ReservedJob, 'fairnessKey' | 'keys'>): boolean {
    if (this.#gates.isEmpty || !this.#gates.hasOtherKeys(type)) return false;
    return this.#gates.conflictKeysOf(type, job).some((each) => this.isKeyHeld(each));
  }

  #leave(conflict: number): void {
    if (this.#conflicts.leave(conflict)) this.#keys.delete(conflict);
  }
}
