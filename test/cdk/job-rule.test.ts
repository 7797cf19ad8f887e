/** Events of a business become jobs: what the rule of the template sends is what the ingest function makes jobs of. */
import { App, NestedStack, Stack } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { Match as CdkMatch, EventBus, type EventPattern } from 'aws-cdk-lib/aws-events';
import { Key } from 'aws-cdk-lib/aws-kms';
import { describe, expect, it } from 'vitest';
import type { JobOfEvent } from '../../cdk/job-rule.ts';
import type { SchedulerProps } from '../../cdk/props.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { ingest } from '../../lib/submit/ingest.ts';
import { stage } from '../stage/stage.ts';
import { emptyStack } from './stacks.ts';

const PATTERN = { source: ['shop'], detailType: ['Order Placed'] };

interface Target {
  readonly Arn: unknown;
  readonly InputTransformer: {
    readonly InputPathsMap: Readonly<Record<string, string>>;
    readonly InputTemplate: string;
  };
}

const rulesOf = (...jobs: readonly JobOfEvent[]) => rulesIn({ fleets: { all: { types: ['resize'] } } }, jobs);

function rulesIn(props: SchedulerProps, jobs: readonly JobOfEvent[]) {
  const stack = emptyStack();
  const scheduler = new Scheduler(stack, 'Jobs', props);
  for (const job of jobs) scheduler.on(PATTERN, job as never);
  const rules = Object.values(Template.fromStack(stack).findResources('AWS::Events::Rule'));
  return rules.filter(({ Properties }) => Properties.EventPattern?.source?.[0] === 'shop');
}

/** As EventBridge does: what stands at a path is put in as JSON. */
function sent({ InputPathsMap, InputTemplate }: Target['InputTransformer'], event: object): string {
  return InputTemplate.replace(/<([\w-]+)>/g, (_, name: string) => {
    const steps = (InputPathsMap[name] ?? '').split('.').slice(1);
    return JSON.stringify(steps.reduce<unknown>((at, step) => (at as Record<string, unknown>)[step], event));
  });
}

async function deliver(job: JobOfEvent, detail: object, times = 1, pool?: PoolInput) {
  const [rule] = pool === undefined ? rulesOf(job) : rulesIn(pool as SchedulerProps, [job]);
  const [target] = (rule?.Properties.Targets ?? []) as readonly Target[];
  if (target === undefined) throw new Error('there is no target');
  const on = stage(pool === undefined ? {} : { pool });
  const event = {
    id: 'e-1',
    time: '2027-01-15T08:00:00Z',
    source: 'shop',
    'detail-type': 'Order Placed',
    detail,
  };
  const body = sent(target.InputTransformer, event);
  const context = { ...on.submitter(), events: on.bus, log: on.log, partitionOf: () => 0 };
  for (let at = 0; at < times; at += 1) await on.finish(ingest(context, [{ messageId: `m${at}`, body }]));
  return { jobs: [...on.store.everyJob()], rejections: await on.store.listRejections('e-1') };
}

const ORDER = { order: { id: 'o-7', customer: 42, 'line-items': [1, { a: '"quoted" <b>' }] } };

