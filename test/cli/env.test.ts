import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it, onTestFinished } from 'vitest';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import type { Outputs } from '../../lib/cli/env.ts';
import { runProgram } from '../../lib/cli/program.ts';
import { MisconfiguredError } from '../../lib/core/errors.ts';

const WAKE_URL = 'https://sqs.eu-west-1.amazonaws.com/123456789012/wake';

/** The names of the outputs of a stack with these schedulers, as the construct makes them. */
function outputNames(...schedulers: readonly string[]): readonly string[] {
  const app = new App({ context: { 'aws:cdk:bundling-stacks': [] } });
  const stack = new Stack(app, 'Orders');
  for (const id of schedulers) {
    const scheduler = new Scheduler(stack, id, { fleets: { pdf: { types: ['pdf'] } } });
    if (schedulers.length === 1) schedulerOutputs(stack, scheduler);
  }
  return Object.keys(Template.fromStack(stack).toJSON().Outputs as object);
}

const VALUES: readonly (readonly [part: string, value: (scheduler: string) => string])[] = [
  ['Table', (of) => `table-${of}`],
  ['Bus', (of) => `bus-${of}`],
  ['WakeQueue', () => WAKE_URL],
  ['WakeFunction', (of) => `wake-${of}`],
  ['FleetNames', () => '["pdf","big pdf"]'],
];

/** As CloudFormation tells them. */
const outputsOf = (...schedulers: readonly string[]): Outputs =>
  Object.fromEntries(
    outputNames(...schedulers).map((name) => {
      const of = schedulers.find((id) => name.startsWith(id)) ?? schedulers[0] ?? '';
      const [, value] = VALUES.find(([part]) => name.includes(part)) ?? [];
      return [name, value?.(of) ?? ''];
    }),
  );

async function env(
  outputs: Outputs | Error,
  ...words: readonly string[]
): Promise<{ readonly code: number; readonly out: string; readonly error: string }> {
  const said = { out: '', error: '' };
  const code = await runProgram(
    ['env', ...words],
    { out: (text) => (said.out += text), error: (text) => (said.error += text) },
    {
      connect: () => Promise.reject(new Error('nothing is to be connected')),
      readStack: () =>
        outputs instanceof Error
          ? Promise.reject(outputs)
          : Promise.resolve({ outputs, region: 'eu-west-1' }),
    },
  );
  return { code, ...said };
}

const WANTED = {
  FAIRLEAD_TABLE: 'table-Jobs',
  FAIRLEAD_BUS: 'bus-Jobs',
  FAIRLEAD_WAKE_QUEUE: WAKE_URL,
  FAIRLEAD_WAKE_FUNCTION: 'wake-Jobs',
  AWS_REGION: 'eu-west-1',
};

describe('fairlead env', { timeout: 60_000 }, () => {
  it('finds the scheduler of a stack that its owner has added nothing to', async () => {
    const { code, out } = await env(outputsOf('Jobs'), '--stack', 'Orders');
    expect(code).toBe(0);
    expect(parseEnv(out)).toEqual(WANTED);
  });

  it('knows a scheduler that an earlier version has deployed, which has no alias to wake', async () => {
    const outputs = Object.entries(outputsOf('Jobs')).filter(([name]) => !name.includes('WakeFunction'));
    const { out } = await env(Object.fromEntries(outputs), '--stack', 'Orders');
    const { FAIRLEAD_WAKE_FUNCTION: _, ...before } = WANTED;
    expect(parseEnv(out)).toEqual(before);
  });

  it('knows of one scheduler all that any of its names says', async () => {
    const { JobsTableName = '' } = Object.fromEntries(
      Object.entries(outputsOf('Jobs')).map(([name, value]) => [name.replace(/[0-9A-F]{8}$/, ''), value]),
    );
    const byHand = { MineTableName: JobsTableName, MineBusName: 'bus-Jobs', MineWakeQueueUrl: WAKE_URL };
    const { out } = await env({ ...outputsOf('Jobs'), ...byHand }, '--stack', 'Orders');
    expect(parseEnv(out)).toEqual(WANTED);
  });

  it('prints what a shell, a program and a worker can take', async () => {
    const outputs = outputsOf('Jobs');
    const json = await env(outputs, '--stack', 'Orders', '--json', '--fleet', 'pdf');
    expect(JSON.parse(json.out)).toEqual({ environment: { ...WANTED, FAIRLEAD_FLEET: 'pdf' } });
    const shell = await env(outputs, '--stack', 'Orders', '--format', 'shell');
    expect(shell.out).toContain("export FAIRLEAD_TABLE='table-Jobs'\n");
  });

  it('refuses a fleet that the scheduler does not have, and names those that it has', async () => {
    const outputs = outputsOf('Jobs');
    const { code, out, error } = await env(outputs, '--stack', 'Orders', '--fleet', 'pfd');
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(error).toBe(
      'fairlead: --fleet: no fleet has the name "pfd". Did you mean "pdf"? The scheduler has: pdf, big pdf\n',
    );
    expect((await env(outputs, '--stack', 'Orders', '--fleet', 'big pdf')).code).toBe(0);
  });

  it('reads the file that the CDK writes, without a network', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'fairlead-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'cdk-outputs.json');
    writeFileSync(file, JSON.stringify({ Orders: outputsOf('Jobs') }));
    const { code, out } = await env(new Error('not asked'), '--outputs', file);
    expect(code).toBe(0);
    expect(parseEnv(out)).toEqual(WANTED);
    writeFileSync(file, JSON.stringify({ Orders: outputsOf('Jobs'), Other: {} }));
    const ambiguous = await env(new Error('not asked'), '--outputs', file);
    expect([ambiguous.code, ambiguous.error]).toEqual([2, expect.stringContaining('Orders, Other')]);
    expect((await env(new Error('not asked'), '--outputs', file, '--stack', 'Orders')).code).toBe(0);
  });

  it('asks which, where a stack has several', async () => {
    const outputs = outputsOf('Jobs', 'Mails');
    const asked = await env(outputs, '--stack', 'Orders');
    expect([asked.code, asked.error]).toEqual([2, expect.stringContaining('--scheduler: Jobs, Mails')]);
    const named = await env(outputs, '--stack', 'Orders', '--scheduler', 'Mails');
    expect(parseEnv(named.out)).toMatchObject({ FAIRLEAD_TABLE: 'table-Mails' });
    const wrong = await env(outputs, '--stack', 'Orders', '--scheduler', 'Mail');
    expect([wrong.code, wrong.error]).toEqual([2, expect.stringContaining('it has: Jobs, Mails')]);
  });

  it('says what is wrong: no scheduler, no stack, nothing named', async () => {
    const none = await env({ ApiUrl: 'x' }, '--stack', 'Orders');
    expect([none.code, none.error]).toEqual([2, expect.stringContaining('outputs: ApiUrl')]);
    const gone = await env(new MisconfiguredError('the stack is not there'), '--stack', 'Orders');
    expect([gone.code, gone.error]).toEqual([1, 'fairlead: the stack is not there\n']);
    expect((await env({})).code).toBe(2);
  });
});
