/** How long a worker process trusts its own lease. */

import { describe, expect, it } from 'vitest';
import { RefusedError, UnavailableError } from '../../lib/core/errors.ts';
import { CLOCK_SKEW_MAX_MS } from '../../lib/core/lease.ts';
import type { Clock } from '../../lib/runtime/contract.ts';
import type { WorkerRecord } from '../../lib/store/contract/records.ts';
import type { JobStore, RequestOf } from '../../lib/store/contract/verbs.ts';
import {
  LEASE_MARGIN_MS,
  type MembershipOptions,
  registerInPartitions,
  type WorkerMembership,
} from '../../lib/worker/membership.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';

const HEARTBEAT_MS = 5_000;
const LEASE_MS = 15_000;
const SLOW_MS = 6_000;
const STEP_MS = 100;

/** Joins partitions with a clock that may differ from the time, and a store whose verbs are replaced. */
async function joined(
  on: Stage,
  partitions: readonly number[],
  {
    clock = on.clock,
    verbs = {},
    ...own
  }: { readonly verbs?: Partial<JobStore> } & Partial<MembershipOptions> = {},
): Promise<WorkerMembership> {
  const membership = await on.finish(
    registerInPartitions({
      store: storeWith(on.store, verbs),
      clock,
      log: on.log,
      life: { workerId: 'w', incarnation: '0001' },
      fleet: 'images',
      partitions,
      slotsOf: () => 1,
      isEnding: () => false,
      occupantsOf: () => [],
      heartbeatMs: HEARTBEAT_MS,
      leaseMs: LEASE_MS,
      onLost: () => {},
      signal: new AbortController().signal,
      ...own,
    }),
  );
  if (typeof membership === 'string') throw new Error(`the worker is ${membership}`);
  return membership;
}

describe('the trust in a lease', () => {
  it.each([
    ['its registration', 0],
    ['its first heartbeat', 1],
    ['its second heartbeat', 2],
  ])('counts from before %s was sent, however late the answer', async (_, last) => {
    const on = stage();
    /** When the last request that the store has carried out was sent. */
    let sentMs = Number.NaN;
    let requests = 0;
    const slow =
      <Question extends readonly unknown[], Answer>(verb: (...question: Question) => Promise<Answer>) =>
      async (...question: Question): Promise<Answer> => {
        requests += 1;
        if (requests > last + 1) return new Promise<never>(() => {});
        sentMs = on.time.nowMs;
        const answer = await verb(...question);
        if (requests === last + 1) await on.clock.sleep(SLOW_MS);
        return answer;
      };
    const membership = await joined(on, [0], {
      verbs: {
        registerWorker: slow((asked: RequestOf<'registerWorker'>) => on.store.registerWorker(asked)),
        heartbeat: slow((asked: RequestOf<'heartbeat'>) => on.store.heartbeat(asked)),
      },
    });
    while (membership.isTrusted()) await on.advance(STEP_MS);
    expect(requests).toBeGreaterThan(last);
    expect(on.time.nowMs).toBe(sentMs + LEASE_MS - LEASE_MARGIN_MS);
    // Nobody, whatever their clock, has seen its record expired by then.
    const { expiresAtMs = 0 } = on.store.inspect(0).workers.get('w') ?? {};
    expect(on.time.nowMs + CLOCK_SKEW_MAX_MS).toBeLessThanOrEqual(expiresAtMs - LEASE_MARGIN_MS);
    membership.abandon();
  });

  it.each([
    ['its wall clock stands still', { wall: 0, monotonic: 1 }],
    ['its monotonic clock stands still', { wall: 1, monotonic: 0 }],
  ])('ends with the partition that has answered least lately, also where %s', async (_, speed) => {
    const on = stage();
    const startMs = on.time.nowMs;
    const clock: Clock = {
      ...on.clock,
      nowMs: () => startMs + (on.time.nowMs - startMs) * speed.wall,
      monotonicMs: () => (on.time.nowMs - startMs) * speed.monotonic,
    };
    const verbs: Partial<JobStore> = {
      heartbeat: ({ partition, record }) =>
        partition === 0 ? on.store.heartbeat({ partition, record }) : new Promise<never>(() => {}),
    };
    const membership = await joined(on, [0, 1], { clock, verbs });
    while (membership.isTrusted()) {
      await on.advance(STEP_MS);
      expect(on.time.nowMs - startMs).toBeLessThanOrEqual(LEASE_MS);
    }
    expect(on.time.nowMs).toBe(startMs + LEASE_MS - LEASE_MARGIN_MS);
    membership.abandon();
  });

  it('is not taken from a registration that was repeated, whose record may be that of the first try', async () => {
    const on = stage();
    let tries = 0;
    const membership = await joined(on, [0], {
      verbs: {
        registerWorker: async ({ partition, record }) => {
          tries += 1;
          const applied = await on.store.registerWorker({ partition, record });
          if (tries > 1) return applied;
          await on.clock.sleep(SLOW_MS);
          throw new UnavailableError('no answer');
        },
      },
    });
    expect(tries).toBe(2);
    const { expiresAtMs = 0 } = on.store.inspect(0).workers.get('w') ?? {};
    expect(expiresAtMs - CLOCK_SKEW_MAX_MS - on.time.nowMs).toBeGreaterThanOrEqual(
      LEASE_MS - membership.ageMs(),
    );
    membership.abandon();
  });
});

