/**
 * Time-limited ownership, its fencing token, and what an owner that leaves owes the others.
 * Source: workload-distribution, "Failure Handling", "Graceful Shutdown" and "Active Heartbeating".
 *
 * A lease is extended by each heartbeat to beat + length, and is over the moment `nowMs` reaches its end. Whoever
 * takes it next gets a greater token; a holder from before is refused by its token, however late it comes back.
 * Instants and durations are milliseconds.
 */
import { ownerOf, type Ring } from '../../core/ring.ts';
import { type HashRange, inRanges, without } from './ring-changes.ts';

/** One thing that can have one owner at a time. */
export interface Lease {
  /** Of the last owner; 0 before the first. It never falls. */
  readonly token: number;
  readonly holder: string | null;
  readonly endsAtMs: number;
  /** Once true, nobody may take it again. */
  readonly completed: boolean;
}

export const FREE_LEASE: Lease = { token: 0, holder: null, endsAtMs: -Infinity, completed: false };

/** What became of it: the lease afterwards, and whether the asker got what it wanted. */
export interface LeaseAnswer {
  readonly ok: boolean;
  readonly lease: Lease;
}

/** True from the very instant at which the lease ends. */
export function isExpired(lease: Pick<Lease, 'endsAtMs'>, nowMs: number): boolean {
  return nowMs >= lease.endsAtMs;
}

/** Takes a lease that is free or over: the token rises by one. */
export function takeLease(lease: Lease, node: string, nowMs: number, leaseMs: number): LeaseAnswer {
  if (lease.completed || (lease.holder !== null && !isExpired(lease, nowMs))) return { ok: false, lease };
  return {
    ok: true,
    lease: { token: lease.token + 1, holder: node, endsAtMs: nowMs + leaseMs, completed: false },
  };
}

/** Extends a lease that its holder still has. One that is over is not revived. */
export function beat(lease: Lease, node: string, token: number, nowMs: number, leaseMs: number): LeaseAnswer {
  if (!holds(lease, node, token, nowMs)) return { ok: false, lease };
  return { ok: true, lease: { ...lease, endsAtMs: nowMs + leaseMs } };
}

/** Ends the leased work, once, by the holder alone. */
export function complete(lease: Lease, node: string, token: number, nowMs: number): LeaseAnswer {
  if (!holds(lease, node, token, nowMs)) return { ok: false, lease };
  return { ok: true, lease: { ...lease, holder: null, completed: true } };
}

/** Takes the lease away from whoever has it. The token stays, so the former holder is refused. */
export function expire(lease: Lease): LeaseAnswer {
  return { ok: true, lease: { ...lease, holder: null, endsAtMs: -Infinity } };
}

/** True if this node is the holder, by its latest token, and the lease is not over. */
export function holds(lease: Lease, node: string, token: number, nowMs: number): boolean {
  return !lease.completed && lease.holder === node && lease.token === token && !isExpired(lease, nowMs);
}

/** The first of the scans at `firstScanMs`, then every `scanMs`, that is not before an instant. */
export function firstScanFrom(instantMs: number, firstScanMs: number, scanMs: number): number {
  return firstScanMs + Math.max(0, Math.ceil((instantMs - firstScanMs) / scanMs)) * scanMs;
}

/** A job as an owner looks for it ahead of its time. */
export interface DueJob {
  readonly id: string;
  readonly hash: number;
  readonly dueMs: number;
  readonly state: string;
}

/**
 * What an owner of these ranges takes into its view now: ready jobs of its ranges that are due up to and including
 * the horizon, overdue ones too; soonest first, then by id.
 */
export function dueWindow<Due extends DueJob>(
  jobs: readonly Due[],
  ranges: readonly HashRange[],
  nowMs: number,
  horizonMs: number,
): readonly Due[] {
  return jobs
    .filter((job) => job.state === 'ready' && job.dueMs <= nowMs + horizonMs && inRanges(ranges, job.hash))
    .sort((one, other) => one.dueMs - other.dueMs || (one.id < other.id ? -1 : 1));
}

/** How a member goes: it says goodbye, or it is missed when its membership lease ends. */
export type LeaveWay = 'handover' | 'crash';

export interface Leave {
  readonly way: LeaveWay;
  readonly leaver: string;
  readonly atMs: number;
  readonly scanMs: number;
  /** How long the others take a silent member for alive. */
  readonly memberLeaseMs: number;
}

/** Who starts a job, and between which instants. */
export interface StartBounds {
  readonly owner: string | undefined;
  readonly startNotBeforeMs: number;
  readonly startNotAfterMs: number;
}

/**
 * Who starts a job that is due around the time a member leaves. Before that its ring decides; from then on the ring
 * without it. After a crash nobody has the leaver's ranges until its membership lease is over, so what is due there
 * in between starts with the first scan after that; a hand-over leaves no such gap.
 */
export function startBounds(ring: Ring, leave: Leave, hash: number, dueMs: number): StartBounds {
  const before = ownerOf(ring, hash);
  if (dueMs < leave.atMs || before !== leave.leaver) return bounds(before, dueMs, dueMs, leave.scanMs);
  const heir = ownerOf(without(ring, new Set([leave.leaver])), hash);
  const ownedFromMs = leave.way === 'crash' ? leave.atMs + leave.memberLeaseMs : leave.atMs;
  return bounds(heir, dueMs, Math.max(dueMs, ownedFromMs), leave.scanMs);
}

function bounds(owner: string | undefined, dueMs: number, fromMs: number, scanMs: number): StartBounds {
  return { owner, startNotBeforeMs: dueMs, startNotAfterMs: fromMs + scanMs };
}
