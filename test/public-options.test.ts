/** Every options object that users give: an unknown or absurd field is refused by its name, with what stood there and the way out, before anything happens. */

import { App, Stack } from 'aws-cdk-lib';
import { describe, expect, it } from 'vitest';
import { bundlingWithNativeModules, Scheduler, WorkerFunction } from '../cdk/index.ts';
import { SchedulerClient } from '../lib/client/aws.ts';
import { StoreClient } from '../lib/client/client.ts';
import { ScheduleVerbs } from '../lib/client/schedules.ts';
import { runDispatcher } from '../lib/dispatch/resident/resident.ts';
import { httpApp } from '../lib/http/app.ts';
import { defineJobs, job, only } from '../lib/jobs/jobs.ts';
import { traceJobs, traceSubmissions } from '../lib/otel/otel.ts';
import { startEmulator, TestScheduler, testHandler, testScheduler } from '../lib/testing/index.ts';
import { runFleetWorker, runForwardingWorker } from '../lib/worker/fleet-worker.ts';
import { parkOf } from '../lib/worker/kept.ts';
import {
  CooldownError,
  cooldownFrom,
  fromSqsHandler,
  RetryAfterError,
  worker,
} from '../lib/worker/lambda.ts';
import packageJson from '../package.json' with { type: 'json' };
import { desk } from './client/desk.ts';
import { VERBS } from './client/verbs.ts';
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

const JOBS = defineJobs({ render: job<{ page: number }>() });
const HANDLERS = { render: () => null };
/** An answer whose status asks for a rest. */
const BUSY = { status: 429, headers: new Headers() };

/** Uses a scheduler for tests. */
const tested =
  (use: (t: TestScheduler, options: never) => unknown) =>
  async (options: never): Promise<void> => {
    const t = await testScheduler(JOBS, {}, { handlers: HANDLERS });
    try {
      await use(t as unknown as TestScheduler, options);
    } finally {
      await t.dispose();
    }
  };

const { render } = HANDLERS;

