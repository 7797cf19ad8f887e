/** Nothing that a call began runs on when the call is over, however it ends: a function may be frozen at that moment. */
import { describe, expect, it } from 'vitest';
import type { StoreClient } from '../../lib/client/client.ts';
import type { Fetch } from '../../lib/client/remote.ts';
import { remoteClient } from '../../lib/client/remote-client.ts';
import { UnavailableError } from '../../lib/core/errors.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { type Desk, desk, errorOf, POOL } from './desk.ts';
import { VERBS } from './verbs.ts';

const REQUEST_MS = 50;
/** After this many milliseconds, every verb has answered or gives up. */
const OVER_MS = 5_000;

/** Two partitions, so that verbs read several at once, with the job and the schedule that the verbs name. */
async function scene(fail?: (nth: number) => boolean) {
  const on = desk({ pool: { ...POOL, partitions: 2 } });
  await on.put(on.job({ id: 'a', type: 'report' }), on.job({ id: 'b', type: 'resize', resourceId: 'r' }));
  await on.client.schedules.put('a', { type: 'report', every: '1h' });
  const running = new Set<string>();
  let begun = 0;
  const slow =
    (name: string, method: (...args: readonly unknown[]) => unknown) =>
    async (...args: readonly unknown[]): Promise<unknown> => {
      begun += 1;
      const nth = begun;
      const key = `${name} ${nth}`;
      running.add(key);
      try {
        // The answers of requests that began together come one after the other.
        await on.clock.sleep(REQUEST_MS + nth);
        if (fail?.(nth) === true) throw new UnavailableError('no answer');
        return await method(...args);
      } finally {
        running.delete(key);
      }
    };
  const slowed = <Part extends object>(part: Part): Part =>
    new Proxy(part, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? slow(String(name), value.bind(target)) : value;
      },
    });
  const client = on.anotherClient({ store: slowed(on.store), queue: slowed(on.queue) });
  return { on, client, running, begun: () => begun };
}

const settled = (on: Desk, call: Promise<unknown>): Promise<void> =>
  on.finish(
    call.then(
      () => {},
      () => {},
    ),
  );

const WAITING = ['client.run', 'client.wait', 'client.waitMany', 'client.drain'];
const optionsOf = (name: string) => (WAITING.includes(name) ? { timeout: 1_000 } : {});

describe.each(Object.entries(VERBS))('%s', (name, verb) => {
  const options = optionsOf(name);

  it('leaves nothing running when it answers', async () => {
    const { on, client, running, begun } = await scene();
    await settled(on, Promise.resolve(verb(client, options as never)));
    expect(begun()).toBeGreaterThan(0);
    expect([...running]).toEqual([]);
  });

  it('leaves nothing running, and begins nothing more, when its signal has aborted', async () => {
    for (let afterMs = REQUEST_MS / 2; afterMs < OVER_MS; afterMs += REQUEST_MS) {
      const { on, client, running, begun } = await scene();
      const abort = new AbortController();
      let isOver = false;
      const call = Promise.resolve(verb(client, { ...options, signal: abort.signal } as never)).finally(
        () => {
          isOver = true;
        },
      );
      call.catch(() => {});
      await on.advance(afterMs);
      if (isOver) return;
      abort.abort();
      await settled(on, call);
      expect([...running]).toEqual([]);
      const atEnd = begun();
      await on.advance(1_000);
      expect(begun()).toBe(atEnd);
    }
  });

  it('leaves nothing running when one of its requests fails', async () => {
    for (let nth = 1; nth < 60; nth += 1) {
      const { on, client, running, begun } = await scene((each) => each === nth);
      await settled(on, Promise.resolve(verb(client, options as never)));
      expect([...running]).toEqual([]);
      if (begun() < nth) return;
    }
  });
});

/** `run` waits for the answer about the job that it stores, because it may have to cancel it. */
const ABORTED_AT_ONCE = Object.entries(VERBS).filter(([name]) => name !== 'client.run');

it.each(ABORTED_AT_ONCE)(
  '%s leaves no request running at a server that does not answer, when its signal has aborted',
  async (name, verb) => {
    const abort = new AbortController();
    let running = 0;
    const fetch: Fetch = async (_, { signal }) => {
      running += 1;
      setTimeout(() => abort.abort());
      await new Promise((over) => signal?.addEventListener('abort', over));
      await new Promise((later) => setTimeout(later, 5));
      running -= 1;
      throw signal?.reason;
    };
    const client = remoteClient({
      url: 'http://127.0.0.1:9',
      clock: systemClock,
      requestTimeoutMs: 60_000,
      fetch,
    });
    const call = Promise.resolve(
      verb(client as StoreClient, { ...optionsOf(name), signal: abort.signal } as never),
    );
    expect(await errorOf(call)).toMatchObject({ name: 'AbortError' });
    expect(running).toBe(0);
  },
);
