/** `fairlead fleet-worker` and `fairlead test-worker`: jobs in any language, behind a server on this machine. */
import type { Command } from 'commander';
import type { Json } from '../core/job.ts';
import type { Conformance } from '../worker/conformance.ts';
import type { WorkerReport } from '../worker/fleet-worker.ts';
import { type OutputOptions, printOutput, withEnvFile, withOutputOptions } from './perform.ts';
import { durationMsOf, jsonFrom, numberOf } from './usage.ts';

/** The surroundings of these commands. */
export interface ForwardingHost {
  /** Runs the worker until the process gets a signal. */
  readonly runWorker: (
    envFile: string | undefined,
    forward: string,
    options: { readonly slots?: number; readonly shutdownMs?: number; readonly workerId?: string },
  ) => Promise<WorkerReport>;
  readonly testWorker: (
    url: string,
    type: string,
    payload: Json,
    begin: (promise: string, mostMs: number) => void,
  ) => Promise<readonly Conformance[]>;
  /** Prints a note beside the output. */
  readonly note: (text: string) => void;
  readonly out: (text: string) => void;
  /** Called if the worker ended for another reason than a signal, or a check failed. */
  readonly partly: () => void;
}

interface WorkerOptions {
  readonly forward: string;
  readonly slots?: string;
  readonly shutdown?: string;
  readonly name?: string;
  readonly envFile?: string;
}

/** Adds the commands to the program. */
export function addForwarding(program: Command, host: ForwardingHost): void {
  withEnvFile(
    program
      .command('fleet-worker')
      .description(
        'Run a worker that forwards each job to a server on this machine, until SIGTERM or SIGINT.',
      )
      .requiredOption('--forward <url>', 'the server, such as http://127.0.0.1:8080')
      .option('--slots <number>', 'how many jobs run at once (default: one for each processor)')
      .option('--shutdown <duration>', 'how long running jobs may continue after a signal', '30s')
      .option('--name <name>', 'unique among running workers (default: host name and a random part)'),
  )
    .addHelpText(
      'after',
      '\nExit codes: 0 ended by a signal; 1 it lost its lease or broke; 2 a setting is wrong.',
    )
    .action(async ({ forward, slots, shutdown = '30s', name, envFile }: WorkerOptions) => {
      const report = await host.runWorker(envFile, forward, {
        shutdownMs: durationMsOf('--shutdown', shutdown),
        ...(slots === undefined ? {} : { slots: numberOf('--slots', slots) }),
        ...(name === undefined ? {} : { workerId: name }),
      });
      if (report.end !== 'stopped') host.partly();
    });
  withOutputOptions(
    program
      .command('test-worker')
      .description(
        'Check that a server answers forwarded jobs as docs/guides/workers-in-any-language.md says.',
      )
      .argument('<url>', 'the server, such as http://127.0.0.1:8080')
      .option(
        '--type <type>',
        'a type that the server runs, and that may be run several times',
        'conformance',
      )
      .option('--payload <json>', 'its payload', '{}'),
  )
    .addHelpText('after', '\nExit codes: 0 all checks passed; 1 one failed; 2 an argument is wrong.')
    .action(
      async (url: string, options: OutputOptions & { readonly type: string; readonly payload: string }) => {
        const checks = await host.testWorker(
          url,
          options.type,
          jsonFrom('--payload', options.payload) as Json,
          (promise, mostMs) => host.note(`checking for at most ${mostMs / 1_000} s: ${promise}\n`),
        );
        if (checks.some(({ failure }) => failure !== undefined)) host.partly();
        printOutput(host, options, {
          data: { checks },
          text: checks
            .map(({ promise, failure }) =>
              failure === undefined ? `passed: ${promise}` : `FAILED: ${promise}\n        ${failure}`,
            )
            .join('\n'),
        });
      },
    );
}
