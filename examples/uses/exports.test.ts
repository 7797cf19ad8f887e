import { testHandler, testScheduler } from 'fairlead/testing';
import { expect, onTestFinished, test } from 'vitest';
import { declaration, handlersOf, jobs } from './exports.ts';

test('an export goes on from its last page when its container dies', async () => {
  const copied: number[] = [];
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf({
      copy: async (_, page, signal) => {
        await t.sleep('10m', signal);
        signal.throwIfAborted();
        copied.push(page);
        return 100;
      },
    }),
  });
  onTestFinished(() => t.dispose());
  const job = await t.submit('export', { customer: 'acme', pages: 6 });
  await t.advance('35m');
  t.crashWorker(job);
  await t.runUntilIdle();
  expect(t.job(job)).toMatchObject({ state: 'succeeded', workersLost: 1, result: { rows: 600 } });
  expect(copied).toEqual([0, 1, 2, 3, 4, 5]);
});

test('a customer has two exports at once, and another one does not wait for its third', async () => {
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf({ copy: async () => 1 }),
    takes: { export: '1h' },
    processSlots: 4,
  });
  onTestFinished(() => t.dispose());
  for (let no = 0; no < 5; no += 1) await t.submit('export', { customer: 'acme', pages: 1 });
  const other = await t.submit('export', { customer: 'small', pages: 1 });
  await t.advance('10m');
  expect(t.job(other).state).toBe('running');
  await t.runUntilIdle();
  expect(t.peak('key/acme')).toBe(2);
});

test('a second attempt begins after the first one', async () => {
  const run = await testHandler(
    jobs,
    handlersOf({ copy: async () => 50 }).export,
    { customer: 'acme', pages: 3 },
    { attempt: 2, lastCheckpoint: { page: 2, rows: 200 } },
  );
  expect(run.checkpoints).toEqual([{ page: 3, rows: 250 }]);
});
