/** One invocation of a worker function: a batch of messages, each fenced by its claim. */

import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { UnavailableError } from '../../lib/core/errors.ts';
import type { Job, Json } from '../../lib/core/job.ts';
import type { DispatchMessage } from '../../lib/queue/contract.ts';
import { encodeDispatchMessage } from '../../lib/queue/message.ts';
import { lambdaWorker, type WorkerParts } from '../../lib/worker/lambda-batch.ts';
import type { JobHandlers } from '../../lib/worker/run-job.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';
import { toldJobs } from '../testing/received.ts';

const FUNCTION_TIMEOUT_MS = 60_000;

const setting = (): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: 10_000, retry: { jitter: 'none' } } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 10 } },
    },
  });

async function claimed(on: Stage, count: number): Promise<readonly DispatchMessage[]> {
  await on.put(...Array.from({ length: count }, (_, n) => on.job({ payload: n })));
  await on.pass();
  const received = await on.queue.receive('images', 10, 0, 60_000);
  return toldJobs(received).map(({ message }) => message);
}

const eventOf = (bodies: readonly string[]): SQSEvent =>
  ({ Records: bodies.map((body, at) => ({ messageId: `m${at}`, body })) }) as unknown as SQSEvent;

const lambdaContext = (awsRequestId = 'request-1'): Context =>
  ({
    functionName: 'images',
    awsRequestId,
    getRemainingTimeInMillis: () => FUNCTION_TIMEOUT_MS,
  }) as unknown as Context;

interface Invoked {
  readonly response: SQSBatchResponse;
  readonly exits: readonly string[];
}

async function invoke(
  on: Stage,
  bodies: readonly string[],
  handlers: JobHandlers,
  own: Partial<WorkerParts> & { readonly requestId?: string } = {},
): Promise<Invoked> {
  const exits: string[] = [];
  const { requestId, ...parts } = own;
  const { store, configuration, clock, random, log } = on;
  const exit = (reason: string): void => void exits.push(reason);
  const handler = lambdaWorker(
    () => ({ store, configuration, clock, random, log, exit, ...parts }),
    handlers,
  );
  const response = await on.finish(handler(eventOf(bodies), lambdaContext(requestId)));
  return { response, exits };
}

const failures = ({ response }: Invoked): readonly string[] =>
  response.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
/** A message for each job. */
const bodiesOf = (messages: readonly DispatchMessage[]): readonly string[] =>
  messages.map((each) => encodeDispatchMessage([each]));
/** A message for all of them. */
const bodyOf = (messages: readonly DispatchMessage[]): string => encodeDispatchMessage(messages);

/** The store, of which nobody hears whether this job was started. */
const withoutStartOf = (on: Stage, message: DispatchMessage | undefined) =>
  storeWith(on.store, {
    startJob: (request) =>
      request.jobId === message?.jobId
        ? Promise.reject(new UnavailableError('no answer'))
        : on.store.startJob(request),
  });

const jobOf = (on: Stage, { jobId }: DispatchMessage): Job | undefined => on.store.inspectJob(jobId);

