/** The commands that submit, inspect and operate: one for each verb of the client. */

import type { Command } from 'commander';
import type { ControlTerms, ListFilter, OverrideChange } from '../client/client.ts';
import type { DeadLetterFilter } from '../client/dead-letters.ts';
import type { SubmitRequest } from '../client/submissions.ts';
import { isTerminal, type Job, type Tags } from '../core/job.ts';
import { type AuthorOptions, addChanging, withActor } from './changing.ts';
import { errorData } from './describe-error.ts';
import { explanationText } from './explanation.ts';
import { addLogs, type LogReader } from './logs.ts';
import { type CommonOptions, type Operator, perform, withCommonOptions } from './perform.ts';
import { addRejections, firstValues } from './rejections.ts';
import { duration } from './report.ts';
import {
  durationMsOf,
  jsonFrom,
  LIMIT,
  type LimitOptions,
  limitOf,
  needsOne,
  numberOf,
  readText,
  refusingOthers,
  type ScopeOptions,
  scopeOf,
  suppositionOf,
  timeoutMsOf,
  UsageError,
  withLimitOptions,
  withTags,
} from './usage.ts';
import {
  controlHistoryText,
  controlsText,
  controlText,
  declarationText,
  dispatchersText,
  fleetsText,
  historyText,
  jobsText,
  jobText,
  keysText,
  redrivenText,
  submittedText,
  typesText,
  unreadableText,
} from './views.ts';

/**
 * Adds the commands that submit, inspect and change jobs, show keys and fleets, handle dead letters and rejections, and
 * pause or override scopes.
 */
export function addOperations(program: Command, operator: LogReader): void {
  const jobs = program.command('jobs').description('Submit, inspect and change jobs.');
  addProducing(jobs, operator);
  addInspecting(jobs, operator);
  addLogs(jobs, operator);
  addChanging(jobs, operator);
  addViews(program, operator);
  addDeadLetters(program, operator);
  addRejections(program, operator);
  addControls(program, operator);
}

function withScope(command: Command): Command {
  return command
    .option('--pool', 'the whole pool')
    .option('--tier <tier>', 'a tier')
    .option('--type <type>', 'a job type')
    .option('--fleet <fleet>', 'a fleet')
    .option('--limit <limit>', 'a limit; with --key, one key of it')
    .option('--key <key>', 'a fairness key, or the key by which the limit counts');
}

/** Options of a pause or an override that may end by itself. */
interface TermsOptions extends AuthorOptions {
  readonly for?: string;
  readonly reason?: string;
}

const withTerms = (command: Command): Command =>
  withActor(command)
    .option('--for <duration>', 'how long it holds, such as 10m (default: until it is lifted)')
    .option('--reason <text>', 'why, for those who ask why jobs wait');

const termsOf = ({ for: text, reason }: TermsOptions): ControlTerms => ({
  ...(text === undefined ? {} : { for: durationMsOf('--for', text) }),
  ...(reason === undefined ? {} : { reason }),
});

/** Options that describe a job to submit. */
interface RequestOptions extends CommonOptions, LimitOptions {
  readonly payload?: string;
  readonly payloadFile?: string;
  readonly priority?: string;
  readonly key?: string;
  readonly resource?: string;
  readonly label?: string;
  readonly tag?: Tags;
  readonly runAt?: string;
  readonly expireAfter?: string;
  readonly dedupeKey?: string;
  readonly keep?: string;
  readonly quiet?: string;
  readonly atMost?: string;
  readonly whileRunning?: string;
  readonly mode?: string;
  readonly idempotencyKey?: string;
}

function withRequestOptions(command: Command): Command {
  return withLimitOptions(withTags(command, 'a tag to find the job by, such as order=4711'))
    .option('--payload <json>', "the handler's input")
    .option('--payload-file <file>', 'the same from a file; - is the standard input')
    .option('--priority <number>', '0 to 10')
    .option('--key <key>', 'fairness key: whose share the job is charged to')
    .option('--resource <id>', 'jobs on one resource never overlap, within a conflict group')
    .option('--label <text>', 'text for people who look at the job')
    .option('--run-at <instant>', 'start no earlier than this, such as 2027-01-31T08:00:00Z')
    .option('--expire-after <duration>', 'give it up if it has not started by then, such as 10m')
    .option('--dedupe-key <key>', 'of jobs with the same type, keys, resource and dedupe key, one waits')
    .option('--keep <which>', 'with --dedupe-key: first or last, whose payload the waiting job has')
    .option('--quiet <duration>', 'with --dedupe-key: start so long after the last submission, such as 5s')
    .option('--at-most <duration>', 'with --quiet: but so long after the first one')
    .option('--while-running <what>', 'with --dedupe-key: another, oneWaits or drop')
    .option('--idempotency-key <key>', 'submissions with the same key make one job');
}

