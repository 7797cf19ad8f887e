/** What an account brings itself: its key, its network, its bounds, its logs, and what becomes of it all in the end. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Duration, RemovalPolicy, type Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { type ISecurityGroup, type IVpc, SecurityGroup, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import { AccountRootPrincipal, ManagedPolicy, PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Tracing } from 'aws-cdk-lib/aws-lambda';
import { type ILogGroup, LogGroup } from 'aws-cdk-lib/aws-logs';
import { describe, expect, it } from 'vitest';
import type { SchedulerProps } from '../../cdk/props.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import { EXPIRY_LINES } from '../../lib/store/contract/expiring.ts';
import { at, emptyStack, listOf, referred, resourcesOf, workerFunction } from './stacks.ts';

/** The first synthesis of a process loads much of the CDK. */
const SYNTH_MS = 120_000;

/** A scheduler with what its account brings. */
function made(propsIn: (stack: Stack) => SchedulerProps, extend: (scheduler: Scheduler) => void = () => {}) {
  const stack = emptyStack();
  const handler = workerFunction(stack, 'Images');
  const scheduler = new Scheduler(stack, 'Jobs', {
    fleets: { images: { types: ['resize'], handler }, gpu: { types: ['train'] } },
    ...propsIn(stack),
  });
  extend(scheduler);
  const template = Template.fromStack(stack);
  const all = (type: string) => resourcesOf(template, type);
  const properties = (type: string): readonly unknown[] => all(type).map(([, each]) => each.Properties);
  const own = all('AWS::Lambda::Function').filter(([id]) => id.startsWith('Jobs'));
  return {
    stack,
    scheduler,
    template,
    all,
    properties,
    ownFunctions: own.map(([, each]) => each.Properties),
  };
}

describe('a key of one’s own', { timeout: SYNTH_MS }, () => {
  const { all, properties, template } = made(
    (stack) => ({ encryptionKey: new Key(stack, 'Key') as IKey }),
    (scheduler) => {
      const person = (id: string): Role => new Role(scheduler, id, { assumedBy: new AccountRootPrincipal() });
      scheduler.grants.submit(person('Submitter'));
      scheduler.grants.work(person('Worker'), 'gpu');
      scheduler.grants.read(person('Reader'));
    },
  );
  const keyArn = { 'Fn::GetAtt': [Object.keys(template.findResources('AWS::KMS::Key'))[0], 'Arn'] };

  it('encrypts the table, every queue, the logs and the bus', () => {
    expect(properties('AWS::DynamoDB::GlobalTable')).toMatchObject([
      {
        SSESpecification: { SSEEnabled: true, SSEType: 'KMS' },
        Replicas: [{ SSESpecification: { KMSMasterKeyId: keyArn } }],
      },
    ]);
    const queues = properties('AWS::SQS::Queue');
    expect(queues.length).toBeGreaterThan(6);
    for (const queue of queues) expect(queue).toMatchObject({ KmsMasterKeyId: keyArn });
    const groups = all('AWS::Logs::LogGroup').filter(([id]) => id.startsWith('Jobs'));
    expect(groups).toHaveLength(3);
    for (const [, { Properties }] of groups) expect(Properties).toMatchObject({ KmsKeyId: keyArn });
    expect(properties('AWS::Events::EventBus')).toMatchObject([{ KmsKeyIdentifier: keyArn }]);
  });

  it('leaves events that the bus cannot read in the dead letters, and lets it send them there', () => {
    const [[busId, bus] = []] = all('AWS::Events::EventBus');
    const deadLetters = referred(at(bus, 'Properties', 'DeadLetterConfig', 'Arn'));
    expect(deadLetters).toMatch(/^JobsIngestQueueDeadLetters/);
    const senders = all('AWS::SQS::QueuePolicy')
      .filter(([, { Properties }]) => listOf(Properties.Queues).map(referred).includes(deadLetters))
      .flatMap(([, { Properties }]) => listOf(at(Properties, 'PolicyDocument', 'Statement')))
      .flatMap((each) => listOf(at(each, 'Condition', 'ArnEquals', 'aws:SourceArn')));
    expect(senders.map(referred)).toContain(busId);
    // One that is brought is its owner's, and one without a key has nothing that it cannot read.
    const brought = made((stack) => ({
      encryptionKey: new Key(stack, 'Key') as IKey,
      eventBus: new EventBus(stack, 'Shared') as IEventBus,
    }));
    for (const { properties: of } of [brought, made(() => ({}))])
      for (const each of of('AWS::Events::EventBus')) expect(each).not.toHaveProperty('DeadLetterConfig');
  });

  it('lets the services use it that encrypt with it by themselves', () => {
    const policy = at(properties('AWS::KMS::Key')[0], 'KeyPolicy', 'Statement');
    const services = listOf(policy).flatMap((each) => listOf(at(each, 'Principal', 'Service')));
    expect(services).toContain('events.amazonaws.com');
    expect(JSON.stringify(services)).toContain('logs.');
  });

  it.each(['Submitter', 'Worker', 'Reader', 'JobsIngestFunction', 'JobsDispatchFunction', 'Images'])(
    'comes with what %s is granted',
    (role) => {
      const statements = all('AWS::IAM::Policy')
        .filter(([, { Properties }]) =>
          listOf(Properties.Roles).some((each) => referred(each)?.includes(role)),
        )
        .flatMap(([, { Properties }]) => listOf(at(Properties, 'PolicyDocument', 'Statement')));
      const ofKey = statements.filter((each) =>
        listOf(at(each, 'Resource')).some((resource) => JSON.stringify(resource) === JSON.stringify(keyArn)),
      );
      expect(ofKey.flatMap((each) => listOf(at(each, 'Action')))).toContain('kms:Decrypt');
    },
  );
});

