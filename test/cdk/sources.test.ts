/** Schedulers that share a bus, and how each is found by those that it takes requests from. */

import { App, NestedStack, Stack, Stage } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import type { Construct } from 'constructs';
import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../cdk/scheduler.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import { at, emptyStack, listOf, resourcesOf } from './stacks.ts';

/** The first synthesis of a process loads much of the CDK. */
const SYNTH_MS = 120_000;

const sharedBus = (stack: Stack, id = 'Shared'): IEventBus => new EventBus(stack, id) as IEventBus;

/** Of each rule that takes requests, in the order of the schedulers. */
const takenSources = (stack: Stack): readonly unknown[] =>
  resourcesOf(Template.fromStack(stack), 'AWS::Events::Rule')
    .map(([, { Properties }]) => at(Properties, 'EventPattern'))
    .filter((pattern) => pattern !== undefined)
    .map((pattern) => at(pattern, 'source'));

const refusalOf = (make: () => unknown): ConfigurationError => {
  try {
    make();
  } catch (error) {
    if (error instanceof ConfigurationError) return error;
    throw error;
  }
  throw new Error('it was not refused');
};

describe('schedulers of one bus', { timeout: SYNTH_MS }, () => {
  it('take the requests of their own sources, and of nobody else', () => {
    const stack = emptyStack();
    const eventBus = sharedBus(stack);
    new Scheduler(stack, 'Print', { eventBus, sources: ['orders', 'invoices'] });
    new Scheduler(stack, 'Mail', { eventBus, sources: ['letters'] });
    expect(takenSources(stack)).toEqual([['orders', 'invoices'], ['letters']]);
  });

  it('that says nothing of sources takes everybody’s', () => {
    const stack = emptyStack();
    new Scheduler(stack, 'Print', { eventBus: sharedBus(stack) });
    expect(takenSources(stack)).toEqual([undefined]);
  });

  it.each<readonly [string, string[] | undefined, string[] | undefined, string, string | undefined]>([
    ['say nothing of them', undefined, undefined, 'sources', undefined],
    ['are both told of one', ['orders', 'bills'], ['letters', 'bills'], 'sources[1]', 'bills'],
    ['take everybody’s beside one that takes some', ['orders'], undefined, 'sources', undefined],
    ['take some beside one that takes everybody’s', undefined, ['orders'], 'sources[0]', 'orders'],
  ])('are refused where they %s: both would run every job', (_, first, second, prop, value) => {
    const stack = emptyStack();
    const eventBus = sharedBus(stack);
    const withSources = (sources: string[] | undefined) => (sources === undefined ? {} : { sources });
    new Scheduler(stack, 'Print', { eventBus, ...withSources(first) });
    const refusal = refusalOf(() => new Scheduler(stack, 'Mail', { eventBus, ...withSources(second) }));
    expect(refusal.message).toContain(`${prop}: is accepted from the same bus by Test/Print`);
    if (value !== undefined) expect(refusal.message).toContain(`"${value}"`);
  });

  it('are found out also where the bus is only referred to, twice', () => {
    const stack = emptyStack();
    const referred = (id: string): IEventBus => EventBus.fromEventBusName(stack, id, 'orders');
    new Scheduler(stack, 'Print', { eventBus: referred('One') });
    const refusal = refusalOf(() => new Scheduler(stack, 'Mail', { eventBus: referred('Two') }));
    expect(refusal.message).toContain('Test/Print');
  });

  it('are found out also where the bus belongs to one of them', () => {
    const stack = emptyStack();
    const owner = new Scheduler(stack, 'Print', { sources: ['orders'] });
    const make = (id: string, source: string) => () =>
      new Scheduler(stack, id, { eventBus: owner.bus, sources: [source] });
    expect(refusalOf(make('Mail', 'orders')).message).toContain('Test/Print');
    expect(make('Post', 'letters')).not.toThrow();
  });

  it('are found out across the stacks of an app', () => {
    const stack = emptyStack();
    const other = new Stack(App.of(stack) as App, 'Other');
    const eventBus = sharedBus(stack);
    new Scheduler(stack, 'Jobs', { eventBus });
    expect(refusalOf(() => new Scheduler(other, 'Jobs', { eventBus })).message).toContain('Test/Jobs');
  });

  it('are found in two stacks of one place, where each refers to the bus by its name', () => {
    const app = new App();
    const inStack = (id: string, props: object, name = 'default'): Scheduler => {
      const stack = new Stack(app, id, props);
      return new Scheduler(stack, 'Jobs', {
        eventBus: EventBus.fromEventBusName(stack, 'Bus', name) as IEventBus,
      });
    };
    const here = { env: { account: '111111111111', region: 'eu-west-1' } };
    inStack('One', here);
    expect(refusalOf(() => inStack('Two', here)).message).toContain('One/Jobs');
    inStack('Other', here, 'another');
    inStack('There', { env: { ...here.env, region: 'us-east-1' } });
    inStack('Anywhere', {});
    expect(refusalOf(() => inStack('AlsoAnywhere', {})).message).toContain('Anywhere/Jobs');
  });

  it('cannot be told of a source without a name', () => {
    expect(refusalOf(() => new Scheduler(emptyStack(), 'Jobs', { sources: ['orders', ''] })).message).toMatch(
      /^sources\[1\]: cannot be the source of an event/,
    );
  });

  it('of another bus, or of another app, are none of them', () => {
    for (const stack of [emptyStack(), emptyStack()]) {
      new Scheduler(stack, 'Print', { eventBus: sharedBus(stack) });
      new Scheduler(stack, 'Mail', { eventBus: sharedBus(stack, 'Another') });
      new Scheduler(stack, 'Own', { sources: ['orders'] });
      expect(takenSources(stack)).toEqual([undefined, undefined, ['orders']]);
    }
  });
});

