/** `fairlead dispatcher`: makes passes until it is told to end. */
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

/** What the command works with. */
export interface Watchman {
  readonly connectDispatcher: ConnectDispatcher;
  /** The process is told to end. */
  readonly signal?: AbortSignal | undefined;
  readonly out: (text: string) => void;
  /** Beside the output: what went wrong and is tried again. */
  readonly note: (text: string) => void;
  /** It ended for another reason than the signal. */
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
export function addDispatcher(program: Command, watchman: Watchman): void {
  program
    .command('dispatcher')
    .description(
      'Run passes in this process, beside the functions, until SIGTERM or SIGINT. See docs/scale.md.',
    )
    .option('--name <name>', "unique among those that live; the host's name and a random part unless given")
    .option('--poll <duration>', 'how often to look for letters, in each partition that it leads', '250ms')
    .option('--pass-every <duration>', 'a pass at least so often; 1s, say, where no function runs', '1m')
    .option('--json', 'print one JSON object a line')
    .option('--metrics', 'print metrics too, as CloudWatch takes them from a log; see docs/metrics.md')
    .option('-f, --env-file <file>', 'take FAIRLEAD_* and AWS_* settings that are not set from this file')
    .addHelpText(
      'after',
      '\nExit codes: 0 told to end; 1 another dispatcher of its name has begun, or the table refuses it; 2 a setting is wrong.',
    )
    .action((options: Options) => dispatcher(options, watchman));
}

async function dispatcher(options: Options, watchman: Watchman): Promise<void> {
  const { signal = new AbortController().signal } = watchman;
  const pollMs = durationMsOf('--poll', options.poll);
  const passEveryMs = durationMsOf('--pass-every', options.passEvery);
  let log: Log | undefined;
  // Here, not above: other commands make no passes. Beside the connection: what is due waits for whoever begins again.
  const loading = Promise.all([
    import('../dispatch/resident/resident.ts'),
    import('../runtime/vitals.ts'),
    import('../runtime/process-metrics.ts'),
    import('../runtime/emf.ts'),
    import('../metrics/names.ts'),
  ]);
  const { parts, scheduler, meterTo, close } = await watchman.connectDispatcher(options.envFile, (item) =>
    log?.warn('an item cannot be read', { ...item }),
  );
  log =
    options.json === true
      ? jsonLog((line) => watchman.out(`${line}\n`))
      : linesForPeople(watchman, parts.clock.nowMs);
  const [{ runDispatcher }, { processVitals }, { processMetrics }, { askedMetricsOf, namesIn }, names] =
    await loading;
  // At its end it may be killed.
  nodeModule.flushCompileCache?.();
  const ended = new AbortController();
  let telling: Promise<void> | undefined;
  try {
    const told =
      options.metrics === true
        ? processMetrics(
            scheduler,
            parts.clock,
            (line) => watchman.out(`${line}\n`),
            askedMetricsOf({ ...process.env, [names.METRICS_TOLD]: metricsNamed(names, namesIn) }),
          )
        : undefined;
    if (told !== undefined) meterTo(told.metrics);
    telling = told?.tellUntil(ended.signal);
    const { end } = await runDispatcher({
      ...parts,
      log,
      metrics: told?.metrics,
      dispatcherId: options.name ?? `${hostname()}/${randomUUID()}`,
      pollMs,
      passEveryMs,
      vitals: processVitals().measure,
      signal,
    });
    if (end !== 'stopped') watchman.partly();
  } finally {
    ended.abort();
    await telling;
    close();
  }
}

/** Such as `08:15:02 dispatcher changed its role: partition 0, from standby, to leader`. */
function linesForPeople({ out, note }: Watchman, nowMs: () => number): Log {
  const entry =
    (write: (text: string) => void): Log['info'] =>
    (message, fields = {}) => {
      const time = new Date(nowMs()).toISOString().slice(11, 19);
      // The same in every line.
      const { incarnation: _incarnation, ...said } = fields;
      const words = Object.entries(said)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`);
      write(`${time} ${printable([message, words.join(', ')].filter((part) => part !== '').join(': '))}\n`);
    };
  return { info: entry(out), warn: entry(note), error: entry(note) };
}

/**
 * What is told of what is told on request. Who asks for metrics without saying which may look at any of them, by alarms that would be blind.
 * @throws UsageError
 */
function metricsNamed(
  { METRICS, METRICS_ON_REQUEST, METRICS_TOLD }: typeof import('../metrics/names.ts'),
  namesIn: (text: string | undefined) => readonly string[],
): string {
  const named = namesIn(process.env[METRICS_TOLD]);
  for (const name of named) {
    if (Object.hasOwn(METRICS, name)) continue;
    throw new UsageError(
      `${METRICS_TOLD}: ${JSON.stringify(name)} is no metric; ${didYouMean(name, METRICS_ON_REQUEST)}name some of ${METRICS_ON_REQUEST.join(', ')}`,
    );
  }
  return (named.length === 0 ? METRICS_ON_REQUEST : named).join(',');
}
