/** The shop's jobs, tested with the test runner of Node.js: `node --test examples/testing/node/`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { only } from '../../../lib/jobs/jobs.ts';
import { testHandler, testScheduler } from '../../../lib/testing/index.ts';
import type { HandlerOf } from '../../../lib/worker/handlers.ts';
import { handlersOf } from '../handlers.ts';
import { declaration, jobs } from '../jobs.ts';

const shop = { move: async () => 'receipt', printPage: async () => {} };

test('no more than two statements are printed at once', async (context) => {
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf(shop),
    takes: { statement: '2m' },
  });
  context.after(() => t.dispose());
  for (const account of ['a', 'b', 'c', 'd', 'e']) await t.submit('statement', { account, pages: 1 });
  await t.runUntilIdle();
  assert.equal(t.peak('fleet/documents'), 2, `seed ${t.seed}`);
});

test('a statement goes on from its checkpoint', async () => {
  const statement: HandlerOf<typeof jobs.statement> = handlersOf(shop).statement;
  const run = await testHandler(
    only(jobs, 'statement'),
    statement,
    { account: 'a', pages: 3 },
    { attempt: 2, lastCheckpoint: { page: 2 } },
  );
  assert.deepEqual(run.checkpoints, [{ page: 3 }]);
});
