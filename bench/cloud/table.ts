/**
 * The store in memory as a table that is reached over the network: each verb takes as long as its requests, is refused where
 * the table throttles, and is counted. What a verb does, it does at once, halfway through its time.
 */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { Job } from '../../lib/core/job.ts';
import { readyLineOf, subLineOf } from '../../lib/dispatch/submit.ts';
import type { ClaimRequest, Commit, Fence, JobStore } from '../../lib/store/contract.ts';
import { StoreThrottled } from '../../lib/store/errors.ts';
import type { MemoryJobStore } from '../../lib/store/memory/store.ts';
import type { Usage as StoreUsage } from '../../lib/store/metering.ts';
import {
  type AnnouncedLine,
  dueLineName,
  keysLineName,
  ledgerKey,
  partitionPk,
  readyLineName,
  wakeKey,
} from '../../lib/store/schema.ts';
import type { VirtualTime } from '../../lib/testing/virtual-time.ts';
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
}

const ONE: Shape = { waves: 1, together: 1, isTransaction: false };

/** What DynamoDB takes in one request, as `lib/store/dynamodb` fills it. */
const BATCH_GET = 100;
const STATEMENTS = 25;
const TRANSACTION_ITEMS = 100;

const lengthOf = (value: unknown): number => (Array.isArray(value) ? value.length : 1);

/** Verbs that read; all others write, and so does what is added later unless it is named here. */
const READS: ReadonlySet<string> = new Set([
  'getJobs',
  'listRejections',
  'readWakes',
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
]);

/** Verbs whose units all fall on the partition's own items; the partition, or a fence, is their first argument. */
const OF_PARTITION: ReadonlySet<string> = new Set([
  'acquireLease',
  'renewLease',
  'releaseLease',
  'loadPartition',
  'tidy',
  'askForLoan',
  'registerWorker',
  'heartbeat',
  'deregisterWorker',
  'changeControl',
]);
const OF_WAKE: ReadonlySet<string> = new Set(['wake', 'readWakes']);
const OF_LEDGERS: ReadonlySet<string> = new Set(['getLedgers', 'getEstimates', 'readBacklogs']);

const isFence = (value: unknown): value is Fence =>
  typeof value === 'object' && value !== null && 'partition' in value && 'epoch' in value;

const partitionIn = (argument: unknown): number =>
  isFence(argument) ? argument.partition : Number(argument);

const ledgerPk = (partition: number): string => ledgerKey(partition, '').pk;

/** A locked claim is a transaction of the job, its index entry and the lock: so much more than without. */
const LOCKED_CLAIM_MORE = 3;

/** Jobs that a verb moves, by their ids. */
function movedBy(verb: string, parameters: readonly unknown[]): readonly string[] {
  const [first, second] = parameters;
  if (verb === 'claim') return (first as readonly ClaimRequest[]).map(({ jobId }) => jobId);
  const jobs = verb === 'park' ? second : first;
  const list: readonly unknown[] = Array.isArray(jobs) ? jobs : [jobs];
  return list.flatMap((each) => {
    if (typeof each === 'object' && each !== null && 'id' in each) return [String(each.id)];
    if (typeof each === 'object' && each !== null && 'jobId' in each) return [String(each.jobId)];
    return [];
  });
}

const MOVES: ReadonlySet<string> = new Set(['createJobs', 'claim', 'promote', 'park', 'unpark', 'retimeJob']);

