/** What becomes of a command whose output cannot be written, as a process of its own. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { scenarioFile } from './run.ts';

const MAIN = fileURLToPath(new URL('../../lib/cli/main.ts', import.meta.url));
/** Every write to it fails: no space is left. Linux has it. */
const FULL = '/dev/full';

const SCENARIO = {
  schema: 'fairlead/1',
  scenarios: [
    {
      id: 'one',
      untilMs: 1_000,
      configuration: { types: { resize: {} }, fleets: { images: { types: ['resize'], slots: 1 } } },
    },
  ],
};

interface Ended {
  readonly code: number | null;
  readonly told: string;
}

/** Runs a command of which one stream goes to a full disk; answers what the other one said. */
async function withFull(stream: 'stdout' | 'stderr', ...words: readonly string[]): Promise<Ended> {
  const full = openSync(FULL, 'w');
  const child = spawn(process.execPath, [MAIN, ...words], {
    stdio: stream === 'stdout' ? ['ignore', full, 'pipe'] : ['ignore', 'pipe', full],
  });
  closeSync(full);
  let told = '';
  for (const output of [child.stdout, child.stderr])
    output?.setEncoding('utf8').on('data', (text: string) => {
      told += text;
    });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, told };
}

describe.runIf(existsSync(FULL))('output for which no space is left', () => {
  it.each([
    ['a simulation', (file: string) => ['simulate', file]],
    ['a simulation as JSON', (file: string) => ['simulate', file, '--json']],
    ['the help of a command', () => ['jobs', '--help']],
  ])('ends %s with 1, and one line', async (_, words) => {
    const { code, told } = await withFull('stdout', ...words(scenarioFile(SCENARIO)));
    expect(told).toMatch(
      /^fairlead: the output could not be written \(ENOSPC: .*\); print it somewhere else\..*\n$/,
    );
    expect(code).toBe(1);
  });

  it('leaves a command that fails by itself its exit code and its line', async () => {
    const { code, told } = await withFull('stdout', 'simulate', '/no/such/file');
    expect(told).toMatch(/^fairlead: file: \/no\/such\/file cannot be read.*\n$/);
    expect(code).toBe(2);
  });

  it('leaves a command its exit code where only its error cannot be written', async () => {
    expect((await withFull('stderr', 'simulate', '/no/such/file')).code).toBe(2);
  });
});

it('on a Node.js that is too old it says so, which one it needs, and nothing else', async () => {
  const older = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.19.0' } })`;
  const child = spawn(process.execPath, ['--import', `data:text/javascript,${older}`, MAIN, 'jobs', 'list'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { out: '', error: '' };
  child.stdout.setEncoding('utf8').on('data', (more: string) => {
    said.out += more;
  });
  child.stderr.setEncoding('utf8').on('data', (more: string) => {
    said.error += more;
  });
  const [code] = await once(child, 'close');
  expect({ code, ...said }).toEqual({
    code: 2,
    out: '',
    error: 'fairlead: Node.js 20.19.0 is too old; install version 22 or later\n',
  });
});

describe('completion', () => {
  const told = async (...words: readonly string[]): Promise<string> =>
    (await promisify(execFile)(process.execPath, [MAIN, 'complete', ...words])).stdout;

  it.each(['bash', 'zsh', 'fish', 'powershell'])(
    'prints a script for %s that asks the command itself',
    async (shell) => {
      expect(await told(shell)).toMatch(/fairlead complete/);
    },
  );

  it('names the commands, and the options of each, that begin as what was typed', async () => {
    expect(await told('--', 'jobs', 're')).toMatch(/^retime\t.*\nretry\t.*\n:\d+\n$/s);
    expect(await told('--', 'jobs', 'list', '--st')).toMatch(/^--state\t/);
  });
});

it('a reader that has seen enough is no failure', async () => {
  const child = spawn(process.execPath, [MAIN, 'simulate', scenarioFile(SCENARIO)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stdout.destroy();
  let told = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    told += text;
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  expect({ code, told }).toEqual({ code: 0, told: '' });
});
