/** Attempts, and the records of workers. */

import { RefusedError, ThrottledError } from '../../core/errors.ts';
import type { MovingJob } from '../../core/job.ts';
import {
  claimPlanned,
  historyAfterEnd,
  isPlanned,
  type PlannedClaim,
  type Unfinished,
} from '../../core/life-cycle.ts';
import type { WorkerStore } from '../contract/core.ts';
import { FORMER_SHOWN_MS, type WorkerIdentity, type WorkerRecord } from '../contract/records.ts';
import type {
  Applied,
  FinishOutcome,
  FinishRequest,
  StartOutcome,
  StartRequest,
} from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { encodeJson } from '../table/codec/cells.ts';
import { decodeMovingJob, encodeClaim, encodeError, encodeSteps, encodeWorker } from '../table/codec/job.ts';
import { encodeOccupants, encodeWorkerRecord, workerTtlSec } from '../table/codec/worker.ts';
import { requireItemFits } from '../table/limits.ts';
import { jobKey, workerKey } from '../table/schema.ts';
import { endOf, stateAfter, type WrittenVerdict } from './attempt-end.ts';
import type { DynamoConnection, Update } from './connection.ts';
import { notedHistory, stateValues } from './expressions.ts';
import { partitionIn, type TableItems } from './items.ts';

const REGISTER_TRIES_MAX = 3;

/** The condition that the attempt of this claim runs on this incarnation of the worker. */
const HELD_BY_WORKER = `#state = :running AND #claim.#claimId = :claimId
  AND #worker.#workerId = :workerId AND #worker.#incarnation = :incarnation`;

/** Returns the clause that sets the attributes of a worker's record which a heartbeat renews. */
const renewalClause = ({ heardAtMs, load }: WorkerRecord): string =>
  [
    '#slots = :slots, #isEnding = :ending, #occupants = :occupants, #expiresAtMs = :expires, #ttl = :ttl',
    ...(heardAtMs === undefined ? [] : ['#heardAtMs = :heard']),
    ...(load === undefined ? [] : ['#lagMs = :lag, #memoryMb = :memory']),
  ].join(', ');

/** Returns the clause that removes attributes of an earlier incarnation which the new one does not set. */
const removalClause = ({ heardAtMs, load }: WorkerRecord): string => {
  const names = [
    ...(heardAtMs === undefined ? ['#heardAtMs'] : []),
    ...(load === undefined ? ['#lagMs', '#memoryMb'] : []),
  ];
  return names.length === 0 ? '' : ` REMOVE ${names.join(', ')}`;
};

const renewalValues = (record: WorkerRecord): Item => ({
  ':slots': record.slots,
  ':ending': record.isEnding === true,
  ':occupants': encodeOccupants(record),
  ...(record.heardAtMs === undefined ? {} : { ':heard': record.heardAtMs }),
  ...(record.load === undefined ? {} : { ':lag': record.load.lagMs, ':memory': record.load.memoryMb }),
  ':expires': record.expiresAtMs,
  ':ttl': workerTtlSec(record),
});

const holderValues = ({ workerId, incarnation }: WorkerIdentity): Item => ({
  ':workerId': workerId,
  ':incarnation': incarnation,
});

/** Returns the clauses of the update that every start makes. */
const startClause = ({ workerId, incarnation, nowMs, runUntilMs }: StartRequest): StartClause => ({
  set: `#state = :running, #worker = :worker, #startedAtMs = :now${
    runUntilMs === undefined ? '' : ', #runUntilMs = :until'
  }`,
  values: {
    ':worker': encodeWorker({ workerId, incarnation }),
    ':now': nowMs,
    ...(runUntilMs === undefined ? {} : { ':until': runUntilMs }),
  },
});

interface StartClause {
  readonly set: string;
  readonly values: Item;
}

/** The job has not expired. */
const MAY_START = '(attribute_not_exists(#expireAtMs) OR #expireAtMs > :now)';

/** Returns the update that starts a claimed job. */
function startClaimed(request: StartRequest): Omit<Update, 'key'> {
  const { set, values } = startClause(request);
  return {
    update: `SET ${set}, #version = #version + :one REMOVE #expiry, #expireAtMs`,
    condition: `#state = :claimed AND #claim.#claimId = :claimId AND ${MAY_START}`,
    values: { ...stateValues('running', 'claimed'), ...values, ':one': 1, ':claimId': request.claimId },
  };
}

