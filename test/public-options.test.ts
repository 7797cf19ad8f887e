/** Every options object that users give: an unknown or absurd field is refused by its name, with what stood there and the way out, before anything happens. */

import { App, Stack } from 'aws-cdk-lib';
import { describe, expect, it } from 'vitest';
import { bundlingWithNativeModules, Scheduler, WorkerFunction } from '../cdk/index.ts';
import { SchedulerClient } from '../lib/client/aws.ts';
import { runDispatcher } from '../lib/dispatch/resident/resident.ts';
import { startEmulator } from '../lib/testing/index.ts';
import { runFleetWorker } from '../lib/worker/fleet-worker.ts';
import { worker } from '../lib/worker/lambda.ts';
import { stage } from './stage/stage.ts';

/** As a user of JavaScript, or one who casts, gives it. */
type Given = Readonly<Record<string, unknown>>;

interface Surface {
  /** What else must be there. */
  readonly with?: Given;
  readonly give: (options: never) => unknown;
  /** What is refused, and how the message calls it. */
  readonly cases: readonly (readonly [given: Given, named: string])[];
}

const DAYS_24_MS = 24 * 86_400_000;
const CLIENT = { table: 't', wakeQueueUrl: 'http://127.0.0.1/q' };
const inStack = (): Stack => new Stack(new App({ context: { 'aws:cdk:bundling-stacks': [] } }), 'Jobs');
const scheduler = (props = {}): Scheduler => new Scheduler(inStack(), 'Scheduler', props);

