/** What `--keep` leaves behind: how to reach what runs on, in words that work as they stand. */
import { writeFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { environmentIn, formatted } from '../lib/cli/env.ts';
import { emulatorEnvironment } from '../lib/testing/environment.ts';

/** How to reach and to stop what was left running. */
export interface Kept {
  readonly endpoint: string;
  /** Holds what the commands need; written by `keepReachable`. */
  readonly envFile: string;
  readonly env: Readonly<Record<string, string>>;
  readonly commands: readonly string[];
  readonly stop: string;
}

export const quoted = (text: string): string =>
  /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * Writes the environment of clients, commands and workers into a file.
 * @param looks - commands of `fairlead`
 */
export async function keepReachable(
  dataDir: string,
  endpoint: string,
  outputs: Readonly<Record<string, string>>,
  looks: readonly string[],
): Promise<Omit<Kept, 'stop'>> {
  const env = { ...emulatorEnvironment(endpoint), ...environmentIn('the example', outputs, undefined) };
  const envFile = join(dataDir, 'kept.env');
  await writeFile(envFile, formatted(env, 'dotenv'));
  // npm runs scripts in the project's folder.
  const near = relative(resolve(import.meta.dirname, '..'), envFile);
  const named = quoted(near.startsWith('..') ? envFile : near);
  const commands = looks.map((words) => `npm run --silent fairlead -- ${words} -f ${named}`);
  return { endpoint, envFile, env, commands };
}

export const formatKept = ({ endpoint, envFile, commands, stop }: Kept): string =>
  [
    `The stack is left running at ${endpoint}. Look at it:`,
    ...commands.map((command) => `  ${command}`),
    `Clients and workers find it by ${envFile}.`,
    `To stop it: ${stop}`,
    '',
  ].join('\n');
