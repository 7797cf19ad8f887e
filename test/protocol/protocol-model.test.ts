/** The protocols' executable models: whole, they hold (`protocol-model.long.test.ts` has all states); without any one protection, they do not. */
import { describe, expect, it } from 'vitest';
import {
  COMMIT_MODEL,
  expectSafe,
  expectViolation,
  LOAN_MODEL,
  LOCK_MODEL,
  MODEL_MS,
  PRESENCE_MODEL,
  REHOME_MODEL,
  RESERVATION_MODEL,
  run,
  runModel,
  START_MODEL,
} from './models.ts';

/** Of the protocol's states; `protocol-model.long.test.ts` has all 901,442. */
const STATES = 10_000;

/** Each protection, the fewest steps that go wrong without it, and what goes wrong. */
const PROTECTIONS = [
  ['reserve-epoch-check', 10, 'capacity 1 exceeded by jobs [0, 1]'],
  ['reserve-before-claim', 5, 'J0 holds capacity that nobody counts'],
  ['claim-version', 7, 'J0 holds capacity that nobody counts'],
  ['give-up-by-version', 6, 'J0 holds capacity that nobody counts'],
  ['start-claim-check', 7, 'J0 holds capacity that nobody counts'],
] as const;

const LOCK_PROTECTIONS = [
  ['claim-takes-lock', 6, 'jobs [0, 1] of one conflict key run together'],
  ['release-by-claim', 7, 'J1 runs without the lock'],
  ['release-after-end', 4, 'J0 runs without the lock'],
  ['release-before-drop', 5, 'the lock is held for R1, which nobody will settle'],
  ['blocked-raises-version', 10, 'J1 holds capacity that nobody counts'],
] as const;

const COMMIT_PROTECTIONS = [
  ['turn', 9, 'a superseded dispatcher'],
  ['page-epoch', 6, 'a superseded dispatcher'],
  ['fence-first', 5, 'a superseded dispatcher'],
  ['take-what-was-fenced', 8, 'a superseded dispatcher'],
  ['release-says-writing', 6, 'a superseded dispatcher'],
  ['unknown-is-unknown', 6, 'J0 holds capacity that nobody counts'],
  ['open-is-fenced', 7, 'a superseded dispatcher'],
  ['open-was-not-fenced', 11, 'a superseded dispatcher'],
] as const;

const UNCOUNTED = 'J0 holds capacity that nobody counts';

const RESERVATION_PROTECTIONS = [
  ['put-first', 6, UNCOUNTED],
  ['put-if-absent', 9, 'J1 holds capacity that nobody counts'],
  ['void-by-turn', 8, UNCOUNTED],
  ['missing-reads-again', 10, UNCOUNTED],
  ['unknown-is-unknown', 7, UNCOUNTED],
  ['commit-before-claim', 4, UNCOUNTED],
  ['turn', 9, UNCOUNTED],
  ['epoch', 5, 'a superseded dispatcher'],
  ['no-names-count-all', 10, UNCOUNTED],
] as const;

const MOVED = 'J0 was moved and starts for R11, which was planned before';

/** `protocol-model.long.test.ts` has `start-by-claim` and `known-by-commit`. */
const START_PROTECTIONS = [
  ['send-after-commit', 4, UNCOUNTED],
  ['unknown-is-unknown', 7, UNCOUNTED],
  ['start-by-version', 7, MOVED],
  ['claim-by-version', 11, UNCOUNTED],
  ['send-again-as-planned', 9, MOVED],
  ['give-up-by-version', 9, UNCOUNTED],
  ['drop-after-raise', 10, UNCOUNTED],
  ['settle-what-ended', 9, UNCOUNTED],
  ['move-raises-version', 7, MOVED],
  ['turn', 10, UNCOUNTED],
  ['epoch', 5, 'a superseded dispatcher'],
  ['id-outlives-messages', 11, UNCOUNTED],
] as const;

const LOAN_PROTECTIONS = [
  ['commit-turn-check', 9],
  ['lender-counts-loan', 12],
  ['return-by-borrower', 12],
  ['return-what-is-free', 15],
] as const;

