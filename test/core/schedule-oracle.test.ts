import { describe, expect, it } from 'vitest';
import { isAll } from '../fixtures/times.ts';
import { agreesAround } from './around-changes.ts';
import { changesOf, PATTERNS, ZONES } from './local-minutes.ts';

const FROM_MS = Date.UTC(2024, 0);
const UNTIL_MS = Date.UTC(2034, 0);

/** Each change with one of the patterns; with all of them: schedule-oracle.long.test.ts. */
describe('around every clock change of ten years, firings are those of clocks on a wall', () => {
  it.each(ZONES)('%s', (zone) => {
    const changes = zone === 'UTC' ? [FROM_MS] : changesOf(zone, FROM_MS, UNTIL_MS);
    for (const [index, changeMs] of changes.entries()) {
      if (!isAll && index % 4 !== ZONES.indexOf(zone) % 4) continue;
      agreesAround(zone, PATTERNS[index % PATTERNS.length] ?? '', changeMs);
    }
  });

  it('of which there are more than two hundred, and none where clocks do not change', () => {
    const counts = ZONES.map((zone) => changesOf(zone, FROM_MS, UNTIL_MS).length);
    expect(counts.reduce((all, count) => all + count, 0)).toBeGreaterThan(200);
    expect(changesOf('Asia/Kathmandu', FROM_MS, UNTIL_MS)).toEqual([]);
  });
});
