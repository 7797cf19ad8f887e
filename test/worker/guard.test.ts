/** What a guard beside the handlers' thread does: virtual processes whose one thread can be busy, and whose machine can sleep. */

import { describe, expect, it } from 'vitest';
import { UnavailableError } from '../../lib/core/errors.ts';
import { historyOf } from '../../lib/core/history.ts';
import type { Job } from '../../lib/core/job.ts';
import type { JobTypeInput } from '../../lib/core/pool-input.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import type { Clock } from '../../lib/runtime/contract.ts';
import { instantOf } from '../../lib/runtime/instant.ts';
import { type Guard, guardInSameThread, KILL_AFTER_MS, SILENCE_MAX_MS } from '../../lib/worker/guard.ts';
import { LEASE_MARGIN_MS } from '../../lib/worker/membership.ts';
import type { WorkerReport } from '../../lib/worker/process/options.ts';
import { runWorker } from '../../lib/worker/process/process.ts';
import { type JobHandler, STOP_GRACE_MS } from '../../lib/worker/run-job.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { type Stage, stage } from '../stage/stage.ts';

const LEASE_MS = 15_000;
const LOOK_EVERY_MS = 500;
const TICK_MS = 5_000;

function setting(type: JobTypeInput = {}): Stage {
  const on = stage({
    pool: {
      types: {
        resize: {
          timeoutMs: 600_000,
          conflictGroup: 'album',
          maxConcurrency: 1,
          retry: { jitter: 'none' },
          ...type,
        },
      },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'] } },
    },
    budget: { checkAfterMs: 10_000 },
  });
  const dispatch = (jobs: readonly Job[], reason: 'stream' | 'wake' | 'tick'): void => {
    void dispatchAll(on.dispatcher(), { jobs, reason });
  };
  on.store.subscribe(({ newJob }) => {
    if (newJob.state !== 'claimed' && newJob.state !== 'running') dispatch([newJob], 'stream');
  });
  on.queue.onWake(() => dispatch([], 'wake'));
  const tick = (): void => {
    dispatch([], 'tick');
    on.time.after(TICK_MS, tick);
  };
  tick();
  return on;
}

interface Process {
  /** Keeps its thread from doing anything else for so long. */
  readonly block: (ms: number) => Promise<void>;
  /** Suspends its machine: both threads stop, and the monotonic clock stands still. */
  readonly suspend: (ms: number) => void;
  readonly cutOff: () => void;
  /** Instants, from the beginning of the test, at which it was killed. */
  readonly killedAtMs: readonly number[];
  readonly ended: () => WorkerReport | undefined;
  readonly stop: () => void;
}

/** A process of two threads: the worker's, which its handlers can block, and its guard's. */
function begin(on: Stage, workerId: string, resize: (self: Process) => JobHandler, slots = 1): Process {
  const fromMs = on.time.nowMs;
  const killedAtMs: number[] = [];
  const shutdown = new AbortController();
  let busyUntilMs = 0;
  let asleepUntilMs = 0;
  let stoodStillMs = 0;
  let isCutOff = false;
  let report: WorkerReport | undefined;

  const untilAwake = async (): Promise<void> => {
    if (killedAtMs.length > 0) await new Promise<never>(() => {});
    while (on.time.nowMs < asleepUntilMs) await on.clock.sleep(asleepUntilMs - on.time.nowMs);
  };
  const untilFree = async (): Promise<void> => {
    await untilAwake();
    while (on.time.nowMs < busyUntilMs) await on.clock.sleep(busyUntilMs - on.time.nowMs);
    await untilAwake();
  };
  const through = <T extends object>(target: T, gate: () => Promise<void>): T =>
    new Proxy(target, {
      get: (given, name) => {
        const verb: unknown = Reflect.get(given, name, given);
        if (typeof verb !== 'function') return verb;
        return async (...question: unknown[]) => {
          await gate();
          if (isCutOff) throw new UnavailableError('no answer');
          const answer: unknown = await verb.apply(given, question);
          await gate();
          return answer;
        };
      },
    });
  const clockOf = (gate: () => Promise<void>): Clock => ({
    nowMs: on.clock.nowMs,
    monotonicMs: () => on.clock.monotonicMs() - stoodStillMs,
    sleep: async (ms, signal) => {
      await on.clock.sleep(ms, signal);
      await gate();
    },
  });
  const { configuration, random, log } = on;
  const kill = (): void => {
    if (killedAtMs.length === 0) killedAtMs.push(on.time.nowMs - fromMs);
  };
  const self: Process = {
    block: async (ms) => {
      busyUntilMs = on.time.nowMs + ms;
      await on.clock.sleep(ms);
      await untilAwake();
    },
    suspend: (ms) => {
      asleepUntilMs = on.time.nowMs + ms;
      on.time.after(ms, () => {
        stoodStillMs += ms;
      });
    },
    cutOff: () => {
      isCutOff = true;
    },
    killedAtMs,
    ended: () => report,
    stop: () => shutdown.abort(),
  };
  void runWorker({
    store: through(on.store, untilFree),
    queue: through(on.queue, untilFree),
    configuration,
    clock: clockOf(untilFree),
    random,
    log,
    fleet: 'images',
    slots,
    workerId,
    leaseMs: LEASE_MS,
    shutdownMs: 10_000,
    handlers: { resize: resize(self) },
    signal: shutdown.signal,
    exit: kill,
    guard: guardInSameThread({
      store: through(on.store, untilAwake),
      clock: clockOf(untilAwake),
      log,
      kill,
      lookEveryMs: LOOK_EVERY_MS,
    }),
  }).then((ended) => {
    report = ended;
  });
  return self;
}

