/** Calls of some small runs, and their caller dies; `crash-points.long.test.ts` has all calls, and what else can happen. */
import { describe, expect, it } from 'vitest';
import type { EventBus } from '../../lib/events/contract.ts';
import type { JobQueue } from '../../lib/queue/contract.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { SCENES, SCHEDULE_SCENES } from '../contract/scenes.ts';
import { again, QUICK, testCrashPoints } from './crash-points.ts';
import { SMALL_RUNS } from './small-runs.ts';

/** Schedules have worlds of their own, which make these calls. */
const OF_SCHEDULES: ReadonlySet<string> = new Set(
  Object.keys(SCHEDULE_SCENES).filter(
    (verb) => verb !== 'readDueSchedules' && verb !== 'readDeclaredSchedules',
  ),
);
/** The contracts' verbs. The compiler misses one of the store that has no scene. */
const VERBS: readonly (keyof JobStore | keyof JobQueue | keyof EventBus)[] = [
  ...(Object.keys(SCENES) as (keyof JobStore)[]).filter((verb) => !OF_SCHEDULES.has(verb)),
  'send',
  'receive',
  'delete',
  'handBack',
  'sendWake',
  'sendLook',
  'publish',
];

const verbOf = (call: string): string => /([a-zA-Z]+)#\d+$/.exec(call)?.[1] ?? call;

describe('small runs', () => {
  it('together make every call that the contracts know, and end well', async () => {
    const reached = new Set<string>();
    for (const small of Object.values(SMALL_RUNS)) {
      const { violations, calls } = await again(small);
      expect(violations).toEqual([]);
      for (const call of calls) reached.add(verbOf(call));
    }
    // Operators read statistics.
    expect([...reached, 'readStatistics'].sort()).toEqual([...VERBS].sort());
  });
});

testCrashPoints([['the caller dies after it', 'crashAfterCall']], QUICK, true);
