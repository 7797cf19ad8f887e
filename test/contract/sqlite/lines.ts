/** Lines of waiting jobs, and the keys that have them. An index of SQLite does not lag. */
import type { MovingJob } from '../../../lib/core/job.ts';
import { promote } from '../../../lib/core/life-cycle.ts';
import type { LineStore, ProducerStore } from '../../../lib/store/contract/core.ts';
import { type ReadyLine, readyLineName } from '../../../lib/store/contract/lines.ts';
import {
  type EstimateRecord,
  type KeyBacklog,
  type Ledger,
  rankCostOf,
} from '../../../lib/store/contract/records.ts';
import type { Heads } from '../../../lib/store/contract/requests.ts';
import type { RequestOf } from '../../../lib/store/contract/verbs.ts';
import type { Database } from './database.ts';

const keyOf = ({ type, fairnessKey }: ReadyLine): string => JSON.stringify([type, fairnessKey]);
const has = ({ lines }: KeyBacklog, { mode }: ReadyLine): boolean => lines.some((each) => each.mode === mode);

export class SqliteLines implements LineStore, Pick<ProducerStore, 'announceLines'> {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async announceLines({
    partition,
    lines,
    nowMs,
    keyTtlMs = null,
    afterMs = Infinity,
  }: RequestOf<'announceLines'>): Promise<readonly number[]> {
    return this.#database.transaction(() => {
      const backlogOf = ({ type, fairnessKey }: ReadyLine) =>
        this.#database.backlog(partition, type, fairnessKey);
      const isNew = (line: ReadyLine): boolean => {
        const present = backlogOf(line);
        return present === undefined || present.announcedAtMs <= afterMs || !has(present, line);
      };
      // An announcement of one line of a key renews all of its lines.
      const renewed = new Set(lines.filter(isNew).map(keyOf));
      return lines.map((line) => {
        const { type, fairnessKey, mode } = line;
        const present = backlogOf(line);
        if (present !== undefined && !renewed.has(keyOf(line))) return present.announcedAtMs;
        const isAway =
          present === undefined || (keyTtlMs !== null && nowMs - present.announcedAtMs >= keyTtlMs);
        const ledger = this.#database.item<Ledger>(partition, 'ledger', fairnessKey);
        const others = present?.lines.filter((each) => each.mode !== mode) ?? [];
        this.#database.putBacklog(partition, type, {
          fairnessKey,
          lines: [...others, { mode }],
          announcedAtMs: Math.max(nowMs, present?.announcedAtMs ?? -Infinity),
          rankCostMs: isAway ? rankCostOf(ledger, nowMs, keyTtlMs) : present.rankCostMs,
        });
        return nowMs;
      });
    });
  }

  async retireLine({ partition, line, announcedAtMs }: RequestOf<'retireLine'>): Promise<'retired' | 'lost'> {
    return this.#database.transaction(() => {
      const present = this.#database.backlog(partition, line.type, line.fairnessKey);
      if (present === undefined || !has(present, line)) return 'retired';
      if (present.announcedAtMs > announcedAtMs) return 'lost';
      const lines = present.lines.filter(({ mode }) => mode !== line.mode);
      this.#database.putBacklog(partition, line.type, { ...present, lines });
      return 'retired';
    });
  }

  async readKeys({ partition, type, ...page }: RequestOf<'readKeys'>) {
    return this.#database.keys(partition, type, page);
  }

  async readBacklogs({
    partition,
    type,
    fairnessKeys,
  }: RequestOf<'readBacklogs'>): Promise<readonly (KeyBacklog | undefined)[]> {
    return fairnessKeys.map((key) => this.#database.backlog(partition, type, key));
  }

  async getLedgers({
    partition,
    fairnessKeys,
  }: RequestOf<'getLedgers'>): Promise<readonly (Ledger | undefined)[]> {
    return fairnessKeys.map((key) => this.#database.item(partition, 'ledger', key));
  }

  async getEstimates({
    partition,
    ids,
  }: RequestOf<'getEstimates'>): Promise<readonly (EstimateRecord | undefined)[]> {
    return ids.map(({ type, resourceId }) => this.#database.item(partition, 'estimate', type, resourceId));
  }

  async readLine({ partition, line, ...page }: RequestOf<'readLine'>): Promise<Heads> {
    // Nothing is ever parked.
    if ('conflictKey' in line) return { jobs: [] };
    return this.#database.readyJobs(readyLineName(partition, line), page);
  }

  async readDue({ partition, nowMs, fromMs = -Infinity, ...page }: RequestOf<'readDue'>): Promise<Heads> {
    return this.#database.dueJobs(partition, fromMs, nowMs, page);
  }

  async promote({ jobs, nowMs }: RequestOf<'promote'>): Promise<readonly (MovingJob | undefined)[]> {
    return this.#database.transaction(() =>
      jobs.map(({ id, version }) =>
        this.#database.move(id, (job) => (job.version === version ? promote(job, nowMs) : undefined)),
      ),
    );
  }
}
