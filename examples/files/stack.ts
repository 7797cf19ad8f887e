/** The example's stack: one scheduler, three fleets, and a queue that hears what became of the jobs. */
import { fileURLToPath } from 'node:url';
import { type App, CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Rule } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { FUNCTION_BUNDLING, RUNTIME, SOURCE_MAPS } from '../../cdk/function.ts';
import { bundlingWithNativeModules, type Platform } from '../../cdk/native-modules.ts';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import type { JobTypeInput } from '../../lib/core/pool-input.ts';
import { DETAIL_TYPE } from '../../lib/events/contract.ts';
import { FINAL_ERRORS, type FileJobType } from './work.ts';

const STACK = 'fairlead-files';

/** Jobs of one directory share its catalogue, whatever their type: never two of them at once. */
const CONFLICT_GROUP = 'catalogue';

const retry = {
  maxAttempts: 3,
  backoff: 'exponential',
  delayMs: 1_000,
  errors: FINAL_ERRORS.map((name) => ({ name, retry: false })),
} as const satisfies JobTypeInput['retry'];

const TYPES = {
  // Small and looked at first: the upper tier.
  thumbnail: {
    tier: 'visible',
    conflictGroup: CONFLICT_GROUP,
    defaultCostMs: 200,
    timeoutMs: 60_000,
    retry,
  },
  index: { tier: 'visible', conflictGroup: CONFLICT_GROUP, defaultCostMs: 50, timeoutMs: 60_000, retry },
  // Large files may take long: never more than three, so that they leave room.
  compress: {
    tier: 'background',
    conflictGroup: CONFLICT_GROUP,
    maxConcurrency: 3,
    defaultCostMs: 300,
    timeoutMs: 120_000,
    retry,
  },
} as const satisfies Record<FileJobType, JobTypeInput>;

/** Called by `cdk/app.ts`. */
export function addStack(app: App, platform: Platform): Stack {
  const stack = new Stack(app, STACK, {
    description: 'Fairlead, with an example that compresses, indexes and draws thumbnails of files',
  });
  const work = (id: string, seconds: number, modules: readonly string[]): NodejsFunction =>
    new NodejsFunction(stack, id, {
      entry: fileURLToPath(new URL(`./${id.toLowerCase()}.ts`, import.meta.url)),
      runtime: RUNTIME,
      architecture: Architecture.ARM_64,
      memorySize: 1_024,
      timeout: Duration.seconds(seconds),
      environment: SOURCE_MAPS,
      bundling:
        modules.length === 0
          ? FUNCTION_BUNDLING
          : bundlingWithNativeModules({
              modules,
              platform,
              architecture: Architecture.ARM_64,
              installedIn: import.meta.dirname,
            }),
    });

  const scheduler = new Scheduler(stack, 'Jobs', {
    types: TYPES,
    tiers: [{ tier: 'visible' }, { tier: 'background', maxConcurrency: 3, guaranteed: 1 }],
    fleets: {
      // Drawing takes the processor and memory: one at a time in a process.
      images: { types: ['thumbnail'], slots: 2, batchSize: 1, handler: work('Images', 90, ['sharp']) },
      text: { types: ['index'], slots: 2, handler: work('Text', 90, []) },
      general: {
        types: ['compress', 'thumbnail', 'index'],
        slots: 3,
        handler: work('General', 150, ['sharp']),
      },
    },
    // An example: nothing here is worth keeping.
    removalPolicy: RemovalPolicy.DESTROY,
  });
  schedulerOutputs(stack, scheduler);

  const undelivered = new Queue(stack, 'OutcomesUndelivered', { retentionPeriod: Duration.days(1) });
  const outcomes = new Queue(stack, 'Outcomes', {
    retentionPeriod: Duration.hours(1),
    deadLetterQueue: { queue: undelivered, maxReceiveCount: 5 },
  });
  new Rule(stack, 'Ended', {
    description: 'What became of the jobs, for whoever watches',
    eventBus: scheduler.bus,
    eventPattern: {
      detailType: [DETAIL_TYPE.succeeded, DETAIL_TYPE.failed, DETAIL_TYPE.cancelled, DETAIL_TYPE.rejected],
    },
    targets: [new SqsQueue(outcomes, { deadLetterQueue: undelivered })],
  });
  new CfnOutput(stack, 'OutcomesQueueUrl', { value: outcomes.queueUrl });
  return stack;
}
