/** The command line: what it understands, what it prints, how it ends. */
import { createRequire } from 'node:module';
import { hostname, userInfo } from 'node:os';
import { Command, CommanderError } from 'commander';
import {
  AbortError,
  ClientEnvironmentError,
  ControlChangedError,
  DrainTimeoutError,
  IdempotencyConflictError,
  JobCancelledError,
  JobFailedError,
  JobNotFoundError,
  JobStateError,
  RunTimeoutError,
  ScheduleDeclaredError,
  ScheduleNotFoundError,
  ValidationError,
} from '../client/errors.ts';
import { ConfigurationError } from '../core/errors.ts';
import { ACTOR_BYTES_MAX } from '../core/history.ts';
import { DeclarationMissing } from '../dispatch/declaration.ts';
import { OutcomesUnpublishedError } from '../dispatch/outcomes.ts';
import { BusMisconfigured } from '../events/errors.ts';
import { QueueMisconfigured, QueueRefused, QueueUnavailable } from '../queue/errors.ts';
import { readScenarioFile, ScenarioError } from '../simulate/scenario-file.ts';
import {
  MalformedItemError,
  StoreMisconfigured,
  StoreRefused,
  StoreThrottled,
  StoreUnavailable,
} from '../store/errors.ts';
import {
  type ConnectDispatcher,
  type Connection,
  connect,
  connectDispatcher,
  connectPublisher,
  connectQueues,
  readStack,
  StackUnreadableError,
} from './connect.ts';
import { addDispatcher } from './dispatcher.ts';
import { addEnv, type ReadStack } from './env.ts';
import { addOperations, errorData } from './operations.ts';
import { addOutcomes, type ConnectPublisher } from './outcomes.ts';
import { addQueues, type ConnectQueues } from './queues.ts';
import { printable } from './report.ts';
import { addSchedules } from './schedules.ts';
import { UsageError } from './usage.ts';

/** Where a command writes. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
}

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

/** How a command reaches what is outside. */
export interface Surroundings {
  readonly connect: (envFile: string | undefined) => Promise<Connection>;
  readonly connectDispatcher?: ConnectDispatcher | undefined;
  readonly connectPublisher?: ConnectPublisher | undefined;
  readonly connectQueues?: ConnectQueues | undefined;
  /** Asks CloudFormation, unless given. */
  readonly readStack?: ReadStack | undefined;
  /** The user has had enough. */
  readonly signal?: AbortSignal | undefined;
  /** Epoch milliseconds; the machine's clock unless given. */
  readonly nowMs?: (() => number) | undefined;
  /** Who runs the command; the machine's user and name unless given. */
  readonly actor?: (() => string) | undefined;
}

/** Errors that speak for themselves, in one line, and how a command ends with each. */
const SPOKEN: readonly (readonly [new (...parts: never[]) => Error, number])[] = [
  [ScenarioError, EXIT.refused],
  [UsageError, EXIT.refused],
  [ValidationError, EXIT.refused],
  [ClientEnvironmentError, EXIT.refused],
  [ConfigurationError, EXIT.refused],
  [JobNotFoundError, EXIT.notFound],
  [ScheduleNotFoundError, EXIT.notFound],
  [ScheduleDeclaredError, EXIT.failed],
  [RunTimeoutError, EXIT.timedOut],
  [DrainTimeoutError, EXIT.timedOut],
  [AbortError, EXIT.interrupted],
  [IdempotencyConflictError, EXIT.failed],
  [JobFailedError, EXIT.failed],
  [JobCancelledError, EXIT.failed],
  [JobStateError, EXIT.failed],
  [ControlChangedError, EXIT.failed],
  [StoreThrottled, EXIT.failed],
  [StoreUnavailable, EXIT.failed],
  [StoreMisconfigured, EXIT.failed],
  [StoreRefused, EXIT.failed],
  [MalformedItemError, EXIT.failed],
  [DeclarationMissing, EXIT.failed],
  [QueueUnavailable, EXIT.failed],
  [QueueMisconfigured, EXIT.failed],
  [QueueRefused, EXIT.failed],
  [StackUnreadableError, EXIT.failed],
  [OutcomesUnpublishedError, EXIT.failed],
  [BusMisconfigured, EXIT.failed],
];

/**
 * Runs a command.
 * @param words Without the interpreter and the script.
 * @returns The exit code, one of `EXIT`.
 */
