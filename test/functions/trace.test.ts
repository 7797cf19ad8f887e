/** A job's trace on its whole way: event, client or schedule, item, worker, outcome. */
import type { SQSEvent } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import type { FunctionContext } from '../../functions/composition.ts';
import { ingesting } from '../../functions/ingest.ts';
import { DeclaredJobs } from '../../lib/client/declared-jobs.ts';
import { ScheduleVerbs } from '../../lib/client/schedules.ts';
import type { Job } from '../../lib/core/job.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { publishOutcomes } from '../../lib/dispatch/outcomes.ts';
import { redriveJob } from '../../lib/operate/redrive.ts';
import type { OutcomeOutbox } from '../../lib/queue/contract.ts';
import { runJob } from '../../lib/worker/run-job.ts';
import { stage, storeWith } from '../stage/stage.ts';
import { toldJobs } from '../testing/received.ts';

const OWN = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
/** As EventBridge hands on what its producer was traced with. */
const HEADER = 'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1';
const OF_HEADER = '00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01';

const POOL: PoolInput = {
  types: { resize: { timeoutMs: 30_000, retry: { maxAttempts: 2, delayMs: 1_000, jitter: 'none' } } },
  fleets: { images: { types: ['resize'], slots: 4 } },
};

function scene() {
  const on = stage({ pool: POOL });
  const { store, configuration, clock, random, log } = on;
  const composed = {
    ...on.main,
    store,
    events: on.bus,
    // The bus takes everything.
    outbox: {} as OutcomeOutbox,
    nowMs: clock.nowMs,
    partitionOf: () => 0,
  } satisfies FunctionContext;
  let units = 0;
  store.meter = (_, { writeUnits }) => {
    units += writeUnits;
  };
  const take = (detail: unknown, header?: string, detailType = 'Job Requested') => {
    const body = JSON.stringify({ id: 'event', 'detail-type': detailType, detail });
    const attributes = header === undefined ? {} : { AWSTraceHeader: header };
    const event = { Records: [{ messageId: 'm', body, attributes }] } as unknown as SQSEvent;
    return on.finish(ingesting(async () => composed)(event));
  };
  /** What handlers are told of their traces; each attempt ends as told, and the bus hears of it. */
  const work = async (isToFail = false): Promise<readonly (string | undefined)[]> => {
    const told: (string | undefined)[] = [];
    const ended: Job[] = [];
    const waiting = [...store.everyJob()].filter(({ state }) => state === 'pending' || state === 'scheduled');
    await (waiting.length > 0 ? on.pass({ jobs: waiting, reason: 'stream' }) : on.pass());
    for (const { message } of toldJobs(await on.queue.receive('images', 10, 0, 60_000))) {
      const worker = { workerId: 'w', incarnation: message.claimId };
      const resize = (_: unknown, { traceparent }: { readonly traceparent?: string | undefined }): null => {
        told.push(traceparent);
        if (isToFail) throw new Error('on purpose');
        return null;
      };
      await on.finish(runJob({ store, configuration, clock, random, log, worker }, { resize }, message));
      const job = store.inspectJob(message.jobId);
      if (job !== undefined) ended.push(job);
    }
    await on.finish(publishOutcomes(on.bus, ended));
    await on.pass({ jobs: ended, reason: 'stream' });
    return told;
  };
  const outcomes = (): readonly unknown[] =>
    on.published.map((event) => ('traceparent' in event.detail ? event.detail.traceparent : undefined));
  return { ...on, take, work, outcomes, units: () => units };
}

