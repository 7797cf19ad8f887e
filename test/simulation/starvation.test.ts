/** What the simulation takes for starvation. */
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { overtakenForMs, starvationBoundMs } from '../../lib/core/score.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { Starvation, Turns } from './starvation.ts';

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

describe('a job of a pool that is given more than it can do', () => {
  const SLACK_MS = 1_000;
  const jobs = (
    onDemandAgeSec: number,
  ): { readonly turns: Turns; readonly first: Job; readonly boundMs: number } => {
    const pool = { ...configuration, score: { ...configuration.score, onDemandAgeSec } };
    const turns = new Turns(pool, SLACK_MS);
    const of = { type: 'resize', fairnessKey: 'k', priority: 0, readyAtMs: NOW_MS } as const;
    const first = aJob({ ...of, id: '1', mode: 'queued' });
    const untilMs = NOW_MS + overtakenForMs(first, pool.score);
    turns.onAccepted(first);
    turns.onAccepted(aJob({ ...of, id: '2', mode: 'onDemand', readyAtMs: untilMs }));
    // It comes too late to be before it.
    turns.onAccepted(aJob({ ...of, id: '3', mode: 'onDemand', readyAtMs: untilMs + 1 }));
    const load = { ...of, mode: 'queued', activeKeys: 1, jobsAhead: 1 } as const;
    return { turns, first, boundMs: starvationBoundMs(pool, load) };
  };

  it('is overdue after the documented bound of those that may be before it, and what is to spare, not sooner', () => {
    const { turns, first, boundMs } = jobs(0);
    expect(turns.overdue(first, NOW_MS + boundMs + SLACK_MS)).toBeUndefined();
    expect(turns.overdue(first, NOW_MS + boundMs + SLACK_MS + 1)).toMatch(/^1 waits for \d+ ms, queued/);
  });

  it('is promised nothing where it is queued, and on-demand jobs of its key age faster', () => {
    const { turns, first } = jobs(32);
    expect(turns.overdue(first, Number.MAX_SAFE_INTEGER)).toBeUndefined();
    expect(turns.boundMs({ ...first, mode: 'onDemand' })).toBeLessThan(Number.POSITIVE_INFINITY);
    expect(turns.isHeldBack({ ...first, fairnessKey: 'other' })).toBe(false);
  });
});
