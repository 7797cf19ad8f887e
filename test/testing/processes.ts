/** Looks at processes and ports from outside, as an operator would. */
import { execFileSync } from 'node:child_process';
import { createConnection } from 'node:net';
import { vi } from 'vitest';

const BOUND_MS = 120_000;

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

export interface Process {
  readonly pid: number;
  readonly command: string;
}

/** Everything that a process has started, and what that has started. */
export function descendantsOf(root: number): readonly Process[] {
  const listed = execFileSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8' });
  const all = listed.split('\n').flatMap((line) => {
    const [, pid, parent, command = ''] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
    return pid === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), command }];
  });
  const under = (parent: number): readonly Process[] =>
    all.filter((each) => each.parent === parent).flatMap((each) => [each, ...under(each.pid)]);
  return under(root);
}

export const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });

/** Waits for what is to become true. */
export const until = (condition: () => Promise<boolean> | boolean, what: string): Promise<void> =>
  vi.waitFor(
    async () => {
      if (!(await condition())) throw new Error(`not so within ${BOUND_MS} ms: ${what}`);
    },
    { timeout: BOUND_MS, interval: 20 },
  );
