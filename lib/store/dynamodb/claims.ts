/** Claims, and the locks that guard a conflict key among partitions. */

import { randomUUID } from 'node:crypto';
import { ThrottledError, UnavailableError } from '../../core/errors.ts';
import { withAbandonedClaim } from '../../core/life-cycle.ts';
import type { ClaimStore } from '../contract/core.ts';
import type { LockStore } from '../contract/locks.ts';
import type { Lock } from '../contract/records.ts';
import type { ClaimOutcome, ClaimRequest } from '../contract/requests.ts';
import type { RequestOf, SubmitStore } from '../contract/verbs.ts';
import { ATTRIBUTE } from '../table/codec/attributes.ts';
import { ttlSec } from '../table/codec/cells.ts';
import { decodeMovingJob, encodeClaim } from '../table/codec/job.ts';
import { decodeLock, encodePartition } from '../table/codec/lock.ts';
import { jobKey, lockKey, nextWaiting } from '../table/schema.ts';
import type { DynamoConnection, Update } from './connection.ts';
import { notedHistory, PARALLEL_MAX, stateValues, versionValues } from './expressions.ts';
import { NO_PARTITION, partitionIn, type TableItems } from './items.ts';
import { inParallel } from './parallel.ts';

/** The index of the job's update in the transaction of a claim that takes a lock. */
const JOB_PART = 0;

const RELEASE_TRIES_MAX = 5;

/** How long a lock is kept after the partition with priority did not take it. */
const TURN_KEPT_MS = 3_600_000;

