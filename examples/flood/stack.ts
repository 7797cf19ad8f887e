/** One type with a cap, one fleet, and a queue that hears what became of the jobs. */
import { fileURLToPath } from 'node:url';
import { type App, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import { addEndedQueue } from '../ended-queue.ts';
import { POOL } from './pool.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, 'fairlead-flood');
  const handler = new WorkerFunction(stack, 'Render', {
    entry: fileURLToPath(new URL('./worker.ts', import.meta.url)),
  });
  const scheduler = new Scheduler(stack, 'Jobs', {
    ...POOL,
    // On AWS the slots are enough; the emulator runs five invocations of a queue at once unless it is told.
    fleets: { renderers: { ...POOL.fleets.renderers, handler, maxConcurrency: POOL.fleets.renderers.slots } },
    removalPolicy: RemovalPolicy.DESTROY,
  });
  schedulerOutputs(stack, scheduler);
  addEndedQueue(stack, scheduler);
  return stack;
}
