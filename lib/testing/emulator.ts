/**
 * Starts MiniStack, the embedded AWS emulator, and stops it with everything it has spawned.
 *
 * It is installed into a Python environment of the project on first use. It listens on one loopback port, keeps
 * everything in memory, and ends when `stop` is called, when this process ends, or when this process is killed.
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
  /** A port of 127.0.0.1. Default: one that is free. */
  readonly port?: number | undefined;
  /** Holds the Python environment, logs and temporary files. Default: `.fairlead` in the working directory. */
  readonly dataDir?: string | undefined;
  /** Told what takes long: a sentence without a line end. */
  readonly log?: ((line: string) => void) | undefined;
  /** Stops the emulator, at whatever stage it is. */
  readonly signal?: AbortSignal | undefined;
  /** Where python3 is looked for. Default: the `PATH`. */
  readonly path?: string | undefined;
}

/** How the emulator came to its end. */
export interface EmulatorExit {
  /** True after `stop`, or after the signal. */
  readonly expected: boolean;
  /** One sentence, with where the log is. */
  readonly reason: string;
}

export interface Emulator {
  /** Such as `http://127.0.0.1:40123`; for `AWS_ENDPOINT_URL`. */
  readonly endpoint: string;
  readonly port: number;
  /** Of the process that guards it: ends it when terminated. */
  readonly pid: number;
  readonly logFile: string;
  /** Ends it and all that it spawned, and removes its temporary files. May be called more than once. */
  readonly stop: () => Promise<void>;
  /** Lets it run on when this process ends. `kill <pid>` stops it then. */
  readonly release: () => void;
  /** Settles when it has ended, for whatever reason; never rejects. */
  readonly exited: Promise<EmulatorExit>;
}

const here = dirname(fileURLToPath(import.meta.url));
const GUARD = join(here, 'guard.py');
const REQUIREMENTS = join(here, 'requirements.txt');
const LEAST_PYTHON = [3, 10] as const;
const PYTHONS = ['python3', 'python3.13', 'python3.12', 'python3.11', 'python3.10'];
const INSTALL_WAIT_MS = 10 * 60_000;
const START_MS = 60_000;
const POLL_MS = 50;
/** Names the process group that a folder of temporary files belongs to. */
const OWNER = 'owner';
/** A folder without an owner is about to get one, unless it is that old. */
const ABANDONED_MS = 10 * 60_000;

/** The emulator's functions inherit its environment: nothing of the caller's but what a program needs to run. */
function environment(path: string, more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const passed = ['HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'SSL_CERT_FILE'];
  const kept = Object.fromEntries(
    passed.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])),
  );
  return { ...kept, PATH: path, PYTHONUNBUFFERED: '1', ...more };
}

/** Runs a command that ends with this process, however this process ends. */
const runGuarded = (
  python: string,
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
): Promise<Finished> => runCommand(python, ['-I', GUARD, ...command], { env, signal, endsWithInput: true });

/** The version of an interpreter, such as [3, 11]; undefined if there is none of that name. */
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

const isThere = (path: string): Promise<boolean> =>
  readFile(path).then(
    () => true,
    () => false,
  );

/** Makes sure of the Python environment. Several processes may do so at once. */
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
    (await readFile(stamp, 'utf8').catch(() => '')) === pins && (await isThere(python));
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
        `${system} cannot make a virtual environment: ${lastLine(made.output)}. ` +
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
        `pip could not install the emulator: ${reason.replace(/^ERROR:\s*/, '')} (all of it: ${log}). ` +
          'Check the network and run it again',
      );
    }
    await writeFile(stamp, pins);
    say(`emulator installed in ${Math.round((Date.now() - startedAtMs) / 1000)} s`);
  });
  return python;
}

const SETTINGS = {
  // In queue URLs: an address needs no name to be resolved.
  MINISTACK_HOST: '127.0.0.1',
  LOG_LEVEL: 'WARNING',
  LAMBDA_EXECUTOR: 'local',
  // Listeners and services that nothing here uses; some would listen on every interface.
  IOT_MTLS_ENABLED: '0',
  SFTP_ENABLED: '0',
  PERSIST_STATE: '0',
  S3_PERSIST: '0',
  // Never touches the containers of a Docker that happens to run here.
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

/** Temporary files of emulators that were killed together with whoever should have removed them. */
async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const owner = Number(await readFile(join(folder, name, OWNER), 'utf8').catch(() => ''));
    const { mtimeMs } = await stat(join(folder, name)).catch(() => ({ mtimeMs: Date.now() }));
    const abandoned = owner > 0 ? !groupExists(owner) : Date.now() - mtimeMs > ABANDONED_MS;
    if (abandoned) await rm(join(folder, name), { recursive: true, force: true }).catch(() => {});
  }
}

/** The number in a line such as `port=4566`; undefined if the next line is another one, or there is none. */
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
  // The emulator puts CommonJS files there, and a project around them may say that its files are something else.
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
 * Starts an emulator; several may run at once.
 *
 * @throws EnvironmentError when an option is wrong, Python is missing, the installation fails, the port is taken, or it does not come up
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
  // A file, not a pipe: what writes into it may outlive this process.
  const log = await open(logFile, 'a');
  const child = spawn(python, ['-I', GUARD, ...command], {
    // Its functions run on the `node` that is found first.
    env: environment([dirname(process.execPath), path].join(delimiter), { ...SETTINGS, TMPDIR: temporary }),
    detached: true,
    stdio: ['pipe', 'pipe', log.fd],
  });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null)
    throw new EnvironmentError('the emulator was started without its pipes');
  const ended = new Promise<number | null>((done) => {
    child.once('error', () => done(null));
    child.once('exit', (code) => done(code));
  });
  await log.close();
  stdin.on('error', () => {});
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  let group: number | undefined;

  let stopping = false;
  // At this process's exit nothing else can be waited for.
  const kill = (): void => killGroup(group);
  const onAbort = (): void => {
    stopping = true;
    // The guard kills the group and waits for the last of it.
    stdin.destroy();
  };
  process.once('exit', kill);
  signal?.addEventListener('abort', onAbort);
  const leave = (): void => {
    process.removeListener('exit', kill);
    signal?.removeEventListener('abort', onAbort);
  };
  const exited = ended.then(async (code): Promise<EmulatorExit> => {
    // The guard may have been killed, and could do nothing.
    kill();
    leave();
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
    leave();
    stdin.end('release');
    stdout.destroy();
    child.unref();
  };

  try {
    group = await numberIn(lines, 'group');
    await writeFile(join(temporary, OWNER), String(group));
    const port = await numberIn(lines, 'port');
    if (port === undefined) {
      const { reason } = await exited;
      signal?.throwIfAborted();
      throw new EnvironmentError(
        options.port !== undefined && reason.includes('EADDRINUSE')
          ? `port ${options.port} of 127.0.0.1 is taken by another program: end it, or choose another port`
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
  const giveUpAtMs = Date.now() + START_MS;
  while (!(await Promise.race([isHealthy(endpoint), exited.then(() => false)]))) {
    if (over !== undefined) throw new EnvironmentError(over.reason);
    if (Date.now() > giveUpAtMs) {
      throw new EnvironmentError(
        `the emulator did not come up within ${START_MS / 1000} s (its log: ${logFile})`,
      );
    }
    await sleep(POLL_MS);
  }
}