export class DynamoClaimStore implements ClaimStore, LockStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;
  readonly #submit: Pick<SubmitStore, 'lookUpJobs'>;

  constructor(items: TableItems, submit: Pick<SubmitStore, 'lookUpJobs'>) {
    this.#items = items;
    this.#table = items.table;
    this.#submit = submit;
  }

  async claim(requests: readonly ClaimRequest[]): Promise<readonly ClaimOutcome[]> {
    return inParallel(requests, PARALLEL_MAX, async (request): Promise<ClaimOutcome> => {
      try {
        return await this.#claimJob(request);
      } catch (error) {
        // The pass keeps the reservation of a claim with an unknown result, so nothing is lost.
        if (error instanceof UnavailableError || error instanceof ThrottledError) return 'unknown';
        throw error;
      }
    });
  }

  async #claimJob(request: ClaimRequest): Promise<ClaimOutcome> {
    const { jobId, version, claimId, lock } = request;
    const change = {
      update: `SET #state = :claimed, #version = :next, #claim = :claim
        REMOVE #line, #rank, #worker, #startedAtMs, #runUntilMs, #progress, #finishedAtMs`,
      condition: '#state = :pending AND #version = :version',
      values: {
        ...stateValues('claimed', 'pending'),
        ...versionValues(version),
        ':claim': encodeClaim(request),
      },
    };
    if (lock !== undefined) return this.#claimWithLock(request, lock, { key: jobKey(jobId), ...change });
    const outcome = await this.#table.update('claim', { key: jobKey(jobId), ...change });
    if (outcome.applied) return 'claimed';
    const { old } = outcome;
    const [present] =
      old === undefined || this.#items.hasExpired(old)
        ? []
        : await this.#items.readable(partitionIn(old), [old], decodeMovingJob);
    // If the job has this claim, an earlier try won and its answer got lost.
    return present?.claim?.claimId === claimId ? 'claimed' : 'lost';
  }

  async #claimWithLock(
    { jobId, claimId, claimedAtMs }: ClaimRequest,
    { conflictKey, partition }: NonNullable<ClaimRequest['lock']>,
    change: Update,
  ): Promise<ClaimOutcome> {
    const outcome = await this.#table.transact('claim', randomUUID(), [
      this.#table.updatePart(change),
      this.#table.updatePart({
        key: lockKey(conflictKey),
        update: `SET #conflictKey = :key, #claimId = :claimId, #partition = :partition, #jobId = :jobId
          REMOVE #turnOf, #untilMs, #ttl DELETE #waiting :waiting`,
        condition: `attribute_not_exists(#claimId)
          AND (attribute_not_exists(#turnOf) OR #turnOf = :partition OR #untilMs <= :now)`,
        values: {
          ':key': conflictKey,
          ':claimId': claimId,
          ':partition': partition,
          ':jobId': jobId,
          ':waiting': new Set([encodePartition(partition)]),
          ':now': claimedAtMs,
        },
      }),
    ]);
    if (outcome.applied) return 'claimed';
    if (!outcome.refused.has(JOB_PART)) return 'blocked';
    const [job] = await this.#submit.lookUpJobs({ ids: [jobId], unreadable: () => {} });
    return job?.claim?.claimId === claimId ? 'claimed' : 'lost';
  }

  async readLocks(conflictKeys: readonly string[]): Promise<readonly (Lock | undefined)[]> {
    const items = await this.#items.getAll('readLocks', conflictKeys.map(lockKey), (item) => item);
    // A lock that cannot be read counts as held by an unknown claim, because every claim on it would be refused.
    return this.#items.readableEach(NO_PARTITION, items, decodeLock, (_, at) => ({
      conflictKey: conflictKeys[at] ?? '',
      holder: { partition: NO_PARTITION, claimId: '', jobId: '' },
      waiting: [],
    }));
  }

  async awaitLock({ conflictKey, partition, nowMs }: RequestOf<'awaitLock'>): Promise<'waiting' | 'open'> {
    const outcome = await this.#table.update('awaitLock', {
      key: lockKey(conflictKey),
      update: 'ADD #waiting :waiting',
      condition: 'attribute_exists(#claimId) OR (#turnOf <> :partition AND #untilMs > :now)',
      values: {
        ':waiting': new Set([encodePartition(partition)]),
        ':partition': partition,
        ':now': nowMs,
      },
    });
    return outcome.applied ? 'waiting' : 'open';
  }

  async releaseLock({
    conflictKey,
    partition,
    claimId,
    untilMs,
  }: RequestOf<'releaseLock'>): Promise<{ readonly next?: number | undefined }> {
    const key = lockKey(conflictKey);
    const isHeld = '#claimId = :claimId AND #partition = :partition';
    const values = { ':claimId': claimId, ':partition': partition };
    // A partition may begin to wait between the two writes: the first requires that none waits, the second that `next` does.
    for (let tries = 1; tries <= RELEASE_TRIES_MAX; tries += 1) {
      const gone = await this.#table.delete(
        'releaseLock',
        key,
        `${isHeld} AND attribute_not_exists(#waiting)`,
        values,
      );
      if (gone.applied || gone.old === undefined) return {};
      const [lock] = await this.#items.readable(partition, [gone.old], decodeLock);
      if (lock === undefined) return {};
      const next = nextWaiting(lock.waiting, partition);
      // An earlier call has released the lock, and another claim may hold it now. If a partition has priority for it,
      // the answer names that partition.
      if (lock.holder?.claimId !== claimId || lock.holder.partition !== partition || next === undefined)
        return lock.turn === undefined ? {} : { next: lock.turn.partition };
      const passed = await this.#table.update('releaseLock', {
        key,
        update: `SET #turnOf = :next, #untilMs = :until, #ttl = :ttl
          REMOVE #claimId, #partition, #jobId DELETE #waiting :waiting`,
        condition: `${isHeld} AND contains(#waiting, :name)`,
        values: {
          ...values,
          ':next': next,
          ':until': untilMs,
          ':ttl': ttlSec(untilMs + TURN_KEPT_MS),
          ':waiting': new Set([encodePartition(next)]),
          ':name': encodePartition(next),
        },
      });
      if (passed.applied) return { next };
    }
    throw new ThrottledError(
      `releaseLock: the lock of ${conflictKey} changed at each of ${RELEASE_TRIES_MAX} tries; try again`,
    );
  }

  async raiseVersion({ jobId, version, given }: RequestOf<'raiseVersion'>): Promise<'raised' | 'lost'> {
    const callId = randomUUID();
    // The history of another version is not known, so it is not written.
    const { history } = given?.job.version === version ? withAbandonedClaim(given.job, given) : {};
    const historyClause = notedHistory(history);
    const outcome = await this.#table.update('raiseVersion', {
      key: jobKey(jobId),
      update: `SET #version = :next, #callId = :callId${historyClause.set}`,
      condition: '#state = :pending AND #version = :version',
      values: {
        ...stateValues('pending'),
        ...versionValues(version),
        ':callId': callId,
        ...historyClause.values,
      },
    });
    if (!outcome.applied) return outcome.old?.[ATTRIBUTE.callId] === callId ? 'raised' : 'lost';
    return 'raised';
  }
}
