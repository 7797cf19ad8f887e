/** Sweeps over everything in the template, so that what is added later is held to the same rules. */

import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { EventBus } from 'aws-cdk-lib/aws-events';
import {
  AccountPrincipal,
  AccountRootPrincipal,
  ArnPrincipal,
  type IGrantable,
  OrganizationPrincipal,
  PolicyStatement,
  Role,
} from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../cdk/scheduler.ts';
import {
  at,
  emptyStack,
  listOf,
  outputFolder,
  type Resource,
  referred,
  resourcesOf,
  synthesize,
  workerFunction,
} from './stacks.ts';

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
  ].filter((id) => id !== undefined),
);

/** Wakes, and messages to fleets: the items say what there is to do. */
const isHint = (id: string): boolean => /WakeQueue|Fleets/.test(id);

describe('what must not be lost', () => {
  it('has a queue of its own, kept for as long as SQS keeps anything, and another one behind it', () => {
    const guarded = [...queues].filter(([id]) => !deadLetterQueues.has(id) && !isHint(id));
    expect(guarded.map(([id]) => id.replace(/[0-9A-F]{8}$/, ''))).toEqual([
      'JobsIngestQueue',
      'JobsDispatchOutcomeQueue',
    ]);
    expect(deadLetterQueues.size).toBe(guarded.length);
    for (const [, queue] of guarded) {
      const deadLetters = queues.get(deadLetterQueueOf(queue) ?? '');
      expect(deadLetters?.Properties.MessageRetentionPeriod).toBe(14 * 86_400);
      expect(queue.Properties.MessageRetentionPeriod).toBe(14 * 86_400);
    }
  });

  it('uses up no delivery where a function is throttled: the tick alone takes outcomes, and no event source does', () => {
    const [id, outcomes] = [...queues].find(([each]) => /OutcomeQueue[0-9A-F]{8}$/.test(each)) ?? [];
    expect(at(outcomes, 'Properties', 'RedrivePolicy', 'maxReceiveCount')).toBe(1_000);
    const sources = resourcesOf(template, 'AWS::Lambda::EventSourceMapping').map(([, { Properties }]) =>
      referred(Properties.EventSourceArn),
    );
    expect(sources).not.toContain(id);
  });

  it('lives in the stream for as long as that keeps it, a day, and a record that fails holds up only what follows it', () => {
    const streams = resourcesOf(template, 'AWS::Lambda::EventSourceMapping').filter(
      ([, { Properties }]) => Properties.StartingPosition !== undefined,
    );
    expect(streams).toHaveLength(1);
    for (const [, { Properties }] of streams) {
      expect(Properties.BisectBatchOnFunctionError).toBe(true);
      // Absent, as -1: until the stream forgets them.
      for (const bound of ['MaximumRetryAttempts', 'MaximumRecordAgeInSeconds'])
        expect(Properties[bound] ?? -1, bound).toBe(-1);
    }
  });

  it('goes from the bus into the dead letters where its rule cannot deliver it, after bounded retries', () => {
    const targets = resourcesOf(template, 'AWS::Events::Rule').flatMap(([id, rule]) =>
      listOf(rule.Properties.Targets).map((target) => [id, target] as const),
    );
    for (const [id, target] of targets) {
      expect(at(target, 'RetryPolicy', 'MaximumRetryAttempts')).toBeTypeOf('number');
      expect(at(target, 'RetryPolicy', 'MaximumEventAgeInSeconds')).toBeTypeOf('number');
      const deadLetters = referred(at(target, 'DeadLetterConfig', 'Arn'));
      expect(deadLetters !== undefined).toBe(id.includes('Requested'));
      if (deadLetters === undefined) continue;
      const allowed = resourcesOf(template, 'AWS::SQS::QueuePolicy')
        .flatMap(([, policy]) => listOf(at(policy.Properties, 'PolicyDocument', 'Statement')))
        .filter((statement) => referred(at(statement, 'Condition', 'ArnEquals', 'aws:SourceArn')) === id)
        .map((statement) => referred(at(statement, 'Resource')));
      expect(allowed).toContain(deadLetters);
    }
  });
});

describe('a hint', () => {
  it('leaves no dead letter, whatever it came by, and is dropped after a day', () => {
    const hints = [...queues].filter(([id]) => isHint(id));
    expect(hints).toHaveLength(4);
    for (const [, { Properties }] of hints) {
      expect(Properties).not.toHaveProperty('RedrivePolicy');
      expect(Properties.MessageRetentionPeriod).toBe(86_400);
    }
    for (const type of ['AWS::Lambda::EventInvokeConfig', 'AWS::Lambda::EventSourceMapping'])
      for (const [id, { Properties }] of resourcesOf(template, type))
        expect([id, Properties.DestinationConfig]).toEqual([id, undefined]);
  });

  it('that invokes the dispatch function is tried once, for a minute', () => {
    const configs = resourcesOf(template, 'AWS::Lambda::EventInvokeConfig').map(
      ([, { Properties }]) => Properties,
    );
    expect(configs).toHaveLength(2);
    for (const config of configs)
      expect(config).toMatchObject({ MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 60 });
  });
});

