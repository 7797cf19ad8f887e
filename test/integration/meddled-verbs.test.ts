/** Each verb of the store, while everything is done to each of its requests that DynamoDB may do. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MovingJob } from '../../lib/core/job.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { DynamoEndedJobs } from '../../lib/store/dynamodb/ended.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { clientConfiguration, createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import {
  type Asked,
  cancelled,
  conditionFailed,
  type ExceptionName,
  exception,
  hurriedRetries,
  isWrite,
  type Meddler,
  meddle,
  type Plan,
  type Shape,
  type TryFault,
} from '../contract/meddler.ts';
import { PASSING_REASONS, REPEATED_BY_SDK, THROTTLES } from '../contract/meddling.ts';
import { SCENES, type Scene, type Scenes, thrown } from '../contract/scenes.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';

const WAIT_MS = 60_000;
/** Four digits, as nothing else that a scene names: so it is known where it stands. */
const FIRST_PARTITION = 2_001;
const PARTITIONS_OF_SCENE = 2;
/** A conflict is met so often, and once more the adapter asks. */
const CONFLICTS = 5;
/** More weak reads than a call makes. */
const LONG_PAST = 9;

let table: TestTable;
let plainTable: TestTable['client'];
let meddler: Meddler;
let store: DynamoJobStore;
let quiet: DynamoJobStore;
let partition = FIRST_PARTITION;

beforeAll(async () => {
  table = await createTable({ retryStrategy: hurriedRetries() });
  plainTable = new DynamoDBClient(clientConfiguration);
  meddler = meddle(table);
  const options = { table: table.table, place: suitePlace, nowMs: () => NOW_MS, sleep: async () => {} };
  store = new DynamoJobStore({ ...options, client: table.client });
  quiet = new DynamoJobStore({ ...options, client: plainTable });
}, WAIT_MS);
afterAll(async () => {
  meddler?.close();
  plainTable?.destroy();
  await table?.drop();
}, WAIT_MS);

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A value without what is new in each run: names by the order in which they come, partitions by their place in the scene. */
function plain(value: unknown): unknown {
  const names = new Map<string, string>();
  const named = (text: string, kind: string): string => {
    const name = names.get(text) ?? `${kind} ${names.size}`;
    names.set(text, name);
    return name;
  };
  const isOwn = (number: number): boolean => number >= partition && number < partition + PARTITIONS_OF_SCENE;
  const text = JSON.stringify(value, (field, each: unknown) => {
    if (each instanceof Map || each instanceof Set) return [...each];
    if (isRecord(each))
      return Object.fromEntries(Object.entries(each).toSorted(([one], [other]) => (one < other ? -1 : 1)));
    if (field === 'n') return 'n';
    if (field === 'next' && typeof each === 'string') return 'cursor';
    if (typeof each === 'number' && isOwn(each)) return `partition ${each - partition}`;
    if (typeof each !== 'string') return each;
    return each
      .replace(/\b(job|worker|content|dispatcher)-\d+\b/g, (name, kind) => named(name, String(kind)))
      .replace(/^1-\d+(\.\d+)?$/g, (name) => named(name, 'claim'))
      .replaceAll(/\b\d{4}\b/g, (digits) =>
        isOwn(Number(digits)) ? `p${Number(digits) - partition}` : digits,
      );
  });
  return text === undefined ? null : JSON.parse(text);
}

const TYPED: ReadonlySet<string> = new Set([
  'ThrottledError',
  'UnavailableError',
  'RefusedError',
  'StaleCommitError',
]);

/** What a call comes to: its answer, or the store's own error. */
async function outcomeOf(scene: Scene, plan: Plan): Promise<unknown> {
  meddler.follow(plan);
  try {
    return plain(await scene.call());
  } catch (error) {
    if (error instanceof Error && TYPED.has(error.name)) return thrown(error.name);
    throw error;
  } finally {
    meddler.follow({});
  }
}