describe('a lease in a store that answers slowly', () => {
  /** A worker whose heartbeats are carried out at once, and answered when `answer` says so. */
  const beating = async (on: Stage, answer: () => Promise<void>) => {
    const sent: WorkerRecord[] = [];
    const heartbeat: JobStore['heartbeat'] = async (asked) => {
      sent.push(asked.record);
      const applied = await on.store.heartbeat(asked);
      await answer();
      return applied;
    };
    const membership = await joined(on, [0], { verbs: { heartbeat } });
    const recordNow = (): WorkerRecord => {
      const record = on.store.inspect(0).workers.get('w');
      if (record === undefined) throw new Error('no record');
      return record;
    };
    return { membership, sent, recordNow };
  };
  /** How long the record counts without another heartbeat. */
  const leaseIn = ({ expiresAtMs, heardAtMs = Number.NaN }: WorkerRecord): number =>
    expiresAtMs - heardAtMs - CLOCK_SKEW_MAX_MS;

  it('is lengthened before it is over, and short again when the store is fast', async () => {
    const on = stage();
    let answerMs = 5_500;
    const { membership, recordNow } = await beating(on, () => on.clock.sleep(answerMs));
    const untilMs = on.time.nowMs + 300_000;
    for (let fast = false; on.time.nowMs < untilMs + 120_000; ) {
      await on.advance(STEP_MS);
      // Nobody sees it gone that trusts itself, and it always does.
      expect(membership.isTrusted()).toBe(true);
      const trustedForMs = LEASE_MS - LEASE_MARGIN_MS - membership.ageMs();
      expect(on.time.nowMs + trustedForMs + LEASE_MARGIN_MS).toBeLessThanOrEqual(
        recordNow().expiresAtMs - CLOCK_SKEW_MAX_MS,
      );
      expect(leaseIn(recordNow())).toBeLessThanOrEqual(2 * LEASE_MS);
      if (fast || on.time.nowMs < untilMs) continue;
      expect(leaseIn(recordNow())).toBeGreaterThan(LEASE_MS + 5_500);
      fast = true;
      answerMs = 0;
    }
    expect(leaseIn(recordNow())).toBe(LEASE_MS);
    membership.abandon();
  });

  it('is longer in the heartbeat that gets through behind others that were not answered', async () => {
    const on = stage();
    let refused = 5;
    const { membership, sent } = await beating(on, async () => {
      refused -= 1;
      if (refused >= 0) throw new UnavailableError('no answer');
    });
    await on.advance(HEARTBEAT_MS + 5_000);
    expect(sent.slice(0, 6).map(leaseIn)).toEqual([15_000, 17_000, 19_000, 21_000, 23_000, 25_000]);
    membership.abandon();
  });

  it('is not touched by what a store takes every day, nor is the time between heartbeats', async () => {
    const on = stage();
    const { membership, sent } = await beating(on, () => on.clock.sleep(900));
    await on.advance(60_000);
    expect(new Set(sent.map(leaseIn))).toEqual(new Set([LEASE_MS]));
    const gaps = sent.slice(1).map(({ heardAtMs = 0 }, at) => heardAtMs - (sent[at]?.heardAtMs ?? 0));
    expect(new Set(gaps)).toEqual(new Set([HEARTBEAT_MS + 900]));
    membership.abandon();
  });

  it('writes what a heartbeat says also while it becomes shorter', async () => {
    const on = stage();
    let answerMs = 5_000;
    const { membership, sent, recordNow } = await beating(on, () => on.clock.sleep(answerMs));
    await on.advance(60_000);
    answerMs = 0;
    const before = sent.length;
    for (let step = 0; step < 300; step += 1) {
      await on.advance(STEP_MS);
      expect(recordNow().heardAtMs).toBe(sent.at(-1)?.heardAtMs);
    }
    expect(sent.length).toBeGreaterThan(before + 3);
    membership.abandon();
  });
});

