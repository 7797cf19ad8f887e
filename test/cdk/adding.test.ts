/** What a scheduler does that was told nothing, or that is told in several steps; and what TypeScript sees of it. */

import { fileURLToPath } from 'node:url';
import { App, Duration, NestedStack, Stack, Tags } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { AccountRootPrincipal, Role } from 'aws-cdk-lib/aws-iam';
import {
  Alias,
  Code,
  type IFunction,
  type IVersion,
  Function as LambdaFunction,
  Runtime,
  SingletonFunction,
  type Version,
} from 'aws-cdk-lib/aws-lambda';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import { decodeConfiguration } from '../../lib/declaration/codec.ts';
import { at, emptyStack, listOf, referred, resourcesOf, workerFunction } from './stacks.ts';

/** What the deployment would declare. */
function declaredIn(stack: Stack): { readonly fleets: readonly string[]; readonly types: readonly string[] } {
  const [[, declared] = []] = resourcesOf(Template.fromStack(stack), 'Custom::FairleadDeclaration');
  const { fleets, types } = decodeConfiguration(String(at(declared, 'Properties', 'pool')));
  const urls = at(declared, 'Properties', 'queueUrls') as object;
  expect(Object.keys(urls)).toEqual(fleets.map(({ fleet }) => fleet));
  return { fleets: fleets.map(({ fleet }) => fleet), types: types.map(({ type }) => type) };
}

describe('a scheduler that was told nothing', () => {
  it('deploys one type and its fleet, which processes may serve', () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs');
    expect(declaredIn(stack)).toEqual({ fleets: ['default'], types: ['default'] });
    expect(Object.keys(scheduler.fleets)).toEqual(['default']);
    expect(scheduler.workerEnvironment('default')).toHaveProperty('FAIRLEAD_FLEET', 'default');
  });

  it('takes a handler for its one type later', () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs');
    const fleet = scheduler.addFleet('default', {
      types: ['default'],
      handler: workerFunction(stack, 'Work'),
    });
    expect(fleet.slots).toBe(10);
    expect(declaredIn(stack)).toEqual({ fleets: ['default'], types: ['default'] });
  });

  it('takes types and fleets later, and then has no other', () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs')
      .addJobType('render', { maxConcurrency: 3 })
      .addJobType('index');
    scheduler.addFleet('gpu', { types: ['render'] });
    expect(declaredIn(stack)).toEqual({ fleets: ['gpu', 'index'], types: ['render', 'index'] });
  });
});

