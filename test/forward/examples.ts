/** What the example of each language does. */
import { expect, it } from 'vitest';
import { checkWorker } from '../../lib/worker/conformance.ts';
import { errorOf } from '../client/desk.ts';
import { anAttempt, forwarderTo, later } from './attempts.ts';
import { serverIn } from './servers.ts';

/** The tests of one example. */
export function examplesOf(language: 'python' | 'go'): void {
  it('passes every check of test-worker', { timeout: 240_000 }, async () => {
    const { url, kill } = await serverIn(language);
    later(kill);
    const checks = await checkWorker(url, 'conformance', { any: ['é'] });
    expect(checks.filter(({ failure }) => failure !== undefined)).toEqual([]);
    expect(checks.length).toBeGreaterThan(5);
  });

  it('runs jobs, refuses some for good, puts others off, and lives through being killed', {
    timeout: 240_000,
  }, async () => {
    const first = await serverIn(language);
    const forwarder = await forwarderTo(first.url);
    const attempt = anAttempt();
    expect(await forwarder.forward({ key: 'a' }, attempt)).toEqual({ key: 'a', attempt: 1 });
    expect(attempt).toMatchObject({ progress: [{ done: 0.5 }], checkpoints: [{ resized: 'a' }] });
    expect(await errorOf(forwarder.forward({}, attempt))).toMatchObject({ name: 'PermanentError' });
    expect(await errorOf(forwarder.forward({ key: 'a', busy: true }, attempt))).toMatchObject({
      name: 'RetryAfterError',
      retryAfterMs: 30_000,
    });
    await first.kill();
    const waiting = forwarder.forward({ key: 'b' }, anAttempt({ attempt: 2 }));
    const second = await serverIn(language, Number(new URL(first.url).port));
    later(second.kill);
    expect(await waiting).toEqual({ key: 'b', attempt: 2 });
  });
}
