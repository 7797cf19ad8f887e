/**
 * Ends jobs that have not started in time. The minute's tick reads them from an index that has only such jobs, soonest
 * first, so it finds each, however long the line is in which the job waits. A pass ends those that it would have
 * started. A start after the time is refused by its own write, so both may be late.
 */
import { type MovingJob, TERMINAL_TTL_MS } from '../../core/job.ts';
import { isExpired } from '../../core/life-cycle.ts';
import { EXPIRY_LINES } from '../../store/contract/expiring.ts';
import type { DispatchContext } from '../partition/context.ts';
import { CATCH_UP_FOR_MS } from '../tuning.ts';

type ExpireContext = Pick<DispatchContext, 'store' | 'clock' | 'budget'>;

/**
 * Ends all jobs whose time to start is over, `promoteMax` in each round, until `CATCH_UP_FOR_MS` are over. The next tick
 * goes on with the others, which workers refuse to start meanwhile.
 */
export async function expireDue(context: ExpireContext): Promise<void> {
  const { clock } = context;
  const untilMonotonicMs = clock.monotonicMs() + CATCH_UP_FOR_MS;
  await Promise.all(
    Array.from({ length: EXPIRY_LINES }, (_, line) => expireLine(context, line, untilMonotonicMs)),
  );
}

async function expireLine(context: ExpireContext, line: number, untilMonotonicMs: number): Promise<void> {
  const { store, clock, budget } = context;
  const nowMs = clock.nowMs();
  let after: string | undefined;
  do {
    const { ids, next } = await store.readExpired({ line, nowMs, limit: budget.promoteMax, after });
    if (ids.length > 0) await expireJobs(context, ids);
    after = next;
  } while (after !== undefined && clock.monotonicMs() < untilMonotonicMs);
}

/** Ends those of these jobs that have not started in time. Returns them as they ended; the stream reports their ends, too. */
export async function expireJobs(
  { store, clock }: ExpireContext,
  ids: readonly string[],
): Promise<readonly MovingJob[]> {
  const nowMs = clock.nowMs();
  // An unreadable job is left alone: it cannot start, either.
  const found = await store.lookUpJobs({ ids, unreadable: () => {} });
  const jobs = found.filter((job) => job !== undefined).filter((job) => isExpired(job, nowMs));
  if (jobs.length === 0) return [];
  const expired = await store.expireJobs({ jobs, nowMs, expiresAtMs: nowMs + TERMINAL_TTL_MS });
  return expired.filter((job) => job !== undefined);
}