/** The client checks the values. */
function dedupeOf({ dedupeKey, ...of }: RequestOptions): SubmitRequest['dedupe'] {
  const named = { keep: of.keep, quiet: of.quiet, atMost: of.atMost, whileRunning: of.whileRunning };
  if (dedupeKey !== undefined) return { key: dedupeKey, ...named } as SubmitRequest['dedupe'];
  if (Object.values(named).every((value) => value === undefined)) return undefined;
  throw new UsageError('--keep, --quiet, --at-most and --while-running need --dedupe-key');
}

function requestOf(type: string, options: RequestOptions): SubmitRequest {
  const { payload, payloadFile, priority, key, keys, resource, label, tag, mode, idempotencyKey } = options;
  const { runAt, expireAfter } = options;
  if (payload !== undefined && payloadFile !== undefined) {
    throw new UsageError('give --payload or --payload-file, not both');
  }
  const sent =
    payloadFile !== undefined
      ? jsonFrom('--payload-file', readText('--payload-file', payloadFile))
      : payload === undefined
        ? undefined
        : jsonFrom('--payload', payload);
  return {
    type,
    payload: sent,
    priority: priority === undefined ? undefined : numberOf('--priority', priority),
    fairnessKey: key,
    resourceId: resource,
    keys,
    units: options.units,
    label,
    tags: tag,
    runAt,
    expireAfter,
    dedupe: dedupeOf(options),
    // The client checks the mode.
    mode: mode as SubmitRequest['mode'],
    idempotencyKey,
  };
}

function requestsIn(file: string): readonly SubmitRequest[] {
  const content = jsonFrom('--file', readText('--file', file));
  const list = typeof content === 'object' && content !== null && 'jobs' in content ? content.jobs : content;
  // The client checks each entry.
  if (Array.isArray(list)) return list as readonly SubmitRequest[];
  throw new UsageError('--file: must hold an array of jobs, or {"jobs": [...]}');
}

function addProducing(jobs: Command, operator: Operator): void {
  const { signal } = operator;
  withCommonOptions(
    withRequestOptions(
      jobs
        .command('submit')
        .description('Submit a job, or the jobs in a file, and return at once.')
        .argument('[type]', 'the job type'),
    )
      .option('--mode <mode>', 'queued or onDemand')
      .option('--file <file>', 'a JSON array of jobs, instead of a type; - is the standard input'),
  ).action((type: string | undefined, options: RequestOptions & { readonly file?: string }) => {
    const { file } = options;
    if (file !== undefined && type !== undefined) throw new UsageError('give a type or --file, not both');
    if (file !== undefined) {
      const requests = requestsIn(file);
      return perform(operator, options, async (client) => {
        const entries = await client.submitMany(requests, { signal });
        if (entries.some((entry) => entry.kind !== 'accepted')) operator.partly();
        const data = entries.map((entry) =>
          entry.kind === 'accepted' ? entry : { ...entry, error: errorData(entry.error) },
        );
        return { data: { requests: data }, text: (width) => submittedText(entries, width) };
      });
    }
    if (type === undefined) throw new UsageError('give a type, or --file with a list of jobs');
    const request = requestOf(type, options);
    return perform(operator, options, async (client) => {
      const { jobId, job, repeated, deduplicated } = await client.submit(request, { signal });
      const note = deduplicated === undefined ? (repeated ? 'was submitted before' : '') : deduplicated;
      return {
        data: { jobId, job, repeated, ...(deduplicated === undefined ? {} : { deduplicated }) },
        text: `${jobId} ${job.state}${note === '' ? '' : ` (${note})`}`,
      };
    });
  });
  withCommonOptions(
    withRequestOptions(
      jobs
        .command('run')
        .description('Submit an onDemand job, wait for its end, and print its result.')
        .argument('<type>', 'the job type'),
    )
      .option('--timeout <duration>', 'how long to wait, such as 30s', '5m')
      .option('--cancel-on-exit', 'cancel the job if this command gives up waiting'),
  ).action(
    (type: string, options: RequestOptions & { readonly timeout: string; readonly cancelOnExit?: true }) => {
      const timeoutMs = timeoutMsOf(options.timeout);
      const request = requestOf(type, options);
      return perform(operator, options, async (client) => {
        const dieWithWaiter = options.cancelOnExit === true;
        const onProgress = progressNoter(operator, options, ({ id, state }: Job) =>
          isTerminal(state)
            ? undefined
            : `job ${id} is ${state}: waiting for its end, at most ${duration(timeoutMs)}`,
        );
        const job = await client.run(request, { signal, timeout: timeoutMs, dieWithWaiter, onProgress });
        return { data: { job }, text: JSON.stringify(job.result ?? null, undefined, 2) };
      });
    },
  );
}