describe('the name of a scheduler’s own bus', { timeout: SYNTH_MS }, () => {
  const nameIn = (stack: Stack): unknown => {
    const [[, bus] = []] = resourcesOf(Template.fromStack(stack), 'AWS::Events::EventBus');
    return at(bus, 'Properties', 'Name');
  };

  it('is another one in another stack of the same account, also under the same id', () => {
    const names = ['one', 'two', 'x'.repeat(128)].map((stackName) => {
      const stack = new Stack(App.of(emptyStack()) as App, 'Orders', { stackName });
      new Scheduler(stack, 'Jobs');
      return nameIn(stack);
    });
    expect(new Set(names).size).toBe(3);
    for (const name of names) expect(name).toMatch(/^[/.\-_A-Za-z0-9]{1,256}$/);
  });

  it('is the same in another synthesis: a deployment that changes nothing keeps the bus', () => {
    const make = (): unknown => {
      const stack = emptyStack();
      new Scheduler(stack, 'Jobs');
      return nameIn(stack);
    };
    expect(make()).toBe(make());
  });

  it('stays as it is when its stack keeps its name, and gets another id or a stage', () => {
    const named = (scope: Construct, id: string): unknown => {
      const stack = new Stack(scope, id, { stackName: 'Orders' });
      new Scheduler(stack, 'Jobs');
      return nameIn(stack);
    };
    const app = (): App => App.of(emptyStack()) as App;
    const name = named(app(), 'Orders');
    expect(name).toMatch(/^Orders-Jobs-[0-9a-f]{16}$/);
    expect(named(app(), 'OrdersAnew')).toBe(name);
    expect(named(new Stage(app(), 'Beta'), 'Orders')).toBe(name);
  });

  it('of a nested stack, whose name nobody knows yet, is told apart by its id', () => {
    const nested = new NestedStack(emptyStack(), 'Nested');
    new Scheduler(nested, 'Jobs');
    const parts = listOf(at(nameIn(nested), 'Fn::Join', 1));
    expect(parts[0]).toMatch(/^Test-Nested-Jobs-[0-9a-f]{16}$/);
    expect(parts[1]).toEqual({ 'Fn::Select': [2, { 'Fn::Split': ['/', { Ref: 'AWS::StackId' }] }] });
  });
});