describe('an event of a business', () => {
  it('becomes one job, whose parts stand where the rule says, however often it is delivered', async () => {
    const job = {
      type: 'resize',
      payload: '$.detail.order.line-items',
      fairnessKey: '$.detail.order.customer',
      resourceId: '$.detail.order.id',
      tags: { order: '$.detail.order.id', 'customer.number': '$.detail.order.customer' },
    };
    const { jobs, rejections } = await deliver(job, ORDER, 2);
    expect(rejections).toEqual([]);
    expect(jobs).toMatchObject([
      { type: 'resize', payload: [1, { a: '"quoted" <b>' }], fairnessKey: '42', resourceId: 'o-7' },
    ]);
    expect(jobs[0]?.tags).toEqual({ order: 'o-7', 'customer.number': '42' });
    expect(jobs).toHaveLength(1);
  });

  it('gives a number as units, and a text where there is a text, so that the job is refused', async () => {
    const pool = {
      types: { resize: { limits: ['openai'] } },
      fleets: { all: { types: ['resize'], slots: 4 } },
      limits: { openai: { rate: { units: 90, perJob: 50, per: '1m' } } },
    };
    const unitsAt = (path: string): JobOfEvent => ({ type: 'resize', units: { openai: path } });
    const { jobs } = await deliver(unitsAt('$.detail.order.customer'), ORDER, 1, pool);
    expect(jobs[0]?.units).toEqual({ openai: 42 });
    const { rejections } = await deliver(unitsAt('$.detail.order.id'), ORDER, 1, pool);
    expect(rejections).toMatchObject([{ field: 'units.openai', reason: expect.stringContaining('"o-7"') }]);
  });

  it('gives its whole detail, unless told otherwise, and a key of its own where there is one', async () => {
    const { jobs } = await deliver({ type: 'resize', idempotencyKey: '$.detail.order.id' }, ORDER, 2);
    expect(jobs).toMatchObject([{ payload: ORDER }]);
    expect(jobs).toHaveLength(1);
  });

  it.each([
    ['fairnessKey', '$.detail.order.tenant'],
    ['payload', '$.detail.order.id.more'],
    ['resourceId', '$.detail.constructor'],
  ])('that has no %s at %s is rejected by that name', async (field, path) => {
    const { jobs, rejections } = await deliver({ type: 'resize', [field]: path }, ORDER);
    expect(jobs).toEqual([]);
    expect(rejections).toMatchObject([{ field, reason: `is missing: the event has no value at ${path}` }]);
  });

  it('makes several jobs by several rules, also of one type', () => {
    expect(rulesOf({ type: 'resize' }, { type: 'resize', payload: '$.detail.order' })).toHaveLength(2);
  });

  it('keep their names, whatever rules are added before them; and one that is there already is refused', () => {
    const [one, two] = [{ type: 'resize', payload: '$.detail.order' }, { type: 'resize' }];
    const namesOf = (...jobs: readonly JobOfEvent[]): readonly string[] => {
      const stack = emptyStack();
      const scheduler = new Scheduler(stack, 'Jobs', { fleets: { all: { types: ['resize'] } } });
      for (const job of jobs) scheduler.on(PATTERN, job as never);
      return Object.entries(Template.fromStack(stack).findResources('AWS::Events::Rule'))
        .filter(([, { Properties }]) => Properties.EventPattern?.source?.[0] === 'shop')
        .map(([id, { Properties }]) => `${id} ${JSON.stringify(Properties.Targets[0].InputTransformer)}`);
    };
    expect(namesOf(one, two)).toEqual(expect.arrayContaining([...namesOf(two), ...namesOf(one)]));
    expect(() => namesOf(two, two)).toThrow(/job: is already made from the same events, got "resize"/);
  });

  it('let no other rule send to the queue, nor use its key, whatever feature flags an app has', () => {
    const stack = new Stack(new App(), 'Shop');
    const encryptionKey = new Key(stack, 'Key');
    const scheduler = new Scheduler(stack, 'Jobs', { fleets: { all: { types: ['resize'] } }, encryptionKey });
    scheduler.on(PATTERN, { type: 'resize' } as never);
    const template = Template.fromStack(stack);
    const statements = ['AWS::SQS::QueuePolicy', 'AWS::KMS::Key'].flatMap((type) =>
      Object.values(template.findResources(type)).flatMap(
        ({ Properties }) =>
          (Properties.PolicyDocument ?? Properties.KeyPolicy).Statement as readonly {
            readonly Principal?: { readonly Service?: unknown };
            readonly Condition?: unknown;
          }[],
      ),
    );
    const ofRules = statements.filter(({ Principal }) => Principal?.Service === 'events.amazonaws.com');
    expect(ofRules.length).toBeGreaterThan(3);
    expect(ofRules.filter(({ Condition }) => Condition === undefined)).toEqual([]);
  });

  it('keeps the policies of the queues within what SQS accepts, however many rules there are', () => {
    const stack = emptyStack();
    const encryptionKey = new Key(stack, 'Key');
    const scheduler = new Scheduler(stack, 'Jobs', { fleets: { all: { types: ['resize'] } }, encryptionKey });
    const theirs = EventBus.fromEventBusName(stack, 'Theirs', 'default');
    for (let at = 0; at < 100; at += 1) {
      const bus = at % 2 === 0 ? scheduler.bus : theirs;
      scheduler.on({ source: [`shop-${at}`] }, { type: 'resize' } as never, bus);
    }
    const template = Template.fromStack(stack);
    const policies = Object.values(template.findResources('AWS::SQS::QueuePolicy')).map(
      ({ Properties }) => Properties.PolicyDocument,
    );
    for (const policy of policies) {
      expect(policy.Statement.length).toBeLessThanOrEqual(5);
      expect(JSON.stringify(policy).length).toBeLessThan(4_096);
    }
    // Every rule's name is one that the policy lets send.
    const names = Object.values(template.findResources('AWS::Events::Rule'))
      .filter(({ Properties }) => Properties.EventPattern?.source?.[0]?.startsWith('shop-'))
      .map(({ Properties }) => Properties.Name as string);
    expect(new Set(names).size).toBe(100);
    for (const name of names) expect(name).toMatch(/^Test-Jobs-[0-9a-f]{16}-[0-9a-f]{8}$/);
    expect(JSON.stringify(policies)).toMatch(
      /:rule\/Test-Jobs-[0-9a-f]{16}-\*.*:rule\/\*\/Test-Jobs-[0-9a-f]{16}-\*/,
    );
  });

  it('has a rule with a name of its own in a nested stack too, whose name is known at deployment only', () => {
    const nested = new NestedStack(emptyStack(), 'Nested');
    const scheduler = new Scheduler(nested, 'Jobs', { fleets: { all: { types: ['resize'] } } });
    scheduler.on(PATTERN, { type: 'resize' } as never);
    const [rule] = Object.values(Template.fromStack(nested).findResources('AWS::Events::Rule')).filter(
      ({ Properties }) => Properties.Name !== undefined,
    );
    // Hash and dash, the stack's UUID, dash and hash: EventBridge allows 64 characters.
    expect(JSON.stringify(rule)).toMatch(
      /"Name":\{"Fn::Join":.*"[0-9a-f]{16}",\{"Fn::Select":\[2,\{"Fn::Split":\["\/",\{"Ref":"AWS::StackId"\}\]\}\].*"-[0-9a-f]{8}"/,
    );
  });

  it('is none of a bus in another Region, where no rule of this stack can be', () => {
    const stack = new Stack(new App(), 'Shop', { env: { region: 'eu-west-1', account: '111122223333' } });
    const scheduler = new Scheduler(stack, 'Jobs', { fleets: { all: { types: ['resize'] } } });
    const bus = EventBus.fromEventBusArn(
      stack,
      'Theirs',
      'arn:aws:events:eu-central-1:111122223333:event-bus/a',
    );
    expect(() => scheduler.on(PATTERN, { type: 'resize' } as never, bus)).toThrow(
      /^bus: is in another Region than the scheduler \(eu-west-1\).*"eu-central-1"/,
    );
  });

  it('is none that a rule has no room to match', () => {
    const scheduler = new Scheduler(emptyStack(), 'Jobs', { fleets: { all: { types: ['resize'] } } });
    const pattern = { source: Array.from({ length: 200 }, (_, n) => `com.example.${n}`) };
    expect(() => scheduler.on(pattern, { type: 'resize' } as never)).toThrow(
      /^pattern: makes a pattern that is too long.*Divide it/,
    );
  });

  it.each(['detail.order', '$.id', '$.detail.a[0]', '$.detail.', '', '$..detail', 7])(
    '%j is refused as a place',
    (path) => {
      expect(() => rulesOf({ type: 'resize', fairnessKey: path as string })).toThrow(
        /job\.fairnessKey: must be a path/,
      );
    },
  );
});

it('is refused at synth for a type that nothing declares, also where a type is added later', () => {
  const make = (added: boolean) => () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs', { fleets: { all: { types: ['resize'] } } });
    scheduler.on(PATTERN, { type: 'report' } as never);
    if (added) scheduler.addJobType('report');
    Template.fromStack(stack);
  };
  expect(make(false)).toThrow(/job\.type: is not a job type of this scheduler, got "report"/);
  expect(make(true)).not.toThrow(/job\.type/);
});

describe('a rule whose every event would be rejected is refused at synth', () => {
  const make = (job: Partial<JobOfEvent>) => () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs', {
      types: {
        report: { requires: ['fairnessKey', 'resourceId'], limits: ['openai', 'starts'] },
      },
      fleets: { all: { types: ['report'] } },
      limits: {
        openai: { rate: { units: 90, perJob: 50, per: '1m', perKey: 60 }, keyedBy: 'org' },
        starts: { rate: { starts: 5, per: '1m' } },
      },
    });
    scheduler.on(PATTERN, { ...WHOLE, ...job } as never);
    Template.fromStack(stack);
  };
  const WHOLE: JobOfEvent = {
    type: 'report',
    fairnessKey: '$.detail.customer',
    resourceId: '$.detail.id',
    keys: { org: '$.detail.org' },
    units: { openai: '$.detail.tokens' },
  };
  const tags = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`tag${at}`, '$.detail.id']));

  it.each<readonly [string, Partial<JobOfEvent>, RegExp]>([
    ['no fairness key', { fairnessKey: undefined }, /^job\.fairnessKey: is missing: jobs of type "report"/],
    ['no resource', { resourceId: undefined }, /^job\.resourceId: is missing/],
    ['no key of a limit', { keys: { organisation: '$.detail.org' } }, /^job\.keys\.org: is missing/],
    ['units of no limit', { units: { opnai: '$.detail.tokens' } }, /^job\.units\.opnai: .*"openai"/],
    [
      'units of a limit of starts',
      { units: { starts: '$.detail.n' } },
      /^job\.units\.starts: names no limit/,
    ],
    ['too many tags', { tags: tags(40) }, /^job\.tags/],
  ])('%s', (_, job, refusal) => {
    expect(make(job)).toThrow(refusal);
  });

  it('and one with all that its type needs is not', () => {
    expect(make({ tags: tags(1), idempotencyKey: '$.detail.id' })).not.toThrow();
  });
});

