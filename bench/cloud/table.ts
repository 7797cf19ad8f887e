/**
 * The store in memory as a table that is reached over the network: each verb takes as long as its requests, is refused where
 * the table throttles, and is counted. What a verb does, it does at once, halfway through its time.
 */

import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { ThrottledError } from '../../lib/core/errors.ts';
import type { Job, MovingJob } from '../../lib/core/job.ts';
import type { VirtualTime } from '../../lib/local/virtual-time.ts';
import { type ReadyLine, readyLineName } from '../../lib/store/contract/lines.ts';
import type { ClaimRequest, Commit } from '../../lib/store/contract/requests.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import type { MemoryJobStore } from '../../lib/store/memory/store.ts';
import type { Usage as StoreUsage } from '../../lib/store/table/metering.ts';
import { hasOwnItem } from '../../lib/store/table/payload.ts';
import { dueLineName, keysLineName, ledgerPk, mailPk, partitionPk } from '../../lib/store/table/schema.ts';
import { isSingleWrite, nextSummary } from '../../lib/store/table/summary.ts';
import { readyLineOf } from '../../lib/submit/submit.ts';
import type { Draw } from './latency.ts';
import { type Throttle, WHOLE_TABLE } from './throttle.ts';
import type { UsageMeter } from './usage.ts';

export interface CloudTableParts {
  readonly store: MemoryJobStore;
  readonly time: VirtualTime;
  readonly configuration: PoolConfiguration;
  readonly call: Draw;
  readonly random: () => number;
  readonly throttle: Throttle;
  readonly meter: UsageMeter;
}

/** The SDK's, as the functions configure it: so many tries, and pauses that double from here, each drawn from its whole. */
const TRIES_MAX = 4;
const THROTTLED_PAUSE_MS = 500;

/** A transaction prepares each item and then commits it: twice the time, twice the units. */
const TRANSACTION = 2;

/** Requests of a verb, one wave after the other; those of a wave go out together. */
interface Shape {
  readonly waves: number;
  readonly together: number;
  readonly isTransaction: boolean;
  /** Single requests that go out together before those, and once they are answered. */
  readonly ahead?: number | undefined;
  readonly behind?: number | undefined;
}

const ONE: Shape = { waves: 1, together: 1, isTransaction: false };

/** What DynamoDB takes in one request, as `lib/store/dynamodb` fills it. */
const BATCH_GET = 100;
const TRANSACTION_ITEMS = 100;

const lengthOf = (value: unknown): number => (Array.isArray(value) ? value.length : 1);

/** Verbs that read; all others write, and so does what is added later unless it is named here. */
const READS: ReadonlySet<string> = new Set([
  'getJobs',
  'lookUpJobs',
  'listRejections',
  'readWakes',
  'readHints',
  'readLease',
  'loadPartition',
  'readKeys',
  'readBacklogs',
  'getLedgers',
  'getEstimates',
  'readLine',
  'readDue',
  'readParked',
  'listParked',
  'readBlocked',
  'readLocks',
  'listDispatchers',
  'listUnreadable',
  'readDeadLetters',
  'readFinished',
]);

/** Verbs whose units all fall on the partition's own items; the partition, or a fence, is in their request. */
const OF_PARTITION: ReadonlySet<string> = new Set([
  'lead',
  'stopLeading',
  'loadPartition',
  'tidy',
  'askForLoan',
  'registerWorker',
  'heartbeat',
  'deregisterWorker',
  'changeControl',
]);
const OF_MAIL: ReadonlySet<string> = new Set(['putLetter', 'readLetters', 'deleteLetters']);
const OF_LEDGERS: ReadonlySet<string> = new Set(['getLedgers', 'getEstimates', 'readBacklogs']);

