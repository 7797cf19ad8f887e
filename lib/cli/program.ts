/** The command line: its commands, its output and its exit codes. */

import { createRequire } from 'node:module';
import { hostname, userInfo } from 'node:os';
import { Command, CommanderError } from 'commander';
import { ValidationError } from '../core/errors.ts';
import { ACTOR_BYTES_MAX } from '../core/history.ts';
import { parseScenarioText } from '../simulate/scenario-file.ts';
import {
  type ConnectDispatcher,
  connect,
  connectDispatcher,
  connectPublisher,
  connectQueues,
  readStack,
  runForwarding,
  testForwarding,
} from './connect.ts';
import { addDashboard, type DashboardHost } from './dashboard.ts';
import { describeError, EXIT } from './describe-error.ts';
import { addDev } from './dev.ts';
import { addDispatcher } from './dispatcher.ts';
import { addEnv, type ReadStack } from './env.ts';
import { addForwarding, type ForwardingHost } from './forwarding.ts';
import { type ReadLogs, readLogs } from './logs.ts';
import { addMcp } from './mcp.ts';
import { addOperations } from './operations.ts';
import { addOutcomes, type ConnectPublisher } from './outcomes.ts';
import { type Operator, type OutputOptions, printOutput, withEnvFile, withOutputOptions } from './perform.ts';
import { addQueues, type ConnectQueues } from './queues.ts';
import { addSchedules } from './schedules.ts';
import { callerArn, roleCredentials } from './sts.ts';
import { readText, UsageError } from './usage.ts';

/** The output streams of a command. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
  /** The width in columns; undefined if it is not known. */
  readonly columns?: number | undefined;
}

/** The connections of commands to the outside. */
export interface Surroundings {
  readonly connect: Operator['connect'];
  readonly connectDispatcher?: ConnectDispatcher | undefined;
  readonly connectPublisher?: ConnectPublisher | undefined;
  readonly connectQueues?: ConnectQueues | undefined;
  /**
   * Reads a stack's outputs.
   * @default - asks CloudFormation
   */
  readonly readStack?: ReadStack | undefined;
  /**
   * Reads the lines of an attempt.
   * @default - asks CloudWatch Logs
   */
  readonly readLogs?: ReadLogs | undefined;
  readonly runWorker?: ForwardingHost['runWorker'] | undefined;
  readonly testWorker?: ForwardingHost['testWorker'] | undefined;
  /** Asks STS who the caller is. @default - with the credentials of the environment */
  readonly callerArn?: DashboardHost['callerArn'] | undefined;
  /** Asks STS for the credentials of a role. @default - with the credentials of the environment */
  readonly roleCredentials?: DashboardHost['roleCredentials'] | undefined;
  /** The folder of the dashboard's page. @default - that of the package */
  readonly pageFolder?: string | undefined;
  /** Aborts when the user interrupts the command. */
  readonly signal?: AbortSignal | undefined;
  /** Asks the user, who answers yes or no. @default - there is no terminal to ask at */
  readonly ask?: ((question: string) => Promise<boolean>) | undefined;
  /** Returns the time, in epoch milliseconds. @default - the machine's clock */
  readonly nowMs?: (() => number) | undefined;
  /** The name of the user, for the history of jobs. @default - the machine's user and name */
  readonly actor?: (() => string) | undefined;
}

/**
 * Runs a command.
 * @param words - the arguments, without the interpreter and the script
 * @returns the exit code, one of `EXIT`
 */
export async function runProgram(
  words: readonly string[],
  terminal: Terminal,
  surroundings: Surroundings = { connect },
): Promise<number> {
  let code: number = EXIT.done;
  const asJson = words.includes('--json');
  let asked: Command | undefined;
  // With `--json`, the text that commander prints becomes part of the JSON document.
  let help = '';
  const parserOutput: Terminal = asJson
    ? {
        ...terminal,
        out: (text) => {
          help += text;
        },
        error: () => undefined,
      }
    : terminal;
  const program = programFor(parserOutput, terminal, surroundings, () => {
    code = EXIT.failed;
  });
  program.hook('preAction', (_, command) => {
    asked = command;
    // The variable of a shell may be empty, and the empty key is that of all jobs without one.
    if (command.getOptionValue('key') === '')
      throw new UsageError('--key: is empty; name a fairness key, or leave it out');
    // Options that all commands have may also stand before the command.
    for (const option of program.options) {
      const name = option.attributeName();
      const value: unknown = program.getOptionValue(name);
      if (value === undefined) continue;
      if (command.options.every((own) => own.attributeName() !== name))
        throw new UsageError(`${command.name()} has no option ${option.long}`);
      command.setOptionValue(name, value);
    }
  });
  try {
    if (words.find((word) => !word.startsWith('-')) === COMPLETE) await addCompletion(program);
    await program.parseAsync([...words], { from: 'user' });
    return code;
  } catch (error) {
    const { code: end, data, text } = describeError(error, asked);
    if (!asJson) {
      if (text !== undefined) terminal.error(`fairlead: ${text}\n`);
    } else if (end !== EXIT.done) terminal.error(`${JSON.stringify({ error: data })}\n`);
    else terminal.out(`${JSON.stringify({ [isVersion(error) ? 'version' : 'help']: help.trimEnd() })}\n`);
    return end;
  }
}

