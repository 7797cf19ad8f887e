/** `fairlead queues`: the dead letters of the two queues whose messages must not be lost. */
import type { Command } from 'commander';
import type { DeadLetterQueues, QueueView } from '../queue/contract.ts';
import {
  type CommandOutput,
  type CommonOptions,
  type Operator,
  printOutput,
  withCommonOptions,
} from './perform.ts';
import { instant, numberColumn, printable, table, uncutColumn } from './report.ts';
import { LIMIT, limitOf, refusingOthers, UsageError } from './usage.ts';

/** The commands' connections, and a way to close them. */
export interface QueuesConnection {
  readonly queues: DeadLetterQueues;
  readonly close: () => void;
}

export type ConnectQueues = (envFile: string | undefined) => Promise<QueuesConnection>;

export interface QueueKeeper extends Pick<Operator, 'out' | 'columns'> {
  readonly connectQueues: ConnectQueues;
}

/** How many characters of a dead letter are shown to people; `--wide` and `--json` show all. */
const BODY_SHOWN = 160;

/** Adds the commands to the program. */
export function addQueues(program: Command, keeper: QueueKeeper): void {
  const perform = async (
    options: CommonOptions,
    work: (queues: DeadLetterQueues) => Promise<CommandOutput>,
  ): Promise<void> => {
    const { queues, close } = await keeper.connectQueues(options.envFile);
    try {
      printOutput(keeper, options, await work(queues));
    } finally {
      close();
    }
  };
  const group = refusingOthers(
    program
      .command('queues')
      .description('Show and resend messages that became no job, or did not reach the bus.'),
  );
  withCommonOptions(
    group.command('list', { isDefault: true }).description('Show the queues and their dead letters.'),
  ).action((options: CommonOptions) =>
    perform(options, async (queues) => {
      const views = await Promise.all(queues.names.map((name) => queues.look(name)));
      return { data: { queues: views }, text: (width) => queuesText(views, width) };
    }),
  );
  withCommonOptions(
    group
      .command('redrive')
      .description('Send dead letters back to their queue: events become jobs, outcomes go to the bus.')
      .argument('<queue>', 'ingest or outcomes')
      .option('--limit <number>', 'at most this many', LIMIT),
  ).action((name: string, options: CommonOptions & { readonly limit: string }) => {
    const limit = limitOf(options.limit);
    return perform(options, async (queues) => {
      const { sentBack, kept } = await queues.redrive(existingQueue(queues, name), limit);
      const more = sentBack + kept === limit ? '; there may be more: raise --limit' : '';
      const stay =
        kept === 0
          ? ''
          : `; ${kept} stay, because they are no job requests: only a rule of the bus turns them into jobs. Put them on their bus again (queues list --json shows them), then purge`;
      return {
        data: { queue: name, sentBack, kept },
        text: `${sentBack} sent back to ${name}${more}${stay}`,
      };
    });
  });
  withCommonOptions(
    group
      .command('purge')
      .description('Delete all dead letters of a queue for good.')
      .argument('<queue>', 'ingest or outcomes')
      .option('--yes', 'confirm the deletion'),
  ).action((name: string, options: CommonOptions & { readonly yes?: true }) =>
    perform(options, async (queues) => {
      const { deadLetters } = await queues.look(existingQueue(queues, name));
      if (options.yes !== true) {
        throw new UsageError(
          `purge: would delete ${deadLetters} dead letters of ${name} for good; look at them with fairlead queues list, and repeat the command with --yes`,
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

function existingQueue(queues: DeadLetterQueues, name: string): string {
  if (queues.names.includes(name)) return name;
  throw new UsageError(
    `${JSON.stringify(name)} is not a queue with dead letters; there are: ${queues.names.join(', ') || 'none'}`,
  );
}

const COLUMNS = [
  uncutColumn('queue'),
  numberColumn('waiting'),
  numberColumn('taken'),
  numberColumn('dead letters'),
];

function queuesText(views: readonly QueueView[], width: number): string {
  if (views.length === 0) return 'the declaration names no queues: deploy the stack again';
  const rows = views.map(({ queue, waiting, taken, deadLetters }) => [queue, waiting, taken, deadLetters]);
  const most = width === Number.POSITIVE_INFINITY ? width : BODY_SHOWN;
  const letters = views.flatMap(({ queue, shown }) =>
    shown.map(({ sentAtMs, reason, body }) => {
      const cut = body.length > most ? `${body.slice(0, most)}…` : body;
      return `${queue}, sent ${instant(sentAtMs)}: ${printable(reason ?? 'was not processed in as many deliveries as the queue allows')}\n  ${printable(cut)}`;
    }),
  );
  return [table(COLUMNS, rows, width), ...letters].join('\n');
}
