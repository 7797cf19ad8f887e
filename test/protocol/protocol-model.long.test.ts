/** The protocols' executable models, in every state: `protocol-model.test.ts` has the first ones, and what each rule is for. */
import { describe, expect, it } from 'vitest';
import { oneOf } from '../sample.ts';
import {
  CAS_MODEL,
  expectSafe,
  expectViolation,
  isExplored,
  LETTERS_MODEL,
  LOAN_MODEL,
  LOCK_MODEL,
  MODEL_MS,
  PARK_LOAN_MODEL,
  QUIET_MODEL,
  REHOME_MODEL,
  run,
  START_MODEL,
} from './models.ts';

/** So many states are explored where a run has no time for all. */
const STATES_FEW = 100_000;
const STATES = isExplored ? 1_000_000 : STATES_FEW;
const reached = isExplored ? 'every state' : `the first ${STATES_FEW} states`;

describe('the invariants', () => {
  it.each([
    [
      'leads and letters, with one lead and a death',
      LETTERS_MODEL,
      ['--world', 'ab', '--leads', '1'],
      1_798_452,
    ],
    ['the word that nothing waits', QUIET_MODEL, [], 332_796],
    ['the word that nothing waits, among three', QUIET_MODEL, ['--dispatchers', '3'], 336_309],
    ['parking', PARK_LOAN_MODEL, ['--world', 'park'], 2_655_779],
    ['the lock of a conflict key between partitions', LOCK_MODEL, [], 238_147],
    ['capacity that moves between partitions', LOAN_MODEL, [], 261_162],
    ['jobs that move between partitions', REHOME_MODEL, [], 814_660],
    ['starts that claim', START_MODEL, [], 890_832],
  ] as const)(
    `of %s hold in ${reached} that its small world can reach`,
    { timeout: MODEL_MS },
    async (_, model, options, states) => {
      if (!isExplored) return expectSafe(model, STATES_FEW, options);
      const { code, lines } = await run(model, ...options);
      expect(lines).toEqual([`${states} states; no violation`]);
      expect(code).toBe(0);
    },
  );

  it.each([
    ['a commit on condition of its version', CAS_MODEL, []],
    ['leads and letters', LETTERS_MODEL, []],
    ['leads and letters, where only leads read letters', LETTERS_MODEL, ['--woken-lead']],
    ['a loan between two summaries', PARK_LOAN_MODEL, ['--world', 'loan']],
  ] as const)(
    'of %s hold in the first states that its small world can reach',
    { timeout: MODEL_MS },
    (_, model, options) => expectSafe(model, STATES, options),
  );
});

describe('rules that take many states to be missed', () => {
  const rules = [
    [CAS_MODEL, 'turn', 15, 'J0 runs uncounted'],
    [CAS_MODEL, 'own-name', 26, 'J0 runs uncounted'],
    [LETTERS_MODEL, 'woken-loser-wakes', 16, "'a ended' waits for a tick"],
    [LETTERS_MODEL, 'view-by-version', 16, "'b came' waits for a tick"],
    [QUIET_MODEL, 'until-written', 17, 'c waits, and the summary says that nothing does'],
    [QUIET_MODEL, 'until-if-shown', 18, 'c waits, and the summary says that nothing does'],
    [QUIET_MODEL, 'woken-reads', 14, 'b waits where a slot is free, and nobody comes'],
    [START_MODEL, 'start-by-claim', 12, 'J0 holds capacity that nobody counts'],
    [REHOME_MODEL, 'move-what-is-settled', 13, 'J0 moved while R1 counts what it used'],
    [REHOME_MODEL, 'reserve-by-version', 12, 'jobs [0, 1] of one key run together'],
    [REHOME_MODEL, 'count-elsewhere', 12, 'jobs [0, 1] of one key run together'],
  ] as const;
  it.each(isExplored ? rules : oneOf('rules of many states', rules))(
    '%s goes wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    (model, name, steps, violation) => expectViolation(model, name, steps, violation),
  );

  const unneeded = ['take-then-read', 'release-own-only', 'first-look', 'superseded-looks', 'retake-forgets'];
  it.each(isExplored ? unneeded : oneOf('rules that letters do without', unneeded))(
    'leads and letters do without %s',
    { timeout: MODEL_MS },
    (name) => expectSafe(LETTERS_MODEL, 600_000, ['--break', name]),
  );
});