describe('a rule that the outcomes of its own jobs match', () => {
  const warnings = (pattern: EventPattern, isOwnBus = true): number => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs', { fleets: { all: { types: ['resize', 'report'] } } });
    const bus = isOwnBus ? scheduler.bus : EventBus.fromEventBusName(stack, 'Theirs', 'default');
    scheduler.on(pattern, { type: 'resize' } as never, bus);
    return Annotations.fromStack(stack).findWarning('*', Match.stringLikeRegexp('may make another one'))
      .length;
  };

  it.each<readonly [string, EventPattern]>([
    ['names the scheduler', { source: ['fairlead'], detailType: ['Job Succeeded'] }],
    ['names no source', { detailType: CdkMatch.prefix('Job ') }],
    ['names its own type', { source: ['fairlead'], detail: { type: ['report', 'resize'] } }],
    ['takes every source but one', { source: CdkMatch.anythingBut('shop') }],
  ])('is warned of where it %s', (_, pattern) => {
    expect(warnings(pattern)).toBe(1);
    expect(warnings(pattern, false)).toBe(0);
  });

  it.each<readonly [string, EventPattern]>([
    ['events of another source', PATTERN],
    [
      'the outcomes of another type, as one step after another',
      { source: ['fairlead'], detail: { type: ['report'] } },
    ],
    ['other events of any source', { detailType: ['Order Placed'] }],
    ['every source but the scheduler', { source: CdkMatch.anythingBut('fairlead') }],
  ])('is none that takes %s', (_, pattern) => {
    expect(warnings(pattern)).toBe(0);
  });
});
