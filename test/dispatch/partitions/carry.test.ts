/** How a partition comes to a declaration: what it notes and keeps, whose controls it shares, and what it moves in which steps. */
import { describe, expect, it } from 'vitest';
import type { Control } from '../../../lib/core/capacity.ts';
import type { Job } from '../../../lib/core/job.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { moveForDeclaration } from '../../../lib/dispatch/partitions/carry.ts';
import type { DeclarationProgress, PartitionState } from '../../../lib/store/contract/records.ts';
import { aReservation } from '../../fixtures/factories/reservation.ts';
import { commitsOf, keysIn, type Moving, moving, waiting } from '../../stage/moving.ts';

const FORMER = 'former/photos';

async function coming(on: Moving) {
  // That was under an earlier declaration.
  await on.commit({});
  const stateNow = async (changes: Partial<PartitionState> = {}): Promise<PartitionState> => ({
    ...(await on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs })),
    ...changes,
  });
  const carryOn = async (changes: Partial<PartitionState>, context: DispatchContext) => {
    const state = await stateNow(changes);
    return on.finish(moveForDeclaration(context, 0, commitsOf(on, state), state));
  };
  return {
    /** Parks jobs under a conflict key. */
    park: async (jobs: readonly Job[], conflictKey = FORMER): Promise<void> => {
      await on.store.markParked({ partition: 0, conflictKeys: [conflictKey], nowMs: on.time.nowMs });
      const { version } = on.store.inspect(0).summary;
      await on.store.park({ partition: 0, version, jobs, conflictKey });
      await on.advance(1);
    },
    step: (changes: Partial<PartitionState> = {}, context: DispatchContext = on.context) =>
      carryOn(changes, context),
    /** Steps until there is nothing to do; answers what each came to. */
    steps: async (changes: Partial<PartitionState>, context: DispatchContext = on.context) => {
      const all: DeclarationProgress[] = [];
      for (;;) {
        const carried = await carryOn(changes, context);
        if (carried === undefined) return all;
        all.push(carried);
        if (all.length > 20) throw new Error('it never ends');
      }
    },
  };
}

describe('steps of a partition that comes to a declaration', () => {
  it('go on where the last one stood, through parked jobs and then through all keys', async () => {
    const on = moving();
    const { park, steps } = await coming(on);
    const parked = await waiting(on, keysIn(1, 2, 2), 1, { resourceId: 'photos' });
    await park(parked.slice(0, 1));
    await park(parked.slice(1), 'former/books');
    for (const fairnessKey of keysIn(0, 2, 2_050))
      await on.store.announceLines({
        partition: 0,
        lines: [{ type: 'index', mode: 'queued', fairnessKey }],
        nowMs: on.time.nowMs,
      });
    const jobs = await waiting(on, keysIn(1, 2, 3));
    await on.advance(1);
    const context = { ...on.context, budget: { ...on.context.budget, carryMarks: 1 } };
    const all = await steps({ parks: true }, context);
    // Two for the marks, one that finds no more of them, and two for the keys, give or take one.
    expect(all.length).toBeLessThanOrEqual(6);
    expect(all.at(-1)).toMatchObject({ moved: 5, isDone: true });
    expect(on.homesOf([...parked, ...jobs])).toEqual(Array.from({ length: 5 }, () => 1));
    expect(on.asked('listParked').every(({ after }) => after?.startsWith('walk') !== true)).toBe(true);
  });
});

describe('a note of a partition that comes to a declaration', () => {
  const BEFORE = { version: 1, moved: 0, isDone: true, sinceVersion: 1, isHandedOver: true };

  it.each([
    ['shared what they share since an earlier one', 1, BEFORE],
    ['never shared anything else', 0, undefined],
  ])('is the one of its step alone where partitions %s', async (_, sharedSince, carried) => {
    const on = moving();
    const { step } = await coming(on);
    const deployed = { ...(on.context.deployed as NonNullable<DispatchContext['deployed']>), sharedSince };
    const came = await step({ carried }, { ...on.context, deployed });
    expect(on.asked('commit')).toHaveLength(1);
    expect([came?.sinceVersion, came?.isHandedOver]).toEqual([carried?.sinceVersion, carried?.isHandedOver]);
  });
});

describe('controls of a partition that comes to a declaration', () => {
  const control = (scope: string): Control => ({ scope, paused: true });

  it('go to where their keys live by now, if that is somewhere else', async () => {
    const on = moving();
    const { step } = await coming(on);
    const [[stays = ''], [moves = '']] = [keysIn(0, 2, 1), keysIn(1, 2, 1)];
    const controls = [control(`key/${stays}`), control(`key/${moves}`), control('type/resize')];
    await step({ controls });
    const adopted = on.asked('adoptControl').map((asked) => [asked.partition, asked.control.scope]);
    expect(adopted).toEqual([[1, `key/${moves}`]]);
    // The first one has all that there are.
    expect(on.asked('loadPartition')).toEqual([]);
  });
});

describe('parked jobs of a partition that comes to a declaration', () => {
  it('stay while an attempt of theirs counts here, and nothing is asked for none', async () => {
    const on = moving();
    const { park, step } = await coming(on);
    const jobs = await waiting(on, keysIn(1, 2, 1), 2, { resourceId: 'photos' });
    await park(jobs);
    const [held] = jobs;
    await step({ parks: true, reservations: [aReservation([{ id: held?.id ?? '' }])] });
    expect(on.homesOf(jobs)).toEqual([0, 1]);
    expect(on.asked('unpark')).toEqual([]);
  });

  it('stay where their type is gone: it may come back', async () => {
    const on = moving(1);
    const { park, step } = await coming(on);
    const jobs = await waiting(on, ['a'], 1, { type: 'convert', resourceId: 'photos' });
    await park(jobs);
    expect(await step({ parks: true })).toMatchObject({ moved: 0, isDone: true });
    expect(on.store.inspectLine(jobs[0]?.id ?? '')).toContain('blocked/');
  });

  it('are moved some at a time, and those that stay are not read one by one', async () => {
    const on = moving(1);
    const { park, step, steps } = await coming(on);
    const resource = { resourceId: 'photos' };
    const staying = await waiting(on, ['b'], 40, resource);
    const leaving = await waiting(on, ['a', 'c'], 30, { ...resource, type: 'index' });
    await park([...leaving, ...staying], 'album/photos');
    const context = { ...on.context, budget: { ...on.context.budget, carryJobs: 20 } };
    const all = await steps({ parks: true }, context);
    const moves = all.map(({ moved }, at) => moved - (all[at - 1]?.moved ?? 0));
    expect(Math.max(...moves)).toBeLessThan(40);
    expect(all.at(-1)).toMatchObject({ moved: 60, isDone: true });
    expect(leaving.filter(({ id }) => on.store.inspectLine(id)?.startsWith('blocked/'))).toEqual([]);
    expect(staying.every(({ id }) => on.store.inspectLine(id)?.startsWith('blocked/'))).toBe(true);
    const before = on.asked('readBlocked').length;
    await step({ parks: true }, { ...context, deployed: { ...on.context.deployed, version: 3 } as never });
    // Its first jobs, and what is behind the group.
    expect(on.asked('readBlocked').length - before).toBe(2);
  });
});
