/**
 * Moves capacity between partitions: slots and shares of caps, never jobs. The close step calls it.
 *
 * A partition that needs capacity asks some other partitions (`askForLoan`, a hint) and wakes them. A partition with free
 * capacity that it does not need lends it: one commit, on condition of the lender's version, writes the loan to both partitions.
 * The borrower uses the loan until it ends, and returns what is free by one commit, on condition of its own version. So only the
 * partition that has capacity gives it away, and each loan is used by one partition at most. A loan that arrives during a pass is
 * not counted by that pass, which does no harm. `test/protocol/loan_model.py` explores every interleaving.
 */
import { isClosed } from '../../core/capacity.ts';
import type { LendingConfiguration, PoolConfiguration } from '../../core/configuration.ts';
import { conflictKeyFor, fullConflicts, typesByName } from '../../core/conflict.ts';
import { LENDING_DEFAULTS } from '../../core/defaults.ts';
import { nonceFrom, type ReservedJob } from '../../core/job.ts';
import {
  type Demand,
  fleetScope,
  type LoanBalance,
  type LoanRequest,
  loanBalance,
  NO_LOANS,
  planLoans,
  planReturns,
  type Return,
  type Room,
  type RoomOfWorker,
  type Rooms,
  splitIntoRequests,
  type Want,
  wantsOf,
  workerScope,
} from '../../core/lending.ts';
import { dividedCaps, shareOfCap, shareOfDivision } from '../../core/partition.ts';
import { lentScopesOf, printScope, scopesOfType } from '../../core/scope.ts';
import { WANTS_BYTES_MAX } from '../../store/contract/bounds.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { PartitionState } from '../../store/contract/records.ts';
import { tierOf } from '../../submit/submit.ts';
import { type Commits, EMPTY_COMMIT } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { wakeLater } from '../partition/timers.ts';
import { ASK_EVERY_MS, ASKED_MAX, BESIDE_MAX, PAGE_MAX } from '../tuning.ts';

const lendingOf = ({ configuration }: DispatchContext): LendingConfiguration =>
  configuration.lending ?? LENDING_DEFAULTS;

/**
 * Returns a function from a scope to the units that loans have moved to a partition, less those that they have moved
 * away from it.
 */
export const loansOf = (
  { partitions }: PoolConfiguration,
  state: Pick<PartitionState, 'loans'>,
  partition: number,
  nowMs: number,
): LoanBalance => (partitions === 1 ? NO_LOANS : loanBalance(state.loans, partition, nowMs));

/** Slots that a fleet's live workers have registered in a partition, including the effect of loans. */
export function slotsOfWorkers(
  state: Pick<PartitionState, 'workers'>,
  fleet: string,
  moved: LoanBalance,
): { readonly slots: number; readonly workers: readonly RoomOfWorker[] } {
  const workers = state.workers
    .filter((worker) => worker.fleet === fleet)
    .map(({ workerId, incarnation, slots, isEnding = false }) => ({
      workerId,
      incarnation,
      slots: isEnding ? slots : Math.max(0, slots + moved(workerScope(workerId), incarnation)),
      isEnding,
    }));
  return {
    slots: workers.reduce((total, { slots }) => total + slots, 0),
    workers: workers.filter(({ isEnding }) => !isEnding),
  };
}

/** Returns how many of these jobs hold each scope. */
function holdsOf(
  configuration: Pick<PoolConfiguration, 'types'>,
  held: readonly ReservedJob[],
): ReadonlyMap<string, number> {
  const holds = new Map<string, number>();
  for (const entry of held)
    for (const scope of lentScopesOf(configuration, entry)) holds.set(scope, (holds.get(scope) ?? 0) + 1);
  return holds;
}

export function roomsOf(
  { configuration }: Pick<DispatchContext, 'configuration'>,
  state: Pick<PartitionState, 'controls' | 'workers'>,
  partition: number,
  held: readonly ReservedJob[],
  moved: LoanBalance,
): Rooms {
  const holds = holdsOf(configuration, held);
  const rooms = new Map<string, Room>();
  for (const cap of dividedCaps(configuration, state.controls)) {
    const capacity = shareOfCap(cap, partition, configuration.partitions, moved);
    rooms.set(cap.scope, { capacity, held: holds.get(cap.scope) ?? 0, under: cap.under });
  }
  for (const { fleet, slots } of configuration.fleets) {
    if (slots !== null) continue;
    const registered = slotsOfWorkers(state, fleet, moved);
    const scope = fleetScope(fleet);
    rooms.set(scope, {
      capacity: registered.slots,
      held: holds.get(scope) ?? 0,
      under: undefined,
      workers: registered.workers,
    });
  }
  return rooms;
}

