/** Reads the statistics of the scheduler: those of all partitions, minute by minute. */
import { ValidationError } from '../core/errors.ts';
import { MINUTE_MS, type MinuteCounts, minuteOf, sumOf } from '../core/statistics.ts';
import { loadAll, type OperateContext, partitionsOf } from './controls.ts';

/** The most minutes that one call answers: a day. */
export const STATISTICS_MINUTES_MAX = 1_440;
/** The minutes that a call without bounds answers. */
const MINUTES = 60;

export interface StatisticsView {
  /** Whether the declaration asks for statistics. If not, nothing is counted from its deployment on. */
  readonly isKept: boolean;
  readonly fromMs: number;
  readonly toMs: number;
  /** The minutes in which something was counted, the earliest first. The running minute is one of them, if it was asked for. */
  readonly minutes: readonly MinuteCounts[];
}

/**
 * Reads the minutes that begin at `fromMs` or later and before `toMs`: an item for each of them and each partition, and the running minute
 * from the partitions.
 *
 * @throws ValidationError if these are no minutes, or more than `STATISTICS_MINUTES_MAX`
 */
export async function readStatistics(
  context: OperateContext,
  asked: { readonly fromMs?: number | undefined; readonly toMs?: number | undefined },
): Promise<StatisticsView> {
  const { store, configuration, clock } = context;
  const nowMs = clock.nowMs();
  const toMs = asked.toMs ?? nowMs + 1;
  const fromMs = minuteOf(asked.fromMs ?? toMs - MINUTES * MINUTE_MS);
  if (fromMs >= toMs) throw new ValidationError('options.from', 'must be before `to`');
  if (toMs - fromMs > (STATISTICS_MINUTES_MAX + 1) * MINUTE_MS)
    throw new ValidationError(
      'options.from',
      'must be at most a day before `to`; read one day after the other',
    );
  const partitions = partitionsOf(context);
  const running = nowMs < toMs + MINUTE_MS ? await loadAll(context, partitions) : [];
  const bounds = { fromMs, toMs, limit: STATISTICS_MINUTES_MAX + 1 };
  const byMinute = new Map<number, MinuteCounts>();
  const add = (counts: MinuteCounts): void => {
    const before = byMinute.get(counts.minuteMs);
    byMinute.set(counts.minuteMs, before === undefined ? counts : sumOf(before, counts));
  };
  for (const [at, partition] of partitions.entries()) {
    const counted = running[at]?.counted;
    if (counted !== undefined && counted.minuteMs >= fromMs && counted.minuteMs < toMs) add(counted);
    // The store may have a minute that the summary still shows: a pass stored it before a commit that was refused, or has stored it
    // since the read. It is counted once.
    for (const counts of await store.readStatistics({ partition, ...bounds }))
      if (counts.minuteMs !== counted?.minuteMs) add(counts);
  }
  return {
    isKept: configuration.statistics === true,
    fromMs,
    toMs,
    minutes: [...byMinute.values()].toSorted((one, other) => one.minuteMs - other.minuteMs),
  };
}
