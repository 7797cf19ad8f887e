/** The commands that change jobs: one job by its id, or all jobs that match a filter. */

import type { Command } from 'commander';
import type { CancelFilter, RetimeFilter } from '../client/bulk.ts';
import type { BulkOptions, ClientVerbs } from '../client/client.ts';
import type { Tags } from '../core/job.ts';
import {
  type CommandOutput,
  type CommonOptions,
  type Operator,
  perform,
  withCommonOptions,
} from './perform.ts';
import { instant } from './report.ts';
import { type InstantOptions, instantFrom, LIMIT, limitOf, numberOf, UsageError, withTags } from './usage.ts';
import { type EntryShown, entriesText } from './views.ts';

/** Options of commands that a job's history records. */
export interface AuthorOptions extends CommonOptions {
  readonly as?: string;
}

export const withActor = (command: Command): Command =>
  withCommonOptions(command).option('--as <name>', "your name in the job's history (default: user@host)");

/** Options that select jobs in place of an id. */
interface SelectOptions extends AuthorOptions {
  readonly state?: string;
  readonly type?: string;
  readonly key?: string;
  readonly mode?: string;
  readonly tag?: Tags;
  readonly limit?: string;
  readonly dryRun?: true;
  readonly yes?: true;
}

const withSelection = (command: Command, states: string): Command =>
  withTags(
    withActor(command.argument('[id]', 'a job, in place of a filter'))
      .option('--state <state>', `${states} (default: pending)`)
      .option('--type <type>', 'only this job type')
      .option('--key <key>', 'only this fairness key')
      .option('--mode <mode>', 'only queued, or only onDemand'),
    'only jobs with this tag',
  )
    .option('--limit <number>', `at most this many (default: ${LIMIT})`)
    .option('--dry-run', 'count the jobs, and change nothing')
    .option('--yes', 'do not ask');

/** Whether the options select jobs in place of an id. */
function selects(id: string | undefined, options: SelectOptions): boolean {
  const { state, type, key, mode, tag } = options;
  const filter = [state, type, key, mode, tag];
  const others = [...filter, options.limit, options.dryRun, options.yes];
  if (id !== undefined && others.some((value) => value !== undefined))
    throw new UsageError('give an id or a filter, not both');
  if (id === undefined && filter.every((value) => value === undefined))
    throw new UsageError('give an id, or a filter such as --type');
  return id === undefined;
}

const filterOf = ({ state = 'pending', type, key, mode, tag }: SelectOptions) => ({
  state,
  type,
  fairnessKey: key,
  mode,
  tags: tag,
});

const counted = (count: number, isMore: boolean): string =>
  `${count} ${count === 1 ? 'job' : 'jobs'}${isMore ? ' (as many as --limit allows; there may be more)' : ''}`;

/**
 * Changes the selected jobs. Without `--yes` it counts them first, and asks. If there is no terminal to ask at, it
 * refuses.
 */
async function changeSelected(
  operator: Operator,
  options: SelectOptions,
  verb: string,
  change: (client: ClientVerbs, options: BulkOptions) => AsyncIterable<EntryShown>,
): Promise<void> {
  const { signal, ask } = operator;
  const limit = limitOf(options.limit ?? LIMIT);
  const actor = options.as ?? operator.actor();
  return perform(operator, options, async (client): Promise<CommandOutput> => {
    const run = async (dryRun: boolean): Promise<readonly EntryShown[]> => {
      const entries: EntryShown[] = [];
      for await (const entry of change(client, { signal, actor, limit, dryRun })) entries.push(entry);
      return entries;
    };
    if (options.dryRun === true || options.yes !== true) {
      const { length } = await run(true);
      const count = counted(length, length === limit);
      if (options.dryRun === true || length === 0)
        return { data: { matches: length, more: length === limit, dryRun: true }, text: `matches: ${count}` };
      const question = `${verb} ${count}?`;
      if (ask === undefined || options.json === true)
        throw new UsageError(`would ${verb} ${count}; repeat the command with --yes`);
      if (!(await ask(question))) return { data: { entries: [], more: false }, text: 'nothing was changed' };
    }
    const entries = await run(false);
    if (entries.some(({ kind }) => kind === 'skipped')) operator.partly();
    const more = entries.length === limit;
    return { data: { entries, more }, text: (width) => entriesText(entries, more, width) };
  });
}

export function addChanging(jobs: Command, operator: Operator): void {
  const { signal } = operator;
  const as = (options: AuthorOptions) => ({ signal, actor: options.as ?? operator.actor() });
  withSelection(
    jobs
      .command('cancel')
      .description(
        'Cancel a job, or all that match: at once if it is not running, else its worker is asked to stop.',
      ),
    'scheduled, pending, claimed or running',
  ).action((id: string | undefined, options: SelectOptions) => {
    const isMany = selects(id, options);
    if (id === undefined || isMany) {
      // The client checks the state and the mode.
      const filter = filterOf(options) as CancelFilter;
      return changeSelected(operator, options, 'cancel', (client, bulk) => client.cancelMany(filter, bulk));
    }
    return perform(operator, options, async (client) => {
      const result = await client.cancel(id, as(options));
      if (result.outcome === 'ended' && result.job.state !== 'cancelled') operator.partly();
      const outcome = {
        cancelled: 'it will not run',
        requested: 'its worker was asked to stop',
        ended: `too late: it is ${result.job.state}`,
      }[result.outcome];
      return { data: result, text: `${id} ${outcome}` };
    });
  });
  withSelection(
    jobs
      .command('retime')
      .description('Move a waiting job, or all that match, to another time; a time in the past means now.'),
    'scheduled or pending',
  )
    .option('--run-at <instant>', 'start no earlier than this, such as 2027-01-31T08:00:00Z')
    .option('--in <duration>', 'the same, counted from now, such as 90m; 0s is now')
    .action((id: string | undefined, options: SelectOptions & InstantOptions) => {
      const isMany = selects(id, options);
      const runAt = instantFrom(options, operator.nowMs());
      if (id === undefined || isMany) {
        const filter = filterOf(options) as RetimeFilter;
        return changeSelected(operator, options, 'retime', (client, bulk) =>
          client.retimeMany(filter, { runAt }, bulk),
        );
      }
      return perform(operator, options, async (client) => {
        const job = await client.retime(id, { runAt }, as(options));
        const outcome =
          job.state === 'scheduled' ? `will not run before ${instant(job.runAtMs)}` : 'may run now';
        return { data: { job }, text: `${id} ${outcome}` };
      });
    });
  withActor(
    jobs
      .command('priority')
      .description('Give a waiting job another priority. It keeps its age.')
      .argument('<id>')
      .argument('<priority>', '0 to 10'),
  ).action((id: string, text: string, options: AuthorOptions) => {
    const priority = numberOf('priority', text);
    return perform(operator, options, async (client) => {
      const job = await client.setPriority(id, priority, as(options));
      return { data: { job }, text: `${id} has priority ${job.priority}` };
    });
  });
  withActor(
    jobs
      .command('retry')
      .description('Try a failed job again, as a new job. Repeated, it shows the same new job.')
      .argument('<id>'),
  ).action((id: string, options: AuthorOptions) =>
    perform(operator, options, async (client) => {
      const result = await client.retry(id, as(options));
      return {
        data: result,
        text: `${result.jobId}${result.repeated ? ' (was made before)' : ''}`,
      };
    }),
  );
}
