/** Takes a while, and says from when until when by its own clock. */
import { setTimeout as wait } from 'node:timers/promises';
import { worker } from '../../lib/worker/lambda.ts';

const TAKES_MS = 700;

export const handler = worker({
  render: async () => {
    const fromMs = Date.now();
    await wait(TAKES_MS);
    return { fromMs, toMs: Date.now() };
  },
});
