/** What TypeScript refuses by itself: apps in JavaScript are told the same, by the name of the field and before anything is made. */

import { CfnParameter, Duration, Lazy } from 'aws-cdk-lib';
import { Annotations } from 'aws-cdk-lib/assertions';
import { type ISubnet, type IVpc, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Key } from 'aws-cdk-lib/aws-kms';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { describe, expect, it } from 'vitest';
import { bundlingWithNativeModules, type NativeModulesProps } from '../../cdk/native-modules.ts';
import type { SchedulerProps } from '../../cdk/props.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import type { WorkerFunctionProps } from '../../cdk/worker-function-props.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import { emptyStack, workerFunction } from './stacks.ts';

/** The props, and by what the message begins. */
const WRONG: readonly (readonly [props: unknown, message: RegExp])[] = [
  [{ eventBus: 'mine' }, /^eventBus: must be an event bus, got "mine"\. Give the construct itself/],
  [
    { encryptionKey: 'arn:aws:kms:eu-west-1:111122223333:key/1' },
    /^encryptionKey: must be a key of KMS, got "arn/,
  ],
  [{ vpc: 'vpc-1' }, /^vpc: must be a VPC/],
  [{ permissionsBoundary: 'Bounded' }, /^permissionsBoundary: must be a managed policy/],
  [{ logGroups: { ingest: '/logs' } }, /^logGroups\.ingest: must be a log group, got "\/logs"/],
  [{ logGroups: { ingst: 1 } }, /^logGroups\.ingst: is not a known field.*Did you mean "ingest"/],
  [{ architecture: 'arm64' }, /^architecture: must be an Architecture, got "arm64"/],
  [{ tracing: true }, /^tracing: must be a Tracing, got true/],
  [{ logRetention: 15 }, /^logRetention: must be one of RetentionDays, got 15/],
  [{ removalPolicy: 'DELETE' }, /^removalPolicy: must be a RemovalPolicy, got "DELETE"/],
  [{ queueRemovalPolicy: 'keep' }, /^queueRemovalPolicy: must be a RemovalPolicy/],
  [{ ingestBatchingWindow: 5 }, /^ingestBatchingWindow: must be whole seconds, .* got "5 millis"/],
  [
    { ingestBatchingWindow: Duration.minutes(6) },
    /^ingestBatchingWindow: must be whole seconds, .*at most 5 minutes, got "6 minutes"/,
  ],
  [{ parameterName: 5 }, /^parameterName: must be the name of a parameter/],
  [{ parameterName: 'orders/jobs' }, /^parameterName: .*Write it as \/orders\/jobs/],
  [{ parameterName: '/aws/jobs' }, /^parameterName: /],
  [
    { parameterName: Lazy.string({ produce: () => '/orders/jobs' }) },
    /^parameterName: .*known when the app is synthesised/,
  ],
  [{ tags: ['team'] }, /^tags: must be an object/],
  [{ tags: { team: 5 } }, /^tags\.team: must be a text/],
  [{ sources: 'orders' }, /^sources: must be a list/],
  [{ sources: [5] }, /^sources\[0\]: must be a text/],
  [{ maxReceiveCount: '5' }, /^maxReceiveCount: must be a whole number/],
  [{ table: { deletionProtecton: true } }, /^table\.deletionProtecton: .*Did you mean "deletionProtection"/],
  [{ reservedConcurrency: { dispach: 5 } }, /^reservedConcurrency\.dispach: .*Did you mean "dispatch"/],
  [{ schedules: { a: { cron: '0 2 * * *', typ: 'work' } } }, /^schedules\.a\.typ: .*Did you mean "type"/],
  [{ schedules: { a: { crn: '0 2 * * *', type: 'default' } } }, /^schedules\.a\.crn: .*Did you mean "cron"/],
  [{ schedules: ['nightly'] }, /^schedules: must be an object/],
  [{ types: { a: { maxConcurency: 1 } } }, /^types\.a\.maxConcurency: .*Did you mean "maxConcurrency"/],
  [
    { types: { a: { retry: { maxAttempt: 1 } } } },
    /^types\.a\.retry\.maxAttempt: .*Did you mean "maxAttempts"/,
  ],
  [{ fleets: { pdf: { types: ['a'], slot: 3 } } }, /^fleets\.pdf\.slot: .*Did you mean "slots"/],
  [{ fleets: { pdf: { types: ['a'], handlr: {} } } }, /^fleets\.pdf\.handlr: .*Did you mean "handler"/],
  [
    { fleets: { pdf: { types: ['a'], handler: 'Pdf' } } },
    /^fleets\.pdf\.handler: must be a function, or a version or an alias/,
  ],
  [
    { fleets: { pdf: { types: ['a'], visibilityTimeout: '30' } } },
    /^fleets\.pdf\.visibilityTimeout: must be a duration, got "30"\. Write milliseconds, or a text such as/,
  ],
  [
    { fleets: { pdf: { types: ['a'], visibilityTimeout: Duration.hours(13) } } },
    /^fleets\.pdf\.visibilityTimeout: .*at most 12 hours/,
  ],
  [
    { fleets: { pdf: { types: ['a'], handlerTimeout: 30 } } },
    /^fleets\.pdf\.handlerTimeout: must be whole seconds, at least 1 second, got "30 millis"/,
  ],
  [
    { fleets: { pdf: { types: ['a'], provisionedPollers: { minimumPoller: 3 } } } },
    /^fleets\.pdf\.provisionedPollers\.minimumPoller: .*Did you mean "minimumPollers"/,
  ],
  [{ fleets: { pdf: null } }, /^fleets\.pdf: must be an object, got null/],
];

