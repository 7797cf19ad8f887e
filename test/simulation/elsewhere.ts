/** Looks for planted bugs in processes of their own, which load the sources changed. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { changedFiles, someOf } from '../sample.ts';
import { PLANTED } from './planted.ts';
import type { Planted } from './planted-bug.ts';

const PROGRAM = fileURLToPath(new URL('./find.ts', import.meta.url));
/** Of a sampled run: one bug in so many, */
const SHARE = 5;

/** and those whose sources or tests the commit has changed. */
export function triedBugs(
  purpose: string,
  isOne: (planted: Planted) => boolean,
): readonly (readonly [name: string, planted: Planted])[] {
  const all = Object.entries(PLANTED).filter(([, planted]) => isOne(planted));
  const rotating = new Set(someOf(purpose, all, Math.ceil(all.length / SHARE)));
  const changed = changedFiles();
  return all.filter(
    (each) =>
      rotating.has(each) ||
      ('test' in each[1].foundBy && changed.has(each[1].foundBy.test)) ||
      (each[1].changes ?? []).some(({ file }) => changed.has(file)),
  );
}

/**
 * What is found of each, in this order, one after the other. Undefined: nothing. The search ends with the signal, and with the process
 * that asked.
 */
export function findElsewhere(
  names: readonly string[],
  signal: AbortSignal,
  environment: NodeJS.ProcessEnv = {},
): (name: string) => Promise<string | undefined> {
  const told = new Map(names.map((name) => [name, Promise.withResolvers<string | undefined>()]));
  // Nobody may have asked yet.
  for (const { promise } of told.values()) promise.catch(() => {});
  const child = spawn(process.execPath, [PROGRAM, ...names], {
    env: { ...process.env, ...environment },
    // The channel ends with this process.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    signal,
    killSignal: 'SIGKILL',
  });
  const refuse = (why: unknown): void => {
    for (const { reject } of told.values()) reject(new Error(`nobody looked for it: ${why} ${said}`));
  };
  child.on('error', refuse);
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  // The pipes that were asked for are there.
  createInterface({ input: child.stdout as Readable }).on('line', (line) => {
    // Tests print, too.
    if (!line.startsWith('{"name":')) return;
    const { name, found } = JSON.parse(line) as { readonly name: string; readonly found?: string };
    told.get(name)?.resolve(found);
  });
  child.on('close', refuse);
  return (name) => told.get(name)?.promise ?? Promise.reject(new RangeError(`nobody looks for ${name}`));
}
