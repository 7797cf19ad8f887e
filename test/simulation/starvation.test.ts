/** What the simulation takes for starvation. */
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { starvationBoundMs } from '../../lib/core/score.ts';
import { Starvation } from './starvation.ts';

const HOLD_MS = 30_000;
const UNSEEN_MS = 100_000;
const configuration = resolveConfiguration({
  types: { resize: { timeoutMs: HOLD_MS }, pack: { timeoutMs: 1_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize', 'pack'], slots: 2 } },
});

function setting(fromMs = 0) {
  const at = { nowMs: 0 };
  return {
    at,
    starvation: new Starvation({
      configurations: () => [configuration],
      nowMs: () => at.nowMs,
      fromMs,
      unseenMs: UNSEEN_MS,
    }),
  };
}
const always = (): boolean => true;

describe('the bound on waiting beside free capacity', () => {
  it('is that of a job that nothing goes before and nobody overtakes, and what an unheard one takes to be seen', () => {
    const load = {
      type: 'resize',
      fairnessKey: 'k',
      mode: 'queued',
      priority: 10,
      activeKeys: 1,
      jobsAhead: 0,
    } as const;
    const still = { ...configuration, score: { ...configuration.score, rarity: 0, onDemand: 0 } };
    expect(setting().starvation.boundMs).toBe(starvationBoundMs(still, load) + UNSEEN_MS);
  });
});

describe('a job that may start', () => {
  it('starves once it could for longer than the bound, and not before', () => {
    const { at, starvation } = setting();
    expect(starvation.look(['job'], always)).toBeUndefined();
    at.nowMs = HOLD_MS + UNSEEN_MS;
    expect(starvation.look(['job'], always)).toBeUndefined();
    at.nowMs += 1;
    expect(starvation.look(['job'], always)).toBe('job may start since 130001 ms; the bound is 130000 ms');
  });

  it('does not starve if it has started, or could not start, in between', () => {
    const { at, starvation } = setting();
    starvation.look(['taken', 'looked at'], always);
    expect(starvation.suspects).toBe(2);
    at.nowMs = HOLD_MS + UNSEEN_MS;
    starvation.lookAgain((id) => id !== 'taken');
    starvation.look(['taken'], (id) => id !== 'looked at');
    at.nowMs += HOLD_MS;
    expect(starvation.look(['taken', 'looked at'], always)).toBeUndefined();
  });

  it('is counted from when nothing fails any more', () => {
    const { at, starvation } = setting(50_000);
    starvation.look(['job'], always);
    at.nowMs = 50_000;
    starvation.look(['job'], always);
    at.nowMs = HOLD_MS + UNSEEN_MS + 1;
    expect(starvation.look(['job'], always)).toBeUndefined();
    at.nowMs += 50_000;
    expect(starvation.look(['job'], always)).toBeDefined();
  });
});
