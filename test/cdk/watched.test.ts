/** What CloudWatch is asked about a scheduler: a metric by every name, alarms that ring for what is wrong, a dashboard of it all. */
import { readFileSync } from 'node:fs';
import { type App, Aspects, Duration, Stack } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { AutoScalingGroup } from 'aws-cdk-lib/aws-autoscaling';
import type { Metric } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { InstanceType, type IVpc, MachineImage, Vpc } from 'aws-cdk-lib/aws-ec2';
import {
  Cluster,
  ContainerImage,
  FargateService,
  FargateTaskDefinition,
  type ICluster,
  type ScalableTaskCount,
} from 'aws-cdk-lib/aws-ecs';
import { type ITopic, Topic } from 'aws-cdk-lib/aws-sns';
import { describe, expect, it } from 'vitest';
import type { AlarmsProps } from '../../cdk/alarms.ts';
import type { DashboardProps } from '../../cdk/dashboard.ts';
import type { MetricName, SchedulerMetricOptions } from '../../cdk/metrics.ts';
import type { ScaleProps } from '../../cdk/scaling.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { MetricCollector } from '../../lib/metrics/collector.ts';
import { METRIC_DIMENSION, METRICS, METRICS_NAMESPACE, type MetricScope } from '../../lib/metrics/names.ts';
import { askedMetricsOf } from '../../lib/runtime/emf.ts';
import {
  at,
  emptyStack,
  listOf,
  referred,
  resourcesOf,
  type Synthesized,
  synthesize,
  workerFunction,
} from './stacks.ts';

/** The first synthesis of a process loads much of the CDK. */
const SYNTH_MS = 120_000;

/** Dollars, as CloudWatch lists it. */
const ALARM_METRIC_MONTH = 0.1;

const NAMES = Object.keys(METRICS) as MetricName[];
const SCOPES = ['type', 'tier', 'fleet', 'partition'] as const satisfies readonly MetricScope[];
const NARROWED = { type: 'index', tier: 'default', fleet: 'gpu', partition: 3 } as const;

type Told = (options?: SchedulerMetricOptions) => Metric;
/** `metricSubmitted` of `submitted`. */
const methodOf = (scheduler: Scheduler, name: MetricName): Told => {
  const method: unknown = Reflect.get(scheduler, `metric${name.charAt(0).toUpperCase()}${name.slice(1)}`);
  if (typeof method !== 'function') throw new Error(`there is no method for ${name}`);
  return method.bind(scheduler) as Told;
};

/** Of every function that works for the scheduler; the one that declares tells nothing. */
const environmentsOf = ({ template }: Synthesized): readonly Readonly<Record<string, string>>[] =>
  resourcesOf(template, 'AWS::Lambda::Function')
    .filter(([id]) => !id.includes('Declar'))
    .map(([, { Properties }]) => at(Properties, 'Environment', 'Variables') as Record<string, string>)
    .filter((variables) => variables?.FAIRLEAD_TABLE !== undefined);

/** As CloudWatch would get it; what is known only when it is deployed stands as ${…}. */
const bodyOf = ({ template }: Synthesized): string => {
  const [[, dashboard] = []] = resourcesOf(template, 'AWS::CloudWatch::Dashboard');
  return listOf(at(dashboard, 'Properties', 'DashboardBody', 'Fn::Join', 1))
    .map((part) => (typeof part === 'string' ? part : `\${${referred(part) ?? 'Aws'}}`))
    .join('');
};
const widgetsOf = (body: string): readonly unknown[] =>
  listOf((JSON.parse(body) as { readonly widgets: unknown }).widgets);

describe('alarms and the dashboard', { timeout: SYNTH_MS }, () => {
  it.each([
    [{ failedPercent: Number.NaN }, /^failedPercent: must be above 0 and at most 100, got NaN/],
    [{ failedPercent: 500 }, /^failedPercent: must be above 0 and at most 100, got 500/],
    [{ oldestPending: Duration.seconds(0) }, /^oldestPending: must be whole seconds, at least 1 second/],
    [{ oldestPending: Duration.millis(1_500) }, /^oldestPending: must be whole seconds, .*500 millis/],
    [{ oldestPending: 900 }, /^oldestPending: must be whole seconds, .*900 millis/],
    [{ lag: Duration.millis(0) }, /^lag: must be whole seconds/],
    [{ lag: '2 minutes' }, /^lag: must be a duration, got "2 minutes"/],
    [{ failedPercent: '5' } as unknown as AlarmsProps, /^failedPercent: must be above 0.*got "5"/],
    [{ actions: 'pager' } as unknown as AlarmsProps, /^actions: must be a list/],
    [{ actions: ['pager'] } as unknown as AlarmsProps, /^actions\[0\]: must be an action of an alarm/],
    [
      { failedPrecent: 5 } as AlarmsProps,
      /^failedPrecent: is not a known field.*Did you mean "failedPercent"/,
    ],
  ])('refuse %j, by which they would ring always or never', (props, message) => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs');
    expect(() => scheduler.alarms(props)).toThrow(message);
    expect(scheduler.node.tryFindChild('Alarms')).toBeUndefined();
  });

  it.each([
    [{ dashboardName: 'my jobs' }, /^dashboardName: must be 1 to 255 letters.*got "my jobs"/],
    [{ dashboardName: '' }, /^dashboardName: /],
    [{ past: Duration.seconds(0) }, /^past: must be whole seconds, at least 1 minute/],
    [{ past: true } as unknown as DashboardProps, /^past: must be a duration/],
    [{ pst: Duration.hours(1) } as DashboardProps, /^pst: is not a known field.*Did you mean "past"/],
  ])('draw nothing for %j', (props, message) => {
    const scheduler = new Scheduler(emptyStack(), 'Jobs');
    expect(() => scheduler.dashboard(props)).toThrow(message);
    expect(scheduler.node.tryFindChild('Dashboard')).toBeUndefined();
  });

  it('are made once', () => {
    const twice = new Scheduler(emptyStack(), 'Jobs');
    twice.alarms();
    twice.dashboard();
    expect(() => twice.alarms()).toThrow(/^alarms\(\): was already called/);
    expect(() => twice.dashboard()).toThrow(/^dashboard\(\): was already called/);
  });
});

