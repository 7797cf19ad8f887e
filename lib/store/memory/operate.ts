/** Cancelling and retiming jobs, controls, dead letters, and rejected requests. */

import { CONTROL_FIELDS, type Control, controlAt } from '../../core/capacity.ts';
import { endedAtMs, isTerminal, type Job } from '../../core/job.ts';
import { cancel, requestCancel, retime } from '../../core/life-cycle.ts';
import type { ProducerStore } from '../contract/core.ts';
import type { OperateStore } from '../contract/operate.ts';
import type { Rejection, TagEntry, UnreadableItem } from '../contract/records.ts';
import {
  type Applied,
  alreadyHas,
  type CancelOutcome,
  type ControlChange,
  type ControlOutcome,
  type Heads,
  inOrder,
  type LinePage,
  type RejectionPage,
  type RetimeOutcome,
  type TagPage,
  withChange,
} from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { encodeRejection } from '../table/codec/rejection.ts';
import { encodeTag } from '../table/codec/tag.ts';
import { requireItemFits } from '../table/limits.ts';
import { needsLongerTtl } from '../table/payload.ts';
import {
  deadLineName,
  finishedLineName,
  latestFirstRange,
  latestFirstRank,
  rejectionRank,
  tagKey,
  tagPk,
} from '../table/schema.ts';
import { type MemoryItems, tokenOf } from './items.ts';
import type { MemoryScheduleStore } from './schedules.ts';

function controlAfter(before: Control, change: ControlChange, nowMs: number): Control {
  const { maxConcurrency, weight, restsUntilMs } = before;
  const cap = change.maxConcurrency === undefined ? maxConcurrency : change.maxConcurrency;
  const newWeight = change.weight === undefined ? weight : change.weight;
  const changes = inOrder(CONTROL_FIELDS.flatMap((field) => withChange(before, field, change, nowMs)));
  return {
    scope: before.scope,
    paused: change.paused ?? before.paused,
    ...(cap === undefined || cap === null ? {} : { maxConcurrency: cap }),
    ...(newWeight === undefined || newWeight === null ? {} : { weight: newWeight }),
    // An operator who lifts a pause wants the scope to run.
    ...(restsUntilMs === undefined || change.paused === false ? {} : { restsUntilMs }),
    ...(changes.length === 0 ? {} : { changes }),
  };
}

export class MemoryOperateStore implements OperateStore, Pick<ProducerStore, 'cancelJob' | 'retimeJob'> {
  readonly #items: MemoryItems;

  readonly #schedules: Pick<MemoryScheduleStore, 'damagedKeys'>;

  constructor(items: MemoryItems, schedules: Pick<MemoryScheduleStore, 'damagedKeys'>) {
    this.#items = items;
    this.#schedules = schedules;
  }

  async cancelJob({ jobId, nowMs, expiresAtMs, by }: RequestOf<'cancelJob'>): Promise<CancelOutcome> {
    return this.#items.write('cancelJob', () => {
      const item = this.#items.item(jobId);
      if (item === undefined) return { kind: 'missing' };
      const job = item.value;
      this.#items.bill.readJobs('cancelJob', [item]);
      this.#items.bill.readPayloads('cancelJob', [item], false);
      if (isTerminal(job.state)) return { kind: 'ended', job };
      const transition = cancel(job, nowMs, by);
      if (transition.kind === 'moved') {
        this.#items.bill.wrotePayload('cancelJob', job);
        return { kind: 'cancelled', job: this.#items.put(item, transition.job, expiresAtMs) };
      }
      // DynamoDB's first write, which requires that the job does not run, has failed.
      this.#items.bill.refused('cancelJob', item);
      const asked = requestCancel(job, nowMs, by);
      return { kind: 'requested', job: asked === job ? job : this.#items.put(item, asked) };
    });
  }