describe('a partition that a worker comes to later', () => {
  it('is registered in once, without slots of its own, and the ones that it has are not registered in again', async () => {
    const on = stage();
    const registered: number[] = [];
    const membership = await joined(on, [0], {
      slotsOf: (partition) => (partition === 0 ? 2 : 0),
      verbs: {
        registerWorker: (request) => {
          registered.push(request.partition);
          return on.store.registerWorker(request);
        },
      },
    });
    const served = await on.finish(Promise.all([3, 3, 0].map((partition) => membership.serve(partition))));
    expect(served).toEqual([true, true, true]);
    expect(await on.finish(membership.serve(3))).toBe(true);
    expect(registered).toEqual([0, 3]);
    expect(on.store.inspect(3).workers.get('w')?.slots).toBe(0);
    membership.abandon();
  });

  it('is tried again where it could not be registered in', async () => {
    const on = stage();
    let isRefused = true;
    const membership = await joined(on, [0], {
      verbs: {
        registerWorker: async (request) => {
          if (request.partition === 3 && isRefused) throw new RefusedError('not now');
          return on.store.registerWorker(request);
        },
      },
    });
    expect(await on.finish(membership.serve(3))).toBe(false);
    isRefused = false;
    expect(await on.finish(membership.serve(3))).toBe(true);
    membership.abandon();
  });

  it('is not served where a later life of the worker is there', async () => {
    const on = stage();
    const membership = await joined(on, [0]);
    const later = aWorkerRecord({
      workerId: 'w',
      incarnation: '0002',
      expiresAtMs: on.time.nowMs + LEASE_MS,
    });
    await on.store.registerWorker({ partition: 3, record: later });
    expect(await on.finish(membership.serve(3))).toBe(false);
    membership.abandon();
  });

  it('is not served where the worker ended before the answer came', async () => {
    const on = stage();
    const membership = await joined(on, [0], {
      verbs: {
        registerWorker: async (request) => {
          if (request.partition === 3) await on.clock.sleep(SLOW_MS);
          return on.store.registerWorker(request);
        },
      },
    });
    const serving = membership.serve(3);
    membership.abandon();
    expect(await on.finish(serving)).toBe(false);
  });

  it('is let go: its lease ends, the others go on, and it is served again by a record that counts', async () => {
    const on = stage();
    const membership = await joined(on, [0]);
    const record = () => on.store.inspect(3).workers.get('w');
    expect(await on.finish(membership.serve(3))).toBe(true);
    await on.advance(2 * LEASE_MS);
    membership.leavePartition(3);
    const before = record()?.expiresAtMs ?? 0;
    await on.advance(4 * LEASE_MS);
    expect(record()?.expiresAtMs).toBe(before);
    expect(before).toBeLessThan(on.time.nowMs);
    expect(membership.isTrusted()).toBe(true);
    expect(await on.finish(membership.serve(3))).toBe(true);
    const leaseMs = (record()?.expiresAtMs ?? 0) - CLOCK_SKEW_MAX_MS - on.time.nowMs;
    expect(leaseMs).toBeGreaterThanOrEqual(LEASE_MS - membership.ageMs());
    await on.advance(4 * LEASE_MS);
    expect(record()?.expiresAtMs).toBeGreaterThan(on.time.nowMs);
    await on.finish(membership.leave());
    expect([0, 3].map((partition) => on.store.inspect(partition).workers.size)).toEqual([0, 0]);
  });

  it('may be one that it began with', async () => {
    const on = stage();
    const membership = await joined(on, [0, 1]);
    membership.leavePartition(1);
    await on.advance(4 * LEASE_MS);
    expect(on.store.inspect(1).workers.get('w')?.expiresAtMs).toBeLessThan(on.time.nowMs);
    expect(membership.isTrusted()).toBe(true);
    membership.abandon();
  });

  it('is not trusted by the record of a registration whose answers got lost', async () => {
    const on = stage();
    let isAnswered = false;
    const membership = await joined(on, [0], {
      verbs: {
        registerWorker: async (request) => {
          const applied = await on.store.registerWorker(request);
          if (request.partition === 3 && !isAnswered) throw new RefusedError('read as a refusal');
          return applied;
        },
      },
    });
    expect(await on.finish(membership.serve(3))).toBe(false);
    await on.advance(2 * LEASE_MS);
    isAnswered = true;
    expect(await on.finish(membership.serve(3))).toBe(true);
    expect(on.store.inspect(3).workers.get('w')?.expiresAtMs).toBeGreaterThan(on.time.nowMs + LEASE_MS);
    membership.abandon();
  });

  it('keeps its lease as the others do, and ends the trust where it is not renewed', async () => {
    const on = stage();
    let isAnswered = true;
    const membership = await joined(on, [0], {
      verbs: {
        heartbeat: (request) =>
          request.partition === 0 || isAnswered ? on.store.heartbeat(request) : new Promise<never>(() => {}),
      },
    });
    expect(await on.finish(membership.serve(3))).toBe(true);
    await on.advance(10 * LEASE_MS);
    expect(membership.isTrusted()).toBe(true);
    expect(on.store.inspect(3).workers.get('w')?.expiresAtMs).toBeGreaterThan(on.time.nowMs);
    isAnswered = false;
    await on.advance(LEASE_MS);
    expect(membership.isTrusted()).toBe(false);
    membership.abandon();
  });
});