/** A scene that has been set, while nobody meddles, or with a past that weak reads would show. */
async function set(scenes: Scenes, isMeddled = true): Promise<Scene> {
  partition += PARTITIONS_OF_SCENE;
  meddler.follow(isMeddled && !scenes.isWeak ? { shape: () => ({ lag: LONG_PAST }) } : {});
  const scene = await scenes.set({ store, quiet, partition });
  meddler.follow({});
  meddler.takeAsked();
  return scene;
}

const meddledTimes = (): number => [...meddler.times.values()].reduce((sum, count) => sum + count, 0);

interface Undisturbed {
  readonly asked: readonly Asked[];
  readonly answer: unknown;
  readonly left: unknown;
}

const undisturbedOf = new Map<Scenes, Undisturbed>();

/** What comes of a call with which nobody meddles. */
async function undisturbed(scenes: Scenes): Promise<Undisturbed> {
  const before = undisturbedOf.get(scenes);
  if (before !== undefined) return before;
  const scene = await set(scenes, false);
  const answer = await outcomeOf(scene, {});
  const asked = meddler.takeAsked();
  const came = { asked, answer, left: plain(await scene.left()) };
  undisturbedOf.set(scenes, came);
  return came;
}

const isTransaction = ({ command }: Asked): boolean => command === 'TransactWriteItems';
const isSingleWrite = ({ command }: Asked): boolean =>
  ['PutItem', 'UpdateItem', 'DeleteItem'].includes(command);
const isSame = (one: Asked, other: Asked | undefined): boolean =>
  one.command === other?.command && one.keys[0] === other.keys[0];

const refused = (error: () => Error): TryFault => ({ kind: 'refused', error });
const answered = (name: ExceptionName): TryFault => refused(() => exception(name));
const turnAbout = <T>(of: readonly [T, ...T[]], at: number): T => of[at % of.length] ?? of[0];

/** Short and empty pages, and batches of which little is read at a time. */
function inParts(): (asked: Asked) => Shape {
  let asks = 0;
  return ({ command, keys }) => {
    asks += 1;
    if (command === 'Query') return { limit: turnAbout([1, 2], asks), isEmpty: asks % 3 !== 0 };
    return command === 'BatchGetItem' ? { read: asks === 1 ? 0 : Math.ceil(keys.length / 2) } : {};
  };
}

/** What passes, on the request with this number: two failures that the SDK bears, and the conflicts that the adapter bears. */
function passing(number: number, turn: number): Plan {
  let requests = 0;
  let target: Asked | undefined;
  let met = 0;
  const conflictOf = (asked: Asked): TryFault | undefined => {
    if (!(isSingleWrite(asked) || isTransaction(asked)) || met >= CONFLICTS) return undefined;
    met += 1;
    if (!isTransaction(asked)) return answered('TransactionConflictException');
    if (met === CONFLICTS) return answered('TransactionInProgressException');
    const reason = turnAbout(PASSING_REASONS, met + turn);
    return refused(() => cancelled(asked.parts, new Map([[(met + turn) % asked.parts, reason]])));
  };
  const shape = inParts();
  return {
    shape: (asked) => {
      requests += 1;
      if (requests === number + 1) target = asked;
      return shape(asked);
    },
    fault: (asked, tries) => {
      if (target === undefined || !isSame(asked, target)) return undefined;
      if (tries === 1 && met === 0) return answered(turnAbout(REPEATED_BY_SDK, turn));
      if (tries === 2 && met === 0 && turn % 2 === 0) return { kind: 'unsent' };
      return tries <= 2 ? conflictOf(asked) : undefined;
    },
  };
}

/** The answer of the request with this number gets lost, once or whenever it is asked. */
function unanswered(number: number, isEach: boolean): Plan {
  let requests = 0;
  let target: Asked | undefined;
  return {
    shape: (asked) => {
      requests += 1;
      if (requests === number + 1) target = asked;
      return {};
    },
    fault: (asked, tries) =>
      asked === target && (isEach || tries === 1) ? { kind: 'unanswered' } : undefined,
  };
}

