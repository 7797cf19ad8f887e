/** The protocols' executable models: whole, they hold (`protocol-model.long.test.ts` has all states); without any one rule, they do not. */
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  CAS_MODEL,
  CONTENTION,
  expectSafe,
  expectViolation,
  LETTERS_MODEL,
  LOAN_MODEL,
  LOCK_MODEL,
  MODEL_MS,
  MODELLED,
  PARK_LOAN_MODEL,
  PRESENCE_MODEL,
  QUIET_MODEL,
  REHOME_MODEL,
  run,
  START_MODEL,
} from './models.ts';

it('follows files that are there', () => {
  expect(MODELLED.filter((path) => !existsSync(path))).toEqual([]);
});

const WAITS = 'waits for a tick';
const A_WAITS = `'a ended' ${WAITS}`;
const UNCOUNTED = 'J0 holds capacity that nobody counts';
const MOVED = 'J0 was moved and starts for R1, which was planned before';
const STRANDED = 'the key is free, and a job stands in its blocked line';
const NOT_QUIET = 'b waits, and the summary says that nothing does';
const NOT_WOKEN = 'b waits where a slot is free, and nobody comes';
const TOO_MANY = 'capacity 2 exceeded: 3 units are held';

/**
 * Each model's rules, the fewest steps that go wrong without it, and what goes wrong. `protocol-model.long.test.ts` has those that take many
 * states to be missed.
 */
const RULES: readonly (readonly [string, string, readonly (readonly [string, number, string])[]])[] = [
  [
    'a commit on condition of its version',
    CAS_MODEL,
    [
      ['tidy-by-version', 13, 'J0 runs for an item that is not its own'],
      ['item-first', 7, 'J0 runs for an item that is not its own'],
      ['send-after-commit', 4, 'J0 runs uncounted'],
      ['unknown-is-unknown', 8, 'J0 runs uncounted'],
      ['raise-before-drop', 12, 'J0 runs uncounted'],
      ['start-by-version', 13, 'J0 runs uncounted'],
    ],
  ],
  [
    'leads and letters',
    LETTERS_MODEL,
    [
      ['version', 8, A_WAITS],
      ['send-after-commit', 7, "['b'] runs uncounted"],
      ['second-look', 12, A_WAITS],
      ['release-then-look', 12, A_WAITS],
      ['look-when-expired', 12, A_WAITS],
      ['delete-after-commit', 8, A_WAITS],
      ['refused-deletes-nothing', 9, A_WAITS],
      ['delete-what-was-read', 14, A_WAITS],
      ['own-name', 17, `'b ended' ${WAITS}`],
      ['put-answered', 6, A_WAITS],
      ['fail-loudly', 2, A_WAITS],
      ['loser-leaves-letter', 5, A_WAITS],
      ['loser-wakes', 6, A_WAITS],
      ['letter-before-wake', 9, A_WAITS],
      ['waits-if-left', 4, `'b came' ${WAITS}`],
      ['no-silent-pass', 13, `'c came' ${WAITS}`],
    ],
  ],
  [
    'the word that nothing waits',
    QUIET_MODEL,
    [
      ['leave-clears', 4, NOT_QUIET],
      ['quiet-after-until', 9, NOT_QUIET],
      ['read-begins', 12, NOT_QUIET],
      ['all-lines', 12, NOT_QUIET],
      ['wake-at-until', 9, NOT_WOKEN],
      ['dropped-is-told', 11, NOT_QUIET],
      ['version', 8, NOT_QUIET],
    ],
  ],
  [
    'parking, and a loan between two summaries',
    PARK_LOAN_MODEL,
    [
      ['park-fence', 7, STRANDED],
      ['park-turns', 7, STRANDED],
      ['move-before-commit', 8, STRANDED],
      ['lend-version', 8, 'P0 runs 1, and has lent 1 of 1'],
      ['return-version', 16, 'P1 runs 2, and has 1 and 0 borrowed'],
      ['page-first', 8, 'P0 runs 1, and has lent 1 of 1'],
      ['lender-waits', 15, 'P1 runs 2, and has 1 and 0 borrowed'],
    ],
  ],
  [
    'starts that claim',
    START_MODEL,
    [
      ['send-after-commit', 3, UNCOUNTED],
      ['unknown-is-unknown', 6, UNCOUNTED],
      ['known-by-commit', 9, UNCOUNTED],
      ['start-by-version', 6, MOVED],
      ['claim-by-version', 9, UNCOUNTED],
      ['send-again-as-planned', 7, MOVED],
      ['give-up-by-version', 8, UNCOUNTED],
      ['drop-after-raise', 9, UNCOUNTED],
      ['settle-what-ended', 8, UNCOUNTED],
      ['move-raises-version', 6, MOVED],
      ['turn', 8, UNCOUNTED],
      ['id-outlives-messages', 10, UNCOUNTED],
    ],
  ],
  [
    'the lock of a conflict key between partitions',
    LOCK_MODEL,
    [
      ['claim-takes-lock', 6, 'jobs [0, 1] of one conflict key run together'],
      ['release-by-claim', 7, 'J1 runs without the lock'],
      ['release-after-end', 4, 'J0 runs without the lock'],
      ['release-before-drop', 5, 'the lock is held for R1, which nobody will settle'],
      ['blocked-raises-version', 10, 'J1 holds capacity that nobody counts'],
    ],
  ],
  [
    'capacity that moves between partitions',
    LOAN_MODEL,
    [
      ['commit-turn-check', 9, TOO_MANY],
      ['lender-counts-loan', 12, TOO_MANY],
      ['return-by-borrower', 12, TOO_MANY],
      ['return-what-is-free', 15, TOO_MANY],
    ],
  ],
  [
    'jobs that move between partitions',
    REHOME_MODEL,
    [
      ['move-as-read', 9, 'J0 may start before its time'],
      ['move-raises-version', 9, 'J0 lives in P1 and stands in a line of P0'],
      ['announce-before-move', 6, 'J0 stands in a line of P1 that nobody knows of'],
      ['park-as-read', 10, 'J0 lives in P1 and stands in a line of P0'],
      ['retime-by-version', 9, 'J0 lives in P1 and stands in a line of P0'],
      ['start-after-come', 7, 'jobs [0, 1] of one key run together'],
      ['read-after-come', 10, 'jobs [0, 1] of one key run together'],
    ],
  ],
];

