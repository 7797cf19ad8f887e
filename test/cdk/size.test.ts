/** The largest pool that is promised: what CloudFormation, IAM and Lambda accept of it. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { App, Stack } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import type { SchedulerProps } from '../../cdk/props.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import { at, emptyStack, listOf, type Resource, referred, resourcesOf, workerFunction } from './stacks.ts';

const FLEETS = 200;
const TYPES_OF_FLEET = 5;
const FLEETS_OF_STACK = 40;
const LIMITS = {
  resources: 500,
  /** What one stack exports for others. */
  outputs: 200,
  templateBytes: 1_000_000,
  environmentBytes: 4_096,
  /** That a role may have attached. */
  managedPolicies: 10,
};

function largest() {
  const stack = emptyStack();
  const app = App.of(stack) as App;
  const workers = Array.from(
    { length: FLEETS / FLEETS_OF_STACK },
    (_, number) => new Stack(app, `Workers${number}`),
  );
  const fleets = Object.fromEntries(
    Array.from({ length: FLEETS }, (_, fleet) => {
      const types = Array.from({ length: TYPES_OF_FLEET }, (_, type) => `type-${fleet}-${type}`);
      const own = workers[Math.floor(fleet / FLEETS_OF_STACK)] as Stack;
      return [`fleet-${fleet}`, { types, slots: 10, handler: workerFunction(own, `Worker${fleet}`) }];
    }),
  );
  const scheduler = new Scheduler(stack, 'Jobs', { fleets });
  return { stack, workers, scheduler };
}

describe('a pool of 200 fleets and 1,000 types, whose functions are in stacks of their own', () => {
  const { stack, workers, scheduler } = largest();
  // Where stacks need each other in a circle, this throws.
  const templates = [stack, ...workers].map((each) => Template.fromStack(each));
  const [own, ...ofWorkers] = templates as [Template, ...Template[]];

  it('is within what a stack may hold, and export', () => {
    expect(scheduler.configuration.types).toHaveLength(FLEETS * TYPES_OF_FLEET);
    for (const template of templates) {
      const { Resources = {}, Outputs = {} } = template.toJSON() as Record<string, Record<string, Resource>>;
      expect(Object.keys(Resources).length).toBeLessThan(LIMITS.resources);
      expect(Object.keys(Outputs).length).toBeLessThan(LIMITS.outputs);
      expect(JSON.stringify(template.toJSON()).length).toBeLessThan(LIMITS.templateBytes);
    }
  });

  it('costs two resources a fleet, and no export', () => {
    const { Resources, Outputs } = own.toJSON();
    expect(Object.keys(Resources).length - 2 * FLEETS).toBeLessThan(50);
    expect(Object.keys(Outputs).length).toBeLessThan(10);
  });

  it('has worker stacks that come after the scheduler, and none before it', () => {
    expect(stack.dependencies).toEqual([]);
    for (const each of workers) expect(each.dependencies).toEqual([stack]);
  });

  it('tells each function where everything is in a small part of its environment', () => {
    for (const template of templates) {
      for (const [, lambda] of resourcesOf(template, 'AWS::Lambda::Function')) {
        const variables = JSON.stringify(at(lambda.Properties, 'Environment', 'Variables'));
        expect(variables.length).toBeLessThan(LIMITS.environmentBytes / 4);
      }
    }
  });

  it('lets its dispatchers send to every queue with as many policies as a role may have', () => {
    const attached = resourcesOf(own, 'AWS::IAM::ManagedPolicy').flatMap(([, { Properties }]) =>
      listOf(Properties.Roles).map(referred),
    );
    const byRole = Map.groupBy(attached, (role) => role);
    expect(byRole.size).toBeGreaterThan(0);
    for (const [, policies] of byRole) expect(policies.length).toBeLessThan(LIMITS.managedPolicies);
  });

  it('gives each function the queue of its fleet', () => {
    const names = new Set(
      resourcesOf(own, 'AWS::SQS::Queue').flatMap(([, { Properties }]) => listOf(Properties.QueueName)),
    );
    expect(names.size).toBe(FLEETS);
    for (const name of names) expect(name).toMatch(/^[A-Za-z0-9-]{1,80}$/);
    const served = ofWorkers.flatMap((template) =>
      resourcesOf(template, 'AWS::Lambda::EventSourceMapping').map(([, { Properties }]) =>
        String(listOf(at(Properties.EventSourceArn, 'Fn::Join', 1)).at(-1)).replace(/^.*:/, ''),
      ),
    );
    expect(new Set(served)).toEqual(names);
  });
});

it('a stack holds 70 fleets with their worker functions, as the changelog says', () => {
  const stack = emptyStack();
  const entry = fileURLToPath(new URL('../integration/redeploy-workers.ts', import.meta.url));
  const fleets = Object.fromEntries(
    Array.from({ length: 70 }, (_, at) => [
      `fleet-${at}`,
      { types: [`type-${at}`], handler: new WorkerFunction(stack, `Work${at}`, { entry }) },
    ]),
  );
  new Scheduler(stack, 'Jobs', { fleets });
  expect(Object.keys(Template.fromStack(stack).toJSON().Resources).length).toBeLessThan(LIMITS.resources);
  expect(readFileSync('CHANGELOG.md', 'utf8')).toContain('70 together with their `WorkerFunction`s');
});

