/**
 * A stranger's first hour: in an empty folder outside the repository, the packed package is installed as the README says, its
 * code becomes a CDK app, which is tested with jest, type-checked, deployed to the embedded emulator, and works; then once more with
 * the oldest Node.js that is promised.
 */
import { type ExecFileException, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EMULATOR_ACCOUNT, EMULATOR_REGION, emulatorEnvironment } from '../../lib/testing/environment.ts';
import { endpoint } from '../contract/aws.ts';
import { type Packed, packPackage, project } from './pack.ts';
import { JOBS, readmeBeginning, SUBMIT } from './readme.ts';

const TIMEOUT_MS = 15 * 60_000;

/** What `cdk init app --language typescript` makes, as far as it matters here. */
const APP = {
  'package.json': JSON.stringify({ name: 'orders', private: true, version: '0.1.0' }),
  'cdk.json': JSON.stringify({ app: 'npx tsx bin/orders.ts' }),
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      target: 'ES2022',
      module: 'NodeNext',
      moduleResolution: 'NodeNext',
      lib: ['es2022'],
      types: ['node', 'jest'],
      strict: true,
      noEmit: true,
      skipLibCheck: false,
      esModuleInterop: true,
    },
    exclude: ['node_modules', 'cdk.out'],
  }),
  'jest.config.js': `module.exports = { testEnvironment: 'node', roots: ['<rootDir>/test'], transform: { '^.+[.]ts$': '<rootDir>/jest-transform.js' } };
`,
  // What a cdk init app takes ts-jest for, esbuild does.
  'jest-transform.js': `const { transformSync } = require('esbuild');
module.exports = {
  process: (code, sourcefile) => transformSync(code, { loader: 'ts', format: 'cjs', target: 'node22', sourcefile }),
};
`,
  'emulator.mjs': `import { startEmulator } from 'fairlead/testing';
const emulator = await startEmulator({ dataDir: process.argv[2] });
console.log(emulator.endpoint);
for await (const _ of process.stdin);
await emulator.stop();
`,
  'bin/orders.ts': `import { App } from 'aws-cdk-lib';
import { OrdersStack } from '../lib/orders-stack';
new OrdersStack(new App(), 'Orders');
`,
  'test/orders.test.ts': `import { App } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { SchedulerClient } from 'fairlead/client';
import { OrdersStack } from '../lib/orders-stack';
import { handler } from '../lib/images';

test('the stack has one table', () => {
  const app = new App({ context: { 'aws:cdk:bundling-stacks': [] } });
  Template.fromStack(new OrdersStack(app, 'Orders')).resourceCountIs('AWS::DynamoDB::GlobalTable', 1);
  expect(typeof handler).toBe('function');
  expect(typeof SchedulerClient.fromEnvironment).toBe('function');
});
`,
  'submit.ts': SUBMIT,
  'width.ts': `import { widthOf } from './lib/api';
widthOf('b.png').then((width) => console.log(width));
`,
} as const;

let packed: Packed;
let folder: string;
let oldestFolder: string;

/** Runs a command in the app's folder; what it wrote is in the error when it fails. */
const sh = (command: string, env: NodeJS.ProcessEnv = {}): Promise<string> =>
  new Promise((done, fail) => {
    const rest = Object.entries(process.env).filter(
      ([name]) => !/^(AWS|FAIRLEAD|NODE_OPTIONS$|VITEST|npm_)/.test(name),
    );
    const options = {
      cwd: folder,
      env: { ...Object.fromEntries(rest), NO_COLOR: '1', CI: 'true', ...env },
      maxBuffer: 64 * 1024 * 1024,
    };
    execFile('bash', ['-c', command], options, (error: ExecFileException | null, stdout, stderr) => {
      if (error === null) done(stdout);
      else fail(new Error(`${command}\n${stdout.slice(-4_000)}\n${stderr.slice(-4_000)}`, { cause: error }));
    });
  });

const AWS = {
  ...emulatorEnvironment(endpoint),
  AWS_EC2_METADATA_DISABLED: 'true',
  CDK_DISABLE_CLI_TELEMETRY: 'true',
};

beforeAll(async () => {
  packed = await packPackage();
  folder = await mkdtemp(join(tmpdir(), 'fairlead-stranger-'));
  oldestFolder = await mkdtemp(join(tmpdir(), 'fairlead-oldest-'));
  const { files } = await readmeBeginning();
  for (const [path, text] of Object.entries<string>({ ...APP, ...files })) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}, TIMEOUT_MS);
afterAll(async () => {
  for (const each of [packed?.folder, folder, oldestFolder])
    if (each !== undefined) await rm(each, { recursive: true, force: true });
});

