/** Runs the command line inside the test, and remembers what it said. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { runProgram } from '../../lib/cli/program.ts';

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}

export async function fairlead(...words: readonly string[]): Promise<Said> {
  const said = { out: '', error: '' };
  const code = await runProgram(words, {
    out: (text) => {
      said.out += text;
    },
    error: (text) => {
      said.error += text;
    },
  });
  return { code, ...said };
}

/** A file that is gone after the test. */
export function scenarioFile(content: unknown): string {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'scenario.json');
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

export async function simulated(content: unknown, ...words: readonly string[]): Promise<Said> {
  return fairlead('simulate', scenarioFile(content), ...words);
}

/** The results of a scenario that must be accepted. */
export async function resultsOf(content: unknown): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { code, out, error } = await simulated(content, '--json');
  if (code !== 0) throw new Error(error);
  return (JSON.parse(out) as { results: readonly Readonly<Record<string, unknown>>[] }).results;
}