describe('metrics', { timeout: SYNTH_MS }, () => {
  const { scheduler, stack } = synthesize();

  it.each(NAMES)('%s has a method, which names what the functions tell', (name) => {
    const metric = methodOf(scheduler, name)();
    const { name: metricName, statistic } = METRICS[name];
    expect(metric).toMatchObject({ namespace: 'Fairlead', metricName, statistic });
    expect(metric.period.toSeconds()).toBe(60);
    expect(stack.resolve(metric.dimensions)).toEqual({ Scheduler: stack.resolve(scheduler.tableName) });
  });

  it.each(NAMES.flatMap((name) => SCOPES.map((scope) => [name, scope] as const)))(
    '%s by %s is asked for only where it is told so',
    (name, scope) => {
      const options = { [scope]: NARROWED[scope] };
      const by: readonly MetricScope[] = METRICS[name].by;
      if (!by.includes(scope)) {
        expect(() => methodOf(scheduler, name)(options)).toThrow(
          new RegExp(`^${METRICS[name].name} is not written by ${scope}`),
        );
        return;
      }
      expect(methodOf(scheduler, name)(options).dimensions).toMatchObject({
        [METRIC_DIMENSION[scope]]: String(NARROWED[scope]),
      });
    },
  );

  it.each(['runing', 'JobsRunning', 'toString', '__proto__', undefined])(
    'are asked for by their names: not by %s',
    (name) => {
      expect(() => scheduler.metric(name as 'running')).toThrow(
        expect.objectContaining({
          name: 'ConfigurationError',
          message: expect.stringMatching(/^name: is not a metric/),
        }),
      );
    },
  );

  it('that are refused for something else are not told either', () => {
    const made = new Scheduler(emptyStack(), 'Jobs');
    expect(() => made.metricRunning({ period: Duration.seconds(7) })).toThrow(/period/);
    expect(made.schedulerEnvironment()).not.toHaveProperty('FAIRLEAD_METRICS');
  });

  it('are told by one thing each, and not asked for by two', () => {
    expect(() => scheduler.metricStarted({ type: 'index', tier: 'default' })).toThrow(
      /^JobsStarted is written by type, or by tier: choose one of them, not type and tier$/,
    );
  });

  it('are drawn as they are asked for', () => {
    const options = { statistic: 'p50', period: Duration.minutes(5), label: 'median', type: 'index' };
    expect(scheduler.metricWaitTime(options)).toMatchObject({ statistic: 'p50', label: 'median' });
    expect(scheduler.metricWaitTime(options).period.toMinutes()).toBe(5);
  });

  /** What every function that works for the scheduler is told in a variable. */
  const saidBy = (made: Synthesized, variable: string): readonly unknown[] => [
    ...new Set(environmentsOf(made).map((environment) => at(environment, variable))),
  ];

  it('are told by type or tier once somebody asks for that, by every function and fleet, and not before', () => {
    const byIn = (made: Synthesized): readonly unknown[] => saidBy(made, 'FAIRLEAD_METRICS_BY');
    expect(byIn(synthesize())).toEqual([undefined]);
    expect(byIn(synthesize({}, (_, made) => void made.metricFailed({ type: 'index' })))).toEqual([undefined]);
    expect(byIn(synthesize({}, (_, made) => void made.metricWaitTime({ tier: 'default' })))).toEqual([
      'tier',
    ]);
    expect(byIn(synthesize({}, (_, made) => void made.dashboard()))).toEqual(['type']);
    const said = synthesize({ metricsBy: ['type', 'tier'] });
    expect(byIn(said)).toEqual(['tier,type']);
    expect(said.scheduler.schedulerEnvironment()).toMatchObject({ FAIRLEAD_METRICS_BY: 'tier,type' });
    expect(() => new Scheduler(emptyStack(), 'Jobs', { metricsBy: ['partition' as 'type'] })).toThrow(
      /^metricsBy\[0\]: must be one of type, tier, fleet, got "partition"/,
    );
  });

  it.each([
    ['for nothing, that is none', () => {}, undefined],
    [
      'for what is told always, that is none',
      (made: Scheduler) => void made.metricWaitTime({ type: 'index' }),
      undefined,
    ],
    ['for a metric', (made: Scheduler) => void made.metricRunning(), 'running'],
    ['for a metric by name', (made: Scheduler) => void made.metric('passDuration'), 'passDuration'],
    ['for one by fleet', (made: Scheduler) => void made.metricFreeSlots({ fleet: 'gpu' }), 'freeSlots'],
    ['for one by partition', (made: Scheduler) => void made.metricStartable({ partition: 0 }), 'startable'],
    ['for alarms', (made: Scheduler) => void made.alarms(), 'freeSlots,running,startable'],
    [
      'for the dashboard',
      (made: Scheduler) => void made.dashboard(),
      'freeSlots,passDuration,running,startable,submitted,writeUnits',
    ],
  ])('on request are told by every function and fleet once somebody asks %s', (_, ask, told) => {
    expect(
      saidBy(
        synthesize({}, (_stack, made) => ask(made)),
        'FAIRLEAD_METRICS',
      ),
    ).toEqual([told]);
  });

  it('on request are told as the construct is told to, also by processes, beside what the app asks for', () => {
    const said = synthesize({ metrics: ['writeUnits', 'claimed'] }, (_, made) => void made.metricRunning());
    expect(saidBy(said, 'FAIRLEAD_METRICS')).toEqual(['claimed,running,writeUnits']);
    for (const environment of [
      said.scheduler.schedulerEnvironment(),
      said.scheduler.workerEnvironment('gpu'),
    ])
      expect(environment).toMatchObject({ FAIRLEAD_METRICS: 'claimed,running,writeUnits' });
  });

  it('that alarms look at are in the environment that a process is given after them', () => {
    const made = new Scheduler(emptyStack(), 'Jobs');
    expect(made.schedulerEnvironment()).not.toHaveProperty('FAIRLEAD_METRICS');
    made.alarms();
    expect(made.schedulerEnvironment()).toMatchObject({ FAIRLEAD_METRICS: 'freeSlots,running,startable' });
  });

  it.each([
    [
      'started',
      /^metrics\[0\]: must be one of submitted, claimed, .*, got "started".*all other metrics are always written/,
    ],
    ['JobsRunning', /^metrics\[0\]: must be one of .*, got "JobsRunning"/],
    ['freeslot', /^metrics\[0\]: must be one of .*, got "freeslot".*Did you mean "freeSlots"\?/],
  ])('on request are none that is called %s', (name, message) => {
    expect(() => new Scheduler(emptyStack(), 'Jobs', { metrics: [name as 'running'] })).toThrow(message);
  });

  it('of one that was looked up are those of its table', () => {
    const other = emptyStack();
    const arn = 'arn:aws:dynamodb:eu-west-1:111122223333:table/orders-jobs';
    const looked = Scheduler.fromAttributes(other, 'Theirs', {
      tableArn: arn,
      busArn: 'arn:aws:events:eu-west-1:111122223333:event-bus/orders',
      wakeQueueArn: 'arn:aws:sqs:eu-west-1:111122223333:wake',
    }) as unknown as Scheduler;
    expect(other.resolve(looked.metricFailed().dimensions)).toEqual({ Scheduler: 'orders-jobs' });
    // What they are told is for their own app to say.
    expect(other.resolve(looked.metricRunning({ type: 'index' }).dimensions)).toEqual({
      Scheduler: 'orders-jobs',
      Type: 'index',
    });
    expect(Object.keys(looked.schedulerEnvironment()).filter((name) => name.includes('METRICS'))).toEqual([]);
  });
});

