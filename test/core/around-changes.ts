/** Firings around the instants at which clocks change, beside an oracle that walks through the minutes. */
import { expect } from 'vitest';
import { firesOf } from '../../lib/core/schedule.ts';
import { readCron } from '../../lib/cron/croner.ts';
import { ALL_POLICIES, walked } from './local-minutes.ts';

const DAY_MS = 86_400_000;

/** Fails where a pattern fires at other instants than clocks on a wall would show, with any of the policies. Answers how many there were. */
export function agreesAround(zone: string, pattern: string, changeMs: number): number {
  const fromMs = changeMs - DAY_MS / 2;
  const untilMs = changeMs + DAY_MS;
  // The walk begins earlier, so that it has seen what came before.
  const oracle = walked(pattern, zone, changeMs - DAY_MS, untilMs);
  let count = 0;
  for (const [at, policies] of ALL_POLICIES.entries()) {
    const when = { kind: 'cron', expression: pattern } as const;
    const fires = firesOf({ when, timeZone: zone, ...policies }, readCron);
    const found: string[] = [];
    for (let atMs = fires.next(fromMs - 1); atMs !== undefined && atMs < untilMs; atMs = fires.next(atMs))
      found.push(iso(atMs));
    const expected = (oracle[at] ?? []).filter((atMs) => atMs >= fromMs).map(iso);
    expect({ pattern, zone, policies, found }).toEqual({ pattern, zone, policies, found: expected });
    count += found.length;
  }
  return count;
}

const iso = (atMs: number): string => new Date(atMs).toISOString();
