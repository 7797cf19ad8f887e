/** Sweeps over everything in the template, so that what is added later is held to the same rules. */

import { Template } from 'aws-cdk-lib/assertions';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { AccountPrincipal, AccountRootPrincipal, PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../cdk/scheduler.ts';
import { at, emptyStack, listOf, type Resource, referred, resourcesOf, synthesize } from './stacks.ts';

const { template } = synthesize();
const queues = new Map(resourcesOf(template, 'AWS::SQS::Queue'));

const deadLetterQueueOf = (queue: Resource): string | undefined =>
  referred(at(queue.Properties, 'RedrivePolicy', 'deadLetterTargetArn'));

/** Every queue that something else falls back to. */
const deadLetterQueues = new Set(
  [
    ...[...queues.values()].map(deadLetterQueueOf),
    ...resourcesOf(template, 'AWS::Events::Rule').flatMap(([, rule]) =>
      listOf(rule.Properties.Targets).map((target) => referred(at(target, 'DeadLetterConfig', 'Arn'))),
    ),
    ...resourcesOf(template, 'AWS::Lambda::EventSourceMapping').map(([, mapping]) =>
      referred(at(mapping.Properties, 'DestinationConfig', 'OnFailure', 'Destination')),
    ),
    ...resourcesOf(template, 'AWS::Lambda::EventInvokeConfig').map(([, config]) =>
      referred(at(config.Properties, 'DestinationConfig', 'OnFailure', 'Destination')),
    ),
  ].filter((id) => id !== undefined),
);

describe('behind everything that can fail', () => {
  it.each([...queues].filter(([id]) => !deadLetterQueues.has(id)))(
    'queue %s has a dead-letter queue that keeps messages for 14 days',
    (_, queue) => {
      const deadLetters = queues.get(deadLetterQueueOf(queue) ?? '');
      expect(deadLetters?.Properties.MessageRetentionPeriod).toBe(14 * 86_400);
      expect(at(queue.Properties, 'RedrivePolicy', 'maxReceiveCount')).toBe(5);
    },
  );

  it('there is one dead-letter queue for each queue and one for the dispatch function, and no queue besides', () => {
    const working = [...queues.keys()].filter((id) => !deadLetterQueues.has(id));
    expect(working).toHaveLength(5);
    expect(deadLetterQueues.size).toBe(6);
  });

  it.each(resourcesOf(template, 'AWS::Events::Rule'))(
    'each target of rule %s has a dead-letter queue and bounded retries',
    (_, rule) => {
      const targets = listOf(rule.Properties.Targets);
      expect(targets).not.toHaveLength(0);
      for (const target of targets) {
        expect(queues.has(referred(at(target, 'DeadLetterConfig', 'Arn')) ?? '')).toBe(true);
        expect(at(target, 'RetryPolicy', 'MaximumRetryAttempts')).toBeTypeOf('number');
        expect(at(target, 'RetryPolicy', 'MaximumEventAgeInSeconds')).toBeTypeOf('number');
      }
    },
  );

  it.each(resourcesOf(template, 'AWS::Events::Rule'))(
    'the dead-letter queue of rule %s lets the rule send to it',
    (id, rule) => {
      const wanted = listOf(rule.Properties.Targets).map((target) =>
        referred(at(target, 'DeadLetterConfig', 'Arn')),
      );
      const allowed = resourcesOf(template, 'AWS::SQS::QueuePolicy')
        .flatMap(([, policy]) => listOf(at(policy.Properties, 'PolicyDocument', 'Statement')))
        .filter((statement) => referred(at(statement, 'Condition', 'ArnEquals', 'aws:SourceArn')) === id)
        .map((statement) => referred(at(statement, 'Resource')));
      expect(allowed).toEqual(expect.arrayContaining(wanted));
    },
  );

  it.each(resourcesOf(template, 'AWS::Lambda::EventSourceMapping'))(
    'event source %s has somewhere to put what fails, and reports single failures',
    (_, mapping) => {
      const { Properties: properties } = mapping;
      const source = queues.get(referred(properties.EventSourceArn) ?? '');
      expect(properties.FunctionResponseTypes).toEqual(['ReportBatchItemFailures']);
      if (source !== undefined) {
        expect(deadLetterQueueOf(source)).toBeDefined();
        return;
      }
      expect(
        queues.has(referred(at(properties, 'DestinationConfig', 'OnFailure', 'Destination')) ?? ''),
      ).toBe(true);
      expect(properties.BisectBatchOnFunctionError).toBe(true);
      expect(properties.MaximumRetryAttempts).toBe(10);
      expect(properties.MaximumRecordAgeInSeconds).toBe(3_600);
    },
  );

  it('asynchronous invocations of the dispatch function that fail are kept, but for wakes by its alias: the stream tells of the same jobs', () => {
    const configs = resourcesOf(template, 'AWS::Lambda::EventInvokeConfig').map(
      ([, { Properties }]) => Properties,
    );
    const [own, byAlias] = [true, false].map((isOwn) =>
      configs.filter(({ Qualifier }) => (Qualifier === '$LATEST') === isOwn),
    );
    expect(own).toMatchObject([
      { MaximumRetryAttempts: 0, DestinationConfig: { OnFailure: { Destination: expect.anything() } } },
    ]);
    expect(byAlias).toMatchObject([{ MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 60 }]);
    expect(byAlias?.[0]).not.toHaveProperty('DestinationConfig');
  });

  it.each(resourcesOf(template, 'AWS::Lambda::EventSourceMapping'))(
    'a message of event source %s stays hidden for as long as its function may run, with room for retries, or for its end',
    (_, mapping) => {
      const isFleet = referred(mapping.Properties.EventSourceArn)?.includes('Fleet');
      const queue = queues.get(referred(mapping.Properties.EventSourceArn) ?? '');
      if (queue === undefined) return;
      const lambda =
        template.findResources('AWS::Lambda::Function')[referred(mapping.Properties.FunctionName) ?? ''];
      const timeoutSec = Number(at(lambda, 'Properties', 'Timeout'));
      expect(queue.Properties.VisibilityTimeout).toBe(isFleet ? timeoutSec + 20 : timeoutSec * 6);
    },
  );
});

describe('rights', () => {
  const granted = synthesize({}, (stack, scheduler) => {
    const person = (id: string): Role => new Role(stack, id, { assumedBy: new AccountRootPrincipal() });
    scheduler.grantSubmit(person('Submitter'));
    scheduler.grantPutEvents(person('Producer'));
    scheduler.grantWork(person('Worker'), 'gpu');
    scheduler.grantOperate(person('Operator'));
    scheduler.grantDispatch(person('Passer'));
  });
  const policies = resourcesOf(granted.template, 'AWS::IAM::Policy');
  const statements = policies.flatMap(([id, policy]) =>
    listOf(at(policy.Properties, 'PolicyDocument', 'Statement')).map((statement) => [id, statement] as const),
  );
  it.each(statements)('a statement of %s names its actions and its resources', (_, statement) => {
    expect(at(statement, 'Effect')).toBe('Allow');
    for (const action of listOf(at(statement, 'Action'))) expect(action).toMatch(/^[a-z]+:[A-Za-z]+$/);
    expect(listOf(at(statement, 'Resource'))).not.toContain('*');
  });

  it('queues refuse what does not come over TLS, and let nobody in but rules', () => {
    for (const [, policy] of resourcesOf(template, 'AWS::SQS::QueuePolicy')) {
      for (const statement of listOf(at(policy.Properties, 'PolicyDocument', 'Statement'))) {
        if (at(statement, 'Effect') === 'Deny') {
          expect(at(statement, 'Condition', 'Bool', 'aws:SecureTransport')).toBe('false');
        } else {
          expect(at(statement, 'Principal', 'Service')).toBe('events.amazonaws.com');
          expect(at(statement, 'Condition', 'ArnEquals', 'aws:SourceArn')).toBeDefined();
        }
      }
    }
  });

  /** How many policies refuse what comes to a queue without TLS. */
  const refusing = (of: Template): ReadonlyMap<string | undefined, number> => {
    const covered = resourcesOf(of, 'AWS::SQS::QueuePolicy')
      .filter(([, { Properties }]) =>
        listOf(at(Properties, 'PolicyDocument', 'Statement')).some((each) => at(each, 'Effect') === 'Deny'),
      )
      .flatMap(([, { Properties }]) => listOf(Properties.Queues).map(referred));
    return new Map([...Map.groupBy(covered, (id) => id)].map(([id, all]) => [id, all.length]));
  };

  it('every queue has one policy, which does so, also one that somebody gives rights of its own', () => {
    const open = (queue: Queue | undefined): void => {
      queue?.addToResourcePolicy(
        new PolicyStatement({
          principals: [new AccountPrincipal('111122223333')],
          actions: ['sqs:ReceiveMessage'],
          resources: [queue.queueArn],
        }),
      );
    };
    const other = synthesize({}, (_, made) => open(made.fleets.gpu?.queue));
    // Then nothing is left that could share one, and a policy of no queue would fail the deployment.
    const all = synthesize({}, (_, made) =>
      made.eachFleet(({ queue, deadLetterQueue }) => {
        open(queue);
        open(deadLetterQueue);
      }),
    );
    expect(resourcesOf(all.template, 'AWS::SQS::QueuePolicy').filter(([id]) => id.includes('Tls'))).toEqual(
      [],
    );
    for (const each of [template, other.template, all.template]) {
      const every = resourcesOf(each, 'AWS::SQS::Queue').map(([id]) => id);
      expect(refusing(each)).toEqual(new Map(every.map((id) => [id, 1])));
      const policies = resourcesOf(each, 'AWS::SQS::QueuePolicy').flatMap(([, { Properties }]) =>
        listOf(Properties.Queues).map(referred),
      );
      expect(policies.toSorted()).toEqual(every.toSorted());
    }
    const [, own] =
      resourcesOf(other.template, 'AWS::SQS::QueuePolicy').find(([id]) => id.includes('gpu')) ?? [];
    expect(listOf(at(own, 'Properties', 'PolicyDocument', 'Statement'))).toHaveLength(2);
  });

  it('an operator may redrive every dead-letter queue', () => {
    const redrivable = statements
      .filter(([id]) => id.startsWith('Operator'))
      .filter(([, statement]) => listOf(at(statement, 'Action')).includes('sqs:StartMessageMoveTask'))
      .flatMap(([, statement]) => listOf(at(statement, 'Resource')).map(referred));
    expect(new Set(redrivable)).toEqual(deadLetterQueues);
  });
});

describe('names', () => {
  const named = ['TableName', 'QueueName', 'FunctionName', 'RoleName', 'LogGroupName', 'AlarmName'];

  it('nothing carries a name that somebody picked', () => {
    const resources = Object.entries(template.toJSON().Resources as Record<string, Resource>);
    const picked = resources.flatMap(([id, { Type: type, Properties: properties }]) =>
      [...named, ...(type === 'AWS::Events::Rule' ? ['Name'] : [])]
        .filter((name) => typeof properties[name] === 'string')
        .map((name) => `${id}.${name}`),
    );
    expect(picked).toEqual([]);
  });

  it('two schedulers live in one stack, with a bus each', () => {
    const stack = emptyStack();
    const one = new Scheduler(stack, 'One', { fleets: { all: { types: ['a'] } } });
    const two = new Scheduler(stack, 'Two', { fleets: { all: { types: ['a'] } } });
    const buses = resourcesOf(Template.fromStack(stack), 'AWS::Events::EventBus');
    expect(new Set(buses.map(([, bus]) => bus.Properties.Name)).size).toBe(2);
    expect(one.bus).toBeInstanceOf(EventBus);
    expect(two.bus).not.toBe(one.bus);
  });
});
