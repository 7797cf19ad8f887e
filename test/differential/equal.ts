/** Seeds in which somebody starts something else than the reference, with what differs first. */
import { CorePlayer } from './core.ts';
import { differenceOf } from './difference.ts';
import { play, type Start } from './play.ts';
import { Reference } from './reference.ts';
import { type Kind, scenarioOf } from './scenarios.ts';
import { asSimulateScenario, simulatedStarts } from './simulate.ts';

const describeSeed = (seed: number, kind: string, what: unknown): string =>
  `seed ${seed} (${kind}): ${JSON.stringify(what)}`;

/** Kinds that know no lifts, which the core makes as jobs come one by one, and no resets, which it is told of. */
const CORE_KINDS: readonly Kind[] = ['order', 'conflicts', 'keys', 'time', 'controls'];

/** Of the core, driven directly. */
export async function differingCore(first: number, last: number): Promise<readonly string[]> {
  const differing: string[] = [];
  for (let seed = first; seed <= last; seed += 1) {
    const scenario = scenarioOf(seed, CORE_KINDS[seed % CORE_KINDS.length]);
    const difference = await differenceOf(scenario, (each) => new CorePlayer(each));
    if (difference !== undefined) differing.push(describeSeed(seed, scenario.kind, difference));
  }
  return differing;
}

/** Of the deployed path; `kind`: scenarios of this one, if not of any. */
export async function differingDeployed(
  first: number,
  last: number,
  kind?: Kind,
): Promise<readonly string[]> {
  const differing: string[] = [];
  for (let seed = first; seed <= last; seed += 1) {
    const scenario = scenarioOf(seed, kind);
    const difference = await differenceOf(scenario);
    if (difference !== undefined) differing.push(describeSeed(seed, scenario.kind, difference));
  }
  return differing;
}

/** Of `fairlead simulate`; `expressed`: scenarios that its files can express. */
export async function differingSimulated(
  first: number,
  last: number,
): Promise<{ readonly differing: readonly string[]; readonly expressed: number }> {
  const differing: string[] = [];
  let expressed = 0;
  for (let seed = first; seed <= last; seed += 1) {
    const given = scenarioOf(seed);
    // It writes learned costs as the product does, which need not write a move of less than a tenth.
    const fairness = { ...given.pool.fairness, alpha: 0 };
    const scenario = { ...given, pool: { ...given.pool, fairness } };
    const own = await asSimulateScenario(scenario);
    if (own === undefined) continue;
    expressed += 1;
    // What starts at one instant is listed there by id.
    const expected = byId(await play(scenario, new Reference(scenario)));
    const actual = byId(await simulatedStarts(own));
    const at = expected.findIndex((start, nth) => JSON.stringify(start) !== JSON.stringify(actual[nth]));
    if (at !== -1 || expected.length !== actual.length)
      differing.push(describeSeed(seed, scenario.kind, [at, expected[at], actual[at]]));
  }
  return { differing, expressed };
}

const byId = (starts: readonly Start[]): readonly Start[] =>
  [...starts].sort((one, other) => one.atMs - other.atMs || (one.id < other.id ? -1 : 1));
