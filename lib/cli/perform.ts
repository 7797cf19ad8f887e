/** The common part of commands that talk to a deployed scheduler: options, JSON output and exit codes. */
import type { Command } from 'commander';
import type { AwsSettings } from '../client/aws.ts';
import type { CancelResult, ClientVerbs } from '../client/client.ts';
import type { FiringsOf } from '../client/firings.ts';
import type { ScheduleView } from '../client/schedules.ts';
import type { Control } from '../core/capacity.ts';
import type { JobHistory } from '../core/history.ts';
import type { Job } from '../core/job.ts';
import type { DispatchersView } from '../operate/dispatchers.ts';
import type { LiveExplanation } from '../operate/explain.ts';
import type { DeclarationView, FleetView, KeyView, TypeView } from '../operate/inspect.ts';
import type { QueueView } from '../queue/contract.ts';
import type { Rejection, UnreadableItem } from '../store/contract/records.ts';
import type { Conformance } from '../worker/conformance.ts';
import { WIDTH } from './report.ts';

/** A client, and a way to close its connections. */
export interface Connection {
  readonly client: ClientVerbs;
  readonly close: () => void;
}

/** The surroundings of these commands. */
export interface Operator {
  /** @param credentials - @default - those of the environment */
  readonly connect: (
    envFile: string | undefined,
    credentials?: AwsSettings['credentials'],
  ) => Promise<Connection>;
  /** Aborts when the user interrupts the command. */
  readonly signal?: AbortSignal | undefined;
  /** Returns the time, in epoch milliseconds. */
  readonly nowMs: () => number;
  /** The name for the history of jobs, unless `--as` gives one. */
  readonly actor: () => string;
  readonly out: (text: string) => void;
  /** Prints to the error output, for example what the command waits for. */
  readonly note: (text: string) => void;
  /** Asks the user, who answers yes or no; undefined if there is no terminal to ask at. */
  readonly ask?: ((question: string) => Promise<boolean>) | undefined;
  /** Called if a command did what it could, but some of it failed: the exit code is 1. */
  readonly partly: () => void;
  /** The width of the terminal in columns; undefined if it is not known. */
  readonly columns?: number | undefined;
}

/**
 * The shape of all `--json` output: one object, whose fields have the same names in every command. A list is
 * accompanied by `more`, which is true if it was cut; an error is `{ error: { name, message } }`.
 */
export interface Document {
  readonly job?: Job;
  readonly jobs?: readonly Job[];
  readonly jobId?: string;
  readonly repeated?: boolean;
  readonly requests?: readonly object[];
  readonly outcome?: CancelResult['outcome'] | 'created' | 'changed' | 'unchanged';
  readonly explanation?: LiveExplanation;
  readonly history?: JobHistory;
  readonly keys?: readonly KeyView[];
  readonly fleets?: readonly FleetView[];
  readonly types?: readonly TypeView[];
  readonly dispatchers?: DispatchersView['residents'];
  readonly partitions?: DispatchersView['partitions'];
  readonly declaration?: DeclarationView;
  readonly deadLetters?: readonly Job[];
  readonly redriven?: readonly object[];
  readonly attempts?: readonly object[];
  readonly entries?: readonly object[];
  readonly matches?: number;
  readonly unreadable?: readonly UnreadableItem[];
  readonly rejections?: readonly Rejection[];
  readonly queues?: readonly QueueView[];
  readonly queue?: string;
  readonly sentBack?: number;
  readonly kept?: number;
  readonly purged?: number;
  readonly control?: Control;
  readonly controls?: readonly Control[];
  readonly drained?: true;
  readonly schedule?: ScheduleView;
  readonly schedules?: readonly ScheduleView[];
  readonly deleted?: string;
  readonly firings?: readonly object[];
  readonly policies?: FiringsOf['policies'];
  readonly jitterSec?: number;
  readonly state?: FiringsOf['state'];
  readonly environment?: Readonly<Record<string, string>>;
  readonly outcomes?: number;
  readonly dryRun?: boolean;
  readonly schema?: string;
  readonly results?: readonly object[];
  readonly checks?: readonly Conformance[];
  readonly more?: boolean;
}

/** The options of output. */
export interface OutputOptions {
  readonly json?: true;
  readonly wide?: true;
}

/** The options of every command that talks to a deployed scheduler. */
export interface CommonOptions extends OutputOptions {
  readonly envFile?: string;
}

/** Adds the options of `OutputOptions`. */
export const withOutputOptions = (command: Command): Command =>
  command
    .option('--json', 'print one JSON document')
    .option('--wide', 'do not cut columns to the width of the terminal');

/** Adds the option that names the scheduler. */
export const withEnvFile = (command: Command): Command =>
  command.option(
    '-f, --env-file <file>',
    'file with FAIRLEAD_* and AWS_* settings; set variables win over it',
  );

const EXIT_CODES = `
Exit codes: 0 done; 1 it failed; 2 an argument is wrong, nothing was changed;
3 no such job or schedule; 4 it timed out; 130 interrupted.`;

export const withCommonOptions = (command: Command): Command =>
  withEnvFile(withOutputOptions(command)).addHelpText('after', EXIT_CODES);

/** The output of a command. */
export interface CommandOutput {
  /** The data that are printed with `--json`. */
  readonly data: Document;
  /** The text that is printed without `--json`, or a function from the width in columns to it. */
  readonly text: string | ((width: number) => string);
}

/** Prints a command's output. */
export function printOutput(
  { out, columns = WIDTH }: Pick<Operator, 'out' | 'columns'>,
  { json, wide }: OutputOptions,
  { data, text }: CommandOutput,
): void {
  const width = wide === true ? Number.POSITIVE_INFINITY : columns;
  const output = json === true ? JSON.stringify(data) : typeof text === 'string' ? text : text(width);
  out(`${output}\n`);
}

/** Connects, does the work, prints its output, and closes. */
export async function perform(
  operator: Operator,
  options: CommonOptions,
  work: (client: ClientVerbs) => Promise<CommandOutput>,
): Promise<void> {
  const { client, close } = await operator.connect(options.envFile);
  try {
    printOutput(operator, options, await work(client));
  } finally {
    close();
  }
}
