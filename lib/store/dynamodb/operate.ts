/** Cancelling and retiming jobs, controls, dead letters, and rejected requests. */

import { randomUUID } from 'node:crypto';
import { CONTROL_FIELDS, type Control, controlAt } from '../../core/capacity.ts';
import { ThrottledError, UnavailableError } from '../../core/errors.ts';
import { isTerminal, type Job } from '../../core/job.ts';
import { isWaiting, retime } from '../../core/life-cycle.ts';
import type { ProducerStore } from '../contract/core.ts';
import { MalformedItemError } from '../contract/errors.ts';
import type { OperateStore } from '../contract/operate.ts';
import type { Rejection, TagEntry, UnreadableItem } from '../contract/records.ts';
import {
  type Applied,
  alreadyHas,
  type CancelOutcome,
  type ControlOutcome,
  type Heads,
  type LinePage,
  type RejectionPage,
  type RetimeOutcome,
  type TagPage,
  withChange,
} from '../contract/requests.ts';
import type { RequestOf, SubmitStore } from '../contract/verbs.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { ttlSec } from '../table/codec/cells.ts';
import { decodeControl } from '../table/codec/control.ts';
import { decodeJob, decodeJobHead, decodeMovingJob, encodeJob, payloadIdOf } from '../table/codec/job.ts';
import { decodeRejection, encodeRejection } from '../table/codec/rejection.ts';
import { isReadableSchedule, specKeyBeside } from '../table/codec/schedule.ts';
import { decodeTag, encodeTag } from '../table/codec/tag.ts';
import { decodeUnreadable, isReadable } from '../table/codec/unreadable.ts';
import {
  controlKey,
  deadLineName,
  finishedLineName,
  jobKey,
  latestFirstRange,
  REJECTIONS_LINE,
  rejectionKey,
  tagPk,
  unreadablePk,
} from '../table/schema.ts';
import type { DynamoConnection } from './connection.ts';
import {
  controlUpdate,
  finishedClause,
  notedHistory,
  PARALLEL_MAX,
  readyChange,
  standingValues,
  stateValues,
  versionValues,
} from './expressions.ts';
import { type ChangedJob, type TableItems, UNREADABLE_MAX } from './items.ts';
import { inParallel } from './parallel.ts';

const CANCEL_TRIES_MAX = 5;

/** Returns the outcome for a job that could not be retimed. */
function refusedRetime(job: Job | undefined): RetimeOutcome {
  if (job === undefined) return { kind: 'missing' };
  return { kind: isWaiting(job.state) ? 'superseded' : 'tooLate', job };
}

/** Returns a control as it was before a change. A control that cannot be read has no changes; the change repairs it. */
function changesBefore(item: Item): Control {
  const none = { scope: '', paused: false };
  if (item[ATTRIBUTE.scope] === undefined) return none;
  try {
    return decodeControl(item);
  } catch (error) {
    if (!(error instanceof MalformedItemError)) throw error;
    return none;
  }
}

export class DynamoOperateStore implements OperateStore, Pick<ProducerStore, 'cancelJob' | 'retimeJob'> {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;
  readonly #submit: Pick<SubmitStore, 'getJobs' | 'lookUpJobs'>;

  constructor(items: TableItems, submit: Pick<SubmitStore, 'getJobs' | 'lookUpJobs'>) {
    this.#items = items;
    this.#table = items.table;
    this.#submit = submit;
  }

