import { join } from 'node:path';
import { App, CfnParameter, Duration, Lazy, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import {
  Alias,
  ApplicationLogLevel,
  Code,
  type IFunction,
  type IVersion,
  Function as LambdaFunction,
  Runtime,
} from 'aws-cdk-lib/aws-lambda';
import { describe, expect, it } from 'vitest';
import type { SchedulerProps } from '../../cdk/props.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import { emptyStack, workerFunction } from './stacks.ts';

const STREAM = 'arn:aws:dynamodb:eu-west-1:111122223333:table/jobs/stream/2026-11-28T00:00:00.000';

const KNOWN_WHEN_SYNTHESISED = 'must be known when the app is synthesised';
const numberOf = (stack: Stack): CfnParameter =>
  new CfnParameter(stack, `N${stack.node.children.length}`, { type: 'Number' });
const textOf = (stack: Stack): string =>
  new CfnParameter(stack, `T${stack.node.children.length}`).valueAsString;

const mistakes: readonly (readonly [string, (stack: Stack) => SchedulerProps, RegExp])[] = [
  [
    'slots that only the deployment knows',
    (stack) => ({ fleets: { pdf: { types: ['a'], slots: numberOf(stack).valueAsNumber } } }),
    new RegExp(`^fleets\\.pdf\\.slots: ${KNOWN_WHEN_SYNTHESISED}.*, got "a token"\\. Write the value itself`),
  ],
  [
    'slots that are told late',
    () => ({ fleets: { pdf: { types: ['a'], slots: Lazy.number({ produce: () => 3 }) } } }),
    new RegExp(`^fleets\\.pdf\\.slots: ${KNOWN_WHEN_SYNTHESISED}`),
  ],
  [
    'a type that only the deployment can name',
    (stack) => ({ types: { [textOf(stack)]: {} } }),
    new RegExp(`^a name in types: ${KNOWN_WHEN_SYNTHESISED}`),
  ],
  [
    'a type of a fleet that only the deployment can name',
    (stack) => ({ fleets: { pdf: { types: [textOf(stack)] } } }),
    new RegExp(`^fleets\\.pdf\\.types\\.0: ${KNOWN_WHEN_SYNTHESISED}`),
  ],
  [
    'a timeout that only the deployment knows',
    (stack) => ({ types: { a: { timeoutMs: Duration.seconds(numberOf(stack).valueAsNumber) } } }),
    new RegExp(`^types\\.a\\.timeoutMs: ${KNOWN_WHEN_SYNTHESISED}`),
  ],
  [
    'a weight that only the deployment knows',
    (stack) => ({ fairness: { weights: { gold: numberOf(stack).valueAsNumber } } }),
    new RegExp(`^fairness\\.weights\\.gold: ${KNOWN_WHEN_SYNTHESISED}`),
  ],
  [
    'a list of fleets',
    () => ({ fleets: [{ types: ['a'] }] }) as unknown as SchedulerProps,
    /^fleets: must be an object, got an array of 1\. Write it as \{ name: value \}/,
  ],
  [
    'a property that there is not',
    () => ({ evenBus: 'mine' }) as SchedulerProps,
    /^evenBus: is not a known field, got "mine"\. Did you mean "eventBus"\? Known here: types, .*, eventBus, /,
  ],
  ['a fleet with no types', () => ({ fleets: { pdf: { types: [] } } }), /^fleets\.pdf\.types: names no type/],
  [
    'a type twice in one fleet',
    () => ({ fleets: { pdf: { types: ['a', 'a'] } } }),
    /^fleets\.pdf\.types\[1\]: is named twice, got "a"/,
  ],
  [
    'a misspelt type of a fleet',
    () =>
      ({ types: { thumbnail: {}, report: {} }, fleets: { pdf: { types: ['thumnail'] } } }) as SchedulerProps,
    /^fleets\.pdf\.types\[0\]: names no declared type \(thumbnail, report\), got "thumnail"\. Did you mean "thumbnail"\?/,
  ],
  [
    'a misspelt tier',
    () => ({ tiers: [{ tier: 'urgent' }], types: { a: { tier: 'urgnet' } } }),
    /^types\.a\.tier: .*got "urgnet"\. Did you mean "urgent"\?/,
  ],
  [
    'a function of an old Node.js',
    (stack) => ({ fleets: { pdf: { types: ['a'], handler: aFunction(stack, Runtime.NODEJS_20_X) } } }),
    /^fleets\.pdf\.handler: runs Node\.js 20, but workers need 22 or later.*got "nodejs20\.x"/,
  ],
  [
    'a function of another language',
    (stack) => ({ fleets: { pdf: { types: ['a'], handler: aFunction(stack, Runtime.PYTHON_3_13) } } }),
    /^fleets\.pdf\.handler: is not a runtime of Node\.js/,
  ],
  ...(['WARN', 'ERROR', 'FATAL'] as const).map((level): (typeof mistakes)[number] => [
    `a function whose metrics Lambda would drop from its log, at the level ${level}`,
    (stack) => ({
      fleets: {
        pdf: {
          types: ['a'],
          handler: new WorkerFunction(stack, `At${level}`, {
            entry: join(import.meta.dirname, '../../examples/files/images.ts'),
            applicationLogLevelV2: ApplicationLogLevel[level],
          }),
        },
      },
    }),
    new RegExp(
      `^fleets\\.pdf\\.handler: is a log level at which Lambda drops the metrics.*got "${level}".*POWERTOOLS_LOG_LEVEL`,
    ),
  ]),
  [
    'a function of another app whose timeout nobody says',
    (stack) => ({ fleets: { pdf: { types: ['a'], handler: referredFunction(stack) } } }),
    /^fleets\.pdf\.handlerTimeout: is required for a function that this app does not create/,
  ],
  [
    'the time of a handler that is not there',
    () => ({ fleets: { pdf: { types: ['a'], handlerTimeout: Duration.minutes(1) } } }),
    /^fleets\.pdf\.handlerTimeout: says how long the handler may run, but the fleet has no handler/,
  ],
  [
    'another time than its function has',
    (stack) => ({
      fleets: {
        pdf: { types: ['a'], handler: workerFunction(stack, 'Pdf'), handlerTimeout: Duration.minutes(14) },
      },
    }),
    /^fleets\.pdf\.handlerTimeout: is not the timeout of the function, which Lambda ends after .*got "14 minutes"/,
  ],
  [
    'a longer time than a function has',
    (stack) => ({
      fleets: { pdf: { types: ['a'], handler: referredFunction(stack), handlerTimeout: Duration.hours(1) } },
    }),
    /^fleets\.pdf\.handlerTimeout: is longer than 15 minutes, the longest timeout of a function, got "1 hour"/,
  ],
  [
    'a function of another Region',
    (stack) => ({ fleets: { pdf: { types: ['a'], handler: functionIn(stack, 'eu-west-2', ACCOUNT) } } }),
    /^fleets\.pdf\.handler: is in another Region than the scheduler \(eu-west-1\), .*got "eu-west-2"/,
  ],
  [
    'a function of another account',
    (stack) => ({ fleets: { pdf: { types: ['a'], handler: functionIn(stack, REGION, '444455556666') } } }),
    /^fleets\.pdf\.handler: is in another account than the scheduler \(111122223333\), .*got "444455556666"/,
  ],
  [
    'a function that works for another scheduler',
    (stack) => {
      const handler = workerFunction(stack, 'Pdf');
      new Scheduler(stack, 'Other', { fleets: { doc: { types: ['b'], handler } } });
      return { fleets: { pdf: { types: ['a'], handler } } };
    },
    /^fleets\.pdf\.handler: is also the handler of another scheduler, but a function can serve only one fleet/,
  ],
  [
    'pollers where nothing is polled for',
    () => ({ fleets: { pdf: { types: ['a'], provisionedPollers: { minimumPollers: 2 } } } }),
    /^fleets\.pdf\.provisionedPollers: .*the fleet has no handler/,
  ],
  [
    'a bound of invocations where there are none',
    () => ({ fleets: { pdf: { types: ['a'], maxConcurrency: 4 } } }),
    /^fleets\.pdf\.maxConcurrency: .*the fleet has no handler/,
  ],
  [
    'one invocation at once, which Lambda does not take',
    (stack) => ({
      fleets: { pdf: { types: ['a'], handler: workerFunction(stack, 'Pdf'), maxConcurrency: 1 } },
    }),
    /^fleets\.pdf\.maxConcurrency: must be a whole number from 2 to 1000, got 1/,
  ],
  [
    'pollers and a bound',
    (stack) => ({
      fleets: {
        pdf: {
          types: ['a'],
          handler: workerFunction(stack, 'Pdf'),
          maxConcurrency: 4,
          provisionedPollers: { minimumPollers: 2 },
        },
      },
    }),
    /^fleets\.pdf\.maxConcurrency: cannot be combined with provisionedPollers/,
  ],
  [
    'more pollers than Lambda has',
    (stack) => ({
      fleets: {
        pdf: {
          types: ['a'],
          handler: workerFunction(stack, 'Pdf'),
          provisionedPollers: { minimumPollers: 201 },
        },
      },
    }),
    /^fleets\.pdf\.provisionedPollers\.minimumPollers: must be a whole number from 2 to 200, got 201/,
  ],
  [
    'a version and an alias of one function behind two fleets',
    (stack) => {
      const handler = workerFunction(stack, 'Both');
      const live = new Alias(stack, 'Live', {
        aliasName: 'live',
        version: handler.currentVersion as IVersion,
      });
      return { fleets: { one: { types: ['a'], handler }, two: { types: ['b'], handler: live } } };
    },
    /^fleets\.one\.handler: is also the handler of fleet two/,
  ],
  [
    'a table in several regions',
    () => ({ table: { replicas: [{ region: 'eu-west-1' }] } }) as unknown as SchedulerProps,
    /^table\.replicas: is not supported: .*the last write wins/,
  ],
  [
    'more jobs than a table takes',
    () => ({ table: { expectedJobsPerSecond: 10_000 } }),
    /^table\.expectedJobsPerSecond: must be above 0 and at most 6666: .*"Table-level write throughput limit" is 40000/,
  ],
  [
    'the scheduler’s own source',
    (stack) => ({ eventBus: new EventBus(stack, 'Shared') as IEventBus, sources: ['orders', 'fairlead'] }),
    /^sources\[1\]: is the source of the scheduler’s own events/,
  ],
  [
    'a dispatcher with too little reserved to run a tick',
    () => ({ reservedConcurrency: { dispatch: 2 } }),
    /^reservedConcurrency\.dispatch: must be a whole number from 8 to 1000, got 2/,
  ],
  [
    'less reserved for ingest than its event source uses by default',
    () => ({ reservedConcurrency: { ingest: 1 } }),
    /^reservedConcurrency\.ingest: must be a whole number from 5 to 1000, got 1. Give at least ingestConcurrency/,
  ],
  [
    'less reserved for ingest than its event source may use',
    () => ({ reservedConcurrency: { ingest: 10 }, ingestConcurrency: 50 }),
    /^reservedConcurrency\.ingest: must be a whole number from 50 to 1000, got 10/,
  ],
  [
    'dead letters after the first throttled delivery',
    () => ({ maxReceiveCount: 1 }),
    /^maxReceiveCount: must be a whole number from 5 to 1000, got 1/,
  ],
  ['no slots', () => ({ fleets: { pdf: { types: ['a'], slots: 0 } } }), /^fleets\.pdf\.slots: .*got 0/],
  [
    'an unknown tier',
    () => ({ types: { a: { tier: 'gold' } }, fleets: { pdf: { types: ['a'] } } }),
    /^types\.a\.tier: names no declared tier \(default\), got "gold"/,
  ],
  [
    'a misspelt prop of the scheduler',
    () => ({ fleets: { pdf: { types: ['a'] } }, maxConcurency: 3 }) as SchedulerProps,
    /^maxConcurency: is not a known field/,
  ],
  [
    'a misspelt prop of a fleet',
    () => ({ fleets: { pdf: { types: ['a'], slot: 3 } } }) as SchedulerProps,
    /^fleets\.pdf\.slot: is not a known field/,
  ],
  [
    'a job that may take longer than its function lives',
    (stack) => ({
      types: { a: { timeoutMs: 30_000 } },
      fleets: { pdf: { types: ['a'], handler: workerFunction(stack, 'Pdf') } },
    }),
    /^types\.a\.timeoutMs: must be below the timeout of the function of fleet pdf \(30000 ms\), got 30000/,
  ],
  [
    'a handler without a number of slots',
    (stack) => ({ fleets: { pdf: { types: ['a'], slots: null, handler: workerFunction(stack, 'Pdf') } } }),
    /^fleets\.pdf\.slots: must be a number for a fleet with a handler/,
  ],
  [
    'more slots than an event source has invocations',
    (stack) => ({ fleets: { pdf: { types: ['a'], slots: 1_001, handler: workerFunction(stack, 'Pdf') } } }),
    /^fleets\.pdf\.slots: may need 1001 invocations at once, .*got 1001\. Split the fleet/,
  ],
  [
    'a batch of more jobs than one message tells of',
    (stack) => ({ fleets: { pdf: { types: ['a'], batchSize: 11, handler: workerFunction(stack, 'Pdf') } } }),
    /^fleets\.pdf\.batchSize: must be a whole number of at least 1 and at most 10, got 11/,
  ],
  [
    'a batch of no jobs',
    (stack) => ({ fleets: { pdf: { types: ['a'], batchSize: 0, handler: workerFunction(stack, 'Pdf') } } }),
    /^fleets\.pdf\.batchSize: must be a whole number of at least 1 and at most 10, got 0/,
  ],
  [
    'a batch of part of a job',
    (stack) => ({
      fleets: {
        pdf: { types: ['a'], slots: 5_000, batchSize: 0.001, handler: workerFunction(stack, 'Pdf') },
      },
    }),
    /^fleets\.pdf\.batchSize: must be a whole number .*got 0\.001/,
  ],
  [
    'a batch size where nothing is invoked',
    () => ({ fleets: { pdf: { types: ['a'], batchSize: 2 } } }),
    /^fleets\.pdf\.batchSize: .*the fleet has no handler/,
  ],
  [
    'messages that come back while their function still runs',
    (stack) => ({
      fleets: {
        pdf: {
          types: ['a'],
          visibilityTimeout: Duration.seconds(29),
          handler: workerFunction(stack, 'Pdf'),
        },
      },
    }),
    /^fleets\.pdf\.visibilityTimeout: must not be below .*got "29 seconds"/,
  ],
  [
    'one function behind two fleets',
    (stack) => {
      const handler = workerFunction(stack, 'Both');
      return { fleets: { one: { types: ['a'], handler }, two: { types: ['b'], handler } } };
    },
    /^fleets\.one\.handler: is also the handler of fleet two/,
  ],
  [
    'a large ingest batch without a window',
    () => ({ fleets: { pdf: { types: ['a'] } }, ingestBatchSize: 100 }),
    /^ingestBatchSize: must be a whole number from 1 to 10, got 100/,
  ],
  [
    'a fleet whose name no construct can have',
    () => ({ fleets: { constructor: { types: ['a'] } } }) as unknown as SchedulerProps,
    /^fleets\.constructor: is a property of every JavaScript object, so a construct cannot have it as its id, got "constructor"/,
  ],
  [
    'a type of its own fleet whose name no construct can have',
    () => ({ types: { toString: {} } }) as unknown as SchedulerProps,
    /^fleets\.toString: is a property of every JavaScript object/,
  ],
  [
    'fleets whose constructs would be one',
    () => ({ fleets: { 'a/b': { types: ['x'] }, 'a--b': { types: ['y'] } } }),
    /^fleets\.a--b: has the same construct id as fleet "a\/b"/,
  ],
  [
    'a fleet that is nothing',
    () => ({ fleets: { a: null } }) as unknown as SchedulerProps,
    /^fleets\.a: must be an object, got null/,
  ],
  [
    'fleets that are nothing',
    () => ({ fleets: null }) as unknown as SchedulerProps,
    /^fleets: must be an object, got null/,
  ],
  [
    'a large ingest batch with a window of no time',
    () => ({ ingestBatchSize: 100, ingestBatchingWindow: Duration.seconds(0) }),
    /^ingestBatchSize: must be a whole number from 1 to 10, got 100/,
  ],
  [
    'a misspelt option of the table',
    () => ({ table: { deletionProtected: true } }) as unknown as SchedulerProps,
    /^table\.deletionProtected: is not a known field.*Did you mean "deletionProtection"/,
  ],
  [
    'a table that is there, and is none',
    () => ({ table: { existing: { tableArn: 'jobs', streamArn: STREAM } } }),
    /^table\.existing\.tableArn: must be the ARN of a table, got "jobs".*describe-table/,
  ],
  [
    'a table that is there, with the stream of another one',
    () => ({ table: { existing: { tableArn: `${STREAM.split('/stream')[0]}2`, streamArn: STREAM } } }),
    /^table\.existing\.streamArn: is not a stream of the table .*table\/jobs2/,
  ],
  [
    'a table that is there, without its stream',
    () => ({ table: { existing: { tableArn: STREAM.split('/stream')[0] } } }) as unknown as SchedulerProps,
    /^table\.existing\.streamArn: must be the ARN of a table's stream, got undefined/,
  ],
  ...(
    [
      ['eu-central-1:111122223333', 'Region than the scheduler (eu-west-1)'],
      ['eu-west-1:444455556666', 'account than the scheduler (111122223333)'],
    ] as const
  ).flatMap(([place, than]): typeof mistakes => {
    const streamArn = STREAM.replace('eu-west-1:111122223333', place);
    const tableArn = streamArn.split('/stream')[0] ?? '';
    return [
      [
        `a table of ${place}`,
        () => ({ table: { existing: { tableArn, streamArn } } }),
        new RegExp(
          `^table\\.existing\\.tableArn: is in another ${than.replaceAll(/[()]/g, '\\$&')}.*got "${tableArn}".*restore the table`,
        ),
      ],
      [
        `a bus of ${place}`,
        (stack) => ({
          eventBus: EventBus.fromEventBusArn(stack, 'Theirs', `arn:aws:events:${place}:event-bus/theirs`),
        }),
        new RegExp(`^eventBus: is in another ${than.replaceAll(/[()]/g, '\\$&')}.*Forward its events`),
      ],
    ];
  }),
  [
    'more sources than the pattern of a rule takes',
    () => ({ sources: Array.from({ length: 90 }, (_, n) => `com.example.producer-${n}`) }),
    /^sources: makes a pattern that is too long: EventBridge allows 2048 characters, got 2\d\d\d.*share a source/,
  ],
  [
    'a key of another Region',
    (stack) => ({
      encryptionKey: Key.fromKeyArn(stack, 'Key', 'arn:aws:kms:eu-central-1:111122223333:key/1') as IKey,
    }),
    /^encryptionKey: is in another Region than the scheduler \(eu-west-1\).*multi-Region/,
  ],
  [
    'how a table is made that is there',
    () => ({
      table: {
        existing: { tableArn: STREAM.split('/stream')[0] ?? '', streamArn: STREAM },
        deletionProtection: true,
      },
    }),
    /^table\.deletionProtection: is for a table that this stack creates/,
  ],
  [
    'what becomes of a table that is not this stack’s',
    () => ({
      table: { existing: { tableArn: STREAM.split('/stream')[0] ?? '', streamArn: STREAM } },
      removalPolicy: RemovalPolicy.DESTROY,
    }),
    /^removalPolicy: is for a table that this stack creates/,
  ],
  [
    'a log group of no function',
    () => ({ logGroups: { ingset: undefined } }) as unknown as SchedulerProps,
    /^logGroups\.ingset: is not a known field.*Did you mean "ingest"/,
  ],
  [
    'concurrency for no function',
    () => ({ reservedConcurrency: { dispatcher: 5 } }) as unknown as SchedulerProps,
    /^reservedConcurrency\.dispatcher: is not a known field.*Did you mean "dispatch"/,
  ],
  [
    'concurrency for an API that is not there',
    () => ({ reservedConcurrency: { api: 5 } }),
    /^reservedConcurrency\.api: has no effect without api, got 5/,
  ],
  ['an empty list of sources', () => ({ sources: [] }), /^sources: names no source, got an array of 0/],
  [
    'subnets of no network',
    () => ({ vpcSubnets: { subnetGroupName: 'private' } }),
    /^vpcSubnets: has no effect without vpc/,
  ],
  [
    'more fleets than a deployment can hand over',
    () => ({
      fleets: Object.fromEntries(
        Array.from({ length: 1_000 }, (_, n) => [`f${n}`.padEnd(100, 'x'), { types: [`t${n}`] }]),
      ),
    }),
    /is too large for a deployment, which can send at most 120000 bytes: .*1000 fleets with their queues \d+, schedules/,
  ],
];

const aFunction = (stack: Stack, runtime: Runtime): LambdaFunction =>
  new LambdaFunction(stack, 'Handler', { runtime, handler: 'index.handler', code: Code.fromInline(' ') });

const [REGION, ACCOUNT] = ['eu-west-1', '111122223333'];
const functionIn = (stack: Stack, region: string, account: string): IFunction =>
  workerFunction(
    new Stack(App.of(stack) as App, `In${region}${account}`, { env: { region, account } }),
    'Pdf',
  );

const referredFunction = (stack: Stack): IFunction =>
  LambdaFunction.fromFunctionArn(stack, 'Theirs', 'arn:aws:lambda:eu-west-1:111122223333:function:theirs');

describe('a declaration that cannot work', () => {
  it.each(mistakes)(
    '%s is refused with its place and value, before anything is made',
    (_, propsFor, message) => {
      const stack = new Stack(App.of(emptyStack()) as App, 'There', {
        env: { region: REGION, account: ACCOUNT },
      });
      const props = propsFor(stack);
      const attempt = (): Scheduler => new Scheduler(stack, 'Jobs', props);
      expect(attempt).toThrow(message);
      expect(stack.node.tryFindChild('Jobs')?.node.children ?? []).toEqual([]);
      expect(() => new Scheduler(stack, 'Again', props)).toThrow(ConfigurationError);
    },
  );

  it('is none where a number of a queue or a function is known to the deployment only', () => {
    const stack = emptyStack();
    const ingestConcurrency = numberOf(stack).valueAsNumber;
    new Scheduler(stack, 'Jobs', { ingestConcurrency });
    Template.fromStack(stack).hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      ScalingConfig: { MaximumConcurrency: { Ref: 'N0' } },
    });
  });

  it('refuses to work for a fleet that is not there', () => {
    const scheduler = new Scheduler(emptyStack(), 'Jobs', { fleets: { pdf: { types: ['a'] } } });
    expect(() => scheduler.workerEnvironment('gpu')).toThrow(
      /is not a fleet of this scheduler \("pdf"\), got "gpu"/,
    );
  });
});
