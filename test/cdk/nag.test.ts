/** A review by cdk-nag's AwsSolutions pack: everything that it asks about is answered beside the construct. */
import { App, Stack } from 'aws-cdk-lib';
import { AccountRootPrincipal, ManagedPolicy, Role } from 'aws-cdk-lib/aws-iam';
import { expect, it } from 'vitest';
import { reviewedStacks, unanswered } from './reviewed.ts';
import { outputFolder } from './stacks.ts';

it.each(reviewedStacks(outputFolder()))('has nothing left to ask of $name', (reviewed) => {
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