/** From the request with this number on, nothing is done, as far as it is named. */
function failing(number: number, how: (asked: Asked, tries: number) => TryFault | undefined): Plan {
  let requests = 0;
  return {
    shape: () => {
      requests += 1;
      return {};
    },
    fault: (asked, tries) => (requests > number ? how(asked, tries) : undefined),
  };
}

/** What does not pass, and what becomes of the call. */
const LASTING: readonly (readonly [
  error: string,
  how: (asked: Asked, tries: number) => TryFault | undefined,
])[] = [
  ...THROTTLES.map((name) => ['ThrottledError', () => answered(name)] as const),
  [
    'ThrottledError',
    (asked) => {
      if (isTransaction(asked)) return answered('TransactionInProgressException');
      return isSingleWrite(asked) ? answered('TransactionConflictException') : undefined;
    },
  ],
  [
    'UnavailableError',
    (_, tries) => answered(tries % 2 === 0 ? 'InternalServerError' : 'ServiceUnavailable'),
  ],
  ['UnavailableError', () => ({ kind: 'unsent' })],
  ['RefusedError', () => answered('ItemCollectionSizeLimitExceededException')],
];

const named = (verb: string, { name }: Scenes): string => (name === undefined ? verb : `${verb} ${name}`);
const ALL = Object.entries(SCENES).flatMap(([verb, scenes]) =>
  scenes.map((each) => ({ title: named(verb, each), verb: verb as keyof JobStore, scenes: each })),
);
/**
 * What is done to requests is done on this side: of a table that is slow, every third scene is enough. Who looks for a planted bug
 * names the scenes.
 */
const { FAIRLEAD_TEST_ENDPOINT, FAIRLEAD_PLANTED } = process.env;
const EACH = FAIRLEAD_TEST_ENDPOINT === undefined || FAIRLEAD_PLANTED !== undefined ? 1 : 3;

