/** A stack that keeps its name is the same stack to a deployment: nothing of it is made anew when its id changes, or its place. */
import { App, NestedStack, Stack, Stage } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import type { Construct } from 'constructs';
import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../cdk/scheduler.ts';
import { outputFolder, type Resource, workerFunction } from './stacks.ts';

const SYNTH_MS = 60_000;

type Place = (app: App) => { readonly scope: Construct; readonly id: string };

/** Where the id is the name, as it is unless somebody says otherwise. */
const BY_ITS_NAME: Place = (scope) => ({ scope, id: 'Orders' });

const PLACES: Readonly<Record<string, Place>> = {
  'under another id': (scope) => ({ scope, id: 'Renamed' }),
  'in a stage': (app) => ({ scope: new Stage(app, 'Prod'), id: 'Orders' }),
};

/** Makes a scheduler and its handlers; answers all stacks whose templates count. */
type Arrange = (stack: Stack, another: () => Stack) => readonly Stack[];

const ARRANGEMENTS: Readonly<Record<string, Arrange>> = {
  'with handlers in it': (stack) => {
    new Scheduler(stack, 'Jobs', {
      fleets: { gpu: { types: ['a'], handler: workerFunction(stack, 'Gpu') } },
    });
    return [stack];
  },
  'with handlers in another stack': (stack, another) => {
    const other = another();
    new Scheduler(stack, 'Jobs', {
      fleets: { gpu: { types: ['a'], handler: workerFunction(other, 'Gpu') } },
    });
    return [stack, other];
  },
  'with handlers in a nested stack': (stack) => {
    const nested = new NestedStack(stack, 'Work');
    new Scheduler(stack, 'Jobs', {
      fleets: { gpu: { types: ['a'], handler: workerFunction(nested, 'Gpu') } },
    });
    return [stack, nested];
  },
  'in a nested stack': (stack) => {
    const nested = new NestedStack(stack, 'Work');
    new Scheduler(nested, 'Jobs', {
      fleets: { gpu: { types: ['a'], handler: workerFunction(nested, 'Gpu') } },
    });
    return [stack, nested];
  },
};

/** What a deployment goes by: logical ids with their types, and physical names. A permission may be made anew, beside the former one. */
function identities(place: Place, arrange: Arrange): unknown {
  const app = new App({
    context: { 'aws:cdk:bundling-stacks': [] },
    analyticsReporting: false,
    outdir: outputFolder(),
  });
  const { scope, id } = place(app);
  const stacks = arrange(
    new Stack(scope, id, { stackName: 'Orders' }),
    () => new Stack(scope, `${id}Workers`, { stackName: 'Workers' }),
  );
  return stacks.map((stack) => {
    const { Resources, Outputs = {} } = Template.fromStack(stack).toJSON() as {
      readonly Resources: Readonly<Record<string, Resource>>;
      readonly Outputs?: Readonly<Record<string, unknown>>;
    };
    const kept = Object.entries(Resources).filter(([, { Type }]) => Type !== 'AWS::Lambda::Permission');
    return {
      resources: kept.map(([logicalId, { Type, Properties = {} }]) => [
        logicalId,
        Type,
        Properties.QueueName,
        Type === 'AWS::Events::EventBus' ? Properties.Name : undefined,
      ]),
      outputs: Object.keys(Outputs).toSorted(),
    };
  });
}

describe.each(Object.entries(ARRANGEMENTS))('a scheduler %s', { timeout: SYNTH_MS }, (_, arrange) => {
  it.each(Object.entries(PLACES))('is the same %s', (_where, place) => {
    expect(identities(place, arrange)).toEqual(identities(BY_ITS_NAME, arrange));
  });
});
