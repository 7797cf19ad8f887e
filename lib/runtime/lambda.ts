/** What every Lambda function has in common: middy around its handler, and a structured log that names the invocation. */
import { LogFormatter, Logger, LogItem } from '@aws-lambda-powertools/logger';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import type { LogAttributes, UnformattedAttributes } from '@aws-lambda-powertools/logger/types';
import middy from '@middy/core';
import type { Context } from 'aws-lambda';
import { MetricCollector } from '../metrics/collector.ts';
import type { Metrics } from '../metrics/contract.ts';
import type { Log } from './contract.ts';
import { askedMetricsOf, emfWriter } from './emf.ts';

/** What a middleware is told of an invocation, and may change. */
export interface MiddlewareRequest<Event, Answer> {
  event: Event;
  context: Context;
  response: Answer | null | undefined;
  error: Error | null | undefined;
  internal: Record<string, unknown>;
}

/** A middleware as middy takes it. */
export interface Middleware<Event, Answer> {
  before?(request: MiddlewareRequest<Event, Answer>): unknown;
  after?(request: MiddlewareRequest<Event, Answer>): unknown;
  onError?(request: MiddlewareRequest<Event, Answer>): unknown;
  name?: string;
}

/**
 * A Lambda handler with middy around it, as far as others may use it. Not by middy's own type: its declarations name a package that
 * nobody has to install, so that whoever checks the types of libraries could not import ours.
 */
export interface LambdaHandler<Event, Answer> {
  (event: Event, context: Context): Promise<Answer>;
  use(middleware: Middleware<Event, Answer> | Middleware<Event, Answer>[]): LambdaHandler<Event, Answer>;
  before(hook: (request: MiddlewareRequest<Event, Answer>) => unknown): LambdaHandler<Event, Answer>;
  after(hook: (request: MiddlewareRequest<Event, Answer>) => unknown): LambdaHandler<Event, Answer>;
  onError(hook: (request: MiddlewareRequest<Event, Answer>) => unknown): LambdaHandler<Event, Answer>;
}

/**
 * Powertools' own names, without what is the same for each line of a function and stands with the function: its ARN, its memory,
 * the rate of sampling. That is a third of a line, and lines are billed by the byte.
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

/** What `POWERTOOLS_LOG_LEVEL` leaves out. Not by Powertools: there, Lambda's own level, which a function with logs as JSON always has, takes its place. */
function quieted(log: Log, level = ''): Log {
  const levels = ['INFO', 'WARN', 'ERROR', 'CRITICAL'];
  const least = level.toUpperCase() === 'SILENT' ? levels.length : levels.indexOf(level.toUpperCase());
  const nothing = (): void => {};
  return {
    info: least > 0 ? nothing : log.info,
    warn: least > 1 ? nothing : log.warn,
    error: least > 2 ? nothing : log.error,
  };
}

export interface LambdaEntry {
  /** Each entry has the request's id, the function's name, and whether this was a cold start. */
  readonly log: Log;
  /** What is told of an invocation when it ends, in a few lines of its log. */
  readonly metrics: Metrics;
  readonly wrap: <Event, Answer>(
    handle: (event: Event, context: Context) => Promise<Answer>,
  ) => LambdaHandler<Event, Answer>;
}

/**
 * `POWERTOOLS_SERVICE_NAME`, `POWERTOOLS_LOG_LEVEL` and `POWERTOOLS_METRICS_DISABLED` apply. Metrics are of `FAIRLEAD_TABLE`, by type,
 * tier and fleet as `FAIRLEAD_METRICS_BY` says, and those on request that `FAIRLEAD_METRICS` names.
 */
export function lambdaEntry(): LambdaEntry {
  const logger = new Logger({
    serviceName: process.env.POWERTOOLS_SERVICE_NAME ?? 'fairlead',
    logFormatter: new LeanFormatter(),
  });
  const metrics = new MetricCollector(askedMetricsOf(process.env));
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
    log: quieted(
      {
        info: (message, fields) => logger.info(message, { ...fields }),
        warn: (message, fields) => logger.warn(message, { ...fields }),
        error: (message, fields) => logger.error(message, { ...fields }),
      },
      process.env.POWERTOOLS_LOG_LEVEL,
    ),
    wrap: <Event, Answer>(handle: (event: Event, context: Context) => Promise<Answer>) =>
      // middy's own answer shortly before the time is over would let Lambda freeze, and later thaw, what goes on here.
      middy<Event, Answer>((event: Event, context: Context) => told(() => handle(event, context)), {
        timeoutEarlyInMillis: 0,
      }).use(injectLambdaContext(logger)),
  };
}
