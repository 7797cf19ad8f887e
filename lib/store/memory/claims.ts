/** Claims, and the locks that guard a conflict key among partitions. */

import { claim, raiseVersion } from '../../core/life-cycle.ts';
import type { ClaimStore } from '../contract/core.ts';
import type { LockStore } from '../contract/locks.ts';
import { isOpenTo, type Lock } from '../contract/records.ts';
import type { ClaimOutcome, ClaimRequest } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { nextWaiting } from '../table/schema.ts';
import type { MemoryItems } from './items.ts';

export class MemoryClaimStore implements ClaimStore, LockStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async claim(requests: readonly ClaimRequest[]): Promise<readonly ClaimOutcome[]> {
    await undefined;
    return requests.map((request): ClaimOutcome => {
      if (this.#items.happens('throttled')) return 'unknown';
      this.#items.verb = 'claim';
      this.#items.input = request;
      const outcome = this.#claimOne(request);
      return this.#items.happens('unanswered') ? 'unknown' : outcome;
    });
  }

  #claimOne(request: ClaimRequest): ClaimOutcome {
    const item = this.#items.item(request.jobId);
    const { claimId, batchId, fleet, claimedAtMs, declared } = request;
    const won = {
      ...{ claimId, batchId, fleet, claimedAtMs },
      ...(declared === undefined ? {} : { declared }),
    };
    // planted: claim-version
    const transition = item === undefined ? undefined : claim(item.value, won, request.version);
    if (transition?.kind === 'moved') {
      const { lock } = request;
      const take = (): ClaimOutcome => {
        if (lock !== undefined && !this.#takeLock(request, lock)) return 'blocked';
        this.#items.put(item, transition.job);
        return 'claimed';
      };
      return lock === undefined ? take() : this.#items.bill.inTransaction('claim', take);
    }
    this.#items.bill.refused('claim', item);
    // If the job has this claim, an earlier try won and its answer got lost.
    return item?.value.claim?.claimId === claimId ? 'claimed' : 'lost';
  }

  #takeLock(
    { jobId, claimId, claimedAtMs }: ClaimRequest,
    { conflictKey, partition }: NonNullable<ClaimRequest['lock']>,
  ): boolean {
    this.#items.bill.small('claim', 'write');
    const lock = this.#items.state.locks.get(conflictKey);
    if (!isOpenTo(lock, partition, claimedAtMs)) return false;
    const waiting = lock?.waiting.filter((each) => each !== partition) ?? [];
    this.#items.state.locks.set(conflictKey, { conflictKey, holder: { partition, claimId, jobId }, waiting });
    return true;
  }

  async readLocks(conflictKeys: readonly string[]): Promise<readonly (Lock | undefined)[]> {
    return this.#items.read('readLocks', () => {
      this.#items.bill.readItems('readLocks', conflictKeys.length);
      return conflictKeys.map((key) => this.#items.state.locks.get(key));
    });
  }

  async awaitLock({ conflictKey, partition, nowMs }: RequestOf<'awaitLock'>): Promise<'waiting' | 'open'> {
    return this.#items.write('awaitLock', () => {
      this.#items.bill.small('awaitLock', 'write');
      const lock = this.#items.state.locks.get(conflictKey);
      if (lock === undefined || isOpenTo(lock, partition, nowMs)) return 'open';
      const waiting = [...new Set([...lock.waiting, partition])].sort((one, other) => one - other);
      this.#items.state.locks.set(conflictKey, { ...lock, waiting });
      return 'waiting';
    });
  }

  async releaseLock({
    conflictKey,
    partition,
    claimId,
    untilMs,
  }: RequestOf<'releaseLock'>): Promise<{ readonly next?: number | undefined }> {
    return this.#items.write('releaseLock', () => {
      this.#items.bill.small('releaseLock', 'write');
      const lock = this.#items.state.locks.get(conflictKey);
      if (lock?.holder?.claimId !== claimId || lock.holder.partition !== partition) {
        // An earlier call has released the lock, and another claim may hold it now. If a partition has priority for it,
        // the answer names that partition.
        return lock?.turn === undefined ? {} : { next: lock.turn.partition };
      }
      const next = nextWaiting(lock.waiting, partition);
      if (next === undefined) {
        this.#items.state.locks.delete(conflictKey);
        return {};
      }
      // DynamoDB's first write, which requires that no partition waits, has failed.
      this.#items.bill.small('releaseLock', 'write');
      const waiting = lock.waiting.filter((each) => each !== next);
      this.#items.state.locks.set(conflictKey, { conflictKey, turn: { partition: next, untilMs }, waiting });
      return { next };
    });
  }

  async raiseVersion({ jobId, version, given }: RequestOf<'raiseVersion'>): Promise<'raised' | 'lost'> {
    return this.#items.write(
      'raiseVersion',
      () => {
        const item = this.#items.item(jobId);
        const transition = item === undefined ? undefined : raiseVersion(item.value, version, given);
        if (transition?.kind !== 'moved') {
          this.#items.bill.refused('raiseVersion', item);
          return 'lost';
        }
        this.#items.put(item, transition.job);
        return 'raised';
      },
      version,
    );
  }
}
