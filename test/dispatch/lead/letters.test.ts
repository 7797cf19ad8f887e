/**
 * Letters are the one mailbox of a partition: what a dispatcher knows and may not use, the leader reads. The rules are those of
 * test/protocol/letters_model.py; each is played here once, on real dispatchers.
 */

import { describe, expect, it } from 'vitest';
import { ThrottledError } from '../../../lib/core/errors.ts';
import type { Job } from '../../../lib/core/job.ts';
import { dispatch } from '../../../lib/dispatch/dispatch.ts';
import type { WakeRequest } from '../../../lib/queue/contract.ts';
import type { Letter, ReceivedLetter } from '../../../lib/store/contract/records.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { everyOrder, steppedStore } from '../../stage/interleave.ts';
import { disturbed, type Stage, stage, storeWith } from '../../stage/stage.ts';
import { watch } from '../../stage/watch.ts';

const lettersOf = (on: Stage): readonly ReceivedLetter[] => [...on.store.inspect(0).letters.values()];
const put = (on: Stage, letter: Letter): Promise<void> =>
  on.store.putLetter({ partition: 0, letter, nowMs: on.time.nowMs });
/** Another dispatcher leads, and makes no pass. */
const isLed = (on: Stage, forMs = 60_000) =>
  on.store.lead({ partition: 0, holder: 'another', nowMs: on.time.nowMs, untilMs: on.time.nowMs + forMs });
const released = (on: Stage): Promise<void> => on.store.stopLeading({ partition: 0, holder: 'another' });
/** No line shows a job as soon as it is stored. */
const unshown = (): Stage => stage({ store: { indexLagMs: 10_000 } });
const oneJob = async (on: Stage): Promise<Job> => {
  const job = on.job();
  await on.put(job);
  return job;
};
/** How often fleets were told of something. */
const sent = (on: Stage): number => on.queue.sizeOf('images');

describe('a dispatcher that is told of a job where another one leads', () => {
  it('leaves a letter of it, and the next leader starts it', async () => {
    const on = stage();
    await isLed(on);
    const job = await oneJob(on);
    expect(await on.pass({ jobs: [job], reason: 'stream' })).toMatchObject({ kind: 'letterLeft', passes: 0 });
    expect(lettersOf(on)).toMatchObject([{ hints: [{ id: job.id }], looksAtAll: false }]);
    await released(on);
    expect(await on.pass({ reason: 'wake' }, on.dispatcher())).toMatchObject({ admitted: 1 });
    expect(lettersOf(on)).toEqual([]);
  });

  it('makes the pass itself if nobody leads any more when its letter is there', async () => {
    const on = stage();
    await isLed(on);
    const job = await oneJob(on);
    const context = disturbed(on, 'readLeader', () => released(on));
    expect(await on.pass({ jobs: [job], reason: 'stream' }, context)).toMatchObject({
      kind: 'done',
      admitted: 1,
    });
    // The letter tells the next leader the same, which does nothing twice.
    expect(await on.pass({ reason: 'wake' })).toMatchObject({ admitted: 0 });
    expect([sent(on), lettersOf(on)]).toEqual([1, []]);
  });

  it('fails if its letter cannot be put, so that it is told again', async () => {
    const on = stage();
    await isLed(on);
    const job = await oneJob(on);
    const putLetter = async (): Promise<never> => {
      throw new ThrottledError('putLetter: too many requests');
    };
    const context = on.dispatcher({ store: storeWith(on.store, { putLetter }) });
    await expect(on.pass({ jobs: [job], reason: 'stream' }, context)).rejects.toThrow('putLetter');
  });

  it('looks who leads before anything else the next time', async () => {
    const on = stage();
    await isLed(on);
    let loads = 0;
    const loadPartition: JobStore['loadPartition'] = (asked) => {
      loads += 1;
      return on.store.loadPartition(asked);
    };
    const context = on.dispatcher({ store: storeWith(on.store, { loadPartition }) });
    for (let times = 0; times < 3; times += 1)
      await on.pass({ jobs: [await oneJob(on)], reason: 'stream' }, context);
    expect([loads, lettersOf(on).length]).toEqual([1, 3]);
  });
});

