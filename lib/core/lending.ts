/**
 * Decides which partition lends capacity to which other, and how much. A partition with more work than room asks for a
 * loan. A partition with free room lends for a time, and gets unused capacity back. Source: workload-distribution,
 * "Work Stealing Implementation".
 */

import type { LendingConfiguration } from './configuration.ts';
import { printScope } from './scope.ts';

/** One scope whose capacity a loan moves. */
export interface LentScope {
  /**
   * `pool`, `tier/<tier>`, `type/<type>`, `fleet/<fleet>` for a fleet with declared slots, or `worker/<workerId>` for
   * one without.
   */
  readonly scope: string;
  /**
   * The divided cap or the worker incarnation that the capacity is part of. If it has changed meanwhile, the borrower
   * starts nothing with it, because shares of two different caps add up to neither.
   */
  readonly under: string;
  /** The fleet of the worker, if the scope is `worker/<workerId>`. Absent for all other scopes. */
  readonly fleet?: string | undefined;
}

/** Capacity that one partition gives to another for a time: `units` of each of these scopes. */
export interface Loan {
  readonly loanId: string;
  readonly from: number;
  readonly to: number;
  readonly units: number;
  readonly scopes: readonly LentScope[];
  /**
   * After this instant the borrower starts nothing with the loan. It returns the free units, and the others as they
   * become free.
   */
  readonly expiresAtMs: number;
}

/** Capacity that a partition lacks to start waiting jobs. */
export interface Want {
  readonly units: number;
  /** The scopes that are full. Each of the jobs needs a unit of each. */
  readonly scopes: readonly string[];
  /** The fleets that are full. Each of the jobs needs a slot of one of them. Empty: their fleets have free slots. */
  readonly fleets: readonly string[];
}

export interface LoanRequest {
  /** The partition that asks. */
  readonly partition: number;
  readonly wants: readonly Want[];
  readonly askedAtMs: number;
  /** The request is not granted after this instant. */
  readonly untilMs: number;
}

/** A partition's capacity in one scope. */
export interface Room {
  /** The units that the partition may use, including loans. */
  readonly capacity: number;
  /** How many of these units jobs hold. */
  readonly held: number;
  /** See `LentScope`; undefined for a fleet whose workers register their slots. */
  readonly under: string | undefined;
  /** If workers register the slots of the fleet: these workers, each with its slots in this partition. */
  readonly workers?: readonly RoomOfWorker[] | undefined;
}

export interface RoomOfWorker {
  readonly workerId: string;
  readonly incarnation: string;
  readonly slots: number;
}

/** A partition's capacity by scope. A scope without a bound is absent. */
export type Rooms = ReadonlyMap<string, Room>;

/** A waiting job, with the scopes that limit it. */
export interface Demand {
  readonly scopes: readonly string[];
  /** The fleets that run the job's type. */
  readonly fleets: readonly string[];
}

export const workerScope = (workerId: string): string => `worker/${workerId}`;
export const fleetScope = (fleet: string): string => printScope({ fleet });

/** The units of a scope that loans add to a partition's own share; negative for a lender. */
export type LoanBalance = (scope: string, under: string) => number;
export const NO_LOANS: LoanBalance = () => 0;

/**
 * Sums the units that loans move to and from a partition. An expired loan no longer counts for the borrower, and counts
 * for the lender only once it is returned. So the two never use the same units at once.
 */
export function loanBalance(loans: readonly Loan[], partition: number, nowMs: number): LoanBalance {
  if (loans.length === 0) return NO_LOANS;
  return (scope, under) => {
    let moved = 0;
    for (const loan of loans) {
      const lent = loan.scopes.find((each) => each.scope === scope);
      if (lent === undefined) continue;
      const isSame = lent.under === under;
      if (loan.to === partition && isSame && loan.expiresAtMs > nowMs) moved += loan.units;
      // A worker's former incarnation has no slots left to subtract. A changed cap still counts, because the borrower
      // may not know of the change yet.
      if (loan.from === partition && (isSame || lent.fleet === undefined)) moved -= loan.units;
    }
    return moved;
  };
}

/**
 * Returns the capacity that would let more of the waiting jobs start, grouped by jobs that lack the same scopes. Jobs
 * that wait for another reason, such as a conflict, must not be among `waiting`, because a loan does not help them.
 */
