/** Every call of some small runs, with everything that can happen to a call. */
import { describe, expect, it } from 'vitest';
import { isSampled, oneOf } from '../sample.ts';
import type { CallFault } from './faults.ts';
import { type RunReport, run } from './run.ts';
import { SMALL_RUNS, type SmallRun } from './small-runs.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const MATRIX_MS = 300_000;

/** What happens to a call, and the fault that does it. */
type CrashPoint = readonly [what: string, fault: CallFault];

export const again = (
  { plan, forced }: SmallRun,
  more: ReadonlyMap<string, CallFault> = new Map(),
): Promise<RunReport> => run(plan.seed, { plan, forced: new Map([...forced, ...more]) });

/** `caller/verb` of a call that is named `caller/verb#n`. */
const placeOf = (call: string): string => call.slice(0, call.lastIndexOf('#'));

/** Of a sampled run: the first call of each caller and verb, the last one, and one between them that rotates. */
export function sampleOf(purpose: string, calls: readonly string[]): readonly string[] {
  return Object.values(Object.groupBy(calls, placeOf)).flatMap((all = []) => [
    ...all.slice(0, 1),
    ...oneOf(`${purpose}, ${all[0]}`, all.slice(1, -1)),
    ...all.slice(1).slice(-1),
  ]);
}

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

/** Each of these happens to each call of each of these small runs, one at a time. */
export function testCrashPoints(
  points: readonly CrashPoint[],
  runs: Readonly<Record<string, SmallRun>> = SMALL_RUNS,
  isSample = isSampled,
): void {
  describe.each(Object.entries(runs))('%s', (name, small) => {
    it.each(points)(
      'ends well whichever call it is of which %s',
      { timeout: MATRIX_MS },
      async (what, fault) => {
        const { calls } = await again(small);
        const met = [...new Set(calls.filter((call) => !small.forced.has(call)))];
        const tried = isSample ? sampleOf(`${name}, ${what}`, met) : met;
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
        expect(met.length).toBeGreaterThan(30);
      },
    );
  });
}
