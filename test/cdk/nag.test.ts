/** A review by cdk-nag's AwsSolutions pack: everything that it asks about is answered beside the construct. And one by the CDK itself. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { App, CfnResource, Stack } from 'aws-cdk-lib';
import { AccountRootPrincipal, ManagedPolicy, Role } from 'aws-cdk-lib/aws-iam';
import { expect, it, onTestFinished, vi } from 'vitest';
import { reviewedStacks, unanswered } from './reviewed.ts';
import { outputFolder } from './stacks.ts';

it.each(await reviewedStacks(outputFolder()))('has nothing left to ask of $name', (reviewed) => {
  expect(unanswered(reviewed)).toEqual([]);
});

it('would ask, if something were wrong', () => {
  const app = new App({ outdir: outputFolder() });
  const stack = new Stack(app, 'Wrong');
  new Role(stack, 'Anybody', {
    assumedBy: new AccountRootPrincipal(),
    managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName('AdministratorAccess')],
  });
  expect(unanswered({ stack })).toEqual([
    expect.stringMatching(/^AwsSolutions-IAM4\[.*AdministratorAccess\] Wrong\/Anybody\/Resource$/),
  ]);
});

/** The engine of the validation starts once in a process. */
const ENGINE_MS = 120_000;

/** What the CDK's own validation reports when this app is synthesised, which other tests go without. */
async function found(appOf: () => App | Promise<App>): Promise<unknown> {
  vi.stubEnv('CDK_VALIDATION', 'true');
  onTestFinished(() => {
    vi.unstubAllEnvs();
  });
  const { directory } = (await appOf()).synth();
  return JSON.parse(readFileSync(join(directory, 'validation-report.json'), 'utf8')).pluginReports;
}

it('has nothing in its templates that the CDK itself finds wrong', { timeout: ENGINE_MS }, async () => {
  const made = async (): Promise<App> => {
    const [one] = await reviewedStacks(outputFolder());
    return one?.stack.node.root as App;
  };
  expect(await found(made)).toEqual([]);
});

it('would be told by the CDK, if something were wrong', { timeout: ENGINE_MS }, async () => {
  const wrong = (): App => {
    const app = new App({ outdir: outputFolder() });
    new CfnResource(new Stack(app, 'Wrong'), 'Queue', {
      type: 'AWS::SQS::Queue',
      properties: { DelaySeconds: 'soon' },
    });
    return app;
  };
  expect(JSON.stringify(await found(wrong))).toContain('DelaySeconds');
});
