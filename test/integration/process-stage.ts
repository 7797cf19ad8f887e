/** Real worker processes on the emulator, and a dispatcher in the test itself: it plays the stream and the ticks. */

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { Job } from '../../lib/core/job.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import { SqsJobQueue } from '../../lib/queue/sqs/queue.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { rankOf } from '../../lib/submit/submit.ts';
import { clientConfiguration, createQueue, createTable } from '../contract/aws.ts';
import { aDispatchContext } from '../fixtures/factories/dispatch-context.ts';
import { fleetEnvironment } from './fleet-environment.ts';
import { type Entry, entriesOf } from './journal.ts';

/** Without news for so long something is wrong. */
const WAIT_MS = 80_000;
/** The processes take seconds; each look is a pass. */
const LOOK_EVERY_MS = 500;

export interface ProcessStage {
  readonly context: DispatchContext;
  /** Of its processes. */
  readonly environment: NodeJS.ProcessEnv;
  readonly journal: () => readonly Entry[];
  /** What the process of this name has written to its output. */
  readonly outputOf: (name: string) => string;
  /** What the wake queue has by now, and soon; taken out of it. */
  readonly takeWakes: () => Promise<readonly string[]>;
  /** Begins a process: `script` beside this file is given a name and the journal; `launcher` is what starts it, if not Node. */
  readonly start: (script: string, name: string, launcher?: readonly string[]) => ChildProcess;
  readonly dispatchUntil: (ids: readonly string[], isSo: (jobs: readonly Job[]) => boolean) => Promise<void>;
  readonly drop: () => Promise<void>;
}

/** @param checkAfterMs - when a job that nobody has started is told of again */
export async function processStage(
  configuration: PoolConfiguration,
  fleet: string,
  checkAfterMs = 5_000,
): Promise<ProcessStage> {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-processes-'));
  const journalFile = join(folder, 'journal');
  const outputFile = (name: string): string => join(folder, `${name}.log`);
  const sqs = new SQSClient(clientConfiguration);
  const workers: ChildProcess[] = [];
  const [table, fleetQueue, wakeQueue] = await Promise.all([
    createTable(),
    createQueue(sqs, fleet),
    createQueue(sqs, 'wakes'),
  ]);
  const queueUrls = { [fleet]: fleetQueue.url };
  const store = new DynamoJobStore({ ...table, place: rankOf(configuration) });
  const context = aDispatchContext({
    store,
    queue: new SqsJobQueue({ client: sqs, queueUrls, wakeQueueUrl: wakeQueue.url }),
    configuration,
    clock: systemClock,
    holder: 'the test',
    budget: { ...DISPATCH_BUDGET, checkAfterMs },
  });
  const env = await fleetEnvironment({
    store,
    configuration,
    fleet,
    table: table.table,
    fleetQueueUrl: fleetQueue.url,
    wakeQueueUrl: wakeQueue.url,
  });
  return {
    context,
    environment: env,
    journal: () => entriesOf(journalFile),
    outputOf: (name) => readFileSync(outputFile(name), 'utf8'),
    takeWakes: wakeQueue.take,
    start: (script, name, launcher = []) => {
      const path = fileURLToPath(new URL(`./${script}`, import.meta.url));
      const [command = process.execPath, ...given] = [...launcher, process.execPath];
      const worker = spawn(command, [...given, path, name, journalFile], {
        env,
        stdio: ['ignore', openSync(outputFile(name), 'a'), 'inherit'],
      });
      workers.push(worker);
      return worker;
    },
    dispatchUntil: async (ids, isSo) => {
      const untilMs = Date.now() + WAIT_MS;
      const seen = new Map<string, number>();
      for (;;) {
        const jobs = (await context.store.getJobs({ ids })).filter((job) => job !== undefined);
        const fresh = jobs.filter((job) => seen.get(job.id) !== job.version);
        for (const job of fresh) seen.set(job.id, job.version);
        const hints = fresh.filter(({ state }) => state !== 'claimed' && state !== 'running');
        await dispatchAll(context, { jobs: hints, reason: hints.length > 0 ? 'stream' : 'tick' });
        if (isSo(jobs)) return;
        if (Date.now() > untilMs) {
          const states = [...Map.groupBy(jobs, (job) => job.state)].map(
            ([state, of]) => `${of.length} ${state}`,
          );
          throw new Error(`waited for too long: ${states.join(', ')}`);
        }
        await systemClock.sleep(LOOK_EVERY_MS);
      }
    },
    drop: async () => {
      for (const worker of workers) worker.kill('SIGKILL');
      await Promise.all([table, fleetQueue, wakeQueue].map((each) => each.drop()));
      sqs.destroy();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
