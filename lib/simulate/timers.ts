/** Runs a script of scheduled work (format `timers`) on the timers model under virtual time. */
import { Timers } from './model/timers.ts';
import type { TimersCase } from './reference-scenarios.ts';

export interface TimersResult {
  /** Starts in order: the id, and the instant. */
  readonly starts: readonly (readonly [id: string, atMs: number])[];
  readonly waitingAtEnd: Readonly<Record<string, number>>;
}

type Event = TimersCase['input']['events'][number];

// At one instant a crash comes before a start, both come before changes, and changes keep the file's order.
const ORDER: Readonly<Record<Event['op'], number>> = { crash: 0, start: 1, create: 2, update: 2, cancel: 2 };

export function simulateTimers(input: TimersCase['input']): TimersResult {
  const timers = new Timers();
  const events = input.events.toSorted(
    (one, other) => one.atMs - other.atMs || ORDER[one.op] - ORDER[other.op],
  );
  const starts: [string, number][] = [];
  let next = 0;
  // Each round handles at least one event or one row.
  for (;;) {
    const nowMs = Math.min(events[next]?.atMs ?? Infinity, timers.nextTriggerMs() ?? Infinity);
    if (nowMs > input.horizonMs || nowMs === Infinity) break;
    for (let event = events[next]; event !== undefined && event.atMs <= nowMs; event = events[next]) {
      apply(timers, event);
      next += 1;
    }
    for (const { id } of timers.startDue(nowMs)) starts.push([id, nowMs]);
  }
  return {
    starts,
    waitingAtEnd: Object.fromEntries(timers.waiting().map(({ id, triggerMs }) => [id, triggerMs])),
  };
}

function apply(timers: Timers, event: Event): void {
  switch (event.op) {
    case 'start':
      timers.start();
      break;
    case 'crash':
      timers.crash();
      break;
    case 'create':
      timers.create(event.id, event.triggerMs);
      break;
    case 'update':
      timers.update(event.id, event.triggerMs);
      break;
    case 'cancel':
      timers.cancel(event.id);
  }
}