describe.each(RULES)('%s', (_, model, rules) => {
  it.each(rules)(
    'goes wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    (name, steps, violation) => expectViolation(model, name, steps, violation),
  );

  it('refuses a rule that it does not know', async () => {
    const { code, lines } = await run(model, '--break', 'good-luck');
    expect(lines[0]).toContain(`good-luck: one of `);
    expect(code).toBe(1);
  });
});

describe('the invariants', () => {
  it.each([
    ['a commit on condition of its version', CAS_MODEL, 20_000, []],
    ['leads and letters', LETTERS_MODEL, 50_000, []],
    ['leads and letters, where only leads read letters', LETTERS_MODEL, 50_000, ['--woken-lead']],
    ['the word that nothing waits', QUIET_MODEL, 30_000, []],
    ['parking', PARK_LOAN_MODEL, 30_000, ['--world', 'park']],
    ['a loan between two summaries', PARK_LOAN_MODEL, 30_000, ['--world', 'loan']],
    ['starts that claim', START_MODEL, 15_000, []],
    ['jobs that move between partitions', REHOME_MODEL, 15_000, []],
  ] as const)(
    'of %s hold in the first states that its small world can reach',
    { timeout: MODEL_MS },
    (_, model, states, options) => expectSafe(model, states, options),
  );
});

describe('the tick', () => {
  it.each([
    ['leader-dies', 7],
    ['batch-given-up', 2],
    ['wake-given-up', 8],
  ])('is needed for what nothing else finds: %s', { timeout: MODEL_MS }, async (name, steps) => {
    const { code, lines } = await run(LETTERS_MODEL, '--no-excuse', name);
    expect(lines[0]).toContain(`; violation: ${A_WAITS}`);
    expect([code, lines.length]).toEqual([0, 1 + steps]);
  });
});

describe('contention for one summary', () => {
  it('wastes tries, but commits do not collapse; a slow pass among four never commits, so it asks for a lead', async () => {
    const { code, lines } = await run(CONTENTION);
    const committed = lines
      .flatMap((line) => /^ ?\d+ shards: +([\d.]+) commits/.exec(line)?.[1] ?? [])
      .map(Number);
    expect(committed).toHaveLength(6);
    expect(committed).toEqual(committed.toSorted((one, other) => one - other));
    expect(lines.find((line) => line.startsWith('16 shards:'))).toContain('refused/s ( 90%)');
    expect(lines).toContainEqual(
      expect.stringMatching(/^4 shards, one of 120 ms: .*; the slow one 0\.00 commits/),
    );
    expect(code).toBe(0);
  });
});

describe('a key that hoards and then floods', () => {
  it(
    'starves the others for minutes by a tolerance in time, and for seconds by a bounded credit',
    async () => {
      const { code, lines } = await run(PRESENCE_MODEL);
      expect(code).toBe(0);
      const starved = lines.map((line) =>
        [...line.matchAll(/starve (\d+) s/g)].map(([, seconds]) => Number(seconds)),
      );
      expect(starved).toHaveLength(3);
      expect(Math.max(...starved.map(([plan = 0]) => plan))).toBeGreaterThan(240);
      expect(Math.max(...starved.map(([, zero = 0]) => zero))).toBeGreaterThan(240);
      for (const [, , credit] of starved) expect(credit).toBeLessThanOrEqual(5);
    },
    MODEL_MS,
  );
});