const SURFACES: Readonly<Record<string, Surface>> = {
  ...Object.fromEntries(
    Object.entries(VERBS).map(([name, call]): [string, Surface] => [
      `${name}(_, options)`,
      {
        give: (options) => call(desk().client, options),
        cases: [
          [{ sgnal: 5 }, 'options.sgnal'],
          [{ signal: {} }, 'options.signal'],
        ],
      },
    ]),
  ),
  'httpApp(options)': {
    with: { client: desk().client },
    give: (options) => httpApp(options),
    cases: [
      [{ roles: 'read' }, 'options.roles: is not a known field, got "read". Did you mean "role"?'],
      [{ client: undefined }, 'options.client'],
      [{ client: {} }, 'options.client: must be a SchedulerClient'],
      [{ role: 'reader' }, 'options.role: must be one of read, submit, operate, got "reader"'],
      [{ who: 'me' }, 'options.who'],
      [{ waitMs: 0 }, 'options.waitMs'],
      [{ waitMs: DAYS_24_MS }, 'options.waitMs'],
      [{ waitMs: '20s' }, 'options.waitMs'],
      [{ events: () => {} }, 'options.events'],
      [{ ingest: {} }, 'options.ingest'],
      [{ onError: true }, 'options.onError'],
    ],
  },
  'httpApp()': { give: (options) => httpApp(options), cases: [[undefined as never, 'options']] },
  'SchedulerClient.for(_, settings)': {
    give: (settings) => SchedulerClient.for(JOBS, settings),
    cases: [
      [{ table: 'other' }, 'table: is not a known field'],
      [{ maxAttempts: -1 }, 'maxAttempts'],
    ],
  },
  'job(options)': {
    give: (options) => job(options),
    cases: [
      [{ fairnesKey: () => 'a' }, 'job.fairnesKey'],
      [{ resourceId: 'a' }, 'job.resourceId'],
      [{ payload: {} }, 'job.payload'],
    ],
  },
  'defineJobs(definitions)': {
    give: (definitions) => defineJobs(definitions),
    cases: [
      [{ report: {} }, 'jobs.report'],
      [null as never, 'jobs'],
    ],
  },
  'only(jobs, ...)': {
    give: (name) => only(JOBS, name),
    cases: [['rendr' as never, 'types: is not a declared job type, got "rendr". Did you mean "render"?']],
  },
  'fromSqsHandler(_, options)': {
    give: (options) => fromSqsHandler(() => {}, options),
    cases: [
      [{ queueARN: 'a' }, 'queueARN'],
      [{ queueArn: '' }, 'queueArn'],
    ],
  },
  'worker(_, _, options)': {
    give: (options) => worker(JOBS, HANDLERS, options),
    cases: [
      [{ uses: [] }, 'options.uses'],
      [{ use: [1] }, 'options.use[0]'],
    ],
  },
  'new CooldownError(_, options)': {
    give: (options) => new CooldownError('60s', options),
    cases: [
      [{ limmit: 'openai' }, 'options.limmit'],
      [{ limit: '' }, 'options.limit'],
      [{ type: 7 }, 'options.type'],
      [{ key: false }, 'options.key'],
      [{ message: 7 }, 'options.message'],
    ],
  },
  'cooldownFrom(_, options)': {
    give: (options) => cooldownFrom(BUSY, options),
    cases: [[{ limmit: 'openai' }, 'options.limmit']],
  },
  'new RetryAfterError(_, options)': {
    give: (options) => new RetryAfterError('30s', options),
    cases: [
      [{ mesage: 'x' }, 'options.mesage'],
      [{ message: 7 }, 'options.message'],
    ],
  },
  'RetryAfterError.from(_, options)': {
    give: (options) => RetryAfterError.from(BUSY, options),
    cases: [
      [{ atmost: '1h' }, 'options.atmost'],
      [{ otherwise: 'soon' }, 'options.otherwise'],
      [{ atMost: -1 }, 'options.atMost'],
    ],
  },
  'ctx.park(options)': {
    with: { until: '+15m' },
    give: (options) => parkOf({ id: 'a' } as never, undefined, 65_536, () => 0)(options),
    cases: [
      [{ releaseConflicts: true }, 'options.releaseConflicts'],
      [{ releaseConflict: 'yes' }, 'options.releaseConflict'],
      [{ until: undefined }, 'until'],
    ],
  },
  'runForwardingWorker(_, options)': {
    give: (options) => runForwardingWorker('http://127.0.0.1:8080', options),
    cases: [
      [{ slot: 4 }, 'options.slot'],
      [{ slots: 0 }, 'options.slots'],
    ],
  },
  'testScheduler(_, declaration, _)': {
    give: (declaration) => testScheduler(JOBS, declaration, { handlers: HANDLERS }),
    cases: [
      [{ type: {} }, 'type'],
      [{ types: { rendr: {} } }, 'rendr'],
      [{ fleets: { pdf: { types: ['render'], slot: 1 } } }, 'fleets.pdf.slot'],
    ],
  },
  't.runUntilIdle(options)': {
    give: tested((t, options) => t.runUntilIdle(options)),
    cases: [
      [{ whithin: '1d' }, 'options.whithin'],
      [{ within: 'long' }, 'options.within'],
    ],
  },
  't.crashWorker(_, options)': {
    give: tested((t, options) => t.crashWorker('a', options)),
    cases: [[{ at: 'start' }, 'options.at']],
  },
  't.answerSlowly(_, options)': {
    give: tested((t, options) => t.answerSlowly('1s', options)),
    cases: [
      [{ for: 'long' }, 'options.for'],
      [{ lasts: '1m' }, 'options.lasts'],
      [{}, 'options.for'],
    ],
  },
  'Scheduler.fromAttributes(_, _, attributes)': {
    give: (attributes) => Scheduler.fromAttributes(inStack(), 'Jobs', attributes),
    cases: [
      [{ tableARN: 'a' }, 'tableARN'],
      [{ tableArn: 'jobs' }, 'tableArn: must be the ARN of a table, got "jobs"'],
      [{}, 'tableArn'],
    ],
  },
  'Scheduler.fromParameter(_, _, _, more)': {
    give: (more) => Scheduler.fromParameter(inStack(), 'Jobs', '/jobs', more),
    cases: [
      [{ source: [] }, 'source'],
      [{ fleetQueueArns: { pdf: 'q' } }, 'fleetQueueArns.pdf'],
    ],
  },
  'scheduler.addFleet(_, props)': {
    with: { types: ['a'] },
    give: (props) => scheduler().addFleet('pdf', props),
    cases: [
      [{ slot: 1 }, 'fleets.pdf.slot'],
      [{ types: [] }, 'fleets.pdf.types'],
    ],
  },
  'scheduler.addJobType(_, input)': {
    give: (input) => scheduler().addJobType('a', input),
    cases: [
      [{ timeout: 5 }, 'types.a.timeout'],
      [{ timeoutMs: -1 }, 'types.a.timeoutMs'],
    ],
  },
  'scheduler.addSchedule(_, schedule)': {
    with: { type: 'a', every: '1h' },
    give: (schedule) => scheduler({ types: { a: {} } }).addSchedule('hourly', schedule),
    cases: [
      [{ evry: '1h' }, 'schedules.hourly.evry'],
      [{ type: 'b' }, 'schedules.hourly.type'],
    ],
  },
  'scheduler.on(_, job)': {
    with: { type: 'a' },
    give: (given) => scheduler({ types: { a: {} } }).on({ source: ['shop'] }, given),
    cases: [
      [{ fairnesKey: '$.detail.shop' }, 'job.fairnesKey: is not a known field, got "$.detail.shop"'],
      [{ payload: 'detail' }, 'job.payload'],
      [{ tags: { order: 'x' } }, 'job.tags.order'],
      [{ tags: 'x' }, 'job.tags'],
      [{ type: 7 }, 'job.type'],
    ],
  },
  'scheduler.on(pattern, _)': {
    give: (pattern) => scheduler({ types: { a: {} } }).on(pattern, { type: 'a' } as never),
    cases: [
      [
        { detailTyp: ['x'] },
        'pattern.detailTyp: is not a known field, got an array of 1. Did you mean "detailType"?',
      ],
      [null as never, 'pattern: must be an object'],
    ],
  },
  'scheduler.scale(workers, _)': {
    give: (workers) => scheduler({ fleets: { gpu: { types: ['a'] } } }).scale(workers),
    cases: [
      [{ autoScaleTaskCount: () => {} }, 'workers: must be the scalable task count of an ECS service'],
      [undefined as never, 'workers'],
    ],
  },
  'scheduler.scale(_, props)': {
    give: (props) => scheduler().scale({} as never, props),
    cases: [
      [{ flet: 'gpu' }, 'flet'],
      [{ backlog: '1s' }, 'backlog'],
      [{ idle: 5 }, 'idle'],
    ],
  },
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
      [{ shutdownMs: '30 s' }, 'shutdownMs'],
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
  'testScheduler(_, _, options)': {
    with: { handlers: { render } },
    give: async (options) => (await testScheduler(JOBS, {}, options)).dispose(),
    cases: [
      [{ sead: 7 }, 'options.sead: is not a known field, got 7. Did you mean "seed"?'],
      [{ handlers: {} }, 'handlers: is empty'],
      [{ handlers: { render: 'render' } }, 'handlers.render: must be a function'],
      [{ use: () => null }, 'options.use: must be an array'],
      [{ use: ['trace'] }, 'options.use[0]: must be a function'],
      [{ seed: 'x' }, 'options.seed'],
      [{ seed: 1.5 }, 'options.seed'],
      [{ start: 'yesterday' }, 'options.start: must be a time'],
      [{ start: null }, 'options.start'],
      [{ takes: { rendr: '1s' } }, 'options.takes.rendr: is not a known field'],
      [{ takes: { render: 'long' } }, 'options.takes.render: must be a duration'],
      [{ countsCost: 'yes' }, 'options.countsCost'],
      [{ processSlots: 0 }, 'options.processSlots'],
      [{ patienceMs: Number.NaN }, 'options.patienceMs'],
    ],
  },
  'testHandler(_, _, _, options)': {
    give: (options) => testHandler(JOBS, render, { page: 1 }, options),
    cases: [
      [{ attempts: 2 }, 'options.attempts: is not a known field, got 2. Did you mean "attempt"?'],
      [{ type: 'rendr' }, 'types: is not a declared job type, got "rendr"'],
      [{ type: 7 }, 'options.type'],
      [{ attempt: 0 }, 'options.attempt'],
      [{ settings: { timeout: 5 } }, 'types.render.timeout'],
      [{ use: 'trace' }, 'options.use'],
      [{ seed: -1 }, 'options.seed'],
      [{ start: 'yesterday' }, 'options.start'],
      [{ patienceMs: 0 }, 'options.patienceMs'],
    ],
  },
  'testHandler(_, handler)': {
    give: (handler) => testHandler(JOBS, handler, { page: 1 }),
    cases: [[{ render } as never, 'handler: must be a function']],
  },
  'traceJobs(options)': {
    give: (options) => traceJobs(options),
    cases: [
      [{ relations: 'link' }, 'options.relations: is not a known field'],
      [{ relation: 'x' }, 'options.relation: must be one of auto, child, link, got "x"'],
      [{ relation: null }, 'options.relation'],
      [null as never, 'options'],
    ],
  },
  'traceSubmissions() among the settings of a client': {
    with: { ...traceSubmissions() },
    give: (settings) =>
      SchedulerClient.fromEnvironment(settings, { FAIRLEAD_TABLE: 't', FAIRLEAD_WAKE_QUEUE: 'q' }),
    cases: [
      [{ around: 'x' }, 'around: must be a function'],
      [{ traceparent: '00-0-0-00' }, 'traceparent: must be a function'],
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
      name: expect.stringMatching(/^(ConfigurationError|ValidationError|EnvironmentError)$/),
    });
    const { message } = refused as Error;
    expect(message).toContain(named);
    // What stood there, or what is missing; and what to do.
    expect(message).toMatch(/, (got|not) |\(got |is empty|; leave it out/);
  });
});

