/**
 * `npm run differential -- --seeds N [--seed FIRST] [--kind KIND] [--player deployed|core] [--shrink N] [--file SCENARIO] [--json]`
 *
 * Plays scenarios on the deployed path and holds its starts against the reference. Exit status 0: all are equal. A
 * difference is printed with its seed, what differs first, and the least scenario that still differs: of the first `--shrink` seeds that do. `--file` replays such a scenario.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { CorePlayer } from './core.ts';
import { Deployed } from './deployed.ts';
import { causesOf, type Difference, differenceOf, type MakePlayer, shrink } from './difference.ts';
import { referenceOf } from './partitions.ts';
import { play, type Scenario } from './play.ts';
import { KINDS, type Kind, kindOf, scenarioOf } from './scenarios.ts';

const SHOWN_MAX = 5;

function usage(problem: string): never {
  console.error(
    `fairlead: ${problem}; use: npm run differential -- --seeds N [--seed FIRST] [--kind ${KINDS.join('|')}] [--player deployed|core] [--shrink N] [--file SCENARIO] [--json]`,
  );
  process.exit(2);
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0) usage(`--${name} is ${text}, not a whole number`);
  return value;
}

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    kind: { type: 'string' },
    player: { type: 'string', default: 'deployed' },
    shrink: { type: 'string', default: String(SHOWN_MAX) },
    file: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const seeds = wholeNumber('seeds', values.seeds);
const first = wholeNumber('seed', values.seed);
const shown = wholeNumber('shrink', values.shrink);
const kinds: readonly Kind[] = KINDS.filter((kind) => values.kind?.split(',').includes(kind));
if (values.kind !== undefined && kinds.length === 0) usage(`unknown kind ${values.kind}`);
const make: MakePlayer =
  values.player === 'core' ? (scenario) => new CorePlayer(scenario) : (scenario) => new Deployed(scenario);

interface Differing {
  readonly seed: number;
  readonly kind: string;
  readonly what: string;
  /** The least scenario that still differs, how it does, and what it does not differ without. */
  readonly least?: {
    readonly what: string;
    readonly notWithout: readonly string[];
    readonly scenario: Scenario;
  };
}

const whatOf = (difference: Difference | undefined): string =>
  difference === undefined
    ? 'nothing differs'
    : `start ${difference.at}: expected ${JSON.stringify(difference.expected)}, saw ${JSON.stringify(difference.actual)}`;

async function leastOf(scenario: Scenario): Promise<Differing['least']> {
  const isBroken = async (each: Scenario): Promise<boolean> => (await differenceOf(each, make)) !== undefined;
  const small = await shrink(scenario, isBroken);
  return {
    what: whatOf(await differenceOf(small, make)),
    notWithout: await causesOf(small, isBroken),
    scenario: small,
  };
}

/** Prints what starts by the reference, and by who is held against it. */
async function replay(path: string): Promise<boolean> {
  const scenario = JSON.parse(readFileSync(path, 'utf8')) as Scenario;
  const [expected, actual] = [
    await play(scenario, referenceOf(scenario)),
    await play(scenario, make(scenario)),
  ];
  for (let at = 0; at < Math.max(expected.length, actual.length); at += 1) {
    const [one, other] = [JSON.stringify(expected[at]), JSON.stringify(actual[at])];
    console.log(`${one === other ? '  ' : '! '}${one}${one === other ? '' : `\n  ${other}`}`);
  }
  const difference = await differenceOf(scenario, make);
  console.log(whatOf(difference));
  return difference === undefined;
}

if (values.file !== undefined) process.exit((await replay(values.file)) ? 0 : 1);

const startedMs = performance.now();
const byKind: Record<string, { seeds: number; equal: number; ms: number }> = {};
const differing: Differing[] = [];
let explained = 0;
for (let seed = first; seed < first + seeds; seed += 1) {
  const kind = kinds[seed % kinds.length] ?? kindOf(seed);
  const scenario = scenarioOf(seed, kind);
  const beganMs = performance.now();
  const difference = await differenceOf(scenario, make);
  const tally = byKind[kind] ?? { seeds: 0, equal: 0, ms: 0 };
  byKind[kind] = tally;
  tally.seeds += 1;
  tally.ms += performance.now() - beganMs;
  if (difference === undefined) {
    tally.equal += 1;
    continue;
  }
  const what = whatOf(difference);
  const isExplained = explained < shown;
  if (isExplained) explained += 1;
  const least = isExplained ? await leastOf(scenario) : undefined;
  differing.push({ seed, kind, what, ...(least === undefined ? {} : { least }) });
  if (values.json) continue;
  console.log(`\nseed ${seed} (${kind}): ${what}`);
  if (least === undefined) continue;
  console.log(`  least: ${least.what}`);
  console.log(`  not without: ${least.notWithout.join(', ')}`);
  console.log(JSON.stringify(least.scenario));
}
const seconds = Number(((performance.now() - startedMs) / 1_000).toFixed(1));
if (values.json) console.log(JSON.stringify({ first, seeds, seconds, byKind, differing }));
else {
  console.log(`${seeds - differing.length} of ${seeds} seeds from ${first} are equal, ${seconds} s`);
  for (const [kind, { seeds: of, equal, ms }] of Object.entries(byKind))
    console.log(`  ${kind.padEnd(10)} ${equal} of ${of}, ${(ms / of).toFixed(1)} ms each`);
}
process.exitCode = differing.length === 0 ? 0 : 1;
