/** A year of new fairness keys and resources each day takes no more room than its first part: what is written for them goes again. */
import { expect, it, vi } from 'vitest';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { encodeEstimate } from '../../lib/store/table/codec/estimate.ts';
import { encodeLedger } from '../../lib/store/table/codec/ledger.ts';
import { testScheduler } from '../../lib/testing/index.ts';

const KEYS_A_DAY = 6;
const DAYS = 365;
/** Learned costs go after 90 days. The summary has room for the ledgers of some 110 days of such keys. */
const SETTLED_AFTER_DAYS = 220;
/** As long as a key may be, so that a year has more of them than the summary has room for. */
const KEY_BYTES = 500;
const KEY = { pk: 'p', sk: 's' };

type Sizes = ReadonlyMap<string, number>;

const entriesOf = (value: object): readonly unknown[] | undefined =>
  value instanceof Map || value instanceof Set || Array.isArray(value) ? [...value.values()] : undefined;

/** How many entries each collection has, in any depth. */
function sizesIn(value: unknown, path: string, sizes = new Map<string, number>()): Sizes {
  if (typeof value !== 'object' || value === null) return sizes;
  const entries = entriesOf(value);
  if (entries !== undefined) sizes.set(path, (sizes.get(path) ?? 0) + entries.length);
  const inner = entries?.map((each) => ['*', each] as const) ?? Object.entries(value);
  for (const [name, each] of inner) sizesIn(each, `${path}.${name}`, sizes);
  return sizes;
}

/** The items that DynamoDB has not been told to delete by now. The memory store keeps them, as it may. */
const kept = (items: readonly { readonly ttl?: unknown }[], nowMs: number): number =>
  items.filter(({ ttl }) => ttl === undefined || Number(ttl) * 1_000 > nowMs).length;

/** What the table has of a partition and its jobs: collections of its items, and of the summary. */
function census(store: MemoryJobStore, nowMs: number): Sizes {
  // Items that only the memory store knows of are among them.
  const {
    ledgers: _,
    ownLedgers,
    ownEstimates,
    ...others
  } = store.inspect(0) as ReturnType<MemoryJobStore['inspect']> & {
    readonly ownLedgers: ReadonlyMap<string, Parameters<typeof encodeLedger>[1]>;
    readonly ownEstimates: ReadonlyMap<string, Parameters<typeof encodeEstimate>[1]>;
  };
  return new Map([
    ...sizesIn(others, 'partition'),
    ['jobs', [...store.everyJob()].length],
    [
      'ledgers',
      kept(
        Array.from(ownLedgers.values(), (each) => encodeLedger(KEY, each, 1)),
        nowMs,
      ),
    ],
    [
      'estimates',
      kept(
        Array.from(ownEstimates.values(), (each) => encodeEstimate(KEY, each, 1)),
        nowMs,
      ),
    ],
  ]);
}

it('leaves as much after a year as after its first part', { timeout: 120_000 }, async () => {
  const subscribe = vi.spyOn(MemoryJobStore.prototype, 'subscribe');
  const t = await testScheduler(
    defineJobs({ render: job<{ page: number }>() }),
    { types: { render: { conflictGroup: 'page' } } },
    { handlers: { render: () => null }, takes: { render: (_, random) => 1_000 + 9_000 * random } },
  );
  const [store] = subscribe.mock.contexts as MemoryJobStore[];
  subscribe.mockRestore();
  if (store === undefined) throw new Error('the scheduler has subscribed to no store');
  const first = new Map<string, number>();
  const later = new Map<string, number>();
  for (let day = 0; day < DAYS; day += 1) {
    for (let n = 0; n < KEYS_A_DAY; n += 1) {
      const names = { fairnessKey: `${day}-${n}-`.padEnd(KEY_BYTES, 'k'), resourceId: `page-${day}-${n}` };
      await t.submit('render', { page: n }, names);
    }
    await t.runUntilIdle();
    await t.advance('23h');
    const most = day < SETTLED_AFTER_DAYS ? first : later;
    for (const [what, size] of census(store, t.now.getTime()))
      most.set(what, Math.max(size, most.get(what) ?? 0));
  }
  await t.dispose();
  // The summary's room is used up, and most keys are forgotten.
  expect(later.get('partition.summary.ledgers')).toBeLessThan((DAYS * KEYS_A_DAY) / 2);
  expect(later.get('jobs')).toBeGreaterThan(KEYS_A_DAY);
  expect(later.get('estimates')).toBeGreaterThan(KEYS_A_DAY);
  const grown = [...later].filter(([what, size]) => size > 1.1 * (first.get(what) ?? 0));
  expect(grown).toEqual([]);
});
