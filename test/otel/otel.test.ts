/** Spans of jobs: what a tracing tool gets from a client and a worker. */
import { context, type HrTime, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';
import type { LocalDeclaration } from '../../lib/local/pool.ts';
import { traceJobs, traceSubmissions } from '../../lib/otel/otel.ts';
import { type TestScheduler, testScheduler } from '../../lib/testing/index.ts';
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

const jobs = defineJobs({ resize: job<{ of: string; by?: string }>() });
/** No job ends with a heartbeat of its process, whose record then does not show the job any more. */
const TAKES_MS = 94_000;

/** Submits jobs that take `TAKES_MS`, one after another, and runs them. Returns the attributes of the last one's wait. */
async function lastWait(
  declaration: LocalDeclaration<typeof jobs>,
  ...submitted: readonly Parameters<TestScheduler<typeof jobs>['submit']>[2][]
): Promise<ReadableSpan['attributes'] | undefined> {
  const t = await testScheduler(jobs, declaration, {
    handlers: { resize: async () => {} },
    use: [traceJobs()],
    takes: { resize: TAKES_MS },
    processSlots: 1,
  });
  onTestFinished(() => t.dispose());
  let last: string | undefined;
  for (const options of submitted) {
    ({ id: last } = await t.submit('resize', { of: 'a.png' }, options));
    await t.advance('1s');
  }
  await t.runUntilIdle();
  return exporter
    .getFinishedSpans()
    .find(({ name, attributes }) => name === 'wait resize' && attributes['messaging.message.id'] === last)
    ?.attributes;
}

describe('the wait of a job', () => {
  const BLOCKED_BY = 'fairlead.wait.blocked_by';
  const BEFORE = 'fairlead.wait.before_reservation_ms';
  const AFTER = 'fairlead.wait.after_reservation_ms';
  const acme = { fairnessKey: 'acme' };
  const album = { resourceId: '7' };

  it.each<[string, LocalDeclaration<typeof jobs>, readonly object[], readonly string[]]>([
    [
      'a conflict key',
      { types: { resize: { conflictGroup: 'album' } } },
      [album, album],
      ['conflict album/7'],
    ],
    [
      'the cap of a resource',
      { types: { resize: { maxConcurrencyPerResource: 1 } } },
      [album, album],
      ['cap resource/resize/7'],
    ],
    ['the cap of a key', { fairness: { maxConcurrencyPerKey: 1 } }, [acme, acme], ['cap key/acme']],
    [
      'a key of a limit',
      { types: { resize: { limits: ['openai'] } }, limits: { openai: { perKey: 1 } } },
      [acme, acme],
      ['cap limit/openai/acme'],
    ],
    [
      'another key of a limit',
      {
        types: { resize: { limits: ['openai'] } },
        limits: { openai: { perKey: 1, keyedBy: 'org' } },
      },
      [{ keys: { org: 'o' } }, { fairnessKey: 'other', keys: { org: 'o' } }],
      ['cap limit/openai/o'],
    ],
    [
      'a fleet of functions',
      { fleets: { images: { types: ['resize'], slots: 1 } } },
      [{}, {}],
      ['noSlot fleet/images'],
    ],
    [
      'a fleet of processes',
      { fleets: { images: { types: ['resize'], slots: null } } },
      [{}, {}],
      ['noSlot fleet/images'],
    ],
    [
      'two bounds',
      { maxConcurrency: 1, fleets: { images: { types: ['resize'], slots: 1 } } },
      [{}, {}],
      ['cap pool', 'noSlot fleet/images'],
    ],
  ])('names what was full: %s', async (_, declaration, submitted, expected) => {
    const attributes = await lastWait(declaration, ...submitted);
    expect(attributes?.[BLOCKED_BY]).toEqual(expected);
    expect(attributes?.[BEFORE]).toBeGreaterThan(TAKES_MS - 5_000);
    expect(attributes?.[AFTER]).toBeLessThan(1_000);
  });

  it('begins where the last attempt ended, or at the time that was set then', async () => {
    const t = await testScheduler(
      jobs,
      {},
      {
        handlers: {
          resize: async (_, ctx) =>
            ctx.parkedState === undefined ? ctx.park({ until: '+15m', state: 'waits' }) : undefined,
        },
        use: [traceJobs()],
      },
    );
    onTestFinished(() => t.dispose());
    const beganMs = t.now.getTime();
    await t.submit('resize', { of: 'a.png' });
    await t.runUntilIdle();
    const starts = exporter
      .getFinishedSpans()
      .filter(({ name }) => name === 'wait resize')
      .map(({ startTime }) => msOf(startTime) - beganMs);
    expect(starts).toHaveLength(2);
    expect(starts[0]).toBeLessThan(1_000);
    expect(starts[1]).toBeGreaterThanOrEqual(15 * 60_000);
  });

  it('names nothing if nothing was full', async () => {
    const attributes = await lastWait({}, album, album);
    expect(attributes?.[BEFORE]).toBeLessThan(1_000);
    expect(attributes).not.toHaveProperty([BLOCKED_BY]);
  });

  it('names nothing that it does not know: how a rate was used up', async () => {
    const rated = {
      types: { resize: { limits: ['openai'] } },
      limits: { openai: { rate: { starts: 1, per: '5m' } } },
    } as const;
    const attributes = await lastWait(rated, {}, {});
    expect(attributes?.[BEFORE]).toBeGreaterThan(TAKES_MS);
    expect(attributes).not.toHaveProperty([BLOCKED_BY]);
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
