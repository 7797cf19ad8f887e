/** Jobs that a server beside the worker runs, and SIGKILL of either side: every promise is kept. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { historyOf } from '../../lib/core/history.ts';
import type { Job } from '../../lib/core/job.ts';
import { submit } from '../../lib/submit/submit.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { serverIn } from '../forward/servers.ts';
import { type ProcessStage, processStage } from './process-stage.ts';

const TEST_MS = 150_000;
const configuration = resolveConfiguration({
  types: {
    resize: {
      onWorkerLost: 'resume',
      timeoutMs: 120_000,
      retry: { maxAttempts: 5, delayMs: 100, maxDelayMs: 200 },
    },
  },
  fleets: { boxes: { types: ['resize'] } },
});

async function put(
  on: ProcessStage,
  payload: Job['payload'],
  changes: Partial<Pick<Job, 'type' | 'fairnessKey'>> = {},
): Promise<string> {
  const nowMs = Date.now();
  const times = { readyAtMs: nowMs, runAtMs: nowMs, submittedAtMs: nowMs };
  const job = aJob({ id: randomUUID(), type: 'resize', payload, ...times, ...changes });
  await submit({ ...on.context, nowMs: Date.now }, [job]);
  return job.id;
}

const read = async (on: ProcessStage, id: string): Promise<Job> => {
  const [job] = await on.context.store.getJobs({ ids: [id] });
  if (job === undefined) throw new Error(`job ${id} is gone`);
  return job;
};

interface Seen {
  readonly asked: IncomingMessage;
  readonly answer: ServerResponse;
}

describe('a job that is forwarded', () => {
  it('begins again elsewhere when its worker is killed, and the first server changes nothing', {
    timeout: TEST_MS,
  }, async () => {
    const seen: Seen[] = [];
    const server = createServer((asked, answer) => {
      asked.resume();
      seen.push({ asked, answer });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    vi.stubEnv('FORWARD_URL', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const on = await processStage(configuration, 'boxes');
    try {
      const first = on.start('forwarding-process.ts', 'first');
      const id = await put(on, { key: 'a' });
      await on.dispatchUntil([id], () => seen.length === 1);
      const callbackOf = ({ asked }: Seen): string => String(asked.headers['fairlead-callback']);
      const [early] = seen as [Seen];
      const kept = await fetch(`${callbackOf(early)}/checkpoint`, { method: 'POST', body: '{"done":1}' });
      expect(kept.status).toBe(204);
      const closed = once(early.asked.socket, 'close');
      first.kill('SIGKILL');
      await closed;
      on.start('forwarding-process.ts', 'second');
      await on.dispatchUntil([id], () => seen.length === 2);
      const [, later] = seen as [Seen, Seen];
      // The server that goes on for the first attempt: late, and with the token of another one.
      early.answer.end('"late"');
      await expect(
        fetch(`${callbackOf(early)}/checkpoint`, { method: 'POST', body: '"late"' }),
      ).rejects.toThrow();
      const swapped = `${new URL(callbackOf(later)).origin}${new URL(callbackOf(early)).pathname}`;
      expect((await fetch(`${swapped}/checkpoint`, { method: 'POST', body: '"late"' })).status).toBe(410);
      const resumed = await fetch(`${callbackOf(later)}/checkpoint`);
      expect(await resumed.json()).toEqual({ checkpoint: { done: 1 } });
      const tokens = seen.map(({ asked }) => Number(asked.headers['fairlead-fencing-token']));
      expect(tokens[1]).toBeGreaterThan(tokens[0] ?? Infinity);
      later.answer.end('"in time"');
      await on.dispatchUntil([id], ([job]) => job?.state === 'succeeded');
      const done = await read(on, id);
      expect(done).toMatchObject({ result: 'in time', workersLost: 1 });
      const ends = historyOf(done).events.filter(
        (event) => 'outcome' in event && event.outcome === 'succeeded',
      );
      expect(ends).toHaveLength(1);
    } finally {
      server.closeAllConnections();
      server.close();
      await on.drop();
    }
  });
});

describe('an endpoint that answers 429', () => {
  it('lets its customer rest and burns no attempt, while the other customers go on', {
    timeout: TEST_MS,
  }, async () => {
    const REST_MS = 3_000;
    const customers = Array.from({ length: 12 }, (_, at) => `c-${at}`);
    const isBusy = (customer: string): boolean => customers.indexOf(customer) % 4 === 0;
    const calls: { readonly customer: string; readonly atMs: number; readonly status: number }[] = [];
    const server = createServer(async (asked, answer) => {
      const { customer } = JSON.parse(Buffer.concat(await asked.toArray()).toString('utf8'));
      const own = calls.filter((call) => call.customer === customer);
      // A busy endpoint turns its first call away, and each other one for some seconds from then on.
      const untilMs = isBusy(customer) ? (own[0]?.atMs ?? Infinity) + REST_MS : 0;
      const status = Date.now() < untilMs ? 429 : 200;
      calls.push({ customer, atMs: Date.now(), status });
      const headers = { 'retry-after': String(REST_MS / 1_000), 'fairlead-limit-key': 'own' };
      answer.writeHead(status, status === 429 ? headers : {}).end();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    vi.stubEnv('FORWARD_URL', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const limited = resolveConfiguration({
      types: { webhook: { limits: ['calls'], retry: { maxAttempts: 1 } } },
      limits: { calls: { perKey: 2, rate: { perKey: 100, per: '10s' } } },
      fleets: { boxes: { types: ['webhook'] } },
    });
    const on = await processStage(limited, 'boxes');
    try {
      on.start('forwarding-process.ts', 'first');
      on.start('forwarding-process.ts', 'second');
      const ids = await Promise.all(
        customers.flatMap((customer) =>
          Array.from({ length: 3 }, () => put(on, { customer }, { type: 'webhook', fairnessKey: customer })),
        ),
      );
      await on.dispatchUntil(ids, (jobs) => jobs.every(({ state }) => state === 'succeeded'));
      const jobs = await Promise.all(ids.map((id) => read(on, id)));
      expect(new Set(jobs.map(({ attempt }) => attempt))).toEqual(new Set([1]));
      for (const customer of customers) {
        const own = calls.filter((call) => call.customer === customer);
        const [first] = own;
        const turnedAway = own.filter(({ status }) => status === 429);
        expect(own.length - turnedAway.length).toBe(3);
        // As many as may run at once were under way, and none began while the customer rested.
        expect(turnedAway.length).toBeLessThanOrEqual(isBusy(customer) ? 2 : 0);
        if (isBusy(customer)) expect(turnedAway.length).toBeGreaterThan(0);
        const later = own.filter(({ status }) => status === 200).map(({ atMs }) => atMs);
        if (isBusy(customer)) expect(Math.min(...later)).toBeGreaterThanOrEqual((first?.atMs ?? 0) + REST_MS);
      }
    } finally {
      server.closeAllConnections();
      server.close();
      await on.drop();
    }
  });
});

describe('a server in Python', () => {
  it('is killed and starts again: its jobs are tried again, and each ends once', {
    timeout: TEST_MS,
  }, async () => {
    const first = await serverIn('python');
    vi.stubEnv('FORWARD_URL', first.url);
    const on = await processStage(configuration, 'boxes');
    let server = first;
    try {
      on.start('forwarding-process.ts', 'worker');
      const before = await put(on, { key: 'a' });
      await on.dispatchUntil([before], ([job]) => job?.state === 'succeeded');
      await first.kill();
      const after = await put(on, { key: 'b' });
      const refused = await put(on, {});
      const restarting = serverIn('python', Number(new URL(first.url).port));
      await on.dispatchUntil([after, refused], (jobs) =>
        jobs.every(({ state }) => state === 'succeeded' || state === 'failed'),
      );
      server = await restarting;
      expect(await read(on, before)).toMatchObject({ result: { key: 'a', attempt: 1 } });
      expect(await read(on, after)).toMatchObject({ state: 'succeeded', result: { key: 'b' } });
      expect(await read(on, refused)).toMatchObject({ state: 'failed', error: { name: 'PermanentError' } });
    } finally {
      await server.kill();
      await on.drop();
    }
  });
});
