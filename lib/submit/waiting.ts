/**
 * Bounds on what waits: `maxWaiting` and `maxWaitingPerKey` of a type. A submit counts the jobs that stand in the type's ready lines, which
 * are read from an index that lags by about a second, and refuses the job that would be one too many. A process remembers what it counted
 * for `COUNT_KEPT_MS` and a little more for each job in the lines, and adds what it stores itself. So a bound is exact for
 * one process, but for the lag; several processes exceed it by what the others let in meanwhile. Jobs with a later time, and jobs that are
 * parked for their conflict key, do not count.
 */

import type {
  JobTypeConfiguration,
  LimitConfiguration,
  PoolConfiguration,
  RateConfiguration,
} from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import { expectedCostMs } from '../core/estimate.ts';
import { JOB_MODES, type Job } from '../core/job.ts';
import { limitsOf } from '../core/limits.ts';
import { allEnded } from '../runtime/all-ended.ts';
import type { ReadyLine } from '../store/contract/lines.ts';
import { pagesOf } from '../store/contract/pages.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';

/** Longer than the index lags. At half of it, what a process stored last might be missing in its next count. */
const COUNT_KEPT_MS = 1_000;
/** For each counted job, so that a process spends at most some 400 read units a second on counting a long backlog. */
const COUNT_KEPT_FOR_EACH_MS = 0.1;
/** The most lines that one count reads. The jobs of more lines are estimated from as many, evenly taken. */
export const COUNTED_LINES_MAX = 100;
const LINES_AT_ONCE = 10;
const KEYS_PAGE = 1_000;
const HEADS_PAGE = 1_000;
const REMEMBERED_COUNTS_MAX = 10_000;
const RETRY_AFTER_MAX_MS = 3_600_000;

interface Counted {
  waiting: number;
  readonly untilMs: number;
  retryAfterMs?: Promise<number> | undefined;
}

/** The last counts of this process, by type, or by type and fairness key. */
export type CountedBacklogs = Map<string, Promise<Counted>>;

/** As many jobs wait as the declaration lets wait: the job was not stored. */
export interface BacklogFull {
  readonly kind: 'full';
  readonly job: Job;
  /** The key whose bound it is; undefined: the bound is the type's. */
  readonly fairnessKey?: string | undefined;
  readonly waiting: number;
  readonly maxWaiting: number;
  /** An estimate of how long it takes until the job has room, from the type's learned cost and the declared capacity. */
  readonly retryAfterMs: number;
}

export interface CountContext {
  readonly store: Pick<SubmitStore, 'readKeys' | 'readLine' | 'getEstimates' | 'lookUpJobs'>;
  readonly configuration: PoolConfiguration;
  readonly nowMs: () => number;
  /** Undefined: the caller's jobs are stored however many wait. */
  readonly counted?: CountedBacklogs | undefined;
}

interface Bound {
  readonly type: JobTypeConfiguration;
  readonly fairnessKey?: string | undefined;
  readonly partition: number;
  readonly most: number;
}

/** What the bounds say to some jobs. */
interface Places {
  readonly refused: ReadonlyMap<Job, BacklogFull>;
  /** The counts that have grown by the job. */
  readonly taken: ReadonlyMap<Job, readonly Counted[]>;
}

/** Takes a place for each of these jobs, or refuses it. A job that was stored before is not refused: its request is a repetition. */
export async function placesFor(context: CountContext, jobs: readonly Job[]): Promise<Places> {
  const { counted } = context;
  const refused = new Map<Job, BacklogFull>();
  const taken = new Map<Job, readonly Counted[]>();
  if (counted === undefined) return { refused, taken };
  const types = typesByName(context.configuration);
  for (const job of jobs) {
    const bounds = job.state === 'pending' ? boundsOf(types.get(job.type), job) : [];
    if (bounds.length === 0) continue;
    const place = await takePlace(context, counted, bounds, job);
    if ('kind' in place) refused.set(job, place);
    else taken.set(job, place);
  }
  if (refused.size === 0) return { refused, taken };
  const known = await context.store.lookUpJobs({ ids: [...refused.keys()].map(({ id }) => id) });
  for (const [at, job] of [...refused.keys()].entries()) if (known[at] !== undefined) refused.delete(job);
  return { refused, taken };
}

/** Gives back the place of a request that made no job: one that was repeated, or that another job stands for. */
export function giveBackPlace({ taken }: Places, job: Job): void {
  for (const count of taken.get(job) ?? []) count.waiting -= 1;
}

function boundsOf(type: JobTypeConfiguration | undefined, { fairnessKey, partition }: Job): readonly Bound[] {
  if (type === undefined) return [];
  const { maxWaiting, maxWaitingPerKey } = type;
  return [
    ...(maxWaitingPerKey === undefined ? [] : [{ type, partition, fairnessKey, most: maxWaitingPerKey }]),
    ...(maxWaiting === undefined ? [] : [{ type, partition, most: maxWaiting }]),
  ];
}

/** Counts the job under each of its bounds, unless one of them is reached. */
async function takePlace(
  context: CountContext,
  counted: CountedBacklogs,
  bounds: readonly Bound[],
  job: Job,
): Promise<BacklogFull | readonly Counted[]> {
  const counts: Counted[] = [];
  for (const bound of bounds) counts.push(await countOf(context, counted, bound));
  for (const [at, bound] of bounds.entries()) {
    const count = counts[at];
    // planted: bound-forgotten
    if (count === undefined || count.waiting < bound.most) continue;
    count.retryAfterMs ??= retryAfterOf(context, bound, count);
    const { fairnessKey, most: maxWaiting } = bound;
    const retryAfterMs = await count.retryAfterMs;
    return { kind: 'full', job, fairnessKey, waiting: count.waiting, maxWaiting, retryAfterMs };
  }
  for (const count of counts) count.waiting += 1;
  return counts;
}

