/** The shop's jobs, tested with jest: `NODE_OPTIONS=--experimental-vm-modules npx jest --config examples/testing/jest/jest.config.js`. */
/* global expect, test */
import { jobMatchers, testScheduler } from '../../../lib/testing/index.ts';
import { handlersOf } from '../handlers.ts';
import { declaration, jobs } from '../jobs.ts';

expect.extend(jobMatchers);
test('a statement goes on from its checkpoint after a crash', async () => {
  const printed = [];
  const shop = {
    move: async () => 'receipt',
    printPage: async (_, page) => {
      printed.push(page);
      await t.sleep('1m');
    },
  };
  const resumed = {
    ...declaration.types,
    statement: { ...declaration.types.statement, onWorkerLost: 'resume' },
  };
  const t = await testScheduler(jobs, { ...declaration, types: resumed }, { handlers: handlersOf(shop) });
  const statement = await t.submit('statement', { account: 'acme', pages: 3 });
  await t.advance('90s');
  t.crashWorker(statement);
  await t.runUntilIdle();
  expect(printed).toEqual([1, 2, 2, 3]);
  expect(t).toHaveStarted('statement', 2);
  await t.dispose();
});
