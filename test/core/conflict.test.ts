import { describe, expect, it } from 'vitest';
import { Conflicts, conflictKeyOf } from '../../lib/core/conflict.ts';

describe('a conflict key', () => {
  it('is made of the group and the resource', () => {
    expect(conflictKeyOf('git', 'repo')).toBe('git/repo');
    expect(conflictKeyOf('git', '')).toBe('git/');
  });

  it('is none without a group or a resource; the empty group is none', () => {
    expect(conflictKeyOf(null, 'repo')).toBeUndefined();
    expect(conflictKeyOf('', 'repo')).toBeUndefined();
    expect(conflictKeyOf('git', undefined)).toBeUndefined();
  });

  it('never confuses a slash in the group with the one that separates', () => {
    expect(conflictKeyOf('a/b', 'c')).not.toBe(conflictKeyOf('a', 'b/c'));
  });

  it('takes any text for a group, half a character too', () => {
    expect(conflictKeyOf('\ud800', 'r')).toBe(`${encodeURIComponent('\ufffd')}/r`);
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
});
