/**
 * Leases with fencing tokens, and what happens when a member leaves.
 * Source: workload-distribution, "Failure Handling", "Graceful Shutdown" and "Active Heartbeating".
 *
 * Each heartbeat extends a lease to the heartbeat's instant plus the lease's length. The lease ends when `nowMs`
 * reaches that instant. The next holder gets a greater token, so a former holder is refused by its token however late
 * it returns. Instants and durations are milliseconds.
 */
import { ownerOf, type Ring } from '../../core/ring.ts';
import { type HashRange, inRanges, without } from './ring-changes.ts';

/** The lease of something that has at most one owner at a time. */
export interface Lease {
  /** Token of the last holder; 0 before the first. It never decreases. */
  readonly token: number;
  readonly holder: string | null;
  readonly endsAtMs: number;
  /** True once the work was completed. The lease cannot be taken again. */
  readonly completed: boolean;
}

export const FREE_LEASE: Lease = { token: 0, holder: null, endsAtMs: -Infinity, completed: false };

/** The lease after a request, and whether the request succeeded. */
export interface LeaseAnswer {
  readonly ok: boolean;
  readonly lease: Lease;
}

/** True from the instant at which the lease ends. */
export function isExpired(lease: Pick<Lease, 'endsAtMs'>, nowMs: number): boolean {
  return nowMs >= lease.endsAtMs;
}

/** Takes a lease that is free or has ended, and increments its token. */
export function takeLease(lease: Lease, node: string, nowMs: number, leaseMs: number): LeaseAnswer {
  if (lease.completed || (lease.holder !== null && !isExpired(lease, nowMs))) return { ok: false, lease };
  return {
    ok: true,
    lease: { token: lease.token + 1, holder: node, endsAtMs: nowMs + leaseMs, completed: false },
  };
}

/** Extends a lease for its holder. A lease that has ended is not extended. */
export function beat(lease: Lease, node: string, token: number, nowMs: number, leaseMs: number): LeaseAnswer {
  if (!holds(lease, node, token, nowMs)) return { ok: false, lease };
  return { ok: true, lease: { ...lease, endsAtMs: nowMs + leaseMs } };
}

/** Completes the leased work, once, and only for the holder. */
export function complete(lease: Lease, node: string, token: number, nowMs: number): LeaseAnswer {
  if (!holds(lease, node, token, nowMs)) return { ok: false, lease };
  return { ok: true, lease: { ...lease, holder: null, completed: true } };
}

/** Ends the lease. The token stays, so the former holder is refused. */
export function expire(lease: Lease): LeaseAnswer {
  return { ok: true, lease: { ...lease, holder: null, endsAtMs: -Infinity } };
}

/** True if this node holds the lease with its latest token, and the lease has not ended. */
export function holds(lease: Lease, node: string, token: number, nowMs: number): boolean {
  return !lease.completed && lease.holder === node && lease.token === token && !isExpired(lease, nowMs);
}

/** Returns the first scan at or after an instant. Scans are at `firstScanMs`, and every `scanMs` from then on. */
export function firstScanFrom(instantMs: number, firstScanMs: number, scanMs: number): number {
  return firstScanMs + Math.max(0, Math.ceil((instantMs - firstScanMs) / scanMs)) * scanMs;
}

/** A scheduled job as its owner reads it ahead of time. */
export interface DueJob {
  readonly id: string;
  readonly hash: number;
  readonly dueMs: number;
  readonly state: string;
}

/**
 * Returns the jobs that an owner of these ranges reads ahead now: ready jobs of its ranges that are due up to and
 * including the horizon, overdue ones as well. They are ordered by due time, then by id.
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

/** How a member leaves: it hands over, or it crashes and is missed when its membership lease ends. */
export type LeaveWay = 'handover' | 'crash';

export interface Leave {
  readonly way: LeaveWay;
  readonly leaver: string;
  readonly atMs: number;
  readonly scanMs: number;
  /** How long the other members consider a silent member alive. */
  readonly memberLeaseMs: number;
}

/** The member that starts a job, and the instants between which it does. */
export interface StartBounds {
  readonly owner: string | undefined;
  readonly startNotBeforeMs: number;
  readonly startNotAfterMs: number;
}

/**
 * Decides which member starts a job that is due around the time at which a member leaves. Until then the full ring
 * decides, afterwards the ring without the leaver. After a crash, the leaver's ranges have no owner until its
 * membership lease ends. Jobs that become due there in the meantime start with the first scan after that. A handover
 * leaves no such gap.
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
