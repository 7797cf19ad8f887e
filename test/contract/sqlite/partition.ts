/** A partition's summary, reservations and workers. */
import { RefusedError } from '../../../lib/core/errors.ts';
import type { ReservedJob } from '../../../lib/core/job.ts';
import type { PartitionStore, WorkerStore } from '../../../lib/store/contract/core.ts';
import { StaleCommitError } from '../../../lib/store/contract/errors.ts';
import {
  entriesWithout,
  FORMER_SHOWN_MS,
  type Ledger,
  type Lookout,
  type PartitionState,
  type Reservation,
  type WorkerRecord,
  workerAt,
} from '../../../lib/store/contract/records.ts';
import type { Applied, Commit, CommitOutcome } from '../../../lib/store/contract/requests.ts';
import type { RequestOf } from '../../../lib/store/contract/verbs.ts';
import type { Database } from './database.ts';

type Summary = Pick<PartitionState, 'version' | 'observation' | 'quiet' | 'unseenUntilMs'>;

/** A reservation as JSON. */
interface StoredReservation extends Omit<Reservation, 'jobs'> {
  readonly jobs: readonly (readonly [position: number, job: ReservedJob])[];
}

type WorkerRecords = Pick<WorkerStore, 'registerWorker' | 'heartbeat' | 'deregisterWorker'>;

