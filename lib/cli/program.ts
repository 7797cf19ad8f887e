/** The command line: what it understands, what it prints, how it ends. */

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
} from './connect.ts';
import { addDispatcher } from './dispatcher.ts';
import { addEnv, type ReadStack } from './env.ts';
import { addOperations } from './operations.ts';
import { addOutcomes, type ConnectPublisher } from './outcomes.ts';
import { type Connection, finding, type Printing, printing, say } from './perform.ts';
import { addQueues, type ConnectQueues } from './queues.ts';
import { addSchedules } from './schedules.ts';
import { EXIT, spoken } from './spoken.ts';
import { readText, UsageError } from './usage.ts';

/** Where a command writes. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
  /** How wide it is, in letters; undefined: it does not say. */
  readonly columns?: number | undefined;
}

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
  let asked: Command | undefined;
  // With `--json` what commander would say is part of the one document.
  let said = '';
  const told: Terminal = asJson
    ? {
        ...terminal,
        out: (text) => {
          said += text;
        },
        error: () => undefined,
      }
    : terminal;
  const program = programFor(told, terminal, surroundings, () => {
    code = EXIT.failed;
  });
  program.hook('preAction', (_, command) => {
    asked = command;
    // What is common to commands may stand before the verb.
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
    const { code: end, data, text } = spoken(error, asked);
    if (!asJson) {
      if (text !== undefined) terminal.error(`fairlead: ${text}\n`);
    } else if (end !== EXIT.done) terminal.error(`${JSON.stringify({ error: data })}\n`);
    else terminal.out(`${JSON.stringify({ [isVersion(error) ? 'version' : 'help']: said.trimEnd() })}\n`);
    return end;
  }
}

const isVersion = (error: unknown): boolean =>
  error instanceof CommanderError && error.code === 'commander.version';

const COMPLETE = 'complete';

/** In the place of the command that only describes it: what shells ask at each key is loaded for nothing else. */
async function addCompletion(program: Command): Promise<void> {
  const { default: complete } = await import('@bomb.sh/tab/commander');
  const commands = program.commands as Command[];
  commands.splice(
    commands.findIndex((command) => command.name() === COMPLETE),
    1,
  );
  complete(program);
}

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

/** From its own description, wherever it is installed. */
const packageVersion = (): string => {
  const { version } = createRequire(import.meta.url)('fairlead/package.json') as { readonly version: string };
  return version;
};

/** All commands. Exported for what must hold for each of them. */
export function programFor(
  told: Terminal,
  { out, error: note, columns }: Terminal,
  surroundings: Surroundings,
  partly: () => void,
): Command {
  const program = finding(printing(new Command('fairlead')))
    .description('Jobs in fair order on DynamoDB, SQS, EventBridge and Lambda.')
    .version(packageVersion(), '--version', 'print the version of this package')
    // Commander would end the process; the caller does that.
    .exitOverride()
    .configureOutput({ writeOut: told.out, writeErr: told.error });
  const operator = {
    ...surroundings,
    nowMs: surroundings.nowMs ?? Date.now,
    actor: surroundings.actor ?? userAtHost,
    connectDispatcher: surroundings.connectDispatcher ?? connectDispatcher,
    connectPublisher: surroundings.connectPublisher ?? connectPublisher,
    connectQueues: surroundings.connectQueues ?? connectQueues,
    readStack: surroundings.readStack ?? readStack,
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
  addSimulate(program, operator);
  program
    .command(COMPLETE)
    .description('Print a script that completes commands and options: source <(fairlead complete bash).')
    .argument('<shell>', 'bash, zsh, fish or powershell');
  return program;
}

function addSimulate(program: Command, terminal: Pick<Terminal, 'out' | 'columns'>): void {
  printing(
    program
      .command('simulate')
      .description('Run a scenario file under virtual time, and show what would happen.')
      .argument('<file>', 'a scenario: see docs/simulate.md')
      .option('--case <id>', 'run only this case'),
  )
    .addHelpText('after', '\nExit codes: 0 done, 2 the file or the options are wrong, 1 anything else.')
    .action(async (file: string, options: Printing & { readonly case?: string }) => {
      // Here, not above: it brings the whole scheduler with it, which other commands would load in vain.
      const { asData, asText, simulate } = await import('./simulate.ts');
      const simulation = await inFile(file, () =>
        simulate(parseScenarioText(readText('file', file)), options.case),
      );
      say(terminal, options, { data: asData(simulation), text: (width) => asText(simulation, width) });
    });
}

/** Gives an error about a file the file's name. */
async function inFile<Value>(file: string, run: () => Promise<Value>): Promise<Value> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    throw new UsageError(`${file}: ${error.message}`, { cause: error });
  }
}