/** The tools of a `cdk init` app that the README takes for given, in the versions of the project where it has them. */
async function tools(): Promise<string> {
  const { devDependencies } = JSON.parse(await readFile(join(project, 'package.json'), 'utf8')) as {
    readonly devDependencies: Readonly<Record<string, string>>;
  };
  const pinned = ['aws-cdk', 'aws-cdk-lib', 'constructs', 'typescript', '@types/node', 'esbuild'];
  return [
    ...pinned.map((name) => `${name}@${devDependencies[name]}`),
    'jest@30',
    '@types/jest@30',
    'tsx@4',
  ].join(' ');
}

/** Deploys the app, runs the README's one job and 200 more, and removes it: everything with the `node` that PATH has first. */
async function deployAndRun(aws: NodeJS.ProcessEnv, nodeFolder: string) {
  const { commands } = await readmeBeginning();
  const [, , deploy, env, run = ''] = commands;
  const on = (command: string): Promise<string> => sh(`PATH="${nodeFolder}:$PATH" ${command}`, aws);
  await rm(join(folder, '.env'), { force: true });
  await expect(on(run)).rejects.toThrow(/\nfairlead: --env-file: \.env cannot be read /);
  await on(`npx cdk bootstrap aws://${EMULATOR_ACCOUNT}/${EMULATOR_REGION} --no-notices`);
  await on(`${deploy} --require-approval never --method direct --no-notices`);
  try {
    await on(env ?? '');
    expect(await readFile(join(folder, '.env'), 'utf8')).toContain('FAIRLEAD_TABLE=');
    const one = await on(run);
    const submitted = await on('node --env-file=.env --import tsx submit.ts');
    return {
      one,
      typed: await on('node --env-file=.env --import tsx width.ts'),
      many: JSON.parse(submitted) as { readonly done: number; readonly widths: readonly string[] },
    };
  } finally {
    await on('npx cdk destroy --all --force --no-notices');
  }
}

it("the README's first code installs, is tested, type-checks, deploys and finishes 200 jobs", {
  timeout: TIMEOUT_MS,
}, async () => {
  const [install = ''] = (await readmeBeginning()).commands;
  expect(install).toBe('npm install fairlead aws-cdk-lib constructs');
  await sh(`npm install --no-audit --no-fund --save-dev ${await tools()}`);
  await sh(
    install.replace('fairlead', packed.tarball).replace(/^npm install/, 'npm install --no-audit --no-fund'),
  );
  await sh('npx tsc --noEmit');
  await sh('npx jest');
  const { one, typed, many } = await deployAndRun(AWS, dirname(process.execPath));
  expect(one).toContain('256');
  expect(typed).toBe('256\n');
  expect(many).toEqual({ done: JOBS, widths: ['{"width":256}'] });
});

it('the same app does the same with the oldest Node.js that is promised: its tests, the CDK, client, command line and handlers', {
  timeout: TIMEOUT_MS,
}, async () => {
  // Beside the app: what npx runs would find it there, whatever PATH says.
  await sh(`npm install --no-audit --no-fund --no-save --prefix ${oldestFolder} node@22`);
  const oldest = join(oldestFolder, 'node_modules/node/bin');
  expect(await sh(`${oldest}/node --version`)).toMatch(/^v22\./);
  const on22 = (command: string): Promise<string> => sh(`PATH="${oldest}:$PATH" ${command}`);
  expect(await on22('node node_modules/.bin/fairlead --version')).toMatch(/^\d/);
  await on22('node node_modules/.bin/jest');
  // The handler also says what it runs on.
  const images = join(folder, 'lib/images.ts');
  const text = await readFile(images, 'utf8');
  await writeFile(images, text.replace('width: 256', 'width: 256, node: process.versions.node.slice(0, 2)'));
  const emulator = await emulatorOf(`${oldest}/node`);
  try {
    const aws = { ...AWS, ...emulatorEnvironment(emulator.endpoint) };
    const { one, typed, many } = await deployAndRun(aws, oldest);
    expect(one).toContain('256');
    expect(typed).toBe('256\n');
    expect(many).toEqual({ done: JOBS, widths: ['{"width":256,"node":"22"}'] });
  } finally {
    await emulator.stop();
  }
});

/** One that the package's own `fairlead/testing` starts, with this Node.js: what it deploys runs on the same. It ends with its input. */
async function emulatorOf(
  node: string,
): Promise<{ readonly endpoint: string; readonly stop: () => Promise<void> }> {
  const child = spawn(node, ['emulator.mjs', join(project, '.fairlead')], {
    cwd: folder,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  const [endpoint] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    ended,
  ])) as [unknown];
  if (typeof endpoint !== 'string')
    throw new Error(`the emulator did not start: it ended with ${String(endpoint)}`);
  return {
    endpoint,
    stop: async () => {
      child.stdin.end();
      await ended;
    },
  };
}
