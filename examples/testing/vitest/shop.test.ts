/** The shop's jobs, tested with vitest: `npx vitest run --root examples/testing/vitest`. */
import { expect, onTestFinished, test } from 'vitest';
import { type JobMatchers, jobMatchers, testScheduler } from '../../../lib/testing/index.ts';
import { handlersOf } from '../handlers.ts';
import { declaration, jobs } from '../jobs.ts';

expect.extend(jobMatchers);
declare module 'vitest' {
  interface Matchers<R extends void | Promise<void>, T> extends JobMatchers<R> {}
}

test('charges and refunds of one account follow each other', async () => {
  const shop = { move: async () => 'receipt', printPage: async () => {} };
  const t = await testScheduler(jobs, declaration, { handlers: handlersOf(shop) });
  onTestFinished(() => t.dispose());
  const charge = await t.submit('charge', { account: 'acme', cents: 500 });
  const refund = await t.submit('refund', { account: 'acme', cents: 200 });
  await t.runUntilIdle();
  expect(t).toHaveSucceeded(charge);
  expect(t).toHaveSucceeded(refund);
  expect(t).toKeepApart('acme');
});
