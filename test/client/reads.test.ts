/** How a client of a table reads it. */
import { describe, expect, it } from 'vitest';
import { UnavailableError } from '../../lib/core/errors.ts';
import { storeWith } from '../stage/stage.ts';
import { allOf, counting, desk, errorOf } from './desk.ts';

const REQUEST = { type: 'resize', payload: 1, fairnessKey: 'tenant-a' };

describe('a client of a table', () => {
  it('lists only as far as it is asked', async () => {
    const { put, job, anotherClient, store } = desk();
    await put(...Array.from({ length: 250 }, (_, n) => job({ priority: n % 11 })));
    let lines = 0;
    const proxy = new Proxy(store, {
      get: (target, name) => {
        if (name === 'readLine') lines += 1;
        const verb: unknown = Reflect.get(target, name, target);
        return typeof verb === 'function' ? verb.bind(target) : verb;
      },
    });
    for await (const _ of anotherClient({ store: proxy }).list({ state: 'pending' })) break;
    expect(lines).toBe(1);
  });

  it('names the trouble as the cause of a timeout', async () => {
    const scene = desk();
    const lookUpJobs = () => Promise.reject(new UnavailableError('no answer'));
    const client = scene.anotherClient({ store: storeWith(scene.store, { lookUpJobs }) });
    const running = errorOf(client.run(REQUEST, { timeout: 1_000 }));
    expect(await scene.finish(running)).toMatchObject({
      name: 'WaitTimeoutError',
      cause: { name: 'UnavailableError' },
    });
  });

  it('reads 10,000 jobs with ten requests a poll, not with one for each job', async () => {
    const scene = desk();
    const entries = await scene.client.submitMany(Array.from({ length: 10_000 }, () => ({ type: 'report' })));
    const ids = entries.map((entry) => (entry.kind === 'accepted' ? entry.jobId : ''));
    const { reads, client } = counting(scene);
    const waiting = errorOf(allOf(client.waitMany(ids, { timeout: '10s' })));
    const error = await scene.finish(waiting);
    expect(error).toMatchObject({ name: 'WaitTimeoutError', jobId: ids[0], state: 'pending' });
    expect(error.message).toContain('10000 jobs had not ended after 10000 ms');
    expect(reads.every((some) => some.length === 1_000)).toBe(true);
    // At once, and then every two seconds.
    expect(reads).toHaveLength(6 * 10);
  });
});