describe('a network of one’s own', { timeout: SYNTH_MS }, () => {
  const { ownFunctions, stack, properties } = made((stack) => {
    const vpc = new Vpc(stack, 'Network', {
      maxAzs: 2,
      subnetConfiguration: [
        { name: 'out', subnetType: SubnetType.PUBLIC },
        { name: 'jobs', subnetType: SubnetType.PRIVATE_ISOLATED },
      ],
    }) as IVpc;
    return {
      vpc,
      vpcSubnets: { subnetType: SubnetType.PRIVATE_ISOLATED },
      securityGroups: [new SecurityGroup(stack, 'Group', { vpc }) as ISecurityGroup],
    };
  });

  it('is where all of the scheduler’s own functions stand, in the subnets and groups that were named', () => {
    expect(ownFunctions).toHaveLength(3);
    for (const each of ownFunctions) {
      const subnets = listOf(at(each, 'VpcConfig', 'SubnetIds')).map(referred);
      expect(subnets).toHaveLength(2);
      for (const subnet of subnets) expect(subnet).toMatch(/^NetworkjobsSubnet/);
      const groups = listOf(at(each, 'VpcConfig', 'SecurityGroupIds')).map(referred);
      expect(groups).toEqual([stack.getLogicalId(stack.node.findChild('Group').node.defaultChild as never)]);
    }
    // None of ours beside the one that was named.
    expect(properties('AWS::EC2::SecurityGroup')).toHaveLength(1);
  });

  it('lets functions make the interfaces that they stand there by, and write no logs but their own', () => {
    const { all, properties } = made((stack) => {
      const vpc = new Vpc(stack, 'Network', { maxAzs: 2 }) as IVpc;
      const handler = new WorkerFunction(stack, 'Work', {
        entry: join(import.meta.dirname, '../../examples/files/images.ts'),
        vpc,
      });
      return { vpc, fleets: { images: { types: ['a'], handler } } };
    });
    // Images is no function of ours.
    const managed = all('AWS::IAM::Role').filter(
      ([, each]) => each.Properties.ManagedPolicyArns !== undefined,
    );
    expect(managed.filter(([id]) => !id.startsWith('Images'))).toEqual([]);
    const policies = properties('AWS::IAM::Policy').map((each) =>
      listOf(at(each, 'PolicyDocument', 'Statement')),
    );
    const inVpc = policies.filter((statements) =>
      statements.some((each) => listOf(at(each, 'Action')).includes('ec2:DescribeSubnets')),
    );
    expect(inVpc).toHaveLength(4);
    for (const statements of inVpc) {
      const [interfaces] = statements.filter((each) => JSON.stringify(at(each, 'Action')).includes('ec2:'));
      // As the guide of Lambda lists them, "Giving Lambda functions access to resources in an Amazon VPC".
      expect(listOf(at(interfaces, 'Action')).toSorted()).toEqual([
        'ec2:AssignPrivateIpAddresses',
        'ec2:CreateNetworkInterface',
        'ec2:DeleteNetworkInterface',
        'ec2:DescribeNetworkInterfaces',
        'ec2:DescribeSubnets',
        'ec2:UnassignPrivateIpAddresses',
      ]);
      const logs = statements.filter((each) => JSON.stringify(at(each, 'Action')).includes('logs:'));
      expect(logs).toHaveLength(1);
      for (const each of logs) expect(referred(at(each, 'Resource'))).toMatch(/Logs[0-9A-F]{8}$/);
    }
  });

  it('without groups of one’s own gets one for each function', () => {
    const other = made((stack) => ({ vpc: new Vpc(stack, 'Network', { maxAzs: 2 }) as IVpc }));
    expect(other.properties('AWS::EC2::SecurityGroup')).toHaveLength(3);
  });

  it('is not there unless it is named', () => {
    for (const each of made(() => ({})).ownFunctions) expect(each).not.toHaveProperty('VpcConfig');
  });
});

