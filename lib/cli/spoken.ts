/** How errors are said at a shell, and how a command ends with each. */

import { type Command, CommanderError } from 'commander';
import {
  AbortError,
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

/** How a command ends. */
export const EXIT = {
  done: 0,
  /** What was asked for failed, or something is wrong with the program or its surroundings. */
  failed: 1,
  /** Something is wrong with what it was asked: an unknown option, a file that is no scenario. */
  refused: 2,
  notFound: 3,
  timedOut: 4,
  /** As a shell says of a command that its user interrupted. */
  interrupted: 130,
} as const;

/** Errors that speak for themselves, in one line, and how a command ends with each. */
const SPOKEN: readonly (readonly [new (...parts: never[]) => Error, number])[] = [
  [UsageError, EXIT.refused],
  [ValidationError, EXIT.refused],
  [EnvironmentError, EXIT.refused],
  [ConfigurationError, EXIT.refused],
  [NotFoundError, EXIT.notFound],
  [WaitTimeoutError, EXIT.timedOut],
  [AbortError, EXIT.interrupted],
  [ConflictError, EXIT.failed],
  [JobFailedError, EXIT.failed],
  [JobCancelledError, EXIT.failed],
  [JobStateError, EXIT.failed],
  [ThrottledError, EXIT.failed],
  [UnavailableError, EXIT.failed],
  [MisconfiguredError, EXIT.failed],
  [RefusedError, EXIT.failed],
  [MalformedItemError, EXIT.failed],
];

/** What a command says of an error, and how it ends. */
export interface SpokenError {
  readonly code: number;
  /** For people; undefined: it was said already. */
  readonly text: string | undefined;
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * An error in the words of the shell. One that nobody foresaw comes with its stack.
 * @param command - the one that was asked for, as far as it was found
 */
export function spoken(error: unknown, command: Command | undefined): SpokenError {
  if (error instanceof CommanderError) {
    const code = error.exitCode === 0 ? EXIT.done : EXIT.refused;
    return { code, text: undefined, data: errorData(usageErrorOf(error)) };
  }
  const [, code] = SPOKEN.find(([kind]) => error instanceof kind) ?? [];
  if (!(error instanceof Error) || code === undefined) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { code: EXIT.failed, text, data: { name: 'Error', message: text } };
  }
  const message = atShell(error, command);
  return { code, text: oneLine(message), data: { ...errorData(error), message } };
}

/** An error as data. */
export function errorData(error: Error): Readonly<Record<string, unknown>> {
  const { name, message } = error;
  return {
    name,
    message,
    ...(error instanceof ValidationError ? { field: error.field } : {}),
    ...('jobId' in error && typeof error.jobId === 'string' ? { jobId: error.jobId } : {}),
  };
}

/** Programs hear of arguments, methods and signals; people at a shell of options, commands and keys. */
function atShell(error: Error, command: Command | undefined): string {
  if (error instanceof EnvironmentError && error.setting !== undefined)
    return `${error.setting} is not set; write the settings into a file with \`fairlead env --stack STACK > .env\`, and name that with -f .env`;
  if (error instanceof AbortError) return `interrupted; ${interruptedText(error)}`;
  if (error instanceof ValidationError) return validationText(error, command);
  return error.message;
}

function interruptedText({ mayHaveChanged, jobId, cancel }: AbortError): string {
  if (!mayHaveChanged) return 'nothing was changed';
  if (jobId === undefined) return 'a change that was under way may have been made';
  if (cancel === 'cancelled') return `job ${jobId} was cancelled, and will not run`;
  if (cancel === 'requested') return `the worker of job ${jobId} was asked to stop`;
  return `job ${jobId} goes on: \`fairlead jobs cancel ${jobId}\` ends it`;
}

/** What options are called that fill an argument of another name. */
const OPTIONS: Readonly<Record<string, string>> = {
  fairnessKey: 'key',
  resourceId: 'resource',
  countUpTo: 'count',
  errorName: 'error',
  failedAfter: 'after',
  failedBefore: 'before',
  actor: 'as',
  timeoutMs: 'timeout',
  blackouts: 'blackout',
};

/** The same problem of the option, or the argument, that it was made from. What stands in a file keeps its name there. */
function validationText(error: ValidationError, command: Command | undefined): string {
  const { field, message } = error;
  const given = command?.opts() ?? {};
  const reason = field === '' ? message : message.slice(field.length + 2);
  const [, argument = '', rest = ''] =
    /^(?:(?:filter|options|change|scope)\.)?([^.[]*)(.*)$/s.exec(field) ?? [];
  if (command === undefined || given.file !== undefined || argument === '') return message;
  const name = OPTIONS[argument] ?? argument;
  const long = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const options = [`${long}-file`, long].filter((each) =>
    command.options.some((option) => option.long === `--${each}`),
  );
  const isGiven = (option: string): boolean =>
    given[option.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())] !== undefined;
  const option = options.find(isGiven) ?? options.at(-1);
  const at = rest === '' ? '' : ` ${rest.replace(/^\./, '')}`;
  if (option !== undefined) return `--${option}${at}: ${reason}`;
  const place = command.registeredArguments.map((each) => each.name());
  const placed = place.find((each) => each === argument || argument.toLowerCase().endsWith(each)) ?? argument;
  return `${placed}${at}: ${reason}`;
}

/** Of a command that is missing, commander only shows the help. */
const usageErrorOf = ({ code, message }: CommanderError): UsageError =>
  new UsageError(
    code === 'commander.help'
      ? 'a command is missing; fairlead --help names those there are'
      : message.replace(/^error: /, ''),
  );

/** Messages quote what others wrote. */
const oneLine = (message: string): string => printable(message.replace(/\s*[\r\n]+\s*/g, ' '));