describe('the workers of a fleet', { timeout: SYNTH_MS }, () => {
  const serviceIn = (stack: Stack): ScalableTaskCount => {
    const taskDefinition = new FargateTaskDefinition(stack, 'Task');
    taskDefinition.addContainer('Worker', { image: ContainerImage.fromRegistry('worker') });
    const vpc = new Vpc(stack, 'Vpc', { natGateways: 0 }) as IVpc;
    const cluster = new Cluster(stack, 'Cluster', { vpc }) as ICluster;
    return new FargateService(stack, 'Gpu', { cluster, taskDefinition }).autoScaleTaskCount({
      minCapacity: 0,
      maxCapacity: 20,
    });
  };
  const groupIn = (stack: Stack): AutoScalingGroup =>
    new AutoScalingGroup(stack, 'Gpu', {
      vpc: new Vpc(stack, 'Vpc', { natGateways: 0 }) as IVpc,
      instanceType: new InstanceType('g5.xlarge'),
      machineImage: MachineImage.latestAmazonLinux2023(),
      maxCapacity: 4,
    });

  it.each([
    [
      'tasks of a service',
      serviceIn,
      'AWS::ApplicationAutoScaling::ScalingPolicy',
      'StepScalingPolicyConfiguration',
    ],
    ['instances of a group', groupIn, 'AWS::AutoScaling::ScalingPolicy', undefined],
  ] as const)('are scaled by their backlog: %s', (_, workersIn, kind, part) => {
    const made = synthesize({}, (stack, scheduler) => {
      scheduler.dashboard();
      scheduler.scale(workersIn(stack), { backlog: '3m', idle: '10m' });
    });
    const stepsOf = (name: string): unknown => {
      const found = resourcesOf(made.template, kind).find(([id]) => id.includes(name));
      const properties = found?.[1].Properties;
      return at(part === undefined ? properties : at(properties, part), 'StepAdjustments');
    };
    expect(stepsOf('BacklogUpper')).toEqual([
      { MetricIntervalLowerBound: 0, MetricIntervalUpperBound: 180, ScalingAdjustment: 1 },
      { MetricIntervalLowerBound: 180, MetricIntervalUpperBound: 540, ScalingAdjustment: 2 },
      { MetricIntervalLowerBound: 540, MetricIntervalUpperBound: 1_260, ScalingAdjustment: 5 },
      { MetricIntervalLowerBound: 1_260, ScalingAdjustment: 10 },
    ]);
    expect(stepsOf('IdleLower')).toEqual([{ MetricIntervalUpperBound: 0, ScalingAdjustment: -1 }]);
    const alarms = resourcesOf(made.template, 'AWS::CloudWatch::Alarm').map(
      ([, { Properties }]) => Properties,
    );
    expect(alarms).toHaveLength(2);
    expect(alarms.find(({ MetricName }) => MetricName === 'BacklogTime')).toMatchObject({
      Threshold: 180,
      EvaluationPeriods: 1,
      Dimensions: expect.arrayContaining([{ Name: 'Fleet', Value: 'gpu' }]),
    });
    // No expression fills in values: without data no worker is removed.
    expect(alarms.find(({ MetricName }) => MetricName === 'CapUsed')).toMatchObject({
      Period: 60,
      Statistic: 'Maximum',
      Threshold: 50,
      EvaluationPeriods: 10,
      ComparisonOperator: 'LessThanOrEqualToThreshold',
    });
    expect(environmentsOf(made)[0]?.FAIRLEAD_METRICS).toContain('backlogTime');
    expect(bodyOf(made)).toContain('BacklogTime');
  });

  it.each([
    [{ fleet: 'images' }, /^fleet: must be a fleet without a handler.*got "images".*Name one of "gpu"/],
    [{ fleet: 'gpus' }, /^fleet: is not a fleet of this scheduler/],
    [{ backlog: '10s' }, /^backlog: must be whole seconds, at least 1 minute/],
    [{ idle: '1m' }, /^idle: must be whole seconds, at least 5 minutes/],
    [{ backlogs: '2m' } as ScaleProps, /^backlogs: is not a known field.*Did you mean "backlog"/],
  ])('are not scaled by %j', (props, message) => {
    synthesize({}, (stack, scheduler) => {
      const workers = serviceIn(stack);
      expect(() => scheduler.scale(workers, props)).toThrow(message);
      expect(scheduler.scaledFleets).toEqual([]);
    });
  });
});

