/** The protocol's executable model, in every state: `protocol-model.test.ts` has the first ones, and what each protection is for. */
import { describe, expect, it } from 'vitest';
import { COMMIT_MODEL, LOAN_MODEL, LOCK_MODEL, MODEL_MS, REHOME_MODEL, run, runModel } from './models.ts';

describe('the reserve-then-claim protocol', () => {
  it('holds its invariants in every state that its small world can reach', {
    timeout: MODEL_MS,
  }, async () => {
    const { code, lines } = await runModel();
    expect(lines).toEqual(['901442 states; no violation']);
    expect(code).toBe(0);
  });
});

describe('a commit that is one write', () => {
  it('holds the invariants in the first million states that its small world can reach', {
    timeout: MODEL_MS,
  }, async () => {
    const { code, lines } = await run(COMMIT_MODEL, '--states', '1000000');
    expect(lines).toEqual([expect.stringMatching(/^\d+ states; no violation$/)]);
    expect(code).toBe(0);
  });
});

describe('the lock of a conflict key between partitions', () => {
  it('excludes, and is never left behind, in every state that its small world can reach', {
    timeout: MODEL_MS,
  }, async () => {
    const { code, lines } = await run(LOCK_MODEL);
    expect(lines).toEqual(['238147 states; no violation']);
    expect(code).toBe(0);
  });
});

describe('capacity that moves between partitions', () => {
  it('is never there twice, in every state that its small world can reach', {
    timeout: MODEL_MS,
  }, async () => {
    const { code, lines } = await run(LOAN_MODEL);
    expect(lines).toEqual(['261162 states; no violation']);
    expect(code).toBe(0);
  });
});

describe('jobs that move between partitions', () => {
  it('are safe in every state that their small world can reach', { timeout: MODEL_MS }, async () => {
    const { code, lines } = await run(REHOME_MODEL);
    expect(lines).toEqual(['690860 states; no violation']);
    expect(code).toBe(0);
  });

  it.each([
    ['move-what-is-settled', 15, 'J0 moved while R1 counts what it used'],
    ['move-after-come', 13, 'J0 moved while R1 counts what it used'],
    ['come-by-epoch', 14, 'jobs [0, 1] of one key run together'],
    ['read-after-come', 12, 'jobs [0, 1] of one key run together'],
    ['count-elsewhere', 14, 'jobs [0, 1] of one key run together'],
  ] as const)(
    'go wrong without %s after %d steps, which the model shows',
    { timeout: MODEL_MS },
    async (name, steps, violation) => {
      const { code, lines } = await run(REHOME_MODEL, '--break', name);
      const [verdict, ...trail] = lines;
      expect(verdict).toContain(`; violation: ${violation}`);
      expect(trail).toHaveLength(steps);
      expect(code).toBe(0);
    },
  );
});