export function wantsOf(
  waiting: readonly Demand[],
  rooms: Rooms,
  borrowed: number,
  policy: LendingConfiguration,
): readonly Want[] {
  const isFull = (scope: string): boolean => {
    const room = rooms.get(scope);
    return room !== undefined && room.held >= room.capacity;
  };
  // Whether a scope is full although no job runs in it, so that no job's end can make room.
  const isHopeless = (scope: string): boolean => isFull(scope) && rooms.get(scope)?.held === 0;
  const wantsByLack = new Map<string, Want>();
  for (const { scopes, fleets } of waiting) {
    const fullScopes = scopes.filter(isFull);
    const fullFleets = fleets.every((fleet) => isFull(fleetScope(fleet))) ? fleets : [];
    if (fullScopes.length + fullFleets.length === 0) continue;
    const name = JSON.stringify([fullScopes, fullFleets]);
    wantsByLack.set(name, {
      units: (wantsByLack.get(name)?.units ?? 0) + 1,
      scopes: fullScopes,
      fleets: fullFleets,
    });
  }
  let left = policy.maxBorrowed - borrowed;
  const wants: Want[] = [];
  for (const want of wantsByLack.values()) {
    const units = Math.min(want.units, policy.batch, left);
    const isUrgent = [...want.scopes, ...want.fleets.map(fleetScope)].some(isHopeless);
    if (units < 1 || (want.units < policy.backlogThreshold && !isUrgent)) continue;
    left -= units;
    wants.push({ ...want, units });
  }
  return wants;
}

/** The fleets named in each part of a divided want. Their names take far less space than a request has. */
const FLEETS_OF_WANT = 20;

const bytesOf = ({ units, scopes, fleets }: Want): number =>
  new TextEncoder().encode(JSON.stringify([units, scopes, fleets])).byteLength + 1;

/**
 * Splits wants into requests of at most `bytesMax`, mostly one. A slot of any of its fleets serves a want, so a want
 * with very many fleets is divided into several wants with some of the fleets each.
 */
export function splitIntoRequests(wants: readonly Want[], bytesMax: number): readonly (readonly Want[])[] {
  const sizes = (of: readonly Want[]): number => of.reduce((sum, want) => sum + bytesOf(want), 1);
  if (sizes(wants) <= bytesMax) return [wants];
  const divided = wants.flatMap((want) => {
    if (want.fleets.length <= FLEETS_OF_WANT) return want;
    const count = Math.ceil(want.fleets.length / FLEETS_OF_WANT);
    return Array.from({ length: count }, (_, at) => ({
      ...want,
      fleets: want.fleets.slice(at * FLEETS_OF_WANT, (at + 1) * FLEETS_OF_WANT),
    }));
  });
  const requests: Want[][] = [];
  let left = 0;
  for (const want of divided) {
    const bytes = bytesOf(want);
    const last = requests.at(-1);
    if (last === undefined || bytes > left) {
      requests.push([want]);
      left = bytesMax - 1 - bytes;
    } else {
      last.push(want);
      left -= bytes;
    }
  }
  return requests;
}

/**
 * Returns the loans that a partition makes now from its free capacity: at most a share of it to one borrower at once,
 * so that some is left for its own jobs. Scopes that are full here have nothing to lend. The borrower that wants the
 * most units is served first.
 *
 * @param loanId - returns the id of the loan with this number; the first is 0
 */
