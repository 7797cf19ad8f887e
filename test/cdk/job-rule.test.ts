/** Events of a business become jobs: what the rule of the template sends is what the ingest function makes jobs of. */
import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { Key } from 'aws-cdk-lib/aws-kms';
import { describe, expect, it } from 'vitest';
import type { JobOfEvent } from '../../cdk/job-rule.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
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

function rulesOf(...jobs: readonly JobOfEvent[]) {
  const stack = emptyStack();
  const scheduler = new Scheduler(stack, 'Jobs', { fleets: { all: { types: ['resize'] } } });
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

async function deliver(job: JobOfEvent, detail: object, times = 1) {
  const [rule] = rulesOf(job);
  const [target] = (rule?.Properties.Targets ?? []) as readonly Target[];
  if (target === undefined) throw new Error('there is no target');
  const on = stage();
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
    };
    const { jobs, rejections } = await deliver(job, ORDER, 2);
    expect(rejections).toEqual([]);
    expect(jobs).toMatchObject([
      { type: 'resize', payload: [1, { a: '"quoted" <b>' }], fairnessKey: '42', resourceId: 'o-7' },
    ]);
    expect(jobs).toHaveLength(1);
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