describe('an event source', () => {
  it.each(resourcesOf(template, 'AWS::Lambda::EventSourceMapping'))(
    '%s reports single failures',
    (_, mapping) => {
      expect(mapping.Properties.FunctionResponseTypes).toEqual(['ReportBatchItemFailures']);
    },
  );

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

  const open = (queue: Queue | undefined): void => {
    queue?.addToResourcePolicy(
      new PolicyStatement({
        principals: [new AccountPrincipal('111122223333')],
        actions: ['sqs:ReceiveMessage'],
        resources: [queue.queueArn],
      }),
    );
  };

  it('every queue has one policy, which does so, also one that somebody gives rights of its own', () => {
    const other = synthesize({}, (_, made) => open(made.fleets.gpu?.queue));
    // Then nothing is left that could share one, and a policy of no queue would fail the deployment.
    const all = synthesize({}, (_, made) => made.eachFleet(({ queue }) => open(queue)));
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

  it('a queue that changes between the shared policy and one of its own is left with one that refuses, whichever goes', () => {
    const { template: made } = synthesize({}, (_, scheduler) => open(scheduler.fleets.gpu?.queue));
    const policies = Object.entries(made.findResources('AWS::SQS::QueuePolicy'));
    const [shared, sharedPolicy] = policies.find(([id]) => id.includes('Tls')) ?? [];
    const [, own] = policies.find(([id]) => id.includes('gpu')) ?? [];
    // The shared one lets go before the own one is set; what is deleted at the end of a deployment clears nothing that the other has set.
    expect(listOf(at(own, 'DependsOn'))).toEqual([shared]);
    expect(at(own, 'DeletionPolicy')).toBe('Retain');
    expect(at(sharedPolicy, 'DeletionPolicy')).toBe('RetainExceptOnCreate');
    const all = synthesize({}, (_, scheduler) => scheduler.eachFleet(({ queue }) => open(queue)));
    for (const [id, each] of Object.entries(all.template.findResources('AWS::SQS::QueuePolicy')))
      expect([id, at(each, 'DependsOn')]).toEqual([id, undefined]);
  });

  it('an operator may empty every dead-letter queue, and send to the one that it stands behind', () => {
    const mayDo = (action: string): ReadonlySet<string | undefined> =>
      new Set(
        statements
          .filter(
            ([id, statement]) =>
              id.startsWith('Operator') && listOf(at(statement, 'Action')).includes(action),
          )
          .flatMap(([, statement]) => listOf(at(statement, 'Resource')).map(referred)),
      );
    for (const action of ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:PurgeQueue'])
      expect(mayDo(action)).toEqual(deadLetterQueues);
    for (const [id, queue] of queues)
      if (deadLetterQueueOf(queue) !== undefined) expect(mayDo('sqs:SendMessage')).toContain(id);
  });
});

describe('a service', () => {
  /** As the CDK's feature flags are, and as they are not: the library's own statements differ by them. */
  const stacks = [
    emptyStack(),
    new Stack(new App({ context: { 'aws:cdk:bundling-stacks': [] }, outdir: outputFolder() }), 'Test'),
  ];
  it.each(stacks)('is let in for resources of this account only, whatever feature flags are set', (stack) => {
    const scheduler = new Scheduler(stack, 'Jobs', {
      encryptionKey: new Key(stack, 'Key') as IKey,
      fleets: { images: { types: ['a'], handler: workerFunction(stack, 'Images') } },
    });
    scheduler.grants.putEvents(new AccountPrincipal('222222222222'));
    const made = Template.fromStack(stack);
    const policies = [
      ...resourcesOf(made, 'AWS::KMS::Key').map(([, each]) => at(each.Properties, 'KeyPolicy')),
      ...resourcesOf(made, 'AWS::SQS::QueuePolicy').map(([, each]) => at(each.Properties, 'PolicyDocument')),
    ];
    const toServices = policies
      .flatMap((policy) => listOf(at(policy, 'Statement')))
      .filter((statement) => at(statement, 'Principal', 'Service') !== undefined);
    expect(toServices.length).toBeGreaterThanOrEqual(5);
    for (const statement of toServices) {
      const conditions = JSON.stringify(at(statement, 'Condition') ?? {});
      expect(conditions, JSON.stringify(statement)).toMatch(
        /aws:SourceAccount|aws:SourceArn|EncryptionContext:aws:logs:arn/,
      );
    }
    for (const [id, { Properties }] of resourcesOf(made, 'AWS::Lambda::Permission'))
      expect(Properties.SourceArn ?? Properties.SourceAccount, id).toBeDefined();
  });
});

describe('a producer of another account', () => {
  it.each<readonly [string, IGrantable, object]>([
    ['an account', new AccountPrincipal('222222222222'), { AWS: expect.anything() }],
    [
      'a role',
      new ArnPrincipal('arn:aws:iam::222222222222:role/shop'),
      { AWS: 'arn:aws:iam::222222222222:role/shop' },
    ],
  ])('is let in by the policy of the bus, for requests only: %s', (_, producer, principal) => {
    const { template: made } = synthesize({ sources: ['shop'] }, (_stack, scheduler) => {
      expect(scheduler.grants.putEvents(producer).success).toBe(true);
      // Granted twice, it stands there once.
      scheduler.grants.putEvents(producer);
    });
    const policies = resourcesOf(made, 'AWS::Events::EventBusPolicy');
    expect(policies).toHaveLength(1);
    expect(at(policies, 0, 1, 'Properties', 'Statement')).toMatchObject({
      Effect: 'Allow',
      Action: 'events:PutEvents',
      Principal: principal,
      Condition: {
        StringEquals: {
          'events:source': ['shop'],
          'events:detail-type': expect.arrayContaining(['Job Requested']),
        },
      },
    });
  });

  it('is let in as a whole organization, and to a bus that is only referred to', () => {
    const stack = emptyStack();
    const eventBus = EventBus.fromEventBusName(stack, 'Shared', 'shared');
    const scheduler = new Scheduler(stack, 'Jobs', { eventBus, sources: ['shop'] });
    scheduler.grants.putEvents(new OrganizationPrincipal('o-1234567890'));
    const [[, policy] = []] = resourcesOf(Template.fromStack(stack), 'AWS::Events::EventBusPolicy');
    expect(policy?.Properties).toMatchObject({
      EventBusName: 'shared',
      Statement: {
        Condition: { StringEquals: { 'aws:PrincipalOrgID': 'o-1234567890', 'events:source': ['shop'] } },
      },
    });
  });

  const accounts = (count: number): readonly AccountPrincipal[] =>
    Array.from({ length: count }, (_, n) => new AccountPrincipal(String(200_000_000_000 + n)));

  it('shares a statement with all others that are let in on the same conditions', () => {
    const { template: made } = synthesize({ sources: ['shop'] }, (_stack, scheduler) => {
      for (const account of accounts(200)) scheduler.grants.putEvents(account);
      scheduler.grants.putEvents(new OrganizationPrincipal('o-1234567890'));
    });
    const policies = resourcesOf(made, 'AWS::Events::EventBusPolicy').map(([, each]) => each.Properties);
    expect(
      policies.map((each) => listOf(at(each, 'Statement', 'Principal', 'AWS')).length).toSorted(),
    ).toEqual([1, 200]);
    expect(JSON.stringify(policies.map(({ Statement }) => Statement)).length).toBeLessThan(20_000);
  });

  it('is refused where the policy of the bus has no room for it, with the way out, and the others stay', () => {
    const { template: made } = synthesize({}, (_stack, scheduler) => {
      const [last, ...others] = accounts(260).toReversed();
      for (const account of others.slice(0, 200)) scheduler.grants.putEvents(account);
      expect(() => {
        for (const account of others.slice(200)) scheduler.grants.putEvents(account);
        scheduler.grants.putEvents(last as AccountPrincipal);
      }).toThrow(
        /^grantee: does not fit into the policy of the bus, .* 102\d\d characters; .*10240.*OrganizationPrincipal/,
      );
    });
    const [[, policy] = []] = resourcesOf(made, 'AWS::Events::EventBusPolicy');
    // As long as it is in the longest partition.
    const principals = listOf(at(policy, 'Properties', 'Statement', 'Principal', 'AWS'));
    expect(principals.length).toBeGreaterThan(200);
    expect(principals.length * '"arn:aws-us-gov:iam::200000000000:root",'.length).toBeLessThan(10_240);
  });

  it('is none in the account itself: a role is let in by its own policy', () => {
    const { template: made } = synthesize({}, (stack, scheduler) =>
      scheduler.grants.putEvents(new Role(stack, 'Shop', { assumedBy: new AccountRootPrincipal() })),
    );
    expect(resourcesOf(made, 'AWS::Events::EventBusPolicy')).toEqual([]);
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
