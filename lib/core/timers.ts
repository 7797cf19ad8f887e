/**
 * Work for a future time: what waits, what starts.
 * Source: future-work. The rows say what is to happen and when; that something has been armed is known in memory
 * only, so after a crash there is nothing to repair: whoever starts reads the rows and arms again. Changes count at
 * once, and a row that has run is gone, so creating its id again is new work.
 *
 * Instants are milliseconds.
 */

/** One row: a job that waits for its time. */
export interface TimedWork {
  readonly id: string;
  readonly triggerMs: number;
}

/** All rows, and whether somebody is there to look at them. */
export interface TimerState {
  readonly up: boolean;
  readonly waiting: ReadonlyMap<string, number>;
}

export type TimerChange =
  | { readonly op: 'start' }
  | { readonly op: 'crash' }
  | { readonly op: 'create'; readonly id: string; readonly triggerMs: number }
  | { readonly op: 'update'; readonly id: string; readonly triggerMs: number }
  | { readonly op: 'cancel'; readonly id: string };

export const NO_TIMERS: TimerState = { up: false, waiting: new Map() };

/** The longest delay that a platform timer takes: one more would fire at once. */
export const LONGEST_DELAY_MS = 2 ** 31 - 1;

/** The state after a change. Moving or cancelling what is not there changes nothing. */
export function changeTimers(state: TimerState, change: TimerChange): TimerState {
  switch (change.op) {
    case 'start':
      return { ...state, up: true };
    case 'crash':
      return { ...state, up: false };
    case 'create':
      return withRow(state, change.id, change.triggerMs);
    case 'update':
      return state.waiting.has(change.id) ? withRow(state, change.id, change.triggerMs) : state;
    case 'cancel':
      return withoutRows(state, [change.id]);
  }
}

/** What starts now, by trigger, then id; and the state without it. While nobody is up, nothing starts. */
export function startDue(
  state: TimerState,
  nowMs: number,
): { readonly state: TimerState; readonly started: readonly TimedWork[] } {
  if (!state.up) return { state, started: [] };
  const started = [...state.waiting]
    .map(([id, triggerMs]) => ({ id, triggerMs }))
    .filter(({ triggerMs }) => triggerMs <= nowMs)
    .sort((one, other) => one.triggerMs - other.triggerMs || (one.id < other.id ? -1 : 1));
  return {
    state: withoutRows(
      state,
      started.map(({ id }) => id),
    ),
    started,
  };
}

/** When the next row is due; undefined if nothing waits. */
export function nextTriggerMs(state: TimerState): number | undefined {
  let next: number | undefined;
  for (const triggerMs of state.waiting.values()) {
    if (next === undefined || triggerMs < next) next = triggerMs;
  }
  return next;
}

/**
 * How long to arm a timer for a trigger: never longer than platforms can, so a far one is armed again on the way,
 * and never negative.
 */
export function armMs(triggerMs: number, nowMs: number): number {
  return Math.min(LONGEST_DELAY_MS, Math.max(0, triggerMs - nowMs));
}

/**
 * Which due instants of a look-ahead window need a delayed wake: each second that has due work once, soonest first.
 * A window is half open: the next one begins where this one ends.
 */
export function wakeSeconds(
  triggersMs: Iterable<number>,
  fromMs: number,
  untilMs: number,
): readonly number[] {
  const seconds = new Set<number>();
  for (const triggerMs of triggersMs) {
    // Rounded up: a wake before its work would find nothing to do.
    if (triggerMs < untilMs) seconds.add(Math.ceil(Math.max(triggerMs, fromMs) / 1000) * 1000);
  }
  return [...seconds].sort((one, other) => one - other);
}

function withRow(state: TimerState, id: string, triggerMs: number): TimerState {
  return { ...state, waiting: new Map(state.waiting).set(id, triggerMs) };
}

function withoutRows(state: TimerState, ids: readonly string[]): TimerState {
  if (!ids.some((id) => state.waiting.has(id))) return state;
  const waiting = new Map(state.waiting);
  for (const id of ids) waiting.delete(id);
  return { ...state, waiting };
}
