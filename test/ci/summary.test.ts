/** What CI says last, for runs that were made up. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const SUMMARY = fileURLToPath(new URL('../../.ci/summary.mjs', import.meta.url));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fairlead-summary-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

interface FileResult {
  readonly name: string;
  readonly message?: string;
  readonly tests: readonly { readonly fullName: string; readonly said?: string }[];
}

/** Writes a report as vitest does, as far as the summary reads it. */
function write(name: string, files: readonly FileResult[]): void {
  const tests = files.flatMap((file) => file.tests);
  const numFailedTests = tests.filter(({ said }) => said !== undefined).length;
  const report = {
    numPassedTests: tests.length - numFailedTests,
    numFailedTests,
    success: numFailedTests === 0 && files.every(({ message }) => message === undefined),
    testResults: files.map((file) => ({
      name: file.name,
      message: file.message ?? '',
      status:
        file.message !== undefined || file.tests.some(({ said }) => said !== undefined) ? 'failed' : 'passed',
      assertionResults: file.tests.map(({ fullName, said }) => ({
        fullName,
        status: said === undefined ? 'passed' : 'failed',
        failureMessages: said === undefined ? [] : [said],
      })),
    })),
  };
  writeFileSync(join(folder, name), JSON.stringify(report));
}

function summary(status = '0'): { readonly lines: readonly string[]; readonly status: number | null } {
  const {
    stdout,
    stderr,
    status: code,
  } = spawnSync(process.execPath, [SUMMARY, folder, status], {
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  return { lines: stdout.trim().split('\n'), status: code };
}

describe('the summary of CI', () => {
  it('is the counts of all runs alone, where nothing failed', () => {
    write('vitest.json', [{ name: '/a.test.ts', tests: [{ fullName: 'a does' }, { fullName: 'a is' }] }]);
    write('vitest-long.json', [{ name: '/b.test.ts', tests: [{ fullName: 'b does' }] }]);
    writeFileSync(join(folder, 'other.json'), 'not a report');
    expect(summary()).toEqual({ lines: ['3 passed, 0 failed'], status: 0 });
  });

  it('names each failed test of each run, with the first line of what it said, before the counts, which come last', () => {
    write('vitest.json', [
      {
        name: '/a.test.ts',
        tests: [
          { fullName: 'a does this', said: 'AssertionError: expected 1 to be 2\n    at a.test.ts:3:1' },
          { fullName: 'a is' },
        ],
      },
    ]);
    write('vitest-long.json', [
      { name: '/b.test.ts', tests: [{ fullName: 'b ends in time', said: 'Error: timed out' }] },
    ]);
    const { lines, status } = summary();
    expect(lines.at(-1)).toBe('1 passed, 2 failed');
    expect([...lines].sort()).toEqual([
      '',
      '- a does this: AssertionError: expected 1 to be 2',
      '- b ends in time: Error: timed out',
      '1 passed, 2 failed',
      'failed:',
    ]);
    expect(lines[0]).toBe('failed:');
    expect(status).toBe(1);
  });

  it('names a file that could not be run, and counts it', () => {
    write('vitest.json', [
      { name: '/a.test.ts', message: 'Error: Cannot find module\nwhere', tests: [] },
      { name: '/b.test.ts', tests: [{ fullName: 'b does' }] },
    ]);
    const { lines, status } = summary('1');
    expect(lines).toEqual(['failed:', '- /a.test.ts: Error: Cannot find module', '', '1 passed, 1 failed']);
    expect(status).toBe(1);
  });

  it('counts a failure where a step before failed, or nothing ran', () => {
    write('vitest.json', [{ name: '/a.test.ts', tests: [{ fullName: 'a does' }] }]);
    expect(summary('1')).toEqual({ lines: ['1 passed, 1 failed'], status: 1 });
    rmSync(join(folder, 'vitest.json'));
    expect(summary()).toEqual({ lines: ['0 passed, 1 failed'], status: 1 });
    rmSync(folder, { recursive: true });
    expect(summary()).toEqual({ lines: ['0 passed, 1 failed'], status: 1 });
    mkdirSync(folder);
  });
});