function addInspecting(jobs: Command, operator: Operator): void {
  const { signal } = operator;
  withCommonOptions(jobs.command('get').description('Show a job.').argument('<id>')).action(
    (id: string, options: CommonOptions) =>
      perform(operator, options, async (client) => {
        const job = await client.get(id, { signal });
        return { data: { job }, text: jobText(job) };
      }),
  );
  withCommonOptions(
    withTags(
      jobs
        .command('list')
        .description(
          'List jobs of one state; succeeded, cancelled and expired ones of a type that is declared with listFinished. With --state any: jobs of every state with a searchable --tag.',
        ),
      'only jobs with this tag',
    )
      .option(
        '--state <state>',
        'scheduled, pending, claimed, running, failed, succeeded, cancelled, expired or any',
        'pending',
      )
      .option('--type <type>', 'only this job type')
      .option('--key <key>', 'only this fairness key')
      .option('--mode <mode>', 'only queued, or only onDemand')
      .option(
        '--since <instant>',
        'of succeeded, cancelled and expired jobs: that ended no earlier than this',
      )
      .option('--until <instant>', 'of succeeded, cancelled and expired jobs: that ended before this')
      .option('--limit <number>', 'at most this many', LIMIT),
  ).action(
    (
      options: CommonOptions & {
        readonly state: string;
        readonly type?: string;
        readonly key?: string;
        readonly mode?: string;
        readonly tag?: Tags;
        readonly since?: string;
        readonly until?: string;
        readonly limit: string;
      },
    ) => {
      const limit = limitOf(options.limit);
      return perform(operator, options, async (client) => {
        const filter = {
          // The client checks the state and the mode.
          state: options.state as ListFilter['state'],
          type: options.type,
          fairnessKey: options.key,
          mode: options.mode as SubmitRequest['mode'],
          tags: options.tag,
          since: options.since,
          until: options.until,
        };
        const { values, more } = await firstValues(limit, client.list(filter, { signal }));
        return { data: { jobs: values, more }, text: (width) => jobsText(values, more, width) };
      });
    },
  );
  addExplain(jobs, operator);
  withCommonOptions(
    jobs
      .command('history')
      .description("Show a job's history: attempts, lost workers, changes of time, actions of operators.")
      .argument('<id>'),
  ).action((id: string, options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const history = await client.history(id, { signal });
      return { data: { history }, text: historyText(history) };
    }),
  );
}

function addExplain(jobs: Command, operator: Operator): void {
  const { signal } = operator;
  withCommonOptions(
    jobs
      .command('explain')
      .description('Explain why a job is not running.')
      .argument('<id>')
      .option(
        '--if <change>',
        'what if this were so: limit:openai.perKey=6, limit:openai/acme=6, pool=20, type:report.paused=false, key:acme.weight=3; nothing is changed',
      ),
  ).action((id: string, options: CommonOptions & { readonly if?: string }) => {
    const supposed = options.if === undefined ? undefined : suppositionOf(options.if);
    return perform(operator, options, async (client) => {
      const explanation = await client.explain(id, { signal, if: supposed });
      const text = explanationText(explanation);
      return {
        data: { explanation },
        text: supposed === undefined ? text : `if ${options.if}, and nothing else changes:\n${text}`,
      };
    });
  });
}

