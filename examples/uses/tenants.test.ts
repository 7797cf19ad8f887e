import { testScheduler } from 'fairlead/testing';
import { expect, onTestFinished, test } from 'vitest';
import { declaration, handlersOf, jobs } from './tenants.ts';

const begin = async () => {
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf({ render: async () => {}, load: async () => {} }),
    takes: { preview: '200ms', importRows: '10s' },
  });
  onTestFinished(() => t.dispose());
  return t;
};

test('a preview starts at once, however many imports wait', async () => {
  const t = await begin();
  for (let no = 0; no < 100; no += 1) await t.submit('importRows', { tenant: 'noisy', file: `${no}` });
  await t.advance('15s');
  const preview = await t.submit('preview', { tenant: 'quiet' });
  await t.advance('1s');
  expect(t.job(preview).state).toBe('succeeded');
});

test('tenants get shares by their plan, and no tenant has more than five jobs at once', async () => {
  const t = await begin();
  for (const tenant of ['noisy', 'acme'])
    for (let no = 0; no < 100; no += 1) await t.submit('importRows', { tenant, file: `${tenant}/${no}` });
  await t.advance('3m');
  const of = (tenant: string): number =>
    t.started('importRows').filter(({ fairnessKey }) => fairnessKey === tenant).length;
  expect(of('acme') / of('noisy')).toBeGreaterThan(3);
  await t.runUntilIdle();
  expect(t.peak('key/acme')).toBeLessThanOrEqual(5);
  expect(t.peak('tier/background')).toBe(6);
});

test('two imports of one file follow each other', async () => {
  const t = await begin();
  for (const tenant of ['noisy', 'acme']) await t.submit('importRows', { tenant, file: 'shared.csv' });
  await t.runUntilIdle();
  expect(t.overlap('shared.csv')).toBe(1);
});