/** A store whose every call goes through the cloud. */
export function cloudTable(parts: CloudTableParts): JobStore {
  const { store, time, configuration, call, random, throttle, meter } = parts;
  /** What the running verb uses: verbs run one at a time, each in a step of its own. */
  let used: StoreUsage[] = [];
  store.meter = (_verb, usage) => void used.push(usage);
  /** Partitions whose last commit wrote beside their own items. */
  const spills = new Set<number>();

  const placeOfNew = (job: Job): string => {
    const sub = subLineOf(configuration, job);
    if (job.state === 'scheduled') return dueLineName(job.partition, sub);
    return readyLineName(job.partition, { ...readyLineOf(job), ...(sub === 0 ? {} : { sub }) });
  };

  const isAnnounced = (partition: number, { type, fairnessKey }: AnnouncedLine): boolean =>
    store.inspect(partition).backlogs.get(fairnessKey)?.has(type) === true;

  const newLines = (partition: number, lines: readonly AnnouncedLine[]): number =>
    new Set(
      lines.filter((line) => !isAnnounced(partition, line)).map((line) => `${line.type}/${line.fairnessKey}`),
    ).size;

  function shapeOf(verb: string, parameters: readonly unknown[]): Shape {
    const [first, second] = parameters;
    switch (verb) {
      case 'createJobs':
      case 'promote':
      case 'unpark':
        return { ...ONE, together: lengthOf(first) };
      case 'markParked':
        return { ...ONE, together: lengthOf(second) };
      case 'getJobs':
        return { ...ONE, waves: Math.ceil(lengthOf(first) / BATCH_GET) };
      case 'readBacklogs':
      case 'getLedgers':
      case 'getEstimates':
        return { ...ONE, waves: Math.ceil((lengthOf(second) + 1) / BATCH_GET) };
      case 'announceLines': {
        const lines = second as readonly AnnouncedLine[];
        // A key's first line of a type: refused, looked up, written.
        const waves = newLines(partitionIn(first), lines) > 0 ? 3 : 1;
        return { ...ONE, waves, together: lines.length };
      }
      case 'claim': {
        const requests = first as readonly ClaimRequest[];
        const isTransaction = requests.some(({ lock }) => lock !== undefined);
        return { ...ONE, together: Math.ceil(requests.length / STATEMENTS), isTransaction };
      }
      case 'commit':
        return { ...ONE, isTransaction: true };
      case 'park':
        return {
          waves: 1,
          together: Math.ceil(lengthOf(second) / (TRANSACTION_ITEMS - 1)),
          isTransaction: true,
        };
      default:
        return ONE;
    }
  }

  const takes = ({ waves, together, isTransaction }: Shape): number => {
    let ms = 0;
    for (let wave = 0; wave < waves; wave += 1) {
      let slowest = 0;
      for (let at = 0; at < together; at += 1) slowest = Math.max(slowest, call());
      ms += slowest;
    }
    return isTransaction ? TRANSACTION * ms : ms;
  };

  /** Partition keys that a call needs, as far as they can be hot: a job's own is not. */
  function keysOf(verb: string, parameters: readonly unknown[]): ReadonlySet<string> {
    const [first, second] = parameters;
    if (verb === 'createJobs') return new Set((first as readonly Job[]).map(placeOfNew));
    if (MOVES.has(verb)) {
      return new Set(movedBy(verb, parameters).flatMap((id) => store.inspectLine(id) || []));
    }
    if (OF_PARTITION.has(verb)) return new Set([partitionPk(partitionIn(first))]);
    if (OF_WAKE.has(verb)) return new Set([wakeKey(partitionIn(first)).pk]);
    if (OF_LEDGERS.has(verb)) return new Set([ledgerPk(partitionIn(first))]);
    if (verb === 'announceLines') {
      const types = (second as readonly AnnouncedLine[]).map(({ type }) =>
        keysLineName(partitionIn(first), type),
      );
      return new Set([ledgerPk(partitionIn(first)), ...types]);
    }
    if (verb === 'retireLine') {
      return new Set([
        ledgerPk(partitionIn(first)),
        keysLineName(partitionIn(first), (second as AnnouncedLine).type),
      ]);
    }
    if (verb === 'readKeys') return new Set([keysLineName(partitionIn(first), String(second))]);
    if (verb === 'commit') {
      const partition = partitionIn(first);
      const isBeside = spills.has(partition) && (second as Commit).ledgers.length > 0;
      return new Set([partitionPk(partition), ...(isBeside ? [ledgerPk(partition)] : [])]);
    }
    return new Set();
  }

  /** What the verb's usage is beyond what the memory store says. */
  function moreOf(verb: string, parameters: readonly unknown[]): StoreUsage {
    const more = { readUnits: 0, writeUnits: 0, requests: 0 };
    if (verb === 'claim') {
      const locked = (parameters[0] as readonly ClaimRequest[]).filter(({ lock }) => lock !== undefined);
      more.writeUnits = LOCKED_CLAIM_MORE * locked.length;
    }
    if (verb === 'announceLines') {
      const count = newLines(partitionIn(parameters[0]), parameters[1] as readonly AnnouncedLine[]);
      // Each is refused once, and its ledger is looked up, in the page or beside it.
      more.writeUnits = count;
      more.readUnits = 2 * count;
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

  async function reach(
    verb: string,
    parameters: readonly unknown[],
    act: () => Promise<unknown>,
  ): Promise<unknown> {
    const kind = READS.has(verb) ? 'read' : 'write';
    for (let tries = 1; ; tries += 1) {
      const ms = takes(shapeOf(verb, parameters));
      const answer = await new Promise<{ readonly outcome?: Promise<unknown> }>((resolve) => {
        time.after(ms / 2, () => {
          const keys = keysOf(verb, parameters);
          if (!throttle.admits(kind, keys, time.nowMs)) {
            meter.add('throttled', 1);
            time.after(ms / 2, () => resolve({}));
            return;
          }
          const before = new Map(
            MOVES.has(verb)
              ? movedBy(verb, parameters).map((id) => [id, store.inspectLine(id) ?? ''] as const)
              : [],
          );
          const more = moreOf(verb, parameters);
          used = [];
          const outcome = act();
          const count = (): void => {
            const usages = [...used, more];
            const own = usages.reduce((sum, each) => sum + each.writeUnits, 0);
            const writeUnits = verb === 'park' ? TRANSACTION * own : own;
            const readUnits = usages.reduce((sum, each) => sum + each.readUnits, 0);
            meter.add('writeUnits', writeUnits);
            meter.add('readUnits', readUnits);
            throttle.used('write', heatOf(verb, keys, before, usages, writeUnits), time.nowMs);
            const perKey = [...keys].map((key) => [key, readUnits / keys.size] as const);
            throttle.used('read', new Map([[WHOLE_TABLE, readUnits], ...perKey]), time.nowMs);
          };
          outcome.then(count, count);
          time.after(ms / 2, () => resolve({ outcome }));
        });
      });
      if (answer.outcome !== undefined) return answer.outcome;
      if (tries === TRIES_MAX) {
        // Of a claim without an answer nobody knows what became of it.
        if (verb === 'claim') return (parameters[0] as readonly unknown[]).map(() => 'unknown');
        throw new StoreThrottled(`${verb}: the table throttles, nothing was changed; try again later`);
      }
      await time.sleep(random() * THROTTLED_PAUSE_MS * 2 ** (tries - 1));
    }
  }

  return new Proxy(store as JobStore, {
    get: (target, name) => {
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== 'function' || typeof name !== 'string') return method;
      return (...parameters: readonly unknown[]) =>
        reach(name, parameters, () => Promise.resolve(Reflect.apply(method, target, parameters)));
    },
  });
}