export async function runProgram(
  words: readonly string[],
  terminal: Terminal,
  surroundings: Surroundings = { connect },
): Promise<number> {
  let code: number = EXIT.done;
  const asJson = words.includes('--json');
  // With `--json` what commander would say is part of the one document.
  const program = programFor(asJson ? { ...terminal, error: () => undefined } : terminal);
  const operator = {
    ...surroundings,
    nowMs: surroundings.nowMs ?? Date.now,
    actor: surroundings.actor ?? userAtHost,
    connectDispatcher: surroundings.connectDispatcher ?? connectDispatcher,
    out: terminal.out,
    note: terminal.error,
    partly: () => {
      code = EXIT.failed;
    },
  };
  addOperations(program, operator);
  addDispatcher(program, operator);
  addSchedules(program, operator);
  addOutcomes(program, {
    ...operator,
    connectPublisher: surroundings.connectPublisher ?? connectPublisher,
  });
  addQueues(program, { ...operator, connectQueues: surroundings.connectQueues ?? connectQueues });
  addEnv(program, { readStack: surroundings.readStack ?? readStack, out: terminal.out });
  try {
    await program.parseAsync([...words], { from: 'user' });
    return code;
  } catch (error) {
    return tellError(error, terminal, asJson);
  }
}

/** Says on the standard error what went wrong; answers the exit code. An error that nobody foresaw comes with its stack. */
function tellError(error: unknown, terminal: Terminal, asJson: boolean): number {
  const inJson = (told: Error): string => `${JSON.stringify({ error: errorData(told) })}\n`;
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT.done;
    if (asJson) terminal.error(inJson(usageErrorOf(error)));
    return EXIT.refused;
  }
  const [, spoken] = SPOKEN.find(([kind]) => error instanceof kind) ?? [];
  if (error instanceof Error && spoken !== undefined) {
    // What a scenario file lacks is said in words either way.
    const isDocument = asJson && !(error instanceof ScenarioError);
    terminal.error(isDocument ? inJson(error) : `fairlead: ${oneLine(error.message)}\n`);
    return spoken;
  }
  terminal.error(`fairlead: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return EXIT.failed;
}

/** Of a command that is missing, commander only shows the help. */
const usageErrorOf = ({ code, message }: CommanderError): UsageError =>
  new UsageError(
    code === 'commander.help'
      ? 'a command is missing; fairlead --help names those there are'
      : message.replace(/^error: /, ''),
  );

/** As far as there is room for it in a job's history. */
function userAtHost(): string {
  const whole = `${userName()}@${hostname()}`.toWellFormed();
  return Buffer.from(whole)
    .subarray(0, ACTOR_BYTES_MAX)
    .toString()
    .replace(/\uFFFD+$/, '');
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container the process's number may belong to no user.
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** Messages quote what others wrote. */
const oneLine = (message: string): string => printable(message.replace(/\s*[\r\n]+\s*/g, ' '));

/** From its own description, wherever it is installed. */
const packageVersion = (): string => {
  const { version } = createRequire(import.meta.url)('fairlead/package.json') as { readonly version: string };
  return version;
};

function programFor(terminal: Terminal): Command {
  const program = new Command('fairlead')
    .description('Jobs in fair order on DynamoDB, SQS, EventBridge and Lambda.')
    .version(packageVersion(), '--version', 'print the version of this package')
    // Commander would end the process; the caller does that.
    .exitOverride()
    .configureOutput({ writeOut: terminal.out, writeErr: terminal.error });
  program
    .command('simulate')
    .description('Run a scenario file under virtual time, and show what would happen.')
    .argument('<file>', 'a scenario: see docs/simulate.md')
    .option('--case <id>', 'run only this case')
    .option('--json', 'print the results as JSON')
    .addHelpText('after', '\nExit codes: 0 done, 2 the file or the options are wrong, 1 anything else.')
    .action(async (file: string, options: { readonly case?: string; readonly json?: true }) => {
      // Here, not above: it brings the whole scheduler with it, which other commands would load in vain.
      const { asData, asText, simulate } = await import('./simulate.ts');
      const simulation = await inFile(file, () => simulate(readScenarioFile(file), options.case));
      terminal.out(`${options.json === true ? JSON.stringify(asData(simulation)) : asText(simulation)}\n`);
    });
  return program;
}

/** Gives an error about a file the file's name. */
async function inFile<Value>(file: string, run: () => Promise<Value>): Promise<Value> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof ScenarioError)) throw error;
    const named = new ScenarioError(error.field, error.message);
    named.message = `${file}: ${error.message}`;
    throw named;
  }
}
