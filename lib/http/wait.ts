/** Waits for the ends of jobs within one request. */
import type { JobName } from '../client/arguments.ts';
import { WaitTimeoutError } from '../client/errors.ts';
import { type Answer, type Call, roomOfAnswer } from './operation.ts';

/**
 * Waits until one of the jobs has ended, and answers all that have, or as many as the answer has room for: the others come
 * with the next request. None if the time is up.
 */
export async function endsOf(
  { client, signal, waitMs }: Pick<Call<never, never>, 'client' | 'signal' | 'waitMs'>,
  jobs: readonly JobName[],
  askedMs: number,
): Promise<Answer> {
  const timeoutMs = Math.max(1, Math.min(waitMs, askedMs));
  const ended: object[] = [];
  const fits = roomOfAnswer();
  const settled = new AbortController();
  try {
    for await (const each of client.waitMany(jobs, {
      timeout: timeoutMs,
      signal: AbortSignal.any([signal, settled.signal]),
    })) {
      if (!fits(each)) break;
      ended.push(each);
      // Jobs that have ended by now arrive with the same read. The next read is for another request.
      setImmediate(() => settled.abort());
    }
  } catch (error) {
    const isOver = error instanceof WaitTimeoutError || settled.signal.aborted;
    if (!isOver) throw error;
  }
  return { status: ended.length === 0 ? 202 : 200, body: { ended } };
}
