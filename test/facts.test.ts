/** Facts that stand in several places, each held against the one that the code has. */
import { readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { CLIENT_LIMITS } from '../lib/client/arguments.ts';
import { LENDING_DEFAULTS } from '../lib/core/defaults.ts';
import { EXPLAIN_LIMITS } from '../lib/operate/explain.ts';
import { parseSchedule, SCHEDULE_LIMITS } from '../lib/schedules/request.ts';
import { REJECTION_TTL_MS } from '../lib/submit/ingest.ts';
import { REQUEST_LIMITS } from '../lib/submit/request.ts';

const project = resolve(import.meta.dirname, '..');
const { engines, devDependencies } = JSON.parse(readFileSync(resolve(project, 'package.json'), 'utf8')) as {
  readonly engines: { readonly node: string };
  readonly devDependencies: Readonly<Record<string, string>>;
};
const firstNumberIn = (text = ''): number => Number(/\d+/.exec(text)?.[0]);
const sourceOf = (path: string): string => readFileSync(resolve(project, path), 'utf8');
const constantIn = (path: string, name: string): number =>
  firstNumberIn(new RegExp(`const ${name} = (\\d+);`).exec(sourceOf(path))?.[1]);

/** What users and contributors read: pages, hovers, messages. */
const TEXTS = [
  'README.md',
  'CONTRIBUTING.md',
  'build.ts',
  'docs/{*,guides/*}.md',
  '{lib,cdk,functions}/**/*.{ts,mjs}',
];

async function* lines(): AsyncGenerator<readonly [place: string, line: string, before: string]> {
  for await (const path of glob(TEXTS, { cwd: project })) {
    const all = sourceOf(path).split('\n');
    for (const [at, line] of all.entries()) yield [`${path}:${at + 1}`, line, all[at - 1] ?? ''];
  }
}

const day = 24 * 3_600_000;
const schedule = parseSchedule({ cron: '0 0 * * *', type: 't' }, 0);
if (!('spec' in schedule)) throw new Error('the schedule was refused');
const { spec } = schedule;

/** By its name, a fact: what is so, and how texts say it; the number is in the first group. `least`: in so many places. */
const FACTS: readonly (readonly [name: string, so: number, says: RegExp, least: number])[] = [
  [
    'days that rejections are kept',
    REJECTION_TTL_MS / day,
    /(?:refused|reason|sent).*(?:for|last|Kept for) (\d+) days/,
    3,
  ],
  ['KB of a payload', REQUEST_LIMITS.payloadBytes / 1_024, /(?:any|Any) JSON up to (\d+) KB/, 2],
  [
    'bytes of a label',
    REQUEST_LIMITS.labelBytes,
    /(?:free|Free) text for people who look at the job,.* (\d+) bytes/,
    2,
  ],
  ['requests of one submitMany', CLIENT_LIMITS.requests, /up to (\d+,\d+)(?: jobs)?, in batches/, 2],
  ['jobs that explain reads of a line', EXPLAIN_LIMITS.positionMax, /counted up to (\d+,\d+)/, 1],
  ['missed firings that are made up for', spec.misfireMax, /`misfireMax` \((\d+)\)/, 1],
  ['blackouts of a schedule', SCHEDULE_LIMITS.blackouts, /`blackouts` \| none \| up to (\d+)/, 1],
  [
    'jobs that must wait before a partition asks',
    LENDING_DEFAULTS.backlogThreshold,
    /`backlogThreshold` \| (\d+)/,
    1,
  ],
  ['units of one loan', LENDING_DEFAULTS.batch, /`batch` \| (\d+)/, 1],
  ['milliseconds that a loan counts', LENDING_DEFAULTS.loanMs, /`loanMs` \| (\d+,\d+)/, 1],
];

it.each(FACTS)('%s: %d wherever it is said', async (_, so, says, least) => {
  const said: [string, number][] = [];
  for await (const [place, line] of lines()) {
    const found = says.exec(line)?.[1];
    if (found !== undefined) said.push([place, Number(found.replaceAll(',', ''))]);
  }
  expect(said.filter(([, number]) => number !== so)).toEqual([]);
  expect(said.length).toBeGreaterThanOrEqual(least);
});

/** A version of Node.js that a text names. */
const NODE = /Node(?:\.js)?(?: (?:below|from))?[ -](\d+)( or later|\+)?/g;

it('the least Node.js is named once in the pages, in the README, and pages link there', async () => {
  const said: (readonly [place: string, version: number])[] = [];
  for await (const [place, line] of lines())
    if (/\.md:/.test(place))
      for (const { 1: version } of line.matchAll(NODE))
        said.push([place.replace(/:.*/, ''), Number(version)]);
  expect(said).toEqual([['README.md', firstNumberIn(engines.node)]]);
});

it('Node.js is one of three where sources name it: the least for users, the least that starts a checkout, and the one that functions run', async () => {
  const least = firstNumberIn(engines.node);
  const checkout = constantIn('lib/testing/launch.mjs', 'LEAST_NODE');
  const functions = firstNumberIn(devDependencies.node);
  expect(checkout).toBeLessThanOrEqual(least);
  expect([constantIn('lib/cli/main.ts', 'LEAST_NODE'), constantIn('cdk/handlers.ts', 'NODE_MIN')]).toEqual([
    least,
    least,
  ]);
  const wrong: string[] = [];
  let named = 0;
  for await (const [place, line] of lines()) {
    if (/\.md:/.test(place)) continue;
    for (const { 1: version, 2: orLater, index } of line.matchAll(NODE)) {
      named += 1;
      const isCheckout = /lib\/testing\/(launch|lock)\.mjs/.test(place);
      const allowed = isCheckout ? [checkout] : orLater === undefined ? [least, functions] : [least];
      if (!allowed.includes(Number(version)) && !/takes Node\.js|NODEJS_/.test(line))
        wrong.push(`${place}: ${line.slice(index, index + 40)}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(named).toBeGreaterThan(5);
});

it('the steps of a pass are listed once: in lib/dispatch/pass/pass.ts', async () => {
  const listing: string[] = [];
  for await (const [place, line] of lines())
    if (/\bsettle\b[^.]*\bplan\b[^.]*\b(commit|reserve|claim|send)\b/.test(line)) listing.push(place);
  expect(listing).toEqual([]);
  const head = sourceOf('lib/dispatch/pass/pass.ts').split('*/')[0] ?? '';
  const steps = [...head.matchAll(/^ \* {2}- (\w+): /gm)].map(({ 1: step }) => step);
  expect(steps).toEqual(['load', 'settle', 'plan', 'admit', 'close']);
});

it('what may be changed while jobs wait and run is said in one way: a hover refuses nothing that a page allows', async () => {
  expect(sourceOf('docs/scale.md')).toContain('**The number may be changed at any time**');
  const refusing: string[] = [];
  for await (const [place, line] of lines())
    if (/while jobs (wait|run).*(is|are) refused/.test(line)) refusing.push(place);
  expect(refusing).toEqual([]);
});
