/**
 * Starts MiniStack, the embedded AWS emulator, and stops it together with everything that it has started.
 *
 * On first use it is installed into a Python environment of the project. It listens on one loopback port and keeps
 * everything in memory. It ends when `stop` is called, or when this process ends or is killed.
 */

import { spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ConfigurationError, EnvironmentError } from '../core/errors.ts';
import { type Check, isFunction, objectOf, textWithin, wholeWithin } from '../core/read-fields.ts';
import { closed, type Finished, killGroup, lastLine, runCommand } from './command.ts';
import { withLock } from './lock.mjs';
import { newLogFile } from './log-files.ts';

export interface EmulatorOptions {
  /** A port of 127.0.0.1. Default: a free one. */
  readonly port?: number | undefined;
  /** Folder of the Python environment, logs and temporary files. Default: `.fairlead` in the working directory. */
  readonly dataDir?: string | undefined;
  /** Called with a sentence, without a line break, before each step that takes long. */
  readonly log?: ((line: string) => void) | undefined;
  /** Aborts to stop the emulator at any stage. */
  readonly signal?: AbortSignal | undefined;
  /** Directories in which python3 is looked for. Default: the `PATH`. */
  readonly path?: string | undefined;
}

/** How the emulator ended. */
export interface EmulatorExit {
  /** Whether the end was asked for, by `stop` or by the signal. */
  readonly expected: boolean;
  /** The reason as one sentence, with the path of the log. */
  readonly reason: string;
}

export interface Emulator {
  /** The URL to use as `AWS_ENDPOINT_URL`, such as `http://127.0.0.1:40123`. */
  readonly endpoint: string;
  readonly port: number;
  /** Id of the guard process, which ends the emulator when it is terminated. */
  readonly pid: number;
  readonly logFile: string;
  /** Stops the emulator and everything that it started, and removes its temporary files. May be called more than once. */
  readonly stop: () => Promise<void>;
  /** Lets the emulator run on when this process ends. `kill <pid>` then stops it. */
  readonly release: () => void;
  /** Resolves when the emulator has ended for any reason; never rejects. */
  readonly exited: Promise<EmulatorExit>;
}

const here = dirname(fileURLToPath(import.meta.url));
const GUARD = join(here, 'guard.py');
const REQUIREMENTS = join(here, 'requirements.txt');
const LEAST_PYTHON = [3, 10] as const;
const PYTHONS = ['python3', 'python3.13', 'python3.12', 'python3.11', 'python3.10'];
const INSTALL_WAIT_MS = 10 * 60_000;
const START_WAIT_MS = 60_000;
const POLL_MS = 50;
/** Name of the file with the process group that a folder of temporary files belongs to. */
const OWNER_FILE = 'owner';
/**
 * Milliseconds after which a folder without an owner file counts as abandoned. A younger one may be about to get its
 * owner.
 */
const ABANDONED_MS = 10 * 60_000;

/**
 * Returns the emulator's environment. Its functions inherit it, so it has only the variables that any program needs.
 */
function environment(path: string, more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const passed = ['HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'SSL_CERT_FILE'];
  const kept = Object.fromEntries(
    passed.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])),
  );
  return { ...kept, PATH: path, PYTHONUNBUFFERED: '1', ...more };
}

/** Runs a command that ends when this process ends for any reason. */
const runGuarded = (
  python: string,
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
): Promise<Finished> => runCommand(python, ['-I', GUARD, ...command], { env, signal, endsWithInput: true });

