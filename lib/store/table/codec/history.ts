/** Packs a job's history into one attribute of its item. */
import type { AttemptEntry, History, HistoryEntry, JobError } from '../../../core/job.ts';
import { numberIn, textIn } from './cells.ts';

/** Attempt number, claim, fleet, claim time, worker, start, end, index of the outcome, then the error or 0, and the next run or 0. */
type AttemptRow = readonly [
  'a',
  number,
  string,
  string,
  number,
  string,
  number,
  number,
  number,
  readonly [string, string, string?] | 0,
  readonly [number, 0 | 1] | 0,
];

/** Time of the change, old time, new time, author. */
type MovedRow = readonly ['m', number, number, number, string?];

/** Time of the change, old priority, new priority, author. */
type PriorityRow = readonly ['p', number, number, number, string?];

/** Time, claim. */
type NotClaimedRow = readonly ['n', number, string];

/** Time, claim, fleet. */
type GivenBackRow = readonly ['g', number, string, string];

type HistoryRow = AttemptRow | MovedRow | PriorityRow | NotClaimedRow | GivenBackRow;

function rowOf(entry: HistoryEntry): HistoryRow {
  switch (entry.kind) {
    case 'attempt': {
      const { attempt, claimId, fleet, claimedAtMs, workerId, startedAtMs, endedAtMs, error, next } = entry;
      const outcome = OUTCOMES.indexOf(entry.outcome);
      const why = error === undefined ? 0 : errorRow(error);
      const then = next === undefined ? 0 : ([next.runAtMs, next.isFromStart ? 1 : 0] as const);
      return [
        'a',
        attempt,
        claimId,
        fleet,
        claimedAtMs,
        workerId,
        startedAtMs,
        endedAtMs,
        outcome,
        why,
        then,
      ];
    }
    case 'moved': {
      const { atMs, fromMs, toMs, by } = entry;
      return by === undefined ? ['m', atMs, fromMs, toMs] : ['m', atMs, fromMs, toMs, by];
    }
    case 'priority': {
      const { atMs, from, to, by } = entry;
      return by === undefined ? ['p', atMs, from, to] : ['p', atMs, from, to, by];
    }
    case 'notClaimed':
      return ['n', entry.atMs, entry.claimId];
    case 'givenBack':
      return ['g', entry.atMs, entry.claimId, entry.fleet];
  }
}

const OUTCOMES = [
  'failed',
  'lost',
  'released',
  'rested',
  'parked',
] as const satisfies AttemptEntry['outcome'][];

const errorRow = ({ name, message, stack }: JobError): readonly [string, string, string?] =>
  stack === undefined ? [name, message] : [name, message, stack];

function errorOfRow([name, message, stack]: readonly [string, string, string?]): JobError {
  const error = { name: textIn(name), message: textIn(message) };
  return stack === undefined ? error : { ...error, stack: textIn(stack) };
}

/** Text of some 150 bytes for each attempt: counts of dropped entries, the last claim or 0, then a row for each entry. */
export const encodeHistory = ({ entries, lastClaimId, dropped }: History): string =>
  JSON.stringify([
    [dropped.attempts, dropped.losses, dropped.others],
    lastClaimId ?? 0,
    ...entries.map(rowOf),
  ]);

/** Throws any error if the format is wrong: the caller names the attribute. */
export function unpackHistory(packed: unknown): History {
  const [dropped, lastClaimId, ...rows] = packed as readonly [
    readonly [number, number, number],
    string | 0,
    ...HistoryRow[],
  ];
  const [attempts, losses, others] = dropped;
  if (![attempts, losses, others].every(Number.isSafeInteger))
    throw new TypeError('counts of dropped entries');
  return {
    entries: rows.map(entryOfRow),
    ...(lastClaimId === 0 ? {} : { lastClaimId: textIn(lastClaimId) }),
    dropped: { attempts, losses, others },
  };
}

function entryOfRow(row: HistoryRow): HistoryEntry {
  switch (row[0]) {
    case 'a': {
      const [, attempt, claimId, fleet, claimedAtMs, workerId, startedAtMs, endedAtMs, at, why, then] = row;
      const outcome = OUTCOMES[at];
      if (outcome === undefined) throw new TypeError(`an unknown outcome ${String(at)}`);
      return {
        kind: 'attempt',
        attempt: numberIn(attempt),
        claimId: textIn(claimId),
        fleet: textIn(fleet),
        claimedAtMs: numberIn(claimedAtMs),
        workerId: textIn(workerId),
        startedAtMs: numberIn(startedAtMs),
        endedAtMs: numberIn(endedAtMs),
        outcome,
        ...(why === 0 ? {} : { error: errorOfRow(why) }),
        ...(then === 0 ? {} : { next: { runAtMs: numberIn(then[0]), isFromStart: then[1] === 1 } }),
      };
    }
    case 'm': {
      const [, atMs, fromMs, toMs, by] = row;
      const times = { atMs: numberIn(atMs), fromMs: numberIn(fromMs), toMs: numberIn(toMs) };
      return { kind: 'moved', ...times, ...(by === undefined ? {} : { by: textIn(by) }) };
    }
    case 'p': {
      const [, atMs, from, to, by] = row;
      const change = { atMs: numberIn(atMs), from: numberIn(from), to: numberIn(to) };
      return { kind: 'priority', ...change, ...(by === undefined ? {} : { by: textIn(by) }) };
    }
    case 'n':
      return { kind: 'notClaimed', atMs: numberIn(row[1]), claimId: textIn(row[2]) };
    case 'g': {
      const [, atMs, claimId, fleet] = row;
      return {
        kind: 'givenBack',
        atMs: numberIn(atMs),
        claimId: textIn(claimId),
        fleet: textIn(fleet),
      };
    }
    default:
      throw new TypeError(`a row of the unknown kind ${String(row[0])}`);
  }
}
