import { describe, expect, it } from 'vitest';
import { DEPLOYMENT, pollersOf } from '../../bench/cloud/deployment.ts';
import { synthesize } from '../cdk/stacks.ts';

const { template } = synthesize();

interface Mapping {
  readonly EventSourceArn: { readonly 'Fn::GetAtt': readonly [string, string] };
  readonly BatchSize: number;
  readonly MaximumBatchingWindowInSeconds?: number;
  readonly ScalingConfig?: { readonly MaximumConcurrency: number };
}

const mappings = Object.values(template.findResources('AWS::Lambda::EventSourceMapping')).map(
  ({ Properties }) => Properties as Mapping,
);

function mappingOf(part: RegExp): Mapping {
  const [found, ...others] = mappings.filter((each) => part.test(each.EventSourceArn['Fn::GetAtt'][0]));
  if (found === undefined || others.length > 0)
    throw new Error(`${1 + others.length} event sources are like ${part}`);
  return found;
}

const functionOf = (part: RegExp): unknown =>
  Object.entries(template.findResources('AWS::Lambda::Function')).find(([id]) => part.test(id))?.[1]
    .Properties;

describe('what the model takes for the deployment is what the construct makes', () => {
  it.each([
    ['dispatch', /^JobsDispatchFunction/],
    ['ingest', /^JobsIngestFunction/],
  ] as const)('the %s function', (name, part) => {
    const { memoryMb, timeoutMs } = DEPLOYMENT[name];
    expect(functionOf(part)).toMatchObject({
      MemorySize: memoryMb,
      Timeout: timeoutMs / 1_000,
      Architectures: ['arm64'],
      LoggingConfig: { LogFormat: DEPLOYMENT.logs.format, SystemLogLevel: DEPLOYMENT.logs.systemLevel },
    });
  });

  it.each([
    ['wakeQueue', /^JobsDispatchWakeQueue/],
    ['ingestQueue', /^JobsIngestQueue/],
  ] as const)('the event source on the %s', (name, part) => {
    const { BatchSize, MaximumBatchingWindowInSeconds = 0, ScalingConfig } = mappingOf(part);
    expect({
      batchSize: BatchSize,
      windowMs: 1_000 * MaximumBatchingWindowInSeconds,
      maxConcurrency: ScalingConfig?.MaximumConcurrency,
    }).toEqual({ ...DEPLOYMENT[name] });
  });

  it('the event source of a fleet', () => {
    const { BatchSize, ScalingConfig } = mappingOf(/^JobsFleetsimagesQueue/);
    expect(BatchSize).toBe(DEPLOYMENT.fleetQueue.batchSize);
    expect(ScalingConfig !== undefined).toBe(DEPLOYMENT.fleetQueue.hasMaxConcurrency);
  });

  it('the event source on the stream', () => {
    const { BatchSize, MaximumBatchingWindowInSeconds = 0 } = mappingOf(/^JobsTable/);
    expect({ batchSize: BatchSize, windowMs: 1_000 * MaximumBatchingWindowInSeconds }).toEqual({
      ...DEPLOYMENT.stream,
    });
  });

  it('the tick', () => {
    const schedules = Object.values(template.findResources('AWS::Events::Rule')).flatMap(
      ({ Properties }) => (Properties as { ScheduleExpression?: string }).ScheduleExpression ?? [],
    );
    expect(schedules).toEqual([`rate(${DEPLOYMENT.tickMs / 60_000} minute)`]);
  });
});

describe('pollers', () => {
  it('are two only at an idle queue without a maximum concurrency, and only where that is counted on', () => {
    expect(pollersOf('documented', false, true)).toBe(2);
    expect(pollersOf('documented', true, true)).toBe(5);
    expect(pollersOf('documented', false, false)).toBe(5);
    expect(pollersOf('five', false, true)).toBe(5);
  });
});