describe('what is added later', () => {
  it('changes nothing when it is refused', () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs', {
      types: { render: {} },
      fleets: { gpu: { types: ['render'] } },
    });
    const before = scheduler.configuration;
    const misspelt = (): unknown => scheduler.addFleet('more', { types: ['rendre' as 'render'] });
    expect(misspelt).toThrow(
      /^fleets\.more\.types\[0\]: names no declared type \(render\), got "rendre"\. Did you mean "render"\?/,
    );
    expect(() => scheduler.addFleet('gpu', { types: ['render'] })).toThrow(
      /^fleets\.gpu: is already declared/,
    );
    expect(() => scheduler.addJobType('render')).toThrow(/^types\.render: is already declared/);
    expect(scheduler.configuration).toBe(before);
    expect(scheduler.node.findChild('Fleets').node.children.map(({ node }) => node.id)).toEqual(['gpu']);
  });

  it('is part of what was granted before', () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs');
    const { queue } = scheduler.addFleet('late', { types: ['a'] });
    const template = Template.fromStack(stack);
    const reachable = (role: string, action: string): readonly unknown[] =>
      resourcesOf(template, 'AWS::IAM::Policy')
        .filter(([, { Properties }]) =>
          listOf(Properties.Roles).some((each) => referred(each)?.startsWith(role)),
        )
        .flatMap(([, { Properties }]) => listOf(at(Properties, 'PolicyDocument', 'Statement')))
        .filter((statement) => listOf(at(statement, 'Action')).includes(action))
        .flatMap((statement) => listOf(at(statement, 'Resource')).map(referred));
    const idOf = (of: typeof queue): string => stack.getLogicalId(of.node.defaultChild as never);
    expect(reachable('JobsDispatchFunctionRole', 'sqs:SendMessage')).toContain(idOf(queue));
  });

  it('has the tags of the scheduler and of its app, also where nobody named its fleet', () => {
    const stack = emptyStack();
    Tags.of(stack).add('team', 'print');
    new Scheduler(stack, 'Jobs', { types: { lonely: {} }, tags: { cost: '42' } });
    const queues = resourcesOf(Template.fromStack(stack), 'AWS::SQS::Queue');
    const lonely = queues.find(([id]) => id.includes('lonely'))?.[1].Properties.Tags;
    expect(lonely).toEqual([
      { Key: 'cost', Value: '42' },
      { Key: 'team', Value: 'print' },
    ]);
  });

  it('of a type that a look at the fleets has given one, another fleet may take too', () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs', { types: { render: {} } });
    expect(Object.keys(scheduler.fleets)).toEqual(['render']);
    scheduler.addFleet('gpu', { types: ['render'] });
    expect(declaredIn(stack).fleets).toEqual(['render', 'gpu']);
  });

  it('is checked by TypeScript against the types that are declared', () => {
    const stack = emptyStack();
    const typed = new Scheduler(stack, 'Typed', { types: { render: {}, index: {} } });
    expectTypeOf(typed.addFleet)
      .parameter(1)
      .toHaveProperty('types')
      .toEqualTypeOf<readonly ('render' | 'index')[]>();
    const wider = typed.addJobType('train');
    expectTypeOf(wider).toEqualTypeOf<Scheduler<'render' | 'index' | 'train'>>();
    const open = new Scheduler(stack, 'Open');
    expectTypeOf(open).toEqualTypeOf<Scheduler<string>>();
    const attempt = (): unknown =>
      new Scheduler(stack, 'Wrong', {
        types: { render: {} },
        // @ts-expect-error no declared type
        fleets: { gpu: { types: ['rendre'] } },
      });
    expect(attempt).toThrow(/Did you mean "render"/);
  });
});

