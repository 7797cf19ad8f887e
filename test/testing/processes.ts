/** Looks at processes and ports from outside, as an operator would. */
import { createConnection } from 'node:net';
import { vi } from 'vitest';

const BOUND_MS = 20_000;

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
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