type Values = Readonly<Record<string, number | undefined>>;

/** CloudWatch's metric math, as far as the alarms use it: a period's value of an expression, where metrics may have none. */
function resultOf(expression: string, values: Values): number {
  const script = expression.replaceAll(/\bAND\b/g, '&&').replaceAll(/\bOR\b/g, '||');
  const math = {
    FILL: (value: number | undefined, instead: number) => value ?? instead,
    IF: (condition: unknown, then: number, otherwise: number) => (condition ? then : otherwise),
  };
  const names = [...Object.keys(math), ...Object.keys(values)];
  const evaluate = new Function(...names, `'use strict'; return (${script});`) as (
    ...given: readonly unknown[]
  ) => unknown;
  return Number(evaluate(...Object.values(math), ...Object.values(values)));
}

describe('alarms', { timeout: SYNTH_MS }, () => {
  const made = synthesize({ api: true, largePayloads: {} }, (stack, scheduler) => {
    const topic = new Topic(stack, 'Told') as ITopic;
    scheduler.alarms({
      actions: [new SnsAction(topic)],
      oldestPending: '7m',
      failedPercent: 20,
    });
  });
  const alarms = new Map(
    resourcesOf(made.template, 'AWS::CloudWatch::Alarm').map(([id, { Properties }]) => [
      id.replace(/^JobsAlarms/, '').replace(/[0-9A-F]{8}$/, ''),
      Properties,
    ]),
  );
  const alarm = (name: string): Readonly<Record<string, unknown>> => {
    if (!alarms.has(name)) throw new Error(`no alarm ${name} among ${[...alarms.keys()].join(', ')}`);
    return alarms.get(name) ?? {};
  };
  const queries = (name: string): readonly unknown[] => listOf(at(alarm(name), 'Metrics'));
  const expressionOf = (name: string): string =>
    String(
      at(
        queries(name).find((each) => at(each, 'Expression') !== undefined),
        'Expression',
      ),
    );
  const metricsOf = (name: string): Readonly<Record<string, unknown>> =>
    Object.fromEntries(
      queries(name).flatMap((each) => {
        const metricName = at(each, 'MetricStat', 'Metric', 'MetricName');
        return metricName === undefined ? [] : [[String(at(each, 'Id')), metricName]];
      }),
    );
  /** Whether it rings in a period with these values; a metric that is not named had no data. */
  const rings = (name: string, values: Values): boolean => {
    const none = Object.fromEntries(Object.keys(metricsOf(name)).map((id) => [id, undefined]));
    const unknown = Object.keys(values).filter((id) => !(id in none));
    expect(unknown, `${name} has no such metric`).toEqual([]);
    return resultOf(expressionOf(name), { ...none, ...values }) >= Number(at(alarm(name), 'Threshold'));
  };

  /** A value of the alarm's metric in a period; undefined: there is none. */
  const valueIn = (name: string, values: Values): number | undefined =>
    queries(name).length > 0
      ? resultOf(expressionOf(name), {
          ...Object.fromEntries(Object.keys(metricsOf(name)).map((id) => [id, undefined])),
          ...values,
        })
      : values.value;
  /** What CloudWatch makes of the last periods, the latest last. */
  const stateAfter = (name: string, periods: readonly Values[]): 'ALARM' | 'OK' => {
    const { Threshold, TreatMissingData, EvaluationPeriods, DatapointsToAlarm } = alarm(name);
    const breaching = periods.slice(-Number(EvaluationPeriods)).filter((values) => {
      const value = valueIn(name, values);
      return value === undefined ? TreatMissingData === 'breaching' : value >= Number(Threshold);
    });
    return breaching.length >= Number(DatapointsToAlarm ?? EvaluationPeriods) ? 'ALARM' : 'OK';
  };

  /** Whatever can stand still, or go wrong; what CloudWatch hears of it in each period; what the alarm tells to do. */
  const TABLE = [
    ['a job waits, and nobody knows why', 'OldestPending', { value: 420 }, /fairlead jobs explain/],
    ['jobs fail', 'Failures', { failed: 20 }, /fairlead dead-letters/],
    ['an event could not become a job', 'DeadLetters', { q0: 1 }, /fairlead queues list.*redrive/],
    ['the bus refuses an outcome for good', 'DeadLetters', { q1: 1 }, /fairlead queues list.*redrive/],
    [
      'the bus takes no outcomes',
      'OutcomesUnpublished',
      { value: 1 },
      /log of the dispatch function.*14 days/,
    ],
    [
      'a record of the stream fails each time',
      'StreamAge',
      { value: 120_000 },
      /log.*fairlead outcomes publish/,
    ],
    [
      'the event source of the stream is disabled, or may not read it',
      'StreamUnread',
      { started: 1 },
      /enable its event source.*rights.*fairlead outcomes publish/,
    ],
    [
      'events wait to become jobs',
      'IngestAge',
      { value: 120 },
      /enable the event source.*raise ingestConcurrency/,
    ],
    [
      'the event source of the wake queue is disabled',
      'WakeAge',
      { value: 1_800 },
      /enable the event source/,
    ],
    ['the ingest function fails', 'FunctionErrors', { ingest: 1 }, /logs say why/],
    ['the dispatch function fails', 'FunctionErrors', { dispatch: 1 }, /logs say why/],
    ['the API function fails', 'FunctionErrors', { api: 1 }, /API.*logs say why/],
    ['objects of jobs that are gone are not deleted', 'ObjectsKept', { value: 1 }, /its log says why/],
    ['ingest finds no concurrency', 'FunctionThrottles', { ingest: 1 }, /higher quota/],
    ['dispatchers find no concurrency', 'FunctionThrottles', { dispatch: 1 }, /higher quota/],
    ['callers of the API find no concurrency', 'FunctionThrottles', { api: 1 }, /API.*reservedConcurrency/],
    ['nothing ticks, and nothing else is to do', 'NoTick', { empty: 3 }, /enable the rule/],
    ['nothing ticks, though wakes invoke the function', 'NoTick', { received: 9 }, /enable the rule/],
    ['a worker function ends in each invocation', 'WorkerFunctions', { m0: 1 }, /Errors.*log/],
    ['a worker function finds no concurrency', 'WorkerFunctions', { m1: 1 }, /Throttles/],
    ['Lambda takes a worker for a loop', 'WorkerFunctions', { m2: 1 }, /RecursiveInvocationsDropped/],
    ['another worker function ends', 'WorkerFunctions', { m3: 1 }, /Errors/],
    ['the event source of a fleet is disabled', 'FleetQueueAge', { m0: 1_800 }, /enable its event source/],
    ['the processes of a fleet are gone', 'FleetQueueAge', { m2: 1_800 }, /fairlead fleets/],
    ['workers hang', 'NothingFinishes', { running: 4 }, /workers hang/],
    [
      'dispatchers start nothing',
      'NothingStarts',
      { startable: 1, free: 3 },
      /logs of the dispatch function/,
    ],
    ['a key is hot', 'ThrottledHotKeys', { t0: 1 }, /docs\/scale.md/],
    ['the account has no more for a table', 'ThrottledQuota', { t1: 1 }, /quota/],
    ['the table has no more', 'ThrottledTableLimit', { t3: 1 }, /raise the maximum/],
    ['jobs that expire crowd one key', 'ThrottledHotKeys', { t5: 1 }, /docs\/scale.md/],
  ] as const;

  it.each(TABLE)('when %s, %s rings, and says what to do', (_, name, values, remedy) => {
    const periods = Number(at(alarm(name), 'EvaluationPeriods'));
    const isNamed = Object.keys(values).every((id) => id === 'value' || id in metricsOf(name));
    expect(isNamed, `${name} has no such metric`).toBe(true);
    const wrong = Array.from<Values>({ length: periods - 1 }).fill(values);
    // Of the last period nobody has told yet: an expression that fills it has a made-up value there.
    expect(stateAfter(name, [...wrong, {}])).toBe('ALARM');
    expect(stateAfter(name, Array.from<Values>({ length: periods }).fill({}))).toBe('OK');
    expect(stateAfter(name, [...wrong, ...Array.from<Values>({ length: periods - 1 }).fill({}), {}])).toBe(
      'OK',
    );
    expect(String(at(alarm(name), 'AlarmDescription'))).toMatch(remedy);
  });

  it('are there for what stands in that table, and for nothing else', () => {
    expect([...alarms.keys()].toSorted()).toEqual([...new Set(TABLE.map(([, name]) => name))].toSorted());
  });

  it('of functions look at none that the scheduler does not have', () => {
    const plain = synthesize({}, (_, scheduler) => void scheduler.alarms());
    for (const [id, { Properties }] of resourcesOf(plain.template, 'AWS::CloudWatch::Alarm')) {
      if (!/FunctionErrors|FunctionThrottles/.test(id)) continue;
      const looked = listOf(Properties.Metrics).filter((each) => at(each, 'MetricStat') !== undefined);
      expect(looked.map((each) => at(each, 'Id'))).toEqual(['ingest', 'dispatch']);
      expect(String(Properties.AlarmDescription)).not.toContain('API');
    }
  });

  it('rings for what one period has told, and the next ones make up: each wants some of its periods', () => {
    for (const [name, properties] of alarms) {
      const isFilled = queries(name).some((each) => String(at(each, 'Expression') ?? '').includes('FILL'));
      if (isFilled)
        expect(Number(properties.DatapointsToAlarm), name).toBeLessThan(Number(properties.EvaluationPeriods));
    }
  });

  it('of fleets look at ten metrics each, however many fleets come', () => {
    const many = synthesize({}, (stack, scheduler) => {
      scheduler.alarms();
      for (let n = 0; n < 18; n += 1)
        scheduler.addFleet(`fleet-${n}`, { types: ['index'], handler: workerFunction(stack, `Handler${n}`) });
    });
    const looked = (part: string): readonly number[] =>
      resourcesOf(many.template, 'AWS::CloudWatch::Alarm')
        .filter(([id]) => id.includes(part))
        .map(([, { Properties }]) => listOf(Properties.Metrics).length - 1);
    expect(looked('FleetQueueAge')).toEqual([10, 10, 1]);
    expect(looked('WorkerFunctions')).toEqual([9, 9, 9, 9, 9, 9, 6]);
  });

  it('of a function in another stack are in that stack, which depends on the scheduler', () => {
    let others: Stack | undefined;
    const own = synthesize({}, (stack, scheduler) => {
      others = new Stack(stack.node.root as App, 'Others');
      scheduler.addFleet('others', { types: ['index'], handler: workerFunction(others, 'Other') });
      scheduler.alarms({ actions: [new SnsAction(new Topic(stack, 'OnCall') as ITopic)] });
    });
    const found = resourcesOf(Template.fromStack(others as Stack), 'AWS::CloudWatch::Alarm');
    expect(found).toHaveLength(1);
    const [[, alarm] = []] = found;
    expect(JSON.stringify(alarm)).toContain('FunctionName');
    expect(listOf(alarm?.Properties.AlarmActions)).toHaveLength(1);
    const ofOwn = resourcesOf(own.template, 'AWS::CloudWatch::Alarm').map(([id]) => id);
    expect(ofOwn.filter((id) => id.includes('WorkerFunctions'))).toHaveLength(1);
    expect(own.stack.dependencies).toEqual([]);
  });

  it('are on the page about metrics, with what they cost: each metric that one looks at is billed', () => {
    const page = readFileSync('docs/metrics.md', 'utf8');
    const looksAt = (metrics: unknown): number =>
      metrics === undefined
        ? 1
        : listOf(metrics).filter((each) => at(each, 'MetricStat') !== undefined).length;
    let metrics = 0;
    for (const [name, properties] of alarms) {
      expect(page).toContain(`\`${name}\``);
      metrics += looksAt(properties.Metrics);
    }
    const beside =
      metrics - looksAt(alarm('WorkerFunctions').Metrics) - looksAt(alarm('FleetQueueAge').Metrics);
    const [, looked, ofFleet, dollars, ofApi] =
      /these look at (\d+), and (\d+) more for each fleet with a function, which is \$([\d.]+) with one; `api: true` adds (\d+), `largePayloads` 1\./.exec(
        page,
      ) ?? [];
    expect([Number(looked), Number(ofFleet), Number(ofApi)]).toEqual([beside - 3, 4, 2]);
    expect(Number(dollars)).toBeCloseTo((beside - 3 + 4) * ALARM_METRIC_MONTH, 10);
  });

  it('tell whom they were told to, and what to do', () => {
    for (const [name, properties] of alarms) {
      expect(listOf(at(properties, 'AlarmActions')).map(referred)).toEqual([expect.stringMatching(/^Told/)]);
      expect(String(at(properties, 'AlarmDescription')).length, name).toBeGreaterThan(40);
    }
  });

  it('are silent where there is no data: none rings while a new deployment has told nothing yet', () => {
    for (const [name, properties] of alarms) {
      expect(at(properties, 'ComparisonOperator'), name).toBe('GreaterThanOrEqualToThreshold');
      expect(stateAfter(name, Array.from<Values>({ length: 288 }).fill({})), name).toBe('OK');
    }
  });

  it('for ticks is silent where they come, and where the wake queue is not asked either', () => {
    expect(rings('NoTick', { ticks: 1, empty: 3 })).toBe(false);
    expect(rings('NoTick', { ticks: 1, received: 3 })).toBe(false);
    expect(metricsOf('NoTick')).toEqual({
      ticks: 'Invocations',
      empty: 'NumberOfEmptyReceives',
      received: 'NumberOfMessagesReceived',
    });
  });

  it('for a stream that is not read is silent where it is, and where nothing starts', () => {
    expect(rings('StreamUnread', { started: 3, age: 0 })).toBe(false);
    expect(rings('StreamUnread', { age: 5_000 })).toBe(false);
    // By then the longest job that has started has ended, in an hour: no two periods in a row lack its record.
    const [period] = queries('StreamUnread').flatMap((each) => at(each, 'MetricStat', 'Period') ?? []);
    expect(period).toBe(3_900);
    expect(alarm('StreamUnread')).toMatchObject({ DatapointsToAlarm: 2, EvaluationPeriods: 3 });
  });

  it('watch every event source, whether it invokes its function at all', () => {
    const looked = [...alarms].flatMap(([, properties]) =>
      [properties, ...listOf(properties.Metrics).map((each) => at(each, 'MetricStat', 'Metric'))].flatMap(
        (metric) => {
          const [dimension] = listOf(at(metric, 'Dimensions'));
          const value = at(dimension, 'Value');
          return dimension === undefined ? [] : [`${at(metric, 'MetricName')} ${referred(value)}`];
        },
      ),
    );
    const sources = resourcesOf(made.template, 'AWS::Lambda::EventSourceMapping');
    expect(sources).toHaveLength(5);
    for (const [id, { Properties }] of sources) {
      const isStream = Properties.StartingPosition !== undefined;
      const trace = isStream
        ? `IteratorAge ${referred(Properties.FunctionName)}`
        : `ApproximateAgeOfOldestMessage ${referred(Properties.EventSourceArn)}`;
      expect(looked.filter((each) => each === trace).length, id).toBeGreaterThanOrEqual(isStream ? 2 : 1);
    }
  });

  it('are within what CloudWatch takes of an alarm: ten metrics, one result, a day, or a week of periods of an hour', () => {
    for (const [name, properties] of alarms) {
      const all = listOf(at(properties, 'Metrics'));
      expect(Object.keys(metricsOf(name)).length).toBeLessThanOrEqual(10);
      if (all.length > 0)
        expect(
          all.filter((each) => at(each, 'ReturnData') !== false),
          name,
        ).toHaveLength(1);
      const periods = Number(at(properties, 'EvaluationPeriods'));
      const periodSec = Math.max(
        Number(at(properties, 'Period') ?? 0),
        ...all.map((each) => Number(at(each, 'MetricStat', 'Period') ?? at(each, 'Period') ?? 0)),
      );
      expect(periodSec % 60).toBe(0);
      expect(periods * periodSec, name).toBeLessThanOrEqual(periodSec < 3_600 ? 86_400 : 604_800);
    }
  });

  it('take what they were told: how long a job may wait, how many may fail', () => {
    expect(alarm('OldestPending')).toMatchObject({ MetricName: 'OldestPendingAge', Threshold: 420 });
    expect(at(alarm('Failures'), 'Threshold')).toBe(20);
    const plain = synthesize({}, (_, scheduler) => void scheduler.alarms());
    const [, waiting] =
      resourcesOf(plain.template, 'AWS::CloudWatch::Alarm').find(([id]) => id.includes('OldestPending')) ??
      [];
    expect(at(waiting, 'Properties')).toMatchObject({ Threshold: 900 });
    expect(at(waiting, 'Properties')).not.toHaveProperty('AlarmActions');
  });

  it('for failures rings for a share of the jobs, once there are enough to say so', () => {
    expect(rings('Failures', { failed: 2, succeeded: 8 })).toBe(true);
    expect(rings('Failures', { failed: 1, succeeded: 9 })).toBe(false);
    expect(rings('Failures', { failed: 12 })).toBe(true);
    expect(rings('Failures', { failed: 9 })).toBe(false);
    expect(rings('Failures', { succeeded: 1_000 })).toBe(false);
    expect(rings('Failures', {})).toBe(false);
  });

  it('for work that does not end rings where something runs and nothing ends, in whatever way', () => {
    expect(rings('NothingFinishes', { running: 4 })).toBe(true);
    for (const end of ['succeeded', 'failed', 'cancelled', 'retried'])
      expect(rings('NothingFinishes', { running: 4, [end]: 1 }), end).toBe(false);
    expect(rings('NothingFinishes', { running: 0 })).toBe(false);
    expect(rings('NothingFinishes', {})).toBe(false);
    // The longest type may take an hour: twelve periods, and one more for what has begun in the last.
    expect(alarm('NothingFinishes')).toMatchObject({ DatapointsToAlarm: 13, EvaluationPeriods: 14 });
  });

  it.each<readonly [string, object | undefined]>([
    ['23h', { EvaluationPeriods: 278, DatapointsToAlarm: 277 }],
    // In hours, of which CloudWatch looks back at a week.
    ['2d', { EvaluationPeriods: 50, DatapointsToAlarm: 49 }],
    ['166h', { EvaluationPeriods: 168 }],
    ['30d', undefined],
  ])('for work that does not end never rings before a job of %s may end', (timeoutMs, expected) => {
    const { template, stack } = synthesize(
      { types: { train: { timeoutMs } }, fleets: {} },
      (_, scheduler) => void scheduler.alarms(),
    );
    const [, alarm] =
      resourcesOf(template, 'AWS::CloudWatch::Alarm').find(([id]) => id.includes('NothingFinishes')) ?? [];
    if (expected === undefined) {
      expect(alarm).toBeUndefined();
      const said = Annotations.fromStack(stack).findInfo(
        '*',
        Match.stringLikeRegexp('no alarm NothingFinishes'),
      );
      expect(said).toHaveLength(1);
      return;
    }
    expect(alarm?.Properties).toMatchObject(expected);
    const periods = listOf(alarm?.Properties.Metrics).flatMap(
      (each) => at(each, 'MetricStat', 'Period') ?? [],
    );
    expect(new Set(periods)).toEqual(new Set([timeoutMs === '23h' ? 300 : 3_600]));
  });

  it('for work that does not begin rings where something could, slots are free, and nothing does', () => {
    expect(rings('NothingStarts', { startable: 1, free: 3 })).toBe(true);
    expect(rings('NothingStarts', { startable: 1, free: 3, started: 0 })).toBe(true);
    expect(rings('NothingStarts', { startable: 1, free: 3, started: 1 })).toBe(false);
    expect(rings('NothingStarts', { startable: 1, free: 0 })).toBe(false);
    expect(rings('NothingStarts', { free: 3 })).toBe(false);
  });

  it('of the table tell DynamoDB’s reasons apart, and look at its indexes too', () => {
    for (const [name, reason] of [
      ['ThrottledHotKeys', /KeyRangeThroughputThrottleEvents$/],
      ['ThrottledQuota', /AccountLimitThrottleEvents$/],
      ['ThrottledTableLimit', /MaxOnDemandThroughputThrottleEvents$/],
    ] as const) {
      const used = Object.values(metricsOf(name));
      expect(used).toHaveLength(6);
      for (const metric of used) expect(metric).toMatch(reason);
      const ofIndex = queries(name).filter((each) =>
        JSON.stringify(at(each, 'MetricStat', 'Metric', 'Dimensions') ?? '').includes(
          'GlobalSecondaryIndexName',
        ),
      );
      expect(ofIndex).toHaveLength(4);
      for (const id of Object.keys(metricsOf(name))) expect(rings(name, { [id]: 1 })).toBe(true);
    }
  });

  it('of dead letters look at every queue that has them, however many fleets come', () => {
    const ids = listOf(at(alarm('DeadLetters'), 'Metrics')).flatMap(
      (each) => at(each, 'MetricStat', 'Metric', 'Dimensions', 0, 'Value', 'Fn::GetAtt', 0) ?? [],
    );
    expect(ids).toHaveLength(Object.keys(made.scheduler.deadLetterQueues).length);
  });
});

