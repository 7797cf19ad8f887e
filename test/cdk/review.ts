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
/** Warnings that are accepted, each with its reason. Every other one counts as an error does. */
const ACCEPTED: Readonly<Record<string, string>> = {
  W3005:
    'The CDK lets what it makes depend on all parts of a role or a provider, also on those that a reference names.',
};
/** What a deployment, or a service, would refuse in some region, or may not do as it was meant. */
const RULES = [
  ...['--non-zero-exit-code', 'warning', '--format', 'parseable', '--regions', 'ALL_REGIONS'],
  ...['--ignore-checks', ...Object.keys(ACCEPTED)],
];

/** Function URLs are not in every region, as the page on security says. A stack has them only with `api`. */
const NOT_EVERYWHERE = /E3006:Resource type 'AWS::Lambda::Url' does not exist in/;

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
    await run(tool, [...RULES, '--template', template]);
    return [];
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { readonly stdout?: string; readonly stderr?: string };
    const all = `${stdout}${stderr}`.split('\n').filter((line) => line.trim() !== '');
    const lines = all.filter((line) => !NOT_EVERYWHERE.test(line));
    if (all.length > 0 && lines.length === 0) return [];
    return [`cfn-lint ${name}: ${lines.length === 0 ? String(error) : ''}`, ...lines];
  }
}

const folder = mkdtempSync(join(tmpdir(), 'fairlead-review-'));
try {
  const stacks = await reviewedStacks(folder);
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
