/** Leading a partition: who takes it, what a leader hears of, when it ends, and that nothing but a commit decides. */

import { describe, expect, it } from 'vitest';
import { ThrottledError } from '../../../lib/core/errors.ts';
import type { Job } from '../../../lib/core/job.ts';
import { type DispatchReport, leadWhileBusy } from '../../../lib/dispatch/dispatch.ts';
import { residentHolder, residentIn } from '../../../lib/dispatch/lead/lead.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { steppedStore } from '../../stage/interleave.ts';
import { type Stage, type StageOptions, stage, storeWith } from '../../stage/stage.ts';

const ANOTHER = 'another';
const takes = (on: Stage, forMs: number) =>
  on.store.lead({ partition: 0, holder: ANOTHER, nowMs: on.time.nowMs, untilMs: on.time.nowMs + forMs });
const leaderOf = (on: Stage): string | undefined => on.store.inspect(0).leader?.holder;
const many = (slots: number, budget: StageOptions['budget'] = {}): Stage =>
  stage({
    budget,
    pool: { types: { resize: { timeoutMs: 600_000 } }, fleets: { images: { types: ['resize'], slots } } },
  });
/** Stores jobs, and leaves a letter of each as a client does. */
async function tell(on: Stage, count = 1): Promise<readonly Job[]> {
  const jobs = (await on.put(...Array.from({ length: count }, () => on.job()))) as readonly Job[];
  await on.store.putLetter({
    partition: 0,
    letter: { jobIds: jobs.map(({ id }) => id) },
    nowMs: on.time.nowMs,
  });
  return jobs;
}

