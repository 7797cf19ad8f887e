/** How errors are printed at a shell, and the exit code for each. */

import { type Command, CommanderError } from 'commander';
import {
  AbortError,
  BacklogFullError,
  ConflictError,
  JobCancelledError,
  JobFailedError,
  JobStateError,
  NotFoundError,
  WaitTimeoutError,
} from '../client/errors.ts';
import {
  ConfigurationError,
  EnvironmentError,
  MisconfiguredError,
  RefusedError,
  ThrottledError,
  UnavailableError,
  ValidationError,
} from '../core/errors.ts';
import { MalformedItemError } from '../store/contract/errors.ts';
import { printable } from './report.ts';
import { UsageError } from './usage.ts';

/** Exit codes. */
export const EXIT = {
  done: 0,
  /** The command failed, or something is wrong with the program or its environment. */
  failed: 1,
  /** The command line is wrong: an unknown option, a file that is not a scenario. */
  refused: 2,
  notFound: 3,
  timedOut: 4,
  /** The code that shells use for a command that its user interrupted. */
  interrupted: 130,
} as const;

/** Errors whose message is printed in one line without a stack, and their exit codes. */
const EXIT_CODES: readonly (readonly [new (...parts: never[]) => Error, number])[] = [
  [UsageError, EXIT.refused],
  [ValidationError, EXIT.refused],
  [EnvironmentError, EXIT.refused],
  [ConfigurationError, EXIT.refused],
  [NotFoundError, EXIT.notFound],
  [WaitTimeoutError, EXIT.timedOut],
  [AbortError, EXIT.interrupted],
  [ConflictError, EXIT.failed],
  [BacklogFullError, EXIT.failed],
  [JobFailedError, EXIT.failed],
  [JobCancelledError, EXIT.failed],
  [JobStateError, EXIT.failed],
  [ThrottledError, EXIT.failed],
  [UnavailableError, EXIT.failed],
  [MisconfiguredError, EXIT.failed],
  [RefusedError, EXIT.failed],
  [MalformedItemError, EXIT.failed],
];

/** An error as it is printed, and the exit code. */
export interface DescribedError {
  readonly code: number;
  /** The text for people; undefined if commander has printed it already. */
  readonly text: string | undefined;
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * Returns an error in the words of the command line. An unexpected error is printed with its stack.
 * @param command - the command that ran, if it was found
 */
export function describeError(error: unknown, command: Command | undefined): DescribedError {
  if (error instanceof CommanderError) {
    const code = error.exitCode === 0 ? EXIT.done : EXIT.refused;
    return { code, text: undefined, data: errorData(usageErrorOf(error)) };
  }
  const [, code] = EXIT_CODES.find(([kind]) => error instanceof kind) ?? [];
  if (!(error instanceof Error) || code === undefined) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { code: EXIT.failed, text, data: { name: 'Error', message: text } };
  }
  const message = shellMessage(error, command);
  return { code, text: oneLine(message), data: { ...errorData(error), message } };
}

/** Returns an error as data. */
export function errorData(error: Error): Readonly<Record<string, unknown>> {
  const { name, message } = error;
  return {
    name,
    message,
    ...(error instanceof ValidationError ? { field: error.field } : {}),
    ...(error instanceof BacklogFullError
      ? { waiting: error.waiting, maxWaiting: error.maxWaiting, retryAfterMs: error.retryAfterMs }
      : {}),
    ...('jobId' in error && typeof error.jobId === 'string' ? { jobId: error.jobId } : {}),
  };
}

/**
 * Returns the message of an error, with options, commands and keys in place of a program's arguments, methods and
 * signals.
 */
function shellMessage(error: Error, command: Command | undefined): string {
  if (error instanceof EnvironmentError && error.setting !== undefined)
    return `${error.setting} is not set; write the settings into a file with \`fairlead env --stack STACK > .env\`, and give that file with -f .env`;
  if (error instanceof AbortError) return `interrupted; ${interruptedText(error)}`;
  if (error instanceof ValidationError) return validationText(error, command);
  return error.message;
}

function interruptedText({ mayHaveChanged, jobId, cancel }: AbortError): string {
  if (!mayHaveChanged) return 'nothing was changed';
  if (jobId === undefined) return 'a change that was under way may have been made';
  if (cancel === 'cancelled') return `job ${jobId} was cancelled, and will not run`;
  if (cancel === 'requested') return `the worker of job ${jobId} was asked to stop`;
  return `job ${jobId} continues: \`fairlead jobs cancel ${jobId}\` cancels it`;
}

/** The options whose names differ from those of the arguments that they fill. */
const OPTION_NAMES: Readonly<Record<string, string>> = {
  fairnessKey: 'key',
  resourceId: 'resource',
  countUpTo: 'count',
  tags: 'tag',
  errorName: 'error',
  failedAfter: 'after',
  failedBefore: 'before',
  actor: 'as',
  timeoutMs: 'timeout',
  blackouts: 'blackout',
};

/** Options that fill fields inside an argument. */
const INNER_OPTIONS: Readonly<Record<string, string>> = {
  'dedupe.key': 'dedupeKey',
  'dedupe.keep': 'keep',
  'dedupe.quiet': 'quiet',
  'dedupe.atMost': 'atMost',
  'dedupe.whileRunning': 'whileRunning',
};

/** Names the option or argument from which the wrong value came. Fields of a file keep their names. */
function validationText(error: ValidationError, command: Command | undefined): string {
  const { field, message } = error;
  const given = command?.opts() ?? {};
  // The object that was made of options says nothing: nobody has typed it.
  const reason = (field === '' ? message : message.slice(field.length + 2)).replace(
    / \(got an object\)$/,
    '',
  );
  const [, argument = '', rest = ''] =
    /^(?:(?:filter|options|change|scope)\.)?([^.[]*)(.*)$/s.exec(INNER_OPTIONS[field] ?? field) ?? [];
  if (command === undefined || given.file !== undefined || argument === '') return message;
  const name = OPTION_NAMES[argument] ?? argument;
  const long = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const options = [`${long}-file`, long].filter((each) =>
    command.options.some((option) => option.long === `--${each}`),
  );
  const isGiven = (option: string): boolean =>
    given[option.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())] !== undefined;
  const option = options.find(isGiven) ?? options.at(-1);
  const at = rest === '' ? '' : ` ${rest.replace(/^\./, '')}`;
  if (option !== undefined) return `--${option}${at}: ${reason}`;
  const names = command.registeredArguments.map((each) => each.name());
  const placed = names.find((each) => each === argument || argument.toLowerCase().endsWith(each)) ?? argument;
  return `${placed}${at}: ${reason}`;
}

/** Returns the error that commander reports. If a command is missing, commander only prints the help. */
const usageErrorOf = ({ code, message }: CommanderError): UsageError =>
  new UsageError(
    code === 'commander.help'
      ? 'a command is missing; fairlead --help lists them'
      : message.replace(/^error: /, ''),
  );

/** Returns a message as one line without control characters: it may quote text of others that has line breaks. */
const oneLine = (message: string): string => printable(message.replace(/\s*[\r\n]+\s*/g, ' '));
