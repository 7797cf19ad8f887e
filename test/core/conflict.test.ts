import { describe, expect, it } from 'vitest';
import { Conflicts, conflictKeyFor, isExclusive, resourceOf, roomFor } from '../../lib/core/conflict.ts';

const keyOf = (conflictGroup: string | null, resourceId: string | undefined): string | undefined =>
  conflictKeyFor({ type: 'clone', conflictGroup }, resourceId);

describe('a conflict key', () => {
  it('is made of the group and the resource', () => {
    expect(keyOf('git', 'repo')).toBe('git/repo');
    expect(keyOf('git', '')).toBe('git/');
  });

  it('is none without a group or a resource; the empty group is none', () => {
    expect(keyOf(null, 'repo')).toBeUndefined();
    expect(keyOf('', 'repo')).toBeUndefined();
    expect(keyOf('git', undefined)).toBeUndefined();
  });

  it('never confuses a slash in the group with the one that separates', () => {
    expect(keyOf('a/b', 'c')).not.toBe(keyOf('a', 'b/c'));
  });

  it('takes any text for a group, half a character too', () => {
    expect(keyOf('\ud800', 'r')).toBe(`${encodeURIComponent('\ufffd')}/r`);
  });
});

describe('a type that limits the jobs of a resource', () => {
  const render = { type: 'a/b', conflictGroup: null, maxConcurrencyPerResource: 3 };

  it('gives them a key of its own, which is that of no group, with room for so many', () => {
    const conflictKey = conflictKeyFor(render, 'r/1') ?? '';
    expect(resourceOf(conflictKey)).toBe('r/1');
    expect(conflictKey).not.toBe(conflictKeyFor({ ...render, type: 'a' }, 'b/r/1'));
    for (const group of ['a/b', '=a/b', '=a%2Fb', encodeURIComponent('=a/b')])
      expect(keyOf(group, 'r/1')).not.toBe(conflictKey);
    expect([isExclusive(conflictKey), isExclusive('=a/b'.replace('=', '%3D'))]).toEqual([false, true]);
    expect(roomFor(render, conflictKey)).toBe(3);
    expect(conflictKeyFor(render, undefined)).toBeUndefined();
  });

  it('leaves room for one with the key of a former group', () => {
    expect(roomFor(render, 'git/r')).toBe(1);
    expect(roomFor(undefined, conflictKeyFor(render, 'r') ?? '')).toBe(1);
  });
});

describe('conflict keys as numbers', () => {
  it('are given away again when nobody uses them', () => {
    const conflicts = new Conflicts();
    const a = conflicts.use('g/a');
    expect(conflicts.use('g/a')).toBe(a);
    const b = conflicts.use('g/b');
    expect(b).not.toBe(a);
    expect([conflicts.nameOf(a), conflicts.nameOf(b), conflicts.size]).toEqual(['g/a', 'g/b', 2]);
    conflicts.leave(a);
    expect(conflicts.size).toBe(2);
    conflicts.leave(a);
    expect(conflicts.size).toBe(1);
    expect(conflicts.use('g/c')).toBe(a);
    expect(conflicts.nameOf(a)).toBe('g/c');
    expect(conflicts.isHeld(a)).toBe(false);
  });

  it('are held until the last of their holders is gone', () => {
    const conflicts = new Conflicts();
    const a = conflicts.use('g/a');
    expect(conflicts.isKeyHeld('g/a')).toBe(false);
    conflicts.hold(a);
    conflicts.hold(a);
    expect([conflicts.isHeld(a), conflicts.isKeyHeld('g/a'), conflicts.isKeyHeld('g/b')]).toEqual([
      true,
      true,
      false,
    ]);
    expect(conflicts.release(a)).toBe(false);
    expect(conflicts.isHeld(a)).toBe(true);
    expect(conflicts.release(a)).toBe(true);
    expect(conflicts.isHeld(a)).toBe(false);
  });

  it('have room for as many holders as was said last, and for none once they are closed', () => {
    const conflicts = new Conflicts();
    const a = conflicts.use('g/a', 2);
    expect(conflicts.use('g/a')).toBe(a);
    conflicts.hold(a);
    expect(conflicts.isHeld(a)).toBe(false);
    conflicts.hold(a);
    expect(conflicts.isHeld(a)).toBe(true);
    conflicts.use('g/a', 1);
    expect(conflicts.release(a)).toBe(false);
    expect(conflicts.isHeld(a)).toBe(true);
    expect(conflicts.release(a)).toBe(true);
    conflicts.close(a);
    expect([conflicts.release(a), conflicts.isHeld(a)]).toEqual([false, true]);
  });
});
