/** A partition's lease, and the counter of its wakes. */

import { randomBytes, randomUUID } from 'node:crypto';
import { HINTS_MAX } from '../bounds.ts';
import type { LeaseStore, RequestOf } from '../contract.ts';
import { StoreUnavailable } from '../errors.ts';
import type { JobHint } from '../job-fields.ts';
import { type LeaseRecord, type NamedJob, NO_WAKES, nameOfHints, type Wakes } from '../records.ts';
import type { LeaseOutcome } from '../requests.ts';
import { hintsKey, leaseKey, pageKey, wakeKey } from '../schema.ts';
import { decodeHints, encodeHints } from './codec/hints.ts';
import { decodeLease, decodeWakes, encodeWordSeen, type LeaseItem } from './codec/lease.ts';
import type { DynamoConnection } from './connection.ts';
import { PARALLEL_MAX } from './expressions.ts';
import type { TableItems } from './items.ts';
import { chunksOf, inParallel } from './parallel.ts';

/** Nobody else makes that name. */
const newHintsId = (): string => randomBytes(12).toString('base64url');
/** What came in a word may be anything: what can be no key would be refused, and with it each pass until the word is taken away. */
const HINTS_ID = /^[\w-]{1,64}$/;

/** Tries for a lease whose holder changes with each. */
const TAKE_OVERS_MAX = 3;

interface Take {
  readonly partition: number;
  readonly holder: string;
  readonly nowMs: number;
  readonly leaseMs: number;
  readonly callId: string;
}