  async cancelJob({ jobId, nowMs, expiresAtMs, by }: RequestOf<'cancelJob'>): Promise<CancelOutcome> {
    const seen = await this.#table.get('cancelJob', jobKey(jobId));
    if (seen === undefined || this.#items.hasExpired(seen)) return { kind: 'missing' };
    // The payload is read before the write; a deduplicated request that replaces it meanwhile is not seen. A failed read after the write would hide that the job was cancelled.
    const payload = await this.#items.payloads.readItem('cancelJob', seen);
    const callId = randomUUID();
    const requestClause = `#cancelRequestedAtMs = :now, #cancelRequestedIn = #state${
      by === undefined ? '' : ', #cancelRequestedBy = :by'
    }`;
    const listed = finishedClause(decodeMovingJob(seen), 'cancelled', nowMs);
    const requestValues = { ':now': nowMs, ...(by === undefined ? {} : { ':by': by }) };
    // A worker may start the job, or end its attempt, between the two writes.
    for (let tries = 1; tries <= CANCEL_TRIES_MAX; tries += 1) {
      const cancelled = await this.#items.changeJob('cancelJob', jobId, {
        // `finishedAtMs` of an earlier attempt stays, because that attempt's cost is charged by it.
        update: `SET #state = :cancelled, #version = #version + :one, #ttl = :ttl, #callId = :callId,
          #finishedAtMs = if_not_exists(#finishedAtMs, :now), ${requestClause}${
            listed.set === '' ? ' REMOVE #line, #rank, #expiry' : `${listed.set} REMOVE #expiry`
          }`,
        condition: '#state IN (:scheduled, :pending, :claimed)',
        values: {
          ...stateValues('cancelled', 'scheduled', 'pending', 'claimed'),
          ...requestValues,
          ...listed.values,
          ':one': 1,
          ':ttl': ttlSec(expiresAtMs),
          ':callId': callId,
        },
      });
      const { job, item } = cancelled;
      if (job === undefined) return { kind: 'missing' };
      if (isTerminal(job.state)) {
        const isOurs = cancelled.applied || item[ATTRIBUTE.callId] === callId;
        if (isOurs)
          await this.#items.hint(() =>
            this.#items.payloads.expireWithJob('cancelJob', item, job, expiresAtMs),
          );
        return { kind: isOurs ? 'cancelled' : 'ended', job: decodeJob(item, payload) };
      }
      const requested = await this.#items.changeJob('cancelJob', jobId, {
        update: `SET ${requestClause}`,
        condition: '#state = :running AND attribute_not_exists(#cancelRequestedAtMs)',
        values: { ...stateValues('running'), ...requestValues },
      });
      if (isCancelRequested(requested)) {
        return { kind: 'requested', job: decodeJob(requested.item, payload) };
      }
    }
    throw new ThrottledError(
      `cancelJob: job ${jobId} changed at each of ${CANCEL_TRIES_MAX} tries, nothing was changed; try again`,
    );
  }

  async retimeJob({ job, runAtMs, priority, nowMs, by }: RequestOf<'retimeJob'>): Promise<RetimeOutcome> {
    const transition = retime(job, runAtMs, nowMs, by, priority);
    if (transition.kind === 'refused') {
      const [present] = await this.#submit.getJobs({ ids: [job.id] });
      return refusedRetime(present);
    }
    const next = transition.job;
    const seen = await this.#table.get('retimeJob', jobKey(job.id));
    if (seen === undefined || this.#items.hasExpired(seen)) return { kind: 'missing' };
    // The payload is read before the write; a deduplicated request that replaces it meanwhile is not seen. A failed read after the write would hide that the job was retimed.
    const payload = await this.#items.payloads.readItem('retimeJob', seen);
    await this.#items.payloads.extend('retimeJob', seen, next);
    // A job that is ready and stays ready keeps its line, because it may be parked.
    const standing =
      job.state === 'pending' && next.state === 'pending' ? undefined : this.#items.standingOf(next);
    const callId = randomUUID();
    const ready = readyChange(next);
    const historyClause = notedHistory(next.history);
    const expires = next.expireAtMs === undefined ? {} : { ':expireAt': next.expireAtMs };
    const outcome = await this.#table.update('retimeJob', {
      key: jobKey(job.id),
      update: `SET #state = :after, #version = :next, #runAtMs = :runAt, #priority = :priority, #callId = :callId, ${ready.set}${historyClause.set}${
        next.expireAtMs === undefined ? '' : ', #expireAtMs = :expireAt'
      }
        ${standing === undefined ? '' : ', #line = :line, #rank = :rank'} ${ready.remove}`,
      condition: '#state = :before AND #version = :version',
      values: {
        ':before': job.state,
        ':after': next.state,
        ...versionValues(job.version),
        ':runAt': next.runAtMs,
        ':priority': next.priority,
        ...expires,
        ...ready.values,
        ...historyClause.values,
        ':callId': callId,
        ...(standing === undefined ? {} : standingValues(standing)),
      },
    });
    const item = outcome.applied ? outcome.item : outcome.old;
    if (item === undefined || this.#items.hasExpired(item)) return { kind: 'missing' };
    const present = decodeJob(item, payload);
    if (!outcome.applied && item[ATTRIBUTE.callId] !== callId) return refusedRetime(present);
    return { kind: 'moved', job: present };
  }

  async changeControl({ partition, scope, change }: RequestOf<'changeControl'>): Promise<ControlOutcome> {
    const key = controlKey(partition, scope);
    const seen = (await this.#table.get('changeControl', key)) ?? {};
    const callId = randomUUID();
    const nowMs = this.#items.nowMs();
    const before = changesBefore(seen);
    const changes = CONTROL_FIELDS.flatMap((field) => withChange(before, field, change, nowMs));
    const { sets, removes, conditions, values } = controlUpdate(change, seen, changes);
    // An operator who lifts a pause wants the scope to run, so a rest ends, too.
    const removed = change.paused === false ? [...removes, '#restsUntilMs'] : removes;
    const outcome = await this.#table.update('changeControl', {
      key,
      update: `SET ${sets.join(', ')}${removed.length === 0 ? '' : ` REMOVE ${removed.join(', ')}`}`,
      ...(conditions.length === 0 ? {} : { condition: conditions.join(' AND ') }),
      values: { ...values, ':scope': scope, ':callId': callId },
    });
    const item = outcome.applied ? outcome.item : outcome.old;
    if (item === undefined)
      throw new UnavailableError(
        `changeControl: the control of ${scope} was deleted during the call; repeat it`,
      );
    const control = controlAt(decodeControl(item), nowMs);
    const isApplied = outcome.applied || item[ATTRIBUTE.callId] === callId || alreadyHas(control, change);
    return { kind: isApplied ? 'changed' : 'superseded', control };
  }

  async rest({ partition, scope, untilMs }: RequestOf<'rest'>): Promise<Applied> {
    const outcome = await this.#table.update('rest', {
      key: controlKey(partition, scope),
      update: 'SET #scope = :scope, #paused = if_not_exists(#paused, :false), #restsUntilMs = :until',
      condition: 'attribute_not_exists(#restsUntilMs) OR #restsUntilMs < :until',
      values: { ':scope': scope, ':false': false, ':until': untilMs },
      // The worker's role may write these attributes, and may not read the item.
      isBlind: true,
    });
    return outcome.applied ? 'applied' : 'superseded';
  }

  async listUnreadable(partition: number): Promise<readonly UnreadableItem[]> {
    const query = { condition: '#pk = :pk', values: { ':pk': unreadablePk(partition) } };
    const items = await this.#items.pages('listUnreadable', query, UNREADABLE_MAX);
    const notes = items.map(decodeUnreadable);
    const present = await this.#items.getAll(
      'listUnreadable',
      notes.map(({ itemKey }) => itemKey),
      (item) => item,
    );
    // A schedule is two items, and either may be unreadable.
    const specKeys = notes.flatMap(({ itemKey }) => specKeyBeside(itemKey) ?? []);
    const specs = new Map(
      (await this.#items.getAll('listUnreadable', specKeys, (item) => item)).map((item, at) => [
        specKeys[at]?.pk,
        item,
      ]),
    );
    return notes.flatMap(({ itemKey, note }, at) => {
      const item = present[at];
      if (item === undefined) return [];
      const isFine =
        specKeyBeside(itemKey) === undefined
          ? isReadable(item)
          : isReadableSchedule(item, specs.get(itemKey.pk));
      return isFine ? [] : note;
    });
  }

  async readDeadLetters({ partition, limit, after }: RequestOf<'readDeadLetters'>): Promise<LinePage<Job>> {
    const { items, next } = await this.#items.heads('readDeadLetters', deadLineName(partition), limit, after);
    const heads = await this.#items.readable(partition, items, decodeJobHead);
    const found = await this.#items.getAll(
      'readDeadLetters',
      heads.map(({ id }) => jobKey(id)),
      (item) => (this.#items.hasExpired(item) ? undefined : item),
    );
    const payloadItems = await this.#items.payloads.readItems('readDeadLetters', found);
    const payloadOf = new Map(found.map((item, at) => [item, payloadItems[at]]));
    const jobs = await this.#items.readableEach(partition, found, (item) =>
      decodeJob(item, payloadOf.get(item)),
    );
    return {
      jobs: jobs.filter((job) => job?.state === 'failed' && job.redrivenAs === undefined) as Job[],
      next,
    };
  }

  async readFinished({
    partition,
    state,
    type,
    sinceMs,
    untilMs,
    limit,
    after,
  }: RequestOf<'readFinished'>): Promise<Heads> {
    const line = finishedLineName(partition, state, type);
    const range = latestFirstRange({ sinceMs, untilMs });
    const { items, next } = await this.#items.heads('readFinished', line, limit, after, range);
    return { jobs: await this.#items.readable(partition, items, decodeJobHead), next };
  }

  async redrive({ deadLetter, job }: RequestOf<'redrive'>): Promise<Applied> {
    const nowSec = { ':nowSec': Math.floor(this.#items.nowMs() / 1000) };
    const by =
      job.redriveBy === undefined
        ? { set: '', values: {} }
        : { set: ', #redrivenBy = :by', values: { ':by': job.redriveBy } };
    const payloadId = await this.#items.payloads.put('redrive', job);
    const outcome = await this.#table.transact('redrive', randomUUID(), [
      this.#table.putPart({
        item: encodeJob(job, this.#items.standingOf(job), payloadId),
        condition: 'attribute_not_exists(#pk) OR #ttl <= :nowSec',
        values: nowSec,
      }),
      this.#table.updatePart({
        key: jobKey(deadLetter.id),
        update: `SET #redrivenAs = :id, #redrivenAtMs = :now${by.set} REMOVE #line, #rank`,
        condition:
          '#state = :failed AND #version = :version AND attribute_not_exists(#redrivenAs) AND #ttl > :nowSec',
        values: {
          ...stateValues('failed'),
          ...nowSec,
          ...by.values,
          ':version': deadLetter.version,
          ':id': job.id,
          ':now': job.submittedAtMs,
        },
      }),
    ]);
    if (outcome.applied) return 'applied';
    if (payloadId !== undefined) {
      const made = await this.#table.get('redrive', jobKey(job.id));
      if (made === undefined || payloadIdOf(made) !== payloadId)
        await this.#items.payloads.discard('redrive', job.id, payloadId);
    }
    const [present] = await this.#submit.lookUpJobs({ ids: [deadLetter.id] });
    return present?.redrivenAs === job.id ? 'applied' : 'superseded';
  }

  async recordRejections(rejections: readonly Rejection[]): Promise<void> {
    await inParallel(rejections, PARALLEL_MAX, async (rejection) => {
      await this.#table.put('recordRejections', {
        item: encodeRejection(rejection),
        condition: 'attribute_not_exists(#pk)',
      });
    });
  }

  async listRejections(sourceId: string): Promise<readonly Rejection[]> {
    const items = await this.#items.collection('listRejections', rejectionKey(sourceId, 0).pk);
    return items.filter((item) => !this.#items.hasExpired(item)).map(decodeRejection);
  }

  async readRejections({ limit, after }: RequestOf<'readRejections'>): Promise<RejectionPage> {
    const { items, next } = await this.#items.heads('readRejections', REJECTIONS_LINE, limit, after);
    const found = await this.#items.getAll(
      'readRejections',
      items.map((item) => ({ pk: String(item[ATTRIBUTE.pk]), sk: String(item[ATTRIBUTE.sk]) })),
      (item) => (this.#items.hasExpired(item) ? undefined : decodeRejection(item)),
    );
    return { rejections: found.filter((rejection) => rejection !== undefined), next };
  }

  async recordTags(entries: readonly TagEntry[]): Promise<void> {
    await inParallel(entries, PARALLEL_MAX, async (entry) => {
      await this.#table.put('recordTags', { item: encodeTag(entry) });
    });
  }

  async readTagged({ name, value, limit, after }: RequestOf<'readTagged'>): Promise<TagPage> {
    const pk = tagPk(name, value);
    const { items, last } = await this.#items.upTo(limit, 'readTagged', {
      condition: '#pk = :pk',
      values: { ':pk': pk },
      after: after === undefined ? undefined : { pk, sk: after },
    });
    return {
      entries: items.map(decodeTag),
      next: last === undefined ? undefined : String(last[ATTRIBUTE.sk]),
    };
  }
}

/** Whether a cancellation of the running job was requested, by this call or an earlier one. */
function isCancelRequested(requested: ChangedJob): requested is ChangedJob & { readonly item: Item } {
  return (
    requested.applied ||
    (requested.job?.state === 'running' && requested.job.cancelRequestedAtMs !== undefined)
  );
}
