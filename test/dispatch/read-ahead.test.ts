/** Lines that a pass reads before their turn, so that large passes do not wait for one read after the other. */
import { describe, expect, it } from 'vitest';
import type { LineName } from '../../lib/core/planner.ts';
import { isUsedUp, ReadAhead } from '../../lib/dispatch/line-parts.ts';

describe('lines to be read ahead', () => {
  const line = (fairnessKey: string): LineName => ({ type: 'resize', mode: 'queued', fairnessKey });
  const noted = (count: number): ReadAhead => {
    const ahead = new ReadAhead();
    for (let at = 0; at < count; at += 1) ahead.note(`${at}`, line(`${at}`));
    return ahead;
  };
  const take = (ahead: ReadAhead, room = Infinity): readonly string[] => {
    ahead.isReading = true;
    return ahead.take(room).map(([name]) => name);
  };

  it('are none the first time, and then more and more, in the order in which they were asked for', () => {
    const ahead = noted(1_000);
    const taken = Array.from({ length: 8 }, () => take(ahead));
    expect(taken.map(({ length }) => length)).toEqual([0, 8, 16, 32, 64, 128, 256, 256]);
    expect(taken.flat()).toEqual(Array.from({ length: 760 }, (_, at) => `${at}`));
  });

  it('are none where nothing is read, none that was forgotten, and no more than there is room for', () => {
    const ahead = noted(20);
    take(ahead);
    expect(ahead.take(Infinity)).toEqual([]);
    ahead.forget('1');
    expect(take(ahead, 3)).toEqual(['0', '2', '3']);
  });
});

describe('a line is used up', () => {
  it.each([
    ['where all that is known of it was offered, and it does not go on', 2, undefined, true],
    ['not where something is left', 1, undefined, false],
    ['not where it goes on', 2, {}, false],
  ])('%s', (_, offered, next, isSo) => {
    expect(isUsedUp({ jobs: ['one', 'two'], next: next as never }, offered)).toBe(isSo);
  });
});