describe.each(ALL.filter((_, at) => at % EACH === 0))('$title', { timeout: WAIT_MS }, ({ verb, scenes }) => {
  const { lost = (answer) => answer, again = (answer) => answer, isHint = false, hasHint = false } = scenes;

  /** A claim without an answer is one that goes on counting. */
  const isSurfaced = (outcome: unknown, error: string, { answer }: Undisturbed): boolean => {
    const expected = [thrown(error)];
    if (isHint || hasHint || verb === 'changeControl') expected.push(answer);
    return (
      expected.some((each) => JSON.stringify(each) === JSON.stringify(outcome)) ||
      (verb === 'claim' && Array.isArray(outcome) && outcome.includes('unknown') && error !== 'RefusedError')
    );
  };

  /** Of several answers, each for itself may be another one. */
  const isOneOf = (outcome: unknown, answers: readonly unknown[]): boolean => {
    const isSame = (one: unknown, other: unknown) =>
      JSON.stringify(plain(one)) === JSON.stringify(plain(other));
    if (answers.some((answer) => isSame(answer, outcome))) return true;
    if (!Array.isArray(outcome)) return false;
    const lists = answers.filter((answer) => Array.isArray(answer) && answer.length === outcome.length);
    return outcome.every((each, at) => lists.some((list) => isSame((list as unknown[])[at], each)));
  };
  const expectOneOf = (outcome: unknown, answers: readonly unknown[]): void => {
    // Said as one that it is not.
    if (!isOneOf(outcome, answers)) expect(outcome).toEqual(answers[0]);
  };

  it('is right, whatever passes meanwhile', async () => {
    const known = await undisturbed(scenes);
    expect(known.asked.length).toBeGreaterThan(0);
    for (const [number] of known.asked.entries()) {
      for (const turn of [number, number + 3]) {
        const scene = await set(scenes);
        expect(await outcomeOf(scene, passing(number, turn))).toEqual(known.answer);
        expect(plain(await scene.left())).toEqual(known.left);
      }
    }
  });

  it('is right when an answer gets lost, or reads as a lost race', async () => {
    const known = await undisturbed(scenes);
    for (const [number] of known.asked.entries()) {
      const scene = await set(scenes);
      const outcome = await outcomeOf(scene, unanswered(number, false));
      expectOneOf(outcome, [known.answer, lost(known.answer)]);
      expect(plain(await scene.left())).toEqual(known.left);
    }
  });

  it('says what does not pass, and is right when it is called again', async () => {
    const known = await undisturbed(scenes);
    for (const [number] of known.asked.entries()) {
      const scene = await set(scenes);
      for (const [error, how] of LASTING) {
        const before = meddledTimes();
        const outcome = await outcomeOf(scene, failing(number, how));
        // What was done before is not done again: the call may be over before it comes to this request.
        if (meddledTimes() === before || number > 0) continue;
        expect(isSurfaced(outcome, error, known), `${error}: ${JSON.stringify(outcome)}`).toBe(true);
      }
      const outcome = await outcomeOf(scene, {});
      const others = number === 0 ? [] : [lost(known.answer), again(known.answer)];
      expectOneOf(outcome, [known.answer, ...others]);
      if (!isHint) expect(plain(await scene.left())).toEqual(known.left);
    }
  });

  it('takes a condition that fails for a lost race, and is right when it is called again', async () => {
    const known = await undisturbed(scenes);
    for (const [number, asked] of known.asked.entries()) {
      if (!asked.isConditional) continue;
      const scene = await set(scenes);
      // Shards of a due line are never taken back: that condition fails only where they are noted.
      const refuse = ({ isConditional, keys }: Asked) =>
        isConditional && !keys.some((key) => key.endsWith(' due')) ? refused(conditionFailed) : undefined;
      const outcome = await outcomeOf(scene, failing(number, refuse));
      // What is in the way and gone when it is looked at may come again: then nothing was changed.
      expect(['RefusedError', 'StaleCommitError'].map(thrown)).not.toContainEqual(outcome);
      expectOneOf(await outcomeOf(scene, {}), [known.answer, ...(number === 0 ? [] : [again(known.answer)])]);
      if (!isHint) expect(plain(await scene.left())).toEqual(known.left);
    }
  });

  it('bears to be called again when nobody knows whether it was done', async () => {
    const known = await undisturbed(scenes);
    for (const [number, asked] of known.asked.entries()) {
      if (!isWrite(asked)) continue;
      const scene = await set(scenes);
      const outcome = await outcomeOf(scene, unanswered(number, true));
      expect(isSurfaced(outcome, 'UnavailableError', known), JSON.stringify(outcome)).toBe(true);
      expectOneOf(await outcomeOf(scene, {}), [known.answer, again(known.answer)]);
      if (!isHint) expect(plain(await scene.left())).toEqual(known.left);
    }
  });

  it.runIf(scenes.refused !== undefined)(
    'is done once, though its transaction is in progress still when it is asked again',
    async () => {
      const known = await undisturbed(scenes);
      const scene = await set(scenes);
      let transactions = 0;
      const inProgress = (asked: Asked, tries: number): TryFault | undefined => {
        if (!isTransaction(asked)) return undefined;
        if (tries === 1) transactions += 1;
        if (transactions > 1) return undefined;
        return tries === 1 ? { kind: 'unanswered' } : answered('TransactionInProgressException');
      };
      expect(await outcomeOf(scene, { fault: inProgress })).toEqual(known.answer);
      expect(transactions).toBe(2);
      expect(plain(await scene.left())).toEqual(known.left);
    },
  );

  it.runIf(scenes.refused !== undefined)(
    'tells the reasons of a cancelled transaction apart, by their position',
    async () => {
      const known = await undisturbed(scenes);
      const scene = await set(scenes);
      const parts = known.asked.find(isTransaction)?.parts ?? 0;
      expect(parts).toBe(scenes.refused?.length);
      const cancel = (at: number, reason: string, isEach: boolean): Plan => {
        let transactions = 0;
        return {
          fault: (asked) => {
            if (!isTransaction(asked)) return undefined;
            transactions += 1;
            if (transactions > 1 && !isEach) return undefined;
            // Beside a condition that failed, another part may have met a conflict.
            const beside: [number, string][] = isEach ? [] : [[(at + 1) % parts, 'TransactionConflict']];
            return refused(() => cancelled(asked.parts, new Map([...beside, [at, reason]])));
          },
        };
      };
      for (let at = 0; at < parts; at += 1) {
        for (const reason of ['ValidationError', 'ItemCollectionSizeLimitExceeded'])
          expect(await outcomeOf(scene, cancel(at, reason, true))).toEqual(thrown('RefusedError'));
        for (const reason of PASSING_REASONS) {
          const outcome = await outcomeOf(scene, cancel(at, reason, true));
          expect(isSurfaced(outcome, 'ThrottledError', known), `${reason} at ${at}`).toBe(true);
        }
        const outcome = await outcomeOf(scene, cancel(at, 'ConditionalCheckFailed', false));
        expect(outcome, `refused at ${at}`).toEqual(scenes.refused?.[at]);
      }
      expect(await outcomeOf(scene, {})).toEqual(known.answer);
      expect(plain(await scene.left())).toEqual(known.left);
    },
  );
});

