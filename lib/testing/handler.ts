/** `testHandler`: one attempt of one handler, with the context that it has in production. */
import { ConfigurationError } from '../core/errors.ts';
import type { EndState, JobError, Json } from '../core/job.ts';
import type { JobTypeInput } from '../core/pool-input.ts';
import { type Check, isFunction, objectOf, readName, wholeWithin } from '../core/read-fields.ts';
import { type Jobs, only, type ReturnedOf, readDefinitions, type SentOf, type TypeOf } from '../jobs/jobs.ts';
import { progressIn } from '../worker/attempt-host.ts';
import type { HandlerOf, HandlersOf, JobMiddleware } from '../worker/handlers.ts';
import type { JobContext } from '../worker/run-job.ts';
import { type TestSchedulerOptions, testScheduler } from './scheduler.ts';

export interface TestHandlerOptions<Type extends string = string>
  extends Pick<TestSchedulerOptions, 'seed' | 'start' | 'patienceMs'> {
  /** The type of the job, if several are declared. */
  readonly type?: Type | undefined;
  /**
   * The number of the attempt.
   * @default 1
   */
  readonly attempt?: number | undefined;
  /** The last checkpoint of the attempts before. @default - none */
  readonly lastCheckpoint?: Json | undefined;
  /** The state with which the job was parked before. @default - it was not parked */
  readonly parkedState?: Json | undefined;
  /** Settings of the type, such as its timeout and its retries. @default - the default settings */
  readonly settings?: JobTypeInput | undefined;
  /** Middlewares around the handler. @default - none */
  readonly use?: readonly JobMiddleware[] | undefined;
}

/** How the attempt ended. */
export interface HandlerRun<Result = Json | undefined> {
  /** `retried`: the attempt failed, and the job is tried again at `retryAt`. */
  readonly outcome: Exclude<EndState, 'expired'> | 'retried';
  /** The value that the handler returned, if it succeeded. */
  readonly result: Result | undefined;
  /** The error with which the attempt failed; undefined if it did not fail. */
  readonly error: JobError | undefined;
  readonly retryAt: Date | undefined;
  /** Its checkpoints, in order. */
  readonly checkpoints: readonly unknown[];
  /** The progress that it reported, in order, without what a worker drops because it is not JSON of at most 1 KB. */
  readonly progress: readonly Json[];
}

/**
 * Runs one attempt of a handler. Payload and result are checked by the schemas of the type, and the attempt has its timeout.
 *
 * @example const { result } = await testHandler(only(jobs, 'report'), report, { month: 3 }, { attempt: 2, lastCheckpoint: { row: 7 } });
 * @throws ConfigurationError - the handler is not a function, or an option is wrong
 * @throws ValidationError - the schema refuses the payload
 * @throws AssertionError - the handler never ends, or ignores its signal
 */
export async function testHandler<
  const Declared extends Jobs,
  Type extends TypeOf<Declared> = TypeOf<Declared>,
>(
  jobs: Declared,
  handler: HandlerOf<Declared[Type], Declared>,
  payload: SentOf<Declared[Type]>,
  options: TestHandlerOptions<Type> = {},
): Promise<HandlerRun<ReturnedOf<Declared[Type]>>> {
  isFunction('handler', handler);
  checkOptions('options', options);
  const {
    type = onlyTypeOf(jobs),
    attempt = 1,
    lastCheckpoint,
    parkedState,
    settings = {},
    ...others
  } = options;
  const checkpoints: unknown[] = [];
  const progress: Json[] = [];
  const watched = (given: never, context: JobContext<Declared>): unknown => {
    const { checkpoint, heartbeat } = context;
    const noted: Partial<JobContext> = {
      checkpoint: async (data) => {
        await checkpoint(data);
        checkpoints.push(data);
      },
      heartbeat: (said) => {
        const recorded = progressIn(said, () => {});
        if (recorded !== undefined) progress.push(recorded);
        heartbeat(said);
      },
    };
    return handler(given, Object.assign(context, noted));
  };
  const one = only(jobs, type) as unknown as Jobs;
  const t = await testScheduler(
    one,
    { types: { [type]: settings } },
    { ...others, takes: { [type]: 0 }, handlers: { [type]: watched } as unknown as HandlersOf<Jobs> },
  );
  const before = {
    attempt,
    ...(lastCheckpoint === undefined ? {} : { checkpoint: lastCheckpoint }),
    ...(parkedState === undefined ? {} : { parkedState }),
  };
  const job = await t.runAttempt(type, (payload ?? null) as Json, before).finally(() => t.dispose());
  const isRetried = job.state === 'scheduled';
  return {
    outcome: isRetried ? 'retried' : (job.state as Exclude<EndState, 'expired'>),
    result: job.state === 'succeeded' ? (job.result as ReturnedOf<Declared[Type]>) : undefined,
    error: job.state === 'succeeded' ? undefined : job.error,
    retryAt: isRetried ? new Date(job.runAtMs) : undefined,
    checkpoints,
    progress,
  };
}

const ATTEMPTS_MAX = 1_000;
/** The fields of `others` are checked where they are used. */
const anything: Check = () => {};
const checkOptions = objectOf({
  type: readName,
  attempt: wholeWithin(1, ATTEMPTS_MAX, 'Leave it out for 1.'),
  lastCheckpoint: anything,
  parkedState: anything,
  settings: anything,
  use: anything,
  seed: anything,
  start: anything,
  patienceMs: anything,
} satisfies Record<keyof TestHandlerOptions, Check>);

function onlyTypeOf<Type extends string>(jobs: Jobs): Type {
  const [[type] = [], another] = readDefinitions(jobs);
  if (type !== undefined && another === undefined) return type as Type;
  throw new ConfigurationError(
    'type',
    undefined,
    'must be given, because several types are declared',
    "Write { type: 'report' }, or only(jobs, 'report').",
  );
}