describe('a dispatcher that was woken', () => {
  it.each(['wake', 'tick'] as const)(
    'takes the lead, and releases it when it has nothing to do: by a %s',
    async (reason) => {
      const on = stage();
      const leaders: (string | undefined)[] = [];
      const store = steppedStore(on.store, ['loadPartition'], async () => void leaders.push(leaderOf(on)));
      await on.pass({ reason }, on.dispatcher({ store, holder: 'me' }));
      expect(leaders).toEqual([expect.stringMatching(/^me#/)]);
      expect(leaderOf(on)).toBeUndefined();
    },
  );

  it('commits though it has nothing to write: what was planned by the version before is void then', async () => {
    const on = stage();
    await on.pass();
    const { version } = on.store.inspect(0).summary;
    await on.pass({ reason: 'wake' });
    expect(on.store.inspect(0).summary.version).toBe(version + 1);
  });

  it('leaves what it was told of to the leader, whose time is not over', async () => {
    const on = stage();
    await takes(on, 10_000);
    const [job] = await on.put(on.job());
    const jobIds = [job?.id ?? ''];
    expect(await on.pass({ reason: 'wake', jobIds })).toMatchObject({ kind: 'letterLeft', passes: 0 });
    expect([...on.store.inspect(0).letters.values()]).toMatchObject([{ jobIds }]);
  });

  it('passes a leader over that has died, once its time is over, and reads its letters', async () => {
    const on = stage();
    await takes(on, on.main.budget.leadMs);
    const jobs = await tell(on);
    await on.advance(on.main.budget.leadMs - 1);
    expect((await on.pass({ reason: 'tick' })).kind).toBe('letterLeft');
    await on.advance(1);
    expect(await on.pass({ reason: 'tick' })).toMatchObject({ kind: 'done', admitted: 1 });
    expect(on.states(jobs)).toEqual(['claimed']);
  });

  it('releases the lead also where its pass fails', async () => {
    const on = stage();
    const loadPartition = async (): Promise<never> => {
      throw new ThrottledError('loadPartition: too many requests');
    };
    const context = on.dispatcher({ store: storeWith(on.store, { loadPartition }) });
    await expect(on.pass({ reason: 'wake' }, context)).rejects.toThrow('too many requests');
    expect(leaderOf(on)).toBeUndefined();
  });
});

describe('a function that is asked to lead while much goes on', () => {
  const leads = (on: Stage, own: Partial<DispatchContext> = {}): Promise<DispatchReport | undefined> =>
    leadWhileBusy(on.dispatcher(own), 0);

  it('hears of jobs by letters, and starts them before the stream tells of them', async () => {
    const on = many(100, { leadWhile: 0 });
    const led = leads(on);
    await on.advance(1_000);
    const jobs = await tell(on, 5);
    await on.advance(300);
    expect(new Set(on.states(jobs))).toEqual(new Set(['claimed']));
    // Where it leads, others leave letters.
    expect((await on.pass({ jobs, reason: 'stream' })).kind).toBe('letterLeft');
    expect(await on.finish(led)).toMatchObject({ kind: 'done', admitted: 5 });
    expect(leaderOf(on)).toBeUndefined();
  });

  it('makes a second pass some time after a letter that says nothing, as an index may lag', async () => {
    const on = stage({ budget: { leadWhile: 0 }, store: { indexLagMs: 1_500 } });
    const led = leads(on);
    await on.advance(1_000);
    const due = on.job({ state: 'scheduled' });
    await on.put(due);
    await on.store.putLetter({ partition: 0, letter: {}, nowMs: on.time.nowMs });
    await on.advance(300);
    expect(on.stateOf(due.id)).toBe('scheduled');
    await on.advance(2_500);
    expect(on.stateOf(due.id)).toBe('claimed');
    await on.finish(led);
  });

  it('goes on while as much starts and ends as leading is worth, and ends when little does', async () => {
    const on = many(5_000);
    const startMs = on.time.nowMs;
    let endedMs: number | undefined;
    const led = leads(on).then((report) => {
      endedMs = on.time.nowMs - startMs;
      return report;
    });
    for (let at = 0; at < 80; at += 1) {
      await tell(on, 2);
      await on.advance(100);
    }
    expect(endedMs).toBeUndefined();
    expect(await on.finish(led)).toMatchObject({ kind: 'done', admitted: 160 });
    expect(endedMs).toBeLessThan(15_000);
  });

  it('asks for the next lead where its time is over and something is left, and wakes a dispatcher', async () => {
    const on = many(5_000, { leadWhile: 0, runMs: 2_000 });
    const asked: number[] = [];
    const led = leads(on, { askToLead: async (partition) => void asked.push(partition) });
    for (let at = 0; at < 30; at += 1) {
      await tell(on, 2);
      await on.advance(100);
    }
    await on.finish(led);
    await on.advance(0);
    const left = on.store.inspect(0).letters.size;
    // What it has not read, a woken dispatcher reads.
    expect(left === 0 || on.wakes.length > 0).toBe(true);
    await on.pass({ reason: 'wake' });
    expect(on.held()).toHaveLength(60);
  });

  it('leaves the pool to dispatchers that run on', async () => {
    const on = many(10);
    const listDispatchers: JobStore['listDispatchers'] = async () => [{} as never];
    expect(await leads(on, { store: storeWith(on.store, { listDispatchers }) })).toBeUndefined();
  });

  it('ends where another dispatcher has taken the lead, and has started nothing twice', async () => {
    const on = many(10, { leadWhile: 0 });
    const led = leads(on);
    await on.advance(1_000);
    await on.store.stopLeading({ partition: 0, holder: leaderOf(on) ?? '' });
    await takes(on, 120_000);
    // It believes to lead still, as do others: commits decide.
    const jobs = await tell(on, 3);
    const loadPartition: JobStore['loadPartition'] = async (asked) => ({
      ...(await on.store.loadPartition(asked)),
      leader: undefined,
    });
    const other = on.dispatcher({ store: storeWith(on.store, { loadPartition }) });
    await on.pass({ jobs, reason: 'ingest' }, other);
    await on.advance(300);
    expect(await on.finish(led)).toBeUndefined();
    expect(leaderOf(on)).toBe(ANOTHER);
    expect((await on.startAll('images')).length + on.queue.sizeOf('images')).toBe(3);
  });
});

describe('a dispatcher that does not lead', () => {
  const asking = (on: Stage, ask: () => Promise<void> = async () => {}) => {
    const asked: number[] = [];
    const askToLead = async (partition: number): Promise<void> => {
      asked.push(partition);
      await ask();
    };
    return { asked, context: on.dispatcher({ askToLead }) };
  };
  const startSome = async (on: Stage, context: DispatchContext, count: number): Promise<void> => {
    const jobs = await on.put(...Array.from({ length: count }, () => on.job()));
    await on.pass({ jobs, reason: 'stream' }, context);
  };

  it('asks for a lead where many jobs start and end, and not again for some seconds', async () => {
    const on = many(1_000);
    const { asked, context } = asking(on);
    await startSome(on, context, 10);
    expect(asked).toEqual([]);
    await on.advance(10_000);
    await startSome(on, context, 40);
    await startSome(on, context, 40);
    expect(asked).toEqual([0]);
    await on.advance(5_000);
    await startSome(on, context, 40);
    expect(asked).toEqual([0, 0]);
  });
});

describe('the name of a lead', () => {
  it('says which dispatcher that runs on has it, whatever its own name is', () => {
    const holder = residentHolder({ dispatcherId: 'eu/one', incarnation: 'life' });
    expect([residentIn(`${holder}#nonce`), residentIn('function#nonce')]).toEqual(['eu/one', undefined]);
  });
});
