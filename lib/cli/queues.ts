/** `fairlead queues`: the two queues whose messages must not be lost, and the dead letters behind them. */
import type { Command } from 'commander';
import type { DeadLetterQueues, QueueView } from '../queue/contract.ts';
import { type Common, common, type Operator, type Said, say } from './perform.ts';
import { amount, instant, printable, table, whole } from './report.ts';
import { LIMIT, limitOf, refusingOthers, UsageError } from './usage.ts';

/** What the commands work with, and how to close it. */
export interface QueuesConnection {
  readonly queues: DeadLetterQueues;
  readonly close: () => void;
}

export type ConnectQueues = (envFile: string | undefined) => Promise<QueuesConnection>;

export interface QueueKeeper extends Pick<Operator, 'out' | 'columns'> {
  readonly connectQueues: ConnectQueues;
}

/** Of a dead letter, what is shown to people; `--wide` and `--json` show all. */
const BODY_SHOWN = 160;

/** Adds the commands to the program. */
export function addQueues(program: Command, keeper: QueueKeeper): void {
  const perform = async (
    options: Common,
    work: (queues: DeadLetterQueues) => Promise<Said>,
  ): Promise<void> => {
    const { queues, close } = await keeper.connectQueues(options.envFile);
    try {
      say(keeper, options, await work(queues));
    } finally {
      close();
    }
  };
  const group = refusingOthers(
    program
      .command('queues')
      .description('Look at what could not become a job, or be told to the bus, and try it again.'),
  );
  common(
    group.command('list', { isDefault: true }).description('Show the queues and their dead letters.'),
  ).action((options: Common) =>
    perform(options, async (queues) => {
      const views = await Promise.all(queues.names.map((name) => queues.look(name)));
      return { data: { queues: views }, text: (width) => queuesText(views, width) };
    }),
  );
  common(
    group
      .command('redrive')
      .description('Send dead letters back to where they belong: events become jobs, outcomes go to the bus.')
      .argument('<queue>', 'ingest or outcomes')
      .option('--limit <number>', 'at most so many', LIMIT),
  ).action((name: string, options: Common & { readonly limit: string }) => {
    const limit = limitOf(options.limit);
    return perform(options, async (queues) => {
      const { sentBack, kept } = await queues.redrive(namedIn(queues, name), limit);
      const more = sentBack + kept === limit ? '; there may be more: raise --limit' : '';
      const stay =
        kept === 0
          ? ''
          : `; ${kept} stay: events that are no requests, and of which only a rule makes something. Put them on their bus again (queues list --json shows them), then purge`;
      return {
        data: { queue: name, sentBack, kept },
        text: `${sentBack} sent back to ${name}${more}${stay}`,
      };
    });
  });
  common(
    group
      .command('purge')
      .description('Delete all dead letters of a queue for good.')
      .argument('<queue>', 'ingest or outcomes')
      .option('--yes', 'they are not wanted any more'),
  ).action((name: string, options: Common & { readonly yes?: true }) =>
    perform(options, async (queues) => {
      const { deadLetters } = await queues.look(namedIn(queues, name));
      if (options.yes !== true) {
        throw new UsageError(
          `purge: would delete ${deadLetters} dead letters of ${name} for good; look at them with fairlead queues list, and repeat it with --yes`,
        );
      }
      await queues.purge(name);
      return {
        data: { queue: name, purged: deadLetters },
        text: `${deadLetters} dead letters of ${name} deleted`,
      };
    }),
  );
}

function namedIn(queues: DeadLetterQueues, name: string): string {
  if (queues.names.includes(name)) return name;
  throw new UsageError(
    `there is no queue ${JSON.stringify(name)} with dead letters; there are: ${queues.names.join(', ') || 'none'}`,
  );
}

const COLUMNS = [whole('queue'), amount('waiting'), amount('taken'), amount('dead letters')];

function queuesText(views: readonly QueueView[], width: number): string {
  if (views.length === 0) return 'the declaration names no queues: deploy the stack again';
  const rows = views.map(({ queue, waiting, taken, deadLetters }) => [queue, waiting, taken, deadLetters]);
  const most = width === Number.POSITIVE_INFINITY ? width : BODY_SHOWN;
  const letters = views.flatMap(({ queue, shown }) =>
    shown.map(({ sentAtMs, reason, body }) => {
      const cut = body.length > most ? `${body.slice(0, most)}…` : body;
      return `${queue}, sent ${instant(sentAtMs)}: ${printable(reason ?? 'was not taken in as many deliveries as it had')}\n  ${printable(cut)}`;
    }),
  );
  return [table(COLUMNS, rows, width), ...letters].join('\n');
}
