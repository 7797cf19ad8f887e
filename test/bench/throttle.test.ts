import { describe, expect, it } from 'vitest';
import { TABLES, Throttle, WHOLE_TABLE } from '../../bench/cloud/throttle.ts';

const heat = (key: string, units: number) => new Map([[key, units]]);

describe('a partition key', () => {
  it('takes 1,000 write units a second, and owes what a request took beyond', () => {
    const throttle = new Throttle(TABLES.raised);
    throttle.used('write', heat('partition/0', 1_500), 0);
    expect(throttle.admits('write', ['partition/0'], 0)).toBe(false);
    expect(throttle.admits('write', ['partition/0'], 500)).toBe(false);
    expect(throttle.admits('write', ['partition/0'], 501)).toBe(true);
  });

  it('saves up one second, not more', () => {
    const throttle = new Throttle(TABLES.raised);
    throttle.used('write', heat('partition/0', 1_000), 60_000);
    expect(throttle.admits('write', ['partition/0'], 60_000)).toBe(false);
  });

  it('does not slow another one, nor reads', () => {
    const throttle = new Throttle(TABLES.raised);
    throttle.used('write', heat('partition/0', 5_000), 0);
    expect(throttle.admits('write', ['partition/1'], 0)).toBe(true);
    expect(throttle.admits('read', ['partition/0'], 0)).toBe(true);
    expect(throttle.admits('write', ['partition/1', 'partition/0'], 0)).toBe(false);
  });

  it('is read 3,000 units a second', () => {
    const throttle = new Throttle(TABLES.raised);
    throttle.used('read', heat('ledger/0', 3_000), 0);
    expect(throttle.admits('read', ['ledger/0'], 0)).toBe(false);
    expect(throttle.admits('read', ['ledger/0'], 1)).toBe(true);
  });
});

describe('a table', () => {
  it.each([
    ['new', 4_000],
    ['quota', 40_000],
  ] as const)('that is %s takes %d write units a second over all its keys', (name, units) => {
    const throttle = new Throttle(TABLES[name]);
    throttle.used('write', heat(WHOLE_TABLE, units - 1), 0);
    expect(throttle.admits('write', ['any'], 0)).toBe(true);
    throttle.used('write', heat(WHOLE_TABLE, 1), 0);
    expect(throttle.admits('write', ['any'], 0)).toBe(false);
  });

  it('whose quota was raised takes what its keys take', () => {
    const throttle = new Throttle(TABLES.raised);
    throttle.used('write', heat(WHOLE_TABLE, 1_000_000), 0);
    expect(throttle.admits('write', ['any'], 0)).toBe(true);
  });
});