const isVersion = (error: unknown): boolean =>
  error instanceof CommanderError && error.code === 'commander.version';

const COMPLETE = 'complete';

/** Replaces the completion command, which only shows up in the help. Its module is loaded for no other command. */
async function addCompletion(program: Command): Promise<void> {
  const { default: complete } = await import('@bomb.sh/tab/commander');
  const commands = program.commands as Command[];
  commands.splice(
    commands.findIndex((command) => command.name() === COMPLETE),
    1,
  );
  complete(program);
}

/** Returns the user and host, cut to what fits into a job's history. */
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
    // In a container the user id may belong to no user.
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** Returns the version in the package's own description. */
const packageVersion = (): string => {
  const { version } = createRequire(import.meta.url)('fairlead/package.json') as { readonly version: string };
  return version;
};

/**
 * Makes the program with all commands. It is exported for tests that check each of them. `parserOutput` gets help and
 * usage errors.
 */
export function programFor(
  parserOutput: Terminal,
  { out, error: note, columns }: Terminal,
  surroundings: Surroundings,
  partly: () => void,
): Command {
  const program = withEnvFile(withOutputOptions(new Command('fairlead')))
    .description('Fair job scheduling on DynamoDB, SQS, EventBridge and Lambda.')
    .version(packageVersion(), '--version', 'print the version of this package')
    // Commander would end the process itself; here the caller does that.
    .exitOverride()
    .configureOutput({ writeOut: parserOutput.out, writeErr: parserOutput.error });
  const operator = {
    ...surroundings,
    nowMs: surroundings.nowMs ?? Date.now,
    actor: surroundings.actor ?? userAtHost,
    connectDispatcher: surroundings.connectDispatcher ?? connectDispatcher,
    connectPublisher: surroundings.connectPublisher ?? connectPublisher,
    connectQueues: surroundings.connectQueues ?? connectQueues,
    readStack: surroundings.readStack ?? readStack,
    readLogs: surroundings.readLogs ?? readLogs,
    runWorker: surroundings.runWorker ?? runForwarding,
    testWorker: surroundings.testWorker ?? testForwarding,
    callerArn: surroundings.callerArn ?? callerArn,
    roleCredentials: surroundings.roleCredentials ?? roleCredentials,
    pageFolder: surroundings.pageFolder,
    out,
    note,
    columns,
    partly,
  };
  addOperations(program, operator);
  addDispatcher(program, operator);
  addSchedules(program, operator);
  addOutcomes(program, operator);
  addQueues(program, operator);
  addEnv(program, operator);
  addForwarding(program, operator);
  addDashboard(program, operator);
  addMcp(program, { ...operator, version: packageVersion() });
  addSimulate(program, operator);
  addDev(program, operator);
  program
    .command(COMPLETE)
    .description('Print a completion script for a shell: source <(fairlead complete bash).')
    .argument('<shell>', 'bash, zsh, fish or powershell');
  return program;
}

function addSimulate(program: Command, terminal: Pick<Terminal, 'out' | 'columns'>): void {
  withOutputOptions(
    program
      .command('simulate')
      .description('Run a scenario file under virtual time, and show the result.')
      .argument('<file>', 'a scenario file; see docs/simulate.md')
      .option('--case <id>', 'run only this case'),
  )
    .addHelpText('after', '\nExit codes: 0 done; 2 the file or an option is wrong; 1 any other failure.')
    .action(async (file: string, options: OutputOptions & { readonly case?: string }) => {
      // The simulation is imported here because it loads the whole scheduler, which other commands do not need.
      const { asData, asText, simulate } = await import('./simulate.ts');
      const simulation = await withFileName(file, () =>
        simulate(parseScenarioText(readText('file', file)), options.case),
      );
      printOutput(terminal, options, {
        data: asData(simulation),
        text: (width) => asText(simulation, width),
      });
    });
}

/** Puts the file's name before an error about its content. */
async function withFileName<Value>(file: string, run: () => Promise<Value>): Promise<Value> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    throw new UsageError(`${file}: ${error.message}`, { cause: error });
  }
}
