/** `npm start`, as its tests run it: without npm, with everything else. */
import { type ChildProcess, spawn } from 'node:child_process';
import { onTestFinished } from 'vitest';

export interface Started {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly errors: () => string;
  readonly code: Promise<number | null>;
}

export function start(given: readonly string[], env: Readonly<Record<string, string>> = {}): Started {
  const { AWS_ENDPOINT_URL: _, ...rest } = process.env;
  const child = spawn(process.execPath, ['examples/start.ts', ...given], { env: { ...rest, ...env } });
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

/** The last thing it said. */
export const lastLineOf = ({ errors }: Started): string => errors().trim().split('\n').at(-1) ?? '';

/** Where its emulator listens. */
export const portOf = ({ errors }: Started): number => Number(/127\.0\.0\.1:(\d+)/.exec(errors())?.[1]);