describe('a letter', () => {
  it('goes after the answer of the commit that acted on it', async () => {
    const on = stage();
    const job = await oneJob(on);
    await put(on, { jobIds: [job.id] });
    const seen: number[] = [];
    const store = steppedStore(on.store, ['commit', 'deleteLetters'], async () => {
      seen.push(lettersOf(on).length + on.held().length * 10);
    });
    await on.pass({ reason: 'wake' }, on.dispatcher({ store }));
    expect(seen).toEqual([1, 11]);
    expect(lettersOf(on)).toEqual([]);
  });

  it('stays if that commit is refused, and the leader acts on it again', async () => {
    const on = unshown();
    const job = await oneJob(on);
    await put(on, { jobIds: [job.id] });
    const context = disturbed(on, 'commit', async () => {
      expect(lettersOf(on)).toHaveLength(1);
      await on.commit({});
    });
    expect(await on.pass({ reason: 'wake' }, context)).toMatchObject({ kind: 'done', admitted: 1 });
    expect([sent(on), lettersOf(on)]).toEqual([1, []]);
  });

  it.each(['commit', 'deleteLetters', 'stopLeading'] as const)(
    'that comes at the %s of a lead is read by it',
    async (verb) => {
      const on = unshown();
      const [first, late] = [await oneJob(on), await oneJob(on)];
      await put(on, { jobIds: [first.id] });
      const context = disturbed(on, verb, () => put(on, { jobIds: [late.id] }));
      await on.pass({ reason: 'wake' }, context);
      expect(on.states([first, late])).toEqual(['claimed', 'claimed']);
      expect([lettersOf(on), on.store.inspect(0).leader]).toEqual([[], undefined]);
    },
  );

  it('that cannot be read has everything looked at, and goes', async () => {
    const on = stage();
    await on.pass();
    const [ends, waits] = [await oneJob(on), on.job()];
    await on.pass({ jobs: [ends], reason: 'stream' });
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await on.end(started);
    await on.put(waits);
    await put(on, { jobIds: ['unreadable'] });
    const readLetters: JobStore['readLetters'] = async (partition) => {
      const { letters, more } = await on.store.readLetters(partition);
      return { more, letters: letters.map((each) => ({ ...each, jobIds: [], looksAtAll: true })) };
    };
    const context = on.dispatcher({ store: storeWith(on.store, { readLetters }) });
    expect(await on.pass({ reason: 'tick' }, context)).toMatchObject({ settled: 1, admitted: 1 });
    expect(lettersOf(on)).toEqual([]);
  });

  it('that says nothing asks for a pass that commits, and fires what is due', async () => {
    const on = stage();
    await on.pass();
    const { version } = on.store.inspect(0).summary;
    await on.pass({ reason: 'tick' });
    expect(on.store.inspect(0).summary.version).toBe(version);
    const due = on.job({ state: 'scheduled' });
    await on.put(due);
    await put(on, {});
    await on.pass({ reason: 'tick' });
    expect(on.store.inspect(0).summary.version).toBeGreaterThan(version);
    expect([on.stateOf(due.id), lettersOf(on)]).toEqual(['claimed', []]);
  });

  it('of jobs of another partition starts none of them here', async () => {
    const pool = {
      types: { resize: {} },
      fleets: { images: { types: ['resize'], slots: 4 } },
      partitions: 2,
    };
    const on = stage({ pool });
    const stranger = on.job({ partition: 1 });
    await on.put(stranger);
    await put(on, { hints: [stranger], jobIds: [stranger.id] });
    await put(on, { jobIds: [stranger.id] });
    await on.pass({ reason: 'wake' });
    expect([on.held(), lettersOf(on)]).toEqual([[], []]);
    expect(on.stateOf(stranger.id)).toBe('pending');
  });
});