describe('a dashboard', { timeout: SYNTH_MS }, () => {
  it('draws every metric that the scheduler tells, or says with another one', () => {
    const body = bodyOf(synthesize({}, (_, scheduler) => void scheduler.dashboard()));
    const drawn = NAMES.filter((name) => body.includes(`"${METRICS[name].name}"`));
    // A pass claims what is started a moment later, and only scaled fleets have a backlog of their own.
    expect(NAMES.filter((name) => !drawn.includes(name))).toEqual(['claimed', 'backlogTime']);
    for (const title of ['Jobs', 'Wait until started, ms', 'Caps in use, %', 'Dead letters', 'Dispatch'])
      expect(widgetsOf(body).map((each) => at(each, 'properties', 'title'))).toContain(title);
  });

  it('draws types that are added later, and of many the first twenty, and says so', () => {
    const later = synthesize({}, (_, scheduler) => {
      scheduler.dashboard();
      scheduler.addJobType('late');
    });
    expect(bodyOf(later)).toContain('"late"');
    const types = Object.fromEntries(Array.from({ length: 25 }, (_, at) => [`type-${at}`, {}]));
    const many = bodyOf(synthesize({ types, fleets: {} }, (_, scheduler) => void scheduler.dashboard()));
    expect(many).toContain('the first 20 of 25');
    expect(many).toContain('"type-19"');
    expect(many).not.toContain('"type-20"');
  });

  it('has the name and the time that it is given', () => {
    const made = synthesize(
      {},
      (_, scheduler) => void scheduler.dashboard({ dashboardName: 'orders-jobs', past: '12h' }),
    );
    const [[, dashboard] = []] = resourcesOf(made.template, 'AWS::CloudWatch::Dashboard');
    expect(at(dashboard, 'Properties', 'DashboardName')).toBe('orders-jobs');
    expect(bodyOf(made)).toContain('"start":"-PT12H"');
  });

  it('is not there unless it is asked for, nor are alarms: each costs something', () => {
    const { template } = synthesize();
    template.resourceCountIs('AWS::CloudWatch::Dashboard', 0);
    template.resourceCountIs('AWS::CloudWatch::Alarm', 0);
  });
});