/** Waiting jobs that more capacity would start. */
function demandsOf(
  context: DispatchContext,
  state: PartitionState,
  waiting: readonly JobHead[],
  held: readonly ReservedJob[],
): readonly Demand[] {
  const { configuration } = context;
  // No partition can lend in a scope that is paused or has no capacity in the whole pool.
  const closed = new Set([
    ...state.controls.filter(isClosed).map(({ scope }) => scope),
    ...dividedCaps(configuration, state.controls).flatMap(({ scope, cap }) => (cap === 0 ? [scope] : [])),
    ...configuration.fleets.flatMap(({ fleet, slots }) =>
      slots === null && !state.workers.some((worker) => worker.fleet === fleet) ? [fleetScope(fleet)] : [],
    ),
  ]);
  const types = typesByName(configuration);
  const full = fullConflicts(types, held);
  // A fairness key belongs to one partition, which has its whole cap, so a loan cannot raise it.
  const keyCaps = new Map(state.controls.map(({ scope, maxConcurrency }) => [scope, maxConcurrency]));
  const ofKey = new Map<string, number>();
  for (const { fairnessKey } of held) ofKey.set(fairnessKey, (ofKey.get(fairnessKey) ?? 0) + 1);
  const lendsNothing = (...scopes: readonly string[]): boolean => scopes.some((scope) => closed.has(scope));
  const demands = new Map<string, Demand | undefined>();
  const ofType = (type: string): Demand | undefined => {
    const tier = tierOf(configuration, type);
    const scopes = scopesOfType(configuration, tier, type);
    if (lendsNothing(...scopes)) return undefined;
    const fleets = configuration.fleets
      .filter((each) => each.types.includes(type) && !lendsNothing(fleetScope(each.fleet)))
      .map(({ fleet }) => fleet);
    return fleets.length === 0 ? undefined : { scopes, fleets };
  };
  return waiting.flatMap((job) => {
    if (!demands.has(job.type)) demands.set(job.type, ofType(job.type));
    const conflictKey = conflictKeyFor(types.get(job.type), job.resourceId);
    if (conflictKey !== undefined && full.has(conflictKey)) return [];
    const keyScope = printScope({ fairnessKey: job.fairnessKey });
    const cap = keyCaps.get(keyScope) ?? configuration.fairness.maxConcurrencyPerKey;
    if (cap !== null && (ofKey.get(job.fairnessKey) ?? 0) >= cap) return [];
    return lendsNothing(keyScope) ? [] : (demands.get(job.type) ?? []);
  });
}

export interface LoansInput {
  readonly state: PartitionState;
  /** Jobs that hold capacity after this pass. */
  readonly held: readonly ReservedJob[];
  /** Jobs that are known to wait. */
  readonly waiting: () => readonly JobHead[];
  /** Whether the pass has started all that it could, so no waiting job needs the free capacity. */
  readonly isOver: boolean;
  /** When this process last asked for capacity for this partition, epoch ms. */
  readonly askedAtMs: number | undefined;
  readonly nowMs: number;
  /** See `PassInput.inBackground`. */
  readonly inBackground: (work: Promise<unknown>) => void;
}

/**
 * At the end of a pass: returns or lends free capacity, and asks for missing capacity. Returns when this process last asked.
 *
 * @throws CommitLostError if another commit came first
 */
export async function moveCapacity(
  context: DispatchContext,
  partition: number,
  commits: Commits,
  input: LoansInput,
): Promise<number | undefined> {
  const { log } = context;
  const { state, held, nowMs, isOver } = input;
  const askedLately = input.askedAtMs !== undefined && nowMs - input.askedAtMs < ASK_EVERY_MS;
  const rooms = roomsOf(context, state, partition, held, loanBalance(state.loans, partition, nowMs));
  // The only partition, or one that a redeploy has removed, neither lends nor asks.
  const { partitions } = context.configuration;
  const shares = partitions > 1 && partition < partitions;
  const requests = state.requests.filter((request) => request.partition < partitions);
  const wants =
    shares && isOver && !askedLately ? await missingCapacity(context, input, partition, rooms) : [];
  const giveBack = loansToReturn(context, input, partition);
  // The nonce keeps ids unique in a restored table, where versions repeat.
  const nonce = nonceFrom(context.random);
  // Capacity that this commit returns is free, but belongs to its lender, so this partition must not lend it.
  const lend =
    shares && isOver && giveBack.length === 0 && requests.length > 0
      ? planLoans(
          {
            partition,
            rooms,
            requests,
            loanId: (number) => `${partition}-${commits.version}-${nonce}-${number}`,
          },
          lendingOf(context),
          nowMs,
        ).slice(0, BESIDE_MAX)
      : [];
  if (giveBack.length + lend.length > 0) {
    await commits.write({ ...EMPTY_COMMIT, lend, giveBack });
    log.info('capacity was moved', { partition, lend, giveBack });
    const others = new Set([...lend.map(({ to }) => to), ...giveBack.map(({ loan }) => loan.from)]);
    for (const other of others) input.inBackground(wakeLater(context, other, 0));
  }
  if (wants.length === 0) return input.askedAtMs;
  // planted: never-asks
  input.inBackground(
    askForCapacity(context, { partition, wants, askedAtMs: nowMs, untilMs: nowMs + 5 * ASK_EVERY_MS }),
  );
  return nowMs;
}