/** What verbs are asked, as far as their cost depends on it. */
interface Asked {
  readonly partition?: number;
  readonly type?: string;
  readonly line?: ReadyLine;
  readonly lines?: readonly ReadyLine[];
  readonly afterMs?: number;
  readonly ids?: readonly unknown[];
  readonly conflictKeys?: readonly string[];
  readonly jobs?: readonly { readonly id: string }[];
  readonly job?: MovingJob;
  readonly jobId?: string;
  readonly commit?: Commit;
}

/** Of a verb whose request is an object of its own. */
const askedOf = (request: unknown): Asked =>
  typeof request === 'object' && request !== null && !Array.isArray(request) ? request : {};

function partitionIn(request: unknown): number {
  return askedOf(request).partition ?? Number(request);
}

/** A locked claim is a transaction of the job, its index entry and the lock: so much more than without. */
const LOCKED_CLAIM_MORE = 3;

/** Jobs that a verb moves, by their ids. */
function movedBy(verb: string, request: unknown): readonly string[] {
  if (verb === 'claim') return (request as readonly ClaimRequest[]).map(({ jobId }) => jobId);
  if (verb === 'createJobs') return (request as readonly Job[]).map(({ id }) => id);
  const { jobId, job, jobs = job === undefined ? [] : [job] } = askedOf(request);
  return jobId === undefined ? jobs.map(({ id }) => id) : [jobId];
}

const MOVES: ReadonlySet<string> = new Set([
  'createJobs',
  'createDeduped',
  'mergeJob',
  'claim',
  'startJob',
  'promote',
  'park',
  'unpark',
  'retimeJob',
]);

