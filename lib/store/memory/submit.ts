/** Submitting and reading jobs, and announcing lines. */

import type { Job, MovingJob } from '../../core/job.ts';
import type { ProducerStore } from '../contract/core.ts';
import type { ReadyLine } from '../contract/lines.ts';
import { rankCostOf } from '../contract/records.ts';
import type { CreateOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { jobKey } from '../table/schema.ts';
import { withLine } from './backlogs.ts';
import { requireJobFits, requireKeyFits } from './imitation/fits.ts';
import type { MemoryItems } from './items.ts';

const keyOf = ({ type, fairnessKey }: ReadyLine): string => JSON.stringify([type, fairnessKey]);

export class MemorySubmitStore
  implements Pick<ProducerStore, 'createJobs' | 'announceLines' | 'getJobs' | 'lookUpJobs'>
{
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  #isAnnounced(partition: number, line: ReadyLine, afterMs = Infinity): boolean {
    const { backlogs } = this.#items.partition(partition);
    const present = backlogs.get(line.fairnessKey)?.get(line.type)?.value;
    if (present === undefined || present.announcedAtMs <= afterMs) return false;
    return withLine(present, line).lines.length === present.lines.length;
  }

  async createJobs(jobs: readonly Job[]): Promise<readonly CreateOutcome[]> {
    return this.#items.write('createJobs', () =>
      jobs.map((job): CreateOutcome => {
        const present = this.#items.item(job.id)?.value;
        requireJobFits(job, job.payload);
        this.#items.bill.wrotePayload('createJobs', job);
        if (present === undefined) {
          this.#items.put(undefined, job);
          return { kind: 'created', job };
        }
        this.#items.bill.refused('createJobs', this.#items.item(job.id));
        this.#items.bill.wrotePayload('createJobs', job);
        this.#items.bill.readPayloads('createJobs', [this.#items.item(job.id)], false);
        const kind = present.contentHash === job.contentHash ? 'repeated' : 'conflict';
        return { kind, job: present };
      }),
    );
  }

  async announceLines({
    partition,
    lines,
    nowMs,
    keyTtlMs = null,
    afterMs,
  }: RequestOf<'announceLines'>): Promise<readonly number[]> {
    return this.#items.write('announceLines', () => {
      const { backlogs, ledgers } = this.#items.partition(partition);
      if (afterMs !== undefined) this.#items.bill.readBacklogs('announceLines', lines);
      // One announcement of a key renews all its lines of the type.
      const renewed = new Set(
        lines.filter((line) => !this.#isAnnounced(partition, line, afterMs)).map(keyOf),
      );
      return lines.map((line) => {
        const { fairnessKey, type } = line;
        const present = backlogs.get(fairnessKey)?.get(type)?.value;
        if (present !== undefined && !renewed.has(keyOf(line))) return present.announcedAtMs;
        const hasExpired =
          present !== undefined && keyTtlMs !== null && nowMs - present.announcedAtMs >= keyTtlMs;
        const rankCostMs =
          present === undefined || hasExpired
            ? rankCostOf(ledgers.get(fairnessKey), nowMs, keyTtlMs)
            : present.rankCostMs;
        // A caller that has not read the backlog first tries to add to an existing one.
        const triesToAddFirst = hasExpired || (present === undefined && afterMs === undefined);
        if (triesToAddFirst) this.#items.bill.small('announceLines', 'write');
        this.#items.putBacklog(
          partition,
          type,
          {
            ...withLine(present ?? { fairnessKey, lines: [], announcedAtMs: nowMs }, line),
            announcedAtMs: Math.max(nowMs, present?.announcedAtMs ?? -Infinity),
          },
          rankCostMs,
        );
        return nowMs;
      });
    });
  }

  async getJobs({ ids }: RequestOf<'getJobs'>): Promise<readonly (Job | undefined)[]> {
    return this.#items.read('getJobs', () => {
      const items = this.#itemsOf(ids);
      this.#items.bill.readJobs('getJobs', items);
      this.#items.bill.readPayloads('getJobs', items, true);
      return items.map((item) => item?.value);
    });
  }

  async lookUpJobs({ ids }: RequestOf<'lookUpJobs'>): Promise<readonly (MovingJob | undefined)[]> {
    return this.#items.read('lookUpJobs', () => {
      const items = this.#itemsOf(ids);
      this.#items.bill.readJobs('lookUpJobs', items);
      return items.map((item) => item?.value);
    });
  }

  #itemsOf(ids: readonly string[]): readonly ReturnType<MemoryItems['item']>[] {
    for (const id of ids) requireKeyFits(jobKey(id));
    return ids.map((id) => this.#items.item(id));
  }
}
