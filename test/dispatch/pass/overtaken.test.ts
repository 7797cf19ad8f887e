/** An index that lags shows jobs that other dispatchers have started, and that have ended: no pass takes a place for them. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { notingLooks, type Stage, stage } from '../../stage/stage.ts';

const SLOTS = 4;
const LAG_MS = 5_000;

interface Counted {
  readonly context: DispatchContext;
  /** Ids of the jobs that it has looked up. */
  readonly looked: string[];
}

function dispatcher(on: Stage): Counted {
  const { store, looked } = notingLooks(on.store);
  return { context: on.dispatcher({ store }), looked };
}

/** Jobs are started and end, under the first dispatcher, while the index shows them still. */
async function ended(on: Stage, { context }: Counted): Promise<readonly Job[]> {
  const jobs = await on.put(...Array.from({ length: SLOTS }, () => on.job()));
  // By then it shows that they wait, and goes on to.
  await on.advance(LAG_MS);
  await on.pass({ jobs, reason: 'stream' }, context);
  const images = [];
  for (const each of await on.startAll('images')) images.push(await on.end(each));
  expect(images).toHaveLength(SLOTS);
  await on.pass({ jobs: images, reason: 'stream' }, context);
  expect(on.held()).toEqual([]);
  return jobs;
}

describe('where an index lags behind what was done', () => {
  it('a dispatcher that remembers nothing tells of none that has ended, and the next ones start', async () => {
    const on = stage({ store: { indexLagMs: LAG_MS } });
    await on.advance(1);
    const first = dispatcher(on);
    const over = await ended(on, first);
    const waiting = await on.put(...Array.from({ length: SLOTS }, () => on.job()));
    const other = dispatcher(on);
    await on.pass({ jobs: waiting, reason: 'stream' }, other.context);
    const started = await on.startAll('images');
    expect(started.map(({ job }) => job.id).sort()).toEqual(waiting.map(({ id }) => id).sort());
    expect(over.map(({ id }) => on.store.inspectJob(id)?.state)).toEqual(over.map(() => 'succeeded'));
  });

  it('a dispatcher that remembers them reads none of them again', async () => {
    const on = stage({ leads: true, store: { indexLagMs: LAG_MS } });
    await on.advance(1);
    const first = dispatcher(on);
    const over = await ended(on, first);
    first.looked.length = 0;
    const waiting = await on.put(...Array.from({ length: SLOTS }, () => on.job()));
    await on.pass({ jobs: waiting, reason: 'stream' }, first.context);
    expect(over.filter(({ id }) => first.looked.includes(id))).toEqual([]);
    expect(
      on
        .held()
        .map(({ id }) => id)
        .sort(),
    ).toEqual(waiting.map(({ id }) => id).sort());
  });

  it('a dispatcher that has remembered for longer than the index lags looks nothing up', async () => {
    const on = stage({ leads: true });
    const first = dispatcher(on);
    await ended(on, first);
    await on.advance(on.main.budget.seenWithinMs + 1);
    const jobs = await on.put(...Array.from({ length: 2 * SLOTS }, () => on.job()));
    first.looked.length = 0;
    await on.pass({ jobs, reason: 'stream' }, first.context);
    expect([on.held().length, first.looked]).toEqual([SLOTS, []]);
  });

  it('a job that was cancelled meanwhile lets what waits behind it start in the same pass', async () => {
    const on = stage({ store: { indexLagMs: LAG_MS } });
    const jobs = await on.put(...Array.from({ length: SLOTS + 2 }, (_, at) => on.job({ priority: 9 - at })));
    const first = dispatcher(on);
    await on.advance(LAG_MS);
    for (const { id } of jobs.slice(0, 2))
      await on.store.cancelJob({ jobId: id, nowMs: on.time.nowMs, expiresAtMs: on.time.nowMs + 1_000_000 });
    expect(await on.pass({}, first.context)).toMatchObject({ admitted: SLOTS, lostClaims: 2 });
    expect(on.held().map(({ id }) => id)).toEqual(jobs.slice(2).map(({ id }) => id));
  });
});
