/**
 * Of `npm run check`: cdk-nag and cfn-lint over stacks with a scheduler. Says what they found, and ends with 1 if that is
 * anything. Without python3, or a way to install cfn-lint, only cdk-nag runs, and a line says so.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Reviewed, reviewedStacks, unanswered } from './reviewed.ts';

const run = promisify(execFile);

const CFN_LINT = 'cfn-lint==1.58.0';
const CACHE = `.fairlead/${CFN_LINT.replace('==', '-')}`;
/** Warnings are about taste; E is what a deployment, or a service, would refuse. */
const ERRORS_ONLY = ['--non-zero-exit-code', 'error', '--format', 'parseable'];
/** Where no region is named, cfn-lint tries those it knows: one is enough, and takes seconds instead of minutes. */
const REGIONS = ['--regions', 'us-east-1'];

/** The installed tool; undefined where it cannot be had. */
async function cfnLint(): Promise<string | undefined> {
  const tool = join(CACHE, 'bin/cfn-lint');
  if (existsSync(tool)) return tool;
  try {
    await run('python3', ['-m', 'venv', CACHE]);
    await run(join(CACHE, 'bin/pip'), ['install', '--quiet', '--disable-pip-version-check', CFN_LINT]);
    return tool;
  } catch (error) {
    rmSync(CACHE, { recursive: true, force: true });
    console.log(`skipped cfn-lint, which cannot be installed: ${String(error).split('\n')[0]}`);
    return undefined;
  }
}

async function linted(tool: string, { name, template }: Reviewed): Promise<readonly string[]> {
  try {
    await run(tool, [...ERRORS_ONLY, ...REGIONS, '--template', template]);
    return [];
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { readonly stdout?: string; readonly stderr?: string };
    const lines = `${stdout}${stderr}`.split('\n').filter((line) => line.trim() !== '');
    return [`cfn-lint ${name}: ${lines.length === 0 ? String(error) : ''}`, ...lines];
  }
}

const folder = mkdtempSync(join(tmpdir(), 'fairlead-review-'));
try {
  const stacks = reviewedStacks(folder);
  const tool = await cfnLint();
  const findings = [
    ...stacks.flatMap((stack) => unanswered(stack)),
    ...(tool === undefined ? [] : (await Promise.all(stacks.map((stack) => linted(tool, stack)))).flat()),
  ];
  for (const finding of findings) console.log(finding);
  process.exitCode = findings.length === 0 ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
