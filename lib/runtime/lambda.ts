/** What every Lambda function has in common: middy around its handler, and a structured log that names the invocation. */
import { Logger } from '@aws-lambda-powertools/logger';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import middy, { type MiddyfiedHandler } from '@middy/core';
import type { Context } from 'aws-lambda';
import type { Log } from './contract.ts';

export type LambdaHandler<Event, Answer> = MiddyfiedHandler<Event, Answer, Error, Context>;

export interface LambdaEntry {
  /** Each entry has the request's id, the function's name, version and memory, and whether this was a cold start. */
  readonly log: Log;
  readonly wrap: <Event, Answer>(
    handle: (event: Event, context: Context) => Promise<Answer>,
  ) => LambdaHandler<Event, Answer>;
}

/** `POWERTOOLS_SERVICE_NAME` and `POWERTOOLS_LOG_LEVEL` apply. */
export function lambdaEntry(): LambdaEntry {
  const logger = new Logger({ serviceName: process.env.POWERTOOLS_SERVICE_NAME ?? 'fairlead' });
  return {
    log: {
      info: (message, fields) => logger.info(message, { ...fields }),
      warn: (message, fields) => logger.warn(message, { ...fields }),
    },
    wrap: <Event, Answer>(handle: (event: Event, context: Context) => Promise<Answer>) =>
      // middy's own answer shortly before the time is over would let Lambda freeze, and later thaw, what goes on here.
      middy<Event, Answer>(handle, { timeoutEarlyInMillis: 0 }).use(injectLambdaContext(logger)),
  };
}
