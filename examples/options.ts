/** What the command line asks for. */
import { realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';

export interface StartOptions {
  /** Whether the story is told; else files are worked through. */
  readonly isStory: boolean;
  /** Absolute, without symbolic links. Undefined: 50 files that are made for it. */
  readonly input?: string | undefined;
  /** Absolute. */
  readonly out: string;
  readonly json: boolean;
  readonly keep: boolean;
  /** Of an emulator that runs already; undefined: one is started. */
  readonly endpoint?: string | undefined;
}

/** The command line cannot be followed: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export const USAGE = `Usage: npm start -- [--keep]
       npm start -- --files [--input DIR] [--out DIR] [--json] [--keep]

Deploys a scheduler to a local emulator. Without options it shows in half a minute what Fairlead is for.
With --files it compresses, indexes and draws thumbnails of files, one job for each.

  --files       work through 50 files that are made for it; so do --input, --out and --json
  --input DIR   the files to work on
  --out DIR     where results go: manifest.json, files/, catalogues/ (default: a new folder in .fairlead/).
                The results of an earlier run there are replaced.
  --json        print the summary as one JSON document on standard output
  --keep        leave the stack running, and say how to reach and stop it
  --help        this text

Environment:
  AWS_ENDPOINT_URL   an emulator that runs already on this machine, to be used instead of starting one
  FAIRLEAD_DATA      holds what is installed, logs and temporary files (default: .fairlead/)
`;

/** Folders in the output folder that belong to the example. */
export const OUTPUT_FOLDERS = ['files', 'catalogues', '.unfinished'] as const;

export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Relative paths are relative to here. */
  readonly cwd: string;
  /** Where the results of a run go that names no folder. */
  readonly defaultOut: string;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** True for the folder itself too. */
export function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === '' || (way !== '..' && !way.startsWith('../') && !isAbsolute(way));
}

/** The path without symbolic links, as far as it exists. */
function realpath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realpath(parent), path.slice(parent.length).replace(/^\//, ''));
  }
}

function inputFolder(given: string, cwd: string): string {
  const path = resolve(cwd, given);
  let isDirectory: boolean;
  try {
    isDirectory = statSync(path).isDirectory();
  } catch (error) {
    throw new UsageError(`--input ${given}: ${messageOf(error)}. Name a folder that can be read`);
  }
  if (!isDirectory)
    throw new UsageError(`--input ${given} is not a folder. Name the folder that the file is in`);
  return realpath(path);
}

function outputFolder(given: string, cwd: string, input: string | undefined): string {
  const out = realpath(resolve(cwd, given));
  const there = statSync(out, { throwIfNoEntry: false });
  if (there !== undefined && !there.isDirectory()) {
    throw new UsageError(`--out ${given} is a file. Name a folder; it is made if it is not there`);
  }
  if (input === undefined) return out;
  if (out === input)
    throw new UsageError(`--out ${given} is the input folder itself. Name another one, or one in it`);
  if (OUTPUT_FOLDERS.some((name) => isInside(input, join(out, name)))) {
    throw new UsageError(
      `--out ${given}: the input lies among the results that a run replaces. Name another folder`,
    );
  }
  return out;
}

function endpointOf(given: string | undefined): string | undefined {
  if (given === undefined || given === '') return undefined;
  if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol)) {
    throw new UsageError(
      `AWS_ENDPOINT_URL is ${JSON.stringify(given)}. Set it to a URL such as http://127.0.0.1:4566`,
    );
  }
  return given.replace(/\/+$/, '');
}

/** @throws UsageError */
export function readOptions(given: readonly string[], surroundings: Surroundings): StartOptions | 'help' {
  const { env, cwd, defaultOut } = surroundings;
  const values = parse(given);
  if (values.help === true) return 'help';
  const input = values.input === undefined ? undefined : inputFolder(values.input, cwd);
  return {
    isStory: [values.files, values.input, values.out, values.json].every((value) => value === undefined),
    input,
    out: outputFolder(values.out ?? defaultOut, cwd, input),
    json: values.json === true,
    keep: values.keep === true,
    endpoint: endpointOf(env.AWS_ENDPOINT_URL),
  };
}

function parse(given: readonly string[]) {
  try {
    return parseArgs({
      args: [...given],
      options: {
        files: { type: 'boolean' },
        input: { type: 'string' },
        out: { type: 'string' },
        json: { type: 'boolean' },
        keep: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values;
  } catch (error) {
    throw new UsageError(`${messageOf(error)}. See npm start -- --help`);
  }
}
