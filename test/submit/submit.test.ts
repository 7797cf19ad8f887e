/** Submitting: the dispatcher knows of a line before a job stands in it, and is told again only after a while. */

import { describe, expect, it } from 'vitest';
import { ThrottledError } from '../../lib/core/errors.ts';
import type { Job } from '../../lib/core/job.ts';
import { redriveJob } from '../../lib/operate/redrive.ts';
import { retimeJob } from '../../lib/operate/retime.ts';
import type { JobStore, RequestOf } from '../../lib/store/contract/verbs.ts';
import { ANNOUNCE_EVERY_MS, announceLinesOf, submit, tierOf } from '../../lib/submit/submit.ts';
import { FAILED, type Stage, stage, storeWith } from '../stage/stage.ts';

/** Notes the verbs and what lines they were asked for. */
function watched(on: Stage): { readonly store: JobStore; readonly verbs: string[] } {
  const verbs: string[] = [];
  const store = storeWith(on.store, {
    announceLines: async (asked) => {
      verbs.push(`announce ${asked.lines.map(({ fairnessKey }) => fairnessKey).sort()}`);
      return on.store.announceLines(asked);
    },
    createJobs: async (jobs) => {
      verbs.push(`create ${jobs.map(({ fairnessKey }) => fairnessKey).sort()}`);
      return on.store.createJobs(jobs);
    },
  });
  return { store, verbs };
}

describe('a line', () => {
  it('is announced before its jobs are put, and not again for some minutes', async () => {
    const on = stage();
    const { store, verbs } = watched(on);
    const context = on.submitter({ store });
    await submit(context, [on.job({ fairnessKey: 'a' }), on.job({ fairnessKey: 'a' })]);
    await submit(context, [on.job({ fairnessKey: 'a' }), on.job({ fairnessKey: 'b' })]);
    await on.advance(ANNOUNCE_EVERY_MS - 1);
    await submit(context, [on.job({ fairnessKey: 'a' })]);
    await on.advance(1);
    await submit(context, [on.job({ fairnessKey: 'a' })]);
    expect(verbs).toEqual([
      'announce a',
      'create a,a',
      'announce b',
      'create a,b',
      'create a',
      'announce a',
      'create a',
    ]);
  });

  it('that somebody else has announced is only looked at, for as long as that announcement holds', async () => {
    const on = stage();
    const writes: number[] = [];
    on.store.meter = (verb, { writeUnits }) => {
      if (verb === 'announceLines' && writeUnits > 0) writes.push(on.time.nowMs);
    };
    const startMs = on.time.nowMs;
    const [one, other] = [on.submitter(), on.submitter()];
    await submit(one, [on.job({ fairnessKey: 'a' })]);
    await on.advance(ANNOUNCE_EVERY_MS - 1);
    await submit(other, [on.job({ fairnessKey: 'a' })]);
    expect(writes).toEqual([startMs]);
    await on.advance(1);
    // What `one` wrote is over for both of them.
    await submit(other, [on.job({ fairnessKey: 'a' })]);
    expect(writes).toEqual([startMs, startMs + ANNOUNCE_EVERY_MS]);
    await submit(one, [on.job({ fairnessKey: 'a' })]);
    expect(writes).toEqual([startMs, startMs + ANNOUNCE_EVERY_MS]);
  });

  it('that could not be announced is tried again with the next job, and no job is put before', async () => {
    const on = stage();
    const context = on.submitter();
    const failing = {
      ...context,
      store: storeWith(on.store, { announceLines: () => Promise.reject(new ThrottledError('busy')) }),
    };
    await expect(submit(failing, [on.job()])).rejects.toThrow('busy');
    expect([...on.store.everyJob()]).toEqual([]);
    await submit(context, [on.job()]);
    expect((await on.store.readKeys({ partition: 0, type: 'resize', limit: 10 })).keys).toHaveLength(1);
  });

  it('is remembered with a bound: beyond it, all are announced again', async () => {
    const on = stage();
    const { store, verbs } = watched(on);
    const announced = new Map(Array.from({ length: 50_000 }, (_, n) => [`line ${n}`, on.time.nowMs]));
    await submit(on.submitter({ store, announced }), [on.job()]);
    expect(announced.size).toBe(1);
    expect(verbs[0]).toBe('announce tenant-a');
  });
});

/** Nothing waits but what a test puts: passes look at the line of `paused`, find it empty, and retire it in time. */
async function minutesGoBy(on: Stage, minutes: number): Promise<void> {
  const dispatcher = on.dispatcher();
  for (let minute = 0; minute < minutes; minute += 1) {
    await on.pass({}, dispatcher);
    await on.advance(60_000);
  }
}

const linesOf = async (on: Stage, fairnessKey: string): Promise<number> => {
  const [backlog] = await on.store.readBacklogs({
    partition: 0,
    type: 'resize',
    fairnessKeys: [fairnessKey],
  });
  return backlog?.lines.length ?? 0;
};