function addViews(program: Command, operator: Operator): void {
  const { signal } = operator;
  withCommonOptions(
    program
      .command('keys')
      .description('Show fairness keys with jobs and costs; the key that is served next comes first.')
      .option('--limit <number>', 'at most this many', LIMIT)
      .option('--count <number>', 'count at most so many waiting jobs of a key', '100'),
  ).action((options: CommonOptions & { readonly limit: string; readonly count: string }) => {
    const limit = limitOf(options.limit);
    const countUpTo = numberOf('--count', options.count);
    return perform(operator, options, async (client) => {
      const { values, more } = await firstValues(limit, client.keys({ signal, countUpTo }));
      return { data: { keys: values, more }, text: (width) => keysText(values, more, width) };
    });
  });
  withCommonOptions(
    program.command('fleets').description('Show fleets, their slots and their workers.'),
  ).action((options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const fleets = await client.fleets({ signal });
      return { data: { fleets }, text: (width) => fleetsText(fleets, operator.nowMs(), width) };
    }),
  );
  withCommonOptions(
    program.command('types').description('Show job types, their terms, and how long their attempts take.'),
  ).action((options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const types = await client.types({ signal });
      return { data: { types }, text: (width) => typesText(types, width) };
    }),
  );
  withCommonOptions(
    program
      .command('dispatchers')
      .description('Show dispatchers, and for each partition its leader and its waiting jobs.'),
  ).action((options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const view = await client.dispatchers({ signal });
      return {
        data: { dispatchers: view.residents, partitions: view.partitions },
        text: (width) => dispatchersText(view, operator.nowMs(), width),
      };
    }),
  );
  withCommonOptions(
    program
      .command('declaration')
      .description('Show the declaration, and how far each partition has applied it.'),
  ).action((options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const declaration = await client.declaration({ signal });
      return { data: { declaration }, text: (width) => declarationText(declaration, width) };
    }),
  );
}

interface DeadLetterOptions extends CommonOptions {
  readonly type?: string;
  readonly key?: string;
  readonly tag?: Tags;
  readonly error?: string;
  readonly after?: string;
  readonly before?: string;
  readonly limit: string;
}

function withDeadLetterFilter(command: Command): Command {
  return withTags(command, 'only jobs with this tag')
    .option('--type <type>', 'only this job type')
    .option('--key <key>', 'only this fairness key')
    .option('--error <name>', 'only jobs that failed with this error')
    .option('--after <instant>', 'failed at or after')
    .option('--before <instant>', 'failed before')
    .option('--limit <number>', 'at most this many', LIMIT);
}

const filterOf = ({ type, key, tag, error, after, before }: DeadLetterOptions): DeadLetterFilter => ({
  type,
  fairnessKey: key,
  tags: tag,
  errorName: error,
  failedAfter: after,
  failedBefore: before,
});

function addDeadLetters(program: Command, operator: Operator): void {
  const { signal } = operator;
  const deadLetters = refusingOthers(
    program
      .command('dead-letters')
      .description('Show failed jobs that were not dealt with, and try them again.'),
  );
  withCommonOptions(
    withDeadLetterFilter(
      deadLetters.command('list', { isDefault: true }).description('List them, latest first.'),
    ),
  ).action((options: DeadLetterOptions) => {
    const limit = limitOf(options.limit);
    return perform(operator, options, async (client) => {
      const { values, more } = await firstValues(limit, client.deadLetters(filterOf(options), { signal }));
      return { data: { deadLetters: values, more }, text: (width) => jobsText(values, more, width) };
    });
  });
  withActor(
    withDeadLetterFilter(
      deadLetters
        .command('redrive')
        .description('Try them again, latest first, each as a new job. Needs a filter, or --all.'),
    )
      .option('--all', 'all dead letters')
      .option('--dry-run', 'only show them'),
  ).action((options: DeadLetterOptions & AuthorOptions & { readonly all?: true; readonly dryRun?: true }) => {
    const actor = options.as ?? operator.actor();
    const limit = limitOf(options.limit);
    const filter = filterOf(options);
    const isFiltered = Object.values(filter).some((value) => value !== undefined);
    if (isFiltered === (options.all === true)) throw new UsageError('give a filter, or --all, but not both');
    return perform(operator, options, async (client) => {
      const { values } = await firstValues(
        limit,
        client.redriveDeadLetters(filter, { signal, limit, actor, dryRun: options.dryRun === true }),
      );
      const more = values.length === limit;
      return { data: { redriven: values, more }, text: (width) => redrivenText(values, more, width) };
    });
  });
  withCommonOptions(
    deadLetters
      .command('unreadable')
      .description('List items of the table that cannot be read; each was taken out of its line.'),
  ).action((options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const unreadable = await client.unreadable({ signal });
      return { data: { unreadable }, text: unreadableText(unreadable) };
    }),
  );
}

