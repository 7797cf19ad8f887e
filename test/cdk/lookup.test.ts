/** A scheduler that another stack has deployed: what is granted and said of it is what its owner would grant and say. */

import { Template } from 'aws-cdk-lib/assertions';
import { AccountRootPrincipal, Role } from 'aws-cdk-lib/aws-iam';
import { describe, expect, it } from 'vitest';
import type { SchedulerAttributes } from '../../cdk/lookup.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import type { IScheduler } from '../../cdk/scheduler-base.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import { at, emptyStack, listOf, referred, resourcesOf, synthesize } from './stacks.ts';

/** The first synthesis of a process loads much of the CDK. */
const SYNTH_MS = 120_000;

const arn = (service: string, resource: string): string =>
  `arn:aws:${service}:eu-west-1:111122223333:${resource}`;

const ATTRIBUTES: SchedulerAttributes = {
  tableArn: arn('dynamodb', 'table/orders-jobs'),
  busArn: arn('events', 'event-bus/orders'),
  wakeQueueArn: arn('sqs', 'orders-wake'),
  wakeFunctionArn: arn('lambda', 'function:orders-dispatch:wake'),
  fleetQueueArns: { images: arn('sqs', 'images'), general: arn('sqs', 'general'), gpu: arn('sqs', 'gpu') },
  deadLetterQueueArns: [arn('sqs', 'dead')],
  redriveQueueArns: [arn('sqs', 'ingest')],
};

const ROLES = ['submit', 'putEvents', 'read', 'operate', 'work', 'dispatch'] as const;

/** What each role is granted: statements without the resources that they are about. */
function granted(template: Template): ReadonlyMap<string, unknown> {
  const statements = ['AWS::IAM::Policy', 'AWS::IAM::ManagedPolicy']
    .flatMap((type) => resourcesOf(template, type))
    .flatMap(([, { Properties }]) =>
      listOf(Properties.Roles).flatMap((role) =>
        listOf(at(Properties, 'PolicyDocument', 'Statement')).map((each) => {
          const { Resource: _, ...rest } = each as { readonly Resource: unknown };
          return [referred(role)?.replace(/[0-9A-F]{8}$/, '') ?? '', JSON.stringify(rest)] as const;
        }),
      ),
    );
  const byRole = Map.groupBy(statements, ([role]) => role);
  return new Map(
    [...byRole].map(([role, all]) => [role, [...new Set(all.map(([, each]) => each))].toSorted()]),
  );
}

const grantAll = (scheduler: IScheduler, stack: ReturnType<typeof emptyStack>): void => {
  for (const role of ROLES) {
    const person = new Role(stack, role, { assumedBy: new AccountRootPrincipal() });
    if (role === 'work') scheduler.grants.work(person, 'gpu');
    else scheduler.grants[role](person);
  }
};

function lookedUp(change: Partial<SchedulerAttributes> = {}) {
  const stack = emptyStack();
  const scheduler = Scheduler.fromAttributes(stack, 'Theirs', { ...ATTRIBUTES, ...change });
  return { stack, scheduler };
}

const resourcesNamed = (template: Template): string =>
  JSON.stringify(template.findResources('AWS::IAM::Policy'));

