/** A handler that keeps what it gets, fails once, and gives back what it kept. */
import { worker } from '../../lib/worker/lambda.ts';

export const handler = worker({
  echo: async (payload, { attempt, checkpoint, lastCheckpoint }) => {
    if (attempt > 1) return lastCheckpoint;
    await checkpoint(payload);
    throw new Error('not at the first attempt');
  },
});
