/**
 * Runs a program of this project on a machine where nothing is installed yet but Node 20, npm and python3:
 *
 *     node lib/testing/launch.mjs examples/start.ts [ARGUMENT ...]
 *     node lib/testing/launch.mjs vitest run
 *
 * Installs the npm packages if they are missing or differ from the lockfile, then runs the program on the project's own
 * Node. A program is a TypeScript file, or the name of a command of an installed package. This file is plain JavaScript
 * without dependencies, because it runs before any are installed.
 */
import { spawn } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withLock } from './lock.mjs';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const state = join(root, '.fairlead');
const bin = join(root, 'node_modules/.bin');
const LEAST_NODE = 20;
const INSTALL_WAIT_MS = 15 * 60_000;
const KILL_AFTER_MS = 3_000;

/** An error that the user can act on. It is printed in one line, without a stack. */
class LaunchError extends Error {
  name = 'LaunchError';
}

const say = (line) => process.stderr.write(`fairlead: ${line}\n`);

const readJson = async (path) => JSON.parse(await readFile(path, 'utf8'));

/** Whether the packages that npm has installed are those of the lockfile. Packages for other platforms may be missing. */
async function isInstalled() {
  const [wanted, present] = await Promise.all([
    readJson(join(root, 'package-lock.json')),
    readJson(join(root, 'node_modules/.package-lock.json')).catch(() => undefined),
  ]);
  if (present === undefined) return false;
  return Object.entries(wanted.packages).every(([path, { version, optional }]) => {
    if (path === '') return true;
    const installed = present.packages?.[path];
    return installed === undefined ? optional === true : installed.version === version;
  });
}

/**
 * Passes signals on to the current receiver. The first signal decides how this process ends. Later ones repeat it, because
 * a terminal and npm both deliver the same Ctrl-C.
 */
function signalRelay() {
  let received;
  let pass;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      received ??= signal;
      pass?.(signal);
    });
  }
  return {
    get received() {
      return received;
    },
    to(next) {
      pass = next;
      if (received !== undefined) next(received);
    },
  };
}

/** @returns {Promise<{ code: number | null, signal: string | null }>} */
const ended = (child) =>
  new Promise((done, fail) => {
    child.once('error', fail);
    child.once('close', (code, signal) => done({ code, signal }));
  });

/**
 * Returns the first line in which npm says what went wrong. Such lines begin with `npm error`; the last ones name npm's
 * own log.
 */
function reasonIn(output) {
  const lines = output
    .split('\n')
    .filter((line) => /^npm (error|ERR!)/.test(line))
    .map((line) => line.replace(/^npm (error|ERR!)\s*/, '').trim())
    .filter((line) => line !== '' && !line.startsWith('code ') && !line.startsWith('A complete log'));
  return lines[0] ?? output.trim().split('\n').at(-1) ?? 'no output';
}

async function install(relay) {
  say('installing npm packages (once, about a minute)');
  const startedAtMs = Date.now();
  // If npm runs this script, it names its own script in the environment, so that npm certainly exists.
  const script = process.env.npm_execpath;
  const byScript = script?.endsWith('npm-cli.js');
  const command = byScript ? process.execPath : 'npm';
  const given = ['ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund', '--no-progress'];
  // It has a process group of its own, so that package scripts end with it.
  const child = spawn(command, byScript ? [script, ...given] : given, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  const killGroup = (signal) => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, signal);
    } catch {
      // The group has ended.
    }
  };
  relay.to((signal) => {
    killGroup(signal);
    setTimeout(() => killGroup('SIGKILL'), KILL_AFTER_MS).unref();
  });
  process.once('exit', () => killGroup('SIGKILL'));

  const { code } = await ended(child).catch((error) => {
    throw new LaunchError(
      error.code === 'ENOENT'
        ? 'npm is not on the PATH; install Node.js 20 or later with npm'
        : `npm could not be started: ${error.message}`,
    );
  });
  if (relay.received !== undefined) return;
  if (code !== 0) {
    const log = join(state, 'npm-ci.log');
    await writeFile(log, output);
    throw new LaunchError(
      `npm ci failed: ${reasonIn(output)} (full output: ${log}). Run it again, or \`npm ci\` by hand`,
    );
  }
  say(`npm packages installed in ${Math.round((Date.now() - startedAtMs) / 1000)} s`);
}

async function ensureInstalled(relay) {
  if (await isInstalled()) return;
  await mkdir(state, { recursive: true });
  const controller = new AbortController();
  relay.to(() => controller.abort());
  const onWait = (pid) => say(`process ${pid} is installing npm packages; waiting for it`);
  try {
    await withLock(
      join(state, 'npm.lock'),
      { waitMs: INSTALL_WAIT_MS, onWait, signal: controller.signal },
      // A process that had to wait may find the packages installed.
      async () => (await isInstalled()) || install(relay),
    );
  } catch (error) {
    if (relay.received === undefined) throw error;
  }
}

async function run(program, given, relay) {
  const isFile = program.endsWith('.ts');
  const child = spawn(
    join(bin, isFile ? 'node' : program),
    isFile ? [join(root, program), ...given] : given,
    {
      cwd: root,
      // The program notices the end of this process, even a kill, by the closed IPC channel.
      stdio: isFile ? ['inherit', 'inherit', 'inherit', 'ipc'] : 'inherit',
      env: { ...process.env, PATH: [bin, process.env.PATH ?? ''].join(delimiter) },
    },
  );
  relay.to((signal) => child.kill(signal));
  const { code, signal } = await ended(child).catch((error) => {
    throw new LaunchError(
      error.code === 'ENOENT'
        ? `there is no ${program} in ${bin}; run \`npm ci\``
        : `${program}: ${error.message}`,
    );
  });
  return code ?? 128 + (constants.signals[signal] ?? 0);
}

async function main() {
  const [program, ...given] = process.argv.slice(2);
  if (program === undefined) throw new LaunchError('name a program: a .ts file, or a command of a package');
  if (Number(process.versions.node.split('.')[0]) < LEAST_NODE) {
    throw new LaunchError(
      `Node.js ${process.versions.node} is too old; install version ${LEAST_NODE} or later`,
    );
  }
  const relay = signalRelay();
  await ensureInstalled(relay);
  if (relay.received !== undefined) return 128 + constants.signals[relay.received];
  return run(program, given, relay);
}

try {
  process.exitCode = await main();
} catch (error) {
  say(
    error instanceof LaunchError
      ? error.message
      : error instanceof Error
        ? (error.stack ?? error.message)
        : error,
  );
  process.exitCode = 1;
}
