/**
 * What the next pass does before it plans, and while it claims, for whoever explains whose turn it is: it moves what is due to its
 * lines, lifts new and returning keys, and passes over what another partition's lock keeps from starting. From what was read for
 * the explanation: more may come first than were read, which it says.
 */
import { firstReadyMs, type ReservedJob } from '../core/job.ts';
import type { JobHead } from '../store/job-fields.ts';
import { isOpenTo, type Ledger, type PartitionState, presentUntilMs } from '../store/records.ts';
import { DISPATCH_BUDGET } from './context.ts';
import type { LedgerCache } from './ledger-cache.ts';
import { lockOf } from './locks.ts';
import type { OperateContext } from './operate.ts';

/** Jobs whose time has come that are read of the due line; of conflict keys, the locks. */
const DUE_MAX = 200;
const LOCKS_MAX = 100;

/** Jobs whose time has come and that stand in no ready line so far. */
export async function readDueJobs(
  { store, clock }: OperateContext,
  partition: number,
): Promise<{ readonly jobs: readonly JobHead[]; readonly cut: boolean }> {
  const { jobs, next } = await store.readDue({ partition, nowMs: clock.nowMs(), limit: DUE_MAX });
  return { jobs, cut: next !== undefined };
}

/** The ids of those jobs of a partition that another one's lock keeps from starting. */
export async function lockedElsewhere(
  context: OperateContext,
  partition: number,
  jobs: readonly JobHead[],
): Promise<ReadonlySet<string>> {
  const keys = new Set(jobs.flatMap((job) => lockOf(context, job) ?? []));
  const asked = [...keys].slice(0, LOCKS_MAX);
  if (asked.length === 0) return new Set();
  const locks = await context.store.readLocks(asked);
  const nowMs = context.clock.nowMs();
  const taken = new Set(
    asked.filter(
      (_, at) => locks[at]?.holder?.partition !== partition && !isOpenTo(locks[at], partition, nowMs),
    ),
  );
  const isTaken = (job: JobHead): boolean => {
    const conflictKey = lockOf(context, job);
    return conflictKey !== undefined && taken.has(conflictKey);
  };
  return new Set(jobs.filter(isTaken).map(({ id }) => id));
}

/** Lifts keys in what the cache knows, as the next pass with room does; nothing of it is written. */
export function liftForExplanation(
  ledgerCache: LedgerCache,
  { liftedAtMs = -Infinity }: Pick<PartitionState, 'liftedAtMs'>,
  waiting: readonly JobHead[],
  inFlight: readonly ReservedJob[],
): void {
  // Passes have decided about all that was ready by then.
  const decidedMs = liftedAtMs - DISPATCH_BUDGET.seenWithinMs;
  const heldCostMs = new Map<string, number>();
  for (const { fairnessKey, estimatedCostMs } of inFlight)
    heldCostMs.set(fairnessKey, (heldCostMs.get(fairnessKey) ?? 0) + estimatedCostMs);
  const since = new Map<string, number>();
  for (const job of waiting)
    since.set(job.fairnessKey, Math.min(since.get(job.fairnessKey) ?? Infinity, firstReadyMs(job)));
  for (const [fairnessKey, sinceMs] of since) {
    const expiredMs = ledgerCache.expiredMs(fairnessKey);
    if (expiredMs !== undefined && sinceMs <= expiredMs) ledgerCache.noteActive(fairnessKey, sinceMs);
  }
  const comes = (fairnessKey: string): boolean => {
    const sinceMs = since.get(fairnessKey);
    return (
      sinceMs !== undefined &&
      !heldCostMs.has(fairnessKey) &&
      sinceMs > Math.max(decidedMs, presentMs(ledgerCache.ledgerOf(fairnessKey)))
    );
  };
  const keys = [...new Set([...heldCostMs.keys(), ...since.keys()])];
  const shareOf = (fairnessKey: string): number =>
    ((ledgerCache.ledgerOf(fairnessKey)?.settledCostMs ?? 0) + (heldCostMs.get(fairnessKey) ?? 0)) /
    ledgerCache.weightOf(fairnessKey);
  const arriving = keys.filter(comes);
  const leastMs = Math.min(...keys.filter((key) => !arriving.includes(key)).map(shareOf));
  if (Number.isFinite(leastMs)) for (const key of arriving) ledgerCache.lift(key, leastMs);
}

const presentMs = (ledger: Ledger | undefined): number =>
  ledger === undefined || ledger.isUndecided === true ? -Infinity : presentUntilMs(ledger);