/** Returns the version of an interpreter, such as [3, 11]; undefined if there is no interpreter of this name. */
async function pythonVersion(python: string, path: string): Promise<readonly [number, number] | undefined> {
  const child = spawn(python, ['-I', '-c', 'import sys; print(*sys.version_info[:2])'], {
    env: environment(path),
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const code = await closed(child);
  const [major, minor] = output.trim().split(' ').map(Number);
  return code === 0 && major !== undefined && minor !== undefined ? [major, minor] : undefined;
}

async function findPython(path: string): Promise<string> {
  const tooOld: string[] = [];
  for (const python of PYTHONS) {
    const version = await pythonVersion(python, path);
    if (version === undefined) continue;
    const [major, minor] = version;
    if (major > LEAST_PYTHON[0] || (major === LEAST_PYTHON[0] && minor >= LEAST_PYTHON[1])) return python;
    tooOld.push(`${python} is ${major}.${minor}`);
  }
  const found = tooOld.length === 0 ? 'python3 is not on the PATH' : `${tooOld.join(', ')}: too old`;
  throw new EnvironmentError(
    `${found}. The embedded emulator needs Python ${LEAST_PYTHON.join('.')} or later: ` +
      'install it, or set AWS_ENDPOINT_URL to an emulator of your own',
  );
}

const isReadable = (path: string): Promise<boolean> =>
  readFile(path).then(
    () => true,
    () => false,
  );

/** Installs the Python environment unless it is installed. Several processes may call this at once. */
async function ensurePython(dataDir: string, path: string, options: EmulatorOptions): Promise<string> {
  const { signal } = options;
  const say = options.log ?? (() => {});
  const home = join(dataDir, 'python');
  const python = join(home, 'bin/python');
  const stamp = join(home, '.fairlead-installed');
  const pins = createHash('sha256')
    .update(await readFile(REQUIREMENTS))
    .digest('hex');
  const isInstalled = async (): Promise<boolean> =>
    (await readFile(stamp, 'utf8').catch(() => '')) === pins && (await isReadable(python));
  if (await isInstalled()) return python;

  const onWait = (pid: string): void => say(`process ${pid} is installing the emulator; waiting for it`);
  await withLock(join(dataDir, 'python.lock'), { waitMs: INSTALL_WAIT_MS, onWait, signal }, async () => {
    if (await isInstalled()) return;
    const startedAtMs = Date.now();
    const system = await findPython(path);
    say('installing the emulator (once, about 20 s)');
    await rm(home, { recursive: true, force: true });
    const env = { ...process.env, PATH: path };
    const made = await runGuarded(system, [system, '-m', 'venv', home], env, signal);
    if (made.code !== 0) {
      throw new EnvironmentError(
        `${system} cannot create a virtual environment: ${lastLine(made.output)}. ` +
          'Install its venv module (on Debian and Ubuntu: apt install python3-venv)',
      );
    }
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input', '--no-deps'];
    const installed = await runGuarded(python, [python, ...pip, '-r', REQUIREMENTS], env, signal);
    if (installed.code !== 0) {
      const log = join(dataDir, 'pip.log');
      await writeFile(log, installed.output);
      const reason =
        installed.output.split('\n').find((line) => line.startsWith('ERROR:')) ?? lastLine(installed.output);
      throw new EnvironmentError(
        `pip could not install the emulator: ${reason.replace(/^ERROR:\s*/, '')} (full output: ${log}). ` +
          'Check the network and run it again',
      );
    }
    await writeFile(stamp, pins);
    say(`emulator installed in ${Math.round((Date.now() - startedAtMs) / 1000)} s`);
  });
  return python;
}

const SETTINGS = {
  // The host in queue URLs. An IP address needs no name resolution.
  MINISTACK_HOST: '127.0.0.1',
  LOG_LEVEL: 'WARNING',
  LAMBDA_EXECUTOR: 'local',
  // Switches off listeners and services that we do not use. Some would listen on every interface.
  IOT_MTLS_ENABLED: '0',
  SFTP_ENABLED: '0',
  PERSIST_STATE: '0',
  S3_PERSIST: '0',
  // Keeps MiniStack away from the containers of a Docker on this machine.
  DOCKER_HOST: 'unix:///nonexistent/docker.sock',
} as const;

const groupExists = (pid: number): boolean => {
  try {
    process.kill(-pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Removes temporary files of emulators that were killed together with the process that should have removed them. */
async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const owner = Number(await readFile(join(folder, name, OWNER_FILE), 'utf8').catch(() => ''));
    const { mtimeMs } = await stat(join(folder, name)).catch(() => ({ mtimeMs: Date.now() }));
    const abandoned = owner > 0 ? !groupExists(owner) : Date.now() - mtimeMs > ABANDONED_MS;
    if (abandoned) await rm(join(folder, name), { recursive: true, force: true }).catch(() => {});
  }
}

/** Returns the number in a line such as `port=4566`; undefined if the next line is different, or there is none. */
async function numberIn(lines: AsyncIterator<string>, name: string): Promise<number | undefined> {
  const { value, done } = await lines.next();
  const [before, number] = done ? [] : value.split('=');
  return before === name ? Number(number) : undefined;
}

async function isHealthy(endpoint: string): Promise<boolean> {
  try {
    const answer = await fetch(`${endpoint}/_ministack/health`, { signal: AbortSignal.timeout(5_000) });
    await answer.body?.cancel();
    return answer.ok;
  } catch {
    return false;
  }
}

async function makeTemporary(dataDir: string): Promise<string> {
  const folder = join(dataDir, 'tmp', randomUUID());
  await mkdir(folder, { recursive: true });
  // The emulator puts CommonJS files there, but the surrounding project may declare its files as ES modules.
  await writeFile(join(folder, 'package.json'), '{ "type": "commonjs" }\n');
  return folder;
}

const PORT_MAX = 65_535;
const PATH_BYTES_MAX = 1024 * 1024;

const OPTION_CHECKS: Readonly<Record<keyof EmulatorOptions, Check>> = {
  port: wholeWithin(0, PORT_MAX, 'Leave it out for one that is free.'),
  dataDir: textWithin(PATH_BYTES_MAX, 'Leave it out for `.fairlead` in the working directory.'),
  log: isFunction,
  signal: (field, value) => {
    if (value instanceof AbortSignal) return;
    throw new ConfigurationError(field, value, 'must be an AbortSignal', 'Leave it out.');
  },
  path: textWithin(PATH_BYTES_MAX, 'Leave it out for the PATH.'),
};

/**
 * Starts an emulator. Several may run at once.
 *
 * @throws EnvironmentError if an option is invalid, Python is missing, the installation fails, the port is taken, or the
 * emulator does not start
 */
export async function startEmulator(options: EmulatorOptions = {}): Promise<Emulator> {
  objectOf(OPTION_CHECKS)('options', options);
  const { signal } = options;
  const dataDir = resolve(options.dataDir ?? '.fairlead');
  const path = options.path ?? process.env.PATH ?? '';
  const python = await ensurePython(dataDir, path, options);
  const logFile = await newLogFile(dataDir, 'emulator');
  await removeAbandoned(join(dataDir, 'tmp'));
  const temporary = await makeTemporary(dataDir);
  signal?.throwIfAborted();

  const command = [python, '-I', join(here, 'emulator.py'), String(options.port ?? 0)];
  // The log is a file, not a pipe, because processes that write to it may outlive this process.
  const log = await open(logFile, 'a');
  const child = spawn(python, ['-I', GUARD, ...command], {
    // The emulator runs functions on the first `node` in the PATH.
    env: environment([dirname(process.execPath), path].join(delimiter), { ...SETTINGS, TMPDIR: temporary }),
    detached: true,
    stdio: ['pipe', 'pipe', log.fd],
  });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null)
    throw new EnvironmentError('the emulator was started without pipes for its standard input and output');
  const ended = new Promise<number | null>((done) => {
    child.once('error', () => done(null));
    child.once('exit', (code) => done(code));
  });
  await log.close();
  stdin.on('error', () => {});
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  let group: number | undefined;

  let stopping = false;
  // An exit handler cannot wait, so it kills the group.
  const kill = (): void => killGroup(group);
  const onAbort = (): void => {
    stopping = true;
    // Closing its input makes the guard kill the group, and wait until all of it has ended.
    stdin.destroy();
  };
  process.once('exit', kill);
  signal?.addEventListener('abort', onAbort);
  const removeListeners = (): void => {
    process.removeListener('exit', kill);
    signal?.removeEventListener('abort', onAbort);
  };
  const exited = ended.then(async (code): Promise<EmulatorExit> => {
    // If the guard was killed, the group may still run.
    kill();
    removeListeners();
    await rm(temporary, { recursive: true, force: true, maxRetries: 5 }).catch(() => {});
    if (stopping) return { expected: true, reason: 'stopped' };
    const last = lastLine(await readFile(logFile, 'utf8').catch(() => ''));
    const how = code === null ? 'was killed' : `ended with code ${code}`;
    return {
      expected: false,
      reason: `the emulator ${how}${last === '' ? '' : `: ${last}`} (its log: ${logFile})`,
    };
  });
  const stop = async (): Promise<void> => {
    onAbort();
    await exited;
  };
  const release = (): void => {
    removeListeners();
    stdin.end('release');
    stdout.destroy();
    child.unref();
  };

  try {
    group = await numberIn(lines, 'group');
    await writeFile(join(temporary, OWNER_FILE), String(group));
    const port = await numberIn(lines, 'port');
    if (port === undefined) {
      const { reason } = await exited;
      signal?.throwIfAborted();
      throw new EnvironmentError(
        options.port !== undefined && reason.includes('EADDRINUSE')
          ? `port ${options.port} of 127.0.0.1 is used by another program: end it, or choose another port`
          : reason,
      );
    }
    const endpoint = `http://127.0.0.1:${port}`;
    await untilHealthy(endpoint, exited, logFile);
    signal?.throwIfAborted();
    return { endpoint, port, pid: child.pid ?? 0, logFile, stop, release, exited };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function untilHealthy(endpoint: string, exited: Promise<EmulatorExit>, logFile: string): Promise<void> {
  let over: EmulatorExit | undefined;
  exited.then((exit) => {
    over = exit;
  });
  const giveUpAtMs = Date.now() + START_WAIT_MS;
  while (!(await Promise.race([isHealthy(endpoint), exited.then(() => false)]))) {
    if (over !== undefined) throw new EnvironmentError(over.reason);
    if (Date.now() > giveUpAtMs) {
      throw new EnvironmentError(
        `the emulator did not start within ${START_WAIT_MS / 1000} s (its log: ${logFile})`,
      );
    }
    await sleep(POLL_MS);
  }
}
