/**
 * `node test/simulation/find.ts NAME [--on ENDPOINT]`
 *
 * Plants a bug of `planted.ts` and lets its checker look for it. Prints what was found, and where. Exit status 0: it was found;
 * 1: it was not.
 */
import { changeSources } from './changed.ts';
import { PLANTED } from './planted.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const [name = ''] = process.argv.slice(2);
const planted = PLANTED[name];
if (planted === undefined) {
  console.error(`fairlead: unknown bug ${name}: one of ${Object.keys(PLANTED).join(', ')}`);
  process.exit(2);
}
if (!('test' in planted.foundBy)) changeSources(planted.changes ?? []);
// Only now, so that what it imports is changed.
const { find } = await import('./finders.ts');
const found = await find(name, planted);
console.log(found ?? 'nothing was found');
process.exitCode = found === undefined ? 1 : 0;