describe('an app in JavaScript is told of', () => {
  it.each(WRONG.map(([props, message]) => [JSON.stringify(props), props, message] as const))(
    '%s',
    (_, props, message) => {
      const stack = emptyStack();
      const attempt = (): unknown => new Scheduler(stack, 'Jobs', props as SchedulerProps);
      expect(attempt).toThrow(message);
      expect(stack.node.tryFindChild('Jobs')?.node.children ?? []).toEqual([]);
      expect(() => new Scheduler(stack, 'Again', props as SchedulerProps)).toThrow(ConfigurationError);
    },
  );

  it('subnets that are chosen by a misspelt name, and not of one that only a later CDK knows', () => {
    const stack = emptyStack();
    const vpc = new Vpc(stack, 'Network', { maxAzs: 1 }) as IVpc;
    const withSubnets = (id: string, vpcSubnets: object): unknown =>
      new Scheduler(stack, id, { vpc, vpcSubnets });
    expect(() => withSubnets('Jobs', { subnetTyp: 'Public' })).toThrow(
      /^vpcSubnets\.subnetTyp: .*Did you mean "subnetType"/,
    );
    expect(() => withSubnets('More', { subnets: ['subnet-1'] })).toThrow(
      /^vpcSubnets\.subnets\[0\]: must be a subnet/,
    );
    const later = { subnets: vpc.privateSubnets as ISubnet[], ipamPool: 'later' };
    expect(() => withSubnets('Later', later)).not.toThrow();
  });

  it('names that are none, of what is added later', () => {
    const scheduler = new Scheduler(emptyStack(), 'Jobs');
    const name = 5 as unknown as string;
    expect(() => scheduler.addFleet(name, { types: ['a'] })).toThrow(/^fleets\.5: must be a name/);
    expect(() => scheduler.addJobType(name)).toThrow(/^types\.5: must be a name/);
    const nightly = { cron: '0 2 * * *', type: 'default' };
    expect(() => scheduler.addSchedule(name, nightly)).toThrow(/^schedules: must be a text/);
  });

  it('times that only the deployment knows, where the times of jobs follow from them, and not elsewhere', () => {
    const stack = emptyStack();
    const late = Duration.seconds(new CfnParameter(stack, 'Late', { type: 'Number' }).valueAsNumber);
    const handler = workerFunction(stack, 'Pdf', late);
    const withFleet = (id: string, fleet: object): unknown =>
      new Scheduler(stack, id, { fleets: { pdf: { types: ['a'], handler, ...fleet } } });
    expect(() => withFleet('One', {})).toThrow(
      /^fleets\.pdf\.handlerTimeout: must be known when the app is synth.*"a token"/,
    );
    expect(() => withFleet('Two', { handlerTimeout: late })).toThrow(
      /^fleets\.pdf\.handlerTimeout: must be known/,
    );
    const handlerTimeout = Duration.minutes(1);
    expect(() => withFleet('Three', { handlerTimeout, visibilityTimeout: late })).not.toThrow();
  });

  it('nothing where all is as it should be, whoever has made the constructs', () => {
    const stack = emptyStack();
    // Of another copy of the library: the same members, another class.
    const handler = workerFunction(stack, 'Pdf');
    const encryptionKey = Key.fromKeyArn(stack, 'Key', 'arn:aws:kms:eu-west-1:111122223333:key/1234');
    const ingest = LogGroup.fromLogGroupName(stack, 'Logs', '/jobs');
    const { constructor: _, ...seconds } = Duration.seconds(60) as unknown as Record<string, unknown>;
    const visibilityTimeout = Object.assign(Object.create(Duration.prototype), seconds) as Duration;
    expect(
      () =>
        new Scheduler(stack, 'Jobs', {
          encryptionKey,
          logGroups: { ingest },
          fleets: { pdf: { types: ['a'], handler, visibilityTimeout } },
        }),
    ).not.toThrow();
  });
});