describe('a message that tells of several jobs', () => {
  it('comes again where the store failed for one of them, and the others are not begun again', async () => {
    const on = setting();
    const messages = await claimed(on, 3);
    const store = withoutStartOf(on, messages[1]);
    const begun: Json[] = [];
    const resize = (payload: Json): null => {
      begun.push(payload);
      return null;
    };
    expect(failures(await invoke(on, [bodyOf(messages)], { resize }, { store }))).toEqual(['m0']);
    expect(messages.map((message) => jobOf(on, message)?.state)).toEqual([
      'succeeded',
      'pending',
      'succeeded',
    ]);
    const again = await invoke(on, [bodyOf(messages)], { resize }, { requestId: 'request-2' });
    expect(failures(again)).toEqual([]);
    expect(begun).toEqual([0, 2, 1]);
  });

  it('ends its process when one of them hangs, once the others have ended', async () => {
    const on = setting();
    const messages = await claimed(on, 3);
    const statesAtExit: (string | undefined)[] = [];
    const resize = async (payload: Json): Promise<Json> => {
      if (payload === 1) return new Promise<Json>(() => {});
      await on.clock.sleep(9_000);
      return payload;
    };
    const exit = (): void => void statesAtExit.push(...messages.map((each) => jobOf(on, each)?.state));
    const invoked = await invoke(on, [bodyOf(messages)], { resize }, { exit });
    expect(failures(invoked)).toEqual(['m0']);
    expect(statesAtExit).toEqual(['succeeded', 'running', 'succeeded']);
  });

  it.each([
    [{ activeMs: 9_000, share: 0.95 }, 3, 1],
    [{ activeMs: 9_000, share: 0.5 }, 3, 0],
    [{ activeMs: 500, share: 0.95 }, 3, 0],
    // Nobody is held up.
    [{ activeMs: 9_000, share: 0.95 }, 1, 0],
  ])('says once that its handlers held each other up: %j, %i jobs', async (use, count, told) => {
    const on = setting();
    const { store, configuration, clock, random, log } = on;
    const parts = { store, configuration, clock, random, log, measureLoop: () => () => use, exit: () => {} };
    const handler = lambdaWorker(() => parts, { resize: () => null });
    for (const requestId of ['request-1', 'request-2']) {
      const messages = await claimed(on, count);
      await on.finish(handler(eventOf([bodyOf(messages)]), lambdaContext(requestId)));
      await on.pass();
    }
    const warnings = on.logged.filter(({ message }) => message.includes('batchSize: 1'));
    expect(warnings).toHaveLength(told);
  });

  it('ends its process when one of them hangs, also where the store failed for another one', async () => {
    const on = setting();
    const messages = await claimed(on, 2);
    const store = withoutStartOf(on, messages[0]);
    const resize = () => new Promise<Json>(() => {});
    const { exits } = await invoke(on, [bodyOf(messages)], { resize }, { store });
    expect(exits).toHaveLength(1);
  });

  it('says of each job whose function died that it did', async () => {
    const on = setting();
    const messages = await claimed(on, 3);
    for (const message of messages) {
      const nowMs = on.time.nowMs;
      const life = { workerId: 'images/dead', incarnation: 'dead' };
      await on.store.startJob({ ...life, ...message, nowMs, runUntilMs: nowMs + FUNCTION_TIMEOUT_MS });
    }
    await on.advance(2 * FUNCTION_TIMEOUT_MS);
    expect(failures(await invoke(on, [bodyOf(messages)], { resize: () => null }))).toEqual([]);
    expect(messages.map((each) => jobOf(on, each)?.workersLost)).toEqual([1, 1, 1]);
  });
});

