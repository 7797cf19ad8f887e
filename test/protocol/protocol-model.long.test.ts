/** The protocol's executable model, in every state: `protocol-model.test.ts` has the first ones, and what each protection is for. */
import { describe, expect, it } from 'vitest';
import { MODEL_MS, runModel } from './models.ts';

describe('the reserve-then-claim protocol', () => {
  it('holds its invariants in every state that its small world can reach', {
    timeout: MODEL_MS,
  }, async () => {
    const { code, lines } = await runModel();
    expect(lines).toEqual(['901442 states; no violation']);
    expect(code).toBe(0);
  });
});
