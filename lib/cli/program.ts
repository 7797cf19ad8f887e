/** The command line: what it understands, what it prints, how it ends. */
import { Command, CommanderError } from 'commander';
import { readScenarioFile, ScenarioError } from './scenario-file.ts';
import { asData, asText, simulate } from './simulate.ts';

/** Where a command writes. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
}

/** How a command ends. */
export const EXIT = {
  done: 0,
  /** Something is wrong with the program or its surroundings. */
  failed: 1,
  /** Something is wrong with what it was asked: an unknown option, a file that is no scenario. */
  refused: 2,
} as const;

/**
 * Runs a command.
 * @param words Without the interpreter and the script.
 * @returns The exit code, one of `EXIT`.
 */
export async function runProgram(words: readonly string[], terminal: Terminal): Promise<number> {
  const program = programFor(terminal);
  try {
    await program.parseAsync([...words], { from: 'user' });
    return EXIT.done;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.refused;
    if (error instanceof ScenarioError) {
      terminal.error(`fairlead: ${error.message}\n`);
      return EXIT.refused;
    }
    terminal.error(`fairlead: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    return EXIT.failed;
  }
}

function programFor(terminal: Terminal): Command {
  const program = new Command('fairlead')
    .description('Jobs in fair order on DynamoDB, SQS, EventBridge and Lambda.')
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
    .action((file: string, options: { readonly case?: string; readonly json?: true }) => {
      const simulation = inFile(file, () => simulate(readScenarioFile(file), options.case));
      terminal.out(`${options.json === true ? JSON.stringify(asData(simulation)) : asText(simulation)}\n`);
    });
  return program;
}

/** Gives an error about a file the file's name. */
function inFile<Value>(file: string, run: () => Value): Value {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof ScenarioError)) throw error;
    const named = new ScenarioError(error.field, error.message);
    named.message = `${file}: ${error.message}`;
    throw named;
  }
}
