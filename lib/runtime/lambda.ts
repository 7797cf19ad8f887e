/** The frame of every Lambda function: middy around its handler, and a structured log that names the invocation. */
import { LogFormatter, Logger, LogItem } from '@aws-lambda-powertools/logger';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import type { LogAttributes, UnformattedAttributes } from '@aws-lambda-powertools/logger/types';
import middy from '@middy/core';
import type { Context } from 'aws-lambda';
import { MetricCollector } from '../metrics/collector.ts';
import type { Metrics } from '../metrics/contract.ts';
import type { Log } from './contract.ts';
import { askedMetricsOf, emfWriter } from './emf.ts';
import { fromLevel } from './system.ts';

/** One invocation, as middy passes it to a middleware, which may change it. */
export interface MiddlewareRequest<Event, Answer> {
  event: Event;
  context: Context;
  response: Answer | null | undefined;
  error: Error | null | undefined;
  internal: Record<string, unknown>;
}

/** A middleware as middy accepts it. */
export interface Middleware<Event, Answer> {
  before?(request: MiddlewareRequest<Event, Answer>): unknown;
  after?(request: MiddlewareRequest<Event, Answer>): unknown;
  onError?(request: MiddlewareRequest<Event, Answer>): unknown;
  name?: string;
}

/**
 * A Lambda handler with middy around it, limited to what users may call. It does not use middy's type, because middy's
 * declarations import a package that is not installed by default, which would break projects that type-check their
 * libraries.
 */
export interface LambdaHandler<Event, Answer> {
  (event: Event, context: Context): Promise<Answer>;
  use(middleware: Middleware<Event, Answer> | Middleware<Event, Answer>[]): LambdaHandler<Event, Answer>;
  before(hook: (request: MiddlewareRequest<Event, Answer>) => unknown): LambdaHandler<Event, Answer>;
  after(hook: (request: MiddlewareRequest<Event, Answer>) => unknown): LambdaHandler<Event, Answer>;
  onError(hook: (request: MiddlewareRequest<Event, Answer>) => unknown): LambdaHandler<Event, Answer>;
}

/**
 * Formats entries with Powertools' field names, but leaves out what is the same in each line of a function: its ARN,
 * its memory and the sampling rate. That saves a third of each line, and lines are billed by the byte.
 */
export class LeanFormatter extends LogFormatter {
  override formatAttributes(
    { logLevel, message, timestamp, serviceName, lambdaContext, xRayTraceId }: UnformattedAttributes,
    fields: LogAttributes,
  ): LogItem {
    const attributes = {
      level: logLevel,
      message,
      timestamp: this.formatTimestamp(timestamp),
      service: serviceName,
      cold_start: lambdaContext?.coldStart,
      function_name: lambdaContext?.functionName,
      function_request_id: lambdaContext?.awsRequestId,
      xray_trace_id: xRayTraceId,
      tenant_id: lambdaContext?.tenantId,
    };
    return new LogItem({ attributes }).addAttributes(fields);
  }
}

export interface LambdaEntry {
  /** Each entry has the request's id, the function's name, and whether this was a cold start. */
  readonly log: Log;
  /** Metrics of the invocation, which are written to its log when it ends. */
  readonly metrics: Metrics;
  readonly wrap: <Event, Answer>(
    handle: (event: Event, context: Context) => Promise<Answer>,
  ) => LambdaHandler<Event, Answer>;
}

/**
 * The environment variables `POWERTOOLS_SERVICE_NAME`, `POWERTOOLS_LOG_LEVEL` and `POWERTOOLS_METRICS_DISABLED` apply.
 * Metrics belong to the scheduler of `FAIRLEAD_TABLE`. `FAIRLEAD_METRICS_BY` lists types, tiers and fleets as requested
 * scopes, and `FAIRLEAD_METRICS` lists the requested metrics.
 */
export function lambdaEntry(): LambdaEntry {
  const logger = new Logger({
    serviceName: process.env.POWERTOOLS_SERVICE_NAME ?? 'fairlead',
    logFormatter: new LeanFormatter(),
  });
  const metrics = new MetricCollector(askedMetricsOf(process.env));
  const scheduler = process.env.FAIRLEAD_TABLE ?? '';
  const write = scheduler === '' ? () => {} : emfWriter(scheduler);
  const withMetrics = async <Answer>(work: () => Promise<Answer>): Promise<Answer> => {
    try {
      return await work();
    } finally {
      write(metrics.take());
    }
  };
  return {
    metrics,
    // Powertools prefers Lambda's own level, which a function with JSON logs always has.
    log: fromLevel(
      {
        debug: (message, fields) => logger.debug(message, { ...fields }),
        info: (message, fields) => logger.info(message, { ...fields }),
        warn: (message, fields) => logger.warn(message, { ...fields }),
        error: (message, fields) => logger.error(message, { ...fields }),
      },
      process.env.POWERTOOLS_LOG_LEVEL,
    ),
    wrap: <Event, Answer>(handle: (event: Event, context: Context) => Promise<Answer>) =>
      // middy's early answer would let Lambda freeze the process with work in progress, and thaw it later.
      middy<Event, Answer>((event: Event, context: Context) => withMetrics(() => handle(event, context)), {
        timeoutEarlyInMillis: 0,
      }).use(injectLambdaContext(logger)),
  };
}