describe('a batch', () => {
  it.each([
    ['a message each', bodiesOf],
    ['one message', (messages: readonly DispatchMessage[]) => [bodyOf(messages)]],
  ])('runs its jobs side by side, as one worker: %s', async (_, told) => {
    const on = setting();
    const messages = await claimed(on, 3);
    let running = 0;
    let most = 0;
    const resize = async (payload: Json): Promise<Json> => {
      running += 1;
      most = Math.max(most, running);
      await on.clock.sleep(1_000);
      running -= 1;
      return payload;
    };
    const invoked = await invoke(on, told(messages), { resize });
    expect(failures(invoked)).toEqual([]);
    expect(most).toBe(3);
    for (const [at, message] of messages.entries()) {
      const worker = { workerId: 'images/request-1', incarnation: 'request-1' };
      expect(jobOf(on, message)).toMatchObject({ state: 'succeeded', result: at, worker });
    }
  });

  it("in which a job fails is done: the failure is the job's outcome, not the message's", async () => {
    const on = setting();
    const messages = await claimed(on, 2);
    const resize = (payload: Json): Json => {
      if (payload === 0) throw new Error('no');
      return payload;
    };
    const invoked = await invoke(on, bodiesOf(messages), { resize });
    expect(failures(invoked)).toEqual([]);
    expect(messages.map((message) => jobOf(on, message)?.state)).toEqual(['scheduled', 'succeeded']);
  });

  it('gives back only the messages whose store failed', async () => {
    const on = setting();
    const messages = await claimed(on, 3);
    const store = withoutStartOf(on, messages[1]);
    const bodies = bodiesOf(messages);
    const invoked = await invoke(on, bodies, { resize: () => null }, { store });
    expect(failures(invoked)).toEqual(['m1']);
    expect(messages.map((message) => jobOf(on, message)?.state)).toEqual([
      'succeeded',
      'pending',
      'succeeded',
    ]);
    expect(failures(await invoke(on, bodies.slice(1, 2), { resize: () => null }))).toEqual([]);
    expect(messages.map((message) => jobOf(on, message)?.state)).toEqual([
      'succeeded',
      'succeeded',
      'succeeded',
    ]);
  });

  it('whose outcome could not be written gives the message back; it comes again outdated, and the job is left to its lease', async () => {
    const on = setting();
    const messages = await claimed(on, 1);
    const bodies = bodiesOf(messages);
    const store = storeWith(on.store, { finishJob: () => Promise.reject(new UnavailableError('no answer')) });
    expect(failures(await invoke(on, bodies, { resize: () => null }, { store }))).toEqual(['m0']);
    let calls = 0;
    const resize = (): null => {
      calls += 1;
      return null;
    };
    expect(failures(await invoke(on, bodies, { resize }, { requestId: 'request-2' }))).toEqual([]);
    expect(calls).toBe(0);
    expect(on.states([{ id: messages[0]?.jobId } as Job])).toEqual(['running']);
  });

  it('with the same claim twice runs it once', async () => {
    const on = setting();
    const [message] = await claimed(on, 1);
    if (message === undefined) throw new Error('nothing was sent');
    let calls = 0;
    const resize = (): null => {
      calls += 1;
      return null;
    };
    const body = encodeDispatchMessage([message]);
    const invoked = await invoke(on, [body, body, body], { resize });
    expect([calls, failures(invoked), jobOf(on, message)?.state]).toEqual([1, [], 'succeeded']);
  });

  it.each([
    '',
    'not JSON',
    '7',
    'null',
    '[]',
    '{}',
    '{"jobId":"a"}',
    '{"jobId":1,"claimId":"c"}',
    '{"jobId":"a","claimId":null}',
    '{"jobs":[]}',
    '{"jobs":{}}',
    '{"jobs":[{"jobId":"a"}]}',
    '{"jobs":[{"jobId":"a","claimId":"c"},null]}',
  ])("with a message that is none of the dispatcher's gives back that one alone: %s", async (body) => {
    const on = setting();
    const messages = await claimed(on, 1);
    const bodies = [body, ...bodiesOf(messages)];
    const invoked = await invoke(on, bodies, { resize: () => null });
    expect(failures(invoked)).toEqual(['m0']);
    expect(invoked.exits).toEqual([]);
    expect(jobOf(on, messages[0] as DispatchMessage)?.state).toBe('succeeded');
  });

  it('with a handler that hangs ends its process, once the others have ended', async () => {
    const on = setting();
    const messages = await claimed(on, 2);
    let endedBeforeExit = false;
    const resize = async (payload: Json): Promise<Json> => {
      if (payload === 0) return new Promise<Json>(() => {});
      await on.clock.sleep(12_000);
      return payload;
    };
    const exit = (): void => {
      endedBeforeExit = jobOf(on, messages[1] as DispatchMessage)?.state !== 'running';
    };
    const invoked = await invoke(on, bodiesOf(messages), { resize }, { exit });
    expect(failures(invoked)).toEqual(['m0']);
    expect(endedBeforeExit).toBe(true);
    expect(jobOf(on, messages[0] as DispatchMessage)?.state).toBe('running');
  });

  it('keeps how far its jobs are: at once, and then every five seconds at most', async () => {
    const on = setting();
    const messages = await claimed(on, 2);
    const kept: [number, Json][] = [];
    const store = storeWith(on.store, {
      saveProgress: ({ job, worker, progress }) => {
        kept.push([on.time.nowMs - NOW_MS, progress]);
        return on.store.saveProgress({ job, worker, progress });
      },
    });
    const resize: JobHandlers[string] = async (payload, { heartbeat }) => {
      if (payload === 1) return null;
      for (let page = 0; page < 80; page += 1) {
        heartbeat({ page });
        await on.clock.sleep(100);
      }
      heartbeat('x'.repeat(2_000));
      return null;
    };
    const invoked = await invoke(on, bodiesOf(messages), { resize }, { store });
    await on.advance(60_000);
    expect(kept).toEqual([
      [0, { page: 0 }],
      [5_000, { page: 49 }],
    ]);
    expect(failures(invoked)).toEqual([]);
    expect(jobOf(on, messages[0] as DispatchMessage)).toMatchObject({
      state: 'succeeded',
      progress: { page: 49 },
    });
    expect(on.logged.filter(({ message }) => message.startsWith('progress is dropped'))).toHaveLength(1);
  });

  it('does its work though progress cannot be kept', async () => {
    const on = setting();
    const messages = await claimed(on, 1);
    const store = storeWith(on.store, {
      saveProgress: () => Promise.reject(new UnavailableError('no answer')),
    });
    const resize: JobHandlers[string] = async (_, { heartbeat }) => {
      heartbeat(1);
      await on.clock.sleep(100);
      return null;
    };
    await invoke(on, bodiesOf(messages), { resize }, { store });
    expect(jobOf(on, messages[0] as DispatchMessage)?.state).toBe('succeeded');
    expect(on.logged.map(({ message }) => message)).toContain('progress was not recorded');
  });

  it('says nothing about a process that need not end', async () => {
    const on = setting();
    const messages = await claimed(on, 1);
    const resize = (_: Json, { signal }: { readonly signal: AbortSignal }): Promise<null> =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve(null)));
    const invoked = await invoke(on, bodiesOf(messages), { resize });
    expect([failures(invoked), invoked.exits]).toEqual([[], []]);
  });
});