/** A store whose every call goes through the cloud. */
export function cloudTable(parts: CloudTableParts): JobStore {
  const { store, time, call, random, throttle, meter } = parts;
  /** What the running verb uses: verbs run one at a time, each in a step of its own. */
  let used: StoreUsage[] = [];
  store.meter = (_verb, usage) => void used.push(usage);
  /** Partitions whose last commit wrote ledgers beside their own items. */
  const spills = new Set<number>();

  const placeOfNew = (job: Job): string =>
    job.state === 'scheduled' ? dueLineName(job.partition) : readyLineName(job.partition, readyLineOf(job));

  const isAnnounced = (partition: number, { type, fairnessKey }: ReadyLine, afterMs = -Infinity): boolean => {
    const present = store.inspect(partition).backlogs.get(fairnessKey)?.get(type)?.value;
    return present !== undefined && present.announcedAtMs > afterMs;
  };

  const newLines = (partition: number, lines: readonly ReadyLine[]): number =>
    new Set(
      lines.filter((line) => !isAnnounced(partition, line)).map((line) => `${line.type}/${line.fairnessKey}`),
    ).size;

  function shapeOf(verb: string, request: unknown): Shape {
    const asked = askedOf(request);
    const { ids, conflictKeys, jobs, lines = [], afterMs } = asked;
    switch (verb) {
      case 'createJobs': {
        const isAnyApart = (request as readonly Job[]).some(hasOwnItem);
        return { ...ONE, waves: isAnyApart ? 2 : 1, together: lengthOf(request) };
      }
      case 'createDeduped':
        return { ...ONE, isTransaction: true };
      case 'recordTags':
        return { ...ONE, together: lengthOf(request) };
      case 'startJob':
      case 'finishJob': {
        // The payload is read once its job is started, and marked once it has ended.
        const { jobId, job: asks } = asked;
        const known = store.inspectJob(jobId ?? asks?.id ?? '');
        return { ...ONE, waves: known !== undefined && hasOwnItem(known) ? 2 : 1 };
      }
      case 'promote':
      case 'unpark':
        return { ...ONE, together: lengthOf(jobs) };
      case 'markParked':
        return { ...ONE, together: lengthOf(conflictKeys) };
      case 'getJobs':
      case 'lookUpJobs':
        return { ...ONE, waves: Math.ceil(lengthOf(ids) / BATCH_GET) };
      case 'announceLines': {
        const partition = partitionIn(request);
        // Looked at, and written where it was announced long ago. A key's first line of a type: the ledger is read in between.
        const isOld = lines.some((line) => !isAnnounced(partition, line, afterMs));
        const waves = newLines(partition, lines) > 0 ? 3 : isOld && afterMs !== undefined ? 2 : 1;
        return { ...ONE, waves, together: lines.length };
      }
      case 'claim': {
        const requests = request as readonly ClaimRequest[];
        const isTransaction = requests.some(({ lock }) => lock !== undefined);
        return { ...ONE, together: requests.length, isTransaction };
      }
      case 'commit': {
        const { partition, commit } = asked;
        if (partition === undefined || commit === undefined) return ONE;
        const { summary, items } = store.inspect(partition);
        if (summary.version !== commit.version) return ONE;
        const change = nextSummary(summary, commit, items, '');
        const { ahead, spilled, estimates } = change;
        const before = ahead.length + spilled.length;
        const isTransaction = !isSingleWrite(change, commit);
        return { ...ONE, isTransaction, ahead: before, behind: estimates.length };
      }
      case 'park':
        return {
          waves: 1,
          together: Math.ceil(lengthOf(jobs) / (TRANSACTION_ITEMS - 1)),
          isTransaction: true,
        };
      default:
        return ONE;
    }
  }

  const slowestOf = (requests: number): number => {
    let slowest = 0;
    for (let at = 0; at < requests; at += 1) slowest = Math.max(slowest, call());
    return slowest;
  };

  const takes = ({ waves, together, isTransaction, ahead = 0, behind = 0 }: Shape): number => {
    let ms = 0;
    for (let wave = 0; wave < waves; wave += 1) ms += slowestOf(together);
    return slowestOf(ahead) + (isTransaction ? TRANSACTION * ms : ms) + slowestOf(behind);
  };

  /** Partition keys that a call needs, as far as they can be hot: a job's own is not. */
  function keysOf(verb: string, request: unknown): ReadonlySet<string> {
    if (verb === 'createJobs') return new Set((request as readonly Job[]).map(placeOfNew));
    if (MOVES.has(verb)) {
      return new Set(movedBy(verb, request).flatMap((id) => store.inspectLine(id) || []));
    }
    const partition = partitionIn(request);
    const { type = '', line, lines = [], commit } = askedOf(request);
    if (OF_PARTITION.has(verb)) return new Set([partitionPk(partition)]);
    if (OF_MAIL.has(verb)) return new Set([mailPk(partition)]);
    if (OF_LEDGERS.has(verb)) return new Set([ledgerPk(partition)]);
    if (verb === 'announceLines') {
      return new Set([ledgerPk(partition), ...lines.map((each) => keysLineName(partition, each.type))]);
    }
    if (verb === 'retireLine' && line !== undefined) {
      return new Set([ledgerPk(partition), keysLineName(partition, line.type)]);
    }
    if (verb === 'readKeys') return new Set([keysLineName(partition, type)]);
    if (verb === 'commit') {
      const isBeside = spills.has(partition) && (commit?.ledgers.length ?? 0) > 0;
      return new Set([partitionPk(partition), ...(isBeside ? [ledgerPk(partition)] : [])]);
    }
    return new Set();
  }

  /** What the verb's usage is beyond what the memory store says. */
  function moreOf(verb: string, request: unknown): StoreUsage {
    const more = { readUnits: 0, writeUnits: 0, requests: 0 };
    if (verb === 'claim') {
      const locked = (request as readonly ClaimRequest[]).filter(({ lock }) => lock !== undefined);
      more.writeUnits = LOCKED_CLAIM_MORE * locked.length;
    }
    if (verb === 'announceLines') {
      const { lines = [], afterMs } = askedOf(request);
      const count = newLines(partitionIn(request), lines);
      // Its ledger is looked up, in the page or beside it. Who has not looked whether it is there is refused first.
      more.readUnits = 2 * count;
      if (afterMs === undefined) more.writeUnits = count;
    }
    return more;
  }

  /** Where the write units of a call went. */
  function heatOf(
    verb: string,
    keys: ReadonlySet<string>,
    before: ReadonlyMap<string, string>,
    usages: readonly StoreUsage[],
    writeUnits: number,
  ): Map<string, number> {
    const heat = new Map<string, number>([[WHOLE_TABLE, writeUnits]]);
    const add = (key: string, units: number): void => void heat.set(key, (heat.get(key) ?? 0) + units);
    if (MOVES.has(verb)) {
      for (const [id, line] of before) {
        const after = store.inspectLine(id) ?? '';
        if (line === after) continue;
        for (const each of [line, after]) if (each !== '') add(each, 1);
      }
      return heat;
    }
    const named = usages.flatMap(({ writeUnitsOf = {} }) => Object.entries(writeUnitsOf));
    if (named.length > 0) for (const [key, units] of named) add(key, units);
    // An item and its entry in a line.
    else for (const key of keys) add(key, writeUnits / keys.size);
    return heat;
  }

  async function reach(verb: string, request: unknown, act: () => Promise<unknown>): Promise<unknown> {
    const kind = READS.has(verb) ? 'read' : 'write';
    for (let tries = 1; ; tries += 1) {
      const ms = takes(shapeOf(verb, request));
      const answer = await new Promise<{ readonly outcome?: Promise<unknown> }>((resolve) => {
        time.after(ms / 2, () => {
          const keys = keysOf(verb, request);
          if (!throttle.admits(kind, keys, time.nowMs)) {
            meter.add('throttled', 1, verb);
            time.after(ms / 2, () => resolve({}));
            return;
          }
          const before = new Map(
            MOVES.has(verb)
              ? movedBy(verb, request).map((id) => [id, store.inspectLine(id) ?? ''] as const)
              : [],
          );
          const more = moreOf(verb, request);
          used = [];
          const outcome = act();
          const count = (): number => {
            const usages = [...used, more];
            const own = usages.reduce((sum, each) => sum + each.writeUnits, 0);
            const writeUnits = verb === 'park' ? TRANSACTION * own : own;
            const readUnits = usages.reduce((sum, each) => sum + each.readUnits, 0);
            if (verb === 'commit') {
              const partition = partitionIn(request);
              const beside = usages.some((each) => (each.writeUnitsOf?.[ledgerPk(partition)] ?? 0) > 0);
              if (beside) spills.add(partition);
              else spills.delete(partition);
            }
            meter.add('writeUnits', writeUnits, verb);
            meter.add('readUnits', readUnits, verb);
            throttle.used('write', heatOf(verb, keys, before, usages, writeUnits), time.nowMs);
            const perKey = [...keys].map((key) => [key, readUnits / keys.size] as const);
            throttle.used('read', new Map([[WHOLE_TABLE, readUnits], ...perKey]), time.nowMs);
            return Math.max(1, ...usages.map(({ requests }) => requests));
          };
          const answered = outcome.then(count, count);
          if (!OF_LEDGERS.has(verb)) time.after(ms / 2, () => resolve({ outcome }));
          // How many requests such a read takes, one behind the other, follows from what it finds.
          else
            void answered.then((waves) =>
              time.after(ms / 2 + takes({ ...ONE, waves: waves - 1 }), () => resolve({ outcome })),
            );
        });
      });
      if (answer.outcome !== undefined) return answer.outcome;
      if (tries === TRIES_MAX) {
        // Of a claim without an answer nobody knows what became of it.
        if (verb === 'claim') return (request as readonly unknown[]).map(() => 'unknown');
        throw new ThrottledError(`${verb}: the table throttles, nothing was changed; try again later`);
      }
      await time.sleep(random() * THROTTLED_PAUSE_MS * 2 ** (tries - 1));
    }
  }

  return new Proxy(store as JobStore, {
    get: (target, name) => {
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== 'function' || typeof name !== 'string') return method;
      return (...parameters: readonly unknown[]) =>
        reach(name, parameters[0], () => Promise.resolve(Reflect.apply(method, target, parameters)));
    },
  });
}
