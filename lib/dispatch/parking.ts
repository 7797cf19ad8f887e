/**
 * Parking: of many jobs that wait for one conflict key, a few stay in their ready lines and the others stand in the
 * key's blocked line, so that a pass does not meet them again and again before it comes to those behind them.
 *
 * Why none is lost. A marker in the page names each conflict key that may have a blocked line, before any job is parked
 * there. Parking is fenced by the epoch, so it never comes after somebody else took the marker away. The marker goes
 * only when the line was found empty long after the last parking. A parked job is pending as before, at the same
 * version: when its conflict key is free, the first of the line are candidates, and a claim wins them where they stand.
 */
import { conflictPrefix } from '../core/conflict.ts';
import type { ReservedJob, WaitingJob } from '../core/job.ts';
import type { Planner } from '../core/planner.ts';
import type { Commit, JobHead } from '../store/contract.ts';
import type { ReadyLine } from '../store/schema.ts';
import type { DispatchContext } from './context.ts';
import type { HeldLease } from './lease.ts';
import { lookAtLocks, needsLocks } from './locks.ts';

/** Jobs of a free conflict key and a type read from its blocked line: the first is what runs, the others may be outdated. */
const HEADS = 4;
/** Read at once of what stands behind them, */
const BEHIND_PAGE = 100;
/** and by one pass in all. */
const BEHIND_MAX = 1_000;
/** Blocked lines read in one pass. */
const LINES_MAX = 16;
/** The index shows a parked job within this, by far. */
const EMPTY_AFTER_MS = 60_000;
/** A marker is renewed when it is older and another job is parked. */
const RENEW_AFTER_MS = 20_000;

export interface Unparked {
  readonly heads: readonly JobHead[];
  /** Conflict keys whose lines are empty for good. */
  readonly empty: readonly string[];
  /** More lines may have jobs whose conflict key is free. */
  readonly more: boolean;
  /** When another partition's turn with one of them ends; undefined: none has one. */
  readonly openAtMs?: number | undefined;
  /** Where blocked lines go on behind what was read of them. */
  readonly rest: readonly Rest[];
}

/** Jobs of one type in a blocked line, behind some that were read. */
interface Rest {
  readonly conflictKey: string;
  readonly of: Pick<ReadyLine, 'tier' | 'type'>;
  readonly after: string;
}

/** The first jobs of the blocked lines of conflict keys that nothing holds. */
export async function readParked(
  context: DispatchContext,
  partition: number,
  parked: ReadonlyMap<string, number>,
  inFlight: readonly ReservedJob[],
  nowMs: number,
): Promise<Unparked> {
  if (parked.size === 0) return { heads: [], empty: [], more: false, rest: [] };
  const held = new Set(inFlight.map(({ conflictKey }) => conflictKey));
  const free = [...parked].filter(([conflictKey]) => !held.has(conflictKey));
  // From a random one on: no line waits for the others.
  const start = Math.floor(context.random() * free.length);
  const chosen = [...free.slice(start), ...free.slice(0, start)].slice(0, LINES_MAX);
  // A marker outlives its jobs.
  const hasJobs = async (conflictKey: string): Promise<boolean> =>
    (await context.store.readBlocked(partition, conflictKey, 1)).jobs.length > 0;
  const { taken, openAtMs } = needsLocks(context)
    ? await lookAtLocks(
        context,
        partition,
        chosen.map(([conflictKey]) => conflictKey),
        hasJobs,
      )
    : { taken: new Set(), openAtMs: undefined };
  const open = chosen.filter(([conflictKey]) => !taken.has(conflictKey));
  const lines = await Promise.all(
    open.map(async ([conflictKey, parkedAtMs]) => {
      // Each type has its own limits: none stands behind another one.
      const ofTypes = await Promise.all(
        typesOf(context, conflictKey).map(async (of) => ({
          of,
          ...(await context.store.readBlocked(partition, conflictKey, HEADS, of)),
        })),
      );
      const isEmpty = ofTypes.every(({ jobs }) => jobs.length === 0);
      // Jobs of a type that is gone may come back with it.
      const isOver = isEmpty && nowMs - parkedAtMs > EMPTY_AFTER_MS && !(await hasJobs(conflictKey));
      return { conflictKey, ofTypes, isOver };
    }),
  );
  return {
    heads: lines.flatMap(({ ofTypes }) => ofTypes.flatMap(({ jobs }) => jobs)),
    empty: lines.flatMap(({ conflictKey, isOver }) => (isOver ? [conflictKey] : [])),
    more: free.length > chosen.length,
    openAtMs,
    rest: lines.flatMap(({ conflictKey, ofTypes }) =>
      ofTypes.flatMap(({ of, next }) => (next === undefined ? [] : [{ conflictKey, of, after: next }])),
    ),
  };
}