  async retimeJob({ job, runAtMs, priority, nowMs, by }: RequestOf<'retimeJob'>): Promise<RetimeOutcome> {
    return this.#items.write('retimeJob', () => {
      const item = this.#items.item(job.id);
      if (item === undefined) return { kind: 'missing' };
      const transition = retime(item.value, runAtMs, nowMs, by, priority);
      this.#items.bill.readJobs('retimeJob', [item]);
      this.#items.bill.readPayloads('retimeJob', [item], false);
      if (transition.kind === 'moved' && item.value.version === job.version) {
        if (needsLongerTtl(transition.job)) this.#items.bill.wrotePayload('retimeJob', transition.job);
        return { kind: 'moved', job: this.#items.put(item, transition.job) };
      }
      this.#items.bill.refused('retimeJob', item);
      return { kind: transition.kind === 'moved' ? 'superseded' : 'tooLate', job: item.value };
    });
  }

  async changeControl({ partition, scope, change }: RequestOf<'changeControl'>): Promise<ControlOutcome> {
    const seen = await this.#items.read('changeControl', () => {
      this.#items.bill.small('changeControl', 'read');
      return this.#items.partition(partition).controlRevisions.get(scope);
    });
    return this.#items.write('changeControl', () => {
      this.#items.bill.small('changeControl', 'write');
      const { controls, controlRevisions } = this.#items.partition(partition);
      const revisions = controlRevisions.get(scope);
      const nowMs = this.#items.clock();
      const present = controls.get(scope) ?? { scope, paused: false };
      const shown = controlAt(present, nowMs);
      const named = CONTROL_FIELDS.filter((field) => change[field] !== undefined);
      if (named.some((field) => revisions?.[field] !== seen?.[field]))
        return { kind: alreadyHas(shown, change) ? 'changed' : 'superseded', control: shown };
      const raised = named.map((field) => [field, (revisions?.[field] ?? 0) + 1] as const);
      controlRevisions.set(scope, { ...revisions, ...Object.fromEntries(raised) });
      const control = controlAfter(present, change, nowMs);
      controls.set(scope, control);
      return { kind: 'changed', control: controlAt(control, nowMs) };
    });
  }

  async rest({ partition, scope, untilMs }: RequestOf<'rest'>): Promise<Applied> {
    return this.#items.write('rest', () => {
      this.#items.bill.small('rest', 'write');
      const { controls } = this.#items.partition(partition);
      const present = controls.get(scope) ?? { scope, paused: false };
      if ((present.restsUntilMs ?? 0) >= untilMs) return 'superseded';
      controls.set(scope, { ...present, restsUntilMs: untilMs });
      return 'applied';
    });
  }

  async listUnreadable(partition: number): Promise<readonly UnreadableItem[]> {
    return this.#items.read('listUnreadable', () => {
      const present = this.#schedules.damagedKeys;
      return (this.#items.state.unreadable.get(partition) ?? []).filter(({ key }) => present.has(key));
    });
  }

  async readDeadLetters({ partition, limit, after }: RequestOf<'readDeadLetters'>): Promise<LinePage<Job>> {
    return this.#items.read('readDeadLetters', () => {
      const { jobs, next } = this.#items.headsOf('readDeadLetters', deadLineName(partition), limit, after);
      const items = jobs.map(({ id }) => this.#items.item(id));
      this.#items.bill.readPayloads('readDeadLetters', items, true);
      return { jobs: jobs.filter((_, at) => items[at] !== undefined), next };
    });
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
    return this.#items.read('readFinished', () => {
      const { from, below } = latestFirstRange({ sinceMs, untilMs });
      return this.#items.headsOf(
        'readFinished',
        finishedLineName(partition, state, type),
        limit,
        after ?? tokenOf({ rank: from, id: '' }),
        (job) => latestFirstRank(endedAtMs(job), job.id) < below,
      );
    });
  }

  async redrive({ deadLetter, job }: RequestOf<'redrive'>): Promise<Applied> {
    return this.#items.write('redrive', () => {
      const item = this.#items.item(deadLetter.id);
      if (item?.value.state !== 'failed' || item.value.version !== deadLetter.version) return 'superseded';
      if (item.value.redrivenAs !== undefined) {
        return item.value.redrivenAs === job.id ? 'applied' : 'superseded';
      }
      if (this.#items.item(job.id) !== undefined) return 'superseded';
      this.#items.bill.wrotePayload('redrive', job);
      const { redriveBy, submittedAtMs: redrivenAtMs } = job;
      const redrivenFields = { redrivenAtMs, ...(redriveBy === undefined ? {} : { redrivenBy: redriveBy }) };
      this.#items.bill.inTransaction('redrive', () => {
        this.#items.put(undefined, job);
        this.#items.put(item, { ...item.value, ...redrivenFields, redrivenAs: job.id }, item.expiresAtMs);
      });
      return 'applied';
    });
  }

  async recordRejections(rejections: readonly Rejection[]): Promise<void> {
    return this.#items.write('recordRejections', () => {
      for (const rejection of rejections) {
        const item = encodeRejection(rejection);
        requireItemFits(item);
        this.#items.bill.wroteItem('recordRejections', undefined, item);
        const bySource = this.#items.state.rejections.get(rejection.sourceId) ?? new Map<number, Rejection>();
        this.#items.state.rejections.set(rejection.sourceId, bySource);
        if (!bySource.has(rejection.position)) bySource.set(rejection.position, rejection);
      }
    });
  }

  async listRejections(sourceId: string): Promise<readonly Rejection[]> {
    return this.#items.read('listRejections', () => {
      const nowMs = this.#items.clock();
      return [...(this.#items.state.rejections.get(sourceId)?.values() ?? [])]
        .filter((rejection) => rejection.expiresAtMs > nowMs)
        .sort((a, b) => a.position - b.position);
    });
  }

  async readRejections({ limit, after = '' }: RequestOf<'readRejections'>): Promise<RejectionPage> {
    return this.#items.read('readRejections', () => {
      const nowMs = this.#items.clock();
      const ranked = [...this.#items.state.rejections.values()]
        .flatMap((bySource) => [...bySource.values()])
        .filter(({ expiresAtMs }) => expiresAtMs > nowMs)
        .map((rejection) => ({ rejection, rank: rejectionRank(rejection) }))
        .filter(({ rank }) => rank > after)
        .sort((one, other) => (one.rank < other.rank ? -1 : 1));
      const page = ranked.slice(0, limit);
      const next = ranked.length > page.length ? page.at(-1)?.rank : undefined;
      return { rejections: page.map(({ rejection }) => rejection), next };
    });
  }

  async recordTags(entries: readonly TagEntry[]): Promise<void> {
    return this.#items.write('recordTags', () => {
      for (const entry of entries) {
        const item = encodeTag(entry);
        requireItemFits(item);
        this.#items.bill.wroteItem('recordTags', undefined, item);
        const { pk, sk } = tagKey(entry);
        const tagged = this.#items.state.tagged.get(pk) ?? new Map<string, TagEntry>();
        this.#items.state.tagged.set(pk, tagged.set(sk, entry));
      }
    });
  }

  async readTagged({ name, value, limit, after = '' }: RequestOf<'readTagged'>): Promise<TagPage> {
    return this.#items.read('readTagged', () => {
      const found = [...(this.#items.state.tagged.get(tagPk(name, value)) ?? [])]
        .filter(([rank]) => rank > after)
        .sort(([one], [other]) => (one < other ? -1 : 1));
      const page = found.slice(0, limit);
      return {
        entries: page.map(([, { jobId, submittedAtMs }]) => ({ jobId, submittedAtMs })),
        next: found.length > page.length ? page.at(-1)?.[0] : undefined,
      };
    });
  }
}
