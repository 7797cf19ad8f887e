/** The models of the protocols, run. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { changedFiles, isSampled } from '../sample.ts';

const modelNamed = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
export const CAS_MODEL = modelNamed('cas_model.py');
export const LETTERS_MODEL = modelNamed('letters_model.py');
export const QUIET_MODEL = modelNamed('quiet_model.py');
export const CONTENTION = modelNamed('contention.py');
export const PARK_LOAN_MODEL = modelNamed('park_loan_model.py');
export const LOCK_MODEL = modelNamed('lock_model.py');
export const LOAN_MODEL = modelNamed('loan_model.py');
export const REHOME_MODEL = modelNamed('rehome_model.py');
export const START_MODEL = modelNamed('start_model.py');
export const PRESENCE_MODEL = modelNamed('presence_model.py');
export const MODEL_MS = 600_000;

/** The models, and the code whose protocols they are. */
export const MODELLED = [
  'test/protocol/',
  'lib/store/table/summary.ts',
  'lib/store/dynamodb/partition.ts',
  'lib/dispatch/partition/commits.ts',
  'lib/dispatch/lead/lead.ts',
  'lib/dispatch/pass/quiet.ts',
  'lib/worker/run-job.ts',
];

/** Whether this run has time for all states: a sampled one does where its commit has changed a model, or what that models. */
export const isExplored =
  !isSampled || [...changedFiles()].some((file) => MODELLED.some((path) => file.startsWith(path)));

export async function run(
  model: string,
  ...options: readonly string[]
): Promise<{ code: number | null; lines: readonly string[] }> {
  const child = spawn('python3', ['-I', model, ...options], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return { code, lines: output.trimEnd().split('\n') };
}

/** A model without one protection goes wrong, after so many steps at fewest. */
export async function expectViolation(
  model: string,
  name: string,
  steps: number,
  violation: string,
): Promise<void> {
  const { code, lines } = await run(model, '--break', name);
  const [verdict, ...trail] = lines;
  expect(verdict).toContain(`; violation: ${violation}`);
  const numbers = Array.from({ length: steps }, (_, at) => at + 1);
  expect(trail.map((line) => Number.parseInt(line, 10))).toEqual(numbers);
  expect(code).toBe(0);
}

/** None of the first states that a model reaches goes wrong. */
export async function expectSafe(
  model: string,
  states: number,
  options: readonly string[] = [],
): Promise<void> {
  const { code, lines } = await run(model, '--states', String(states), ...options);
  expect(lines).toEqual([expect.stringMatching(/^\d+ states; no violation$/)]);
  expect(code).toBe(0);
}
