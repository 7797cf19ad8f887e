/** The small items of a partition: its lease, its wakes, the last look at its workers. */
import type { Carried, Lookout, NamedJob, WakeCount, Wakes, WishForWord } from '../../records.ts';
import { lookoutKey, wakeKey } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { type Cells, cellsOf } from './cells.ts';

export interface LeaseItem {
  readonly epoch: number;
  readonly holder: string | undefined;
  readonly expiresAtMs: number;
  readonly callId: string | undefined;
  readonly wakesSeen: WakeCount | undefined;
  readonly lastHolder: string | undefined;
  readonly takenAtMs: number | undefined;
  readonly word: WishForWord | undefined;
  /** It was given back open. */
  readonly isOpen: boolean;
  readonly declared: number | undefined;
  readonly carried: Carried | undefined;
}

export const encodeCarried = (carried: Carried): Item => ({
  [A.version]: carried.version,
  [A.moved]: carried.moved,
  [A.isDone]: carried.isDone,
  [A.after]: carried.after,
  [A.sinceEpoch]: carried.sinceEpoch,
  [A.isHandedOver]: carried.isHandedOver,
});

const decodeCarried = (cells: Cells): Carried => ({
  version: cells.count(A.version),
  moved: cells.count(A.moved),
  isDone: cells.flag(A.isDone),
  ...(cells.has(A.after) ? { after: cells.text(A.after) } : {}),
  ...(cells.has(A.sinceEpoch) ? { sinceEpoch: cells.count(A.sinceEpoch) } : {}),
  ...(cells.has(A.isHandedOver) ? { isHandedOver: cells.flag(A.isHandedOver) } : {}),
});

export function decodeLease(item: Item): LeaseItem {
  const cells = cellsOf(item);
  const epoch = cells.count(A.epoch);
  const holder = cells.has(A.holder) ? cells.text(A.holder) : undefined;
  return {
    epoch,
    holder,
    // Under which epoch: an earlier version that took it since left that there.
    isOpen: holder === undefined && cells.has(A.openEpoch) && cells.count(A.openEpoch) === epoch,
    expiresAtMs: cells.number(A.expiresAtMs),
    callId: cells.has(A.callId) ? cells.text(A.callId) : undefined,
    wakesSeen: cells.has(A.wakesSeen) ? decodeWakesSeen(cells) : undefined,
    lastHolder: cells.has(A.lastHolder) ? cells.text(A.lastHolder) : undefined,
    takenAtMs: cells.has(A.takenAtMs) ? cells.number(A.takenAtMs) : undefined,
    word: cells.has(A.wantsWord)
      ? { isWanted: cells.flag(A.wantsWord), saidAtMs: cells.number(A.saidAtMs) }
      : undefined,
    declared: cells.has(A.declared) ? cells.count(A.declared) : undefined,
    carried: cells.has(A.carried) ? decodeCarried(cells.map(A.carried)) : undefined,
  };
}

/** The count stands alone, too: an earlier version reads and writes that. What it wrote says nothing of names. */
export const encodeWordSeen = ({ wakes, named, names }: WakeCount): readonly number[] => [
  wakes,
  named,
  names,
];

function decodeWakesSeen(cells: Cells): WakeCount {
  const wakes = cells.count(A.wakesSeen);
  const [counted, named, names] = cells.has(A.wordSeen) ? cells.counts(A.wordSeen) : [];
  if (counted === wakes && named !== undefined && names !== undefined) return { wakes, named, names };
  // All that ever came without names counts as unseen.
  return { wakes, named: wakes, names: 0 };
}

/** Its version, how it was, its id; or that it is no job, and the id of hints. */
const NAMED_JOB = /^(\d+)([wxh])(.+)$/s;

export const encodeNamedJob = ({ id, version, isWaiting, isOfHints }: NamedJob): string =>
  `${version}${isOfHints ? 'h' : isWaiting ? 'w' : 'x'}${id}`;

/** As words leave it. */
export const encodeWakes = (partition: number, { wakes, named, names, jobs }: Wakes): Item => ({
  ...wakeKey(partition),
  [A.wakes]: wakes,
  ...(named === 0 ? {} : { [A.named]: named, [A.namedJobs]: jobs.map(encodeNamedJob) }),
  ...(names === jobs.length ? {} : { [A.namesDropped]: names - jobs.length }),
});

export function decodeWakes(item: Item): Wakes {
  const cells = cellsOf(item);
  const jobs = cells.has(A.namedJobs) ? cells.textList(A.namedJobs).map(decodeNamedJob) : [];
  const dropped = cells.has(A.namesDropped) ? cells.count(A.namesDropped) : 0;
  return {
    wakes: cells.count(A.wakes),
    named: cells.has(A.named) ? cells.count(A.named) : 0,
    names: dropped + jobs.length,
    jobs,
  };
}

/** What is no name names no job: it keeps its place, and nothing is looked up by it. A word that cannot be read must not stop a partition. */
function decodeNamedJob(text: string): NamedJob {
  const [, version, how, id = ''] = NAMED_JOB.exec(text) ?? [];
  const named = { id, version: Number(version ?? 0), isWaiting: how === 'w' };
  return how === 'h' ? { ...named, isOfHints: true } : named;
}

export const encodeLookout = (partition: number, lookout: Lookout, callId: string): Item => ({
  ...lookoutKey(partition),
  [A.sinceMs]: lookout.sinceMs,
  [A.atMs]: lookout.atMs,
  [A.nextAtMs]: lookout.nextAtMs,
  [A.judgedUntilMs]: lookout.judgedUntilMs,
  [A.callId]: callId,
});

export function decodeLookout(item: Item): Lookout {
  const cells = cellsOf(item);
  return {
    sinceMs: cells.number(A.sinceMs),
    atMs: cells.number(A.atMs),
    nextAtMs: cells.number(A.nextAtMs),
    judgedUntilMs: cells.number(A.judgedUntilMs),
  };
}
