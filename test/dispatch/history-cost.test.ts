/** What a job's history costs: it stands on the job's item, so it costs where it makes a write a unit larger. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { jobIdOf } from '../../lib/dispatch/request.ts';
import { retimeJob } from '../../lib/dispatch/retime.ts';
import { encodeJob } from '../../lib/store/dynamodb/codec/job.ts';
import { itemBytes, writeUnitsOf } from '../../lib/store/metering.ts';
import { type Stage, SUCCEEDED, stage } from './stage.ts';

/** Of a job without losses. */
const UNITS_MOST = 0.3;
const FLAKY = { name: 'TimeoutError', message: 'connect ETIMEDOUT 10.0.0.7:443, after 3 tries' };
const ACTOR = 'arn:aws:sts::123456789012:assumed-role/operator/somebody@example.com';

function scene() {
  let extraUnits = 0;
  let writes = 0;
  const bytesOf = (job: Job | undefined): number =>
    job === undefined ? 0 : itemBytes(encodeJob(job, undefined));
  const plain = (job: Job | undefined): Job | undefined => {
    if (job === undefined) return undefined;
    const { history: _, ...rest } = job;
    return rest;
  };
  const unitsOf = (...images: readonly (Job | undefined)[]): number =>
    writeUnitsOf(Math.max(...images.map(bytesOf)));
  const on = stage({
    observe: (event) => {
      if (event.kind !== 'job') return;
      writes += 1;
      extraUnits += unitsOf(event.oldJob, event.newJob) - unitsOf(plain(event.oldJob), plain(event.newJob));
    },
  });
  return { ...on, written: () => ({ writes, extraUnits }) };
}

/** A job as users have them: names of some length, and a payload of some fields. */
const submitted = async (on: Stage, runInMs = 0): Promise<Job> => {
  const job = on.job({
    id: jobIdOf('order/2027-01-15/000123'),
    fairnessKey: 'customer-4711',
    resourceId: 's3://catalogue-eu-central-1/albums/000123',
    payload: {
      bucket: 'catalogue-eu-central-1',
      key: 'albums/000123/cover.png',
      width: 1_600,
      format: 'webp',
    },
    ...(runInMs === 0 ? {} : { state: 'scheduled', runAtMs: on.time.nowMs + runInMs }),
  });
  await on.put(job);
  await on.pass({ jobs: [job], reason: 'stream' });
  return job;
};

const startedOne = async (on: Stage) => {
  const [started] = await on.startEverywhere();
  if (started === undefined) throw new Error('nothing was started');
  return started;
};
const succeed = async (on: Stage): Promise<void> => {
  const ended = await on.end(await startedOne(on), SUCCEEDED);
  await on.pass({ jobs: [ended], reason: 'stream' });
};

describe('the history of a job without losses', () => {
  it('costs one that runs once nothing', async () => {
    const on = scene();
    await submitted(on);
    await succeed(on);
    // Stored, started, ended: the start claims it.
    expect(on.written()).toEqual({ writes: 3, extraUnits: 0 });
  });

  const triedAgain = async (times: number) => {
    const on = scene();
    await submitted(on);
    for (let attempt = 1; attempt <= times; attempt += 1) {
      const verdict = { kind: 'retry', error: FLAKY, runAtMs: on.time.nowMs } as const;
      const again = await on.end(await startedOne(on), verdict);
      await on.pass({ jobs: [again], reason: 'stream' });
    }
    await succeed(on);
    return on;
  };

  it.each([1, 2])(
    `costs one that is tried again, %i times, at most ${UNITS_MOST} write units`,
    async (times) => {
      const on = await triedAgain(times);
      expect(on.written().writes).toBeGreaterThan(3);
      expect(on.written().extraUnits).toBeLessThanOrEqual(UNITS_MOST);
    },
  );

  it('costs one that is tried again and again what its item becomes larger', async () => {
    expect((await triedAgain(8)).written().extraUnits).toBeGreaterThan(1);
  });

  it(`costs one that is moved twice at most ${UNITS_MOST} write units`, async () => {
    const on = scene();
    const job = await submitted(on, 3_600_000);
    for (const runInMs of [7_200_000, 0])
      await retimeJob(on.operator(), job.id, on.time.nowMs + runInMs, ACTOR);
    await on.pass({ jobs: [on.store.inspectJob(job.id) as Job], reason: 'stream' });
    await succeed(on);
    expect(on.written().writes).toBeGreaterThan(3);
    expect(on.written().extraUnits).toBeLessThanOrEqual(UNITS_MOST);
  });
});
