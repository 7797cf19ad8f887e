/** The real clock and log. */
import { describe, expect, it } from 'vitest';
import { jsonLog, systemClock } from '../../lib/runtime/system.ts';

describe('the clock', () => {
  it('wakes who sleeps when the signal aborts, and never rejects', async () => {
    const ending = new AbortController();
    const slept = systemClock.sleep(3_600_000, ending.signal);
    ending.abort(new Error('any reason'));
    await expect(slept).resolves.toBeUndefined();
    await expect(systemClock.sleep(3_600_000, ending.signal)).resolves.toBeUndefined();
  });

  it.each([0, -1])('does not sleep for %i ms', async (ms) => {
    await expect(systemClock.sleep(ms)).resolves.toBeUndefined();
  });

  it('measures with a clock that does not go back', () => {
    const before = systemClock.monotonicMs();
    expect(systemClock.monotonicMs()).toBeGreaterThanOrEqual(before);
    expect(Math.abs(systemClock.nowMs() - Date.now())).toBeLessThan(1_000);
  });
});

describe('the log', () => {
  it('writes one JSON object a line', () => {
    const lines: string[] = [];
    const log = jsonLog((line) => lines.push(line));
    log.info('began', { text: 'two\nlines' });
    log.warn('ended');
    expect(lines).toEqual([
      '{"level":"info","message":"began","text":"two\\nlines"}',
      '{"level":"warn","message":"ended"}',
    ]);
  });
});