describe('bounds, tags and traces', { timeout: SYNTH_MS }, () => {
  it('a permissions boundary holds for every role of the scheduler', () => {
    const { all, template } = made((stack) => ({
      permissionsBoundary: new ManagedPolicy(stack, 'Boundary', {
        statements: [new PolicyStatement({ actions: ['dynamodb:*'], resources: ['*'] })],
      }),
    }));
    const [boundary] = Object.keys(template.findResources('AWS::IAM::ManagedPolicy')).filter((id) =>
      id.startsWith('Boundary'),
    );
    const ofScheduler = all('AWS::IAM::Role').filter(([id]) => id.startsWith('Jobs'));
    expect(ofScheduler.length).toBeGreaterThanOrEqual(3);
    for (const [, { Properties }] of ofScheduler)
      expect(referred(Properties.PermissionsBoundary)).toBe(boundary);
  });

  it('tags are on the table, the queues, the functions and the bus', () => {
    const { properties } = made(() => ({ tags: { team: 'print' } }));
    const tagged = { Key: 'team', Value: 'print' };
    for (const type of ['AWS::SQS::Queue', 'AWS::Events::EventBus'])
      for (const each of properties(type)) expect(at(each, 'Tags')).toContainEqual(tagged);
    expect(at(properties('AWS::DynamoDB::GlobalTable')[0], 'Replicas', 0, 'Tags')).toContainEqual(tagged);
  });

  it('X-Ray traces the scheduler’s own functions if it is told to, and only then', () => {
    const traced = made(() => ({ tracing: Tracing.ACTIVE }));
    for (const each of traced.ownFunctions) expect(each).toMatchObject({ TracingConfig: { Mode: 'Active' } });
    const rights = (of: ReturnType<typeof made>): readonly unknown[] =>
      of
        .all('AWS::IAM::Policy')
        .filter(([, { Properties }]) => JSON.stringify(Properties).includes('xray:PutTraceSegments'))
        .flatMap(([, { Properties }]) => listOf(Properties.Roles).map(referred));
    expect(rights(traced)).toHaveLength(3);
    const plain = made(() => ({}));
    for (const each of plain.ownFunctions) expect(each).not.toHaveProperty('TracingConfig');
    expect(rights(plain)).toEqual([]);
    expect(rights(made(() => ({ tracing: Tracing.DISABLED })))).toEqual([]);
  });
});