describe('a dispatcher whose commits are lost', () => {
  /** Whatever it commits, another dispatcher has committed before. */
  function losing(on: Stage) {
    const order: string[] = [];
    const store = storeWith<JobStore>(on.store, {
      commit: async (request) => {
        await on.commit({});
        order.push('commit');
        return on.store.commit(request);
      },
      putLetter: async (request) => {
        order.push('putLetter');
        await on.store.putLetter(request);
      },
    });
    const queue = storeWith(on.queue, {
      sendWake: async (wake: WakeRequest) => {
        order.push('sendWake');
        await on.queue.sendWake(wake);
      },
    });
    const askToLead = async (): Promise<void> => void order.push('askToLead');
    return { order, context: on.dispatcher({ store, queue, askToLead }) };
  }

  it('leaves a letter, then sends a wake, then asks for a lead, and starts nothing', async () => {
    const on = stage();
    const job = await oneJob(on);
    const { order, context } = losing(on);
    expect((await on.pass({ jobs: [job], reason: 'stream' }, context)).kind).toBe('lost');
    expect(order).toEqual(['commit', 'commit', 'commit', 'putLetter', 'sendWake', 'askToLead']);
    expect([sent(on), on.stateOf(job.id)]).toEqual([0, 'pending']);
    // Whoever is woken reads it.
    expect(await on.pass({ reason: 'wake' })).toMatchObject({ admitted: 1 });
  });

  it('and that was woken keeps what the letters say, and sends another wake when its time is over', async () => {
    const on = stage();
    const job = await oneJob(on);
    await put(on, { jobIds: [job.id] });
    const { order, context } = losing(on);
    expect((await on.pass({ reason: 'wake' }, context)).kind).toBe('outOfBudget');
    expect([order.at(-1), lettersOf(on).length, sent(on)]).toEqual(['sendWake', 1, 0]);
    expect(on.store.inspect(0).leader).toBeUndefined();
  });

  it('leaves what it was shown and has not used when its time is over', async () => {
    const on = stage();
    const jobs = [await oneJob(on), await oneJob(on)];
    expect((await on.pass({ jobs, reason: 'wake' }, losing(on).context)).kind).toBe('outOfBudget');
    await on.advance(0);
    expect(lettersOf(on)[0]?.hints.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
    expect(on.wakes).toHaveLength(1);
  });
});

describe('two dispatchers that load one version', () => {
  it.each(['stream', 'wake'] as const)(
    'give the only slot to one job, in every order of their steps, where both are told by the %s or both lead',
    async (reason) => {
      let winners = new Set<string>();
      const orders = await everyOrder(async (point) => {
        let own: ReturnType<typeof watch> | undefined;
        const on = stage({
          pool: { types: { resize: {} }, fleets: { images: { types: ['resize'], slots: 1 } } },
          observe: (event) => own?.observe(event),
        });
        own = watch(() => on.configuration);
        const watched = own;
        const jobs = [await oneJob(on), await oneJob(on)];
        const work = jobs.map((job, agent) => {
          const stepped = steppedStore(on.store, ['loadPartition', 'commit'], () => point(agent));
          // Each believes to lead.
          const lead: JobStore['lead'] = async () => ({ kind: 'leading' });
          const store = reason === 'wake' ? storeWith(stepped, { lead }) : stepped;
          return dispatch(on.dispatcher({ store }), 0, { jobs: [job], reason });
        });
        return {
          work,
          check: () => {
            watched.expectNothingWrong();
            expect([on.held().length, sent(on)]).toEqual([1, 1]);
            winners = winners.add(on.held()[0]?.id ?? '');
          },
        };
      });
      expect(orders).toBeGreaterThan(5);
    },
  );
});
