/** The test kit: what it promises to those who test their jobs with it, and that it finds what it is for. */
import { readFile } from 'node:fs/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { handlersOf, type Shop } from '../../examples/testing/handlers.ts';
import { declaration, jobs } from '../../examples/testing/jobs.ts';
import { defineJobs, job, only } from '../../lib/jobs/jobs.ts';
import {
  type JobMatchers,
  jobMatchers,
  type TestScheduler,
  testHandler,
  testScheduler,
} from '../../lib/testing/index.ts';
import type { HandlerOf } from '../../lib/worker/handlers.ts';
import type { JobContext } from '../../lib/worker/run-job.ts';

expect.extend(jobMatchers);
declare module 'vitest' {
  interface Matchers<R extends void | Promise<void>, T> extends JobMatchers<R> {}
}

/** `testScheduler`, disposed of when the test has ended. */
const opened: typeof testScheduler = async (...given) => {
  const t = await testScheduler(...given);
  onTestFinished(() => t.dispose());
  return t;
};

/** A shop whose books the test reads. */
function shopOf(): Shop & { readonly moved: [string, number][]; readonly printed: number[] } {
  const moved: [string, number][] = [];
  const printed: number[] = [];
  const keys = new Set<string>();
  return {
    moved,
    printed,
    move: async (account, cents, key) => {
      if (!keys.has(key)) moved.push([account, cents]);
      keys.add(key);
      return key;
    },
    printPage: async (_, page) => void printed.push(page),
  };
}

const simple = defineJobs({ work: job<{ n: number }, number>(), other: job<null>() });
const nothing = { work: async () => 0, other: async () => null };

it('refuses a subject that is no scheduler, and a job that is none, in one sentence', async () => {
  const t = await opened(simple, {}, { handlers: nothing });
  const handle = await t.submit('work', { n: 1 });
  const loose = (subject: unknown) =>
    expect(subject) as unknown as JobMatchers & { readonly not: JobMatchers };
  const subject =
    /^expect takes the scheduler that testScheduler returned.*expect\(t\)\.toHaveSucceeded\(job\)$/;
  expect(() => loose(handle).toHaveSucceeded(undefined as never)).toThrow(subject);
  expect(() => loose(handle).not.toHaveFailed(handle)).toThrow(subject);
  expect(() => loose(undefined).toStayWithin('pool', 1)).toThrow(subject);
  const job = /^job: must be the id of a job, or the handle that submit returned$/;
  expect(() => loose(t).toHaveSucceeded(undefined as never)).toThrow(job);
  expect(() => loose(t).toHaveSucceeded({} as never)).toThrow(job);
});

describe('time', () => {
  it('passes only when the test lets it', async () => {
    const t = await opened(simple, {}, { handlers: nothing, start: '2026-03-01T08:00:00Z' });
    const later = await t.submit('work', { n: 1 }, { runAt: '+2h' });
    await t.advance('1h59m');
    expect(t.job(later).state).toBe('scheduled');
    await t.advance('2m');
    expect(t).toHaveSucceeded(later);
    expect(t.now.toISOString()).toBe('2026-03-01T10:01:00.000Z');
    expect(t.started()[0]?.startedAt.toISOString()).toBe('2026-03-01T10:00:00.000Z');
  });

  it('passes while test code waits for a job by the client', async () => {
    const t = await opened(simple, {}, { handlers: { ...nothing, work: async ({ n }) => n * 2 } });
    expect((await t.client.run('work', { n: 4 })).result).toBe(8);
    const handle = await t.submit('work', { n: 5 }, { runAt: '+3h' });
    expect(await handle.result({ timeout: '4h' })).toBe(10);
  });

  it('stands still while a handler waits for something real', async () => {
    const read = vi.fn(async () => (await readFile(import.meta.filename, 'utf8')).length);
    const t = await opened(simple, {}, { handlers: { ...nothing, work: read } });
    const handle = await t.submit('work', { n: 1 });
    await t.runUntilIdle();
    expect(t.job(handle).result).toBeGreaterThan(100);
    expect(t.now.toISOString()).toBe('2026-01-01T00:00:01.000Z');
  });

  it('fires schedules, in their zones', async () => {
    const nightly = { type: 'work', payload: { n: 1 }, cron: '0 2 * * *', zone: 'Europe/Berlin' } as const;
    const t = await opened(simple, { schedules: { nightly } }, { handlers: nothing });
    await t.advance('3d');
    expect(t.started('work').map(({ startedAt }) => startedAt.toISOString())).toEqual(
      ['01', '02', '03'].map((day) => `2026-01-${day}T01:00:00.000Z`),
    );
  });

  it('goes on under fake timers of the test runner, which see nothing of it', async () => {
    vi.useFakeTimers();
    const t = await opened(simple, {}, { handlers: nothing });
    await t.submit('work', { n: 1 });
    await t.runUntilIdle();
    expect(t).toHaveStarted('work', 1);
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });
});

