/** Jobs that have ended, as the table tells of them to whoever publishes again what became of them. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { DynamoEndedJobs } from '../../lib/store/dynamodb/ended.ts';
import { type TableStage, tableStage } from './table-stage.ts';

const POOL = resolveConfiguration({ fleets: { images: { types: ['resize'], slots: 4 } } });
const WAIT_MS = 120_000;

let on: TableStage;

beforeAll(async () => {
  on = await tableStage(POOL);
  await on.put([on.job(), on.job(), on.job()]);
  await on.pass(on.dispatcher());
  for (const job of await on.startAll('images')) await on.end(job);
}, WAIT_MS);
afterAll(() => on.drop());

it('what ended is found by time, type and state, and nothing else is', { timeout: WAIT_MS }, async () => {
  await on.put([on.job()]);
  const table = new DynamoEndedJobs({ ...on.table, unreadable: () => {} });
  const found = async (
    changes: Partial<Parameters<DynamoEndedJobs['endedJobs']>[0]> = {},
  ): Promise<number> => {
    let count = 0;
    const filter = { sinceMs: 0, untilMs: on.clock.nowMs() + 1_000, ...changes };
    for await (const page of table.endedJobs(filter)) count += page.length;
    return count;
  };
  expect(await found()).toBe(3);
  expect(await found({ type: 'resize', state: 'succeeded' })).toBe(3);
  expect(await found({ type: 'other' })).toBe(0);
  expect(await found({ state: 'failed' })).toBe(0);
  expect(await found({ sinceMs: on.clock.nowMs() + 500 })).toBe(0);
});