describe('logs of one’s own', { timeout: SYNTH_MS }, () => {
  it('are written to instead of groups of the scheduler’s', () => {
    const { ownFunctions, all, template } = made((stack) => {
      const group = (id: string): ILogGroup => new LogGroup(stack, id) as ILogGroup;
      return { logGroups: { ingest: group('A'), dispatch: group('B'), declare: group('C') } };
    });
    const groups = Object.keys(template.findResources('AWS::Logs::LogGroup')).filter((id) =>
      /^[ABC]/.test(id),
    );
    expect(all('AWS::Logs::LogGroup').filter(([id]) => id.startsWith('Jobs'))).toEqual([]);
    const written = ownFunctions.map((each) => referred(at(each, 'LoggingConfig', 'LogGroup')));
    expect(written.toSorted()).toEqual(groups.toSorted());
  });
});

describe('what becomes of it', { timeout: SYNTH_MS }, () => {
  const policies = (propsIn: SchedulerProps, type: string): readonly unknown[] =>
    made(() => propsIn)
      .all(type)
      .map(([, { DeletionPolicy }]) => DeletionPolicy);

  it('queues go with their fleet and their stack, unless they are to stay', () => {
    expect(new Set(policies({}, 'AWS::SQS::Queue'))).toEqual(new Set(['Delete']));
    const kept = policies({ queueRemovalPolicy: RemovalPolicy.RETAIN }, 'AWS::SQS::Queue');
    expect(new Set(kept)).toEqual(new Set(['Retain']));
  });

  it('a table may be guarded against its deletion, and made ready for a load', () => {
    const { properties } = made(() => ({
      table: { deletionProtection: true, expectedJobsPerSecond: 2_000 },
    }));
    expect(properties('AWS::DynamoDB::GlobalTable')).toMatchObject([
      {
        Replicas: [{ DeletionProtectionEnabled: true }],
        WarmThroughput: { ReadUnitsPerSecond: 12_000, WriteUnitsPerSecond: 12_000 },
        GlobalSecondaryIndexes: [
          { WarmThroughput: { ReadUnitsPerSecond: 12_000, WriteUnitsPerSecond: 6_000 } },
          { IndexName: 'expiries' },
        ],
      },
    ]);
    const small = made(() => ({ table: { expectedJobsPerSecond: 100 } }));
    expect(small.properties('AWS::DynamoDB::GlobalTable')[0]).not.toHaveProperty('WarmThroughput');
  });

  it('a table is made ready for every load above what the page about speed says of a new one', () => {
    const page = readFileSync('docs/cost-and-speed.md', 'utf8');
    const said = Number(/in the first row, ([\d,]+) jobs a second/.exec(page)?.[1]?.replace(',', ''));
    const { properties } = made(() => ({ table: { expectedJobsPerSecond: said + 1 } }));
    expect(properties('AWS::DynamoDB::GlobalTable')[0]).toHaveProperty('WarmThroughput');
  });

  it('the index of expiries takes all that its partition keys take, so it is never made ready', () => {
    const [ofKey, ofNewIndex] = [1_000, 4_000];
    expect(EXPIRY_LINES * ofKey).toBeLessThanOrEqual(ofNewIndex);
  });

  it('an event is delivered as often as it was told, before it is a dead letter', () => {
    const { properties } = made(() => ({ maxReceiveCount: 9, ingestBatchingWindow: Duration.seconds(2) }));
    const counts = properties('AWS::SQS::Queue').flatMap((each) => {
      const count = at(each, 'RedrivePolicy', 'maxReceiveCount');
      return count === undefined ? [] : [count];
    });
    // Outcomes have a bound of their own.
    expect(counts).toEqual([9, 1_000]);
  });
});