/** Returns the update that claims and starts a job that is not claimed yet. */
function startPlanned(request: StartRequest, planned: PlannedClaim): Omit<Update, 'key'> {
  const { set, values } = startClause(request);
  const { version } = planned;
  return {
    update: `SET ${set}, #version = :started, #claim = :claim
      REMOVE #line, #rank, #expiry, #expireAtMs, #progress, #finishedAtMs${request.runUntilMs === undefined ? ', #runUntilMs' : ''}`,
    condition: `#state = :pending AND #version = :version AND ${MAY_START}`,
    values: {
      ...stateValues('running', 'pending'),
      ...values,
      ':version': version,
      // The claim raises the version by one, and so does the start.
      ':started': version + 2,
      ':claim': encodeClaim(claimPlanned(request.claimId, planned)),
    },
  };
}

/**
 * Whether this job is what an earlier try of the same request made of the running job. Only one transition leads from a
 * version to the next, so a job that looks like the result is the result.
 * @param retriedAs - the attempt that a retry made the next one; it still shows after the job was retimed or cancelled
 */
function isResultOf(
  job: MovingJob,
  running: MovingJob,
  expected: Pick<MovingJob, 'state' | 'version' | 'attempt' | 'workersLost'>,
  retriedAs: number | undefined,
): boolean {
  const isNow =
    job.version === expected.version && job.state === expected.state && job.attempt === expected.attempt;
  const wasBefore = job.version > expected.version && job.attempt === retriedAs;
  return (
    running.state === 'running' &&
    (isNow || wasBefore) &&
    job.workersLost === expected.workersLost &&
    job.claim?.claimId === running.claim?.claimId &&
    job.worker?.workerId === running.worker?.workerId &&
    job.worker?.incarnation === running.worker?.incarnation
  );
}

function claimIdOf(verb: string, job: MovingJob): string {
  if (job.claim !== undefined) return job.claim.claimId;
  throw new RefusedError(
    `${verb}: job ${job.id} has no claim; pass the job as startJob or getJobs returned it`,
  );
}

