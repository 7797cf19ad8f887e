/** Jobs in flight keep the conflicts of their claim, while others are planned by what is declared by now. */
import { describe, expect, it } from 'vitest';
import { type ConflictTerms, conflictKeysOf, fullConflicts } from '../../lib/core/conflict.ts';

const typesOf = (...types: readonly ConflictTerms[]): ReadonlyMap<string, ConflictTerms> =>
  new Map(types.map((type) => [type.type, type]));

const RENDER: ConflictTerms = { type: 'render', conflictGroup: 'album' };
const PRINT: ConflictTerms = { type: 'print', conflictGroup: 'album' };
/** Three of a resource at once. */
const CALL: ConflictTerms = { type: 'call', conflictGroup: null, maxConcurrencyPerResource: 3 };
const ALL = typesOf(RENDER, PRINT, CALL);

describe('a job in flight', () => {
  it('holds what it was claimed with, and what its type would claim by now', () => {
    const regrouped = typesOf({ ...RENDER, conflictGroup: 'photo' });
    expect(conflictKeysOf(regrouped, { type: 'render', conflictKey: 'album/7' })).toEqual([
      'album/7',
      'photo/7',
    ]);
    expect(conflictKeysOf(ALL, { type: 'render', conflictKey: 'album/7' })).toEqual(['album/7']);
  });

  it('holds the conflict of a group that its type got after the claim', () => {
    expect(conflictKeysOf(ALL, { type: 'render', resourceId: '7' })).toEqual(['album/7']);
  });

  it('holds what it was claimed with after its type or the group is gone', () => {
    const without = typesOf({ ...RENDER, conflictGroup: null });
    for (const types of [without, typesOf()]) {
      expect(conflictKeysOf(types, { type: 'render', conflictKey: 'album/7' })).toEqual(['album/7']);
      expect(conflictKeysOf(types, { type: 'render', resourceId: '7' })).toEqual([]);
    }
  });

  it('holds nothing without a resource', () => {
    expect(conflictKeysOf(ALL, { type: 'render' })).toEqual([]);
  });
});

describe('a conflict key is full', () => {
  it('with one job of its group, whatever its type', () => {
    const inFlight = [
      { type: 'print', conflictKey: 'album/1' },
      { type: 'render', conflictKey: 'album/2' },
      { type: 'render' },
    ];
    expect(fullConflicts(ALL, inFlight)).toEqual(new Set(['album/1', 'album/2']));
  });

  it('with as many as the type lets run for the resource, and not before', () => {
    const three = Array.from({ length: 3 }, () => ({ type: 'call', resourceId: 'host' }));
    expect(fullConflicts(ALL, three.slice(1))).toEqual(new Set());
    expect(fullConflicts(ALL, three)).toEqual(new Set(['=call/host']));
  });

  it('with one of a type that is not declared any more', () => {
    expect(fullConflicts(typesOf(), [{ type: 'render', conflictKey: 'album/1' }])).toEqual(
      new Set(['album/1']),
    );
  });
});
