/** Spans of jobs: what a tracing tool gets from a client and a worker. */
import { context, type HrTime, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { traceJobs, traceSubmissions } from '../../lib/otel/otel.ts';
import { readHandling } from '../../lib/worker/handlers.ts';
import { runJob } from '../../lib/worker/run-job.ts';
import { desk } from '../client/desk.ts';
import { stage } from '../stage/stage.ts';
import { onlyJob } from '../testing/received.ts';

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
});
afterEach(() => exporter.reset());
afterAll(() => {
  trace.disable();
  context.disable();
});

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const PRODUCER = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };

const spans = (): Readonly<Record<string, ReadableSpan>> =>
  Object.fromEntries(exporter.getFinishedSpans().map((span) => [span.name, span]));

const msOf = ([sec, ns]: HrTime = [0, 0]): number => sec * 1_000 + ns / 1e6;

async function attempt(
  mode: 'queued' | 'onDemand',
  options: Parameters<typeof traceJobs>[0] = {},
  handler: () => unknown = () => ({ ok: true }),
  waitsMs = 0,
): Promise<{ readonly readyAtMs: number }> {
  const on = stage();
  const readyAtMs = on.clock.nowMs();
  const { handlers } = readHandling({ resize: handler }, [{ use: [traceJobs(options)] }]);
  await on.put(on.job({ type: 'resize', mode, traceparent: TRACEPARENT }));
  await on.advance(waitsMs);
  await on.pass();
  const [received] = await on.queue.receive('images', 1, 0, 60_000);
  if (received === undefined) throw new Error('nothing was sent');
  const { store, configuration, clock, random, log } = on;
  const worker = { workerId: 'worker-1', incarnation: '1' };
  await on.finish(runJob({ store, configuration, clock, random, log, worker }, handlers, onlyJob(received)));
  return { readyAtMs };
}

describe('an attempt', () => {
  it('links its spans to the producer that does not wait for it', async () => {
    await attempt('queued');
    const { 'wait resize': wait, 'process resize': process } = spans();
    expect(wait?.links).toMatchObject([{ context: PRODUCER }]);
    expect(wait?.parentSpanContext).toBeUndefined();
    expect(process?.links).toMatchObject([{ context: PRODUCER }]);
    expect(process?.parentSpanContext?.spanId).toBe(wait?.spanContext().spanId);
    expect(process?.spanContext().traceId).not.toBe(PRODUCER.traceId);
    expect(process?.kind).toBe(SpanKind.CONSUMER);
    expect(process?.attributes).toMatchObject({ 'messaging.system': 'fairlead', 'fairlead.attempt': 1 });
  });

  it('is in the trace of the producer that waits for it', async () => {
    await attempt('onDemand');
    for (const span of Object.values(spans())) {
      expect(span.parentSpanContext).toMatchObject(PRODUCER);
      expect(span.links).toEqual([]);
    }
    expect(Object.keys(spans())).toEqual(['wait resize', 'process resize']);
  });

  it('has a span from when its job was ready until it started', async () => {
    const waitsMs = 90_000;
    const { readyAtMs } = await attempt('queued', {}, () => null, waitsMs);
    const { 'wait resize': wait } = spans();
    expect(msOf(wait?.startTime)).toBe(readyAtMs);
    expect(msOf(wait?.endTime)).toBe(readyAtMs + waitsMs);
  });

  it('is as its worker says', async () => {
    await attempt('queued', { relation: 'child' });
    expect(spans()['process resize']?.parentSpanContext).toMatchObject(PRODUCER);
    exporter.reset();
    await attempt('onDemand', { relation: 'link' });
    expect(spans()['process resize']?.links).toMatchObject([{ context: PRODUCER }]);
  });

  it('shows that its handler failed, whatever it threw', async () => {
    await attempt('queued', {}, () => {
      throw new Error('no disk');
    });
    expect(spans()['process resize']?.status.code).toBe(SpanStatusCode.ERROR);
    expect(spans()['process resize']?.events).toMatchObject([{ name: 'exception' }]);
    exporter.reset();
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    await attempt('queued', {}, () => {
      throw proxy;
    });
    expect(spans()['process resize']?.status.code).toBe(SpanStatusCode.ERROR);
  });

  it('makes its handler part of the span', async () => {
    let inside: string | undefined;
    await attempt('queued', {}, () => {
      inside = trace.getActiveSpan()?.spanContext().spanId;
    });
    expect(inside).toBe(spans()['process resize']?.spanContext().spanId);
  });
});

describe('a submission', () => {
  it('has a span, whose trace the job carries', async () => {
    const client = desk().anotherClient(traceSubmissions());
    const { job } = await client.submit({ type: 'resize' });
    const span = spans()['submit resize'];
    expect(span?.kind).toBe(SpanKind.PRODUCER);
    const { traceId, spanId } = span?.spanContext() ?? {};
    expect(job.traceparent).toBe(`00-${traceId}-${spanId}-01`);
  });

  it('names no type if it has several, and shows its failure', async () => {
    const client = desk().anotherClient(traceSubmissions());
    await client.submitMany([{ type: 'resize' }, { type: 'report' }]);
    expect(spans().submitMany?.attributes).toMatchObject({ 'messaging.batch.message_count': 2 });
    await expect(client.submit({ type: 'rendr' })).rejects.toThrow('rendr');
    expect(spans()['submit rendr']?.status.code).toBe(SpanStatusCode.ERROR);
  });

  it('carries no trace while nothing is registered', async () => {
    trace.disable();
    const client = desk().anotherClient(traceSubmissions());
    const { job } = await client.submit({ type: 'resize' });
    expect(job.traceparent).toBeUndefined();
    trace.setGlobalTracerProvider(provider);
  });
});
