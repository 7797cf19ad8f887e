/** What a seed does to requests, and a store whose caller tries again. */

import { ThrottledError, UnavailableError } from '../../lib/core/errors.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { jobKey } from '../../lib/store/table/schema.ts';
import { diceOf, hashText, seeded } from '../simulation/random.ts';
import {
  type Asked,
  cancelled,
  type Done,
  type ExceptionName,
  exception,
  type Meddler,
  type Plan,
  type Shape,
  TRIES,
  type TryFault,
} from './meddler.ts';
import { nameOfKey } from './past.ts';

/** How DynamoDB says that there are too many requests, or what stands before it. */
export const THROTTLES = [
  'ProvisionedThroughputExceededException',
  'ThrottlingException',
  'RequestLimitExceeded',
  'LimitExceededException',
  'ThrottledException',
  'TooManyRequestsException',
] as const satisfies readonly ExceptionName[];

/** What the SDK tries again. */
export const REPEATED_BY_SDK = [...THROTTLES, 'InternalServerError', 'ServiceUnavailable'] as const;

/** Why a transaction is cancelled that the adapter tries again. */
export const PASSING_REASONS = [
  'TransactionConflict',
  'ProvisionedThroughputExceeded',
  'ThrottlingError',
] as const;

const CHANCE = {
  fault: 0.1,
  /** Of all tries: what then surfaces. Only of the first requests of a kind, so that who calls again gets through. */
  persistentFault: 0.08,
  conflict: 0.08,
  unanswered: 0.05,
  late: 0.05,
  page: 0.5,
  emptyPage: 0.2,
  batch: 0.5,
  lag: 0.1,
} as const;
const PERSISTENT_UNTIL = 8;
/** Pages of the first queries of a kind are the shortest: what is long is not read for ever. */
const SHORT_UNTIL = 6;
const LATE_MS_MAX = 20;
const LAG_READS_MAX = 2;

/**
 * What a seed does. Its dice are thrown for each request by itself, by what it is and how many like it came before in the
 * same scope, so that what happens beside it changes nothing.
 *
 * @param scope - such as the name of a test
 */
export function seededPlan(seed: number, scope: () => string): Plan {
  const seen = new Map<string, number>();
  let current = '';
  const diceFor = (asked: Asked) => {
    const present = scope();
    if (present !== current) seen.clear();
    current = present;
    const kind = `${asked.command} ${(asked.keys[0] ?? '').replaceAll(/\d+/g, '#')}`;
    const nth = (seen.get(kind) ?? 0) + 1;
    seen.set(kind, nth);
    return { dice: diceOf(seeded(hashText(`${seed} ${present} ${kind} ${nth}`))), nth };
  };
  const faults = new WeakMap<Asked, readonly (TryFault | undefined)[]>();
  return {
    shape: (asked) => {
      const { dice, nth } = diceFor(asked);
      faults.set(asked, faultsOf(asked, dice, nth));
      return shapeOf(asked, dice, nth);
    },
    fault: (asked, tries) => faults.get(asked)?.[tries - 1],
  };
}

type Dice = ReturnType<typeof diceOf>;

const refused = (error: () => Error): TryFault => ({ kind: 'refused', error });

/** By try. */
function faultsOf({ command, parts }: Asked, dice: Dice, nth: number): readonly (TryFault | undefined)[] {
  const passing = (): TryFault =>
    dice.chance(0.2) ? { kind: 'unsent' } : refused(named(dice.pick(REPEATED_BY_SDK)));
  const named = (name: ExceptionName) => () => exception(name);
  if (nth <= PERSISTENT_UNTIL && dice.chance(CHANCE.persistentFault))
    return Array.from({ length: TRIES }, passing);
  if (command === 'TransactWriteItems' && dice.chance(2 * CHANCE.conflict)) {
    const count = dice.whole(1, Math.min(3, parts));
    const reasons = new Map(
      Array.from({ length: count }, () => [dice.whole(0, parts - 1), dice.pick(PASSING_REASONS)]),
    );
    return [
      refused(dice.chance(0.2) ? named('TransactionInProgressException') : () => cancelled(parts, reasons)),
    ];
  }
  const isSingleWrite = ['PutItem', 'UpdateItem', 'DeleteItem'].includes(command);
  if (isSingleWrite && dice.chance(CHANCE.conflict)) return [refused(named('TransactionConflictException'))];
  const first = Array.from({ length: dice.whole(1, TRIES - 1) }, () =>
    dice.chance(CHANCE.fault) ? passing() : undefined,
  );
  if (dice.chance(CHANCE.unanswered)) return [...first.slice(1), { kind: 'unanswered' }];
  if (dice.chance(CHANCE.late)) return [...first, { kind: 'late', ms: dice.whole(1, LATE_MS_MAX) }];
  return first;
}