/** The types whose jobs have this conflict key. */
function typesOf(
  { configuration }: DispatchContext,
  conflictKey: string,
): readonly Pick<ReadyLine, 'tier' | 'type'>[] {
  return configuration.types.filter(({ conflictGroup }) => {
    const prefix = conflictPrefix(conflictGroup);
    return prefix !== undefined && conflictKey.startsWith(prefix);
  });
}

/**
 * Reads on in blocked lines whose first jobs of a type cannot start though their conflict key and their type are free: their
 * fairness keys are at their caps, or paused, and must not hold up those behind them.
 */
export class ParkedBehind {
  readonly #context: DispatchContext;
  readonly #partition: number;
  #rest: readonly Rest[];
  #left = BEHIND_MAX;
  /** What was read. */
  readonly heads: JobHead[] = [];

  constructor(context: DispatchContext, partition: number, { rest }: Pick<Unparked, 'rest'>) {
    this.#context = context;
    this.#partition = partition;
    this.#rest = rest;
  }

  /** Some more jobs that might start; none when there are no more, or enough were read. */
  async read(planner: Planner): Promise<readonly JobHead[]> {
    const mayStart = ({ conflictKey, of }: Rest): boolean =>
      this.#left > 0 && !planner.isConflictHeld(conflictKey) && planner.isOpen(of.type);
    const next = this.#rest.find(mayStart);
    if (next === undefined) return [];
    const { conflictKey, of, after } = next;
    const { store } = this.#context;
    const page = await store.readBlocked(this.#partition, conflictKey, BEHIND_PAGE, of, after);
    this.#left -= page.jobs.length;
    this.heads.push(...page.jobs);
    this.#rest = this.#rest.flatMap((each) => {
      if (each !== next) return [each];
      return page.next === undefined ? [] : [{ ...each, after: page.next }];
    });
    return page.jobs.length > 0 ? page.jobs : this.read(planner);
  }
}

/** What a pass met that is blocked, and is to be parked: by conflict key. */
export function toPark(
  blocked: readonly { readonly job: WaitingJob; readonly conflictKey: string }[],
  known: ReadonlySet<string>,
  kept: number,
): ReadonlyMap<string, readonly WaitingJob[]> {
  const waiting = blocked.filter(({ job }) => !known.has(job.id));
  const groups = [...Map.groupBy(waiting, ({ conflictKey }) => conflictKey)].flatMap(
    ([conflictKey, group]) => {
      const rest = group.slice(kept).map(({ job }) => job);
      // A few more than are kept are not worth their writes.
      return rest.length > kept ? [[conflictKey, rest] as const] : [];
    },
  );
  return new Map(groups);
}

/** What was parked, and the partition's turn after it. */
export type Parked =
  | { readonly kind: 'parked'; readonly jobs: readonly JobHead[]; readonly turn: number }
  | { readonly kind: 'lost' };

/** Parks them. Answers those that stand in their blocked lines now. */
export async function park(
  context: DispatchContext,
  lease: HeldLease,
  groups: ReadonlyMap<string, readonly JobHead[]>,
  state: {
    readonly parked: ReadonlyMap<string, number>;
    readonly leastShareMs: number;
    readonly turn: number;
  },
): Promise<Parked> {
  const { store, clock } = context;
  const nowMs = clock.nowMs();
  const stale = [...groups.keys()].filter(
    (conflictKey) => nowMs - (state.parked.get(conflictKey) ?? -Infinity) > RENEW_AFTER_MS,
  );
  if (stale.length > 0) {
    const marker: Commit = {
      turn: state.turn,
      drop: [],
      postpone: [],
      ledgers: [],
      estimates: [],
      reserve: [],
      leastShareMs: state.leastShareMs,
      park: new Map(stale.map((conflictKey) => [conflictKey, nowMs])),
    };
    if ((await store.commit(lease.fence, marker)) === 'lost') return { kind: 'lost' };
  }
  const moved: JobHead[] = [];
  for (const [conflictKey, jobs] of groups) {
    const outcomes = await store.park(lease.fence, jobs, conflictKey);
    if (outcomes === 'lost') return { kind: 'lost' };
    moved.push(...jobs.filter((_, at) => outcomes[at] === 'applied'));
  }
  return { kind: 'parked', jobs: moved, turn: state.turn + (stale.length > 0 ? 1 : 0) };
}