describe('a worker that leaves', () => {
  it('sends no heartbeat any more, and has lost nothing', async () => {
    const on = stage();
    const lost: string[] = [];
    let beats = 0;
    const membership = await joined(on, [0], {
      onLost: (loss) => void lost.push(loss),
      verbs: {
        heartbeat: (request) => {
          beats += 1;
          return on.store.heartbeat(request);
        },
      },
    });
    await on.finish(membership.serve(3));
    await on.finish(membership.leave());
    expect([0, 3].map((partition) => on.store.inspect(partition).workers.size)).toEqual([0, 0]);
    const before = beats;
    await on.advance(2 * LEASE_MS);
    expect({ beats, lost }).toEqual({ beats: before, lost: [] });
  });
});

describe('a worker that joins several partitions', () => {
  it('is told to be renewed once all have answered, not before', async () => {
    const on = stage();
    let registered = 0;
    const seen: number[] = [];
    const membership = await joined(on, [0, 1], {
      onRenewed: () => void seen.push(registered),
      verbs: {
        registerWorker: async (request) => {
          if (request.partition === 1) await on.clock.sleep(SLOW_MS);
          registered += 1;
          return on.store.registerWorker(request);
        },
      },
    });
    expect(seen).toEqual([2]);
    membership.abandon();
  });
});
