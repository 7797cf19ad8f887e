/** The dispatch function. It handles stream records, wakes, the minute's tick and requests to lead a partition. */
import type { Context, SQSBatchResponse } from 'aws-lambda';
import { serve } from '../lib/dispatch/serve.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { type Compose, composition } from './composition.ts';
import { type DispatchEvent, decodeDispatchEvent } from './dispatch-event.ts';

export const dispatching =
  (compose: Compose) =>
  async (
    event: DispatchEvent,
    { invokedFunctionArn }: Pick<Context, 'invokedFunctionArn'>,
  ): Promise<SQSBatchResponse> => {
    const context = await compose();
    await serve(context, decodeDispatchEvent(event, invokedFunctionArn, context.log));
    return { batchItemFailures: [] };
  };

const { log, metrics, wrap } = lambdaEntry();
export const handler = wrap(dispatching(composition({ log, metrics }, { mayLead: true })));
