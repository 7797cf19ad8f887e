/**
 * Something happens, and whoever comes with it finds the lease held: before and after each call that a pass makes to the store, one at
 * a time. What may start by then does so within a second, without a tick.
 */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { type DispatchReport, dispatch, dispatchAll, type Trigger } from '../../lib/dispatch/dispatch.ts';
import { retimeJob } from '../../lib/dispatch/retime.ts';
import { triggersOf } from '../../lib/dispatch/woken.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { aSchedule } from '../fixtures/factories/schedule.ts';
import { type Stage, type Started, stage } from './stage.ts';

const SLOTS = 4;
const SOON_MS = 1_000;
/** More calls than any of these passes makes. */
const CALLS_MAX = 60;

interface World {
  readonly on: Stage;
  /** Slots are free, or all of these run and jobs wait. */
  readonly running: Started[];
  readonly waiting: readonly Job[];
}

async function world(isFull: boolean): Promise<World> {
  const on = stage({
    pool: {
      types: { resize: { defaultCostMs: 1_000, timeoutMs: 600_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: isFull ? SLOTS : 60 } },
    },
  });
  on.queue.onWake((partition, dueAtMs, jobIds) => {
    const [trigger] = triggersOf([{ partition, asks: 'pass', dueAtMs, jobIds }]);
    if (trigger !== undefined) void dispatchAll(on.dispatcher(), trigger);
  });
  const first = await on.put(...Array.from({ length: isFull ? SLOTS : 1 }, () => on.job()));
  await on.pass({ jobs: first, reason: 'ingest' });
  const running = [...(await on.startEverywhere())];
  const waiting = isFull ? await on.put(...Array.from({ length: 3 }, () => on.job())) : [];
  if (isFull) await on.pass({ jobs: waiting, reason: 'stream' });
  return { on, running, waiting };
}

/** What comes, with whoever tells of it; answers what must start by it. */
type Event = (world: World) => Promise<readonly string[]>;

const comes = (on: Stage, trigger: Trigger): Promise<DispatchReport> => dispatch(on.dispatcher(), 0, trigger);

const stored = async (on: Stage, changes: Partial<Job> = {}): Promise<Job> => {
  const job = on.job({ fairnessKey: 'late', ...changes });
  await on.put(job);
  return job;
};

const EVENTS: Readonly<Record<string, Event>> = {
  'a job by name': async ({ on }) => {
    const job = await stored(on);
    await comes(on, { jobs: [job], reason: 'ingest' });
    return [job.id];
  },
  'a due job by name': async ({ on }) => {
    const atMs = on.time.nowMs - 5;
    const job = await stored(on, { state: 'scheduled', runAtMs: atMs, readyAtMs: atMs });
    await comes(on, { jobs: [job], reason: 'ingest' });
    return [job.id];
  },
  'more jobs than can be named': async ({ on }) => {
    const jobs = await on.put(...Array.from({ length: 18 }, () => on.job({ fairnessKey: 'late' })));
    await comes(on, { jobs, reason: 'ingest' });
    return jobs.map(({ id }) => id);
  },
  'a job, by a wake': async ({ on }) => {
    const job = await stored(on);
    await comes(on, { jobs: [], reason: 'wake' });
    return [job.id];
  },
  'a job that is due, by a wake for that': async ({ on }) => {
    const atMs = on.time.nowMs - 5;
    const job = await stored(on, { state: 'scheduled', runAtMs: atMs, readyAtMs: atMs });
    await comes(on, { jobs: [], reason: 'wake', dueAtMs: atMs, isForDue: true });
    return [job.id];
  },
  'a job that was moved to now': async ({ on }) => {
    const atMs = on.time.nowMs + 300_000;
    const job = await stored(on, { state: 'scheduled', runAtMs: atMs, readyAtMs: atMs });
    await retimeJob({ ...on.submitter(), queue: on.queue }, job.id, on.time.nowMs);
    return [job.id];
  },
  'a job that was told of, moved away, and back': async ({ on }) => {
    const job = await stored(on);
    await comes(on, { jobs: [job], reason: 'ingest' });
    if (on.stateOf(job.id) !== 'pending') return [job.id];
    const desk = { ...on.submitter(), queue: on.queue };
    await retimeJob(desk, job.id, on.time.nowMs + 100_000);
    await retimeJob(desk, job.id, on.time.nowMs);
    return [job.id];
  },
  'a schedule that is due': async ({ on }) => {
    const dueMs = on.time.nowMs;
    const madeMs = dueMs - 60_000;
    const times = { anchorMs: madeMs, dealtMs: madeMs, nextMs: dueMs, dueMs };
    await on.store.putSchedule({ record: aSchedule({ id: 'late', ...times }), seen: 0 });
    await comes(on, { jobs: [], reason: 'wake', dueAtMs: dueMs, isForDue: true });
    return ['late'];
  },
};

