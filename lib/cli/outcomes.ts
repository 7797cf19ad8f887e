/** `fairlead outcomes publish`: tells the bus once more what became of jobs, such as after a consumer has lost events. */
import { type Command, Option } from 'commander';
import { publishOutcomes } from '../dispatch/outcomes.ts';
import type { EventBus } from '../events/contract.ts';
import type { EndedFilter, EndedJobs } from '../store/ended.ts';
import { instantMsOf } from './usage.ts';

/** What the command works with, and how to close it. */
export interface PublisherConnection {
  readonly ended: EndedJobs;
  readonly events: EventBus;
  readonly close: () => void;
}

/** `unreadable` hears of items that cannot be read. */
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

interface Options {
  readonly since: string;
  readonly until?: string;
  readonly type?: string;
  readonly state?: NonNullable<EndedFilter['state']>;
  readonly dryRun?: true;
  readonly json?: true;
  readonly envFile?: string;
}

/** Of one request to the bus after the other; several requests each. */
const BATCH = 100;

async function publish(options: Options, publisher: Publisher): Promise<void> {
  const { type, state } = options;
  const sinceMs = instantMsOf('--since', options.since);
  const untilMs = options.until === undefined ? publisher.nowMs() : instantMsOf('--until', options.until);
  const { ended, events, close } = await publisher.connectPublisher(options.envFile, (message) =>
    publisher.note(`passed over: ${message}\n`),
  );
  let outcomes = 0;
  try {
    for await (const jobs of ended.endedJobs({ sinceMs, untilMs, type, state })) {
      for (let from = 0; from < jobs.length; from += BATCH) {
        const batch = jobs.slice(from, from + BATCH);
        outcomes += options.dryRun === true ? batch.length : await publishOutcomes(events, batch);
      }
    }
  } finally {
    close();
  }
  const told = options.dryRun === true ? 'would be published' : 'published';
  publisher.out(
    options.json === true
      ? `${JSON.stringify({ outcomes, dryRun: options.dryRun === true })}\n`
      : `${outcomes} outcome events ${told}\n`,
  );
}

/** Adds the commands to the program. */
export function addOutcomes(program: Command, publisher: Publisher): void {
  program
    .command('outcomes')
    .description('The events that tell what became of jobs.')
    .command('publish')
    .description(
      'Publish them once more, each with the id and version that it had. Reads the whole table: a read unit for each 8 KB.',
    )
    .requiredOption('--since <instant>', 'of jobs that ended then or later, such as 2027-01-31T08:00:00Z')
    .option('--until <instant>', 'and before this one; now unless given')
    .option('--type <type>', 'only this job type')
    .addOption(new Option('--state <state>', 'only these').choices(['succeeded', 'failed', 'cancelled']))
    .option('--dry-run', 'only count them')
    .option('--json', 'print one JSON document')
    .option('-f, --env-file <file>', 'take FAIRLEAD_* and AWS_* settings that are not set from this file')
    .addHelpText('after', '\nExit codes: 0 done; 1 the table or the bus refuses it; 2 an option is wrong.')
    .action((options: Options) => publish(options, publisher));
}
