/** A function that takes a while. */
import { setTimeout as sleep } from 'node:timers/promises';
import { worker } from '../../lib/worker/lambda.ts';

const TAKES_MS = 400;

export const handler = worker({
  render: async (_, { signal }) => {
    await sleep(TAKES_MS, undefined, { signal });
  },
});
