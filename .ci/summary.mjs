/**
 * What CI says last: of each test that failed, its full name and the first line of what it said; then the counts, which are the
 * test runner's own: vitest's JSON reports, one a run.
 *
 * Called with the folder of the reports, and the status of the steps before; its own status is 0 if nothing failed.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder = 'reports', status = '0'] = process.argv.slice(2);

function reportsIn(folder) {
  try {
    return readdirSync(folder)
      .filter((name) => /^vitest.*\.json$/.test(name))
      .sort()
      .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
  } catch (error) {
    // Without a run there is no folder.
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

const firstLine = (text) => (text ?? '').trim().split('\n', 1)[0];

/** A file that could not be run has failed, and no test of it. */
function failuresIn({ testResults }) {
  return testResults.flatMap(({ name, status, message, assertionResults }) => {
    const failed = assertionResults.filter((each) => each.status === 'failed');
    if (failed.length === 0 && status === 'failed') return [`${name}: ${firstLine(message)}`];
    return failed.map(({ fullName, failureMessages }) => `${fullName}: ${firstLine(failureMessages?.[0])}`);
  });
}

const reports = reportsIn(folder);
const failures = reports.flatMap(failuresIn);
let passed = 0;
let failed = 0;
for (const { numPassedTests, numFailedTests, success } of reports) {
  passed += numPassedTests;
  failed += numFailedTests + (numFailedTests === 0 && !success ? 1 : 0);
}
if (reports.length === 0 || (failed === 0 && status !== '0')) failed += 1;
if (failures.length > 0) console.log(`\nfailed:\n${failures.map((each) => `- ${each}`).join('\n')}`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