const jobOf = (on: Stage, { id }: Job): Job | undefined => on.store.inspectJob(id);

describe('a handler that keeps the event loop busy', () => {
  it('keeps its job for longer than a lease, alone with its conflict key, and succeeds', async () => {
    const on = setting();
    const jobs = await on.put(...[1, 2].map(() => on.job({ resourceId: 'a' })));
    const begun: [string, number][] = [];
    let running = 0;
    let most = 0;
    const work =
      (name: string) =>
      (self: Process): JobHandler =>
      async () => {
        begun.push([name, on.time.nowMs - NOW_MS]);
        running += 1;
        most = Math.max(most, running);
        await self.block(60_000);
        running -= 1;
        return name;
      };
    begin(on, 'one', work('one'));
    begin(on, 'two', work('two'));
    await on.advance(130_000);
    expect(most).toBe(1);
    expect(begun).toHaveLength(2);
    for (const job of jobs) expect(jobOf(on, job)).toMatchObject({ state: 'succeeded', workersLost: 0 });
  });

  it('is ended with its process at its timeout, and its job starts again only after that', async () => {
    const timeoutMs = 30_000;
    const on = setting({ timeoutMs });
    const [job] = await on.put(on.job());
    const begun: number[] = [];
    const spins =
      (self: Process): JobHandler =>
      async () => {
        begun.push(on.time.nowMs - NOW_MS);
        await self.block(3_600_000);
        return null;
      };
    const first = begin(on, 'one', spins);
    await on.advance(timeoutMs);
    begin(on, 'two', () => () => {
      begun.push(on.time.nowMs - NOW_MS);
      return null;
    });
    await on.advance(120_000);
    const [killedAtMs = 0] = first.killedAtMs;
    const dueMs = timeoutMs + STOP_GRACE_MS + KILL_AFTER_MS;
    expect(killedAtMs).toBeGreaterThanOrEqual(dueMs);
    expect(killedAtMs).toBeLessThanOrEqual(dueMs + LOOK_EVERY_MS);
    expect(begun).toHaveLength(2);
    expect(begun[1]).toBeGreaterThan(killedAtMs);
    expect(job === undefined ? undefined : jobOf(on, job)).toMatchObject({
      state: 'succeeded',
      attempt: 2,
      workersLost: 0,
    });
    expect(historyOf(jobOf(on, job as Job) as Job).events).toMatchObject([
      {},
      { attempt: 1, outcome: 'failed', error: { name: 'JobTimeout', message: /did not stop/ } },
      { attempt: 2, outcome: 'succeeded' },
    ]);
  });

  it('is ended before the end of a lease that cannot be renewed', async () => {
    const on = setting();
    await on.put(on.job());
    const process = begin(on, 'one', (self) => async () => {
      await self.block(3_600_000);
      return null;
    });
    await on.advance(1_000);
    process.cutOff();
    await on.advance(LEASE_MS * 2);
    const [killedAtMs = 0] = process.killedAtMs;
    // The last heartbeat was answered at once, when the process began.
    expect(killedAtMs).toBeGreaterThan(LEASE_MS - LEASE_MARGIN_MS);
    expect(killedAtMs).toBeLessThan(LEASE_MS);
  });

  it('says how far it is', async () => {
    const on = setting();
    const [job] = await on.put(on.job());
    begin(on, 'one', (self) => async (_, { heartbeat }) => {
      for (let page = 0; page < 30; page += 1) {
        heartbeat({ page });
        await self.block(1_000);
      }
      return null;
    });
    await on.advance(20_500);
    const record = on.store.inspect(0).workers.get('one');
    expect(record?.occupants).toMatchObject([{ jobId: job?.id, progress: { page: 19 } }]);
  });
});

