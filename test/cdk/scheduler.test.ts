import { App, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { describe, expect, it } from 'vitest';
import { queueUrlOutput, schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { decodeConfiguration } from '../../lib/declaration/codec.ts';
import { JOB_REQUESTS, SCHEDULE_REQUESTS } from '../../lib/events/contract.ts';
import { PROJECTED, TABLE } from '../../lib/store/table/schema.ts';
import { readmeStack } from '../package/readme.ts';
import {
  at,
  emptyStack,
  outputFolder,
  type Resource,
  referred,
  resourcesOf,
  type Synthesized,
  synthesize,
  workerFunction,
} from './stacks.ts';

const synthesized = synthesize();
const { template, scheduler, stack } = synthesized;
const logicalId = (construct: { readonly node: { readonly defaultChild?: unknown } }): string =>
  stack.getLogicalId(construct.node.defaultChild as Parameters<Stack['getLogicalId']>[0]);

function functionProperties(lambda: Scheduler['ingestFunction']): unknown {
  return at(template.findResources('AWS::Lambda::Function'), logicalId(lambda), 'Properties');
}

describe('the table', () => {
  it('is keyed, expired and indexed as the schema says, bills on demand and streams both images', () => {
    // DynamoDB takes no more for one index.
    expect(PROJECTED.length).toBeLessThanOrEqual(20);
    template.hasResourceProperties('AWS::DynamoDB::GlobalTable', {
      BillingMode: 'PAY_PER_REQUEST',
      KeySchema: [
        { AttributeName: TABLE.partitionKey, KeyType: 'HASH' },
        { AttributeName: TABLE.sortKey, KeyType: 'RANGE' },
      ],
      StreamSpecification: { StreamViewType: 'NEW_AND_OLD_IMAGES' },
      TimeToLiveSpecification: { AttributeName: TABLE.ttl, Enabled: true },
      GlobalSecondaryIndexes: [
        {
          IndexName: TABLE.linesIndex,
          KeySchema: [
            { AttributeName: TABLE.line, KeyType: 'HASH' },
            { AttributeName: TABLE.rank, KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'INCLUDE', NonKeyAttributes: [...PROJECTED] },
        },
        {
          IndexName: TABLE.expiriesIndex,
          KeySchema: [
            { AttributeName: TABLE.expiry, KeyType: 'HASH' },
            { AttributeName: TABLE.expireAtMs, KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'KEYS_ONLY' },
        },
      ],
      Replicas: [
        Match.objectLike({ PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true } }),
      ],
    });
  });

  it('outlives its stack unless told otherwise, and is gone where its first creation failed', () => {
    template.hasResource('AWS::DynamoDB::GlobalTable', {
      DeletionPolicy: 'RetainExceptOnCreate',
      UpdateReplacePolicy: 'Retain',
    });
    synthesize({ removalPolicy: RemovalPolicy.DESTROY }).template.hasResource('AWS::DynamoDB::GlobalTable', {
      DeletionPolicy: 'Delete',
    });
  });
});

describe('a table that is there', () => {
  const tableArn = 'arn:aws:dynamodb:eu-west-1:111122223333:table/orders-jobs';
  const streamArn = `${tableArn}/stream/2026-11-28T00:00:00.000`;
  const restored = synthesize({ table: { existing: { tableArn, streamArn } } });
  const mapping = resourcesOf(restored.template, 'AWS::Lambda::EventSourceMapping').find(
    ([, { Properties }]) => Properties.StartingPosition !== undefined,
  );

  it('is used, streamed and granted as one of the stack’s own, and neither made nor deleted', () => {
    restored.template.resourceCountIs('AWS::DynamoDB::GlobalTable', 0);
    expect(mapping?.[1].Properties.EventSourceArn).toBe(streamArn);
    expect(restored.scheduler.workerEnvironment('gpu')).toMatchObject({ FAIRLEAD_TABLE: 'orders-jobs' });
    const policies = JSON.stringify(resourcesOf(restored.template, 'AWS::IAM::Policy'));
    for (const arn of [tableArn, `${tableArn}/index/lines`, streamArn])
      expect(policies).toContain(`"${arn}"`);
  });

  it('is declared into, as any other: the table is among the properties of what declares', () => {
    const declaredIn = (of: Template): unknown =>
      at(resourcesOf(of, 'Custom::FairleadDeclaration'), 0, 1, 'Properties', 'tableArn');
    expect(declaredIn(restored.template)).toBe(tableArn);
    expect(referred(declaredIn(template))).toBe(logicalId(scheduler.table));
  });
});

describe('the path in', () => {
  it('takes every request on the bus to the ingest queue, whatever its source', () => {
    template.hasResourceProperties('AWS::Events::Rule', {
      EventBusName: Match.anyValue(),
      EventPattern: { 'detail-type': ['Job Requested', ...JOB_REQUESTS.keys(), ...SCHEDULE_REQUESTS.keys()] },
      Targets: [Match.objectLike({ Arn: { 'Fn::GetAtt': [logicalId(scheduler.ingestQueue), 'Arn'] } })],
    });
  });

  it('takes another bus instead of its own', () => {
    const other = emptyStack();
    const eventBus = EventBus.fromEventBusName(other, 'Default', 'default');
    const made = new Scheduler(other, 'Jobs', { fleets: { all: { types: ['a'] } }, eventBus });
    const otherTemplate = Template.fromStack(other);
    otherTemplate.resourceCountIs('AWS::Events::EventBus', 0);
    otherTemplate.hasResourceProperties('AWS::Events::Rule', { EventBusName: 'default' });
    expect(made.bus).toBe(eventBus);
  });

  it('ingests in batches of ten at once, or in larger ones when it may wait', () => {
    const source = (of: Template, queue: string): unknown =>
      resourcesOf(of, 'AWS::Lambda::EventSourceMapping').find(
        ([, mapping]) => referred(mapping.Properties.EventSourceArn) === queue,
      )?.[1].Properties;
    expect(source(template, logicalId(scheduler.ingestQueue))).toMatchObject({ BatchSize: 10 });
    const patient = synthesize({ ingestBatchSize: 100, ingestBatchingWindow: Duration.seconds(1) });
    expect(source(patient.template, logicalId(scheduler.ingestQueue))).toMatchObject({
      BatchSize: 100,
      MaximumBatchingWindowInSeconds: 1,
    });
  });
});

describe('the dispatch function', () => {
  const sources = resourcesOf(template, 'AWS::Lambda::EventSourceMapping').filter(
    ([, mapping]) => referred(mapping.Properties.FunctionName) === logicalId(scheduler.dispatchFunction),
  );

  it('hears only of jobs that wait or have ended, and of schedules that paused themselves, from the first record on', () => {
    const stream = sources.find(([, mapping]) => mapping.Properties.StartingPosition !== undefined);
    expect(stream?.[1].Properties).toMatchObject({ StartingPosition: 'TRIM_HORIZON', BatchSize: 1_000 });
    const pattern: unknown = JSON.parse(
      String(at(stream, 1, 'Properties', 'FilterCriteria', 'Filters', 0, 'Pattern')),
    );
    expect(pattern).toEqual({
      dynamodb: {
        NewImage: {
          state: { S: ['pending', 'scheduled', 'succeeded', 'failed', 'cancelled', 'expired', 'stopped'] },
        },
      },
    });
  });

  it('is woken by batches of wakes, without a bound that would keep more pollers at an idle queue', () => {
    const wake = sources.find(
      ([, mapping]) => referred(mapping.Properties.EventSourceArn) === logicalId(scheduler.wakeQueue),
    );
    expect(wake?.[1].Properties).toMatchObject({ BatchSize: 10 });
    expect(wake?.[1].Properties).not.toHaveProperty('ScalingConfig');
  });

  it('looks after everything each minute', () => {
    template.hasResourceProperties('AWS::Events::Rule', {
      ScheduleExpression: 'rate(1 minute)',
      Targets: [Match.objectLike({ Arn: { 'Fn::GetAtt': [logicalId(scheduler.dispatchFunction), 'Arn'] } })],
    });
  });
});

describe('functions', () => {
  it('run on Node.js 24 and arm64, and log as JSON into a group that forgets', () => {
    for (const lambda of [scheduler.ingestFunction, scheduler.dispatchFunction]) {
      expect(functionProperties(lambda)).toMatchObject({
        Runtime: 'nodejs24.x',
        Architectures: ['arm64'],
        Handler: 'index.handler',
        LoggingConfig: { LogFormat: 'JSON', SystemLogLevel: 'WARN' },
      });
    }
    template.allResourcesProperties(
      'AWS::Logs::LogGroup',
      Match.objectLike({ RetentionInDays: Match.anyValue() }),
    );
  });

  it('take another architecture and retention', () => {
    const other = synthesize({ architecture: Architecture.X86_64, logRetention: RetentionDays.ONE_DAY });
    other.template.hasResourceProperties('AWS::Lambda::Function', { Architectures: ['x86_64'] });
    other.template.hasResourceProperties('AWS::Logs::LogGroup', { RetentionInDays: 1 });
  });

  const reservedBy = (of: Template): readonly unknown[] =>
    resourcesOf(of, 'AWS::Lambda::Function').flatMap(([id, { Properties: properties }]) =>
      properties.ReservedConcurrentExecutions === undefined
        ? []
        : [[id.replace(/Function.*$/, ''), properties.ReservedConcurrentExecutions]],
    );

  it('concurrency is reserved for those that are named only', () => {
    expect(reservedBy(template)).toEqual([]);
    const other = synthesize({ reservedConcurrency: { dispatch: 20, ingest: 5 } });
    expect(reservedBy(other.template)).toEqual([
      ['JobsIngest', 5],
      ['JobsDispatch', 20],
    ]);
  });

  it('a flood of events waits in the queue instead of filling the account', () => {
    const concurrencyOf = (of: Template): unknown =>
      resourcesOf(of, 'AWS::Lambda::EventSourceMapping').find(
        ([, mapping]) => referred(mapping.Properties.EventSourceArn) === logicalId(scheduler.ingestQueue),
      )?.[1].Properties.ScalingConfig;
    expect(concurrencyOf(template)).toEqual({ MaximumConcurrency: 5 });
    expect(concurrencyOf(synthesize({ ingestConcurrency: 2 }).template)).toEqual({ MaximumConcurrency: 2 });
  });

  it('the ingest and dispatch functions know the table, the bus and the wake queue', () => {
    for (const lambda of [scheduler.ingestFunction, scheduler.dispatchFunction]) {
      const variables = at(functionProperties(lambda), 'Environment', 'Variables');
      expect(referred(at(variables, 'FAIRLEAD_TABLE'))).toBe(logicalId(scheduler.table));
      expect(at(variables, 'FAIRLEAD_BUS')).toBeDefined();
      expect(referred(at(variables, 'FAIRLEAD_WAKE_QUEUE'))).toBe(logicalId(scheduler.wakeQueue));
      expect(at(variables, 'NODE_OPTIONS')).toBe('--enable-source-maps');
      expect(JSON.stringify(variables).length).toBeLessThan(600);
    }
  });

  it('the dispatch function has an alias of its newest code, by which those who submit wake it', () => {
    const [[id, alias] = []] = resourcesOf(template, 'AWS::Lambda::Alias');
    expect(alias?.Properties).toMatchObject({ Name: 'wake', FunctionVersion: '$LATEST' });
    expect(referred(at(alias, 'Properties', 'FunctionName'))).toBe(logicalId(scheduler.dispatchFunction));
    // A wake that fails is not made again: the stream tells of the same jobs.
    const ofAlias = resourcesOf(template, 'AWS::Lambda::EventInvokeConfig').filter(([, { Properties }]) =>
      JSON.stringify(Properties.Qualifier).includes(String(id)),
    );
    expect(ofAlias.map(([, { Properties }]) => Properties.MaximumRetryAttempts)).toEqual([0]);
    for (const environment of [scheduler.schedulerEnvironment(), scheduler.workerEnvironment('gpu')]) {
      const { FAIRLEAD_WAKE_FUNCTION } = Stack.of(scheduler).resolve(environment);
      expect(referred(FAIRLEAD_WAKE_FUNCTION)).toBe(id);
    }
    // The function itself tells nobody.
    const own = at(functionProperties(scheduler.dispatchFunction), 'Environment', 'Variables');
    expect(own).not.toHaveProperty('FAIRLEAD_WAKE_FUNCTION');
  });

  it('a declaration names the pool and the queues, and comes before the functions that read it', () => {
    const [[id, declared] = []] = resourcesOf(template, 'Custom::FairleadDeclaration');
    expect(decodeConfiguration(String(at(declared, 'Properties', 'pool')))).toEqual(scheduler.configuration);
    expect(JSON.stringify(at(declared, 'Properties', 'queueUrls'))).toMatch(/images.*general.*gpu/);
    for (const lambda of [scheduler.ingestFunction, scheduler.dispatchFunction]) {
      const [, made] =
        resourcesOf(template, 'AWS::Lambda::Function').find(([each]) => each === logicalId(lambda)) ?? [];
      expect(at(made, 'DependsOn')).toContain(id);
    }
  });

  it('a declaration says when partitions lend, if the stack does', () => {
    const { template: declaring } = synthesize({
      partitions: 2,
      lending: { lentShare: 1 },
      lostClaimsInARow: 9,
    });
    const [[, declared] = []] = resourcesOf(declaring, 'Custom::FairleadDeclaration');
    const { lending, lostClaimsInARow } = decodeConfiguration(String(at(declared, 'Properties', 'pool')));
    expect(lending).toMatchObject({ lentShare: 1, loanMs: 30_000 });
    expect(lostClaimsInARow).toBe(9);
  });

  it('a fleet’s function knows the table and whom it works for', () => {
    const [, images] =
      resourcesOf(template, 'AWS::Lambda::Function').find(([id]) => id.startsWith('Images')) ?? [];
    const variables = at(images, 'Properties', 'Environment', 'Variables');
    expect(variables).toMatchObject({ FAIRLEAD_FLEET: 'images' });
    expect(Object.keys(variables ?? {})).toEqual(
      expect.arrayContaining(['FAIRLEAD_TABLE', 'FAIRLEAD_WAKE_QUEUE']),
    );
    expect(variables).not.toHaveProperty('FAIRLEAD_BUS');
  });
});

describe('fleets', () => {
  const concurrencyOf = (
    fleet: string,
    of: Pick<Synthesized, 'scheduler' | 'template'> = synthesized,
  ): unknown => {
    const queue = of.scheduler.fleets[fleet]?.queue;
    const mapping = resourcesOf(of.template, 'AWS::Lambda::EventSourceMapping').find(
      ([, { Properties: properties }]) =>
        queue !== undefined && referred(properties.EventSourceArn) === logicalId(queue),
    );
    return at(mapping, 1, 'Properties', 'ScalingConfig', 'MaximumConcurrency');
  };

  it('bound their invocations by their slots alone, so that Lambda asks an idle queue less often', () => {
    expect(concurrencyOf('images')).toBeUndefined();
  });

  it('take a message for each invocation, which tells of as many jobs as they say', () => {
    const sizes = resourcesOf(template, 'AWS::Lambda::EventSourceMapping').flatMap(
      ([, { Properties: properties }]) =>
        Object.values(synthesized.scheduler.fleets).some(
          ({ queue }) => referred(properties.EventSourceArn) === logicalId(queue),
        )
          ? [properties.BatchSize]
          : [],
    );
    expect(sizes).toEqual([1, 1]);
    const declared = synthesized.scheduler.configuration.fleets.map(({ fleet, batchSize }) => [
      fleet,
      batchSize,
    ]);
    expect(declared).toEqual([
      ['images', undefined],
      ['general', 4],
      ['gpu', undefined],
    ]);
  });

  it('run as many invocations at once as they are told', () => {
    const other = emptyStack();
    const told = new Scheduler(other, 'Jobs', {
      types: { thumbnail: {} },
      fleets: {
        images: {
          types: ['thumbnail'],
          slots: 40,
          maxConcurrency: 7,
          handler: workerFunction(other, 'Images'),
        },
      },
    });
    expect(concurrencyOf('images', { scheduler: told, template: Template.fromStack(other) })).toBe(7);
  });

  it('without a handler are only a queue', () => {
    expect(concurrencyOf('gpu')).toBeUndefined();
    expect(scheduler.fleets.gpu?.function).toBeUndefined();
    expect(scheduler.fleets.gpu?.slots).toBeNull();
  });

  it('have a queue for a type that no fleet names', () => {
    const { scheduler: other } = synthesize({ types: { thumbnail: {}, index: {}, train: {}, lonely: {} } });
    expect(other.fleets.lonely?.types).toEqual(['lonely']);
  });

  it('with a handler have ten slots unless told otherwise', () => {
    const other = emptyStack();
    const made = new Scheduler(other, 'Jobs', {
      fleets: { all: { types: ['a'], handler: workerFunction(other, 'All') } },
    });
    expect(made.fleets.all?.slots).toBe(10);
  });

  it('give a type without a timeout what the shortest of its functions can keep', () => {
    const timeouts = new Map(scheduler.configuration.types.map(({ type, timeoutMs }) => [type, timeoutMs]));
    // thumbnail may land on a function of 30 s, index only on one of 120 s.
    expect(timeouts.get('thumbnail')).toBe(27_000);
    expect(timeouts.get('index')).toBe(108_000);
    expect(timeouts.get('train')).toBe(3_600_000);
  });

  it('tell a process where everything is', () => {
    expect(Object.keys(scheduler.workerEnvironment('gpu'))).toEqual([
      'FAIRLEAD_TABLE',
      'FAIRLEAD_FLEET',
      'FAIRLEAD_WAKE_QUEUE',
      'FAIRLEAD_WAKE_FUNCTION',
    ]);
  });
});

describe('metrics and outputs', () => {
  it('counts the messages of all dead-letter queues', () => {
    expect(Object.keys(scheduler.deadLetterQueues)).toEqual(['ingest', 'outcomes']);
    expect(scheduler.metricDeadLetters().expression).toBe('FILL(q0, 0) + FILL(q1, 0)');
  });

  it('measures how old waiting events, records and messages are', () => {
    expect(scheduler.metricIngestAge().metricName).toBe('ApproximateAgeOfOldestMessage');
    expect(scheduler.metricStreamAge().metricName).toBe('IteratorAge');
    expect(scheduler.metricFleetQueueAge('gpu').metricName).toBe('ApproximateAgeOfOldestMessage');
  });

  it('tells its address in outputs, and leaves the others to the stack, which can have them all', () => {
    const own = Object.keys(template.toJSON().Outputs);
    expect(own.map((name) => name.replace(/[0-9A-F]{8}$/, ''))).toEqual([
      'JobsTableName',
      'JobsBusName',
      'JobsWakeQueueUrl',
      'JobsWakeFunctionArn',
      'JobsFleetNames',
    ]);
    const other = synthesize({}, schedulerOutputs);
    expect(Object.keys(other.template.toJSON().Outputs).filter((name) => !own.includes(name))).toEqual([
      'TableName',
      'BusName',
      'WakeQueueUrl',
      'WakeFunctionArn',
      'FleetNames',
      'ImagesQueueUrl',
      'GeneralQueueUrl',
      'GpuQueueUrl',
    ]);
    expect(queueUrlOutput('big-pdf files')).toBe('BigPdfFilesQueueUrl');
  });

  it('needs nothing but fleets, in any app', () => {
    const plain = new Stack(
      new App({ context: { 'aws:cdk:bundling-stacks': [] }, outdir: outputFolder() }),
      'Plain',
    );
    new Scheduler(plain, 'Jobs', { fleets: { pdf: { types: ['pdf'] } } });
    Template.fromStack(plain).resourceCountIs('AWS::Lambda::Function', 3);
  });
});

describe('the stack of the README in a new account', async () => {
  const OrdersStack = await readmeStack(outputFolder());
  /** What AWS gives an account that has asked for nothing yet. Of the executions it wants as many unreserved. */
  const QUOTAS = { executions: 10, memoryMb: 3_008 } as const;
  const stack = new OrdersStack(emptyStack().node.root, 'Orders');
  const { fleets } = stack.scheduler.configuration;
  const made = Template.fromStack(stack);

  it('reserves and provisions nothing, and takes no more memory than a function may have', () => {
    for (const [id, { Properties: properties }] of resourcesOf(made, 'AWS::Lambda::Function')) {
      expect([id, properties.ReservedConcurrentExecutions]).toEqual([id, undefined]);
      expect(Number(properties.MemorySize ?? 128)).toBeLessThanOrEqual(QUOTAS.memoryMb);
    }
    for (const type of ['AWS::Lambda::Alias', 'AWS::Lambda::Version']) {
      for (const [id, { Properties: properties }] of resourcesOf(made, type))
        expect([id, properties.ProvisionedConcurrencyConfig]).toEqual([id, undefined]);
    }
    expect(JSON.stringify(made.toJSON())).not.toContain('ProvisionedPollerConfig');
  });

  it('leaves the dispatch function one execution where ingest and the fleet take all that they may', () => {
    const ofIngest = resourcesOf(made, 'AWS::Lambda::EventSourceMapping').flatMap(
      ([, { Properties: properties }]) => Number(at(properties, 'ScalingConfig', 'MaximumConcurrency') ?? 0),
    );
    expect(ofIngest).toContain(5);
    const ofFleets = fleets.map(({ slots }) => slots ?? 0);
    const most = [...ofIngest, ...ofFleets].reduce((sum, each) => sum + each, 0);
    expect(most).toBeLessThan(QUOTAS.executions);
  });

  it('leaves nothing behind where its first creation fails', () => {
    const kept = Object.entries(made.toJSON().Resources as Readonly<Record<string, Resource>>).filter(
      ([, { DeletionPolicy }]) => DeletionPolicy === 'Retain',
    );
    expect(kept).toEqual([]);
  });
});