export class DynamoWorkerStore implements WorkerStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;

  constructor(items: TableItems) {
    this.#items = items;
    this.#table = items.table;
  }

  async startJob(request: StartRequest): Promise<StartOutcome> {
    const { jobId, claimId, workerId, incarnation, nowMs } = request;
    const toClaim =
      request.toClaim !== undefined && isPlanned(request.toClaim, nowMs) ? request.toClaim : undefined;
    const { update, values, condition } =
      toClaim === undefined ? startClaimed(request) : startPlanned(request, toClaim);
    const outcome = await this.#table.update('startJob', { key: jobKey(jobId), update, condition, values });
    const item = outcome.applied ? outcome.item : outcome.old;
    if (item === undefined || this.#items.hasExpired(item)) return { kind: 'superseded' };
    // A job that cannot be read cannot run. Its item is in the state running, so its reservation is kept.
    const [moving] = await this.#items.readable(partitionIn(item), [item], decodeMovingJob);
    if (moving === undefined) return { kind: 'superseded' };
    const isOfClaim = moving.claim?.claimId === claimId;
    // A pass has made this claim meanwhile, because it saw no start. So the job is started as one that is claimed already.
    if (toClaim !== undefined && moving.state === 'claimed' && isOfClaim)
      return this.startJob({ ...request, toClaim: undefined });
    const isOurs =
      moving.state === 'running' &&
      isOfClaim &&
      moving.worker?.workerId === workerId &&
      moving.worker.incarnation === incarnation;
    if (!outcome.applied && !isOurs) return { kind: 'superseded' };
    return { kind: 'started', job: await this.#items.payloads.readJob('startJob', item) };
  }

  async finishJob(request: FinishRequest): Promise<FinishOutcome> {
    const { job, verdict, workerId, incarnation, nowMs, expiresAtMs } = request;
    return this.#endAttempt(
      'finishJob',
      { ...job, worker: { workerId, incarnation } },
      verdict,
      nowMs,
      expiresAtMs,
      {
        condition: HELD_BY_WORKER,
        values: holderValues({ workerId, incarnation }),
        as: 'failed',
      },
    );
  }

  async endUnfinished({
    job,
    verdict,
    as = 'lost',
    nowMs,
    expiresAtMs,
  }: RequestOf<'endUnfinished'>): Promise<FinishOutcome> {
    return this.#endAttempt('endUnfinished', job, verdict, nowMs, expiresAtMs, {
      condition: '#state = :running AND #claim.#claimId = :claimId',
      values: {},
      as,
    });
  }

  async #endAttempt(
    verb: 'finishJob' | 'endUnfinished',
    running: MovingJob,
    verdict: WrittenVerdict,
    nowMs: number,
    expiresAtMs: number,
    end: { readonly condition: string; readonly values: Item; readonly as: Unfinished },
  ): Promise<FinishOutcome> {
    const claimId = claimIdOf(verb, running);
    const after = {
      version: running.version + 1,
      attempt: running.attempt + (verdict.kind === 'retry' && end.as === 'failed' ? 1 : 0),
      workersLost: running.workersLost + (end.as === 'lost' ? 1 : 0),
    };
    const isCancellation = verdict.kind === 'cancelled' && verdict.error !== undefined;
    // The new history is computed from the one that the start read. No other caller writes it while the job runs.
    const historyClause = notedHistory(
      historyAfterEnd(
        running,
        isCancellation ? { kind: 'retry', error: verdict.error, runAtMs: 0 } : verdict,
        nowMs,
        end.as,
        isCancellation,
      ),
    );
    const values = {
      ...end.values,
      ...stateValues('running'),
      ':claimId': claimId,
      ':one': 1,
      ':lost': after.workersLost,
      ...historyClause.values,
    };
    // The count of lost workers is set to a value, not raised by one, because the present attribute may not be a number.
    const countClause = `#version = #version + :one, #workersLost = :lost${historyClause.set}`;
    const outcome = await this.#items.changeJob(verb, running.id, {
      condition:
        verdict.kind === 'retry'
          ? `${end.condition} AND attribute_not_exists(#cancelRequestedAtMs)`
          : end.condition,
      ...endOf(running, verdict, countClause, values, after.attempt, nowMs, expiresAtMs),
    });
    const { job, item } = outcome;
    if (job === undefined) return { kind: 'superseded' };
    // The write of a retry fails if a cancellation was requested: the job is then cancelled instead.
    const isUnwanted = !outcome.applied && verdict.kind === 'retry' && job.cancelRequestedAtMs !== undefined;
    if (isUnwanted && job.state === 'running') {
      const cancelled = { kind: 'cancelled', error: verdict.error } as const;
      return this.#endAttempt(verb, running, cancelled, nowMs, expiresAtMs, end);
    }
    const expected = isUnwanted
      ? { ...after, state: 'cancelled' as const, attempt: running.attempt }
      : { ...after, state: stateAfter(verdict) };
    const retriedAs = verdict.kind === 'retry' ? after.attempt : undefined;
    if (!outcome.applied && !isResultOf(job, running, expected, retriedAs)) return { kind: 'superseded' };
    await this.#items.payloads.expireWithJob(verb, item, job, expiresAtMs);
    return { kind: 'finished', job };
  }

  async saveCheckpoint({ job, worker, checkpoint }: RequestOf<'saveCheckpoint'>): Promise<Applied> {
    const claimId = claimIdOf('saveCheckpoint', job);
    return this.#note(
      'saveCheckpoint',
      { jobId: job.id, claimId, worker },
      '#checkpoint',
      encodeJson(checkpoint),
    );
  }

  async saveSteps({ job, worker, steps }: RequestOf<'saveSteps'>): Promise<Applied> {
    const held = { jobId: job.id, claimId: claimIdOf('saveSteps', job), worker };
    const isNewer = '(attribute_not_exists(#steps) OR size(#steps) <= :count)';
    return this.#note('saveSteps', held, '#steps', encodeSteps(steps), {
      condition: `${HELD_BY_WORKER} AND ${isNewer}`,
      values: { ':count': Object.keys(steps).length },
    });
  }

  async saveProgress({ job, worker, progress }: RequestOf<'saveProgress'>): Promise<Applied> {
    const claimId = claimIdOf('saveProgress', job);
    return this.#note('saveProgress', { jobId: job.id, claimId, worker }, '#progress', encodeJson(progress));
  }

  async saveHung({ error, ...held }: RequestOf<'saveHung'>): Promise<Applied> {
    return this.#note('saveHung', held, '#hung', encodeError(error));
  }

  async #note(
    verb: 'saveCheckpoint' | 'saveSteps' | 'saveProgress' | 'saveHung',
    { jobId, claimId, worker }: Omit<RequestOf<'saveHung'>, 'error'>,
    name: '#checkpoint' | '#steps' | '#progress' | '#hung',
    data: unknown,
    when: { readonly condition: string; readonly values?: Item } = { condition: HELD_BY_WORKER },
  ): Promise<Applied> {
    const outcome = await this.#table.update(verb, {
      key: jobKey(jobId),
      update: `SET ${name} = :data`,
      condition: when.condition,
      values: {
        ...stateValues('running'),
        ...holderValues(worker),
        ...when.values,
        ':claimId': claimId,
        ':data': data,
      },
    });
    return outcome.applied ? 'applied' : 'superseded';
  }

  async registerWorker({ partition, record }: RequestOf<'registerWorker'>): Promise<Applied> {
    const { workerId, incarnation, fleet } = record;
    // The record of an earlier incarnation may be deleted between the two writes.
    for (let tries = 1; tries <= REGISTER_TRIES_MAX; tries += 1) {
      const first = await this.#table.put('registerWorker', {
        item: encodeWorkerRecord(partition, record),
        condition: 'attribute_not_exists(#pk)',
      });
      if (first.applied) return 'applied';
      // `formerUntilMs` is the latest lease of all earlier incarnations: the last one may have expired before it began.
      for (const [former, isFormer] of [
        [
          ', #formerUntilMs = #expiresAtMs',
          '(attribute_not_exists(#formerUntilMs) OR #formerUntilMs <= #expiresAtMs)',
        ],
        ['', '#formerUntilMs > #expiresAtMs'],
      ] as const) {
        const next = await this.#table.update('registerWorker', {
          key: workerKey(partition, workerId),
          update: `SET #incarnation = :incarnation, #fleet = :fleet${former}, ${renewalClause(record)}${removalClause(record)}`,
          condition: `#incarnation < :incarnation AND ${isFormer}`,
          values: { ...renewalValues(record), ':incarnation': incarnation, ':fleet': fleet },
        });
        const present = next.applied ? incarnation : next.old?.[ATTRIBUTE.incarnation];
        if (present === incarnation) return 'applied';
        if (typeof present === 'string' && present > incarnation) return 'superseded';
      }
    }
    throw new ThrottledError(
      `registerWorker: the record of ${workerId} was deleted and written again at each of ${REGISTER_TRIES_MAX} tries, nothing was changed; try again`,
    );
  }

  async heartbeat({ partition, record }: RequestOf<'heartbeat'>): Promise<Applied> {
    requireItemFits(encodeWorkerRecord(partition, record));
    const outcome = await this.#table.update('heartbeat', {
      key: workerKey(partition, record.workerId),
      update: `SET ${renewalClause(record)}`,
      condition: '#incarnation = :incarnation AND #expiresAtMs <= :expires',
      values: { ...renewalValues(record), ':incarnation': record.incarnation },
    });
    const isOurs = outcome.applied || outcome.old?.[ATTRIBUTE.incarnation] === record.incarnation;
    return isOurs ? 'applied' : 'superseded';
  }

  async deregisterWorker({ partition, worker }: RequestOf<'deregisterWorker'>): Promise<Applied> {
    const key = workerKey(partition, worker.workerId);
    const values = { ':incarnation': worker.incarnation };
    const outcome = await this.#table.delete(
      'deregisterWorker',
      key,
      `attribute_not_exists(#pk) OR (#incarnation = :incarnation
        AND (attribute_not_exists(#formerUntilMs) OR #formerUntilMs <= :longAgo))`,
      { ...values, ':longAgo': this.#items.nowMs() - FORMER_SHOWN_MS },
    );
    if (outcome.applied) return 'applied';
    // An earlier incarnation may still be running, or was until a moment ago. The record is kept for it, without a slot.
    const empty = await this.#table.update('deregisterWorker', {
      key,
      update: 'SET #slots = :none, #isEnding = :true, #occupants = :nobody, #expiresAtMs = #formerUntilMs',
      condition: '#incarnation = :incarnation AND attribute_exists(#formerUntilMs)',
      values: { ...values, ':none': 0, ':true': true, ':nobody': [] },
    });
    return empty.applied || empty.old === undefined ? 'applied' : 'superseded';
  }
}