const entry = 'examples/files/catalogue.ts';

/** Props of a worker function, and by what the message begins. */
const WRONG_WORKERS: readonly (readonly [props: unknown, message: RegExp])[] = [
  [{ entry, memorySize: 20_000 }, /^memorySize: must be a whole number from 128 to 10240, got 20000/],
  [{ entry, timeout: '5 min' }, /^timeout: must be a duration, got "5 min"/],
  [{ entry, timeout: '16m' }, /^timeout: is longer than a function may run, got "960 s"/],
  [{ entry, timeout: Duration.minutes(16) }, /^timeout: is longer than a function may run, got "960 s"/],
  [{ entry, memorySze: 512 }, /^memorySze: is not a known field, got 512\. Did you mean "memorySize"/],
  [{ entry, timout: Duration.minutes(1) }, /^timout: .*Did you mean "timeout"/],
  [{ entry, nativeModule: ['sharp'] }, /^nativeModule: .*Did you mean "nativeModules"/],
  [{ entry, bundlng: {} }, /^bundlng: .*Did you mean "bundling"/],
  [{ entry, bundling: { minfy: true } }, /^bundling\.minfy: .*Did you mean "minify"/],
  [
    { entry, bundling: { externalModule: [] } },
    /^bundling\.externalModule: .*Did you mean "externalModules"/,
  ],
  [{ entry, bundling: true }, /^bundling: must be an object, got true/],
  [{ entry, vpcSubnets: { subnetTyp: 'Public' } }, /^vpcSubnets\.subnetTyp: .*Did you mean "subnetType"/],
  [
    { entry, currentVersionOptions: { removalPolcy: 'destroy' } },
    /^currentVersionOptions\.removalPolcy: .*Did you mean "removalPolicy"/,
  ],
  [{ entry, nativeModules: 'sharp' }, /^nativeModules: must be a list, got "sharp"/],
  [{ entry, platform: 'arm64' }, /^platform: must be host or lambda, got "arm64"/],
  [{ entry, installedIn: 5 }, /^installedIn: must be a text/],
  [{ entry: 5 }, /^entry: must be a text/],
  [{ entryy: 'work.ts' }, /^entryy: .*Did you mean "entry"/],
  [{}, /^entry: must be a text/],
];

describe('a worker function in an app in JavaScript is told of', () => {
  it.each(WRONG_WORKERS.map(([props, message]) => [JSON.stringify(props), props, message] as const))(
    '%s',
    (_, props, message) => {
      const stack = emptyStack();
      const attempt = (): unknown => new WorkerFunction(stack, 'Work', props as WorkerFunctionProps);
      expect(attempt).toThrow(message);
      expect(attempt).toThrow(ConfigurationError);
      expect(stack.node.children).toEqual([]);
    },
  );

  it('names that nobody knows by a warning, and of those that only a later CDK may know, too', () => {
    const stack = emptyStack();
    const later = { entry, systemLogLevelV3: 'later', quantum: true, bundling: { wasmModules: [] } };
    new WorkerFunction(stack, 'Work', later as WorkerFunctionProps);
    Annotations.fromStack(stack).hasWarning(
      '/Test/Work',
      'WorkerFunction does not know systemLogLevelV3, quantum, bundling.wasmModules, which is ignored unless the aws-cdk-lib of this app knows it. WorkerFunctionProps lists all props. [ack: fairlead:unknown-property]',
    );
  });
});

describe('other things that take objects', () => {
  it.each([
    [{ modules: ['a'], platfrm: 'host', installedIn: '.' }, /^platfrm: .*Did you mean "platform"/],
    [{ modules: 'a', platform: 'host', installedIn: '.' }, /^modules: must be a list/],
    [{ modules: [], platform: 'aws', installedIn: '.' }, /^platform: must be host or lambda/],
  ])('refuse for native modules %j', (props, message) => {
    expect(() => bundlingWithNativeModules(props as unknown as NativeModulesProps)).toThrow(message);
  });

  it('refuse what a metric is not narrowed by, and take what a later CDK may know', () => {
    const scheduler = new Scheduler(emptyStack(), 'Jobs');
    const asked = (options: object): unknown => scheduler.metricFailed(options);
    expect(() => asked({ typ: 'default' })).toThrow(/^typ: is not a known field.*Did you mean "type"/);
    expect(() => asked({ statistics: 'Sum' })).toThrow(/^statistics: .*Did you mean "statistic"/);
    expect(() => asked({ horizon: 'later' })).not.toThrow();
  });
});
