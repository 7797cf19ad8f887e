/** The HTTP protocol as an option of the construct. */
import { Template } from 'aws-cdk-lib/assertions';
import { AccountRootPrincipal, Role } from 'aws-cdk-lib/aws-iam';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { expect, it } from 'vitest';
import type { SchedulerProps } from '../../cdk/props.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { API_ROLES } from '../../lib/core/api-roles.ts';
import { emptyStack, resourcesOf } from './stacks.ts';

/** The first synthesis of a process loads much of the CDK. */
const SYNTH_MS = 120_000;

function made(props: SchedulerProps<'resize'>) {
  const stack = emptyStack();
  const scheduler = new Scheduler(stack, 'Jobs', { types: { resize: {} }, ...props });
  for (const role of scheduler.api === undefined ? [] : API_ROLES)
    scheduler.api?.grantCall(
      new Role(stack, `Caller-${role}`, { assumedBy: new AccountRootPrincipal() }),
      role,
    );
  return { scheduler, template: Template.fromStack(stack) };
}

it('adds nothing by default', { timeout: SYNTH_MS }, () => {
  const { scheduler, template } = made({});
  expect(scheduler.api).toBeUndefined();
  expect(template.toJSON()).toEqual(made({ api: false }).template.toJSON());
  expect(resourcesOf(template, 'AWS::Lambda::Url')).toEqual([]);
  expect(Object.keys(template.toJSON().Resources).filter((id) => id.includes('Api'))).toEqual([]);
});

it('is a function URL for each role, which IAM guards', { timeout: SYNTH_MS }, () => {
  const { scheduler, template } = made({ api: true });
  const urls = resourcesOf(template, 'AWS::Lambda::Url');
  expect(urls.map(([, { Properties }]) => [Properties.AuthType, Properties.Qualifier]).toSorted()).toEqual(
    API_ROLES.map((role) => ['AWS_IAM', role]).toSorted(),
  );
  expect(new Set(API_ROLES.map((role) => JSON.stringify(scheduler.api?.url(role)))).size).toBe(3);
  const functions = resourcesOf(template, 'AWS::Lambda::Function').filter(([id]) => id.includes('Api'));
  expect(functions).toHaveLength(1);
  expect(JSON.stringify(functions)).toContain('FAIRLEAD_TABLE');
});

it('tells its addresses in outputs, for each role one', { timeout: SYNTH_MS }, () => {
  const outputs = Object.entries(made({ api: true }).template.toJSON().Outputs as Record<string, object>)
    .filter(([id]) => id.includes('ApiUrl'))
    .map(([id, output]) => [id.replace(/[0-9A-F]{8}$/, ''), output] as const);
  expect(outputs.map(([id]) => id)).toEqual(['JobsApiUrlRead', 'JobsApiUrlSubmit', 'JobsApiUrlOperate']);
  for (const [, output] of outputs) {
    expect(JSON.stringify(output)).toMatch(/JobsApiFor\w+FunctionUrl/);
    expect(JSON.stringify(output)).toContain('openapi.json');
  }
});

it('writes into a log group that is kept as long as the others, or into one of the app', {
  timeout: SYNTH_MS,
}, () => {
  const logGroupOf = (template: Template): unknown => {
    const [api] = resourcesOf(template, 'AWS::Lambda::Function').filter(([id]) => id.includes('Api'));
    const { LogGroup: id } = (api?.[1].Properties.LoggingConfig ?? {}) as { LogGroup?: { Ref?: string } };
    return resourcesOf(template, 'AWS::Logs::LogGroup').find(([each]) => each === id?.Ref)?.[1].Properties;
  };
  expect(logGroupOf(made({ api: true, logRetention: RetentionDays.ONE_MONTH }).template)).toMatchObject({
    RetentionInDays: 30,
  });
  const stack = emptyStack();
  const api = new LogGroup(stack, 'Own', { logGroupName: 'api-of-jobs' });
  new Scheduler(stack, 'Jobs', { types: { resize: {} }, api: true, logGroups: { api } });
  expect(logGroupOf(Template.fromStack(stack))).toMatchObject({ LogGroupName: 'api-of-jobs' });
});

it('takes no more of the account’s concurrency than it is given', { timeout: SYNTH_MS }, () => {
  const { template } = made({ api: true, reservedConcurrency: { api: 3 } });
  const [api] = resourcesOf(template, 'AWS::Lambda::Function').filter(([id]) => id.includes('Api'));
  expect(api?.[1].Properties.ReservedConcurrentExecutions).toBe(3);
});

it('lets a caller in by the URL of its role, and by no other', { timeout: SYNTH_MS }, () => {
  const { template } = made({ api: true });
  const aliases = new Map(
    resourcesOf(template, 'AWS::Lambda::Alias').map(([id, { Properties }]) => [id, Properties.Name]),
  );
  for (const role of API_ROLES) {
    const [policy] = resourcesOf(template, 'AWS::IAM::Policy').filter(([id]) =>
      id.startsWith(`Caller${role}`),
    );
    const { Statement: statements } = (policy?.[1].Properties.PolicyDocument ?? { Statement: [] }) as {
      readonly Statement: readonly { readonly Action: string; readonly Resource: unknown }[];
    };
    expect(statements.map(({ Action }) => Action).toSorted()).toEqual([
      'lambda:InvokeFunction',
      'lambda:InvokeFunctionUrl',
    ]);
    for (const { Resource } of statements) {
      const [, id = ''] = /"Ref":"(\w+)"/.exec(JSON.stringify(Resource)) ?? [];
      expect(aliases.get(id), JSON.stringify(Resource)).toBe(role);
    }
  }
});
