/** Looks for a planted bug: first where it was seen last, because what a seed does changes with the code. */
import { Deployed } from '../differential/deployed.ts';
import { differenceOf } from '../differential/difference.ts';
import { type Kind, scenarioOf } from '../differential/scenarios.ts';
import { bigPlanOf } from './big.ts';
import { crashPlanOf } from './crash.ts';
import type { Planted } from './planted-bug.ts';
import { type RunReport, run } from './run.ts';
import { SMALL_RUNS } from './small-runs.ts';

/** A planted bug must be found within this many seeds of the simulation, */
const SEEDS_MAX = 2_000;
/** or of its big worlds, */
const BIG_WORLDS_MAX = 100;
/** or of those in which nothing fails but processes, */
const CRASH_WORLDS_MAX = 200;
/** or of a kind of the differential test's scenarios. */
const SCENARIOS_MAX = 600;

const firstOf = ({ violations }: RunReport): string | undefined =>
  violations.map(({ invariant, what }) => `${invariant}: ${what}`)[0];

/** What is found of it, and where; undefined: nothing. What it changes of the sources is changed already. */
export async function find(name: string, planted: Planted): Promise<string | undefined> {
  const { foundBy } = planted;
  if ('simulation' in foundBy)
    return inSeeds(foundBy.simulation, SEEDS_MAX, async (seed) =>
      firstOf(await run(seed, { sabotage: planted })),
    );
  if ('bigWorld' in foundBy)
    return inSeeds(foundBy.bigWorld, BIG_WORLDS_MAX, async (seed) =>
      firstOf(await run(seed, { plan: bigPlanOf(seed), sabotage: planted })),
    );
  if ('crashWorld' in foundBy)
    return inSeeds(foundBy.crashWorld, CRASH_WORLDS_MAX, async (seed) =>
      firstOf(await run(seed, { plan: crashPlanOf(seed), sabotage: planted })),
    );
  if ('differential' in foundBy)
    return inSeeds(foundBy.differential, SCENARIOS_MAX, (seed) => differs(seed, foundBy.kind));
  if ('smallRun' in foundBy) return smallRun(foundBy.smallRun, planted);
  throw new RangeError(`nobody looks for ${name}`);
}

/** Whether the code without the bug is wrong there, too: then what was found shows nothing. */
export async function isWrongAnyway({ foundBy }: Planted, found: string): Promise<boolean> {
  const seed = Number(/^seed (\d+):/.exec(found)?.[1]);
  if ('simulation' in foundBy) return firstOf(await run(seed)) !== undefined;
  if ('bigWorld' in foundBy) return firstOf(await run(seed, { plan: bigPlanOf(seed) })) !== undefined;
  if ('crashWorld' in foundBy) return firstOf(await run(seed, { plan: crashPlanOf(seed) })) !== undefined;
  return 'differential' in foundBy && (await differs(seed, foundBy.kind)) !== undefined;
}

async function inSeeds(
  seenAt: number,
  seeds: number,
  look: (seed: number) => Promise<string | undefined>,
): Promise<string | undefined> {
  for (let at = 0; at <= seeds; at += 1) {
    const seed = at === 0 ? seenAt : at;
    const found = await look(seed);
    if (found !== undefined) return `seed ${seed}: ${found}`;
  }
  return undefined;
}

async function differs(seed: number, kind: Kind): Promise<string | undefined> {
  const difference = await differenceOf(scenarioOf(seed, kind), (each) => new Deployed(each));
  return difference === undefined ? undefined : JSON.stringify(difference);
}

async function smallRun(title: string, sabotage: Planted): Promise<string | undefined> {
  const small = SMALL_RUNS[title];
  if (small === undefined) throw new RangeError(`no small run ${title}`);
  const { plan, forced } = small;
  return firstOf(await run(plan.seed, { plan, forced, sabotage }));
}