/** A verb that is stopped for so long before it reaches the store. */
const late =
  <Asked extends readonly unknown[], Answer>(on: Stage, verb: (...asked: Asked) => Promise<Answer>) =>
  async (...asked: Asked): Promise<Answer> => {
    await on.clock.sleep(STOPPED_MS);
    return verb(...asked);
  };
const STOPPED_MS = 13 * 60_000;

describe('a submitter that is stopped for long between announcing a line and putting its job', () => {
  it('announces it again, for it may have been retired', async () => {
    const on = stage();
    const createJobs = late(on, (jobs: readonly Job[]) => on.store.createJobs(jobs));
    const job = on.job({ fairnessKey: 'paused' });
    const submitted = submit(on.submitter({ store: storeWith(on.store, { createJobs }) }), [job]);
    await minutesGoBy(on, 12);
    expect(await linesOf(on, 'paused')).toBe(0);
    await minutesGoBy(on, 2);
    expect((await submitted).map(({ kind }) => kind)).toEqual(['created']);
    expect(await linesOf(on, 'paused')).toBe(1);
    // No hint told of it.
    await on.pass({}, on.dispatcher());
    expect(on.stateOf(job.id)).toBe('claimed');
  });

  it('and so does whoever moves a job to now, or makes a new one of a dead letter', async () => {
    const on = stage();
    const [failed] = await on.put(on.job({ fairnessKey: 'failed' }));
    await on.pass();
    for (const started of await on.startAll('images')) await on.end(started, FAILED);
    const runAtMs = on.time.nowMs + 3_600_000;
    const [moved] = await on.put(on.job({ fairnessKey: 'moved', state: 'scheduled', runAtMs }));
    await minutesGoBy(on, 12);
    expect([await linesOf(on, 'failed'), await linesOf(on, 'moved')]).toEqual([0, 0]);
    const store = storeWith(on.store, {
      retimeJob: late(on, (asked: RequestOf<'retimeJob'>) => on.store.retimeJob(asked)),
      redrive: late(on, (asked: RequestOf<'redrive'>) => on.store.redrive(asked)),
    });
    const context = { ...on.submitter({ store }), queue: on.queue };
    const done = Promise.all([retimeJob(context, moved?.id ?? '', 0), redriveJob(context, failed?.id ?? '')]);
    await minutesGoBy(on, 12);
    expect([await linesOf(on, 'failed'), await linesOf(on, 'moved')]).toEqual([0, 0]);
    await minutesGoBy(on, 2);
    expect((await done).map(({ kind }) => kind)).toEqual(['moved', 'redriven']);
    expect([await linesOf(on, 'failed'), await linesOf(on, 'moved')]).toEqual([1, 1]);
  });
});

describe('a job that a hint shows long after it was ready', () => {
  it('has its line announced: whoever put it may have been stopped before, and be gone since', async () => {
    const on = stage();
    const job = on.job({ fairnessKey: 'orphan' });
    await on.advance(STOPPED_MS);
    // Its line is announced no more, and its submitter died.
    await on.store.createJobs([job]);
    await on.pass({}, on.dispatcher());
    expect(on.stateOf(job.id)).toBe('pending');
    await announceLinesOf(on.submitter(), [job]);
    await on.pass({}, on.dispatcher());
    expect(on.stateOf(job.id)).toBe('claimed');
  });

  it('has it announced once in some minutes, and none that waits elsewhere, or not for long', async () => {
    const on = stage();
    const { store, verbs } = watched(on);
    const context = on.submitter({ store });
    const since = (ms: number, changes: Partial<Job> = {}): Job =>
      on.job({ readyAtMs: on.time.nowMs - ms, ...changes });
    await announceLinesOf(context, [
      since(ANNOUNCE_EVERY_MS - 1),
      since(STOPPED_MS, { state: 'scheduled' }),
      since(STOPPED_MS, { state: 'claimed' }),
      since(STOPPED_MS, { state: 'failed' }),
    ]);
    expect(verbs).toEqual([]);
    const jobs = [since(ANNOUNCE_EVERY_MS, { fairnessKey: 'a' }), since(STOPPED_MS, { fairnessKey: 'a' })];
    await announceLinesOf(context, jobs);
    await on.advance(ANNOUNCE_EVERY_MS - 1);
    await announceLinesOf(context, jobs);
    expect(verbs).toEqual(['announce a']);
    await on.advance(1);
    await announceLinesOf(context, jobs);
    expect(verbs).toEqual(['announce a', 'announce a']);
  });
});

describe("a type's tier", () => {
  it('is the one it declares, and for a type that is gone the highest', () => {
    const on = stage({
      pool: {
        types: { low: { tier: 'low' } },
        tiers: [{ tier: 'high' }, { tier: 'low' }],
        fleets: { all: { types: ['low'], slots: 1 } },
      },
    });
    expect(tierOf(on.configuration, 'low')).toBe('low');
    expect(tierOf(on.configuration, 'gone')).toBe('high');
    expect(() => tierOf({ ...on.configuration, tiers: [] }, 'gone')).toThrow(
      'no tier for the job type "gone"',
    );
  });
});
