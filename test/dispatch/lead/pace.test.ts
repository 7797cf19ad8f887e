/** When whoever keeps a partition makes passes of which nobody has told it. */
import { describe, expect, it } from 'vitest';
import { Pace } from '../../../lib/dispatch/lead/pace.ts';
import type { PassReport } from '../../../lib/dispatch/pass/scope.ts';

const PACE_MS = 170;

const report = (own: Partial<PassReport>): PassReport => ({
  kind: 'done',
  admitted: 0,
  settled: 0,
  lostClaims: 0,
  hints: [],
  isFull: false,
  lines: 150,
  ...own,
});

function scene() {
  let nowMs = 1_000_000;
  const clock = {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: async (): Promise<void> => {},
  };
  const pace = new Pace(clock);
  const pass = (own: Partial<PassReport> = {}, readsAnew = pace.isTimeToRead(), told = 0): boolean => {
    pace.begin(readsAnew);
    pace.end(report(own), told);
    return readsAnew;
  };
  /** A pass at each pace, for so long, each of which admits so many. Answers how many of them read all lines. */
  const lastingMs = (forMs: number, own: Partial<PassReport>, told = 0): number => {
    let reads = 0;
    for (const untilMs = nowMs + forMs; nowMs < untilMs; nowMs += PACE_MS)
      if (pass(own, pace.isTimeToRead(), told)) reads += 1;
    return reads;
  };
  const later = (ms: number): void => {
    nowMs += ms;
  };
  return { pace, pass, lastingMs, later };
}

describe('where slots are free', () => {
  it.each([
    ['wanted where lines are not read for what is new', { admitted: 3 }, 6, true],
    ['not wanted where they are', { admitted: 17 }, 17, false],
    [
      'not wanted where as much comes, and too many lines for that',
      { admitted: 17, lines: 1_000 },
      17,
      false,
    ],
    ['not wanted where as much comes, and few may start', { admitted: 1 }, 17, false],
  ])('a letter of each job is %s', (_, own, told, isWanted) => {
    const { pace, lastingMs } = scene();
    expect(pace.wantsLetters()).toBe(true);
    lastingMs(10_000, own, told);
    expect(pace.wantsLetters()).toBe(isWanted);
  });

  it('a few passes may follow each other at once, and more of them only at their pace', () => {
    const { pace, pass, later } = scene();
    const waits = Array.from({ length: 6 }, () => {
      pass();
      return pace.leftMs();
    });
    expect(waits.map((ms) => ms > 0)).toEqual([false, false, false, true, true, true]);
    later(PACE_MS * 10);
    pass();
    expect(pace.leftMs()).toBe(0);
  });

  it('lines are read at each pace where a hundred jobs a second wait in a hundred and fifty of them', () => {
    const { lastingMs } = scene();
    const passes = Math.ceil(10_000 / PACE_MS);
    expect(lastingMs(10_000, { admitted: 17 })).toBeGreaterThanOrEqual(passes - 4);
  });

  it('a leader that begins reads again after a pace, though the one before it has left little for its first pass', () => {
    const { pace, pass, later } = scene();
    expect(pass({ admitted: 1 })).toBe(true);
    later(PACE_MS / 4);
    expect(pass({ admitted: 0 })).toBe(false);
    expect(pace.wantsLetters()).toBe(true);
    later(2 * PACE_MS);
    expect(pass({ admitted: 17 })).toBe(true);
    expect(pace.wantsLetters()).toBe(false);
  });

  it('lines are read at each second pace where half as much comes for as many of them', () => {
    const { lastingMs } = scene();
    lastingMs(10_000, { admitted: 8 });
    const passes = Math.ceil(10_000 / PACE_MS);
    expect(lastingMs(10_000, { admitted: 8 })).toBeLessThanOrEqual(passes * 0.6);
  });

  it('lines that were just read are not read again before the next pace, however much comes', () => {
    const { pace, pass, lastingMs, later } = scene();
    lastingMs(10_000, { admitted: 500 });
    pass({ admitted: 500 }, true);
    later(PACE_MS / 4);
    expect(pace.isTimeToRead()).toBe(false);
  });

  it.each([
    ['one job a second', { admitted: 0.17 }],
    ['one job a second, with one line', { admitted: 0.17, lines: 1 }],
    ['a hundred a second, with three thousand lines', { admitted: 17, lines: 3_000 }],
  ])('lines are left alone where that would cost too much: %s', (_, own) => {
    const { lastingMs } = scene();
    lastingMs(3_000, own);
    expect(lastingMs(10_000, own)).toBe(0);
  });
});

describe('where a slot is free after a time without', () => {
  it('the next pass waits no longer than one pace, however many were made meanwhile', () => {
    const { pace, pass, later } = scene();
    for (let at = 0; at < 200; at += 1) {
      pass({ isFull: true, admitted: 5, settled: 5 });
      later(50);
    }
    pass();
    expect(pace.leftMs()).toBeLessThanOrEqual(PACE_MS);
  });
});

describe('where no slot is free', () => {
  it('a letter of each job is not wanted: none could start', () => {
    const { pace, pass } = scene();
    pass({ isFull: true });
    expect(pace.wantsLetters()).toBe(false);
    pass({ isFull: false });
    expect(pace.wantsLetters()).toBe(true);
  });

  it('passes are made of letters at once, and lines are not read anew', () => {
    const { pace, lastingMs, pass } = scene();
    lastingMs(5_000, { admitted: 17 });
    for (let at = 0; at < 10; at += 1) pass({ isFull: true, admitted: 17 }, false);
    expect([pace.leftMs(), pace.isTimeToRead()]).toEqual([0, false]);
  });
});
