/** Steps of a handler: one that was done is not run again, in no attempt. */
import { describe, expect, it } from 'vitest';
import { UnavailableError } from '../../lib/core/errors.ts';
import type { Job } from '../../lib/core/job.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import type { AttemptError } from '../../lib/worker/errors.ts';
import { type JobContext, type JobHandler, type RunContext, runJob } from '../../lib/worker/run-job.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';
import { onlyJob } from '../testing/received.ts';

const setting = (): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: 30_000, retry: { jitter: 'none', delayMs: 0, maxAttempts: 3 } } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 4 } },
    },
  });

async function attempt(on: Stage, resize: JobHandler, own: Partial<RunContext> = {}): Promise<Job> {
  await on.pass();
  const [received] = await on.queue.receive('images', 1, 0, 60_000);
  if (received === undefined) throw new Error('nothing was sent');
  const { jobId, ...message } = onlyJob(received);
  const { store, configuration, clock, random, log } = on;
  const worker = { workerId: 'worker-1', incarnation: `life of ${message.claimId}` };
  const context = { store, configuration, clock, random, log, worker, ...own };
  await on.finish(runJob(context, { resize }, { jobId, ...message }));
  const job = on.store.inspectJob(jobId);
  if (job === undefined) throw new Error(`no job ${jobId}`);
  return job;
}

async function once(resize: JobHandler, own: (on: Stage) => Partial<RunContext> = () => ({})): Promise<Job> {
  const on = setting();
  await on.put(on.job());
  return attempt(on, resize, own(on));
}

