/**
 * `npm run flood`: one tenant sends 15,000 jobs to a deployed scheduler, then another sends one. Says when that one started, by
 * when it had to, and how many jobs ran at once, as their own handlers tell on the bus.
 */
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { DeleteMessageBatchCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { SchedulerClient } from '../../lib/client/aws.ts';
import type { DeployedApp } from '../../lib/testing/deploy.ts';
import { startEmulator } from '../../lib/testing/emulator.ts';
import { EMULATOR_REGION } from '../../lib/testing/environment.ts';
import { deploy } from '../deploy.ts';
import { wordsOf } from '../failures.ts';
import { CAP, FLOOD, type Interval, mostAtOnce, QUIET, quietBoundMs, TYPE } from './pool.ts';

const USAGE = `Usage: npm run flood -- [--jobs N] [--json]

  --jobs N   how many the first tenant sends, 100 to 100,000 (default: 15000)
  --json     print what was seen as one JSON document on standard output

Environment: AWS_ENDPOINT_URL, an emulator of this machine that runs already; FAIRLEAD_DATA, where its files go (.fairlead).
Exit codes: 0 the second tenant's job started in time and no cap was exceeded; 1 not so; 2 the command line is wrong.
`;

/** One `submitMany` takes so many. */
const BATCH = 5_000;
/** A pass, two queues and a function that starts cold, on an emulator: the bound is of the order in which jobs get slots. */
const HANDED_OVER_MS = 15_000;
/** So many are looked at beyond the second tenant's job, to count what runs at once. */
const ENDED_LEAST = 60;
const LOOK_EVERY_MS = 250;
const GIVE_UP_MS = 300_000;

interface Seen {
  readonly jobs: number;
  /** From its submission to its start. */
  readonly quietWaitedMs: number;
  readonly boundMs: number;
  /** Jobs of the first tenant that had ended by then. */
  readonly floodEndedBefore: number;
  readonly cap: number;
  readonly mostAtOnce: number;
  readonly counted: number;
}

const say = (text: string): void => void process.stderr.write(`${text}\n`);

function jobsAsked(): { readonly jobs: number; readonly json: boolean } | undefined {
  try {
    const { values } = parseArgs({ options: { jobs: { type: 'string' }, json: { type: 'boolean' } } });
    const jobs = Number(values.jobs ?? 15_000);
    if (!Number.isInteger(jobs) || jobs < 100 || jobs > 100_000)
      throw new TypeError(`--jobs must be a whole number from 100 to 100000, not ${values.jobs}`);
    return { jobs, json: values.json === true };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    say(`${error.message}\n\n${USAGE}`);
    return undefined;
  }
}

interface Told extends Interval {
  readonly id: string;
}

/** What handlers have told of their time, as outcome events bring it. */
async function takeEnded(sqs: SQSClient, QueueUrl: string): Promise<readonly Told[]> {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 }),
  );
  if (Messages.length === 0) return [];
  const Entries = Messages.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle }));
  await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
  return Messages.flatMap(({ Body = '' }) => {
    const { detail } = JSON.parse(Body) as {
      readonly detail: { readonly id: string; readonly result?: Interval };
    };
    return detail.result === undefined ? [] : [{ id: detail.id, ...detail.result }];
  });
}

async function submitFlood(client: SchedulerClient, jobs: number): Promise<void> {
  for (let from = 0; from < jobs; from += BATCH) {
    const requests = Array.from({ length: Math.min(BATCH, jobs - from) }, (_, at) => ({
      type: TYPE,
      payload: from + at,
      fairnessKey: FLOOD,
    }));
    for (const entry of await client.submitMany(requests)) if (entry.kind !== 'accepted') throw entry.error;
    say(`${Math.min(jobs, from + BATCH)} jobs of ${FLOOD} are accepted`);
  }
}

async function flood(jobs: number, endpoint: string, { outputs }: DeployedApp): Promise<Seen> {
  const aws = {
    endpoint,
    region: EMULATOR_REGION,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  };
  const { TableName: table = '', WakeQueueUrl: wakeQueueUrl = '', EndedQueueUrl: ended = '' } = outputs;
  const client = new SchedulerClient({ ...aws, table, wakeQueueUrl });
  const sqs = new SQSClient(aws);
  try {
    await submitFlood(client, jobs);
    const { jobId } = await client.submit({ type: TYPE, fairnessKey: QUIET });
    say(`one job of ${QUIET} is accepted`);
    const told = new Map<string, Told>();
    const giveUpMs = Date.now() + GIVE_UP_MS;
    let quiet = await client.get(jobId);
    while (quiet.startedAtMs === undefined || !told.has(jobId) || told.size < ENDED_LEAST) {
      if (Date.now() > giveUpMs)
        throw new Error(
          `after ${GIVE_UP_MS} ms the job of ${QUIET} is ${quiet.state}; ${told.size} jobs have ended`,
        );
      for (const each of await takeEnded(sqs, ended)) told.set(each.id, each);
      quiet = await client.get(jobId);
      await new Promise((resume) => setTimeout(resume, LOOK_EVERY_MS));
    }
    const startedAtMs = quiet.startedAtMs;
    const intervals = [...told.values()];
    return {
      jobs,
      quietWaitedMs: startedAtMs - quiet.submittedAtMs,
      boundMs: quietBoundMs(),
      floodEndedBefore: intervals.filter(({ id, toMs }) => id !== jobId && toMs <= startedAtMs).length,
      cap: CAP,
      mostAtOnce: mostAtOnce(intervals),
      counted: intervals.length,
    };
  } finally {
    client.destroy();
    sqs.destroy();
  }
}

async function main(jobs: number, json: boolean): Promise<number> {
  const dataDir = resolve(process.env.FAIRLEAD_DATA ?? join(import.meta.dirname, '../../.fairlead'));
  const given = process.env.AWS_ENDPOINT_URL;
  const emulator = given === undefined ? await startEmulator({ dataDir, log: say }) : undefined;
  const endpoint = given ?? emulator?.endpoint ?? '';
  try {
    say(`deploying to ${endpoint}`);
    const deployment = await deploy({ endpoint, stack: 'examples/flood/stack.ts', dataDir });
    try {
      const seen = await flood(jobs, endpoint, deployment);
      const inTime = seen.quietWaitedMs <= seen.boundMs + HANDED_OVER_MS;
      process.stdout.write(
        json
          ? `${JSON.stringify(seen)}\n`
          : `The job of ${QUIET} started ${seen.quietWaitedMs} ms after it was submitted, behind ${seen.floodEndedBefore} of ${jobs} jobs of ${FLOOD};
its turn comes within ${seen.boundMs} ms, and is handed over within ${HANDED_OVER_MS} ms here.
At most ${seen.mostAtOnce} jobs ran at once, by the clocks of ${seen.counted} handlers; ${CAP} may.
`,
      );
      return inTime && seen.mostAtOnce <= CAP ? 0 : 1;
    } finally {
      // What lies in an emulator of ours ends with it.
      if (emulator === undefined) await deployment.destroy();
    }
  } finally {
    await emulator?.stop();
  }
}

const asked = jobsAsked();
if (asked === undefined) process.exitCode = 2;
else {
  process.exitCode = await main(asked.jobs, asked.json).catch((error: unknown) => {
    say(wordsOf(error));
    return 1;
  });
}