it.each([undefined, null, 7])('a client that is given %s says what it needs', (options) => {
  expect(() => new SchedulerClient(options as never)).toThrow(/^table: /);
});

/** What takes no options object of Fairlead's own, and why. */
const WITHOUT_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  'has no parameter but the data it reads': [
    'isDefinition',
    'readDefinitions',
    'eventSchema',
    'isOnRequest',
    'emulatorEnvironment',
    'placeText',
    'queueUrlOutput',
    'schedulerOutputs',
    'traceSubmissions',
    'scheduler.eachFleet',
    'scheduler.whenSettled',
    'scheduler.requireFleet',
    'scheduler.fleetNamed',
    'scheduler.turnOn',
    'scheduler.turnOnBy',
    'scheduler.metricsEnvironment',
    'client.destroy',
    't.begin',
    't.advance',
    't.sleep',
    't.started',
    't.job',
    't.explain',
    't.peak',
    't.overlap',
    't.cost',
    't.history',
    't.freeze',
    't.loseMessage',
    't.stepClock',
    't.runAttempt',
    't.dispose',
  ],
  'has options of aws-cdk-lib, which checks them': [
    'scheduler.metricDeadLetters',
    'scheduler.metricIngestAge',
    'scheduler.metricStreamAge',
    'scheduler.metricFleetQueueAge',
  ],
  'is made by a row of this table': ['SchedulerAlarms', 'SchedulerDashboard', 'TestScheduler'],
  'is thrown, and made, by the package alone, or has the options of any error': [
    'AbortError',
    'AttemptError',
    'BacklogFullError',
    'ConfigurationError',
    'ConflictError',
    'EnvironmentError',
    'JobCancelledError',
    'JobFailedError',
    'JobStateError',
    'MalformedItemError',
    'MisconfiguredError',
    'NotFoundError',
    'PermanentError',
    'RefusedError',
    'ThrottledError',
    'UnavailableError',
    'ValidationError',
    'WaitTimeoutError',
    'WorkerStoppedError',
  ],
};