function shapeOf({ command, keys }: Asked, dice: Dice, nth: number): Shape {
  switch (command) {
    case 'Query':
      return {
        ...(dice.chance(CHANCE.page)
          ? { limit: nth <= SHORT_UNTIL ? dice.whole(1, 3) : dice.whole(20, 100) }
          : {}),
        isEmpty: dice.chance(CHANCE.emptyPage),
      };
    case 'BatchGetItem':
      return dice.chance(CHANCE.batch) ? { read: dice.whole(Math.floor(keys.length / 2), keys.length) } : {};
    case 'GetItem':
      return {};
    default:
      return lagOf(dice);
  }
}

const lagOf = (dice: Dice): Shape => (dice.chance(CHANCE.lag) ? { lag: dice.whole(1, LAG_READS_MAX) } : {});

const CALLS_MAX = 20;

/**
 * A store whose caller makes each call again that fails in a way that passes. What a lost answer turned into a lost race is
 * put right by what the call has done.
 */
export function persistent(store: JobStore, { during }: Meddler): JobStore {
  async function untilAnswered<T>(done: Done, call: () => Promise<T>): Promise<T> {
    for (let calls = 1; ; calls += 1) {
      try {
        return await during(done, call);
      } catch (error) {
        if (!(error instanceof ThrottledError || error instanceof UnavailableError)) throw error;
        if (calls === CALLS_MAX) throw error;
      }
    }
  }
  const isDone = (done: Done, id: string): boolean => done.has(nameOfKey({ ...jobKey(id) }));
  const inPlace: Partial<JobStore> = {
    createJobs: async (jobs) => {
      const done: Done = new Map();
      const told = new Set<string>();
      const outcomes = await untilAnswered(done, () => store.createJobs(jobs));
      for (const { kind, job } of outcomes) if (kind === 'created') told.add(job.id);
      return outcomes.map((outcome) => {
        const { id } = outcome.job;
        if (outcome.kind !== 'repeated' || told.has(id) || !isDone(done, id)) return outcome;
        told.add(id);
        return { ...outcome, kind: 'created' };
      });
    },
    promote: async ({ jobs, nowMs }) => {
      const done: Done = new Map();
      const promoted = await untilAnswered(done, () => store.promote({ jobs, nowMs }));
      return Promise.all(
        promoted.map(async (job, at) => {
          const id = jobs[at]?.id ?? '';
          if (job !== undefined || !isDone(done, id)) return job;
          return (await untilAnswered(done, () => store.getJobs({ ids: [id] })))[0];
        }),
      );
    },
    rehome: async ({ jobs, partition, nowMs }) => {
      const done: Done = new Map();
      const moved = await untilAnswered(done, () => store.rehome({ jobs, partition, nowMs }));
      return Promise.all(
        moved.map(async (job, at) => {
          const id = jobs[at]?.id ?? '';
          if (job !== undefined || !isDone(done, id)) return job;
          return (await untilAnswered(done, () => store.getJobs({ ids: [id] })))[0];
        }),
      );
    },
    unpark: async ({ jobs, conflictKey }) => {
      const done: Done = new Map();
      const outcomes = await untilAnswered(done, () => store.unpark({ jobs, conflictKey }));
      return outcomes.map((outcome, at) => (isDone(done, jobs[at]?.id ?? '') ? 'applied' : outcome));
    },
    claim: async (requests) => {
      const outcomes = [...(await store.claim(requests))];
      for (let calls = 1; outcomes.includes('unknown') && calls < CALLS_MAX; calls += 1) {
        const open = requests.filter((_, at) => outcomes[at] === 'unknown');
        const again = await store.claim(open);
        for (const [at, request] of open.entries())
          outcomes[requests.indexOf(request)] = again[at] ?? 'unknown';
      }
      return outcomes;
    },
  };
  return new Proxy(store, {
    get: (_, verb: keyof JobStore) => {
      const call: (...parameters: never[]) => Promise<unknown> = store[verb].bind(store);
      return (
        inPlace[verb] ?? ((...parameters: never[]) => untilAnswered(new Map(), () => call(...parameters)))
      );
    },
  });
}