export class DynamoLeaseStore implements LeaseStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;

  constructor(items: TableItems) {
    this.#items = items;
    this.#table = items.table;
  }

  async acquireLease({
    partition,
    holder,
    nowMs,
    leaseMs,
  }: RequestOf<'acquireLease'>): Promise<LeaseOutcome> {
    const take: Take = { partition, holder, nowMs, leaseMs, callId: randomUUID() };
    // One that was given back as it should be: nothing that its holder wrote is still on its way.
    let lease = await this.#take(take, 'attribute_not_exists(#holder) AND attribute_not_exists(#isWriting)');
    for (let tries = 0; tries < TAKE_OVERS_MAX; tries += 1) {
      if (lease.callId === take.callId || lease.expiresAtMs > nowMs) break;
      await this.#fencePage(partition, lease.epoch + 1);
      lease = await this.#take(take, '#epoch = :former AND #expiresAtMs <= :now', lease.epoch);
    }
    const { epoch, expiresAtMs, wakesSeen } = lease;
    if (lease.callId !== take.callId) return { kind: 'held', epoch, expiresAtMs, holder: lease.holder ?? '' };
    return { kind: 'acquired', epoch, expiresAtMs, ...(wakesSeen === undefined ? {} : { wakesSeen }) };
  }

  /** Takes the lease if this is so. Answers the lease as it is then: one with this call's id is taken. */
  async #take(
    { partition, holder, nowMs, leaseMs, callId }: Take,
    condition: string,
    former?: number,
  ): Promise<LeaseItem> {
    const outcome = await this.#table.update('acquireLease', {
      key: leaseKey(partition),
      update: `SET #epoch = if_not_exists(#epoch, :zero) + :one, #holder = :holder, #expiresAtMs = :expires,
        #callId = :callId, #takenAtMs = :taken REMOVE #lastHolder, #isWriting, #openEpoch`,
      condition,
      values: {
        ':zero': 0,
        ':one': 1,
        ':holder': holder,
        ':expires': nowMs + leaseMs,
        ':callId': callId,
        ':taken': nowMs,
        ...(former === undefined ? {} : { ':former': former, ':now': nowMs }),
      },
    });
    const item = outcome.applied ? outcome.item : outcome.old;
    if (item === undefined) {
      throw new StoreUnavailable(`acquireLease: the lease of partition ${partition} went away; try again`);
    }
    return decodeLease(item);
  }

  /** From now on no commit of an earlier epoch turns the page, whenever it arrives. */
  async #fencePage(partition: number, epoch: number): Promise<void> {
    await this.#table.update('acquireLease', {
      key: pageKey(partition),
      update: 'SET #pageEpoch = :epoch, #turn = if_not_exists(#turn, :zero)',
      condition: 'attribute_not_exists(#pageEpoch) OR #pageEpoch < :epoch',
      values: { ':epoch': epoch, ':zero': 0 },
    });
  }

  async renewLease({
    fence,
    nowMs,
    leaseMs,
    wantsWord,
  }: RequestOf<'renewLease'>): Promise<'renewed' | 'lost'> {
    const noted = wantsWord === undefined ? '' : ', #wantsWord = :wantsWord, #saidAtMs = :saidAtMs';
    const outcome = await this.#table.update('renewLease', {
      key: leaseKey(fence.partition),
      update: `SET #expiresAtMs = :expires${noted}`,
      // A renewal that arrives after the release must not take the lease away from everybody.
      condition: '#epoch = :epoch AND attribute_exists(#holder)',
      values: {
        ':expires': nowMs + leaseMs,
        ':epoch': fence.epoch,
        ...(wantsWord === undefined ? {} : { ':wantsWord': wantsWord, ':saidAtMs': nowMs }),
      },
    });
    return outcome.applied ? 'renewed' : 'lost';
  }

  async releaseLease({
    fence,
    wakesSeen,
    isWriting = false,
    isOpen = false,
  }: RequestOf<'releaseLease'>): Promise<'released' | 'lost'> {
    const noted = wakesSeen === undefined ? '' : ', #wakesSeen = :wakesSeen, #wordSeen = :wordSeen';
    // Whoever takes it then fences the page first.
    const writing = isWriting || isOpen ? ', #isWriting = :isWriting' : '';
    const open = isOpen ? ', #openEpoch = :epoch' : '';
    const outcome = await this.#table.update('releaseLease', {
      key: leaseKey(fence.partition),
      update: `SET #expiresAtMs = :past${noted}${writing}${open}, #lastHolder = #holder REMOVE #holder, #callId`,
      condition: '#epoch = :epoch AND attribute_exists(#holder)',
      values: {
        ':past': 0,
        ':epoch': fence.epoch,
        ...(wakesSeen === undefined
          ? {}
          : { ':wakesSeen': wakesSeen.wakes, ':wordSeen': encodeWordSeen(wakesSeen) }),
        ...(isWriting || isOpen ? { ':isWriting': true } : {}),
      },
    });
    if (outcome.applied) return 'released';
    // A release that comes twice finds no holder any more.
    const isReleased = outcome.old !== undefined && decodeLease(outcome.old).epoch === fence.epoch;
    return isReleased ? 'released' : 'lost';
  }

  async readLease(partition: number): Promise<LeaseRecord | undefined> {
    const item = await this.#table.get('readLease', leaseKey(partition));
    if (item === undefined) return undefined;
    const { epoch, holder, isOpen, lastHolder, takenAtMs, expiresAtMs, word } = decodeLease(item);
    const known = holder ?? lastHolder;
    return {
      epoch,
      ...(known === undefined ? {} : { holder: known }),
      isHeld: holder !== undefined,
      isOpen,
      ...(takenAtMs === undefined ? {} : { takenAtMs }),
      expiresAtMs,
      ...(word === undefined ? {} : { word }),
    };
  }

  async readWakes(partition: number): Promise<Wakes> {
    const item = await this.#table.get('readWakes', wakeKey(partition));
    return item === undefined ? NO_WAKES : decodeWakes(item);
  }

  async putHints({ partition, hints, nowMs }: RequestOf<'putHints'>): Promise<readonly NamedJob[]> {
    const items = chunksOf(hints, HINTS_MAX).flatMap((chunk) =>
      encodeHints(partition, chunk, { newId: newHintsId, nowMs }),
    );
    await inParallel(items, PARALLEL_MAX, ({ item }) => this.#table.put('putHints', { item }));
    return items.map(({ hintsId }) => nameOfHints(hintsId));
  }

  async readHints({ partition, names }: RequestOf<'readHints'>): Promise<readonly JobHint[] | undefined> {
    // A word that was left twice names them twice.
    const ids = [...new Set(names.map(({ id }) => id))];
    if (!ids.every((id) => HINTS_ID.test(id))) return undefined;
    const keys = ids.map((id) => hintsKey(partition, id));
    const items = await this.#items.getAll('readHints', keys, (item) =>
      this.#items.isGone(item) ? undefined : item,
    );
    const found = await this.#items.readableEach(partition, items, decodeHints);
    return found.includes(undefined) ? undefined : found.flatMap((hints) => hints ?? []);
  }

  async dropNames({ partition, seen: { names, jobs } }: RequestOf<'dropNames'>): Promise<void> {
    if (jobs.length === 0) return;
    const dropped = names - jobs.length;
    // From behind: so it is the same whether positions count before all are taken away, as they should, or after each.
    const taken = jobs.map((_, at) => `#namedJobs[${jobs.length - 1 - at}]`).join(', ');
    await this.#table.update('dropNames', {
      key: wakeKey(partition),
      update: `SET #namesDropped = :names REMOVE ${taken}`,
      // Others stand in front by now if somebody else has taken these away.
      condition: dropped === 0 ? 'attribute_not_exists(#namesDropped)' : '#namesDropped = :dropped',
      values: { ':names': names, ...(dropped === 0 ? {} : { ':dropped': dropped }) },
    });
  }
}
