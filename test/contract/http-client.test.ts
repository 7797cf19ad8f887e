/** The client's own test cases, through the HTTP protocol. */
import { describe, vi } from 'vitest';
import type { StoreClient } from '../../lib/client/client.ts';
import type { ClientParts } from '../../lib/client/contexts.ts';
import { remoteClient } from '../../lib/client/remote-client.ts';
import { httpApp } from '../../lib/http/app.ts';
import type { Jobs } from '../../lib/jobs/jobs.ts';
import type { Desk } from '../client/desk.ts';
import { isAll } from '../fixtures/times.ts';
import type { StageOptions } from '../stage/stage.ts';

vi.mock(import('../client/desk.ts'), async (original) => {
  const module = await original();
  return {
    ...module,
    desk: (options?: StageOptions): Desk => {
      const scene = module.desk(options);
      const anotherClient = <Declared extends Jobs = Jobs>(
        own: Partial<ClientParts<Declared>> = {},
      ): StoreClient<Declared> => {
        const { jobs, traceparent, around, ...parts } = own;
        const app = httpApp({ client: scene.anotherClient(parts) });
        const client = remoteClient<Declared>({
          url: 'http://scheduler',
          jobs,
          traceparent,
          around,
          clock: scene.clock,
          requestTimeoutMs: '1h',
          fetch: async (url, init) => app.request(url, init),
        });
        return client as unknown as StoreClient<Declared>;
      };
      return { ...scene, anotherClient, client: anotherClient() };
    },
  };
});

/** Thousands of arguments take a while. */
const CASES = ['submit', 'operate', 'look', 'explain', 'run', 'waits', ...(isAll ? ['arguments'] : [])];

describe.each(CASES)('%s', async (name) => {
  await import(`../client/${name}.test.ts`);
});
