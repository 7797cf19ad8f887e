/** The function that deletes objects of large payloads whose job is gone. A rule invokes it once a day. */
import type { Context } from 'aws-lambda';
import { collectObjects } from '../lib/operate/collect-objects.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { collecting } from './composition.ts';

/** How long before the function's end a run stops, in milliseconds. */
const MARGIN_MS = 30_000;

const { log, wrap } = lambdaEntry();
export const handler = wrap(
  async (_: unknown, context: Pick<Context, 'getRemainingTimeInMillis'>): Promise<void> => {
    const parts = await collecting(log);
    if (parts !== undefined) await collectObjects(parts, context.getRemainingTimeInMillis() - MARGIN_MS);
  },
);
