/** What the commands that talk to a deployed scheduler have in common: their options, their documents, and how they end. */
import type { Command } from 'commander';
import type { CancelResult, StoreClient } from '../client/client.ts';
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
import { WIDTH } from './report.ts';

/** A client, and how to close it. */
export interface Connection {
  readonly client: StoreClient;
  readonly close: () => void;
}

/** What these commands work with. */
export interface Operator {
  readonly connect: (envFile: string | undefined) => Promise<Connection>;
  /** The user has had enough. */
  readonly signal?: AbortSignal | undefined;
  /** Epoch milliseconds. */
  readonly nowMs: () => number;
  /** Who asks, unless a command says otherwise. */
  readonly actor: () => string;
  readonly out: (text: string) => void;
  /** Beside the output: what a command waits for. */
  readonly note: (text: string) => void;
  /** The command did what it could, and not all went well. */
  readonly partly: () => void;
  /** Of the terminal, in letters; undefined: it does not say. */
  readonly columns?: number | undefined;
}

/**
 * The one shape of what `--json` prints: an object that calls each thing by its name, the same in every command. A list has `more`
 * beside it where there may be others; an error is `{ error: { name, message } }`.
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
  readonly more?: boolean;
}

/** How a command says what it found. */
export interface Printing {
  readonly json?: true;
  readonly wide?: true;
}

/** What every command has that talks to a deployed scheduler. */
export interface Common extends Printing {
  readonly envFile?: string;
}

/** The options of `Printing`. */
export const printing = (command: Command): Command =>
  command
    .option('--json', 'print one JSON document')
    .option('--wide', 'cut nothing, however wide the terminal is');

/** Where to find the scheduler. */
export const finding = (command: Command): Command =>
  command.option(
    '-f, --env-file <file>',
    'take FAIRLEAD_* and AWS_* settings that are not set from this file',
  );

const EXIT_CODES = `
Exit codes: 0 done; 1 what was asked for failed; 2 the command or an argument is wrong, nothing was changed;
3 no such job or schedule; 4 the time was up; 130 interrupted.`;

export const common = (command: Command): Command =>
  finding(printing(command)).addHelpText('after', EXIT_CODES);

/** What a command says: data for machines, text for people, as wide as it may be. */
export interface Said {
  readonly data: Document;
  readonly text: string | ((width: number) => string);
}

/** Prints it. */
export function say(
  { out, columns = WIDTH }: Pick<Operator, 'out' | 'columns'>,
  { json, wide }: Printing,
  { data, text }: Said,
): void {
  const width = wide === true ? Number.POSITIVE_INFINITY : columns;
  const told = json === true ? JSON.stringify(data) : typeof text === 'string' ? text : text(width);
  out(`${told}\n`);
}

/** Connects, does the work, says it, and closes. */
export async function perform(
  operator: Operator,
  options: Common,
  work: (client: StoreClient) => Promise<Said>,
): Promise<void> {
  const { client, close } = await operator.connect(options.envFile);
  try {
    say(operator, options, await work(client));
  } finally {
    close();
  }
}
