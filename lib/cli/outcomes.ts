/**
 * `fairlead outcomes publish`: publishes the outcome events of jobs again, for example after a consumer has lost
 * events.
 */
import { type Command, Option } from 'commander';
import { publishOutcomes } from '../dispatch/outcomes.ts';
import type { EventBus } from '../events/contract.ts';
import type { EndedFilter, EndedJobs } from '../store/contract/ended.ts';
import { type CommonOptions, printOutput, withEnvFile, withOutputOptions } from './perform.ts';
import { instantMsOf } from './usage.ts';

/** The command's connections, and a way to close them. */
export interface PublisherConnection {
  readonly ended: EndedJobs;
  readonly events: EventBus;
  readonly close: () => void;
}

/** `unreadable` is called for each item that cannot be read. */
export type ConnectPublisher = (
  envFile: string | undefined,
  unreadable: (message: string) => void,
) => Promise<PublisherConnection>;

export interface Publisher {
  readonly connectPublisher: ConnectPublisher;
  readonly nowMs: () => number;
  readonly out: (text: string) => void;
  readonly note: (text: string) => void;
}

interface Options extends CommonOptions {
  readonly since: string;
  readonly until?: string;
  readonly type?: string;
  readonly state?: NonNullable<EndedFilter['state']>;
  readonly dryRun?: true;
}

/** How many jobs are published at a time. */
const BATCH = 100;
/** How often the progress is printed while the table is read. */
const NOTE_EVERY_MS = 5_000;

async function publish(options: Options, publisher: Publisher): Promise<void> {
  const { type, state } = options;
  const sinceMs = instantMsOf('--since', options.since);
  const untilMs = options.until === undefined ? publisher.nowMs() : instantMsOf('--until', options.until);
  const { ended, events, close } = await publisher.connectPublisher(options.envFile, (message) =>
    publisher.note(`skipped: ${message}\n`),
  );
  let outcomes = 0;
  let notedAtMs = publisher.nowMs();
  try {
    for await (const jobs of ended.endedJobs({ sinceMs, untilMs, type, state })) {
      for (let from = 0; from < jobs.length; from += BATCH) {
        const batch = jobs.slice(from, from + BATCH);
        outcomes += options.dryRun === true ? batch.length : await publishOutcomes(events, batch);
      }
      if (options.json === true || publisher.nowMs() - notedAtMs < NOTE_EVERY_MS) continue;
      notedAtMs = publisher.nowMs();
      publisher.note(`reading the table: ${outcomes} outcome events so far\n`);
    }
  } finally {
    close();
  }
  const dryRun = options.dryRun === true;
  const text = `${outcomes} outcome events ${dryRun ? 'would be published' : 'published'}`;
  printOutput(publisher, options, { data: { outcomes, dryRun }, text });
}

/** Adds the commands to the program. */
export function addOutcomes(program: Command, publisher: Publisher): void {
  const command = program
    .command('outcomes')
    .description('The outcome events of jobs.')
    .command('publish')
    .description(
      'Publish outcome events again, with the same ids and versions. Reads the whole table: one read unit per 8 KB.',
    )
    .requiredOption('--since <instant>', 'jobs that ended then or later, such as 2027-01-31T08:00:00Z')
    .option('--until <instant>', 'jobs that ended before this (default: now)')
    .option('--type <type>', 'only this job type')
    .addOption(
      new Option('--state <state>', 'only this state').choices([
        'succeeded',
        'failed',
        'cancelled',
        'expired',
      ]),
    )
    .option('--dry-run', 'count the events without publishing them');
  withEnvFile(withOutputOptions(command))
    .addHelpText('after', '\nExit codes: 0 done; 1 the table or the bus refuses it; 2 an option is wrong.')
    .action((options: Options) => publish(options, publisher));
}