describe('a handler that hangs', () => {
  it('leaves the others their time: the guard waits for the end in order', async () => {
    const on = setting({ timeoutMs: 10_000, maxConcurrency: null });
    await on.put(on.job({ payload: 'hangs' }), on.job());
    const work = (): JobHandler => async (payload) => {
      if (payload === 'hangs') return new Promise<never>(() => {});
      await on.clock.sleep(9_000);
      return null;
    };
    const process = begin(on, 'one', work, 2);
    await on.advance(1_000);
    // It begins before the first one is given up, and ends long after that.
    await on.put(on.job());
    await on.advance(40_000);
    expect(process.ended()).toEqual({ end: 'hung', outcomes: { succeeded: 2 } });
    const [killedAtMs = 0] = process.killedAtMs;
    expect(killedAtMs).toBeGreaterThan(10_000 + STOP_GRACE_MS + KILL_AFTER_MS + LOOK_EVERY_MS);
  });
});

describe('a machine that was suspended', () => {
  it.each([
    ['does no more effects of jobs that others have by now', true],
    ['is ended, if its handlers do not look at their signal', false],
  ])('%s', async (_, looks) => {
    const on = setting();
    const [job] = await on.put(on.job());
    const effects: [string, number][] = [];
    const laptop = begin(on, 'laptop', (self) => async (__, { signal }) => {
      for (let n = 0; n < 200; n += 1) {
        await self.block(500);
        if (looks) signal.throwIfAborted();
        effects.push(['laptop', on.time.nowMs - NOW_MS]);
      }
      return null;
    });
    await on.advance(10_000);
    laptop.suspend(600_000);
    begin(on, 'other', () => () => {
      effects.push(['other', on.time.nowMs - NOW_MS]);
      return 'done by the other';
    });
    await on.advance(700_000);
    const awakeAtMs = 610_000;
    expect(effects.filter(([name]) => name === 'other')).toHaveLength(1);
    const late = effects.filter(([name, atMs]) => name === 'laptop' && atMs > 10_500);
    if (looks) expect(late).toEqual([]);
    // The guard's next look ends the process: all grace is over.
    expect(laptop.killedAtMs).toEqual([expect.toSatisfy((ms: number) => ms <= awakeAtMs + LOOK_EVERY_MS)]);
    expect(job === undefined ? undefined : jobOf(on, job)?.result).toBe('done by the other');
  });
});

