/** The real clock and log. */
import { describe, expect, it } from 'vitest';
import { fromLevel, jsonLog, systemClock } from '../../lib/runtime/system.ts';

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

  it('writes what JSON does not know as text, and fields that cannot be read not at all', () => {
    const lines: string[] = [];
    const log = jsonLog((line) => lines.push(line));
    const round: Record<string, unknown> = {};
    round.self = round;
    log.error('broken', { error: new RangeError('no'), count: 1n });
    log.warn('round', { round });
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      error: { name: 'RangeError', message: 'no', stack: expect.stringContaining('RangeError: no') },
      count: '1',
    });
    expect(lines[1]).toBe('{"level":"warn","message":"round"}');
  });

  it.each([
    ['', ['info', 'warn', 'error']],
    ['debug', ['debug', 'info', 'warn', 'error']],
    ['WARN', ['warn', 'error']],
    ['SILENT', []],
  ])('begins at the level %j', (level, written) => {
    const lines: string[] = [];
    const { debug, info, warn, error } = fromLevel(
      jsonLog((line) => lines.push(line)),
      level,
    );
    for (const write of [debug, info, warn, error]) write?.('x');
    expect(lines.map((line) => (JSON.parse(line) as { level: string }).level)).toEqual(written);
  });
});
