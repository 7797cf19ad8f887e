/** Stacks for the tests of the construct, and a typed look into their templates. */
import { App, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Code, Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { RUNTIME } from '../../cdk/function.ts';
import type { SchedulerProps } from '../../cdk/props.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import cdkJson from '../../cdk.json' with { type: 'json' };
import { folderOfFile } from '../fixtures/folders.ts';

export interface Resource {
  readonly Type: string;
  // The shape differs with each type, and a test that looks at it says what it expects.
  readonly Properties: Readonly<Record<string, unknown>>;
  readonly DeletionPolicy?: string;
}

export interface Synthesized {
  readonly stack: Stack;
  readonly scheduler: Scheduler;
  readonly template: Template;
}

/** A folder of its own for an app's output, removed when the file's tests have ended. */
export function outputFolder(): string {
  return folderOfFile('fairlead-cdk-');
}

/** Esbuild is not run: what the functions hold does not change the template. */
function appWithoutBundling(): App {
  return new App({
    context: { ...cdkJson.context, 'aws:cdk:bundling-stacks': [] },
    analyticsReporting: false,
    outdir: outputFolder(),
  });
}

export function emptyStack(): Stack {
  return new Stack(appWithoutBundling(), 'Test');
}

export function workerFunction(
  scope: Construct,
  id: string,
  timeout: Duration = Duration.seconds(30),
): LambdaFunction {
  return new LambdaFunction(scope, id, {
    runtime: RUNTIME,
    handler: 'index.handler',
    code: Code.fromInline('exports.handler = async () => {}'),
    timeout,
  });
}

/** A specialised fleet and a versatile one with functions, and one that processes serve. */
export function synthesize(
  change: Partial<SchedulerProps> = {},
  extend: (stack: Stack, scheduler: Scheduler) => void = () => {},
): Synthesized {
  const stack = emptyStack();
  const scheduler = new Scheduler(stack, 'Jobs', {
    types: { thumbnail: { maxConcurrency: 3 }, index: {}, train: { timeoutMs: 3_600_000 } },
    fleets: {
      images: { types: ['thumbnail'], slots: 5, handler: workerFunction(stack, 'Images') },
      general: {
        types: ['thumbnail', 'index'],
        slots: 40,
        batchSize: 4,
        handler: workerFunction(stack, 'General', Duration.minutes(2)),
      },
      gpu: { types: ['train'] },
    },
    ...change,
  });
  extend(stack, scheduler);
  return { stack, scheduler, template: Template.fromStack(stack) };
}

/** The resources of a type, by logical id. */
export function resourcesOf(template: Template, type: string): readonly (readonly [string, Resource])[] {
  return Object.entries(template.findResources(type) as Record<string, Resource>);
}

/** The logical id that a `Ref` or `Fn::GetAtt` points to. */
export function referred(value: unknown): string | undefined {
  if (!isRecord(value)) return undefined;
  if (typeof value.Ref === 'string') return value.Ref;
  const attribute = value['Fn::GetAtt'];
  return Array.isArray(attribute) ? String(attribute[0]) : undefined;
}

/** What stands at a path of property names; undefined where it ends early. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>(
    (current, name) =>
      Array.isArray(current) || isRecord(current) ? (current as Record<string, unknown>)[name] : undefined,
    value,
  );
}

/** A list, whether one was written or a single value. */
export function listOf(value: unknown): readonly unknown[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