async function countOf(context: CountContext, counted: CountedBacklogs, bound: Bound): Promise<Counted> {
  const name = JSON.stringify([bound.type.type, bound.fairnessKey]);
  const known = await counted.get(name);
  if (known !== undefined && context.nowMs() < known.untilMs) return known;
  // Another submit of this process may have begun to count meanwhile.
  const begun = counted.get(name);
  if (begun !== undefined && (await begun) !== known) return begun;
  const next = count(context, bound);
  if (counted.size >= REMEMBERED_COUNTS_MAX) counted.clear();
  counted.set(name, next);
  try {
    return await next;
  } catch (error) {
    if (counted.get(name) === next) counted.delete(name);
    throw error;
  }
}

async function count(context: CountContext, bound: Bound): Promise<Counted> {
  const lines = await linesOf(context, bound);
  const every = Math.max(1, lines.length / COUNTED_LINES_MAX);
  const read = Array.from({ length: Math.min(lines.length, COUNTED_LINES_MAX) }, (_, at) =>
    Math.floor(at * every),
  );
  let found = 0;
  for (let from = 0; from < read.length && found * every < bound.most; from += LINES_AT_ONCE) {
    const counts = await allEnded(
      read.slice(from, from + LINES_AT_ONCE).map((at) => countLine(context, lines[at], bound.most)),
    );
    for (const each of counts) found += each;
  }
  const waiting = Math.min(bound.most, Math.round(found * every));
  return { waiting, untilMs: context.nowMs() + COUNT_KEPT_MS + found * COUNT_KEPT_FOR_EACH_MS };
}

interface PartitionLine {
  readonly partition: number;
  readonly line: ReadyLine;
}

/** The ready lines that a bound is about, in all partitions. */
async function linesOf(
  { store, configuration }: CountContext,
  { type: { type }, fairnessKey, partition }: Bound,
): Promise<readonly PartitionLine[]> {
  if (fairnessKey !== undefined)
    return JOB_MODES.map((mode) => ({ partition, line: { type, mode, fairnessKey } }));
  const lines: PartitionLine[] = [];
  for (let each = 0; each < configuration.partitions; each += 1) {
    for await (const { keys } of pagesOf((after: string | undefined) =>
      store.readKeys({ partition: each, type, limit: KEYS_PAGE, after }),
    ))
      for (const key of keys)
        for (const { mode } of key.lines)
          lines.push({ partition: each, line: { type, mode, fairnessKey: key.fairnessKey } });
  }
  return lines;
}

async function countLine(
  { store }: CountContext,
  of: PartitionLine | undefined,
  most: number,
): Promise<number> {
  let found = 0;
  if (of === undefined) return found;
  for await (const { jobs } of pagesOf((after: string | undefined) =>
    store.readLine({ ...of, limit: Math.min(HEADS_PAGE, most), after }),
  )) {
    found += jobs.length;
    if (found >= most) break;
  }
  return found;
}

/** How long the jobs take that must start before there is room again. */
async function retryAfterOf(context: CountContext, bound: Bound, { untilMs }: Counted): Promise<number> {
  const { type, partition } = bound;
  const ids = [{ type: type.type, resourceId: '' }];
  const [learned] = await context.store.getEstimates({ partition, ids });
  const limits = limitsOf(context.configuration, { type: type.type });
  const slots = slotsOf(context.configuration, limits, bound);
  // Nothing starts until another declaration.
  if (slots === 0) return RETRY_AFTER_MAX_MS;
  const costMs = Math.max(
    expectedCostMs(undefined, learned, type.defaultCostMs) / slots,
    ...limits.map(({ rate }) => startEveryMs(rate)),
  );
  const countedAgainMs = untilMs - context.nowMs();
  return Math.ceil(Math.min(RETRY_AFTER_MAX_MS, Math.max(COUNT_KEPT_MS, costMs, countedAgainMs)));
}

/** How many jobs of the type, and of the key, may run at once by the declaration. A fleet of processes counts as one slot. */
function slotsOf(
  { fleets, tiers, maxConcurrency, fairness }: PoolConfiguration,
  limits: readonly LimitConfiguration[],
  bound: Bound,
): number {
  const { type, fairnessKey } = bound;
  const slots = fleets
    .filter(({ types }) => types.includes(type.type))
    .reduce((sum, fleet) => sum + (fleet.slots ?? 1), 0);
  const caps = [
    type.maxConcurrency,
    tiers.find(({ tier }) => tier === type.tier)?.maxConcurrency,
    maxConcurrency,
    ...limits.map(({ total }) => total),
    fairnessKey === undefined ? null : fairness.maxConcurrencyPerKey,
  ];
  return Math.min(slots, ...caps.map((cap) => cap ?? Infinity));
}

/** How often a rate lets a job start, if each job has the most units. */
function startEveryMs(rate: RateConfiguration | undefined): number {
  if (rate === undefined) return 0;
  const { starts, units = null, perJob = 1, perMs } = rate;
  return (perMs * perJob) / (starts ?? units ?? Infinity);
}

/** A refusal in words. */
export function fullText({
  job: { type },
  fairnessKey,
  waiting,
  maxWaiting,
  retryAfterMs,
}: BacklogFull): string {
  const [bound, of] =
    fairnessKey === undefined
      ? ['maxWaiting', '']
      : ['maxWaitingPerKey', ` with the fairness key ${JSON.stringify(fairnessKey)}`];
  return `${waiting} jobs of type ${JSON.stringify(type)}${of} wait, and ${bound} is ${maxWaiting}; by an estimate there is room in ${Math.ceil(retryAfterMs / 1_000)} s, so submit it again then`;
}
