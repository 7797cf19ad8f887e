/**
 * The numbers that the source texts call adjustable: each can be declared, and is by default what its text says.
 * docs/decisions/declaration.md lists them for people.
 */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { LENDING_DEFAULTS, LOST_CLAIMS_IN_A_ROW, resolveConfiguration } from '../../lib/core/defaults.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { type FleetWorkerOptions, runFleetWorker } from '../../lib/worker/fleet-worker.ts';
import { settingsOf } from '../../lib/worker/process/options.ts';

/** A text calls it adjustable and names no number. */
const NONE = Symbol('no number');

type Row = [text: 'A' | 'C' | 'D', path: string, inText: unknown, another: unknown, byDefault?: unknown];

/** The last column: the default of a field that the configuration leaves out. */
const POOL_FIELDS: Row[] = [
  ['A', 'score.priority', 1024, 512],
  ['A', 'score.ageSec', 16, 32],
  ['A', 'score.rarity', 500, 0],
  ['A', 'score.onDemand', 4096, 2048],
  ['A', 'score.onDemandAgeSec', 32, 64],
  ['A', 'lostClaimsInARow', 5, 9, LOST_CLAIMS_IN_A_ROW],
  ['C', 'fairness.alpha', 0.3, 0.5],
  ['C', 'types.0.defaultCostMs', NONE, 7],
  ['C', 'types.0.conflictGroup', null, 'git'],
  ['C', 'types.0.maxConcurrency', null, 50],
  ['C', 'tiers.0.maxConcurrency', null, 40],
  ['C', 'fairness.keyTtlMs', NONE, 60_000],
  ['C', 'fairness.estimateTtlMs', NONE, 60_000],
  ['C', 'fairness.resetEveryMs', null, 60_000],
  ['C', 'fairness.idlePolicy', 'advance', 'none'],
  ['C', 'fairness.creditMs', NONE, 60_000],
  ['D', 'lending.backlogThreshold', NONE, 3, LENDING_DEFAULTS.backlogThreshold],
  ['D', 'lending.lentShare', NONE, 0.25, LENDING_DEFAULTS.lentShare],
  ['D', 'lending.batch', NONE, 20, LENDING_DEFAULTS.batch],
  ['D', 'lending.maxBorrowed', NONE, 20, LENDING_DEFAULTS.maxBorrowed],
  ['D', 'lending.loanMs', NONE, 60_000, LENDING_DEFAULTS.loanMs],
];

/** A heartbeat each 5 seconds; a worker that misses three of them is lost. */
const WORKER_OPTIONS: readonly (readonly [name: keyof FleetWorkerOptions, inText: number])[] = [
  ['heartbeatMs', 5_000],
  ['leaseMs', 3 * 5_000],
];

const at = (value: unknown, path: string): unknown =>
  path.split('.').reduce((inner, name) => Reflect.get(Object(inner), name) as unknown, value);

/** A pool of two partitions that declares this field alone. */
function declaring(path: string, value: unknown): PoolInput {
  const [group = '', name = '', field = ''] = path.split('.');
  const pool = { types: { pdf: { tier: 'only' } }, tiers: [{ tier: 'only' }], partitions: 2 };
  if (group === 'types') return { ...pool, types: { pdf: { tier: 'only', [field]: value } } };
  if (group === 'tiers') return { ...pool, tiers: [{ tier: 'only', [field]: value }] };
  return { ...pool, [group]: name === '' ? value : { [name]: value } };
}

it.each(POOL_FIELDS)('text %s: %s', (_, path, inText, another, byDefault) => {
  const [silent, declared] = [declaring('partitions', 2), declaring(path, another)].map(resolveConfiguration);
  const inForce = at(silent, path) ?? byDefault ?? null;
  if (inText === NONE) expect(inForce).not.toBeNull();
  else expect(inForce).toEqual(inText);
  expect(at(declared, path)).toEqual(another);
  expect(another).not.toEqual(inForce);
});

it.each(WORKER_OPTIONS)('text D: %s of runFleetWorker', async (name, inText) => {
  const configuration = resolveConfiguration(declaring('partitions', 2));
  const options = { configuration, fleet: 'pdf', slots: 1, workerId: 'w', handlers: { pdf: () => null } };
  expect(settingsOf(options as never)).toHaveProperty(name, inText);
  expect(settingsOf({ ...options, heartbeatMs: 6_000, leaseMs: 20_000 } as never)).not.toHaveProperty(
    name,
    inText,
  );
  await expect(async () => runFleetWorker({ pdf: () => null }, { [name]: -1 })).rejects.toThrow(name);
});

it('the list in docs/decisions/declaration.md names these, and no others', () => {
  const page = readFileSync(new URL('../../docs/decisions/declaration.md', import.meta.url), 'utf8');
  const section = page.slice(page.indexOf('## Numbers that the source texts call adjustable'));
  const where = [...section.matchAll(/^\| [A-D], [^|]*\|[^|]*\|([^|]*)\|$/gm)].map(
    ({ 1: cell = '' }) => cell,
  );
  const listed = where.flatMap((cell) => [...cell.matchAll(/`([\w.]+)`/g)].map(({ 1: path = '' }) => path));
  const known = [
    ...POOL_FIELDS.map(([, path]) => path),
    ...WORKER_OPTIONS.map(([name]) => name),
    'runFleetWorker',
  ];
  const isOf = (path: string, name: string): boolean =>
    path === name || path.endsWith(`.${name}`) || path.startsWith(`${name}.`);
  expect(where.length).toBeGreaterThan(0);
  expect(listed.filter((name) => !known.some((path) => isOf(path, name)))).toEqual([]);
  expect(known.filter((path) => !listed.some((name) => isOf(path, name)))).toEqual([]);
});
