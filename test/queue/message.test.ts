/** Messages as text: to a fleet's queue, and to the wake queue. */

import { describe, expect, it } from 'vitest';
import { RefusedError } from '../../lib/core/errors.ts';
import {
  decodeDispatchMessage,
  decodeOutcomes,
  decodeWake,
  encodeDispatchMessage,
  encodeLook,
  encodeOutcomes,
  encodeWake,
  wakeIn,
} from '../../lib/queue/message.ts';

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
    expect(decodeWake(encodeWake({ partition: 2 }))).toEqual({ partition: 2, asks: 'pass' });
    expect(decodeWake(encodeWake({ partition: 2, dueAtMs: 9, jobIds: ['one'] }))).toEqual({
      partition: 2,
      asks: 'pass',
      dueAtMs: 9,
      jobIds: ['one'],
    });
  });

  it('names at most fifty jobs, and what may be one: whoever may send a message may name anything', () => {
    const longest = 'x'.repeat(256);
    const odd = ['', `${longest}x`, 'é'.repeat(129), '\ud800', 7, null, ['one']];
    expect(wakeIn({ partition: 1, jobIds: [...odd, longest, 'two\nlines'] })).toEqual({
      partition: 1,
      asks: 'pass',
      jobIds: [longest, 'two\nlines'],
    });
    expect(wakeIn({ partition: 1, jobIds: odd })).toEqual({ partition: 1, asks: 'pass' });
    const many = wakeIn({ partition: 1, jobIds: Array.from({ length: 51 }, (_, at) => `job-${at}`) });
    expect(many).toMatchObject({ jobIds: { length: 50 } });
  });

  it('names fifty jobs at most, and asks for nothing but passes and looks, whatever a producer writes into it', () => {
    const jobIds = Array.from({ length: 10_000 }, (_, at) => `job-${at}`);
    expect(decodeWake(JSON.stringify({ partition: 0, jobIds }))).toMatchObject({
      jobIds: jobIds.slice(0, 50),
    });
    expect(decodeWake(JSON.stringify({ asks: 'publish', jobIds }))).toBeUndefined();
  });
});

describe('a message of the outbox', () => {
  it('names what may be jobs and schedules, and its reason for people only', () => {
    const unpublished = { jobIds: ['one'], scheduleIds: ['nightly'], tries: 2 };
    expect(decodeOutcomes(encodeOutcomes(unpublished, 'MalformedDetail: no'))).toEqual(unpublished);
    const body = JSON.stringify({ jobIds: ['one', 'x'.repeat(2_100)], tries: 2 });
    expect(decodeOutcomes(body)).toEqual({ jobIds: ['one'], tries: 2 });
  });

  it.each(['not JSON', 'null', '7', '{"jobIds":7,"tries":"often"}'])('that says %s names nothing', (body) => {
    expect(decodeOutcomes(body)).toEqual({ jobIds: [], tries: 1 });
  });
});

describe("a message of a fleet's queue", () => {
  const toClaim = { version: 3, fleet: 'images', claimedAtMs: 1_763_971_200_123.25, declared: 7 };
  const claimed = { jobId: 'one', claimId: '5-abcdefgh0@3.4' };
  const planned = { ...claimed, jobId: 'two', toClaim };

  it.each([
    ['one that is claimed', [claimed]],
    ['one that its start claims', [planned]],
    ['one with a latest start', [{ ...planned, startByMs: 1_763_971_206_123.25 }]],
    [
      'one with what was full while it waited',
      [{ ...planned, blockedBy: ['cap key/acme', 'noSlot fleet/images'] }],
    ],
    ['several', [planned, claimed, { ...planned, toClaim: { ...toClaim, declared: undefined } }]],
  ])('says all that a start is told: %s', (_, jobs) => {
    expect(decodeDispatchMessage(encodeDispatchMessage(jobs))).toEqual(jobs);
  });

  it.each([
    ['no version', { ...toClaim, version: undefined }],
    ['half a version', { ...toClaim, version: 1.5 }],
    ['a version as text', { ...toClaim, version: '3' }],
    ['no fleet', { ...toClaim, fleet: undefined }],
    ['no time', { ...toClaim, claimedAtMs: undefined }],
    ['an odd declaration', { ...toClaim, declared: 'newest' }],
    ['nothing', null],
    ['text', 'soon'],
  ])('with a claim that says %s is refused, and with it all that the message names', (_, odd) => {
    const body = JSON.stringify({ jobs: [planned, { ...claimed, toClaim: odd }] });
    expect(() => decodeDispatchMessage(body)).toThrow(RefusedError);
  });

  it.each([
    ['no list', 'cap key/acme', []],
    ['a list of other things', [7, 'cap key/acme', null], ['cap key/acme']],
  ])('starts its job although its text for people is %s', (_, blockedBy, read) => {
    expect(decodeDispatchMessage(JSON.stringify({ ...planned, blockedBy }))).toEqual([
      { ...planned, blockedBy: read },
    ]);
  });

  it.each(['9', 'nobody', '5-abcdefgh0@3', '5-abcdefgh0@3.4 '])(
    'is refused that would claim by %j',
    (claimId) => {
      const body = JSON.stringify({ ...planned, claimId });
      expect(() => decodeDispatchMessage(body)).toThrow(RefusedError);
    },
  );
});
