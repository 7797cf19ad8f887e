import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EnvironmentError } from '../../lib/core/errors.ts';
import { type EmulatorOptions, startEmulator } from '../../lib/testing/emulator.ts';
import { folderWith } from '../examples/folder.ts';
import { accepts, isAlive, until } from './processes.ts';

const TIMEOUT_MS = 120_000;
const module = resolve('lib/testing/emulator.ts');

async function started(options: EmulatorOptions = {}) {
  const emulator = await startEmulator(options);
  onTestFinished(emulator.stop);
  return emulator;
}

/** Another process that starts an emulator, and says where. */
async function startedElsewhere(): Promise<{
  readonly child: ChildProcess;
  readonly port: number;
  readonly pid: number;
}> {
  const script = `
    const { startEmulator } = await import(${JSON.stringify(module)});
    const { port, pid } = await startEmulator();
    console.log(port + ' ' + pid);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const [port = 0, pid = 0] = line.split(' ').map(Number);
    return { child, port, pid };
  }
  throw new Error('the other process said nothing');
}

describe('the embedded emulator', { timeout: TIMEOUT_MS }, () => {
  it('answers on a loopback port of its own, and nowhere else', async () => {
    const [one, other] = await Promise.all([started(), started()]);
    expect(one.port).not.toBe(other.port);
    for (const { endpoint } of [one, other]) {
      expect((await fetch(`${endpoint}/_ministack/health`)).ok).toBe(true);
    }
    if (process.platform !== 'linux') return;
    // Local address and state, in hexadecimal; 0A is listening.
    const port = one.port.toString(16).toUpperCase().padStart(4, '0');
    const sockets = await Promise.all(
      ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'utf8').catch(() => '')),
    );
    const listening = sockets.join('').match(new RegExp(`[0-9A-F]+:${port} [0-9A-F]+:0000 0A`, 'g'));
    expect(listening).toEqual([`0100007F:${port} 00000000:0000 0A`]);
  });

  it('is gone with its port when it is stopped, twice if need be', async () => {
    const emulator = await started();
    await Promise.all([emulator.stop(), emulator.stop()]);
    expect(await emulator.exited).toEqual({ expected: true, reason: 'stopped' });
    expect(isAlive(emulator.pid)).toBe(false);
    expect(await accepts(emulator.port)).toBe(false);
  });

  it('is gone with its port when the signal is given', async () => {
    const controller = new AbortController();
    const emulator = await started({ signal: controller.signal });
    controller.abort();
    expect((await emulator.exited).expected).toBe(true);
    expect(await accepts(emulator.port)).toBe(false);
  });

  it('does not come up at all after the signal', async () => {
    await expect(startEmulator({ signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
  });

  it('says at once that it has died', async () => {
    const emulator = await started();
    process.kill(emulator.pid, 'SIGKILL');
    const { expected, reason } = await emulator.exited;
    expect(expected).toBe(false);
    expect(reason).toContain('the emulator was killed');
    expect(reason).toContain(emulator.logFile);
    await until(async () => !(await accepts(emulator.port)), 'its port is closed');
  });

  it.each(['SIGKILL', 'SIGTERM'] as const)('does not outlive a process that ends by %s', async (signal) => {
    const { child, port, pid } = await startedElsewhere();
    expect(await accepts(port)).toBe(true);
    child.kill(signal);
    await until(() => !isAlive(pid), 'its guard is gone');
    await until(async () => !(await accepts(port)), 'its port is closed');
  });

  it('runs on when it is released, and ends when its guard is told to', async () => {
    const emulator = await startEmulator();
    emulator.release();
    expect(await accepts(emulator.port)).toBe(true);
    process.kill(emulator.pid, 'SIGTERM');
    await until(() => !isAlive(emulator.pid), 'its guard is gone');
    expect(await accepts(emulator.port)).toBe(false);
  });

  it('says that a port is taken, and how to go on', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => {
      server.close();
    });
    await new Promise((done) => server.once('listening', done));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    await expect(startEmulator({ port })).rejects.toThrow(
      `port ${port} of 127.0.0.1 is used by another program: end it, or choose another port`,
    );
  });

  it('says that Python is missing, and how to go on', async () => {
    const root = await folderWith();
    const starting = startEmulator({ dataDir: join(root, 'data'), path: root });
    await expect(starting).rejects.toThrow(EnvironmentError);
    await expect(startEmulator({ dataDir: join(root, 'data'), path: root })).rejects.toThrow(
      /^python3 is not on the PATH\. .*Python 3\.10 or later: install it, or set AWS_ENDPOINT_URL/,
    );
    expect(await readdir(join(root, 'data'))).not.toContain('python.lock');
  });

  it('says that a Python is too old', async () => {
    const root = await folderWith({ python3: '#!/bin/sh\necho 3 8\n' });
    execFileSync('chmod', ['+x', join(root, 'python3')]);
    await expect(
      startEmulator({ dataDir: join(root, 'data'), path: `${root}:/usr/bin/nowhere` }),
    ).rejects.toThrow(/^python3 is 3\.8: too old\./);
  });

  it('says why a virtual environment cannot be made', async () => {
    const script =
      '#!/bin/sh\ncase "$*" in *version_info*) echo 3 12;; *) echo "No module named venv" >&2; exit 1;; esac\n';
    const root = await folderWith({ python3: script });
    execFileSync('chmod', ['+x', join(root, 'python3')]);
    await expect(startEmulator({ dataDir: join(root, 'data'), path: root })).rejects.toThrow(
      /^python3 cannot create a virtual environment: No module named venv\. Install its venv module/,
    );
  });
});
