import { describe, expect, it } from 'vitest';
import { MetricCollector } from '../../lib/metrics/collector.ts';
import type { AskedMetrics, MetricKey } from '../../lib/metrics/contract.ts';
import { METRICS, METRICS_ON_REQUEST } from '../../lib/metrics/names.ts';
import { emfText } from '../../lib/runtime/emf.ts';

/** A line as CloudWatch reads it. */
interface Emf {
  readonly _aws: {
    readonly CloudWatchMetrics: readonly {
      readonly Namespace: string;
      readonly Dimensions: readonly (readonly string[])[];
      readonly Metrics: readonly { readonly Name: string; readonly Unit: string }[];
    }[];
  };
  readonly [name: string]: unknown;
}

const linesOf = (collector: MetricCollector): readonly Emf[] =>
  collector.take().map((line) => JSON.parse(emfText('Jobs')(line)) as Emf);

describe('the metrics of one invocation', () => {
  it('are one line for jobs of one type, however many there are, that counts for the whole and for each scope', () => {
    const collector = new MetricCollector();
    for (let at = 0; at < 50; at += 1) {
      collector.add('started', 1, { type: 'pdf', tier: 'fast' });
      collector.add('waitTime', at, { type: 'pdf', tier: 'fast' });
    }
    const lines = linesOf(collector);
    expect(lines).toHaveLength(1);
    const [directive] = lines[0]?._aws.CloudWatchMetrics ?? [];
    expect(directive).toEqual({
      Namespace: 'Fairlead',
      Dimensions: [['Scheduler'], ['Scheduler', 'Type'], ['Scheduler', 'Tier']],
      Metrics: [
        { Name: 'JobsStarted', Unit: 'Count' },
        { Name: 'WaitTime', Unit: 'Milliseconds' },
      ],
    });
    expect(lines[0]).toMatchObject({ Scheduler: 'Jobs', Type: 'pdf', Tier: 'fast', JobsStarted: 50 });
    expect(lines[0]?.WaitTime).toEqual(Array.from({ length: 50 }, (_, at) => at));
  });

  it('are told by type, tier and fleet only where somebody asks for that; failures by type and used caps in any case', () => {
    const told = (collector: MetricCollector): readonly unknown[] => {
      collector.add('started', 1, { type: 'pdf', tier: 'fast' });
      collector.add('succeeded', 1, { type: 'pdf' });
      collector.add('failed', 1, { type: 'pdf' });
      collector.add('running', 2, { type: 'pdf' });
      collector.add('running', 3, { fleet: 'images' });
      collector.add('freeSlots', 2, { fleet: 'images' });
      collector.add('capUsed', 30, { fleet: 'images' });
      collector.add('running', 5);
      return collector
        .take()
        .flatMap(({ sets, values }) =>
          sets.map((set) => [Object.keys(set)[0] ?? '', [...values.keys()].join()]),
        );
    };
    const metrics = METRICS_ON_REQUEST;
    expect(told(new MetricCollector({ metrics }))).toEqual([
      ['', 'started,succeeded,running'],
      ['', 'failed'],
      ['Type', 'failed'],
      ['Fleet', 'capUsed'],
    ]);
    expect(told(new MetricCollector({ metrics, by: ['fleet'] }))).toContainEqual([
      'Fleet',
      'running,freeSlots,capUsed',
    ]);
    const byType = told(new MetricCollector({ metrics, by: ['type'] }));
    expect(byType).toContainEqual(['Type', 'started,succeeded,failed']);
    expect(byType).toContainEqual(['Type', 'running']);
    expect(byType.map((each) => (each as readonly string[])[0])).not.toContain('Tier');
  });

  it('are those that are told always, and beside them what somebody asks for: of the whole and of what narrows it', () => {
    const told = (asked: AskedMetrics): readonly string[] => {
      const collector = new MetricCollector(asked);
      for (const metric of Object.keys(METRICS) as MetricKey[])
        for (const scopes of [{}, ...METRICS[metric].by.map((scope) => ({ [scope]: 'one' }))])
          collector.add(metric, 1, scopes);
      return collector
        .take()
        .flatMap(({ sets, values }) =>
          sets.flatMap((set) => [...values.keys()].map((metric) => [metric, ...Object.keys(set)].join(' '))),
        );
    };
    const always = [...new Set(told({}))];
    expect(always.filter((each) => !each.includes(' ')).toSorted()).toEqual(
      [
        ...[
          'started',
          'succeeded',
          'failed',
          'retried',
          'cancelled',
          'expired',
          'rejected',
          'waitTime',
          'backlog',
        ],
        ...['oldestPending', 'capUsed', 'lostRaces', 'outcomesUnpublished'],
      ].toSorted(),
    );
    const gained = told({ metrics: ['running'], by: ['fleet'] }).filter((each) => !always.includes(each));
    expect(gained.toSorted()).toEqual(['running', 'running Fleet', 'running Partition']);
  });

  it('are no line of an invocation that did only what nobody asks for', () => {
    const collector = new MetricCollector({});
    collector.add('claimed', 3);
    collector.add('submitted', 2, { type: 'pdf' });
    collector.add('passDuration', 12);
    collector.add('writeUnits', 9);
    expect(collector.take()).toEqual([]);
    collector.add('succeeded', 1, { type: 'pdf' });
    collector.add('claimed', 1);
    const [line, ...more] = linesOf(collector);
    expect(more).toEqual([]);
    expect(line?._aws.CloudWatchMetrics[0]?.Metrics.map(({ Name }) => Name)).toEqual(['JobsSucceeded']);
  });

  it('tell what work costs where somebody asks for that alone, and not what an idle tick costs', () => {
    const collector = new MetricCollector({ metrics: ['writeUnits'] });
    collector.add('writeUnits', 2);
    expect(collector.take()).toEqual([]);
    collector.add('writeUnits', 9);
    collector.add('claimed', 1);
    expect(linesOf(collector)).toMatchObject([{ WriteUnits: 9 }]);
    collector.add('writeUnits', 2);
    expect(collector.take()).toEqual([]);
  });

  it('tell a gauge of exactly what it is of: the greatest of its types is not the whole', () => {
    const collector = new MetricCollector();
    collector.add('running', 7);
    collector.add('running', 4, { type: 'pdf' });
    const told = linesOf(collector).map(({ _aws, JobsRunning }) => [
      _aws.CloudWatchMetrics[0]?.Dimensions,
      JobsRunning,
    ]);
    expect(told).toEqual([
      [[['Scheduler']], 7],
      [[['Scheduler', 'Type']], 4],
    ]);
  });

  it('are nothing where nothing happened, and are told once', () => {
    const collector = new MetricCollector();
    collector.add('claimed', 0);
    expect(collector.take()).toEqual([]);
    collector.add('claimed', 3);
    expect(collector.take()).toHaveLength(1);
    expect(collector.take()).toEqual([]);
  });

  it('do not tell what an idle tick costs, and tell it beside what was done', () => {
    const collector = new MetricCollector();
    const tick = (): void => {
      collector.add('writeUnits', 2);
      collector.add('passDuration', 12);
    };
    tick();
    expect(collector.take()).toEqual([]);
    tick();
    collector.add('claimed', 1);
    expect(linesOf(collector)).toMatchObject([{ WriteUnits: 2, PassDuration: 12 }]);
  });

  it('stay within what CloudWatch takes of one line', () => {
    const collector = new MetricCollector();
    for (let at = 0; at < 10_000; at += 1) collector.add('waitTime', at, { type: 'pdf' });
    const [line] = linesOf(collector);
    expect(line?.WaitTime).toHaveLength(99);
  });

  it('take few bytes of a job: less than 400 for a job that comes alone', () => {
    const collector = new MetricCollector();
    collector.add('started', 1, { type: 'thumbnail', tier: 'default' });
    collector.add('waitTime', 1_234, { type: 'thumbnail', tier: 'default' });
    const [line] = collector.take();
    if (line === undefined) throw new Error('nothing was told');
    expect(Buffer.byteLength(emfText('Orders-JobsTable7B2C5D1E-1A2B3C4D5E6F7')(line))).toBeLessThan(400);
    expect(METRICS.waitTime.by).toEqual(['type', 'tier']);
  });
});
