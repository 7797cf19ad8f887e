/** Stacks that are reviewed by tools which know AWS: as plain as they come, as the README has it, and with everything of one's own. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { App, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { type ISecurityGroup, type IVpc, SecurityGroup, Vpc } from 'aws-cdk-lib/aws-ec2';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import { AccountRootPrincipal, ManagedPolicy, PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Code, Function as LambdaFunction, Tracing } from 'aws-cdk-lib/aws-lambda';
import { AwsSolutionsChecks } from 'cdk-nag';
import { RUNTIME } from '../../cdk/function.ts';
import type { SchedulerProps } from '../../cdk/props.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import { API_ROLES } from '../../lib/core/api-roles.ts';
import { readmeStack } from '../package/readme.ts';

const ENTRY = join(import.meta.dirname, '../../examples/files/images.ts');

const handlerIn = (stack: Stack, id: string): LambdaFunction =>
  new LambdaFunction(stack, id, {
    runtime: RUNTIME,
    handler: 'index.handler',
    code: Code.fromInline('exports.handler = async () => {}'),
    timeout: Duration.minutes(1),
  });

const STACKS: Readonly<Record<string, (stack: Stack) => SchedulerProps>> = {
  Plain: () => ({}),
  Full: (stack) => {
    const vpc = new Vpc(stack, 'Network', { maxAzs: 2 });
    return {
      types: { render: { maxConcurrency: 4 }, index: {}, train: { timeoutMs: 3_600_000 } },
      fleets: {
        images: { types: ['render'], handler: handlerIn(stack, 'Handler') },
        general: {
          types: ['render', 'index'],
          handler: new WorkerFunction(stack, 'Worker', {
            entry: ENTRY,
            vpc: vpc as IVpc,
            tracing: Tracing.ACTIVE,
          }),
          provisionedPollers: { minimumPollers: 2, maximumPollers: 10 },
        },
        gpu: { types: ['train'] },
      },
      // The library's own types are looser than ours about absent properties.
      eventBus: new EventBus(stack, 'Shared') as IEventBus,
      sources: ['orders'],
      parameterName: '/reviewed/jobs',
      encryptionKey: new Key(stack, 'Key', { enableKeyRotation: true }) as IKey,
      vpc: vpc as IVpc,
      securityGroups: [new SecurityGroup(stack, 'Group', { vpc: vpc as IVpc }) as ISecurityGroup],
      permissionsBoundary: new ManagedPolicy(stack, 'Boundary', {
        statements: [
          new PolicyStatement({ actions: ['dynamodb:GetItem'], resources: ['arn:aws:dynamodb:::table/a'] }),
        ],
      }),
      tracing: Tracing.ACTIVE,
      tags: { team: 'print' },
      table: { expectedJobsPerSecond: 2_000, deletionProtection: true },
      queueRemovalPolicy: RemovalPolicy.RETAIN,
      reservedConcurrency: { dispatch: 20, ingest: 5, api: 5 },
      largePayloads: {},
      api: true,
    };
  },
};

export interface Reviewed {
  readonly name: string;
  readonly stack: Stack;
  /** Path of the template, once the app is synthesised. */
  readonly template: string;
}

/** All of them, synthesised into this folder, with alarms, a dashboard and somebody who was granted everything. */
export async function reviewedStacks(outdir: string): Promise<readonly Reviewed[]> {
  const app = new App({ context: { 'aws:cdk:bundling-stacks': [] }, analyticsReporting: false, outdir });
  const schedulers = Object.entries(STACKS).map(([name, propsFor]) => {
    const stack = new Stack(app, name);
    return { name, stack, scheduler: new Scheduler(stack, 'Jobs', propsFor(stack)) };
  });
  const folder = join(outdir, 'readme');
  mkdirSync(folder);
  const OrdersStack = await readmeStack(folder);
  const ofReadme = new OrdersStack(app, 'Readme');
  const all = [...schedulers, { name: 'Readme', stack: ofReadme, scheduler: ofReadme.scheduler }];
  const made = all.map(({ name, stack, scheduler }) => {
    scheduler.alarms();
    scheduler.dashboard();
    const person = new Role(stack, 'Person', { assumedBy: new AccountRootPrincipal() });
    for (const role of ['submit', 'putEvents', 'read', 'operate', 'dispatch'] as const)
      scheduler.grants[role](person);
    for (const role of API_ROLES) scheduler.api?.grantCall(person, role);
    return { name, stack };
  });
  const assembly = app.synth();
  return made.map(({ name, stack }) => ({
    name,
    stack,
    template: assembly.getStackArtifact(stack.artifactId).templateFullPath,
  }));
}

/** What cdk-nag asks about and nobody has answered, in the scheduler, in whom it has granted rights, and in its worker functions. */
export function unanswered({ stack }: Pick<Reviewed, 'stack'>): readonly string[] {
  const { violations } = new AwsSolutionsChecks(stack.node.root).validateScope(stack);
  return violations
    .flatMap(({ ruleName, violatingResources }) =>
      violatingResources.map(({ constructPath = '' }) => ({ ruleName, constructPath })),
    )
    .filter(({ constructPath }) => !/^[^/]+\/(Network|Group|Handler)\//.test(constructPath))
    .map(({ ruleName, constructPath }) => `${ruleName} ${constructPath}`);
}