export class SqlitePartitions implements PartitionStore, WorkerRecords {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  #summary(partition: number): Summary {
    return this.#database.item<Summary>(partition, 'summary') ?? { version: 0 };
  }

  async loadPartition({ partition, nowMs }: RequestOf<'loadPartition'>): Promise<PartitionState> {
    return this.#database.transaction(() => {
      const workers = this.#database.items<WorkerRecord>(partition, 'worker');
      return {
        ...this.#summary(partition),
        reservations: this.#database
          .items<StoredReservation>(partition, 'reservation')
          .map(({ jobs, ...each }) => ({ ...each, jobs: new Map(jobs) })),
        workers: workers.flatMap((worker) => workerAt(worker, nowMs) ?? []),
        expiredWorkers: workers.filter((worker) => workerAt(worker, nowMs) === undefined),
        lookout: this.#database.item<Lookout>(partition, 'lookout'),
        // All may be had by `getLedgers` and `getEstimates`.
        ledgers: [],
        estimates: [],
        controls: [],
        endedControls: [],
        parks: false,
        loans: [],
        requests: [],
      };
    });
  }

  async commit({ partition, commit }: RequestOf<'commit'>): Promise<CommitOutcome> {
    const { lend, giveBack, carried, parks = false } = commit;
    if (parks || [lend, giveBack, carried].some((asked) => asked !== undefined))
      throw new RefusedError('commit: this store lends, carries and parks nothing');
    return this.#database.transaction((): CommitOutcome => {
      const summary = this.#summary(partition);
      if (summary.version !== commit.version) return 'lost';
      this.#database.putItem(partition, 'summary', summaryAfter(summary, commit));
      for (const { reservation, positions } of commit.drop) {
        const { jobs, ...rest } = this.#present(partition, reservation.batchId);
        const left = entriesWithout(jobs, new Set(positions));
        if (left.size === 0) this.#database.deleteItem(partition, 'reservation', rest.batchId);
        else this.#putReservation(partition, { ...rest, jobs: left });
      }
      for (const { reservation, checkAtMs } of commit.postpone)
        this.#putReservation(partition, { ...this.#present(partition, reservation.batchId), checkAtMs });
      for (const reservation of commit.reserve) {
        if (this.#database.item(partition, 'reservation', reservation.batchId) !== undefined)
          throw new StaleCommitError(`reservation ${reservation.batchId} is there; load the partition again`);
        this.#putReservation(partition, reservation);
      }
      for (const ledger of commit.ledgers) {
        this.#database.putItem(partition, 'ledger', ledger, ledger.fairnessKey);
        this.#database.lowerRanks(partition, ledger.fairnessKey, ledger.settledCostMs);
      }
      for (const estimate of commit.estimates)
        this.#database.putItem(partition, 'estimate', estimate, estimate.type, estimate.resourceId);
      return 'committed';
    });
  }

  #present(partition: number, batchId: string): Reservation {
    const stored = this.#database.item<StoredReservation>(partition, 'reservation', batchId);
    if (stored === undefined)
      throw new StaleCommitError(`reservation ${batchId} is gone; load the partition again`);
    return { ...stored, jobs: new Map(stored.jobs) };
  }

  #putReservation(partition: number, reservation: Reservation): void {
    const stored: StoredReservation = { ...reservation, jobs: [...reservation.jobs] };
    this.#database.putItem(partition, 'reservation', stored, reservation.batchId);
  }

  /** Commits leave nothing to do but to delete ledgers that have expired. */
  async tidy({ partition, expiredMs = -Infinity }: RequestOf<'tidy'>): Promise<void> {
    return this.#database.transaction(() => {
      for (const { fairnessKey, lastSeenMs } of this.#database.items<Ledger>(partition, 'ledger'))
        if (lastSeenMs <= expiredMs) this.#database.deleteItem(partition, 'ledger', fairnessKey);
    });
  }

  async keepLookout({ partition, seen, next }: RequestOf<'keepLookout'>): Promise<Applied> {
    return this.#database.transaction(() => {
      const present = this.#database.item<Lookout>(partition, 'lookout');
      const isSeen =
        present?.atMs === seen?.atMs &&
        present?.nextAtMs === seen?.nextAtMs &&
        present?.judgedUntilMs === seen?.judgedUntilMs;
      if (!isSeen) return 'superseded';
      this.#database.putItem(partition, 'lookout', next);
      return 'applied';
    });
  }

  async registerWorker({ partition, record }: RequestOf<'registerWorker'>): Promise<Applied> {
    return this.#database.transaction(() => {
      const { workerId, incarnation } = record;
      const present = this.#database.item<WorkerRecord>(partition, 'worker', workerId);
      if (present !== undefined && present.incarnation > incarnation) return 'superseded';
      if (present?.incarnation === incarnation) return 'applied';
      const formerUntilMs =
        present === undefined ? undefined : Math.max(present.expiresAtMs, present.formerUntilMs ?? 0);
      this.#database.putItem(partition, 'worker', { ...record, formerUntilMs }, workerId);
      return 'applied';
    });
  }

  async heartbeat({ partition, record }: RequestOf<'heartbeat'>): Promise<Applied> {
    return this.#database.transaction(() => {
      const present = this.#database.item<WorkerRecord>(partition, 'worker', record.workerId);
      if (present?.incarnation !== record.incarnation) return 'superseded';
      if (present.expiresAtMs <= record.expiresAtMs)
        this.#database.putItem(partition, 'worker', { ...present, ...record }, record.workerId);
      return 'applied';
    });
  }

  async deregisterWorker({ partition, worker }: RequestOf<'deregisterWorker'>): Promise<Applied> {
    return this.#database.transaction(() => {
      const { workerId, incarnation } = worker;
      const present = this.#database.item<WorkerRecord>(partition, 'worker', workerId);
      if (present === undefined) return 'applied';
      if (present.incarnation !== incarnation) return 'superseded';
      const { formerUntilMs = 0 } = present;
      if (formerUntilMs <= this.#database.clock() - FORMER_SHOWN_MS)
        this.#database.deleteItem(partition, 'worker', workerId);
      else {
        const former = { slots: 0, isEnding: true, occupants: [], expiresAtMs: formerUntilMs };
        this.#database.putItem(partition, 'worker', { ...present, ...former }, workerId);
      }
      return 'applied';
    });
  }
}

/** Each commit raises the version, and keeps what it does not name. */
function summaryAfter(summary: Summary, { observation, quiet, unseenUntilMs }: Commit): Summary {
  const unseen = Math.max(unseenUntilMs ?? -Infinity, summary.unseenUntilMs ?? -Infinity);
  return {
    version: summary.version + 1,
    observation: observation ?? summary.observation,
    quiet: quiet === undefined ? summary.quiet : (quiet ?? undefined),
    unseenUntilMs: unseen === -Infinity ? undefined : unseen,
  };
}
