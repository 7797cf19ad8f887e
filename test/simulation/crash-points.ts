/** Every call of some small runs, with everything that can happen to a call. */
import { describe, expect, it } from 'vitest';
import type { CallFault } from './faults.ts';
import { type RunReport, run } from './run.ts';
import { SMALL_RUNS, type SmallRun } from './small-runs.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const MATRIX_MS = 300_000;

/** What happens to a call, and the fault that does it. */
export type CrashPoint = readonly [what: string, fault: CallFault];

export const again = (
  { plan, forced }: SmallRun,
  more: ReadonlyMap<string, CallFault> = new Map(),
): Promise<RunReport> => run(plan.seed, { plan, forced: new Map([...forced, ...more]) });

/** A redeploy makes the longest runs. */
const isRedeployed = ([, { plan }]: readonly [string, SmallRun]): boolean => plan.redeploys !== undefined;
const all = Object.entries(SMALL_RUNS);

/** Of those, the ones that make so many calls that they take most of the time of all; and the others. */
const LONG_RUNS: ReadonlySet<string> = new Set([
  'a dispatcher that runs on, and is stopped',
  'clients and a process that is killed, and stopped in its next life',
  'jobs that are moved: nearer, away and back, and as they become due',
  'many jobs at once, of which a shard tells a dispatcher that runs on',
  'many jobs of one conflict key, slowly',
  'operators at work',
  'parked jobs whose conflict key becomes free while they are paused',
  'slots that one partition lends to another',
] satisfies (keyof typeof SMALL_RUNS)[]);
const isLong = ([name]: readonly [string, SmallRun]): boolean => LONG_RUNS.has(name);
export const QUICK = Object.fromEntries(all.filter((each) => !isRedeployed(each) && !isLong(each)));
export const NOT_QUICK = Object.fromEntries(all.filter((each) => isRedeployed(each) || isLong(each)));

/** Each of these happens to each call of each of these small runs, one at a time. */
export function testCrashPoints(
  points: readonly CrashPoint[],
  runs: Readonly<Record<string, SmallRun>> = SMALL_RUNS,
): void {
  describe.each(Object.entries(runs))('%s', (_, small) => {
    it.each(points)(
      'ends well whichever call it is of which %s',
      { timeout: MATRIX_MS },
      async (_what, fault) => {
        const { calls } = await again(small);
        const tried = new Set(calls.filter((call) => !small.forced.has(call)));
        const broken: string[] = [];
        const missed: string[] = [];
        for (const call of tried) {
          const report = await again(small, new Map([[call, fault]]));
          if (!report.fired.includes(`${call}:${fault}`)) missed.push(call);
          if (report.violations.length > 0) broken.push(`${call}: ${report.violations[0]?.what}`);
        }
        expect(broken).toEqual([]);
        // Each was met: the run up to it is the same each time.
        expect(missed).toEqual([]);
        expect(tried.size).toBeGreaterThan(50);
      },
    );
  });
}