describe('a step', () => {
  it('that was done is not run again after a failure, and gives what it gave', async () => {
    const on = setting();
    await on.put(on.job());
    const runs: string[] = [];
    const seen: unknown[] = [];
    const handler: JobHandler = async (_, { step, attempt: number }) => {
      const charge = (): { id: number } => {
        runs.push('charge');
        return { id: number };
      };
      seen.push(await step('charge', charge));
      seen.push(await step('mail', () => void runs.push('mail')));
      if (number === 1) throw new Error('later');
      return step('bill', () => runs.push('bill'));
    };
    expect((await attempt(on, handler)).state).toBe('scheduled');
    expect(await attempt(on, handler)).toMatchObject({ state: 'succeeded', result: 3 });
    expect(runs).toEqual(['charge', 'mail', 'bill']);
    expect(seen).toEqual([{ id: 1 }, undefined, { id: 1 }, undefined]);
  });

  it('stays done where a lost worker makes its job start anew, without its checkpoint', async () => {
    const on = setting();
    await on.put(on.job());
    const over = new AbortController();
    const first: JobHandler = async (_, { step, checkpoint }) => {
      await step('charge', () => 7);
      await checkpoint({ page: 3 });
      over.abort();
      return new Promise(() => {});
    };
    await expect(attempt(on, first, { signal: over.signal })).rejects.toMatchObject({
      reason: 'HandlerHung',
    });
    const [job] = await on.store.lookUpJobs({ ids: [...on.held()].map(({ id }) => id) });
    if (job === undefined) throw new Error('no job');
    const verdict = {
      kind: 'retry',
      error: { name: 'WorkerLost', message: '' },
      runAtMs: on.time.nowMs,
      isFromStart: true,
    } as const;
    await on.store.endUnfinished({ job, verdict, nowMs: on.time.nowMs, expiresAtMs: on.time.nowMs + 60_000 });
    const seen: unknown[] = [];
    await attempt(on, async (_, { step, lastCheckpoint }) => {
      seen.push(lastCheckpoint, await step('charge', () => 8));
    });
    expect(seen).toEqual([undefined, 7]);
  });

  it('has one name for one run, also while it runs', async () => {
    const runs: number[] = [];
    const job = await once(async (_, { step }) => {
      const take = (): Promise<number> => step('same', () => runs.push(1));
      return [...(await Promise.all([take(), take()])), await take()];
    });
    expect(job.result).toEqual([1, 1, 1]);
    expect(runs).toHaveLength(1);
  });

  it('gives its value as it is kept: a copy, whose changes reach no later use', async () => {
    const job = await once(async (_, { step }) => {
      const given = { list: [1], gone: undefined };
      const value = await step('list', () => given);
      given.list.push(2);
      return [value, Object.keys(value)];
    });
    expect(job.result).toEqual([{ list: [1] }, ['list']]);
  });

  it('that fails may be tried again, and its value is then kept', async () => {
    let tries = 0;
    const job = await once(async (_, { step }) => {
      const take = (): Promise<number> =>
        step('flaky', () => {
          tries += 1;
          if (tries === 1) throw new Error('no');
          return tries;
        });
      await take().catch(() => {});
      return take();
    });
    expect(job).toMatchObject({ state: 'succeeded', result: 2, steps: { flaky: { value: 2 } } });
  });

  it('whose write got no answer is not run again, only written', async () => {
    let runs = 0;
    let writes = 0;
    const job = await once(
      async (_, { step }) => {
        const take = (): Promise<number> => step('charge', () => (runs += 1));
        await take().catch(() => {});
        return take();
      },
      (on) => ({
        store: storeWith(on.store, {
          saveSteps: async (request) => {
            writes += 1;
            if (writes === 1) throw new UnavailableError('no answer');
            return on.store.saveSteps(request);
          },
        }),
      }),
    );
    expect([runs, writes, job.steps]).toEqual([1, 2, { charge: { value: 1 } }]);
  });

  it('loses no value of one beside it, and shares a write with those that end meanwhile', async () => {
    let writes = 0;
    const names = Array.from({ length: 20 }, (_, at) => `step ${at}`);
    const job = await once(
      (_, { step }) => Promise.all(names.map((name) => step(name, () => name))),
      (on) => ({
        store: storeWith(on.store, {
          saveSteps: async (request) => {
            writes += 1;
            await on.clock.sleep(100);
            return on.store.saveSteps(request);
          },
        }),
      }),
    );
    expect(Object.keys(job.steps ?? {}).toSorted()).toEqual(names.toSorted());
    expect(writes).toBeLessThanOrEqual(2);
  });

  it('stands beside a checkpoint', async () => {
    const on = setting();
    await on.put(on.job());
    await attempt(on, async (_, { step, checkpoint }) => {
      await step('a', () => 1);
      await checkpoint({ page: 1 });
      await step('b', () => 2);
      throw new Error('again');
    });
    const seen: unknown[] = [];
    await attempt(on, async (_, { step, lastCheckpoint }) => {
      seen.push(lastCheckpoint, await step('a', () => 0), await step('b', () => 0));
    });
    expect(seen).toEqual([{ page: 1 }, 1, 2]);
  });

  it('does not begin once the attempt was told to stop', async () => {
    const over = new AbortController();
    let runs = 0;
    const job = await once(
      async (_, { step }) => {
        over.abort();
        await step('late', () => (runs += 1));
      },
      () => ({ signal: over.signal }),
    );
    expect([runs, job.state]).toEqual([0, 'scheduled']);
  });

  it('that still runs when its handler fails is told to stop, and ends before the next attempt begins', async () => {
    const on = setting();
    await on.put(on.job());
    const said: string[] = [];
    const handler: JobHandler = async (_, { step, attempt: number, signal }) => {
      said.push(`attempt ${number}`);
      await Promise.all([
        step('charge', async () => {
          await on.clock.sleep(3_000);
          said.push(`charged, ${(signal.reason as AttemptError).reason}`);
        }),
        step('mail', () => (number === 1 ? Promise.reject(new Error('mail down')) : undefined)),
      ]);
    };
    expect((await attempt(on, handler)).state).toBe('scheduled');
    expect(await attempt(on, handler)).toMatchObject({ state: 'succeeded', steps: { charge: {}, mail: {} } });
    expect(said).toEqual(['attempt 1', 'charged, AttemptEnded', 'attempt 2']);
  });

  it.each<readonly [string, JobStore['saveSteps'] | undefined]>([
    ['a slow write', undefined],
    ['a write that gets no answer at first', async () => Promise.reject(new UnavailableError('no answer'))],
  ])('that was done is kept although its attempt fails before %s', async (_, first) => {
    const on = setting();
    await on.put(on.job());
    let writes = 0;
    const store = storeWith(on.store, {
      saveSteps: async (request) => {
        writes += 1;
        await on.clock.sleep(100);
        return writes === 1 && first !== undefined ? first(request) : on.store.saveSteps(request);
      },
    });
    let charges = 0;
    const handler: JobHandler = async (__, { step, attempt: number }) => {
      const charged = step('charge', () => (charges += 1));
      if (number === 1) throw new Error('mail down');
      return charged;
    };
    await attempt(on, handler, { store });
    expect(await attempt(on, handler, { store })).toMatchObject({ state: 'succeeded', result: 1 });
  });

  it('that does not stop after its handler ends the process, and its attempt has failed', async () => {
    const on = setting();
    await on.put(on.job());
    const handler: JobHandler = (_, { step }) => {
      void step('for ever', () => new Promise(() => {}));
      throw new Error('mail down');
    };
    await expect(attempt(on, handler)).rejects.toMatchObject({
      reason: 'HandlerHung',
      message: expect.stringMatching(/^a step of job .* still ran 5000 ms/),
    });
    const [job] = await on.store.lookUpJobs({ ids: [...on.held()].map(({ id }) => id) });
    expect(job?.hung).toMatchObject({ name: 'HandlerHung' });
  });

  it('that its handler does not wait for is kept, and the result counts', async () => {
    const job = await once(async (_, { step }) => {
      void step('later', async () => 1);
      return 'done';
    });
    expect(job).toMatchObject({ state: 'succeeded', result: 'done', steps: { later: { value: 1 } } });
  });

  it('does not begin after its handler has ended', async () => {
    let late: JobContext | undefined;
    await once((_, ctx) => {
      late = ctx;
    });
    await expect(late?.step('late', () => 1)).rejects.toMatchObject({ reason: 'AttemptEnded' });
  });

  it.each<readonly [string, (ctx: JobContext) => Promise<unknown>]>([
    ['itself', ({ step }) => step('a', () => step('a', () => 1))],
    ['itself through another', ({ step }) => step('a', () => step('b', async () => step('a', () => 1)))],
    [
      'one that waits for it',
      ({ step }) =>
        Promise.all([
          step('a', async () => Promise.resolve().then(() => step('b', () => 1))),
          step('b', async () => Promise.resolve().then(() => step('a', () => 1))),
        ]),
    ],
  ])('is refused if it would wait for %s', async (_, take) => {
    expect((await once((__, ctx) => take(ctx))).error).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/^step: would wait for its own end/),
    });
  });

  it('may call others, and one that was done', async () => {
    const job = await once(async (_, { step }) => {
      await step('a', () => 1);
      return step('b', async () => (await step('a', () => 0)) + (await step('c', () => 1)));
    });
    expect(job.result).toBe(2);
  });

  it('whose value is refused fails its job at once: a retry would only repeat its effect', async () => {
    const job = await once((_, { step }) => step('charge', () => ({ at: new Date() })));
    expect(job).toMatchObject({ state: 'failed', attempt: 1, error: { name: 'CheckpointRefused' } });
  });

  it('of an attempt that has lost its job ends it', async () => {
    let reason: unknown;
    await once(
      async (_, { step, signal }) => {
        await step('late', () => 1).catch((error: unknown) => {
          reason = [error === signal.reason, (error as { reason?: string }).reason];
        });
      },
      (on) => ({ store: storeWith(on.store, { saveSteps: async () => 'superseded' }) }),
    );
    expect(reason).toEqual([true, 'JobSuperseded']);
  });

  it.each<readonly [string, (ctx: JobContext) => Promise<unknown>, string, RegExp]>([
    ['no name', ({ step }) => step('', () => 1), 'ConfigurationError', /^step: must be a name of 1 to 100/],
    [
      'a long name',
      ({ step }) => step('x'.repeat(101), () => 1),
      'ConfigurationError',
      /of 1 to 100 characters/,
    ],
    [
      'a name that is a trap',
      ({ step }) => step('__proto__', () => 1),
      'ConfigurationError',
      /^step: must be a n/,
    ],
    [
      'a name that is none',
      ({ step }) => step(7 as never, () => 1),
      'ConfigurationError',
      /^step: must be a n/,
    ],
    [
      'no function',
      ({ step }) => step('a', 7 as never),
      'ConfigurationError',
      /^step: must be a function, got 7/,
    ],
    [
      'a value that is not JSON',
      ({ step }) => step('a', () => ({ seen: new Set() })),
      'CheckpointRefused',
      /^the value of the step "a" cannot be kept as JSON: seen: a Set is not JSON; return plain data/,
    ],
    [
      'a value that is too large',
      ({ step }) => step('a', () => 'x'.repeat(70_000)),
      'CheckpointRefused',
      /^the value of the step "a" has 70002 bytes, at most 65536 are kept/,
    ],
    [
      'values that together are too large',
      async ({ step }) => {
        for (const name of ['a', 'b']) await step(name, () => 'x'.repeat(40_000));
      },
      'CheckpointRefused',
      /^the value of the step "b" makes the values of all steps 80\d+ bytes, at most 65536 are kept/,
    ],
  ])('is refused with %s', async (_, take, name, message) => {
    const { error, steps = {} } = await once((__, ctx) => take(ctx));
    expect(error).toMatchObject({ name, message: expect.stringMatching(message) });
    expect(Object.keys(steps)).toEqual(name === 'CheckpointRefused' && 'a' in steps ? ['a'] : []);
  });
});
