/**
 * `fairlead/otel`: spans for jobs, by OpenTelemetry. It needs the package `@opentelemetry/api`, which a program that
 * uses OpenTelemetry has. Without a registered SDK the API does nothing.
 */
import { isNativeError } from 'node:util/types';
import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import type { SubmitCall, SubmitTracing } from '../client/contexts.ts';
import { objectOf, readChoice } from '../core/read-fields.ts';
import { isTraceparent } from '../core/trace.ts';
import type { JobMiddleware, MiddlewareContext } from '../worker/handlers.ts';

/** How the spans of a job belong to the trace of its producer. */
export interface JobTracingOptions {
  /**
   * `child`: in the producer's trace. `link`: in a trace of their own, which names the producer's span as a link; a
   * trace that waits for days, or has thousands of jobs, is of no use to tracing tools. `auto`: `child` for a job that
   * its producer waits for (`run`), and `link` for others.
   * @default 'auto'
   */
  readonly relation?: 'auto' | 'child' | 'link' | undefined;
}

const RELATIONS = ['auto', 'child', 'link'] as const;
const checkOptions = objectOf({
  relation: (field, value) => void readChoice(field, value, RELATIONS, 'auto'),
});

const tracer = () => trace.getTracer('fairlead');

/** Returns the span that a `traceparent` names; undefined for none, or for a text that is none. */
function spanContextOf(traceparent: string | undefined): SpanContext | undefined {
  if (traceparent === undefined || !isTraceparent(traceparent)) return undefined;
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-');
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}

const hexByte = (value: number): string => value.toString(16).padStart(2, '0');

/** Returns the `traceparent` of the active span; undefined if there is none. */
function activeTraceparent(): string | undefined {
  const active = trace.getSpanContext(context.active());
  if (active === undefined || !isSpanContextValid(active)) return undefined;
  return `00-${active.traceId}-${active.spanId}-${hexByte(active.traceFlags)}`;
}

const attributesOf = (job: MiddlewareContext): Attributes => ({
  'messaging.system': 'fairlead',
  'messaging.destination.name': job.type,
  'messaging.message.id': job.id,
  'fairlead.attempt': job.attempt,
  'fairlead.mode': job.mode,
  'fairlead.fairness_key': job.fairnessKey,
  ...(job.resourceId === undefined ? {} : { 'fairlead.resource_id': job.resourceId }),
});

const msBetween = (from: Date, to: Date): number => Math.max(0, to.getTime() - from.getTime());

/** What is known of a wait. What held the job back is often not known, and then no attribute says so. */
const waited = ({ readyAt, reservedAt, startedAt, blockedBy }: MiddlewareContext): Attributes => ({
  'fairlead.wait.before_reservation_ms': msBetween(readyAt, reservedAt),
  'fairlead.wait.after_reservation_ms': msBetween(reservedAt, startedAt),
  ...(blockedBy === undefined || blockedBy.length === 0
    ? {}
    : { 'fairlead.wait.blocked_by': [...blockedBy] }),
});

/** Runs the work in the span, and ends the span with the work. */
async function within<Value>(span: Span, parent: Context, work: () => Promise<Value>): Promise<Value> {
  try {
    return await context.with(trace.setSpan(parent, span), work);
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR });
    // Only errors of this realm are recorded, because other values may throw when they are read.
    if (isNativeError(error)) span.recordException(error);
    throw error;
  } finally {
    span.end();
  }
}

/**
 * Returns a middleware of workers that makes two spans of each attempt: `wait TYPE`, from the time when the job was
 * ready to its start, and `process TYPE` around its handler, which is the active span there.
 *
 * @example export const handler = worker(jobs, handlers, { use: [traceJobs()] });
 * @throws ConfigurationError - an option is wrong
 */
export function traceJobs(options: JobTracingOptions = {}): JobMiddleware {
  checkOptions('options', options);
  const { relation = 'auto' } = options;
  return async (job, next) => {
    const producer = spanContextOf(job.traceparent);
    const isChild = relation === 'child' || (relation === 'auto' && job.mode === 'onDemand');
    const attributes = attributesOf(job);
    const parent =
      producer !== undefined && isChild ? trace.setSpanContext(ROOT_CONTEXT, producer) : ROOT_CONTEXT;
    const links = producer !== undefined && !isChild ? [{ context: producer }] : [];
    const wait = tracer().startSpan(
      `wait ${job.type}`,
      {
        kind: SpanKind.INTERNAL,
        attributes: { ...attributes, ...waited(job) },
        links,
        startTime: job.readyAt,
      },
      parent,
    );
    wait.end(job.startedAt);
    // In a trace of its own, the wait is the first span.
    const before = isChild ? parent : trace.setSpan(parent, wait);
    const process = tracer().startSpan(
      `process ${job.type}`,
      { kind: SpanKind.CONSUMER, attributes, links },
      before,
    );
    return within(process, before, next);
  };
}

/**
 * Settings of a client that makes a span of each submission, `submit TYPE` or `run TYPE`, and hands its trace to the
 * jobs.
 *
 * @example const client = SchedulerClient.for(jobs, { ...traceSubmissions() });
 */
export function traceSubmissions(): SubmitTracing {
  return {
    traceparent: activeTraceparent,
    around: (call, work) => {
      const parent = context.active();
      const span = tracer().startSpan(
        spanNameOf(call),
        { kind: SpanKind.PRODUCER, attributes: submitted(call) },
        parent,
      );
      return within(span, parent, work);
    },
  };
}

/** Returns the type of the submitted jobs; undefined if they have several. */
const onlyTypeOf = ({ types }: SubmitCall): string | undefined => (types.length === 1 ? types[0] : undefined);

const spanNameOf = (call: SubmitCall): string => `${call.verb} ${onlyTypeOf(call) ?? ''}`.trimEnd();

const submitted = (call: SubmitCall): Attributes => {
  const type = onlyTypeOf(call);
  return {
    'messaging.system': 'fairlead',
    'messaging.batch.message_count': call.jobs,
    ...(type === undefined ? {} : { 'messaging.destination.name': type }),
  };
};