describe('handlers', () => {
  const mappingTo = (template: Template): unknown =>
    resourcesOf(template, 'AWS::Lambda::EventSourceMapping').find(
      ([id]) => id.includes('gpu') || id.includes('Gpu'),
    )?.[1].Properties.FunctionName;
  const variablesOf = (template: Template, id: string): unknown =>
    resourcesOf(template, 'AWS::Lambda::Function').find(([each]) => each.startsWith(id))?.[1].Properties
      .Environment;

  it('may be a function of this app, or an alias or a version of one, whose function is told whom it works for', () => {
    const kinds: readonly ((stack: Stack) => IFunction | Alias | Version)[] = [
      (stack) => workerFunction(stack, 'Gpu'),
      (stack) =>
        new Alias(stack, 'GpuLive', {
          aliasName: 'live',
          version: workerFunction(stack, 'Gpu').currentVersion as IVersion,
        }),
      (stack) => workerFunction(stack, 'Gpu').currentVersion,
      // The function itself is a child of the stack, and may stand behind several such constructs.
      (stack) =>
        new SingletonFunction(stack, 'Shared', {
          uuid: 'gpu',
          lambdaPurpose: 'Gpu',
          runtime: Runtime.NODEJS_24_X,
          handler: 'index.handler',
          code: Code.fromInline('exports.handler = async () => {}'),
          timeout: Duration.seconds(30),
        }) as IFunction,
    ];
    const targets = kinds.map((handlerIn) => {
      const stack = emptyStack();
      new Scheduler(stack, 'Jobs', { fleets: { gpu: { types: ['render'], handler: handlerIn(stack) } } });
      const template = Template.fromStack(stack);
      expect(at(variablesOf(template, 'Gpu'), 'Variables', 'FAIRLEAD_FLEET')).toBe('gpu');
      // The time that jobs may take is that of the function behind it: 30 s, less a tenth.
      const [[, declared] = []] = resourcesOf(template, 'Custom::FairleadDeclaration');
      expect(decodeConfiguration(String(at(declared, 'Properties', 'pool'))).types[0]?.timeoutMs).toBe(
        27_000,
      );
      return JSON.stringify(mappingTo(template));
    });
    expect(targets[0]).toMatch(/"Gpu[0-9A-F]{8}"/);
    expect(targets[1]).toMatch(/"GpuLive/);
    expect(targets[2]).toMatch(/"GpuCurrentVersion/);
    expect(targets[3]).toMatch(/"Gpugpu[0-9A-F]{8}"/);
  });

  it('may stand in a stack that is nested in the scheduler’s', () => {
    const stack = emptyStack();
    const nested = new NestedStack(stack, 'Work');
    const scheduler = new Scheduler(stack, 'Jobs', {
      fleets: { gpu: { types: ['render'], handler: workerFunction(nested, 'Gpu') } },
    });
    scheduler.alarms();
    const template = Template.fromStack(nested);
    expect(resourcesOf(template, 'AWS::Lambda::EventSourceMapping')).toHaveLength(1);
    expect(at(variablesOf(template, 'Gpu'), 'Variables', 'FAIRLEAD_FLEET')).toBe('gpu');
    // CloudFormation names the queue, so another one may take its place.
    for (const [, { Properties }] of resourcesOf(Template.fromStack(stack), 'AWS::SQS::Queue'))
      expect(Properties).not.toHaveProperty('QueueName');
  });

  it('of another app may be one whose timeout is said, and whose owner is told what it needs', () => {
    const stack = emptyStack();
    const handler = LambdaFunction.fromFunctionAttributes(stack, 'Theirs', {
      functionArn: 'arn:aws:lambda:us-east-1:111122223333:function:theirs',
      sameEnvironment: true,
    });
    new Scheduler(stack, 'Jobs', {
      fleets: { gpu: { types: ['render'], handler, handlerTimeout: '10m' } },
    });
    Annotations.fromStack(stack).hasWarning(
      '/Test/Theirs',
      Match.stringLikeRegexp(
        'fleet gpu is not created in this app.*FAIRLEAD_TABLE, FAIRLEAD_FLEET, FAIRLEAD_WAKE_QUEUE',
      ),
    );
  });

  it('of which nobody said how long they may run are warned of', () => {
    const stack = emptyStack();
    const silent = new LambdaFunction(stack, 'Silent', {
      runtime: Runtime.NODEJS_24_X,
      handler: 'index.handler',
      code: Code.fromInline('exports.handler = async () => {}'),
    });
    new Scheduler(stack, 'Jobs', {
      types: { short: {}, said: { timeoutMs: 1_000 } },
      fleets: { gpu: { types: ['short', 'said'], handler: silent } },
    });
    const warnings = Annotations.fromStack(stack).findWarning('/Test/Jobs', Match.anyValue());
    expect(warnings.map(({ entry }) => entry.data)).toEqual([
      expect.stringMatching(
        /^A job of type short may take 2000 ms: the function of fleet gpu has no timeout/,
      ),
    ]);
  });

  it.each<readonly [number, object, number]>([
    [10, {}, 1],
    [40, {}, 0],
    [10, { maxConcurrency: 10 }, 0],
    [5, { maxConcurrency: 10 }, 1],
  ])('with %d reserved executions for 40 slots and %j give %d warnings', (reserved, more, expected) => {
    const stack = emptyStack();
    const handler = new LambdaFunction(stack, 'Reserved', {
      runtime: Runtime.NODEJS_24_X,
      handler: 'index.handler',
      code: Code.fromInline('exports.handler = async () => {}'),
      timeout: Duration.minutes(1),
      reservedConcurrentExecutions: reserved,
    });
    new Scheduler(stack, 'Jobs', { fleets: { gpu: { types: ['a'], slots: 40, handler, ...more } } });
    const warnings = Annotations.fromStack(stack).findWarning(
      '/Test/Reserved',
      Match.stringLikeRegexp(`reserved concurrency of ${reserved}, and its event source may invoke it`),
    );
    expect(warnings).toHaveLength(expected);
  });

  it('run jobs alone: a process that may receive their messages too is a warning', () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs', {
      fleets: { gpu: { types: ['a'], handler: workerFunction(stack, 'Gpu') }, cpu: { types: ['b'] } },
    });
    const person = new Role(stack, 'Process', { assumedBy: new AccountRootPrincipal() });
    for (const fleet of ['gpu', 'cpu']) scheduler.grants.work(person, fleet);
    const warnings = Annotations.fromStack(stack).findWarning(
      '*',
      Match.stringLikeRegexp('grants.work lets'),
    );
    expect(warnings.map(({ id }) => id)).toEqual(['/Test/Jobs/Fleets/gpu']);
  });

  it('that processes serve say in one line how long jobs may take, however many there are', () => {
    const stack = emptyStack();
    const fleets = Object.fromEntries(
      Array.from({ length: 30 }, (_, at) => [`f${at}`, { types: [`t${at}`] }]),
    );
    new Scheduler(stack, 'Jobs', { fleets });
    const lines = Annotations.fromStack(stack).findInfo('*', Match.anyValue());
    expect(lines.map(({ entry }) => entry.data)).toEqual([
      expect.stringMatching(
        /^Jobs of these types may take 870000 ms.*: t0, .*, t19 and 10 more\. Declare timeoutMs/,
      ),
    ]);
  });

  it('with pollers of their own are bounded by the fleet’s slots', () => {
    const stack = emptyStack();
    new Scheduler(stack, 'Jobs', {
      fleets: {
        gpu: {
          types: ['a'],
          slots: 50,
          handler: workerFunction(stack, 'Gpu'),
          provisionedPollers: { minimumPollers: 3, maximumPollers: 20 },
        },
      },
    });
    Template.fromStack(stack).hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      ProvisionedPollerConfig: { MinimumPollers: 3, MaximumPollers: 20 },
      ScalingConfig: Match.absent(),
    });
  });
});