async function missingCapacity(
  context: DispatchContext,
  { state, held, waiting }: LoansInput,
  partition: number,
  rooms: Rooms,
): Promise<readonly Want[]> {
  const full = [...rooms.values()].filter((room) => room.held >= room.capacity);
  if (full.length === 0) return [];
  const known = waiting();
  // In a scope without any capacity, no job ends and causes a pass that reads lines, so lines are read here.
  const isShut = known.length === 0 && full.some(({ capacity }) => capacity === 0);
  const jobs = isShut ? await readWaiting(context, partition) : known;
  const ids = new Set(held.map(({ id }) => id));
  const waits = jobs.filter(({ id }) => !ids.has(id));
  const borrowed = state.loans.filter(({ to }) => to === partition);
  const units = borrowed.reduce((total, loan) => total + loan.units, 0);
  return wantsOf(demandsOf(context, state, waits, held), rooms, units, lendingOf(context));
}

/**
 * Returns the loans to give back: those that have expired, and those that no waiting job needs, as far as no job runs
 * on them.
 */
function loansToReturn(
  context: DispatchContext,
  { state, held, nowMs, isOver }: LoansInput,
  partition: number,
): readonly Return[] {
  const ending = state.loans.filter(
    ({ to, expiresAtMs }) => to === partition && (isOver || expiresAtMs <= nowMs),
  );
  if (ending.length === 0) return [];
  const moved = loanBalance(state.loans, partition, Number.NEGATIVE_INFINITY);
  const rooms = roomsOf(context, state, partition, held, moved);
  const holds = holdsOf(context.configuration, held);
  return planReturns(ending, ({ scope, under, fleet }, { units }) => {
    if (fleet === undefined) {
      const capacity = shareOfDivision(under, partition) + moved(scope, under);
      return { of: JSON.stringify([scope, under]), units: capacity - (holds.get(scope) ?? 0) };
    }
    const of = fleetScope(fleet);
    const { capacity = 0, workers = [] } = rooms.get(of) ?? {};
    const counts = workers.some(
      ({ workerId, incarnation }) => workerScope(workerId) === scope && incarnation === under,
    );
    return { of, units: capacity + (counts ? 0 : units) - (holds.get(of) ?? 0) };
  }).slice(0, BESIDE_MAX);
}

/** Reads some waiting jobs of any key. Each call reads other lines, because most lines may be empty. */
async function readWaiting(context: DispatchContext, partition: number): Promise<readonly JobHead[]> {
  const { store, configuration, random } = context;
  const { backlogThreshold } = lendingOf(context);
  const heads = await Promise.all(
    configuration.types.map(async ({ type }) => {
      const { keys } = await store.readKeys({ partition, type, limit: PAGE_MAX });
      const lines = keys.flatMap(({ fairnessKey, lines }) =>
        lines.map((line) => ({ ...line, type, fairnessKey })),
      );
      const first = Math.floor(random() * lines.length);
      const read = [...lines.slice(first), ...lines.slice(0, first)]
        .slice(0, BESIDE_MAX)
        .map((line) => store.readLine({ partition, line, limit: backlogThreshold }));
      return (await Promise.all(read)).flatMap(({ jobs }) => jobs);
    }),
  );
  return heads.flat().filter(({ state }) => state === 'pending');
}

/**
 * Asks some of the other partitions for a loan. Each time it asks other partitions, and sends another part of the wants if one
 * request cannot hold all. A later pass repeats a lost request.
 */
async function askForCapacity(context: DispatchContext, asks: LoanRequest): Promise<void> {
  const { store, configuration, log, random } = context;
  const others = configuration.partitions - 1;
  const first = Math.floor(asks.askedAtMs / ASK_EVERY_MS);
  const requests = splitIntoRequests(asks.wants, WANTS_BYTES_MAX);
  // The part is chosen at random, because passes may be as regular as ticks, and a part chosen by time might then always be the
  // same.
  const at = requests.length === 1 ? 0 : Math.floor(random() * requests.length);
  const request = { ...asks, wants: requests[at] ?? [] };
  const asked = Array.from(
    { length: Math.min(ASKED_MAX, others) },
    (_, at) => (request.partition + 1 + ((first * ASKED_MAX + at) % others)) % configuration.partitions,
  );
  await Promise.all(
    asked.map(async (partition) => {
      try {
        await store.askForLoan({ partition, request });
        await wakeLater(context, partition, 0);
      } catch (error) {
        log.warn('capacity could not be asked for; a later pass asks again', {
          partition,
          error: String(error),
        });
      }
    }),
  );
}