const SURFACES: Readonly<Record<string, Surface>> = {
  'runFleetWorker(_, options)': {
    give: (options) => runFleetWorker({ render: () => null }, options),
    cases: [
      [{ slot: 4 }, 'slot: is not a known field, got 4. Did you mean "slots"?'],
      [{ slots: 0 }, 'slots'],
      [{ slots: 1.5 }, 'slots'],
      [{ slots: '4' }, 'slots'],
      [{ slots: 2_001 }, 'slots'],
      [{ workerId: '' }, 'workerId'],
      [{ workerId: 'ü'.repeat(257) }, 'workerId'],
      [{ workerId: 7 }, 'workerId'],
      [{ shutdownMs: -1 }, 'shutdownMs'],
      [{ shutdownMs: Number.NaN }, 'shutdownMs'],
      [{ shutdownMs: '30s' }, 'shutdownMs'],
      [{ heartbeatMs: 0 }, 'heartbeatMs'],
      [{ heartbeatMs: Number.POSITIVE_INFINITY }, 'heartbeatMs'],
      [{ leaseMs: DAYS_24_MS }, 'leaseMs'],
      [{ leaseMs: 0 }, 'leaseMs'],
      [{ metrics: 'yes' }, 'metrics'],
    ],
  },
  'runFleetWorker(handlers)': {
    give: (handlers) => runFleetWorker(handlers),
    cases: [
      [{}, 'handlers: is empty'],
      [{ render: 'render' }, 'handlers.render: must be a function, got "render"'],
      [[] as never, 'handlers'],
    ],
  },
  'worker(handlers)': {
    give: (handlers) => worker(handlers),
    cases: [
      [{}, 'handlers: is empty'],
      [{ render: null }, 'handlers.render: must be a function'],
      [undefined as never, 'handlers'],
    ],
  },
  'new SchedulerClient(options)': {
    with: CLIENT,
    give: (options) => new SchedulerClient(options),
    cases: [
      [{ tabel: 't' }, 'tabel: is not a known field, not "t". Did you mean "table"?'],
      [{ table: '' }, 'table'],
      [{ table: undefined }, 'table'],
      [{ wakeQueueUrl: 7 }, 'wakeQueueUrl'],
      [{ wakeFunctionArn: 'arn' }, 'wakeFunctionArn'],
      [{ region: '' }, 'region'],
      [{ endpoint: 4566 }, 'endpoint'],
      [{ credentials: 'secret' }, 'credentials'],
      [{ maxAttempts: 0 }, 'maxAttempts'],
      [{ requestTimeoutMs: DAYS_24_MS }, 'requestTimeoutMs'],
      [{ requestTimeoutMs: 'soon' }, 'requestTimeoutMs: must be a duration'],
      [{ jobs: [] }, 'jobs: must be an object of job types by name'],
      [{ jobs: { report: {} } }, 'jobs.report: must be made by job()'],
      [{ promptStart: 'no' }, 'promptStart'],
      [{ traceparent: '00-0-0-00' }, 'traceparent'],
    ],
  },
  'SchedulerClient.fromEnvironment(settings)': {
    give: (settings) =>
      SchedulerClient.fromEnvironment(settings, { FAIRLEAD_TABLE: 't', FAIRLEAD_WAKE_QUEUE: 'q' }),
    cases: [
      [{ table: 'other' }, 'table: is not a known field'],
      [{ promptstart: true }, 'promptstart'],
      [{ maxAttempts: -1 }, 'maxAttempts'],
    ],
  },
  'startEmulator(options)': {
    give: (options) => startEmulator(options),
    cases: [
      [{ ports: 1 }, 'options.ports: is not a known field'],
      [{ port: 70_000 }, 'options.port'],
      [{ port: '80' }, 'options.port'],
      [{ dataDir: '' }, 'options.dataDir'],
      [{ log: true }, 'options.log'],
      [{ signal: {} }, 'options.signal'],
    ],
  },
  'runDispatcher(options)': {
    give: (options: Given) => {
      const { store, main } = stage();
      return runDispatcher({ ...main, store, dispatcherId: 'd', signal: AbortSignal.abort(), ...options });
    },
    cases: [
      [{ dispatcherId: '' }, 'dispatcherId'],
      [{ memberLeaseMs: DAYS_24_MS }, 'memberLeaseMs'],
      [{ pollMs: 0 }, 'pollMs'],
      [{ passEveryMs: -1 }, 'passEveryMs'],
      [{ countEveryMs: Number.NaN }, 'countEveryMs'],
      [{ shutdownMs: -1 }, 'shutdownMs'],
    ],
  },
  'new Scheduler(_, _, props)': {
    give: (props) => scheduler(props),
    cases: [
      [{ fleet: {} }, 'fleet: is not a known field'],
      [{ fleets: { pdf: { types: ['a'], slot: 1 } } }, 'fleets.pdf.slot'],
      [{ types: { a: { timeout: 5 } } }, 'types.a.timeout'],
      [{ metrics: ['runing'] }, 'metrics[0]'],
    ],
  },
  'scheduler.alarms(props)': {
    give: (props) => scheduler().alarms(props),
    cases: [
      [{ lags: 5 }, 'lags'],
      [{ failedPercent: 101 }, 'failedPercent'],
    ],
  },
  'scheduler.dashboard(props)': {
    give: (props) => scheduler().dashboard(props),
    cases: [
      [{ name: 'x' }, 'name'],
      [{ past: 3 }, 'past'],
    ],
  },
  'new WorkerFunction(_, _, props)': {
    give: (props) => new WorkerFunction(inStack(), 'Pdf', props),
    cases: [[{ entry: 'a.ts', timeOut: 5 }, 'timeOut']],
  },
  'bundlingWithNativeModules(props)': {
    give: (props) => bundlingWithNativeModules(props),
    cases: [[{ module: ['sharp'] }, 'module']],
  },
};

const TABLE = Object.entries(SURFACES).flatMap(([name, { with: more, give, cases }]) =>
  cases.map(([given, named]) => ({
    name,
    given,
    named,
    call: () => give((more ? { ...more, ...given } : given) as never),
  })),
);

describe('what users may say', () => {
  it.each(TABLE)('to $name: $given is refused by name', async ({ call, named }) => {
    const refused = await Promise.resolve()
      .then(call)
      .then(
        () => undefined,
        (error: unknown) => error,
      );
    expect(refused).toMatchObject({
      name: expect.stringMatching(
        /^(ConfigurationError|ValidationError|EnvironmentError|ConfigurationError)$/,
      ),
    });
    const { message } = refused as Error;
    expect(message).toContain(named);
    // What stood there, or what is missing; and what to do.
    expect(message).toMatch(/, (got|not) |is empty/);
  });
});

it.each([undefined, null, 7])('a client that is given %s says what it needs', (options) => {
  expect(() => new SchedulerClient(options as never)).toThrow(/^table: /);
});
