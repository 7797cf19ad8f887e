/**
 * `node test/simulation/find.ts NAME...`
 *
 * Plants bugs of `planted.ts`, one after the other, and lets their checkers look for them. Prints a line of JSON for each: its name, and
 * what was found, and where. Bugs that seeds find change what this process loads: such a one must be the only name. Exit status 0: each
 * was found; 1: some were not.
 */
import { changeSources } from './changed.ts';
import { PLANTED } from './planted.ts';
import type { Planted } from './planted-bug.ts';
import { openPlantedTests } from './planted-tests.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

// A process that asked and died needs no answer.
process.on('disconnect', () => process.exit(2));
process.channel?.unref();

const names = process.argv.slice(2);
const wanted = names.map((name): readonly [string, Planted] => {
  const planted = PLANTED[name];
  if (planted === undefined) {
    console.error(`fairlead: unknown bug ${name}: one of ${Object.keys(PLANTED).join(', ')}`);
    process.exit(2);
  }
  if (names.length > 1 && !('test' in planted.foundBy)) {
    console.error(`fairlead: ${name} is found by a seed: look for it alone`);
    process.exit(2);
  }
  return [name, planted];
});

function say(name: string, found: string | undefined): void {
  console.log(JSON.stringify({ name, found }));
  if (found === undefined) process.exitCode = 1;
}

const [first] = wanted;
if (first !== undefined && !('test' in first[1].foundBy)) {
  const [name, planted] = first;
  changeSources(planted.changes ?? []);
  // Only now, so that what it imports is changed.
  const { find } = await import('./finders.ts');
  say(name, await find(name, planted));
} else {
  const tests = await openPlantedTests();
  for (const [name, { foundBy, changes = [] }] of wanted)
    if ('test' in foundBy) say(name, await tests.failed(foundBy, changes));
  await tests.close();
}
