/** The smallest handlers that show how a job runs: one that answers, one that fails, one that fails once, one that says how far it is, one that takes its time. */
import { setTimeout as wait } from 'node:timers/promises';
import { worker } from '../../lib/worker/lambda.ts';

/** Long enough that two that run together are seen to overlap. */
const SLOW_MS = 200;
/** Long enough that somebody who looks sees what it says. */
const TELLING_MS = 3_000;

export const handler = worker({
  echo: (payload) => payload,
  fail: () => {
    throw new RangeError('this job always fails');
  },
  flaky: (_, { attempt }) => {
    if (attempt === 1) throw new Error('not at the first attempt');
    return { attempt };
  },
  telling: async (_, { heartbeat }) => {
    heartbeat({ page: 3 });
    await wait(TELLING_MS);
    return null;
  },
  slow: async () => {
    const fromMs = Date.now();
    await wait(SLOW_MS);
    return { fromMs, toMs: Date.now() };
  },
});