describe('the trace of a job', () => {
  it.each([
    ['that its event names', { type: 'resize', traceparent: OWN }, undefined, [OWN]],
    ['that its event came in', { type: 'resize' }, HEADER, [OF_HEADER]],
    ['that its event names, not that it came in', { type: 'resize', traceparent: OWN }, HEADER, [OWN]],
    [
      'of its own, in an event of many',
      { jobs: [{ type: 'resize', traceparent: OWN }, { type: 'resize' }] },
      HEADER,
      [OWN, OF_HEADER],
    ],
    ['that nobody named', { type: 'resize' }, undefined, [undefined]],
    ['that is not named as it should be', { type: 'resize' }, 'Root=1-2-3', [undefined]],
  ])('%s is told to its handler, and on the bus', async (_, detail, header, traces) => {
    const { take, work, outcomes } = scene();
    expect(await take(detail, header)).toEqual({ batchItemFailures: [] });
    expect((await work()).toSorted()).toEqual(traces.toSorted());
    expect(outcomes().toSorted()).toEqual(traces.toSorted());
  });

  it('is that of all its attempts, and of another try of the dead letter', async () => {
    const on = scene();
    await on.take({ type: 'resize', traceparent: OWN });
    expect(await on.work(true)).toEqual([OWN]);
    await on.advance(1_000);
    expect(await on.work(true)).toEqual([OWN]);
    const [dead] = [...on.store.everyJob()];
    expect(dead).toMatchObject({ state: 'failed', attempt: 2 });
    const outcome = await on.finish(redriveJob(on.submitter(), dead?.id ?? ''));
    expect(outcome.kind).toBe('redriven');
    expect(await on.work()).toEqual([OWN]);
    expect(on.outcomes()).toEqual([OWN, OWN]);
  });

  it('that is none refuses the request, and says why', async () => {
    const { take, store, published } = scene();
    await take({ type: 'resize', traceparent: OWN.toUpperCase() });
    expect([...store.everyJob()]).toEqual([]);
    const reason = expect.stringMatching(/must be a W3C traceparent.*00-4BF9/s);
    expect(published).toMatchObject([{ kind: 'rejected', detail: { field: 'traceparent', reason } }]);
  });

  it('costs no write: it is a field of the item', async () => {
    const [with_, without] = await Promise.all(
      [OWN, undefined].map(async (traceparent) => {
        const { take, work, units } = scene();
        await take({ type: 'resize', traceparent });
        await work();
        return units();
      }),
    );
    expect(with_).toBeGreaterThan(0);
    expect(with_).toBe(without);
  });
});

describe('the trace of a schedule’s job', () => {
  const MINUTELY = { id: 's', schedule: { every: '1m', type: 'resize' } };

  it('is none where a firing made it: its handler begins one, whoever asked for the schedule', async () => {
    const { take, work, advance, outcomes } = scene();
    await take(MINUTELY, HEADER, 'Schedule Put Requested');
    await advance(60_000);
    expect(await work()).toEqual([undefined]);
    expect(outcomes()).toEqual([undefined]);
  });

  it('is that of the event which asked for it now', async () => {
    const { take, work, outcomes } = scene();
    await take(MINUTELY, undefined, 'Schedule Put Requested');
    await take({ id: 's' }, HEADER, 'Schedule Run Requested');
    expect(await work()).toEqual([OF_HEADER]);
    expect(outcomes()).toEqual([OF_HEADER]);
  });

  it('is that of the client which asked for it now, and not of the next firing', async () => {
    const on = scene();
    const schedules = new ScheduleVerbs(
      async () => on.operator(),
      () => OWN,
      new DeclaredJobs(on.clock),
    );
    await on.finish(schedules.put('s', MINUTELY.schedule));
    const { jobId } = await on.finish(schedules.runNow('s'));
    expect(on.store.inspectJob(jobId)).toMatchObject({ traceparent: OWN });
    expect(await on.work()).toEqual([OWN]);
    await on.advance(60_000);
    expect(await on.work()).toEqual([undefined]);
  });

  it('is no part of what it is: who completes it for one that died makes the same job', async () => {
    const on = scene();
    const schedules = new ScheduleVerbs(
      async () => ({
        ...on.operator(),
        store: storeWith(on.store, { createJobs: () => Promise.reject(new Error('the process was killed')) }),
      }),
      () => OWN,
      new DeclaredJobs(on.clock),
    );
    await on.take(MINUTELY, undefined, 'Schedule Put Requested');
    await expect(on.finish(schedules.runNow('s'))).rejects.toThrow('killed');
    expect([...on.store.everyJob()]).toEqual([]);
    // The next look at the schedule finds it.
    await on.advance(60_000);
    expect(await on.work()).toEqual([undefined]);
    expect([...on.store.everyJob()]).toMatchObject([{ scheduleId: 's', state: 'succeeded' }]);
  });
});
