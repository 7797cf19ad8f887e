import { testScheduler } from 'fairlead/testing';
import { expect, onTestFinished, test } from 'vitest';
import { declaration, handlersOf, jobs, routesOf } from './api.ts';

const begin = async (takes: string) => {
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf(async () => 4_200),
    takes: { quote: takes },
  });
  onTestFinished(() => t.dispose());
  return { t, routes: routesOf(t.client) };
};
const body = { from: 'Hamburg', to: 'Kyoto' };

test('a quick quote is answered at once', async () => {
  const { routes } = await begin('500ms');
  expect(await routes.post('u-1', body)).toEqual({ status: 200, body: { cents: 4_200 } });
});

test('a slow quote is answered to the caller who asks again', async () => {
  const { t, routes } = await begin('30s');
  const first = await routes.post('u-1', body);
  expect(first.status).toBe(202);
  const { id } = first.body as { readonly id: string };
  expect((await routes.get(id)).status).toBe(202);
  expect(await routes.get(id)).toEqual({ status: 200, body: { cents: 4_200 } });
  expect(t.started('quote')).toHaveLength(1);
});

test('a wrong body and a wrong id are told apart', async () => {
  const { routes } = await begin('1s');
  expect(await routes.post('u-1', { from: 'Hamburg' })).toEqual({
    status: 400,
    body: { field: 'payload.to' },
  });
  expect((await routes.get('f'.repeat(32))).status).toBe(404);
});
