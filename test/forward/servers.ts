/** Servers of forwarded jobs, as processes. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const FOLDER = resolve(import.meta.dirname, '../../examples/workers');

export interface WorkerServer {
  readonly url: string;
  /** Kills it, and waits until it is gone. */
  readonly kill: () => Promise<void>;
}

export const hasGo = spawnSync('go', ['version']).status === 0;

let program: string | undefined;
/** Compiles the example in Go, once. */
function goProgram(): string {
  if (program !== undefined) return program;
  program = join(mkdtempSync(join(tmpdir(), 'fairlead-go-')), 'worker');
  const { status, stderr } = spawnSync('go', ['build', '-o', program, join(FOLDER, 'worker.go')], {
    env: { ...process.env, GOFLAGS: '-mod=mod', CGO_ENABLED: '0', GOMAXPROCS: '1' },
  });
  if (status !== 0) throw new Error(`go build failed: ${stderr}`);
  return program;
}

const commandOf = (language: 'python' | 'go'): readonly [string, ...string[]] =>
  language === 'go' ? [goProgram()] : ['python3', join(FOLDER, 'worker.py')];

/** Starts an example server; port 0 lets it choose one. */
export async function serverIn(language: 'python' | 'go', port = 0): Promise<WorkerServer> {
  const [command, ...parameters] = commandOf(language);
  const child: ChildProcess = spawn(command, [...parameters, String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout ?? child, 'data')) as [Buffer];
  return {
    url: `http://127.0.0.1:${String(line).trim()}`,
    kill: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}