/** Classes whose methods users call, by the word that stands for their objects in the table. */
const OBJECTS: readonly (readonly [word: string, prototype: object])[] = [
  ['scheduler', Scheduler.prototype],
  ['client', StoreClient.prototype],
  ['client', SchedulerClient.prototype],
  ['client.schedules', ScheduleVerbs.prototype],
  ['t', TestScheduler.prototype],
];

const methodsOf = (prototype: object): readonly string[] =>
  Object.entries(Object.getOwnPropertyDescriptors(prototype))
    .filter(([name, { value }]) => name !== 'constructor' && typeof value === 'function')
    .map(([name]) => name);

/** Each function and method that the package's entries export, as the table calls it. */
async function exported(): Promise<ReadonlySet<string>> {
  const sources = Object.values(packageJson.exports).flatMap((entry) =>
    typeof entry === 'string' ? [] : [entry.import.default.replace('./dist/', '../').replace(/js$/, 'ts')],
  );
  const modules: readonly object[] = await Promise.all(sources.map((source) => import(source)));
  const functions = modules.flatMap((each) =>
    Object.entries(each).filter(([, value]) => typeof value === 'function'),
  );
  return new Set([
    ...functions.map(([name]) => name),
    ...functions.flatMap(([name, value]) =>
      Object.keys(Object.getOwnPropertyDescriptors(value))
        .filter((key) => typeof value[key] === 'function' && Object.getPrototypeOf(value)[key] === undefined)
        .map((key) => `${name}.${key}`),
    ),
    ...OBJECTS.flatMap(([word, prototype]) => methodsOf(prototype).map((method) => `${word}.${method}`)),
  ]);
}

const called = (row: string): string => row.replace(/^new /, '').replace(/\(.*$/, '');

it('has a row for each options object that the package takes', async () => {
  const names = await exported();
  const known = new Set([...Object.keys(SURFACES).map(called), ...Object.values(WITHOUT_OPTIONS).flat()]);
  expect([...names].filter((name) => !known.has(name))).toEqual([]);
  // Nor does a list name what is gone. A context has no class, and a dispatcher is started by its command.
  const elsewhere = ['ctx.park', 'runDispatcher'];
  expect([...known].filter((name) => !names.has(name) && !elsewhere.includes(name))).toEqual([]);
});