describe('the reserve-then-claim protocol', () => {
  it(`holds its invariants in the first ${STATES} states that its small world can reach`, {
    timeout: MODEL_MS,
  }, async () => {
    const { code, lines } = await runModel('--states', String(STATES));
    expect(lines).toEqual([expect.stringMatching(/^\d+ states; no violation$/)]);
    expect(Number.parseInt(lines[0] ?? '', 10)).toBeGreaterThanOrEqual(STATES);
    expect(code).toBe(0);
  });

  it.each(PROTECTIONS)(
    'goes wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    async (name, steps, violation) => {
      const { code, lines } = await runModel('--break', name);
      const [verdict, ...trail] = lines;
      expect(verdict).toMatch(/^\d+ states; violation: /);
      expect(verdict).toContain(violation);
      const numbers = Array.from({ length: steps }, (_, at) => at + 1);
      expect(trail.map((line) => Number.parseInt(line, 10))).toEqual(numbers);
      expect(trail[0]).toMatch(/^ {2}1\. D[01] takes the lease$/);
      expect(code).toBe(0);
    },
  );

  it('refuses a protection that it does not know', async () => {
    const { code, lines } = await runModel('--break', 'good-luck');
    expect(lines[0]).toMatch(/^unknown protection good-luck: one of reserve-epoch-check, /);
    expect(code).toBe(1);
  });
});

describe('a commit that is one write', () => {
  it(
    'holds the invariants in the first states that its small world can reach',
    {
      timeout: MODEL_MS,
    },
    () => expectSafe(COMMIT_MODEL, STATES),
  );

  it.each(COMMIT_PROTECTIONS)(
    'goes wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    (name, steps, violation) => expectViolation(COMMIT_MODEL, name, steps, violation),
  );
});

describe('reservations whose items are put before the page', () => {
  it.each([
    ['by dispatchers of this version', []],
    ['beside one of an earlier version', ['--earlier']],
  ] as const)(
    'hold the invariants in the first states that their small world can reach: %s',
    {
      timeout: MODEL_MS,
    },
    (_, options) => expectSafe(RESERVATION_MODEL, STATES, options),
  );

  it.each(RESERVATION_PROTECTIONS)(
    'go wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    (name, steps, violation) => expectViolation(RESERVATION_MODEL, name, steps, violation),
  );
});

describe('starts that claim', () => {
  it(
    'are safe in the first states that their small world can reach',
    {
      timeout: MODEL_MS,
    },
    () => expectSafe(START_MODEL, STATES),
  );

  it.each(START_PROTECTIONS)(
    'go wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    (name, steps, violation) => expectViolation(START_MODEL, name, steps, violation),
  );

  it('refuse a protection that they do not know', async () => {
    const { code, lines } = await run(START_MODEL, '--break', 'good-luck');
    expect(lines[0]).toMatch(/^unknown protection good-luck: one of send-after-commit, /);
    expect(code).toBe(1);
  });
});

describe('the lock of a conflict key between partitions', () => {
  it.each(LOCK_PROTECTIONS)(
    'goes wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    (name, steps, violation) => expectViolation(LOCK_MODEL, name, steps, violation),
  );
});

describe('capacity that moves between partitions', () => {
  it.each(LOAN_PROTECTIONS)(
    'goes wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    (name, steps) => expectViolation(LOAN_MODEL, name, steps, 'capacity 2 exceeded: 3 units are held'),
  );
});

describe('jobs that move between partitions', () => {
  it('are safe in the first states that their small world can reach', { timeout: MODEL_MS }, () =>
    expectSafe(REHOME_MODEL, STATES),
  );

  it.each([
    ['move-as-read', 9, 'J0 may start before its time'],
    ['move-raises-version', 9, 'J0 lives in P1 and stands in a line of P0'],
    ['announce-before-move', 6, 'J0 stands in a line of P1 that nobody knows of'],
    ['park-as-read', 11, 'J0 lives in P1 and stands in a line of P0'],
    ['retime-by-version', 9, 'J0 lives in P1 and stands in a line of P0'],
    ['start-after-come', 8, 'jobs [0, 1] of one key run together'],
  ] as const)(
    'go wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    (name, steps, violation) => expectViolation(REHOME_MODEL, name, steps, violation),
  );
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
