import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { folderWith } from '../examples/folder.ts';
import { isAlive, until } from './processes.ts';

const TIMEOUT_MS = 60_000;

/**
 * A project with the launcher and one dependency that lies beside it, so that npm needs no network: its `node` is
 * the Node that runs this test.
 */
async function project(program: string): Promise<string> {
  const manifest = {
    name: 'project',
    version: '1.0.0',
    type: 'module',
    dependencies: { node: 'file:local/node' },
  };
  const local = { name: 'node', version: '24.0.0', bin: { node: 'node.sh' } };
  const root = await folderWith({
    'package.json': JSON.stringify(manifest),
    'package-lock.json': JSON.stringify({
      name: 'project',
      version: '1.0.0',
      lockfileVersion: 3,
      requires: true,
      packages: {
        '': { name: manifest.name, version: manifest.version, dependencies: manifest.dependencies },
        'local/node': { name: 'node', version: local.version, bin: local.bin },
        'node_modules/node': { resolved: 'local/node', link: true },
      },
    }),
    'local/node/package.json': JSON.stringify(local),
    'local/node/node.sh': `#!/bin/sh\nexec ${process.execPath} "$@"\n`,
    'program.ts': program,
  });
  await chmod(join(root, 'local/node/node.sh'), 0o755);
  await mkdir(join(root, 'lib/testing'), { recursive: true });
  for (const name of ['launch.mjs', 'lock.mjs']) {
    await cp(resolve('lib/testing', name), join(root, 'lib/testing', name));
  }
  return root;
}

interface Launched {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly errors: () => string;
  readonly code: Promise<number | null>;
}

function launch(root: string, given: readonly string[], env: Record<string, string> = {}): Launched {
  const { npm_execpath: _, ...rest } = process.env;
  const child = spawn(process.execPath, ['lib/testing/launch.mjs', ...given], {
    cwd: root,
    env: { ...rest, ...env },
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  let output = '';
  let errors = '';
  child.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  child.stderr.on('data', (data: Buffer) => {
    errors += data.toString();
  });
  const code = new Promise<number | null>((done) => child.once('close', done));
  return { child, output: () => output, errors: () => errors, code };
}

const PRINT = 'console.log(JSON.stringify(process.argv.slice(2)));';

describe('the launcher', { timeout: TIMEOUT_MS }, () => {
  it('installs what is missing, once, and runs the program with its arguments', async () => {
    const root = await project(PRINT);
    const first = launch(root, ['program.ts', '--json', 'a b']);
    expect(await first.code).toBe(0);
    expect(first.output()).toBe('["--json","a b"]\n');
    expect(first.errors()).toContain('installing npm packages');
    const second = launch(root, ['program.ts']);
    expect(await second.code).toBe(0);
    expect(second.errors()).toBe('');
  });

  it('has a lockfile of the packages that npm installs, and of no other, so that it installs once', async () => {
    const root = resolve(import.meta.dirname, '../..');
    const packagesIn = async (path: string): Promise<Readonly<Record<string, { optional?: boolean }>>> =>
      JSON.parse(await readFile(join(root, path), 'utf8')).packages;
    const installed = await packagesIn('node_modules/.package-lock.json');
    const wanted = Object.entries(await packagesIn('package-lock.json'));
    const missing = wanted.filter(
      ([path, { optional }]) => path !== '' && optional !== true && !(path in installed),
    );
    expect(missing).toEqual([]);
  });

  it('installs again when the lockfile asks for something else', async () => {
    const root = await project(PRINT);
    await launch(root, ['program.ts']).code;
    const path = join(root, 'node_modules/.package-lock.json');
    await writeFile(path, (await readFile(path, 'utf8')).replaceAll('24.0.0', '23.0.0'));
    const again = launch(root, ['program.ts']);
    expect(await again.code).toBe(0);
    expect(again.errors()).toContain('installing npm packages');
  });

  it('installs once when it is called twice at the same time', async () => {
    const root = await project(PRINT);
    const both = [launch(root, ['program.ts', '1']), launch(root, ['program.ts', '2'])];
    expect(await Promise.all(both.map((each) => each.code))).toEqual([0, 0]);
    expect(both.map((each) => each.output())).toEqual(['["1"]\n', '["2"]\n']);
    const errors = both.map((each) => each.errors()).join('');
    expect(errors.match(/fairlead: installing npm packages/g)).toHaveLength(1);
    expect(await readdir(join(root, '.fairlead'))).toEqual([]);
  });

  it('ends with the exit code of the program', async () => {
    const root = await project('process.exitCode = 7;');
    expect(await launch(root, ['program.ts']).code).toBe(7);
  });

  it('runs the command of a package', async () => {
    const root = await project('');
    const launched = launch(root, ['node', '-p', '6 * 7']);
    expect(await launched.code).toBe(0);
    expect(launched.output()).toBe('42\n');
  });

  it('says in one line why npm failed, and where its output is', async () => {
    const root = await project(PRINT);
    await rm(join(root, 'package-lock.json'));
    await writeFile(
      join(root, 'package-lock.json'),
      JSON.stringify({ packages: { 'node_modules/node': { version: '1' } } }),
    );
    const launched = launch(root, ['program.ts']);
    expect(await launched.code).toBe(1);
    const last = launched.errors().trim().split('\n').at(-1);
    expect(last).toMatch(/^fairlead: npm ci failed: .+npm-ci\.log.+Run it again/);
  });

  it('says in one line that npm is missing', async () => {
    const root = await project(PRINT);
    const launched = launch(root, ['program.ts'], { PATH: root });
    expect(await launched.code).toBe(1);
    expect(launched.errors()).toContain(
      'fairlead: npm is not on the PATH; install Node.js 20 or later with npm\n',
    );
  });

  it('says in one line that there is no such command', async () => {
    const root = await project(PRINT);
    const launched = launch(root, ['nonsense']);
    expect(await launched.code).toBe(1);
    expect(launched.errors()).toContain('fairlead: there is no nonsense in ');
  });

  it('passes a signal on, and ends as the program decides', async () => {
    const root = await project(`
      process.on('SIGINT', () => process.exit(130));
      setInterval(() => {}, 1_000);
      console.log(process.pid);`);
    const launched = launch(root, ['program.ts']);
    await until(() => launched.output() !== '', 'the program runs');
    launched.child.kill('SIGINT');
    expect(await launched.code).toBe(130);
    expect(isAlive(Number(launched.output()))).toBe(false);
  });

  it('ends while it installs, and takes npm with it', async () => {
    const root = await project(PRINT);
    const npm = '#!/bin/sh\necho $$ > npm.pid\nwhile :; do sleep 1; done\n';
    await writeFile(join(root, 'npm'), npm, { mode: 0o755 });
    const launched = launch(root, ['program.ts'], { PATH: `${root}:/usr/bin:/bin` });
    const pidIn = async () => Number(await readFile(join(root, 'npm.pid'), 'utf8').catch(() => ''));
    await until(async () => (await pidIn()) > 0, 'npm runs');
    launched.child.kill('SIGINT');
    expect(await launched.code).toBe(130);
    const pid = await pidIn();
    await until(() => !isAlive(pid), 'npm is gone');
  });

  it('tells a program that it is gone, however it ended', async () => {
    const root = await project(`
      import { writeFileSync } from 'node:fs';
      process.on('disconnect', () => writeFileSync('told', ''));
      console.log(process.pid);`);
    const launched = launch(root, ['program.ts']);
    await until(() => launched.output() !== '', 'the program runs');
    launched.child.kill('SIGKILL');
    await until(async () => (await readdir(root)).includes('told'), 'the program was told');
  });
});
