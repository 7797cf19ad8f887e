/** What `bench:cloud` is asked for. */
import { parseArgs } from 'node:util';
import { BATCH_SIZE_MAX } from '../../lib/core/capacity.ts';
import { POLLER_MODELS, type PollerModel } from './deployment.ts';
import { WORKER_KINDS, type WorkerKind } from './measure.ts';
import { pickRows, type RowSpec, RowsError } from './rows.ts';
import { TABLES, type TableLimits } from './throttle.ts';

/** Thrown for an argument with a value that is not allowed. */
class ArgumentError extends Error {
  override readonly name = 'ArgumentError';
}

function oneOf<T extends string>(option: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((each) => each === value);
  if (found !== undefined) return found;
  throw new ArgumentError(`--${option} is ${JSON.stringify(value)}; it is one of ${allowed.join(', ')}`);
}

function wholeNumber(option: string, text: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least && value <= most) return value;
  const bounds = most === Number.MAX_SAFE_INTEGER ? `${least}` : `${least} to ${most}`;
  throw new ArgumentError(`--${option} is ${JSON.stringify(text)}; it is a whole number from ${bounds}`);
}

/** Read units of a table are given with its write units: three for each, as a new table has them. */
const READS_OF_WRITES = 3;

/** What a table takes, named or in write units a second. */
function tableOf(text: string): Pick<TableLimits, 'writeUnits' | 'readUnits'> {
  const { new: fresh, quota, raised } = TABLES;
  const named = new Map(Object.entries({ new: fresh, quota, raised })).get(text);
  if (named !== undefined) return { writeUnits: named.writeUnits, readUnits: named.readUnits };
  if (/^[1-9]\d*$/.test(text)) {
    return { writeUnits: Number(text), readUnits: READS_OF_WRITES * Number(text) };
  }
  throw new ArgumentError(
    `--table is ${JSON.stringify(text)}; it is one of new, quota, raised, or write units a second from 1`,
  );
}

const PRODUCERS_MAX = 10_000;

/** Options that change what a row means. */
const KEPT_AS_THEY_ARE = [
  'table',
  'key-units',
  'pollers',
  'workers',
  'prompt',
  'batch',
  'producers',
  'rate',
  'seed',
] as const;

export interface BenchArguments {
  readonly json: boolean;
  readonly save: boolean;
  /** Whether to tell what each line of usage came from. */
  readonly sources: boolean;
  readonly rows: readonly RowSpec[];
  /** Other than the rows' own. */
  readonly limits: Partial<TableLimits>;
  readonly pollers: PollerModel;
  readonly workers: WorkerKind;
  /** Whether clients tell dispatchers of jobs. */
  readonly isPrompt: boolean;
  /** Jobs that one invocation of a worker takes; undefined: the construct's default. */
  readonly batchSize: number | undefined;
  /** Processes that submit with the client; undefined: as many as the rows have. */
  readonly producers: number | undefined;
  /** Jobs that are asked for in a second; undefined: the row's. */
  readonly jobsPerSecond: number | undefined;
  readonly seed: number;
}

/**
 * @throws ArgumentError, RowsError, and what `parseArgs` throws: `isArgumentError` knows them
 */
export function parseArguments(argv: readonly string[]): BenchArguments {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      json: { type: 'boolean', default: false },
      save: { type: 'boolean', default: false },
      sources: { type: 'boolean', default: false },
      only: { type: 'string' },
      table: { type: 'string' },
      'key-units': { type: 'string' },
      pollers: { type: 'string', default: 'documented' },
      workers: { type: 'string', default: 'functions' },
      prompt: { type: 'string', default: 'yes' },
      batch: { type: 'string' },
      producers: { type: 'string' },
      rate: { type: 'string' },
      seed: { type: 'string', default: '1' },
    },
  });
  const changed = KEPT_AS_THEY_ARE.filter((option) =>
    argv.some((each) => each === `--${option}` || each.startsWith(`--${option}=`)),
  );
  if (values.save && changed.length > 0) {
    throw new ArgumentError(`--save keeps what the defaults come to; leave --${changed[0]} out`);
  }
  return {
    json: values.json,
    save: values.save,
    sources: values.sources,
    rows: pickRows(values.only),
    limits: {
      ...(values.table === undefined ? {} : tableOf(values.table)),
      ...(values['key-units'] === undefined
        ? {}
        : { keyWriteUnits: wholeNumber('key-units', values['key-units'], 1) }),
    },
    pollers: oneOf('pollers', values.pollers, POLLER_MODELS),
    workers: oneOf('workers', values.workers, WORKER_KINDS),
    isPrompt: oneOf('prompt', values.prompt, ['yes', 'no']) === 'yes',
    batchSize: values.batch === undefined ? undefined : wholeNumber('batch', values.batch, 1, BATCH_SIZE_MAX),
    producers:
      values.producers === undefined
        ? undefined
        : wholeNumber('producers', values.producers, 1, PRODUCERS_MAX),
    jobsPerSecond: values.rate === undefined ? undefined : wholeNumber('rate', values.rate, 1),
    seed: wholeNumber('seed', values.seed, 0),
  };
}

/** Whether an error says what is wrong with an argument: its message is all that needs to be told. */
export const isArgumentError = (error: unknown): error is Error =>
  error instanceof ArgumentError ||
  error instanceof RowsError ||
  (error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS'));
