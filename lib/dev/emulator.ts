/** `fairlead dev --emulator`: a project's own CDK app on the embedded emulator, with the logs of its functions. */
import { writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { CloudWatchLogsClient, FilterLogEventsCommand } from '@aws-sdk/client-cloudwatch-logs';
import { LambdaClient, paginateListFunctions } from '@aws-sdk/client-lambda';
import { environmentIn, formatted, type Outputs } from '../cli/env.ts';
import { printable } from '../cli/report.ts';
import { UsageError } from '../cli/usage.ts';
import { EnvironmentError } from '../core/errors.ts';
import { deployApp } from '../testing/deploy.ts';
import { startEmulator } from '../testing/emulator.ts';
import { EMULATOR_REGION, emulatorEnvironment } from '../testing/environment.ts';

export interface EmulatorDevOptions {
  /** The folder with the app's `cdk.json`. */
  readonly cwd: string;
  /** Holds what is installed, logs and temporary files. */
  readonly dataDir: string;
  readonly write: (line: string) => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

const LOOK_EVERY_MS = 1_000;

/**
 * Starts an emulator, deploys the app, and writes the lines of its functions until the signal. It leaves nothing running.
 *
 * @throws EnvironmentError - Python or the CDK CLI is missing, the app cannot be deployed, or the emulator has ended
 */
export async function runOnEmulator({ cwd, dataDir, write, signal }: EmulatorDevOptions): Promise<void> {
  const say = (line: string): void => write(`  ${line}`);
  write('fairlead dev: starting the emulator');
  const emulator = await startEmulator({ dataDir, log: say, signal });
  try {
    write(`fairlead dev: deploying the app of ${join(cwd, 'cdk.json')}`);
    const { endpoint } = emulator;
    const { outputs } = await deployApp({ endpoint, cwd, dataDir, signal });
    const file = join(dataDir, 'dev.env');
    await writeFile(file, `${formatted(environmentOf(endpoint, outputs, say), 'dotenv')}\n`);
    const named = relative(cwd, file);
    write(
      `fairlead dev: the stack runs at ${endpoint}. Its environment is in ${named}; in another terminal:`,
    );
    say(`npx fairlead jobs list -f ${named}`);
    say(`set -a; . ${named}; set +a; npx cdk deploy --all`);
    const over = new AbortController();
    const following = follow(endpoint, write, AbortSignal.any([signal, over.signal]));
    const { expected, reason } = await Promise.race([emulator.exited, following]);
    over.abort();
    if (!expected) throw new EnvironmentError(reason);
  } finally {
    await emulator.stop();
  }
}

/** An app without a scheduler, or with several, is reached by the AWS settings alone. */
function environmentOf(endpoint: string, outputs: Outputs, say: (line: string) => void): Outputs {
  const aws = emulatorEnvironment(endpoint);
  try {
    return { ...aws, ...environmentIn('the app', outputs, undefined) };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    say(error.message);
    return aws;
  }
}

/** How far the lines of a log group were read: their last time, and how many had it. */
interface Place {
  readonly atMs: number;
  readonly count: number;
}

/** Writes new lines of all functions until the signal. */
async function follow(
  endpoint: string,
  write: (line: string) => void,
  signal: AbortSignal,
): Promise<{ readonly expected: true; readonly reason: string }> {
  const settings = {
    endpoint,
    region: EMULATOR_REGION,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  };
  const lambda = new LambdaClient(settings);
  const logs = new CloudWatchLogsClient(settings);
  const places = new Map<string, Place>();
  try {
    while (!signal.aborted) {
      for await (const { Functions = [] } of paginateListFunctions({ client: lambda }, {})) {
        for (const { FunctionName = '', LoggingConfig } of Functions) {
          const group = LoggingConfig?.LogGroup ?? `/aws/lambda/${FunctionName}`;
          const { lines, place } = await linesAfter(logs, group, places.get(group));
          places.set(group, place);
          const label = labelOf(FunctionName);
          for (const { atMs, text } of lines) {
            const told = textOf(label, text);
            if (told !== undefined)
              write(`${new Date(atMs).toISOString().slice(11, 19)} ${label}  ${printable(told)}`);
          }
        }
      }
      await pause(signal);
    }
  } finally {
    lambda.destroy();
    logs.destroy();
  }
  return { expected: true, reason: 'stopped' };
}

const pause = (signal: AbortSignal): Promise<void> =>
  new Promise((done) => {
    const timer = setTimeout(done, LOOK_EVERY_MS);
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        done();
      },
      { once: true },
    );
  });

interface Line {
  readonly atMs: number;
  readonly text: string;
}

async function linesAfter(
  logs: CloudWatchLogsClient,
  logGroupName: string,
  place: Place = { atMs: 0, count: 0 },
): Promise<{ readonly lines: readonly Line[]; readonly place: Place }> {
  const found: Line[] = [];
  let nextToken: string | undefined;
  do {
    const page = await logs
      .send(new FilterLogEventsCommand({ logGroupName, startTime: place.atMs, nextToken }))
      .catch((error: unknown) => {
        // A function that has not run yet has no log group.
        if (error instanceof Error && error.name === 'ResourceNotFoundException') return undefined;
        throw error;
      });
    for (const { timestamp = 0, message = '' } of page?.events ?? [])
      found.push({ atMs: timestamp, text: message.trimEnd() });
    nextToken = page?.nextToken;
  } while (nextToken !== undefined);
  const isKnown = (at: number): boolean => found[at]?.atMs === place.atMs && at < place.count;
  const lines = found.filter((_, at) => !isKnown(at));
  const lastMs = found.at(-1)?.atMs ?? place.atMs;
  const count = found.filter(({ atMs }) => atMs === lastMs).length;
  return { lines: lines.filter(({ text }) => isTold(text)), place: { atMs: lastMs, count } };
}

/** Lines of Lambda and of Node.js itself, and metrics, tell a developer nothing. */
const isTold = (text: string): boolean =>
  text !== '' &&
  !/^(START|END|REPORT|INIT_START) |^\(node:\d+\) \[DEP|^\(Use `node /.test(text) &&
  !text.includes('"_aws":');

/** The scheduler's own functions, of which only warnings are told. */
const OWN = /(Dispatch|Ingest|Declaration)Function$/;

/** Fields of structured lines that are the same in each of them. */
const USUAL = [
  'level',
  'message',
  'timestamp',
  'service',
  'cold_start',
  'function_name',
  'function_request_id',
];

/** A line as a person reads it: of a structured one its message and its own fields. Undefined if it is not told. */
function textOf(label: string, text: string): string | undefined {
  const line = structured(text);
  if (line === undefined) return text;
  const { level, message } = line;
  if (level === 'INFO' && OWN.test(label)) return undefined;
  const own = Object.entries(line).filter(([name]) => !USUAL.includes(name));
  const given = own.length === 0 ? '' : ` ${JSON.stringify(Object.fromEntries(own))}`;
  return `${level === 'INFO' ? '' : `${String(level)} `}${String(message)}${given}`;
}

/** The fields of a line that a JSON logger has written. */
function structured(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const line: unknown = JSON.parse(text);
    const isOne = typeof line === 'object' && line !== null && 'message' in line && 'level' in line;
    return isOne ? { ...line } : undefined;
  } catch {
    return undefined;
  }
}

/** The id that the CDK made a function's name from. */
const labelOf = (name: string): string => name.replace(/^.*?-(\w+?)[0-9A-F]{8}-\w+$/, '$1');
