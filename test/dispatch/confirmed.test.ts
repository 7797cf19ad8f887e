/** Jobs that waited before a dispatcher began to remember: their images may be old, so each is read, and once. */
import { expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { type Stage, stage, storeWith } from './stage.ts';

/** Two types, of which one has no room while the other has. */
const setting = (): Stage =>
  stage({
    pool: {
      types: { resize: { maxConcurrency: 1 }, pack: {} },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'pack'], slots: 4 } },
    },
  });

function reader(on: Stage): { readonly context: DispatchContext; readonly asked: string[] } {
  const asked: string[] = [];
  const store = storeWith(on.store, {
    lookUpJobs: async (request) => {
      asked.push(...request.ids);
      return on.store.lookUpJobs(request);
    },
  });
  return { context: on.dispatcher({ store }), asked };
}

/** Three jobs wait, of which a dispatcher is told that did not see how they came. */
async function told(): Promise<{
  readonly on: Stage;
  readonly asked: readonly string[];
  readonly pass: (changes?: Partial<Job>) => Promise<unknown>;
}> {
  const on = setting();
  const jobs = Array.from({ length: 3 }, (_, at) => on.job({ fairnessKey: `tenant-${at % 2}` }));
  await on.put(on.job({ fairnessKey: 'tenant-0' }), ...jobs);
  await on.pass();
  await on.startAll('images');
  await on.advance(1_000);
  const { context, asked } = reader(on);
  return {
    on,
    asked,
    pass: (changes = {}) =>
      on.pass({ jobs: jobs.map((job) => ({ ...job, ...changes })), reason: 'stream' }, context),
  };
}

it('are read by the first pass that is told of them, and not again by those that follow it', async () => {
  const { on, asked, pass } = await told();
  await pass();
  expect(asked).toHaveLength(1);
  for (let passes = 0; passes < 3; passes += 1) {
    await on.advance(500);
    await pass();
  }
  expect(asked).toHaveLength(1);
});

it('are read again where another dispatcher has made passes since', async () => {
  const { on, asked, pass } = await told();
  await pass();
  await on.pass({ jobs: [], reason: 'tick' });
  await pass();
  expect(asked).toHaveLength(2);
});

const timesAsked = (asked: readonly string[]): number => asked.filter((id) => id === asked[0]).length;

it('are read again once something may have been missed', async () => {
  const { on, asked, pass } = await told();
  await pass();
  expect(timesAsked(asked)).toBe(1);
  // Word without names.
  await on.store.wake({ partition: 0 });
  await on.advance(500);
  await pass();
  await on.advance(500);
  await pass();
  expect(timesAsked(asked)).toBe(2);
});

it('are read again where an image shows another version', async () => {
  const { on, asked, pass } = await told();
  await pass();
  await on.advance(500);
  await pass({ version: 2 });
  expect(timesAsked(asked)).toBe(2);
});
