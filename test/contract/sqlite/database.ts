/**
 * Three tables hold everything. Each verb is one transaction. SQLite lets one process write at a time, so each condition is
 * an `if` between a read and a write.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import type { Job, MovingJob } from '../../../lib/core/job.ts';
import type { Transition } from '../../../lib/core/life-cycle.ts';
import { MalformedItemError } from '../../../lib/store/contract/errors.ts';
import { readyLineName } from '../../../lib/store/contract/lines.ts';
import type { KeyBacklog } from '../../../lib/store/contract/records.ts';
import type { Heads } from '../../../lib/store/contract/requests.ts';
import type { RankOf } from '../../../lib/store/contract/verbs.ts';

// Columns without a type keep what they are given: the rank of a due job is its time, that of a ready one is a text.
const TABLES = `
  CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, line TEXT, rank, body TEXT, expiresAtMs REAL);
  CREATE INDEX IF NOT EXISTS jobsInLines ON jobs (line, rank, id);
  CREATE TABLE IF NOT EXISTS backlogs (
    partition INTEGER, type TEXT, fairnessKey TEXT, rankCostMs REAL, body TEXT,
    PRIMARY KEY (partition, type, fairnessKey)
  );
  CREATE INDEX IF NOT EXISTS keysInLines ON backlogs (partition, type, rankCostMs, fairnessKey);
  CREATE TABLE IF NOT EXISTS items (partition INTEGER, kind TEXT, name TEXT, body TEXT, PRIMARY KEY (partition, kind, name));
  PRAGMA synchronous = OFF;
`;

/** How long a transaction waits for that of another process. */
const BUSY_MS = 10_000;

export interface SqliteStoreOptions {
  readonly path: string;
  /** Epoch milliseconds. */
  readonly clock: () => number;
  readonly place: RankOf;
}

interface Page {
  readonly limit: number;
  readonly after?: string | undefined;
}

export type Kind = 'summary' | 'lookout' | 'reservation' | 'worker' | 'ledger' | 'estimate';

/** SQLite ends a text at a zero character: names that hold any character are kept as JSON. */
const named = (...parts: readonly string[]): string => JSON.stringify(parts);

const dueLineName = (partition: number): string => `due/${partition}`;

export class Database {
  readonly clock: () => number;
  readonly #database: DatabaseSync;
  readonly #place: RankOf;
  readonly #statements = new Map<string, StatementSync>();

  constructor({ path, clock, place }: SqliteStoreOptions) {
    this.clock = clock;
    this.#place = place;
    this.#database = new DatabaseSync(path, { timeout: BUSY_MS });
    this.#database.exec(TABLES);
  }

  close(): void {
    this.#database.close();
  }

