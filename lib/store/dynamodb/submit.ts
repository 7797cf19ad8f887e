/** Submitting and reading jobs, and announcing lines. */

import { UnavailableError } from '../../core/errors.ts';
import type { Job, MovingJob } from '../../core/job.ts';
import type { LineStore, ProducerStore } from '../contract/core.ts';
import type { ReadyLine } from '../contract/lines.ts';
import { rankCostOf } from '../contract/records.ts';
import type { CreateOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { encodeBacklogLine } from '../table/codec/backlog.ts';
import { decodeJob, decodeMovingJob, encodeJob, payloadIdOf } from '../table/codec/job.ts';
import { backlogKey, jobKey, keysLineName } from '../table/schema.ts';
import type { DynamoConnection } from './connection.ts';
import { PARALLEL_MAX } from './expressions.ts';
import { partitionIn, type TableItems } from './items.ts';
import { inParallel } from './parallel.ts';

export class DynamoSubmitStore
  implements Pick<ProducerStore, 'createJobs' | 'announceLines' | 'getJobs' | 'lookUpJobs'>
{
  readonly #items: TableItems;
  readonly #table: DynamoConnection;
  readonly #lines: Pick<LineStore, 'getLedgers'>;

  constructor(items: TableItems, lines: Pick<LineStore, 'getLedgers'>) {
    this.#items = items;
    this.#table = items.table;
    this.#lines = lines;
  }

  async createJobs(jobs: readonly Job[]): Promise<readonly CreateOutcome[]> {
    // If an id is in the list twice, its first job is put before the second one is tried.
    const seen = new Set<string>();
    const later: number[] = [];
    const first: number[] = [];
    for (const [index, { id }] of jobs.entries()) {
      (seen.has(id) ? later : first).push(index);
      seen.add(id);
    }
    const outcomes = new Map<number, CreateOutcome>();
    for (const indexes of [first, later]) {
      await inParallel(indexes, PARALLEL_MAX, async (index) => {
        const job = jobs[index];
        if (job !== undefined) outcomes.set(index, await this.#createJob(job));
      });
    }
    return jobs.flatMap((_, index) => outcomes.get(index) ?? []);
  }

  async #createJob(job: Job): Promise<CreateOutcome> {
    const { payloads } = this.#items;
    const payloadId = await payloads.put('createJobs', job);
    const outcome = await this.#table.put('createJobs', {
      item: encodeJob(job, this.#items.standingOf(job), payloadId),
      condition: 'attribute_not_exists(#pk) OR #ttl <= :nowSec',
      // planted: ids-a-second-early
      values: { ':nowSec': Math.floor(this.#items.nowMs() / 1000) },
    });
    if (outcome.applied) return { kind: 'created', job };
    const { old } = outcome;
    if (old === undefined) {
      throw new UnavailableError(
        `createJobs: job ${job.id} existed and was deleted during the call; repeat it`,
      );
    }
    // The present job has this payload if an earlier try put it and its answer got lost.
    if (payloadIdOf(old) !== payloadId) await payloads.discard('createJobs', job.id, payloadId);
    const present = await payloads.readJob('createJobs', old);
    return { kind: present.contentHash === job.contentHash ? 'repeated' : 'conflict', job: present };
  }

  async announceLines({
    partition,
    lines,
    nowMs,
    keyTtlMs = null,
    afterMs,
  }: RequestOf<'announceLines'>): Promise<readonly number[]> {
    const byKey = Map.groupBy(lines, ({ type, fairnessKey }) => JSON.stringify([type, fairnessKey]));
    const announcedAtMs = new Map<ReadyLine, number>();
    await inParallel([...byKey.values()], PARALLEL_MAX, async (group) => {
      const atMs = afterMs === undefined ? undefined : await this.#announcedAtMs(partition, group, afterMs);
      if (typeof atMs !== 'number')
        await this.#announce(partition, group, { nowMs, keyTtlMs, present: atMs });
      for (const line of group) announcedAtMs.set(line, typeof atMs === 'number' ? atMs : nowMs);
    });
    return lines.map((line) => announcedAtMs.get(line) ?? nowMs);
  }

  /**
   * Returns when these lines of a key were announced, if that is later than `afterMs`; else whether the key has any
   * lines.
   */
  async #announcedAtMs(
    partition: number,
    group: readonly ReadyLine[],
    afterMs: number,
  ): Promise<number | 'there' | 'missing'> {
    const [first] = group;
    if (first === undefined) return 'missing';
    const item = await this.#table.get('announceLines', backlogKey(partition, first.type, first.fairnessKey));
    if (item?.[ATTRIBUTE.line] === undefined) return 'missing';
    const { [ATTRIBUTE.announcedAtMs]: atMs, [ATTRIBUTE.lines]: names } = item;
    const isNamed = names instanceof Set && group.every((line) => names.has(encodeBacklogLine(line)));
    return isNamed && typeof atMs === 'number' && atMs > afterMs ? atMs : 'there';
  }

  async #announce(
    partition: number,
    group: readonly ReadyLine[],
    {
      nowMs,
      keyTtlMs,
      present,
    }: {
      readonly nowMs: number;
      readonly keyTtlMs: number | null;
      readonly present: 'there' | 'missing' | undefined;
    },
  ): Promise<void> {
    const [first] = group;
    if (first === undefined) return;
    const key = backlogKey(partition, first.type, first.fairnessKey);
    const values = { ':lines': new Set(group.map(encodeBacklogLine)), ':now': nowMs };
    let hasExpired = false;
    if (present !== 'missing') {
      const known = await this.#table.update('announceLines', {
        key,
        update: 'SET #announcedAtMs = :now ADD #lines :lines',
        condition: `attribute_exists(#line)${keyTtlMs === null ? '' : ' AND #announcedAtMs > :expiredSince'}`,
        values: keyTtlMs === null ? values : { ...values, ':expiredSince': nowMs - keyTtlMs },
      });
      if (known.applied) return;
      hasExpired = known.old?.[ATTRIBUTE.line] !== undefined;
    }
    const { fairnessKey } = first;
    const [ledger] = hasExpired
      ? []
      : await this.#lines.getLedgers({ partition, fairnessKeys: [fairnessKey] });
    const settledCostMs = rankCostOf(ledger, nowMs, keyTtlMs);
    await this.#table.update('announceLines', {
      key,
      update: `SET #announcedAtMs = :now, #fairnessKey = :fairnessKey, #line = :line,
        #rank = ${hasExpired ? ':rank' : 'if_not_exists(#rank, :rank)'} ADD #lines :lines REMOVE #ttl`,
      values: {
        ...values,
        ':fairnessKey': fairnessKey,
        ':line': keysLineName(partition, first.type),
        ':rank': this.#items.keyRanks.rankOf({ fairnessKey, settledCostMs }),
      },
    });
  }

  async getJobs(request: RequestOf<'getJobs'>): Promise<readonly (Job | undefined)[]> {
    const items = await this.#jobItems('getJobs', request);
    const payloadItems = await this.#items.payloads.readItems('getJobs', items);
    return this.#readable(request, items, (item, at) => decodeJob(item, payloadItems[at]));
  }

  async lookUpJobs(request: RequestOf<'lookUpJobs'>): Promise<readonly (MovingJob | undefined)[]> {
    return this.#readable(request, await this.#jobItems('lookUpJobs', request), decodeMovingJob);
  }

  #jobItems(verb: string, { ids }: RequestOf<'getJobs'>): Promise<readonly (Item | undefined)[]> {
    return this.#items.getAll(verb, ids.map(jobKey), (item) =>
      this.#items.hasExpired(item) ? undefined : item,
    );
  }

  async #readable<T>(
    { ids, unreadable }: RequestOf<'getJobs'>,
    items: readonly (Item | undefined)[],
    decode: (item: Item, at: number) => T,
  ): Promise<readonly (T | undefined)[]> {
    if (unreadable === undefined) return items.map((item, at) => item && decode(item, at));
    const jobs: (T | undefined)[] = [];
    for (const [at, item] of items.entries()) {
      const [job] =
        item === undefined
          ? []
          : await this.#items.readable(partitionIn(item), [item], (each) => decode(each, at));
      jobs.push(job);
      if (item !== undefined && job === undefined) unreadable(ids[at] ?? '');
    }
    return jobs;
  }
}