describe('what alarms and graphs look at', { timeout: SYNTH_MS }, () => {
  /** One of ours, as CloudWatch names it: `JobsRunning Type`. */
  const named = (metric: unknown, dimensions: readonly unknown[]): string =>
    [metric, ...dimensions.filter((name) => name !== METRIC_DIMENSION.scheduler)].join(' ');

  const ofAlarms = ({ template }: Synthesized): readonly string[] =>
    resourcesOf(template, 'AWS::CloudWatch::Alarm').flatMap(([, { Properties }]) =>
      [Properties, ...listOf(Properties.Metrics).map((each) => at(each, 'MetricStat', 'Metric'))].flatMap(
        (metric) =>
          at(metric, 'Namespace') === METRICS_NAMESPACE
            ? [
                named(
                  at(metric, 'MetricName'),
                  listOf(at(metric, 'Dimensions')).map((each) => at(each, 'Name')),
                ),
              ]
            : [],
      ),
    );

  const ofGraphs = (made: Synthesized): readonly string[] =>
    widgetsOf(bodyOf(made)).flatMap((widget) =>
      listOf(at(widget, 'properties', 'metrics')).flatMap((metric) => {
        const [namespace, name, ...rest] = listOf(metric);
        const dimensions = rest.filter((each, index) => typeof each === 'string' && index % 2 === 0);
        return namespace === METRICS_NAMESPACE ? [named(name, dimensions)] : [];
      }),
    );

  /** What a function with such an environment tells of all that happens. */
  const toldIn = (environment: Readonly<Record<string, string>>): ReadonlySet<string> => {
    const collector = new MetricCollector(askedMetricsOf(environment));
    for (const name of NAMES)
      for (const scopes of [{}, ...METRICS[name].by.map((scope) => ({ [scope]: 'one' }))])
        collector.add(name, 1, scopes);
    const lines = collector.take();
    return new Set(
      lines.flatMap(({ sets, values }) =>
        sets.flatMap((set) => [...values.keys()].map((name) => named(METRICS[name].name, Object.keys(set)))),
      ),
    );
  };

  it.each([
    ['alarms', (made: Scheduler) => void made.alarms()],
    ['the dashboard', (made: Scheduler) => void made.dashboard()],
    ['both', (made: Scheduler) => [made.alarms(), made.dashboard()]],
    [
      'both, by an aspect that comes when all is declared',
      (made: Scheduler) => {
        let isDone = false;
        const visit = (): void => {
          if (isDone) return;
          isDone = true;
          made.alarms();
          made.dashboard();
        };
        Aspects.of(made.table).add({ visit });
      },
    ],
  ])('is told by every function: %s', (_, ask) => {
    const made = synthesize({}, (_stack, scheduler) => void ask(scheduler));
    const looked = [...ofAlarms(made), ...(bodyOf(made) === '' ? [] : ofGraphs(made))];
    expect(looked.length).toBeGreaterThan(5);
    const environments = environmentsOf(made);
    expect(environments.length).toBeGreaterThanOrEqual(4);
    for (const environment of environments) {
      const told = toldIn(environment);
      expect(looked.filter((each) => !told.has(each))).toEqual([]);
    }
  });

  it('is as much where an aspect asks for alarms as where the app does', () => {
    const alarmsOf = (made: Synthesized): readonly string[] =>
      resourcesOf(made.template, 'AWS::CloudWatch::Alarm')
        .map(([id]) => id)
        .toSorted();
    const late = synthesize({}, (_, made) => {
      let isDone = false;
      const visit = (): void => {
        if (!isDone) made.alarms();
        isDone = true;
      };
      Aspects.of(made).add({ visit });
    });
    expect(alarmsOf(late)).toEqual(alarmsOf(synthesize({}, (_, made) => void made.alarms())));
  });

  it('is in the environment that a process is given after the dashboard', () => {
    const made = new Scheduler(emptyStack(), 'Jobs');
    made.dashboard();
    expect(made.schedulerEnvironment()).toMatchObject({
      FAIRLEAD_METRICS: 'freeSlots,passDuration,running,startable,submitted,writeUnits',
      FAIRLEAD_METRICS_BY: 'type',
    });
  });

  it('would not be told to somebody who asked for nothing', () => {
    const made = synthesize({}, (_, scheduler) => void [scheduler.alarms(), scheduler.dashboard()]);
    const told = toldIn({});
    const missing = [...ofAlarms(made), ...ofGraphs(made)].filter((each) => !told.has(each));
    expect(missing).toEqual(
      expect.arrayContaining(['JobsRunning', 'JobsStartable', 'FreeSlots', 'JobsRunning Type']),
    );
  });
});