  /** One transaction: all that `act` changes, or nothing where it throws. */
  async transaction<T>(act: () => T): Promise<T> {
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      const answer = act();
      this.#database.exec('COMMIT');
      return answer;
    } catch (error) {
      this.#database.exec('ROLLBACK');
      throw error;
    }
  }

  #statement(sql: string): StatementSync {
    const statement = this.#statements.get(sql) ?? this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }

  #rows(sql: string, ...values: readonly SQLInputValue[]): readonly Record<string, unknown>[] {
    return this.#statement(sql).all(...values);
  }

  #run(sql: string, ...values: readonly SQLInputValue[]): void {
    this.#statement(sql).run(...values);
  }

  /** A job, unless it has expired. */
  job(id: string): Job | undefined {
    const [row] = this.#rows(
      'SELECT body FROM jobs WHERE id = ? AND (expiresAtMs IS NULL OR expiresAtMs > ?)',
      named(id),
      this.clock(),
    );
    if (row === undefined) return undefined;
    try {
      return JSON.parse(String(row.body)) as Job;
    } catch (cause) {
      throw new MalformedItemError(`jobs ${id}`, 'body', 'is not JSON', 'delete the row', { cause });
    }
  }

  /** Writes a job where its state belongs: a job that stays pending stays where it stands. */
  putJob(job: Job, before?: Job | undefined, expiresAtMs?: number | undefined): Job {
    const [line, rank] = this.#standing(job);
    const stays =
      before?.state === 'pending' && job.state === 'pending' && before.partition === job.partition;
    this.#run(
      `INSERT INTO jobs (id, line, rank, body, expiresAtMs) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (id) DO UPDATE SET
       ${stays ? '' : 'line = ?2, rank = ?3,'} body = ?4, expiresAtMs = ?5`,
      named(job.id),
      line,
      rank,
      JSON.stringify(job),
      expiresAtMs ?? null,
    );
    return job;
  }

  #standing(job: Job): readonly [line: string | null, rank: string | number | null] {
    if (job.state === 'scheduled') return [dueLineName(job.partition), job.runAtMs];
    if (job.state === 'pending') return [readyLineName(job.partition, job), this.#place(job).rank];
    return [null, null];
  }

  /** Makes a transition of a job, if there is one; answers the job as it is then. */
  move(
    id: string,
    transition: (job: Job) => Transition | undefined,
    expiresAtMs?: number | undefined,
  ): Job | undefined {
    const job = this.job(id);
    const moved = job === undefined ? undefined : transition(job);
    return moved?.kind === 'moved' ? this.putJob(moved.job, job, expiresAtMs) : undefined;
  }

  /** Rows in the order of two columns that tell them apart, behind the cursor; `next` only if more follow. */
  #page(
    [first, second]: readonly [string, string],
    condition: string,
    values: readonly SQLInputValue[],
    { limit, after }: Page,
  ): { readonly rows: readonly Record<string, unknown>[]; readonly next?: string | undefined } {
    const behind = after === undefined ? [] : (JSON.parse(after) as SQLInputValue[]);
    const rows = this.#rows(
      `SELECT * FROM ${condition} ${after === undefined ? '' : `AND (${first}, ${second}) > (?, ?)`}
       ORDER BY ${first}, ${second} LIMIT ?`,
      ...values,
      ...behind,
      limit + 1,
    );
    const last = rows[limit - 1];
    const next = rows.length > limit ? JSON.stringify([last?.[first], last?.[second]]) : undefined;
    return { rows: rows.slice(0, limit), ...(next === undefined ? {} : { next }) };
  }

  #heads(condition: string, values: readonly SQLInputValue[], page: Page): Heads {
    const { rows, ...rest } = this.#page(['rank', 'id'], condition, values, page);
    return { jobs: rows.map(({ body }) => withoutPayload(JSON.parse(String(body)) as Job)), ...rest };
  }

  readyJobs(line: string, page: Page): Heads {
    return this.#heads('jobs WHERE line = ?', [line], page);
  }

  dueJobs(partition: number, fromMs: number, untilMs: number, page: Page): Heads {
    const values = [dueLineName(partition), fromMs, untilMs];
    return this.#heads('jobs WHERE line = ? AND rank >= ? AND rank <= ?', values, page);
  }

  keys(partition: number, type: string, page: Page) {
    const condition = 'backlogs WHERE partition = ? AND type = ?';
    const values = [partition, named(type)];
    const { rows, ...rest } = this.#page(['rankCostMs', 'fairnessKey'], condition, values, page);
    return { keys: rows.map(backlogOf), ...rest };
  }

  backlog(partition: number, type: string, fairnessKey: string): KeyBacklog | undefined {
    const sql = 'SELECT rankCostMs, body FROM backlogs WHERE partition = ? AND type = ? AND fairnessKey = ?';
    return this.#rows(sql, partition, named(type), named(fairnessKey)).map(backlogOf)[0];
  }

  /** A key without lines has no backlog. */
  putBacklog(partition: number, type: string, { rankCostMs, ...backlog }: KeyBacklog): void {
    const key = [partition, named(type), named(backlog.fairnessKey)] as const;
    if (backlog.lines.length === 0)
      this.#run('DELETE FROM backlogs WHERE partition = ? AND type = ? AND fairnessKey = ?', ...key);
    else
      this.#run(
        'INSERT OR REPLACE INTO backlogs VALUES (?, ?, ?, ?, ?)',
        ...key,
        rankCostMs,
        JSON.stringify(backlog),
      );
  }

  /** A rank may trail the settled cost, and is never above it. */
  lowerRanks(partition: number, fairnessKey: string, settledCostMs: number): void {
    this.#run(
      'UPDATE backlogs SET rankCostMs = ?3 WHERE partition = ?1 AND fairnessKey = ?2 AND rankCostMs > ?3',
      partition,
      named(fairnessKey),
      settledCostMs,
    );
  }

  item<T>(partition: number, kind: Kind, ...name: readonly string[]): T | undefined {
    const sql = 'SELECT body FROM items WHERE partition = ? AND kind = ? AND name = ?';
    return this.#rows(sql, partition, kind, named(...name)).map(
      ({ body }) => JSON.parse(String(body)) as T,
    )[0];
  }

  items<T>(partition: number, kind: Kind): readonly T[] {
    const sql = 'SELECT body FROM items WHERE partition = ? AND kind = ?';
    return this.#rows(sql, partition, kind).map(({ body }) => JSON.parse(String(body)) as T);
  }

  putItem(partition: number, kind: Kind, value: object, ...name: readonly string[]): void {
    const body = JSON.stringify(value);
    this.#run('INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?)', partition, kind, named(...name), body);
  }

  deleteItem(partition: number, kind: Kind, ...name: readonly string[]): void {
    const sql = 'DELETE FROM items WHERE partition = ? AND kind = ? AND name = ?';
    this.#run(sql, partition, kind, named(...name));
  }
}

const backlogOf = ({ rankCostMs, body }: Record<string, unknown>): KeyBacklog => ({
  ...(JSON.parse(String(body)) as Omit<KeyBacklog, 'rankCostMs'>),
  rankCostMs: Number(rankCostMs),
});

export function withoutPayload(job: Job): MovingJob {
  const { payload: _payload, ...moving } = job;
  return moving;
}