describe('a failure says what is wrong, and the seed', () => {
  it('if a handler never ends', async () => {
    const t = await opened(
      simple,
      {},
      { seed: 42, patienceMs: 50, handlers: { ...nothing, work: () => new Promise<never>(() => {}) } },
    );
    const { jobId } = await t.submit('work', { n: 1 });
    await expect(t.runUntilIdle()).rejects.toThrow(
      new RegExp(`handler \`work\` of job ${jobId} .* may never end.*seed 42`),
    );
  });

  it('if a job does not end', async () => {
    const t = await opened(simple, {}, { seed: 7, handlers: nothing });
    await t.client.pause({ type: 'work' });
    await t.submit('work', { n: 1 });
    await expect(t.runUntilIdle({ within: '1h' })).rejects.toThrow(
      /1 job has not ended within 1h: [\s\S]*the end of a pause: type\/work[\s\S]*seed 7/,
    );
  });

  it('if a matcher does not fit', async () => {
    const t = await opened(simple, {}, { seed: 9, handlers: nothing });
    expect(() => expect(t).toHaveStarted('work', 2)).toThrow(/0 attempts of work have started \(seed 9,/);
  });

  it('if a handler moves time, or a job that does not run is crashed', async () => {
    let t: TestScheduler<typeof simple> | undefined;
    const moving = { ...nothing, work: async () => void (await t?.advance('1h')) as never };
    t = await testScheduler(simple, { types: { work: { retry: { maxAttempts: 1 } } } }, { handlers: moving });
    const handle = await t.submit('work', { n: 1 });
    expect(() => t?.crashWorker(handle)).toThrow(/is pending, and only a running job has a worker \(seed 1,/);
    await t.runUntilIdle();
    expect(t).toHaveFailed(handle, /a handler cannot move time/);
    await t.dispose();
    for (const { submit } of [t, t.client])
      await expect(submit('work', { n: 2 })).rejects.toThrow(/is disposed of; make another one.*\(seed 1,/);
  });
});

describe('faults', () => {
  const slow = { handlers: nothing, takes: { work: '1m' } } as const;

  it('a crashed worker loses its job to another attempt', async () => {
    for (const slots of [4, null]) {
      const t = await opened(
        simple,
        { fleets: { all: { types: ['work', 'other'], slots } }, types: { work: { timeoutMs: '2m' } } },
        slow,
      );
      const handle = await t.submit('work', { n: 1 });
      await t.advance('10s');
      t.crashWorker(handle);
      await t.runUntilIdle();
      expect(t).toHaveSucceeded(handle);
      expect(t).toHaveStarted('work', 2);
      expect(t.job(handle).workersLost).toBe(1);
    }
  });

  it('a frozen worker, a lost message, a slow table and a wrong clock cost time, and no job', async () => {
    for (const slots of [4, null]) {
      const t = await opened(simple, { fleets: { all: { types: ['work', 'other'], slots } } }, slow);
      t.loseMessage();
      t.answerSlowly('3s', { for: '5m' });
      t.stepClock('-2m');
      const all = await t.client.submitMany(
        Array.from({ length: 8 }, (_, n) => ({ type: 'work' as const, payload: { n } })),
      );
      await t.advance('90s');
      const [running] = t.started();
      if (running !== undefined && running.endedAt === undefined) t.freeze(running.jobId, '30s');
      t.stepClock('5m');
      await t.runUntilIdle();
      for (const entry of all) expect(t).toHaveSucceeded('jobId' in entry ? String(entry.jobId) : '');
      expect(t).toStayWithin('fleet/all', 10);
    }
  });
});

describe('the most jobs of a scope that ran at once', () => {
  it('are those of a limit, and of a key of it', async () => {
    const t = await opened(
      simple,
      {
        types: { work: { limits: ['api'] }, other: { limits: ['org'] } },
        limits: { api: { total: 3, perKey: 2 }, org: { keyedBy: 'org', perKey: 1 } },
        fleets: { all: { types: ['work', 'other'], slots: 20 } },
      },
      {
        handlers: {
          work: async (_, { signal }) => {
            await t.sleep('1m', signal);
            return 0;
          },
          other: async (_, { signal }) => {
            await t.sleep('1m', signal);
            return 0;
          },
        },
      },
    );
    for (let n = 0; n < 8; n += 1) {
      await t.submit('work', { n }, { fairnessKey: `k${n % 2}` });
      await t.submit('other', null, { keys: { org: `o${n % 2}` } });
    }
    await t.runUntilIdle();
    expect(t.peak('limit/api')).toBe(3);
    expect(t.peak({ limit: 'api', key: 'k0' })).toBe(2);
    expect(t.peak('limit/org')).toBe(2);
    expect(t).toStayWithin('limit/org/o1', 1);
    expect(t.peak('limit/org/nobody')).toBe(0);
    expect(t.peak('pool')).toBe(5);
  });

  it.each(['fleet/typo', 'type/zzz', 'tier/zz', 'limit/zz', 'limit/zz/k'])(
    'are refused for %s',
    async (scope) => {
      const t = await opened(simple, {}, { handlers: nothing });
      expect(() => t.peak(scope)).toThrow(
        /scope: names the \w+ "\w+", which is not declared\. .*Declared are: /,
      );
    },
  );

  it('are refused for the resources of a type, which have no number of their own', async () => {
    const t = await opened(simple, {}, { handlers: nothing });
    expect(() => t.peak('resource/work/r')).toThrow(/is none: use pool, /);
  });
});

describe('the same seed', () => {
  const run = async (seed: number): Promise<string> => {
    const t = await opened(
      simple,
      { schedules: { tick: { type: 'other', every: '7m' } } },
      {
        seed,
        handlers: {
          ...nothing,
          work: async ({ n }, ctx) => {
            if (n % 3 === 0 && ctx.attempt < 3) throw new Error('again');
            return n;
          },
        },
        takes: { work: (_, random) => 1_000 + 60_000 * random },
      },
    );
    for (let n = 0; n < 40; n += 1) await t.submit('work', { n });
    await t.advance('1h');
    await t.runUntilIdle();
    return JSON.stringify(t.history());
  };

  it('gives the same history, and another one another', async () => {
    const first = await run(3);
    expect(await run(3)).toBe(first);
    expect(await run(4)).not.toBe(first);
  });
});

describe('a bug planted into the shop is found:', () => {
  it('the shop itself has none', async () => {
    const shop = shopOf();
    const t = await opened(jobs, declaration, { handlers: handlersOf(shop) });
    const charge = await t.submit('charge', { account: 'a', cents: 5 });
    await t.advance('500ms');
    await t.submit('refund', { account: 'a', cents: 2 });
    t.crashWorker(charge);
    await t.runUntilIdle();
    expect(shop.moved).toEqual([
      ['a', 5],
      ['a', -2],
    ]);
    expect(t).toKeepApart('a');
  });

  it('a handler that is not idempotent', async () => {
    const shop = shopOf();
    const careless = {
      ...handlersOf(shop),
      charge: async ({ account, cents }: { account: string; cents: number }) => ({
        receipt: await shop.move(account, cents, String(shop.moved.length)),
      }),
    };
    const t = await opened(jobs, declaration, { handlers: careless });
    const charge = await t.submit('charge', { account: 'a', cents: 5 });
    await t.advance('500ms');
    t.crashWorker(charge, { at: 'end' });
    await t.runUntilIdle();
    expect(t).toHaveSucceeded(charge);
    expect(shop.moved).toEqual([
      ['a', 5],
      ['a', 5],
    ]);
  });

  it('a handler that ignores its signal', async () => {
    const deaf = {
      ...handlersOf(shopOf()),
      statement: async () => {
        for (let page = 0; page < 100; page += 1) await t.sleep('1m');
        return null;
      },
    };
    const t = await opened(jobs, declaration, { handlers: deaf, seed: 11 });
    await t.submit('statement', { account: 'a', pages: 3 });
    await expect(t.runUntilIdle()).rejects.toThrow(
      /handler `statement` .* ignores its signal: .* longer than 300000 ms .*seed 11/,
    );
  });

  it('two types that should exclude each other, and do not', async () => {
    const { charge: _, ...types } = declaration.types;
    const t = await opened(jobs, { ...declaration, types }, { handlers: handlersOf(shopOf()), seed: 5 });
    await t.submit('charge', { account: 'a', cents: 5 });
    await t.submit('refund', { account: 'a', cents: 2 });
    await t.runUntilIdle();
    expect(() => expect(t).toKeepApart('a')).toThrow(/2 jobs on a ran at once \(seed 5,/);
  });
});

describe('one handler', () => {
  it('gets a real context, and its run is told', async () => {
    const shop = shopOf();
    const statement: HandlerOf<typeof jobs.statement> = handlersOf(shop).statement;
    const run = await testHandler(
      only(jobs, 'statement'),
      statement,
      { account: 'a', pages: 3 },
      { attempt: 2, lastCheckpoint: { page: 1 } },
    );
    expect(run).toMatchObject({
      outcome: 'succeeded',
      result: { pages: 3 },
      checkpoints: [{ page: 2 }, { page: 3 }],
    });
    expect(shop.printed).toEqual([2, 3]);
  });

  it('tells the progress that a worker would record, and drops what a worker would drop', async () => {
    const said = [
      { done: 1, of: undefined },
      new Map([['a', 1]]),
      new Date(),
      { text: 'x'.repeat(2_000) },
      10n,
      { done: 2 },
    ];
    const work = async (_: unknown, ctx: Pick<JobContext, 'heartbeat'>): Promise<number> => {
      for (const each of said) ctx.heartbeat(each);
      return 0;
    };
    const run = await testHandler(only(simple, 'work'), work, { n: 1 });
    expect(run).toMatchObject({ outcome: 'succeeded', progress: [{ done: 1 }, { done: 2 }] });
  });

  it('is tried again, or fails for good at its last attempt', async () => {
    const fail = async (_: unknown, ctx: { attempt: number }): Promise<never> => {
      throw new Error(`attempt ${ctx.attempt}`);
    };
    const first = await testHandler(jobs, fail, { account: 'a', pages: 1 }, { type: 'statement' });
    expect(first).toMatchObject({
      outcome: 'retried',
      error: { message: 'attempt 1' },
      retryAt: expect.any(Date),
    });
    const last = await testHandler(jobs, fail, { account: 'a', pages: 1 }, { type: 'statement', attempt: 3 });
    expect(last).toMatchObject({ outcome: 'failed', error: { message: 'attempt 3' }, retryAt: undefined });
  });
});

it('says what jobs cost, if it was asked to count', async () => {
  const t = await opened(simple, {}, { handlers: nothing, countsCost: true });
  await t.client.run('work', { n: 1 });
  expect(t.cost().writeUnits).toBeGreaterThan(3);
  const without = await opened(simple, {}, { handlers: nothing });
  expect(() => without.cost()).toThrow(/countsCost/);
});
