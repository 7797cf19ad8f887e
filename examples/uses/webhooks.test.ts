import { testScheduler } from 'fairlead/testing';
import { expect, onTestFinished, test } from 'vitest';
import { declaration, handlersOf, jobs } from './webhooks.ts';

const answer = (status: number, retryAfter?: string): Response =>
  new Response(null, { status, headers: retryAfter === undefined ? {} : { 'retry-after': retryAfter } });

test('an endpoint that answers 429 rests, and another customer is not held up', async () => {
  const answers = new Map([['https://a.example', [answer(429, '120')]]]);
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf(async (url) => answers.get(url)?.shift() ?? answer(204)),
  });
  onTestFinished(() => t.dispose());
  const busy = await t.submit('webhook', { customer: 'a', url: 'https://a.example', body: '1' });
  await t.advance('5s');
  const [next, other] = [
    await t.submit('webhook', { customer: 'a', url: 'https://a.example', body: '2' }),
    await t.submit('webhook', { customer: 'b', url: 'https://b.example', body: '3' }),
  ];
  await t.advance('60s');
  expect(t.job(other).state).toBe('succeeded');
  expect([t.job(busy).state, t.job(next).state]).not.toContain('succeeded');
  expect((await t.explain(next)).waitsFor).toContainEqual(expect.objectContaining({ why: 'rests' }));
  await t.runUntilIdle();
  expect(t.job(busy)).toMatchObject({ state: 'succeeded', attempt: 1 });
  expect(t.job(next)).toMatchObject({ state: 'succeeded', attempt: 1 });
});

test('an endpoint that is broken is tried five times, and one that refuses once', async () => {
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf(async (url) => answer(url.includes('broken') ? 500 : 410)),
  });
  onTestFinished(() => t.dispose());
  const broken = await t.submit('webhook', { customer: 'a', url: 'https://broken.example', body: '' });
  const gone = await t.submit('webhook', { customer: 'b', url: 'https://gone.example', body: '' });
  await t.runUntilIdle();
  expect(t.job(broken)).toMatchObject({ state: 'failed', attempt: 5 });
  expect(t.job(gone)).toMatchObject({ state: 'failed', attempt: 1 });
});

test('a customer with 200 webhooks has two calls at once, and another one does not wait for them', async () => {
  const t = await testScheduler(jobs, declaration, { handlers: handlersOf(async () => answer(204)) });
  onTestFinished(() => t.dispose());
  for (let no = 0; no < 200; no += 1)
    await t.submit('webhook', { customer: 'a', url: 'https://a.example', body: `${no}` });
  const other = await t.submit('webhook', { customer: 'b', url: 'https://b.example', body: '' });
  await t.advance('3s');
  expect(t.job(other).state).toBe('succeeded');
  await t.runUntilIdle();
  expect(t.peak('key/a')).toBe(2);
});
