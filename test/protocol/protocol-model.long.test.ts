/** The protocol's executable model, in every state: `protocol-model.test.ts` has the first ones, and what each protection is for. */
import { describe, expect, it } from 'vitest';
import { oneOf } from '../sample.ts';
import {
  COMMIT_MODEL,
  expectSafe,
  expectViolation,
  isExplored,
  LOAN_MODEL,
  LOCK_MODEL,
  MODEL,
  MODEL_MS,
  REHOME_MODEL,
  RESERVATION_MODEL,
  run,
  START_MODEL,
} from './models.ts';

/** So many states are explored where a run has no time for all. */
const STATES_FEW = 100_000;
const STATES = isExplored ? 1_000_000 : STATES_FEW;

describe.each([
  ['the reserve-then-claim protocol', 'holds its invariants', MODEL, 901_442],
  [
    'the lock of a conflict key between partitions',
    'excludes, and is never left behind,',
    LOCK_MODEL,
    238_147,
  ],
  ['capacity that moves between partitions', 'is never there twice,', LOAN_MODEL, 261_162],
  ['jobs that move between partitions', 'are safe', REHOME_MODEL, 690_860],
  ['starts that claim', 'are safe', START_MODEL, 925_243],
] as const)('%s', (_subject, does, model, states) => {
  const reached = isExplored ? 'every state' : `the first ${STATES_FEW} states`;
  it(`${does} in ${reached} that its small world can reach`, { timeout: MODEL_MS }, async () => {
    if (!isExplored) return expectSafe(model, STATES_FEW);
    const { code, lines } = await run(model);
    expect(lines).toEqual([`${states} states; no violation`]);
    expect(code).toBe(0);
  });
});

describe('a commit that is one write', () => {
  it(
    `holds the invariants in the first ${STATES} states that its small world can reach`,
    {
      timeout: MODEL_MS,
    },
    () => expectSafe(COMMIT_MODEL, STATES),
  );
});

describe('reservations whose items are put before the page', () => {
  it.each([
    ['by dispatchers of this version', []],
    ['beside one of an earlier version', ['--earlier']],
  ] as const)(
    `hold the invariants in the first ${STATES} states that their small world can reach: %s`,
    {
      timeout: MODEL_MS,
    },
    (_, options) => expectSafe(RESERVATION_MODEL, STATES, options),
  );
});

describe('jobs that move between partitions', () => {
  const protections = [
    ['move-what-is-settled', 15, 'J0 moved while R1 counts what it used'],
    ['move-after-come', 13, 'J0 moved while R1 counts what it used'],
    ['come-by-epoch', 14, 'jobs [0, 1] of one key run together'],
    ['read-after-come', 12, 'jobs [0, 1] of one key run together'],
    ['count-elsewhere', 14, 'jobs [0, 1] of one key run together'],
  ] as const;
  it.each(isExplored ? protections : oneOf('what moves', protections))(
    'go wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    (name, steps, violation) => expectViolation(REHOME_MODEL, name, steps, violation),
  );
});

describe('protections that take many steps to be missed', () => {
  const protections = [
    {
      of: 'starts that claim',
      model: START_MODEL,
      name: 'start-by-claim',
      steps: 14,
      by: 'J0 holds capacity that nobody counts',
    },
    {
      of: 'starts that claim',
      model: START_MODEL,
      name: 'known-by-commit',
      steps: 12,
      by: 'J1 holds capacity that nobody counts',
    },
  ];
  it.each(isExplored ? protections : oneOf('many steps', protections))(
    'are: $of, without $name',
    { timeout: MODEL_MS },
    ({ model, name, steps, by }) => expectViolation(model, name, steps, by),
  );
});