describe('a worker function', () => {
  const entry = fileURLToPath(new URL('../integration/redeploy-workers.ts', import.meta.url));

  it('has a runtime, a timeout, memory and logs that suit jobs, and no warning, also without the feature flags of cdk init', () => {
    const stack = new Stack(new App({ context: { 'aws:cdk:bundling-stacks': [] } }), 'Plain');
    const handler = new WorkerFunction(stack, 'Work', { entry });
    const scheduler = new Scheduler(stack, 'Jobs', { fleets: { all: { types: ['a'], handler } } });
    expect(scheduler.configuration.types[0]?.timeoutMs).toBe(270_000);
    const template = Template.fromStack(stack);
    const [, work] =
      resourcesOf(template, 'AWS::Lambda::Function').find(([id]) => id.startsWith('Work')) ?? [];
    expect(work?.Properties).toMatchObject({
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      MemorySize: 1_024,
      Timeout: 300,
      LoggingConfig: { LogFormat: 'JSON', SystemLogLevel: 'WARN' },
      Environment: { Variables: { NODE_OPTIONS: '--enable-source-maps', FAIRLEAD_FLEET: 'all' } },
    });
    Annotations.fromStack(stack).hasNoWarning('*', Match.stringLikeRegexp('fairlead|may take'));
  });

  it('is what it is told to be where it is told', () => {
    const stack = emptyStack();
    new WorkerFunction(stack, 'Work', {
      entry,
      timeout: Duration.minutes(1),
      memorySize: 256,
      environment: { STAGE: 'test' },
    });
    Template.fromStack(stack).hasResourceProperties('AWS::Lambda::Function', {
      MemorySize: 256,
      Timeout: 60,
      Environment: { Variables: { STAGE: 'test', NODE_OPTIONS: '--enable-source-maps' } },
    });
  });
});
