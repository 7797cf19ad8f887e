/** What the README tells a stranger to do first, for the test that does it. */
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Stack } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import type { Scheduler } from '../../cdk/scheduler.ts';
import { project } from './pack.ts';

export interface Beginning {
  /** Of the shell blocks, in their order. */
  readonly commands: readonly string[];
  /** By path: the TypeScript blocks that begin with one, `// lib/images.ts`. */
  readonly files: Readonly<Record<string, string>>;
}

/** The commands and files of the section that begins with a deployment. */
export async function readmeBeginning(): Promise<Beginning> {
  const readme = await readFile(join(project, 'README.md'), 'utf8');
  const [, section = ''] = /^## Quick start\n([\s\S]*?)^## /m.exec(readme) ?? [];
  const blocks = [...section.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)];
  const commands = blocks.flatMap(({ 1: language, 2: text = '' }) =>
    language === 'sh' ? text.split('\n').filter((line) => line !== '') : [],
  );
  const files = blocks.flatMap(({ 1: language, 2: text = '' }) => {
    const [, path] = /^\/\/ (\S+)\n/.exec(text) ?? [];
    return language === 'ts' && path !== undefined ? [[path, text] as const] : [];
  });
  return { commands, files: Object.fromEntries(files) };
}

/** The stack of the README. */
export type ReadmeStack = new (scope: Construct, id: string) => Stack & { readonly scheduler: Scheduler };

/** The entries of the package, and where the checkout has them. */
const ENTRIES: Readonly<Record<string, string>> = {
  fairlead: 'cdk/index.ts',
  'fairlead/client': 'lib/client/aws.ts',
  'fairlead/jobs': 'lib/jobs/jobs.ts',
  'fairlead/worker': 'lib/worker/lambda.ts',
};

/**
 * The stack as the README's text has it, with the checkout for the package.
 *
 * @param folder - an empty one, where it is written
 */
export async function readmeStack(folder: string): Promise<ReadmeStack> {
  const { files } = await readmeBeginning();
  await symlink(join(project, 'node_modules'), join(folder, 'node_modules'));
  const written = Object.entries(files).map(async ([path, text]) => {
    const here = text
      .replace(/from '(fairlead[^']*)'/g, (_, entry: string) => {
        const source = ENTRIES[entry];
        if (source === undefined) throw new Error(`the README imports ${entry}, which ENTRIES does not have`);
        return `from '${join(project, source)}'`;
      })
      .replace(/from '(\.[^']*)'/g, "from '$1.ts'")
      .replace(/entry: '([^']*)'/g, (_, entry: string) => `entry: '${join(folder, entry)}'`);
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), here);
  });
  await Promise.all(written);
  const { OrdersStack } = (await import(pathToFileURL(join(folder, 'lib/orders-stack.ts')).href)) as {
    readonly OrdersStack: ReadmeStack;
  };
  return OrdersStack;
}

export const JOBS = 200;

/**
 * What the stranger writes next, in the README's app: half of the jobs by the client, half by events that name several each. It takes the
 * results of jobs whose state it has looked at, as the types of the client want it.
 */
export const SUBMIT = `import { EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import { SchedulerClient } from 'fairlead/client';
import { DETAIL_TYPE } from 'fairlead/events';

async function main(): Promise<void> {
  const half = ${JOBS / 2};
  const client = SchedulerClient.fromEnvironment();
  const bus = new EventBridgeClient({});
  const key = (at: number) => 'tenant-' + (at % 7);
  const results = await client.submitMany(
    Array.from({ length: half }, (_, at) => ({ type: 'thumbnail', payload: { at }, fairnessKey: key(at) })),
  );
  const ids = results.map((each) => {
    if (each.kind !== 'accepted') throw new Error(JSON.stringify(each));
    return each.jobId;
  });
  const before = new Set(ids);
  const named = Array.from({ length: half }, (_, at) => 'upload-' + at);
  for (let from = 0; from < half; from += 20) {
    const jobs = named.slice(from, from + 20).map((idempotencyKey, at) => ({ type: 'thumbnail', payload: { at }, fairnessKey: key(at), idempotencyKey }));
    const { FailedEntryCount } = await bus.send(
      new PutEventsCommand({
        Entries: [{ EventBusName: process.env.FAIRLEAD_BUS, Source: 'shop', DetailType: DETAIL_TYPE.requested, Detail: JSON.stringify({ jobs }) }],
      }),
    );
    if (FailedEntryCount) throw new Error('the bus did not take the event');
  }
  // The same request answers the job that the event has made, or makes it.
  const again = await client.submitMany(
    named.map((idempotencyKey, at) => ({ type: 'thumbnail', payload: { at: at % 20 }, fairnessKey: key(at % 20), idempotencyKey })),
  );
  for (const each of again) if (each.kind === 'accepted' && !before.has(each.jobId)) ids.push(each.jobId);
  const done: string[] = [];
  for (const id of ids) {
    let job = await client.get(id);
    while (job.state !== 'succeeded') {
      if (job.state === 'failed' || job.state === 'cancelled') throw new Error(JSON.stringify(job));
      await new Promise((resolve) => setTimeout(resolve, 200));
      job = await client.get(id);
    }
    done.push(JSON.stringify(job.result));
  }
  console.log(JSON.stringify({ done: done.length, widths: [...new Set(done)] }));
  client.destroy();
}

main().catch((error) => { console.error(error); process.exitCode = 1; });
`;