describe('a guard', () => {
  async function guarding(
    on: Stage,
    clock: Clock = on.clock,
  ): Promise<{ readonly guard: Guard; readonly kills: readonly string[] }> {
    const kills: string[] = [];
    const { store, log } = on;
    const make = guardInSameThread({ store, clock, log, kill: (reason) => void kills.push(reason) });
    const guarded = {
      life: { workerId: 'one', incarnation: '1' },
      fleet: 'images',
      shares: new Map([[0, 2]]),
      heartbeatMs: 5_000,
      leaseMs: LEASE_MS,
    };
    const guard = await make(guarded, { onLost: () => {}, signal: new AbortController().signal });
    if (typeof guard === 'string') throw new Error(guard);
    return { guard, kills };
  }

  it('ends a process whose thread is silent between its handlers, and leaves one that runs any alone', async () => {
    const on = setting();
    const { guard, kills } = await guarding(on);
    await on.advance(SILENCE_MAX_MS - 1_000);
    guard.tell({ kind: 'alive' });
    await on.advance(SILENCE_MAX_MS - 1_000);
    guard.tell({
      kind: 'began',
      claimId: '1-1.0',
      jobId: 'a',
      partition: 0,
      since: instantOf(on.clock),
      endsInMs: 3 * SILENCE_MAX_MS,
    });
    await on.advance(2 * SILENCE_MAX_MS);
    expect(kills).toEqual([]);
    guard.tell({ kind: 'handled', claimId: '1-1.0' });
    await on.advance(SILENCE_MAX_MS - 1_000);
    expect(kills).toEqual([]);
    await on.advance(2_000);
    expect(kills).toMatchObject([expect.stringContaining('outside of any handler')]);
  });

  it('goes on renewing the lease until the process is really gone', async () => {
    const on = setting();
    const { guard, kills } = await guarding(on);
    const since = instantOf(on.clock);
    guard.tell({ kind: 'began', claimId: '1-1.0', jobId: 'a', partition: 0, since, endsInMs: 10_000 });
    await on.advance(120_000);
    // As where the kernel spares the first process of a container.
    expect(kills).toHaveLength(1);
    expect(guard.isTrusted()).toBe(true);
    expect(on.store.inspect(0).workers.get('one')?.expiresAtMs).toBeGreaterThan(on.time.nowMs);
  });

  it('renews no lease that is over, though nobody has looked since', async () => {
    const on = setting();
    let setForwardMs = 0;
    const clock = { ...on.clock, nowMs: () => on.clock.nowMs() + setForwardMs };
    const { guard } = await guarding(on, clock);
    const expiresAtMs = () => on.store.inspect(0).workers.get('one')?.expiresAtMs;
    const before = expiresAtMs();
    // The guard has looked at 4 s, and does so again at 6 s; the heartbeat is due at 5 s.
    await on.advance(4_900);
    setForwardMs = 600_000;
    await on.advance(20_000);
    expect(expiresAtMs()).toBe(before);
    expect(guard.isTrusted()).toBe(false);
  });

  it('says with each heartbeat how its process bears its work; a thread that says nothing is late by so much', async () => {
    const on = setting();
    const { guard } = await guarding(on);
    const loadNow = () => on.store.inspect(0).workers.get('one')?.load;
    await on.advance(5_001);
    expect(loadNow()).toBeUndefined();
    const load = { lagMs: 7, memoryMb: 100 };
    guard.tell({ kind: 'load', load, since: instantOf(on.clock), nextInMs: 5_000 });
    await on.advance(5_000);
    expect(loadNow()).toEqual(load);
    await on.advance(10_000);
    expect(loadNow()?.lagMs).toBeGreaterThan(9_000);
    guard.tell({ kind: 'load', load, since: instantOf(on.clock), nextInMs: 5_000 });
    await on.advance(5_000);
    expect(loadNow()).toEqual(load);
  });

  it('lists what runs, until nothing of it is left', async () => {
    const on = setting();
    const { guard } = await guarding(on);
    const since = instantOf(on.clock);
    const occupants = async (): Promise<readonly string[]> => {
      await on.advance(5_001);
      return (
        on.store
          .inspect(0)
          .workers.get('one')
          ?.occupants.map(({ jobId }) => jobId) ?? []
      );
    };
    for (const id of ['a', 'b']) {
      guard.tell({ kind: 'began', claimId: id, jobId: id, partition: 0, since, endsInMs: 60_000 });
    }
    expect(await occupants()).toEqual(['a', 'b']);
    guard.tell({ kind: 'handled', claimId: 'a' });
    expect(await occupants()).toEqual(['a', 'b']);
    guard.tell({ kind: 'over', claimId: 'a' });
    guard.tell({ kind: 'ending' });
    expect(await occupants()).toEqual(['b']);
    expect(on.store.inspect(0).workers.get('one')).toMatchObject({ slots: 1, isEnding: true });
  });
});