export function planLoans(
  lender: {
    readonly partition: number;
    readonly rooms: Rooms;
    readonly requests: readonly LoanRequest[];
    readonly loanId: (number: number) => string;
  },
  policy: LendingConfiguration,
  nowMs: number,
): readonly Loan[] {
  const { partition, rooms } = lender;
  const lent = new Map<string, number>();
  const spareOf = (scope: string): number => {
    const { capacity, held } = rooms.get(scope) ?? { capacity: 0, held: 0 };
    return Math.max(0, capacity - held - (lent.get(scope) ?? 0));
  };
  const neediest = lender.requests
    .filter(({ untilMs, partition: borrower }) => untilMs > nowMs && borrower !== partition)
    .flatMap((request) => request.wants.map((want) => ({ ...want, to: request.partition })))
    .sort((one, other) => other.units - one.units || one.to - other.to);
  const loans: Loan[] = [];
  for (const { to, units: wantedUnits, scopes, fleets } of neediest) {
    const [fleet] = fleets.toSorted((one, other) => spareOf(fleetScope(other)) - spareOf(fleetScope(one)));
    const parts = [
      ...scopes.flatMap((scope) => capPart(scope, rooms.get(scope))),
      ...(fleet === undefined ? [] : fleetPart(fleet, rooms.get(fleetScope(fleet)), lent)),
    ];
    const spare = Math.min(...parts.map(({ room }) => Math.ceil(spareOf(room) * policy.lentShare)));
    const units = Math.min(wantedUnits, policy.batch, spare, ...parts.map(({ most }) => most));
    if (units < 1 || parts.length === 0) continue;
    for (const { room, lentScope } of parts) {
      for (const scope of new Set([room, lentScope.scope])) lent.set(scope, (lent.get(scope) ?? 0) + units);
    }
    loans.push({
      loanId: lender.loanId(loans.length),
      from: partition,
      to,
      units,
      scopes: parts.map(({ lentScope }) => lentScope),
      expiresAtMs: nowMs + policy.loanMs,
    });
  }
  return loans;
}

/** One scope of a planned loan, the room that it is taken from, and the most units that can be taken. */
interface Part {
  readonly lentScope: LentScope;
  readonly room: string;
  readonly most: number;
}

/**
 * Returns the part of a loan that a cap gives. Empty: the scope has no limit in this partition, so there is nothing to
 * move.
 */
const capPart = (scope: string, room: Room | undefined): readonly Part[] =>
  room?.under === undefined ? [] : [{ lentScope: { scope, under: room.under }, room: scope, most: Infinity }];

/** Returns the declared slots of a fleet, or the slots of the worker that has the most left to lend. */
function fleetPart(
  fleet: string,
  room: Room | undefined,
  lent: ReadonlyMap<string, number>,
): readonly Part[] {
  const scope = fleetScope(fleet);
  if (room?.under !== undefined) return capPart(scope, room);
  const left = (room?.workers ?? []).map(({ workerId, incarnation, slots }) => ({
    lentScope: { scope: workerScope(workerId), under: incarnation, fleet },
    room: scope,
    most: slots - (lent.get(workerScope(workerId)) ?? 0),
  }));
  const [most] = left.sort((one, other) => other.most - one.most);
  return most === undefined ? [{ lentScope: { scope, under: '' }, room: scope, most: 0 }] : [most];
}

/** A loan that is returned in full or in part. */
export interface Return {
  readonly loan: Loan;
  /** The units that the borrower keeps for now; 0: it returns all. */
  readonly left: number;
}

/** The free units of a borrower in one scope, including those of the loan itself. */
export interface Free {
  /** A name for these free units. Loans for whose scopes it is the same share them. */
  readonly of: string;
  readonly units: number;
}

/**
 * Returns the loans that a borrower gives back, in full or in part: the units that no job holds, from the loans that
 * expire first. A loan whose cap or worker has changed is treated alike, because jobs may have started with it.
 */
export function planReturns(
  loans: readonly Loan[],
  freeOf: (lent: LentScope, loan: Loan) => Free,
): readonly Return[] {
  const given = new Map<string, number>();
  const returns: Return[] = [];
  for (const loan of loans.toSorted((one, other) => one.expiresAtMs - other.expiresAtMs)) {
    const free = loan.scopes.map((lent) => freeOf(lent, loan));
    const units = Math.min(loan.units, ...free.map((each) => each.units - (given.get(each.of) ?? 0)));
    if (units < 1) continue;
    for (const { of } of free) given.set(of, (given.get(of) ?? 0) + units);
    returns.push({ loan, left: loan.units - units });
  }
  return returns;
}

/**
 * Splits a cap into whole shares for its partitions. The shares add up to the cap and differ by at most 1; the first
 * partitions get the remainder. Partitions that keep to their own shares never exceed the cap together, even if some of
 * them are stale.
 */
export function shareCap(cap: number, partitions: number): readonly number[] {
  const base = Math.floor(cap / partitions);
  const rest = cap - base * partitions;
  return Array.from({ length: partitions }, (_, partition) => base + (partition < rest ? 1 : 0));
}