describe('a scheduler that is looked up', { timeout: SYNTH_MS }, () => {
  it.each([
    [
      'tableArn',
      undefined,
      /^tableArn: must be the ARN of a table, got undefined\. Take it from the owner's stack/,
    ],
    ['busArn', 'jobs', /^busArn: must be the ARN of an event bus, got "jobs"/],
    ['wakeQueueArn', 7, /^wakeQueueArn: must be the ARN of a queue, got 7/],
    ['busArn', ATTRIBUTES.tableArn, /^busArn: must be the ARN of an event bus, got "arn:aws:dynamodb:/],
    [
      'encryptionKeyArn',
      'alias/mine',
      /^encryptionKeyArn: must be the ARN of a key of KMS, got "alias\/mine"/,
    ],
    ['fleetQueueArns', { gpu: ATTRIBUTES.busArn }, /^fleetQueueArns\.gpu: must be the ARN of a queue/],
    ['redriveQueueArns', ['dead'], /^redriveQueueArns\[0\]: must be the ARN of a queue, got "dead"/],
    ['deadLetterQueueArns', ['dead'], /^deadLetterQueueArns\[0\]: must be the ARN of a queue, got "dead"/],
    [
      'wakeQueueARN',
      ATTRIBUTES.wakeQueueArn,
      /^wakeQueueARN: is not a known field.*Did you mean "wakeQueueArn"/,
    ],
  ])('has its %s, or says so', (name, value, message) => {
    expect(() => lookedUp({ [name]: value })).toThrow(message);
  });

  it('grants each role exactly what its owner would', () => {
    const owner = synthesize({}, (stack, scheduler) => grantAll(scheduler, stack));
    const { stack, scheduler } = lookedUp();
    grantAll(scheduler, stack);
    const [own, theirs] = [granted(owner.template), granted(Template.fromStack(stack))];
    for (const role of ROLES) {
      expect(theirs.get(role), role).toBeDefined();
      expect(theirs.get(role), role).toEqual(own.get(role));
    }
  });

  it('grants it on the parts that were named, and on nothing else', () => {
    const { stack, scheduler } = lookedUp();
    scheduler.grants.submit(new Role(stack, 'Submitter', { assumedBy: new AccountRootPrincipal() }));
    const named = resourcesNamed(Template.fromStack(stack)).match(/arn:aws:[^"]+/g) ?? [];
    const { tableArn, wakeQueueArn, wakeFunctionArn } = ATTRIBUTES;
    const indexes = ['lines', 'expiries'].map((name) => `${tableArn}/index/${name}`);
    expect(new Set(named)).toEqual(new Set([tableArn, ...indexes, wakeQueueArn, wakeFunctionArn]));
  });

  it('lets a producer invoke the alias that takes wakes, never the function by its own name; or nothing, if none is named', () => {
    const { stack, scheduler } = lookedUp();
    scheduler.grants.submit(new Role(stack, 'Submitter', { assumedBy: new AccountRootPrincipal() }));
    const statements = resourcesOf(Template.fromStack(stack), 'AWS::IAM::Policy').flatMap(
      ([, { Properties }]) => listOf(at(Properties, 'PolicyDocument', 'Statement')),
    );
    const invoking = statements.filter((each) => JSON.stringify(at(each, 'Action')).includes('lambda:'));
    expect(invoking).toEqual([
      { Effect: 'Allow', Action: 'lambda:InvokeFunction', Resource: ATTRIBUTES.wakeFunctionArn },
    ]);
    const { wakeFunctionArn: _, ...before } = ATTRIBUTES;
    const other = emptyStack();
    const earlier = Scheduler.fromAttributes(other, 'Theirs', before);
    earlier.grants.submit(new Role(other, 'Submitter', { assumedBy: new AccountRootPrincipal() }));
    expect(resourcesNamed(Template.fromStack(other))).not.toContain('lambda:');
    expect(earlier.schedulerEnvironment()).not.toHaveProperty('FAIRLEAD_WAKE_FUNCTION');
  });

  it('lets a producer put events of its sources only', () => {
    const { stack, scheduler } = lookedUp({ sources: ['orders'] });
    scheduler.grants.putEvents(new Role(stack, 'Producer', { assumedBy: new AccountRootPrincipal() }));
    const [[, policy] = []] = resourcesOf(Template.fromStack(stack), 'AWS::IAM::Policy');
    const statement = at(policy, 'Properties', 'PolicyDocument', 'Statement', 0);
    expect(at(statement, 'Resource')).toBe(ATTRIBUTES.busArn);
    expect(at(statement, 'Condition', 'StringEquals', 'events:source')).toEqual(['orders']);
  });

  it('that is encrypted with a key of its own brings the right to use it', () => {
    const encryptionKeyArn = arn('kms', 'key/1234');
    const { stack, scheduler } = lookedUp({ encryptionKeyArn });
    scheduler.grants.submit(new Role(stack, 'Submitter', { assumedBy: new AccountRootPrincipal() }));
    const text = resourcesNamed(Template.fromStack(stack));
    expect(text).toContain(encryptionKeyArn);
    expect(text).toContain('kms:Decrypt');
  });

  it('tells functions and workers where everything is', () => {
    const { stack, scheduler } = lookedUp();
    expect(stack.resolve(scheduler.schedulerEnvironment())).toMatchObject({
      FAIRLEAD_TABLE: 'orders-jobs',
      FAIRLEAD_BUS: 'orders',
      FAIRLEAD_WAKE_QUEUE: expect.objectContaining({ 'Fn::Join': expect.anything() }),
      FAIRLEAD_WAKE_FUNCTION: ATTRIBUTES.wakeFunctionArn,
    });
    expect(stack.resolve(scheduler.workerEnvironment('gpu'))).toMatchObject({
      FAIRLEAD_TABLE: 'orders-jobs',
      FAIRLEAD_FLEET: 'gpu',
    });
  });

  it('refuses a fleet whose queue nobody has named, and says which was meant', () => {
    const { stack, scheduler } = lookedUp();
    const person = new Role(stack, 'Worker', { assumedBy: new AccountRootPrincipal() });
    for (const asked of [
      () => scheduler.workerEnvironment('gqu'),
      () => scheduler.grants.work(person, 'gqu'),
    ]) {
      expect(asked).toThrow(ConfigurationError);
      expect(asked).toThrow(/"gqu".*Did you mean "gpu"/);
    }
  });

  const elsewhere = 'arn:aws:sqs:eu-west-2:111122223333:orders-wake';
  it.each<readonly [unknown, RegExp]>([
    [{ tableArn: ATTRIBUTES.busArn }, /^tableArn: must be the ARN of a table, got "arn:aws:events:/],
    [{ busArn: ATTRIBUTES.wakeQueueArn }, /^busArn: must be the ARN of an event bus/],
    [{ wakeQueueArn: ATTRIBUTES.tableArn }, /^wakeQueueArn: must be the ARN of a queue/],
    [{ tableArn: `${ATTRIBUTES.tableArn}/index/lines` }, /^tableArn: must be/],
    [{ tableArn: `${ATTRIBUTES.tableArn}/stream/2026-11-25T00:00:00.000` }, /^tableArn: must be/],
    [{ tableArn: 'orders-jobs' }, /^tableArn: must be/],
    [{ busArn: arn('events', 'rule/orders') }, /^busArn: must be/],
    [{ busArn: arn('events', 'event-bus') }, /^busArn: must be/],
    [
      { wakeQueueArn: 'https://sqs.eu-west-1.amazonaws.com/111122223333/orders-wake' },
      /^wakeQueueArn: must be/,
    ],
    [{ wakeQueueArn: arn('sqs', '') }, /^wakeQueueArn: must be/],
    [
      { wakeFunctionArn: arn('lambda', 'function:orders-dispatch') },
      /^wakeFunctionArn: must be the ARN of an alias of a function/,
    ],
    [{ wakeFunctionArn: arn('sqs', 'orders-wake') }, /^wakeFunctionArn: must be/],
    [
      { wakeFunctionArn: 'arn:aws:lambda:eu-west-2:111122223333:function:orders-dispatch:wake' },
      /^wakeFunctionArn: is in another account or Region/,
    ],
    [{ wakeQueueArn: undefined }, /^wakeQueueArn: must be .*got undefined/],
    [{ encryptionKeyArn: arn('kms', 'alias/jobs') }, /^encryptionKeyArn: must be the ARN of a key of KMS/],
    [{ fleetQueueArns: { gpu: ATTRIBUTES.tableArn } }, /^fleetQueueArns\.gpu: must be the ARN of a queue/],
    [{ fleetQueueArns: [arn('sqs', 'gpu')] }, /^fleetQueueArns: must be an object/],
    [{ deadLetterQueueArns: arn('sqs', 'dead') }, /^deadLetterQueueArns: must be a list/],
    [{ deadLetterQueueArns: [ATTRIBUTES.busArn] }, /^deadLetterQueueArns\[0\]: must be the ARN of a queue/],
    [{ sources: [''] }, /^sources\[0\]: cannot be the source of an event/],
    [{ sources: [5] }, /^sources\[0\]: must be a text/],
    [{ wakeQueueARN: 'x' }, /^wakeQueueARN: is not a known field.*Did you mean "wakeQueueArn"/],
    [
      { fleetQueueArns: { gpu: ATTRIBUTES.wakeQueueArn } },
      /^fleetQueueArns\.gpu: is also the ARN of wakeQueueArn/,
    ],
    [
      { deadLetterQueueArns: [arn('sqs', 'gpu')] },
      /^deadLetterQueueArns\[0\]: is also the ARN of fleetQueueArns\.gpu/,
    ],
    [
      { wakeQueueArn: elsewhere },
      /^wakeQueueArn: is in another account or Region than tableArn \(eu-west-1:111122223333\)/,
    ],
  ])('refuses parts that are something else: %j', (change, message) => {
    const attempt = (): unknown => lookedUp(change as Partial<SchedulerAttributes>);
    expect(attempt).toThrow(ConfigurationError);
    expect(attempt).toThrow(message);
  });

  it('makes nothing: its owner has', () => {
    const { stack } = lookedUp();
    expect(Template.fromStack(stack).toJSON().Resources ?? {}).toEqual({});
  });
});

describe('a parameter that says where a scheduler is', { timeout: SYNTH_MS }, () => {
  const NAME = '/orders/jobs';

  it('is written in the order in which it is read', () => {
    const { template, scheduler, stack } = synthesize({ parameterName: NAME });
    const [[, parameter] = []] = resourcesOf(template, 'AWS::SSM::Parameter');
    expect(at(parameter, 'Properties')).toMatchObject({ Name: NAME, Type: 'StringList' });
    const parts = listOf(at(parameter, 'Properties', 'Value', 'Fn::Join', 1));
    const arns = [
      scheduler.table.tableArn,
      scheduler.bus.eventBusArn,
      scheduler.wakeQueue.queueArn,
      scheduler.wakeFunctionArn,
    ];
    expect(parts.filter((part) => part !== ',')).toEqual(stack.resolve(arns));
  });

  it('is not there unless it is named', () => {
    synthesize().template.resourceCountIs('AWS::SSM::Parameter', 0);
  });

  it('is read with each deployment, and grants what the parts that it names are', () => {
    const stack = emptyStack();
    const scheduler = Scheduler.fromParameter(stack, 'Theirs', NAME, { sources: ['orders'] });
    const person = new Role(stack, 'Producer', { assumedBy: new AccountRootPrincipal() });
    scheduler.grants.putEvents(person);
    scheduler.grants.submit(person);
    const template = Template.fromStack(stack);
    const [[id, parameter] = []] = Object.entries(template.findParameters('*')).filter(
      ([, { Default }]) => Default === NAME,
    );
    expect(parameter).toMatchObject({ Type: 'AWS::SSM::Parameter::Value<List<String>>' });
    const [[, policy] = []] = resourcesOf(template, 'AWS::IAM::Policy');
    const byAction = new Map(
      listOf(at(policy, 'Properties', 'PolicyDocument', 'Statement')).map((each) => [
        String(listOf(at(each, 'Action'))[0]),
        at(each, 'Resource'),
      ]),
    );
    const nth = (place: number): unknown => ({ 'Fn::Select': [place, { Ref: id }] });
    expect(byAction.get('events:PutEvents')).toEqual(nth(1));
    expect(byAction.get('sqs:SendMessage')).toEqual(nth(2));
    // Behind what the parameter says stands the wake queue, so that there is a fourth also where an earlier version wrote three.
    expect(byAction.get('lambda:InvokeFunction')).toEqual({
      'Fn::Select': [
        3,
        { 'Fn::Split': [',', { 'Fn::Join': [',', [{ 'Fn::Join': [',', { Ref: id }] }, nth(2)]] }] },
      ],
    });
    const ofTable = [...byAction].filter(([action]) => action.startsWith('dynamodb:'));
    expect(ofTable.length).toBeGreaterThan(0);
    for (const [, resource] of ofTable)
      for (const each of listOf(resource)) expect(JSON.stringify(each)).toContain(JSON.stringify(nth(0)));
    expect(stack.resolve(scheduler.tableName)).toEqual({
      'Fn::Select': [1, { 'Fn::Split': ['/', nth(0)] }],
    });
  });
});