function addControls(program: Command, operator: Operator): void {
  const { signal } = operator;
  withTerms(
    withScope(program.command('pause').description('Start no more jobs of a scope; running ones continue.')),
  ).action((options: TermsOptions & ScopeOptions) => {
    const scope = scopeOf(options);
    return perform(operator, options, async (client) => {
      const actor = options.as ?? operator.actor();
      const control = await client.pause(scope, { signal, actor, ...termsOf(options) });
      return { data: { control }, text: controlText(control) };
    });
  });
  withActor(withScope(program.command('resume').description('End a pause, or a cool-down.'))).action(
    (options: AuthorOptions & ScopeOptions) => {
      const scope = scopeOf(options);
      return perform(operator, options, async (client) => {
        const actor = options.as ?? operator.actor();
        const control = await client.resume(scope, { signal, actor });
        return { data: { control }, text: controlText(control) };
      });
    },
  );
  withCommonOptions(
    withScope(
      program.command('drain').description('Pause a scope, and wait until none of its jobs runs.'),
    ).option('--timeout <duration>', 'how long to wait, such as 30s', '15m'),
  ).action((options: CommonOptions & ScopeOptions & { readonly timeout: string }) => {
    const scope = scopeOf(options);
    const timeoutMs = timeoutMsOf(options.timeout);
    return perform(operator, options, async (client) => {
      const onProgress = progressNoter(
        operator,
        options,
        (running: number) =>
          `waiting for ${running} running ${running === 1 ? 'job' : 'jobs'} to end, at most ${duration(timeoutMs)}`,
      );
      await client.drain(scope, { signal, timeout: timeoutMs, onProgress });
      return {
        data: { drained: true },
        text: 'drained: no job runs, and the scope stays paused until it is resumed',
      };
    });
  });
  addOverrides(program, operator);
}

function addOverrides(program: Command, operator: Operator): void {
  const { signal } = operator;
  const override = refusingOthers(
    program.command('override').description('Override configured caps and weights.'),
  );
  withCommonOptions(
    override.command('list', { isDefault: true }).description('Show pauses and overrides in force.'),
  ).action((options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const controls = await client.controls({ signal });
      return { data: { controls }, text: controlsText(controls) };
    }),
  );
  withCommonOptions(
    override
      .command('history')
      .description('Show the last pauses and overrides: who made them, when, why, and until when.'),
  ).action((options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const controls = await client.controls({ signal, history: true });
      return { data: { controls }, text: controlHistoryText(controls) };
    }),
  );
  const change = (name: string, description: string): Command =>
    withScope(override.command(name).description(description));
  withTerms(change('set', 'Set a cap, or the weight of a key, from the next pass on.'))
    .option('--max-concurrency <number>', 'how many jobs of the scope may run at once')
    .option('--weight <number>', 'weight of a key in the fair sharing')
    .action(
      (
        options: TermsOptions & ScopeOptions & { readonly maxConcurrency?: string; readonly weight?: string },
      ) => {
        const scope = scopeOf(options);
        const { maxConcurrency, weight } = options;
        needsOne([maxConcurrency, weight], '--max-concurrency or --weight');
        return performOverride(operator, options, scope, {
          maxConcurrency:
            maxConcurrency === undefined ? undefined : numberOf('--max-concurrency', maxConcurrency),
          weight: weight === undefined ? undefined : numberOf('--weight', weight),
          ...termsOf(options),
        });
      },
    );
  withActor(change('clear', 'Go back to the configured cap and weight. A pause stays.')).action(
    (options: AuthorOptions & ScopeOptions) => {
      return performOverride(operator, options, scopeOf(options), {
        maxConcurrency: null,
        ...(options.key === undefined ? {} : { weight: null }),
      });
    },
  );
}

function performOverride(
  operator: Operator,
  options: AuthorOptions,
  scope: ReturnType<typeof scopeOf>,
  change: OverrideChange,
): Promise<void> {
  return perform(operator, options, async (client) => {
    const actor = options.as ?? operator.actor();
    const control = await client.override(scope, change, { signal: operator.signal, actor });
    return { data: { control }, text: controlText(control) };
  });
}

/**
 * Returns a function that prints to the error output what a command waits for, each time it changes. With `--json`
 * nothing is printed.
 */
function progressNoter<Progress>(
  { note }: Operator,
  { json }: CommonOptions,
  textOf: (progress: Progress) => string | undefined,
): (progress: Progress) => void {
  let last: string | undefined;
  return (progress) => {
    const text = json === true ? undefined : textOf(progress);
    if (text !== undefined && text !== last) note(`${text}\n`);
    last = text;
  };
}
