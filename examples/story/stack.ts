/** The story's scheduler, with a function for one fleet and a queue that hears of the ends of jobs. */
import { fileURLToPath } from 'node:url';
import { type App, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import { addEndedQueue } from '../ended-queue.ts';
import { POOL, SLOTS } from './pool.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, 'fairlead-story');
  const handler = new WorkerFunction(stack, 'Render', {
    entry: fileURLToPath(new URL('./render.ts', import.meta.url)),
  });
  const scheduler = new Scheduler(stack, 'Jobs', {
    ...POOL,
    fleets: {
      ...POOL.fleets,
      // On AWS the slots are enough; the emulator runs five invocations of a queue at once unless it is told.
      renderers: { ...POOL.fleets.renderers, handler, maxConcurrency: SLOTS },
    },
    removalPolicy: RemovalPolicy.DESTROY,
  });
  schedulerOutputs(stack, scheduler);
  addEndedQueue(stack, scheduler);
  return stack;
}
