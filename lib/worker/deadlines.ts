/** When attempts must be told to stop: one sleep for all attempts of a host, not one for each. */
import type { Clock } from '../runtime/contract.ts';

/** Calls `over` once, after so long, unless the answered function is called before. */
export type Deadlines = (afterMs: number, over: () => void) => () => void;

interface Deadline {
  readonly atMonotonicMs: number;
  readonly over: () => void;
  /** Its place among those that wait; -1 for one that does not. */
  place: number;
}

/** One host's deadlines. It sleeps only while there are any. */
export function deadlinesBy(clock: Clock): Deadlines {
  // Not a set: one that fills and empties all the time is made anew each time, and each that has grown old before it was
  // thrown away keeps the next ones, and all that their attempts hold, from the collector's quick rounds.
  const waiting: Deadline[] = [];
  let sleep: { readonly untilMonotonicMs: number; readonly end: AbortController } | undefined;

  const leave = (each: Deadline): void => {
    const last = waiting.at(-1);
    if (each.place === -1 || last === undefined) return;
    waiting[each.place] = last;
    last.place = each.place;
    each.place = -1;
    waiting.pop();
  };

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
    for (const each of waiting.filter(({ atMonotonicMs }) => atMonotonicMs <= nowMs)) {
      // One that is over may have ended another.
      if (each.place === -1) continue;
      leave(each);
      each.over();
    }
    for (const each of waiting) nextMs = Math.min(nextMs, each.atMonotonicMs);
    // What `over` has added since sleeps already, unless something is due before it.
    const isInTime =
      sleep !== undefined && (sleep as { untilMonotonicMs: number }).untilMonotonicMs <= nextMs;
    if (Number.isFinite(nextMs) && !isInTime) void sleepUntil(nextMs);
  };

  return (afterMs, over) => {
    const each = { atMonotonicMs: clock.monotonicMs() + afterMs, over, place: waiting.length };
    waiting.push(each);
    if (sleep === undefined || each.atMonotonicMs < sleep.untilMonotonicMs)
      void sleepUntil(each.atMonotonicMs);
    return () => {
      leave(each);
      if (waiting.length === 0) wakeUp();
    };
  };
}