describe('a pool of ten types with a function each', () => {
  /** What is promised of a developer's machine; counted in its processor's time, which neighbours do not make longer. */
  const SYNTH_MS = 5_000;

  it('is synthesised within seconds, apart from bundling', () => {
    const before = process.cpuUsage();
    const stack = emptyStack();
    const fleets = Object.fromEntries(
      Array.from({ length: 10 }, (_, n) => [
        `fleet-${n}`,
        { types: [`type-${n}`], handler: workerFunction(stack, `Worker${n}`) },
      ]),
    );
    const scheduler = new Scheduler(stack, 'Jobs', { fleets });
    scheduler.alarms();
    scheduler.dashboard();
    const { Resources } = Template.fromStack(stack).toJSON();
    const { user, system } = process.cpuUsage(before);
    expect(Object.keys(Resources).length).toBeGreaterThan(60);
    expect(Math.round((user + system) / 1_000)).toBeLessThan(SYNTH_MS);
  });
});

describe('a declaration that is accepted', () => {
  /** Of an event by which CloudFormation invokes a function; beside the properties it has ids, and an address that is signed. */
  const [EVENT_BYTES, ENVELOPE_BYTES] = [256 * 1_024, 8 * 1_024];
  const text = (seed: number, length: number): string =>
    createHash('shake256', { outputLength: length })
      .update(String(seed))
      .digest('base64url')
      .slice(0, length);
  const propsOf = (weights: number, schedules: number): SchedulerProps => ({
    types: { report: {} },
    fairness: {
      weights: Object.fromEntries(Array.from({ length: weights }, (_, n) => [text(n, 48), n + 1])),
    },
    schedules: Object.fromEntries(
      Array.from({ length: schedules }, (_, n) => [
        `schedule-${n}`,
        { every: '1h', type: 'report', payload: text(n, 300) },
      ]),
    ),
  });

  it.each([
    [10, 0],
    [2_000, 0],
    [2_000, 200],
    [10_000, 0],
  ])(
    'can be changed: its old text fits into an event with the new one (%d weights, %d schedules)',
    (weights, schedules) => {
      const stack = emptyStack();
      let made: Template;
      try {
        new Scheduler(stack, 'Jobs', propsOf(weights, schedules));
        made = Template.fromStack(stack);
      } catch (error) {
        expect(String(error)).toMatch(/is too large for a deployment, which can send at most 120000 bytes/);
        return;
      }
      const properties = resourcesOf(made, 'Custom::FairleadDeclaration').map(
        ([, { Properties }]) => Properties,
      );
      expect(2 * Buffer.byteLength(JSON.stringify(properties)) + ENVELOPE_BYTES).toBeLessThan(EVENT_BYTES);
    },
  );
});

describe('metrics that cost by the number of names', () => {
  const warningsOf = (types: number, ask: (made: Scheduler) => void): readonly string[] => {
    const stack = emptyStack();
    const names = Array.from({ length: types }, (_, n) => `type-${n}`);
    const made = new Scheduler(stack, 'Jobs', { fleets: { all: { types: names } } });
    ask(made);
    return Annotations.fromStack(stack)
      .findWarning('*', Match.stringLikeRegexp('Metrics are written by'))
      .map(({ entry }) => String(entry.data));
  };

  it.each<readonly [string, (made: Scheduler) => unknown]>([
    ['the dashboard', (made) => made.dashboard()],
    ['a metric by type', (made) => made.metricRunning({ type: 'type-0' })],
  ])('are said at synth, with what they cost, where %s wants them of many types', (_, ask) => {
    expect(warningsOf(1_000, ask)).toEqual([
      expect.stringMatching(/CloudWatch bills up to \$2100 a month for 1000 types.*fairlead:metrics-by-type/),
    ]);
    expect(warningsOf(20, ask)).toEqual([]);
  });

  it('are not said where nobody wants them', () => {
    expect(warningsOf(1_000, (made) => made.alarms())).toEqual([]);
  });
});

describe('the names of fleets’ queues', () => {
  const nameOf = (stackName: string, fleet: string): unknown => {
    const app = App.of(emptyStack()) as App;
    const stack = new Stack(app, 'Own', { stackName });
    const handler = workerFunction(new Stack(app, 'Other'), 'Worker');
    new Scheduler(stack, 'Jobs', { fleets: { [fleet]: { types: ['a'], handler } } });
    const names = resourcesOf(Template.fromStack(stack), 'AWS::SQS::Queue').flatMap(([, { Properties }]) =>
      listOf(Properties.QueueName),
    );
    expect(names).toHaveLength(1);
    return names[0];
  };

  it('are others for another stack of the same app, or a fleet that differs by its signs', () => {
    const names = [
      nameOf('one', 'a.b'),
      nameOf('two', 'a.b'),
      nameOf('one', 'a-b'),
      nameOf('one', `${'x'.repeat(99)}1`),
      nameOf('one', `${'x'.repeat(99)}2`),
    ];
    expect(new Set(names).size).toBe(names.length);
    expect(nameOf('one', 'a.b')).toBe(names[0]);
    for (const name of names) expect(name).toMatch(/^[A-Za-z0-9-]{1,80}$/);
  });
});
