import { CfnParameter, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { type ScheduleRequest, Scheduler } from '../../cdk/index.ts';
import {
  ALLOWED,
  BAD_REST,
  BAD_TIMES,
  badRequest,
  shownValue,
  TOLD_WITHOUT_VALUE,
} from '../fixtures/bad-schedules.ts';
import { emptyStack, workerFunction } from './stacks.ts';

function declared(schedules?: Readonly<Record<string, ScheduleRequest>>) {
  const stack = emptyStack();
  const handler = workerFunction(stack, 'Handler');
  const scheduler = new Scheduler(stack, 'Jobs', {
    fleets: { work: { types: ['work'], slots: 2, handler } },
    ...(schedules === undefined ? {} : { schedules }),
  });
  const textOf = (): unknown => {
    const [resource] = Object.values(Template.fromStack(stack).findResources('Custom::FairleadDeclaration'));
    return JSON.parse(resource?.Properties.schedules);
  };
  return { scheduler, textOf };
}

const NIGHTLY: ScheduleRequest = { cron: '30 2 * * *', zone: 'Europe/Berlin', type: 'work' };

/** The first synthesis of a process loads much of the CDK. */
const SYNTH_MS = 120_000;

describe('declared schedules', { timeout: SYNTH_MS }, () => {
  it('are handed to the deployment, with those that are added later', () => {
    const { scheduler, textOf } = declared({ nightly: NIGHTLY });
    scheduler.addSchedule('hourly', { every: '1h', type: 'work', payload: { all: true } });
    expect(textOf()).toEqual({
      nightly: NIGHTLY,
      hourly: { every: '1h', type: 'work', payload: { all: true } },
    });
  });

  it('are handed over with Durations as milliseconds', () => {
    const { scheduler, textOf } = declared();
    scheduler.addSchedule('often', { every: Duration.minutes(90), jitter: '1m', type: 'work' });
    expect(textOf()).toEqual({ often: { every: 5_400_000, jitter: '1m', type: 'work' } });
    const late = Duration.minutes(
      new CfnParameter(Stack.of(scheduler), 'Late', { type: 'Number' }).valueAsNumber,
    );
    expect(() => scheduler.addSchedule('late', { every: late, type: 'work' })).toThrow(
      /^schedules\.late\.every: must be known when the app is synthesised/,
    );
  });

  it('are none unless any is declared', () => {
    expect(declared().textOf()).toEqual({});
  });

  it('may have ended: a stack that was deployed once is deployed again', () => {
    expect(() => declared({ past: { ...NIGHTLY, end: '2001-01-01T00:00:00Z' } })).not.toThrow();
  });

  it('have one name each', () => {
    const { scheduler } = declared({ nightly: NIGHTLY });
    expect(() => scheduler.addSchedule('nightly', NIGHTLY)).toThrow(/is declared twice, got "nightly"/);
    expect(() => declared({ 'a b': NIGHTLY })).toThrow(/must be 1 to 128/);
  });

  it('may hold texts that only the deployment knows, which CloudFormation fills in, and no numbers and lists of that kind', () => {
    const { scheduler } = declared();
    const stack = Stack.of(scheduler);
    const bucket = new CfnParameter(stack, 'Bucket');
    const days = new CfnParameter(stack, 'Days', { type: 'Number' });
    const lists = new CfnParameter(stack, 'Lists', { type: 'CommaDelimitedList' });
    const add = (id: string, payload: unknown): unknown =>
      scheduler.addSchedule(id, { ...NIGHTLY, payload: payload as never });
    expect(() => add('one', { days: days.valueAsNumber })).toThrow(
      /^schedules\.one\.payload\.days: must be known when the app is synthesised/,
    );
    expect(() => add('two', { days: lists.valueAsList })).toThrow(
      /^schedules\.two\.payload\.days: must be known/,
    );
    expect(() => add(bucket.valueAsString, {})).toThrow(/^a name in schedules: must be known/);
    add('three', { bucket: bucket.valueAsString });
    const [resource] = Object.values(Template.fromStack(stack).findResources('Custom::FairleadDeclaration'));
    expect(resource?.Properties.schedules).toEqual({
      'Fn::Join': ['', [expect.stringContaining('"payload":{"bucket":"'), { Ref: 'Bucket' }, '"}}}']],
    });
  });

  it('are at most 500', () => {
    const many = Object.fromEntries(Array.from({ length: 501 }, (_, at) => [`s${at}`, NIGHTLY]));
    expect(() => declared(many)).toThrow(/more than one deployment may declare/);
  });

  // What has ended is no mistake here.
  const bad = [...BAD_TIMES, ...BAD_REST].filter(({ title }) => title !== 'an end in the past');
  it.each(bad.map((each) => [each.title, each] as const))('are refused at synth for %s', (_, each) => {
    const { scheduler, textOf } = declared();
    const request = badRequest(each) as unknown as ScheduleRequest;
    const value = TOLD_WITHOUT_VALUE.has(each.title) ? undefined : shownValue(each);
    expect(() => scheduler.addSchedule('nightly', request)).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        field: expect.stringMatching(new RegExp(`^schedules\\.nightly\\.${each.field}\\b`)),
        message: expect.stringMatching(ALLOWED),
      }),
    );
    expect(() => scheduler.addSchedule('nightly', request)).toThrow(value ?? 'nightly');
    expect(textOf()).toEqual({});
  });

  it.each([
    ['NaN', { limit: Number.NaN }],
    ['an infinite number', [Number.POSITIVE_INFINITY]],
    ['a large integer', { limit: 5n }],
    ['a function', { run: () => 1 }],
  ])('are refused at synth for a payload with %s, which would be lost on the way', (_, payload) => {
    expect(() => declared().scheduler.addSchedule('nightly', { ...NIGHTLY, payload })).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        field: 'schedules.nightly.payload',
        message: expect.stringContaining('contains a value that JSON cannot represent'),
      }),
    );
  });
});
