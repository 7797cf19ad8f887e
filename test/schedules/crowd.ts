/**
 * Very many schedules of one minute, on a store each of whose answers takes 10 ms: how many fire at once, how long it takes until
 * all have, and whether other work starts meanwhile.
 */
import { expect } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { dispatch } from '../../lib/dispatch/dispatch.ts';
import type { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { submit } from '../../lib/submit/submit.ts';
import { ROLES } from '../contract/roles.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aSchedule } from '../fixtures/factories/schedule.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';

const ANSWER_MS = 10;
const DAY_MS = 86_400_000;
const DUE_MS = NOW_MS + 60_000;
/** So often somebody submits other work. */
const OTHERS_EVERY_MS = 500;

export interface Crowd {
  /** Jobs that firings have made. */
  readonly made: number;
  /** From the minute until the last of them was made. */
  readonly untilAllMs: number;
  /** The most entries of the due line that were moved within a second. */
  readonly movedInSecond: number;
  /** Passes of the dispatchers meanwhile. */
  readonly passes: number;
  /** From submission to claim, of other work that came meanwhile. */
  readonly othersMs: readonly number[];
  /** The same without any schedule. */
  readonly othersAloneMs: readonly number[];
}

/** A store that takes its time. */
function slow(on: Stage): JobStore {
  const verbs = Object.fromEntries(
    (ROLES.dispatch.verbs as readonly (keyof JobStore)[]).map((verb) => [
      verb,
      async (...given: readonly unknown[]) => {
        await on.clock.sleep(ANSWER_MS);
        return Reflect.apply(on.store[verb] as () => unknown, on.store, given);
      },
    ]),
  ) as Partial<JobStore>;
  return storeWith<JobStore>(on.store, verbs);
}

export async function crowdOf(schedules: number): Promise<Crowd> {
  const busy = await storm(schedules);
  const alone = await storm(0);
  return { ...busy, othersAloneMs: alone.othersMs };
}

async function storm(schedules: number): Promise<Omit<Crowd, 'othersAloneMs'>> {
  const madeAtMs: number[] = [];
  const movedIn = new Map<number, number>();
  const othersMs: number[] = [];
  const on = stage({
    pool: {
      types: { resize: { timeoutMs: 3_600_000 }, other: { timeoutMs: 3_600_000 } },
      fleets: { images: { types: ['resize'], slots: 20 }, others: { types: ['other'], slots: 1_000 } },
    },
    observe: (event) => {
      if (event.kind === 'schedule' && event.before !== undefined) {
        if (event.before.state.dueMs === event.after?.state.dueMs) return;
        const second = Math.floor(on.time.nowMs / 1_000);
        movedIn.set(second, (movedIn.get(second) ?? 0) + 1);
      }
      if (event.kind !== 'job') return;
      const { newJob, oldJob } = event;
      if (oldJob === undefined && newJob.scheduleId !== undefined) madeAtMs.push(on.time.nowMs);
    },
  });
  const told = new Set<string>();
  const send: MemoryJobQueue['send'] = (fleet, messages, together) => {
    for (const { jobId } of messages) {
      const job = on.store.inspectJob(jobId);
      if (job?.type === 'other' && !told.has(jobId)) othersMs.push(on.time.nowMs - job.submittedAtMs);
      told.add(jobId);
    }
    return on.queue.send(fleet, messages, together);
  };
  for (let at = 0; at < schedules; at += 1)
    await on.store.putSchedule({
      record: aSchedule(
        { id: `s-${at}`, dueMs: DUE_MS, nextMs: DUE_MS, anchorMs: DUE_MS - DAY_MS },
        // Late ones are made up for, and none fires again meanwhile.
        { when: { kind: 'every', everyMs: DAY_MS } },
      ),
      afterRevision: 0,
    });
  await on.advance(DUE_MS - on.time.nowMs);
  const store = slow(on);
  const queue = storeWith(on.queue, { send });
  let passes = 0;
  const going: Promise<unknown>[] = [];
  /** One invocation of the dispatch function. */
  const invoke = (jobs: readonly Job[], reason: 'tick' | 'stream' | 'wake'): void => {
    const run = dispatch(on.dispatcher({ store, queue }), 0, { jobs, reason });
    going.push(
      run.then((report) => {
        passes += report.passes;
      }),
    );
  };
  // As the queue delivers them.
  on.queue.onWake(() => invoke([], 'wake'));
  invoke([], 'tick');
  let submitted = 0;
  for (let step = 1; madeAtMs.length < schedules || submitted < 8; step += 1) {
    const job = on.job({ type: 'other', fairnessKey: 'somebody' });
    await submit(on.submitter(), [job]);
    submitted += 1;
    invoke([job], 'stream');
    await on.advance(OTHERS_EVERY_MS);
    // Whoever is told of them starts them.
    await on.startEverywhere();
    if (step % (60_000 / OTHERS_EVERY_MS) === 0) invoke([], 'tick');
    if (step > 20_000) throw new Error(`only ${madeAtMs.length} of ${schedules} have fired`);
  }
  await on.finish(Promise.all(going));
  expect(othersMs).toHaveLength(submitted);
  return {
    made: madeAtMs.length,
    untilAllMs: (madeAtMs.at(-1) ?? DUE_MS) - DUE_MS,
    movedInSecond: Math.max(0, ...movedIn.values()),
    passes,
    othersMs,
  };
}

/** What a key of the index takes in a second, at two write units for each entry that moves. */
const MOVES_MAX = 500;
const FIRINGS_MIN = 350;
const OTHERS_MS_MAX = 1_500;

/** What docs/schedules.md says of them. */
export async function expectCrowd(schedules: number): Promise<Crowd> {
  const crowd = await crowdOf(schedules);
  expect(crowd.made).toBe(schedules);
  expect(crowd.movedInSecond).toBeLessThanOrEqual(MOVES_MAX);
  expect(crowd.untilAllMs).toBeLessThanOrEqual((schedules / FIRINGS_MIN) * 1_000);
  expect(Math.max(...crowd.othersMs)).toBeLessThanOrEqual(OTHERS_MS_MAX);
  return crowd;
}
