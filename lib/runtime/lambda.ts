/** What every Lambda function has in common: middy around its handler, and a structured log that names the invocation. */
import { Logger } from '@aws-lambda-powertools/logger';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import middy, { type MiddyfiedHandler } from '@middy/core';
import type { Context } from 'aws-lambda';
import { MetricCollector } from '../metrics/collector.ts';
import type { Metrics } from '../metrics/contract.ts';
import type { Log } from './contract.ts';
import { emfWriter, finerByOf } from './emf.ts';

export type LambdaHandler<Event, Answer> = MiddyfiedHandler<Event, Answer, Error, Context>;

export interface LambdaEntry {
  /** Each entry has the request's id, the function's name, version and memory, and whether this was a cold start. */
  readonly log: Log;
  /** What is told of an invocation when it ends, in a few lines of its log. */
  readonly metrics: Metrics;
  readonly wrap: <Event, Answer>(
    handle: (event: Event, context: Context) => Promise<Answer>,
  ) => LambdaHandler<Event, Answer>;
}

/**
 * `POWERTOOLS_SERVICE_NAME`, `POWERTOOLS_LOG_LEVEL` and `POWERTOOLS_METRICS_DISABLED` apply. Metrics are of `FAIRLEAD_TABLE`, by type
 * and tier as `FAIRLEAD_METRICS_BY` says.
 */
export function lambdaEntry(): LambdaEntry {
  const logger = new Logger({ serviceName: process.env.POWERTOOLS_SERVICE_NAME ?? 'fairlead' });
  const metrics = new MetricCollector(finerByOf(process.env));
  const scheduler = process.env.FAIRLEAD_TABLE ?? '';
  const write = scheduler === '' ? () => {} : emfWriter(scheduler);
  const told = async <Answer>(work: () => Promise<Answer>): Promise<Answer> => {
    try {
      return await work();
    } finally {
      write(metrics.take());
    }
  };
  return {
    metrics,
    log: {
      info: (message, fields) => logger.info(message, { ...fields }),
      warn: (message, fields) => logger.warn(message, { ...fields }),
    },
    wrap: <Event, Answer>(handle: (event: Event, context: Context) => Promise<Answer>) =>
      // middy's own answer shortly before the time is over would let Lambda freeze, and later thaw, what goes on here.
      middy<Event, Answer>((event: Event, context: Context) => told(() => handle(event, context)), {
        timeoutEarlyInMillis: 0,
      }).use(injectLambdaContext(logger)),
  };
}
