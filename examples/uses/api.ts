/** An API that waits for quick answers, and has the caller ask again for slow ones. */
import { NotFoundError, type SchedulerClient, ValidationError, WaitTimeoutError } from 'fairlead/client';
import { defineJobs, job } from 'fairlead/jobs';
import type { HandlersOf } from 'fairlead/worker';
import * as z from 'zod';

export const jobs = defineJobs({
  quote: job({
    payload: z.object({ from: z.string().min(1), to: z.string().min(1) }),
    result: z.object({ cents: z.int() }),
  }),
});

export const declaration = { fleets: { quotes: { types: ['quote'], slots: 4 } } } as const;

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** The routes, for any framework. */
export const routesOf = (client: SchedulerClient<typeof jobs>) => ({
  /** `POST /quotes`: 200 within two seconds, or 202 with an id. */
  post: (user: string, body: unknown): Promise<Answer> =>
    answered(async () => {
      const quote = await client.submit('quote', body as { from: string; to: string }, {
        fairnessKey: user,
        mode: 'onDemand',
      });
      return { status: 200, body: await quote.result({ timeout: '2s' }) };
    }),
  /** `GET /quotes/{id}`: waits for twenty seconds. */
  get: (id: string): Promise<Answer> =>
    answered(async () => {
      const outcome = await client.wait(id, { timeout: '20s' });
      return {
        status: 200,
        body: outcome.status === 'succeeded' ? outcome.result : { id, status: outcome.status },
      };
    }),
});

async function answered(work: () => Promise<Answer>): Promise<Answer> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof WaitTimeoutError) return { status: 202, body: { id: error.jobId } };
    if (error instanceof ValidationError) return { status: 400, body: { field: error.field } };
    if (error instanceof NotFoundError) return { status: 404, body: {} };
    throw error;
  }
}

export const handlersOf = (
  price: (from: string, to: string) => Promise<number>,
): HandlersOf<typeof jobs> => ({
  quote: async ({ from, to }) => ({ cents: await price(from, to) }),
});
