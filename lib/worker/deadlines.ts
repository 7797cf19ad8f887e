/** When attempts must be told to stop: one sleep for all attempts of a host, not one for each. */
import type { Clock } from '../runtime/contract.ts';

/** Calls `over` once, after so long, unless the answered function is called before. */
export type Deadlines = (afterMs: number, over: () => void) => () => void;

interface Deadline {
  readonly atMonotonicMs: number;
  readonly over: () => void;
}

/** One host's deadlines. It sleeps only while there are any. */
export function deadlinesBy(clock: Clock): Deadlines {
  const waiting = new Set<Deadline>();
  let sleep: { readonly untilMonotonicMs: number; readonly end: AbortController } | undefined;

  const wakeUp = (): void => {
    // Without a reason, an error would be made for nobody.
    sleep?.end.abort('over');
    sleep = undefined;
  };

  const sleepUntil = async (untilMonotonicMs: number): Promise<void> => {
    wakeUp();
    const end = new AbortController();
    sleep = { untilMonotonicMs, end };
    // Whole milliseconds: the rest of a rounding error would be slept for ever.
    await clock.sleep(Math.ceil(untilMonotonicMs - clock.monotonicMs()), end.signal);
    if (end.signal.aborted) return;
    sleep = undefined;
    const nowMs = clock.monotonicMs();
    let nextMs = Infinity;
    for (const each of waiting) {
      if (each.atMonotonicMs > nowMs) nextMs = Math.min(nextMs, each.atMonotonicMs);
      else {
        waiting.delete(each);
        each.over();
      }
    }
    // What `over` has added since sleeps already, unless something is due before it.
    const isInTime =
      sleep !== undefined && (sleep as { untilMonotonicMs: number }).untilMonotonicMs <= nextMs;
    if (Number.isFinite(nextMs) && !isInTime) void sleepUntil(nextMs);
  };

  return (afterMs, over) => {
    const each = { atMonotonicMs: clock.monotonicMs() + afterMs, over };
    waiting.add(each);
    if (sleep === undefined || each.atMonotonicMs < sleep.untilMonotonicMs)
      void sleepUntil(each.atMonotonicMs);
    return () => {
      waiting.delete(each);
      if (waiting.size === 0) wakeUp();
    };
  };
}
