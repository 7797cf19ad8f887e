/** Messages of the wake queue as text. */
import { describe, expect, it } from 'vitest';
import { decodeWake, encodeLook, encodeWake } from '../../lib/queue/message.ts';

describe('a message of the wake queue', () => {
  it.each([0, 7, 1_763_971_200_123, 1_763_971_200_123.25])(
    'says for which instant a look was noted, to the last digit: %d',
    (atMs) => {
      expect(decodeWake(encodeLook(5, atMs))).toEqual({ partition: 5, asks: 'look', atMs });
    },
  );

  it.each([
    { partition: 3, asks: 'look' },
    { partition: 3, asks: 'look', atMs: 'soon' },
  ])('that asks for a look and does not say which goes on as a pass: %j', (message) => {
    expect(decodeWake(JSON.stringify(message))).toEqual({ partition: 3, asks: 'pass' });
  });

  it('says what a wake is for, and of which jobs', () => {
    expect(decodeWake(encodeWake(2))).toEqual({ partition: 2, asks: 'pass' });
    expect(decodeWake(encodeWake(2, 9, ['one']))).toEqual({
      partition: 2,
      asks: 'pass',
      dueAtMs: 9,
      jobIds: ['one'],
    });
  });
});
