/**
 * `fairlead jobs logs`: the lines that the attempts of a job have logged. A function's attempt is found by what its
 * history has: the name of the worker is the function's name and the id of the request.
 */
import type {
  FilterLogEventsCommandInput,
  FilterLogEventsCommandOutput,
} from '@aws-sdk/client-cloudwatch-logs';
import type { Command } from 'commander';
import { MisconfiguredError } from '../core/errors.ts';
import type { JobAttempt } from '../core/history.ts';
import { type CommonOptions, type Operator, perform, withCommonOptions } from './perform.ts';
import { instant, printable } from './report.ts';
import { LIMIT, limitOf } from './usage.ts';

/** Where the lines of one attempt are. */
export interface LogQuery {
  readonly functionName: string;
  readonly requestId: string;
  /** Epoch milliseconds. */
  readonly fromMs: number;
  readonly untilMs: number;
  /** The most lines. */
  readonly limit: number;
}

export interface LogLine {
  /** Epoch milliseconds. */
  readonly atMs: number;
  readonly text: string;
}

/** Reads lines, the oldest first. */
export type ReadLogs = (query: LogQuery) => Promise<readonly LogLine[]>;

/** The command's surroundings. */
export interface LogReader extends Operator {
  readonly readLogs: ReadLogs;
}

/** An attempt with the lines that it has logged. */
interface AttemptLog
  extends Pick<JobAttempt, 'attempt' | 'workerId' | 'startedAtMs' | 'endedAtMs' | 'outcome'> {
  /** Undefined: the attempt did not run in a function. */
  readonly lines?: readonly LogLine[] | undefined;
}

/**
 * Milliseconds before and after the attempt that are read, because a function writes its own lines a moment before the
 * attempt and after it.
 */
const AROUND_MS = 5_000;

async function logOf(
  read: ReadLogs,
  { attempt, workerId, startedAtMs, endedAtMs, outcome }: JobAttempt,
  limit: number,
  nowMs: number,
): Promise<AttemptLog> {
  const ran = { attempt, workerId, startedAtMs, endedAtMs, outcome };
  const [, functionName, requestId] = /^([\w-]+)\/([0-9a-f-]{36})$/.exec(workerId ?? '') ?? [];
  if (functionName === undefined || requestId === undefined || startedAtMs === undefined) return ran;
  const times = { fromMs: startedAtMs - AROUND_MS, untilMs: (endedAtMs ?? nowMs) + AROUND_MS };
  return { ...ran, lines: await read({ functionName, requestId, ...times, limit }) };
}

function logText({ attempt, workerId, outcome, lines }: AttemptLog): string {
  const title = `attempt ${attempt}, ${outcome}, ${workerId === undefined ? 'on no worker' : `on ${printable(workerId)}`}`;
  if (lines === undefined)
    return `${title}: it did not run in a function, so look into the logs of its process`;
  if (lines.length === 0) return `${title}: no lines; they may have expired, or come soon`;
  return [title, ...lines.map(({ atMs, text }) => `${instant(atMs)}  ${printable(text.trimEnd())}`)].join(
    '\n',
  );
}

export function addLogs(jobs: Command, operator: LogReader): void {
  withCommonOptions(
    jobs
      .command('logs')
      .description(
        'Show what each attempt of a job in a function has logged. Jobs of one invocation share its lines.',
      )
      .argument('<id>')
      .option('--limit <number>', 'at most this many lines of each attempt', LIMIT),
  ).action((id: string, options: CommonOptions & { readonly limit: string }) => {
    const limit = limitOf(options.limit);
    return perform(operator, options, async (client) => {
      const { events } = await client.history(id, { signal: operator.signal });
      const attempts: AttemptLog[] = [];
      for (const event of events)
        if (event.kind === 'attempt')
          attempts.push(await logOf(operator.readLogs, event, limit, operator.nowMs()));
      const text = attempts.length === 0 ? 'no attempt has started' : attempts.map(logText).join('\n\n');
      return { data: { attempts }, text };
    });
  });
}

/** Asks CloudWatch Logs for one page of lines. */
type FilterEvents = (
  input: FilterLogEventsCommandInput,
) => Promise<Omit<FilterLogEventsCommandOutput, '$metadata'>>;

/** The most pages of one read. A page may be empty although others follow. */
const PAGES_MAX = 100;

/** Reads from a log group. */
export async function linesIn(
  filterEvents: FilterEvents,
  logGroupName: string,
  { requestId, fromMs, untilMs, limit }: LogQuery,
): Promise<readonly LogLine[]> {
  const lines: LogLine[] = [];
  const range = { startTime: Math.floor(fromMs), endTime: Math.ceil(untilMs) };
  const filter = { logGroupName, filterPattern: JSON.stringify(requestId), ...range, limit };
  let nextToken: string | undefined;
  for (let page = 0; page < PAGES_MAX && lines.length < limit; page += 1) {
    const answer = await filterEvents({ ...filter, nextToken });
    for (const { timestamp = 0, message = '' } of answer.events ?? [])
      lines.push({ atMs: timestamp, text: message });
    ({ nextToken } = answer);
    if (nextToken === undefined) break;
  }
  return lines.slice(0, limit);
}

/** Reads the lines of a request from the log group that its function's configuration names. */
export const readLogs: ReadLogs = async (query) => {
  const { CloudWatchLogsClient, FilterLogEventsCommand } = await import('@aws-sdk/client-cloudwatch-logs');
  const { LambdaClient, GetFunctionConfigurationCommand } = await import('@aws-sdk/client-lambda');
  const lambda = new LambdaClient({});
  const logs = new CloudWatchLogsClient({});
  const { functionName } = query;
  try {
    const { LoggingConfig } = await lambda.send(
      new GetFunctionConfigurationCommand({ FunctionName: functionName }),
    );
    return await linesIn(
      (input) => logs.send(new FilterLogEventsCommand(input)),
      LoggingConfig?.LogGroup ?? `/aws/lambda/${functionName}`,
      query,
    );
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new MisconfiguredError(
      `the logs of ${functionName} cannot be read (${reason}); check AWS_REGION, and the rights to lambda:GetFunctionConfiguration and logs:FilterLogEvents`,
      { cause },
    );
  } finally {
    lambda.destroy();
    logs.destroy();
  }
};