const ENDS: Readonly<Record<string, Event>> = {
  'an end by name': async ({ on, running }) => {
    const started = running.shift();
    if (started !== undefined) await comes(on, { jobs: [await on.end(started)], reason: 'stream' });
    return [];
  },
  'an end, by a wake': async ({ on, running }) => {
    const started = running.shift();
    if (started !== undefined) await on.end(started);
    await comes(on, { jobs: [], reason: 'wake' });
    return [];
  },
  'an end with a cancelled job ahead': async ({ on, running, waiting }) => {
    const started = running.shift();
    const [ahead] = waiting;
    if (started === undefined || ahead === undefined) return [];
    const ended = await on.end(started);
    const nowMs = on.time.nowMs;
    const cancelled = await on.store.cancelJob({ jobId: ahead.id, nowMs, expiresAtMs: nowMs + 3_600_000 });
    const images = cancelled.kind === 'cancelled' ? [cancelled.job] : [];
    await comes(on, { jobs: [ended, ...images], reason: 'stream' });
    return [];
  },
};

const PASSES: Readonly<Record<string, (on: Stage) => Promise<Trigger>>> = {
  'of a tick': async () => ({ jobs: [], reason: 'tick' }),
  'of a wake': async () => ({ jobs: [], reason: 'wake' }),
  'of the stream': async (on) => ({ jobs: [await stored(on, { fairnessKey: 'first' })], reason: 'stream' }),
  'of an ingest': async (on) => ({ jobs: [await stored(on, { fairnessKey: 'first' })], reason: 'ingest' }),
  'of a client': async (on) => {
    const { id } = await stored(on, { fairnessKey: 'first' });
    return { jobs: [], reason: 'told', partitions: [0], jobIds: [id] };
  },
};

interface Outcome {
  readonly calls: number;
  readonly left: string | undefined;
}

/** Plays a pass, and lets the event happen before or after the call of this number. */
async function play(
  isFull: boolean,
  begin: (on: Stage) => Promise<Trigger>,
  at: number,
  isAfter: boolean,
  event: Event,
): Promise<Outcome> {
  const scene = await world(isFull);
  const { on, waiting } = scene;
  const trigger = await begin(on);
  let calls = 0;
  let expected: readonly string[] = [];
  const happens = async (): Promise<void> => {
    expected = await event(scene);
  };
  const store = new Proxy<JobStore>(on.store, {
    get: (target, name) => {
      const verb: unknown = Reflect.get(target, name, target);
      if (typeof verb !== 'function') return verb;
      if (String(name).startsWith('inspect')) return verb.bind(target);
      return async (...request: unknown[]) => {
        const call = calls;
        calls += 1;
        if (call === at && !isAfter) await happens();
        const answer: unknown = await Reflect.apply(verb, target, request);
        if (call === at && isAfter) await happens();
        return answer;
      };
    },
  });
  await on.finish(dispatchAll({ ...on.main, store }, trigger));
  await on.advance(SOON_MS);
  return { calls, left: isFull ? leftFree(on, waiting) : notStarted(on, expected) };
}

/** Jobs that wait though a slot is free. */
function leftFree(on: Stage, waiting: readonly Job[]): string | undefined {
  const held = on.held().length;
  expect(held).toBeLessThanOrEqual(SLOTS);
  const pending = on.states(waiting).filter((state) => state === 'pending').length;
  return held < SLOTS && pending > 0 ? `${SLOTS - held} slots free, ${pending} wait` : undefined;
}

function notStarted(on: Stage, expected: readonly string[]): string | undefined {
  const left = expected.filter((id) => {
    const schedule = on.store.inspectSchedule(id);
    return schedule === undefined
      ? on.stateOf(id) !== 'claimed'
      : schedule.state.history?.[0]?.what !== 'made';
  });
  return left.length === 0 ? undefined : `${left.length} of ${expected.length} not started`;
}

const cases = [EVENTS, ENDS].flatMap((events, kind) =>
  Object.keys(PASSES).flatMap((pass) =>
    Object.entries(events).map(([name, event]) => ({ pass, name, event, isFull: kind === 1 })),
  ),
);

describe('within a pass', () => {
  it.each(cases)('$pass, $name is heard at each step', async ({ pass, event, isFull }) => {
    const begin = PASSES[pass] as (on: Stage) => Promise<Trigger>;
    const left: string[] = [];
    let calls = CALLS_MAX;
    for (let at = 0; at < calls; at += 1)
      for (const isAfter of [false, true]) {
        const outcome = await play(isFull, begin, at, isAfter, event);
        if (at === 0) calls = Math.min(CALLS_MAX, outcome.calls + 2);
        if (outcome.left !== undefined)
          left.push(`${isAfter ? 'after' : 'before'} call ${at}: ${outcome.left}`);
      }
    expect(calls).toBeGreaterThan(4);
    expect(left).toEqual([]);
  });
});