describe('keys of a batch that are left over whenever they are asked for', { timeout: WAIT_MS }, () => {
  it('are said to be, and never taken for keys without items', async () => {
    const verbs = new Set<keyof JobStore>();
    for (const { verb, scenes } of ALL) {
      const known = await undisturbed(scenes);
      if (!known.asked.some(({ command }) => command === 'BatchGetItem')) continue;
      verbs.add(verb);
      const scene = await set(scenes);
      const leftOver: Plan = { shape: ({ command }) => (command === 'BatchGetItem' ? { read: 0 } : {}) };
      expect(await outcomeOf(scene, leftOver), verb).toEqual(thrown('ThrottledError'));
      expect(await outcomeOf(scene, {}), verb).toEqual(known.answer);
    }
    expect(verbs).toContain('getJobs');
  });
});

describe('jobs that have ended', { timeout: WAIT_MS }, () => {
  it('are all told of, though the pages of a scan hold few of them, or none', async () => {
    const own = await createTable({ retryStrategy: hurriedRetries() });
    const scans = meddle(own);
    try {
      const endedAtMs = NOW_MS + 1_000;
      const filled = new DynamoJobStore({ client: own.client, table: own.table, place: suitePlace });
      const jobs = Array.from({ length: 12 }, () => aJob());
      await filled.createJobs(jobs);
      // Some have not ended: the scan meets them, and tells nothing of them.
      const ended = jobs.slice(0, 7);
      for (const { id } of ended)
        await filled.cancelJob({ jobId: id, nowMs: endedAtMs, expiresAtMs: endedAtMs + 3_600_000 });
      scans.takeAsked();
      scans.follow({ shape: () => ({ limit: 1 }) });
      const reader = new DynamoEndedJobs({
        client: own.client,
        table: own.table,
        unreadable: (error) => {
          throw error;
        },
      });
      const pages: (readonly MovingJob[])[] = [];
      for await (const page of reader.endedJobs({ sinceMs: endedAtMs, untilMs: endedAtMs + 1 }))
        pages.push(page);
      expect(
        pages
          .flat()
          .map(({ id }) => id)
          .toSorted(),
      ).toEqual(ended.map(({ id }) => id).toSorted());
      expect(pages.filter((page) => page.length === 0).length).toBeGreaterThan(4);
      expect(scans.takeAsked().length).toBe(pages.length);
    } finally {
      scans.close();
      await own.drop();
    }
  });
});
