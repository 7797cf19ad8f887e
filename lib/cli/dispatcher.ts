/** `fairlead dispatcher`: runs passes in this process until it gets a signal. */
import { randomUUID } from 'node:crypto';
import nodeModule from 'node:module';
import { hostname } from 'node:os';
import type { Command } from 'commander';
import { didYouMean } from '../core/spelling.ts';
import type { Log } from '../runtime/contract.ts';
import { jsonLog } from '../runtime/system.ts';
import type { ConnectDispatcher } from './connect.ts';
import { printable } from './report.ts';
import { durationMsOf, UsageError } from './usage.ts';

/** The command's surroundings. */
export interface DispatcherHost {
  readonly connectDispatcher: ConnectDispatcher;
  /** Aborts when the process is to end. */
  readonly signal?: AbortSignal | undefined;
  readonly out: (text: string) => void;
  /** Prints warnings to the error output: problems that are tried again. */
  readonly note: (text: string) => void;
  /** Called if the dispatcher ended for another reason than the signal. */
  readonly partly: () => void;
}

interface Options {
  readonly json?: true;
  readonly metrics?: true;
  readonly envFile?: string;
  readonly name?: string;
  readonly poll: string;
  readonly passEvery: string;
}

/** Adds the command to the program. */
export function addDispatcher(program: Command, host: DispatcherHost): void {
  program
    .command('dispatcher')
    .description(
      'Run passes in this process, in addition to the functions, until SIGTERM or SIGINT. See docs/scale.md.',
    )
    .option('--name <name>', 'unique among running dispatchers (default: host name and a random part)')
    .option('--poll <duration>', 'how often to read letters, in each partition that it leads', '250ms')
    .option('--pass-every <duration>', 'run a pass at least this often; 1s if there are no functions', '1m')
    .option('--json', 'print one JSON object per line')
    .option('--metrics', 'also print metrics, for CloudWatch to read from the log; see docs/metrics.md')
    .option('-f, --env-file <file>', 'file with FAIRLEAD_* and AWS_* settings; set variables win over it')
    .addHelpText(
      'after',
      '\nExit codes: 0 ended by a signal; 1 another dispatcher of this name has started,\nor the table refuses it; 2 a setting is wrong.',
    )
    .action((options: Options) => dispatcher(options, host));
}

async function dispatcher(options: Options, host: DispatcherHost): Promise<void> {
  const { signal = new AbortController().signal } = host;
  const pollMs = durationMsOf('--poll', options.poll);
  const passEveryMs = durationMsOf('--pass-every', options.passEvery);
  let log: Log | undefined;
  // The dispatcher is imported here because other commands run no passes. It is loaded while the command connects,
  // because due jobs wait for a dispatcher that restarts.
  const loading = Promise.all([
    import('../dispatch/resident/resident.ts'),
    import('../runtime/vitals.ts'),
    import('../runtime/process-metrics.ts'),
    import('../runtime/emf.ts'),
    import('../metrics/names.ts'),
  ]);
  const { parts, scheduler, meterTo, close } = await host.connectDispatcher(options.envFile, (item) =>
    log?.warn('an item cannot be read', { ...item }),
  );
  log =
    options.json === true
      ? jsonLog((line) => host.out(`${line}\n`))
      : linesForPeople(host, parts.clock.nowMs);
  const [{ runDispatcher }, { processVitals }, { processMetrics }, { askedMetricsOf, namesIn }, names] =
    await loading;
  // The cache is written now, because the process may be killed at its end.
  nodeModule.flushCompileCache?.();
  const ended = new AbortController();
  let writing: Promise<void> | undefined;
  try {
    const output =
      options.metrics === true
        ? processMetrics(
            scheduler,
            parts.clock,
            (line) => host.out(`${line}\n`),
            askedMetricsOf({ ...process.env, [names.METRICS_TOLD]: metricsNamed(names, namesIn) }),
          )
        : undefined;
    if (output !== undefined) meterTo(output.metrics);
    writing = output?.tellUntil(ended.signal);
    const { end } = await runDispatcher({
      ...parts,
      log,
      metrics: output?.metrics,
      dispatcherId: options.name ?? `${hostname()}/${randomUUID()}`,
      pollMs,
      passEveryMs,
      vitals: processVitals().measure,
      signal,
    });
    if (end !== 'stopped') host.partly();
  } finally {
    ended.abort();
    await writing;
    close();
  }
}

/**
 * Returns a log for people, with lines such as `08:15:02 dispatcher changed its role: partition 0, from standby, to
 * leader`.
 */
function linesForPeople({ out, note }: DispatcherHost, nowMs: () => number): Log {
  const entry =
    (write: (text: string) => void): Log['info'] =>
    (message, fields = {}) => {
      const time = new Date(nowMs()).toISOString().slice(11, 19);
      // The incarnation is the same in every line.
      const { incarnation: _incarnation, ...shown } = fields;
      const words = Object.entries(shown)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`);
      write(`${time} ${printable([message, words.join(', ')].filter((part) => part !== '').join(': '))}\n`);
    };
  return { info: entry(out), warn: entry(note), error: entry(note) };
}

/**
 * Returns the metrics on request to print. If the environment names none, all of them are printed: alarms on any that
 * is left out would see nothing.
 * @throws UsageError if the environment names an unknown metric
 */
function metricsNamed(
  { METRICS, METRICS_ON_REQUEST, METRICS_TOLD }: typeof import('../metrics/names.ts'),
  namesIn: (text: string | undefined) => readonly string[],
): string {
  const named = namesIn(process.env[METRICS_TOLD]);
  for (const name of named) {
    if (Object.hasOwn(METRICS, name)) continue;
    throw new UsageError(
      `${METRICS_TOLD}: ${JSON.stringify(name)} is not a metric; ${didYouMean(name, METRICS_ON_REQUEST)}name some of ${METRICS_ON_REQUEST.join(', ')}`,
    );
  }
  return (named.length === 0 ? METRICS_ON_REQUEST : named).join(',');
}
