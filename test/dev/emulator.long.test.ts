/** `fairlead dev --emulator` in a project with a CDK app. */
import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { descendantsOf, isAlive, until } from '../testing/processes.ts';

const project = resolve(import.meta.dirname, '../..');
const FAIRLEAD = join(project, 'lib/cli/main.ts');
const TIMEOUT_MS = 240_000;

/** What a user's project has; the package's modules are the sources. */
const APP = {
  'cdk.json': '{ "app": "node app.ts" }',
  'app.ts': `import { App, Stack } from 'aws-cdk-lib';
import { Scheduler, WorkerFunction } from '../../cdk/index.ts';
const stack = new Stack(new App(), 'orders');
new Scheduler(stack, 'Jobs', {
  types: { hello: {} },
  fleets: { greeters: { types: ['hello'], handler: new WorkerFunction(stack, 'Greet', { entry: 'greet.ts' }) } },
});
`,
  'greet.ts': `import { worker } from '../../lib/worker/lambda.ts';
export const handler = worker({
  hello: async (payload, { log }) => {
    log.info('greeting', { payload });
    return 'hello';
  },
});
`,
} as const;

it('deploys the app, shows what its functions log, and leaves nothing behind', {
  timeout: TIMEOUT_MS,
}, async () => {
  // Below the project, whose packages it uses.
  await mkdir(join(project, '.fairlead'), { recursive: true });
  const cwd = await mkdtemp(join(project, '.fairlead', 'dev-'));
  onTestFinished(() => rm(cwd, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(APP)) await writeFile(join(cwd, name), text);
  const env = { ...process.env, FAIRLEAD_DATA: join(project, '.fairlead') };
  const child = spawn(process.execPath, [FAIRLEAD, 'dev', '--emulator'], { cwd, env });
  onTestFinished(() => void child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data: Buffer) => {
      output += data.toString();
    });
  const ended = new Promise((done) => child.once('close', done));
  await until(() => output.includes('the stack runs at') || child.exitCode !== null, 'the stack runs');
  expect(output).toContain('the stack runs at http://127.0.0.1:');
  const file = /Its environment is in (\S+);/.exec(output)?.[1] ?? '';
  const run = [FAIRLEAD, 'jobs', 'run', 'hello', '--payload', '{"to":"you"}', '-f', file];
  expect((await promisify(execFile)(process.execPath, run, { cwd })).stdout).toContain('"hello"');
  await until(() => output.includes('greeting'), 'the line of the handler is shown');
  expect(output).toMatch(/^\d\d:\d\d:\d\d Greet {2}greeting \{"payload":\{"to":"you"\},/m);
  const running = descendantsOf(child.pid ?? 0);
  child.kill('SIGINT');
  expect(await ended).toBe(0);
  await until(() => running.every(({ pid }) => !isAlive(pid)), 'all processes are gone');
});
