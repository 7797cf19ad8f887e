/**
 * Which partition lends capacity to which, and how much: decisions only. A partition with more work than room asks; one
 * with room to spare lends for a time, and gets back what is not used.
 * Source: workload-distribution, "Work Stealing Implementation".
 */

import type { LendingConfiguration } from './configuration.ts';
import { printScope } from './scope.ts';

/** Part of what a loan moves. */
export interface LentScope {
  /** `pool`, `tier/<tier>`, `type/<type>`, `fleet/<fleet>` with declared slots, `worker/<workerId>` of a fleet without. */
  readonly scope: string;
  /**
   * What it is a part of: the cap that was divided, or the worker's incarnation. Where that is another by now, the
   * borrower starts nothing with it: shares of two different caps do not add up to either.
   */
  readonly under: string;
  /** The worker's. */
  readonly fleet?: string | undefined;
}

/** Capacity that one partition leaves to another for a while: so many units of each of these scopes. */
export interface Loan {
  readonly loanId: string;
  readonly from: number;
  readonly to: number;
  readonly units: number;
  readonly scopes: readonly LentScope[];
  /** From then on the borrower starts nothing with it; it gives back what is free, and the rest as it becomes free. */
  readonly expiresAtMs: number;
}

/** What a partition lacks to start jobs that wait. */
export interface Want {
  readonly units: number;
  /** It needs a unit of each of these. */
  readonly scopes: readonly string[];
  /** And a slot of one of these; empty: there are slots. */
  readonly fleets: readonly string[];
}

export interface LoanRequest {
  /** Whose it is. */
  readonly partition: number;
  readonly wants: readonly Want[];
  readonly askedAtMs: number;
  /** Nobody grants it later. */
  readonly untilMs: number;
}

/** What a partition has of one scope. */
export interface Room {
  /** With loans. */
  readonly capacity: number;
  /** Of it, what jobs hold. */
  readonly held: number;
  /** See `LentScope`; undefined: of a fleet whose workers register their slots. */
  readonly under: string | undefined;
  /** Who they are, with the slots that each has here. */
  readonly workers?: readonly RoomOfWorker[] | undefined;
}

export interface RoomOfWorker {
  readonly workerId: string;
  readonly incarnation: string;
  readonly slots: number;
}

/** By scope; what nothing limits is not there. */
export type Rooms = ReadonlyMap<string, Room>;

/** A job that waits, with the scopes that limit it. */
export interface Demand {
  readonly scopes: readonly string[];
  /** Fleets that take its type. */
  readonly fleets: readonly string[];
}

export const workerScope = (workerId: string): string => `worker/${workerId}`;
export const fleetScope = (fleet: string): string => printScope({ fleet });

/** How much of a scope loans add to a partition's own share; negative for a lender. */
export type Moved = (scope: string, under: string) => number;
export const NOTHING_MOVED: Moved = () => 0;

/**
 * What loans move to a partition, and away from it. A loan that has ended is the borrower's no longer, and the lender's
 * not before it was given back: at no moment do both count on it.
 */
export function movedBy(loans: readonly Loan[], partition: number, nowMs: number): Moved {
  if (loans.length === 0) return NOTHING_MOVED;
  return (scope, under) => {
    let moved = 0;
    for (const loan of loans) {
      const lent = loan.scopes.find((each) => each.scope === scope);
      if (lent === undefined) continue;
      const isSame = lent.under === under;
      if (loan.to === partition && isSame && loan.expiresAtMs > nowMs) moved += loan.units;
      // A worker's former life has no slots. Of a cap that has changed, the borrower may not know yet.
      if (loan.from === partition && (isSame || lent.fleet === undefined)) moved -= loan.units;
    }
    return moved;
  };
}

/**
 * What would start more of the waiting jobs: the scopes that are full, by what jobs lack alike. What waits for something
 * else is not helped by a loan, and is not to be among them.
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
  // Where nothing runs, nothing that ends makes room.
  const isHopeless = (scope: string): boolean => isFull(scope) && rooms.get(scope)?.held === 0;
  const byLack = new Map<string, Want>();
  for (const { scopes, fleets } of waiting) {
    const full = scopes.filter(isFull);
    const lacking = fleets.every((fleet) => isFull(fleetScope(fleet))) ? fleets : [];
    if (full.length + lacking.length === 0) continue;
    const name = JSON.stringify([full, lacking]);
    byLack.set(name, { units: (byLack.get(name)?.units ?? 0) + 1, scopes: full, fleets: lacking });
  }
  let left = policy.maxBorrowed - borrowed;
  const wants: Want[] = [];
  for (const want of byLack.values()) {
    const units = Math.min(want.units, policy.batch, left);
    const isUrgent = [...want.scopes, ...want.fleets.map(fleetScope)].some(isHopeless);
    if (units < 1 || (want.units < policy.backlogThreshold && !isUrgent)) continue;
    left -= units;
    wants.push({ ...want, units });
  }
  return wants;
}

/** Of a want that is divided: fleets whose names take far less than a request may. */
const FLEETS_OF_WANT = 20;

const bytesOf = ({ units, scopes, fleets }: Want): number =>
  new TextEncoder().encode(JSON.stringify([units, scopes, fleets])).byteLength + 1;

/**
 * Wants in as many requests as their size takes, mostly one. A slot of any fleet serves a want, so one that names very many is
 * divided among several wants for some of them each.
 */
export function inRequests(wants: readonly Want[], bytesMax: number): readonly (readonly Want[])[] {
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
 * What a partition lends now, of what it has free: a share of it to one borrower at once, so that work of its own does not
 * find it empty. What it wants itself, it has not free (`wantsOf`). The neediest is served first.
 *
 * @param loanId - names the loan with this number: the first is 0
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

/** What stands in a loan, the room that it comes from, and how much of it there can be. */
interface Part {
  readonly lentScope: LentScope;
  readonly room: string;
  readonly most: number;
}

/** What limits nothing here cannot be moved from here. */
const capPart = (scope: string, room: Room | undefined): readonly Part[] =>
  room?.under === undefined ? [] : [{ lentScope: { scope, under: room.under }, room: scope, most: Infinity }];

/** Declared slots, or those of the worker that has most. */
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

/** A loan, or the rest of it, that goes back. */
export interface Return {
  readonly loan: Loan;
  /** What the borrower keeps for now; 0: nothing is left of it. */
  readonly left: number;
}

/** What a borrower has free of what a scope of a loan is a part of, the loan itself included. */
export interface Free {
  /** Loans whose scopes have the same name share what is free. */
  readonly of: string;
  readonly units: number;
}

/**
 * What a borrower gives back: of its loans what no job holds, those that end first at first. A loan that counts for
 * nothing any more, because its cap or its worker has changed, is given back no sooner: jobs may have started with it.
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
 * Shares of a cap for its partitions: whole numbers that add up to the cap, as even as they can be, the first ones
 * get the rest. Partitions with an own share never exceed the cap together, whoever is stale.
 */
export function shareCap(cap: number, partitions: number): readonly number[] {
  const base = Math.floor(cap / partitions);
  const rest = cap - base * partitions;
  return Array.from({ length: partitions }, (_, partition) => base + (partition < rest ? 1 : 0));
}
