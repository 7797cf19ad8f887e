/** How jobs of keys that live somewhere else are moved: all of them, in bounded steps, and none that still counts here. */
import { describe, expect, it } from 'vitest';
import { CommitLostError } from '../../../lib/dispatch/partition/commits.ts';
import { moveForDeclaration } from '../../../lib/dispatch/partitions/carry.ts';
import {
  type InFlight,
  inFlightOf,
  moveMisplaced,
  moveMisplacedStep,
  moveToOwnPartition,
  type Strangers,
  type WalkCursor,
} from '../../../lib/dispatch/partitions/rehome.ts';
import type { MisplacedMemory } from '../../../lib/dispatch/view/partition-cache.ts';
import { ANNOUNCE_EVERY_MS } from '../../../lib/submit/submit.ts';
import {
  commitsOf,
  DEPLOYED,
  keysIn,
  MINUTE_MS,
  type Moving,
  moving,
  NO_JOBS,
  waiting,
} from '../../stage/moving.ts';

const NOTHING_HELD: InFlight = { held: NO_JOBS, confirm: async () => {} };

/** Steps of a walk, until it has come to its end: how many were moved, and where the next one began. */
async function walk(on: Moving, from?: WalkCursor, held = NO_JOBS) {
  const steps: { readonly moved: number; readonly next: WalkCursor | undefined }[] = [];
  for (let next = from, isFirst = true; isFirst || next !== undefined; isFirst = false) {
    const step = await on.finish(moveMisplacedStep(on.context, 0, { ...NOTHING_HELD, held }, next));
    steps.push(step);
    next = step.next;
    if (steps.length > 60) throw new Error('the walk never ends');
  }
  return steps;
}

describe('a walk through the keys lines', () => {
  it('comes back to a line of which it has moved a part, among the keys where it stands', async () => {
    const on = moving();
    const keys = keysIn(1, 2, 120);
    const jobs = await waiting(on, keys);
    const many = await waiting(on, keys.slice(-1), 150);
    await on.advance(1);
    const steps = await walk(on, { type: 'resize' });
    expect(steps[0]).toEqual({ moved: 219, next: { type: 'resize', after: expect.any(String) } });
    expect(steps.reduce((sum, { moved }) => sum + moved, 0)).toBe(270);
    expect(new Set(on.homesOf([...jobs, ...many]))).toEqual(new Set([1]));
    // None of the first hundred keys is read again.
    expect(
      on.asked('readKeys').filter(({ type, after }) => type === 'resize' && after === undefined),
    ).toHaveLength(1);
  });

  it('comes back to a line of which it has moved a part, also where that is not the last one that it read', async () => {
    const on = moving();
    const [first = '', ...others] = keysIn(1, 2, 4);
    const jobs = [...(await waiting(on, [first], 150)), ...(await waiting(on, others))];
    await walk(on);
    expect(new Set(on.homesOf(jobs))).toEqual(new Set([1]));
  });

  it('reads a bounded number of keys in a step, of which all live here, and goes on behind them', async () => {
    const on = moving();
    const { store } = on;
    for (const fairnessKey of keysIn(0, 2, 2_050))
      await store.announceLines({
        partition: 0,
        lines: [{ type: 'index', mode: 'queued', fairnessKey }],
        nowMs: on.time.nowMs,
      });
    const jobs = await waiting(on, keysIn(1, 2, 3));
    await on.advance(1);
    const steps = await walk(on);
    expect(steps.length).toBe(2);
    expect(steps[0]).toEqual({ moved: 0, next: { type: 'index', after: expect.any(String) } });
    expect(on.asked('readKeys').length).toBe(22);
    // Lines of keys that live here are none of its business.
    expect(on.asked('readLine').length).toBe(jobs.length);
    expect(new Set(on.homesOf(jobs))).toEqual(new Set([1]));
  });

  it('moves jobs of types that are gone, too: they may come back', async () => {
    const on = moving(2, ['convert']);
    const jobs = await waiting(on, keysIn(1, 2, 2), 1, { type: 'convert' });
    await walk(on);
    expect(on.homesOf(jobs)).toEqual([1, 1]);
  });

  it('leaves a job whose earlier attempt still counts here', async () => {
    const on = moving();
    const [held, free] = await waiting(on, keysIn(1, 2, 1), 2);
    if (held === undefined || free === undefined) throw new Error('no jobs');
    await walk(on, undefined, new Set([held.id]));
    expect(on.homesOf([held, free])).toEqual([0, 1]);
  });

  it('reads nothing where no key has moved', async () => {
    const on = moving(1);
    for (const deployed of [undefined, DEPLOYED])
      expect(await moveMisplacedStep({ ...on.context, deployed }, 0, NOTHING_HELD, undefined)).toEqual({
        moved: 0,
        next: undefined,
      });
    expect(on.asked('readKeys')).toEqual([]);
  });
});

describe('jobs that are sent home', () => {
  it('are none where another commit came first: it may have started them since what is in flight was read', async () => {
    const on = moving();
    const jobs = await waiting(on, keysIn(1, 2, 2));
    const state = await on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs });
    await on.commit({});
    const late = (): InFlight => inFlightOf(NO_JOBS, commitsOf(on, state));
    await expect(on.finish(moveToOwnPartition(on.context, jobs, late()))).rejects.toThrow(CommitLostError);
    await expect(on.finish(moveMisplacedStep(on.context, 0, late(), undefined))).rejects.toThrow(
      CommitLostError,
    );
    expect(on.homesOf(jobs)).toEqual([0, 0]);
    expect(on.asked('rehome')).toEqual([]);
  });
});

describe('what a pass meets that lives somewhere else', () => {
  const memory = (): MisplacedMemory => ({ lookedAtMs: new Map(), walkedAtMs: -Infinity });
  /** Keys as a pass reads them of a keys line. */
  const met = async (on: Moving, partition = 0): Promise<Strangers['keys']> => {
    const { keys } = await on.store.readKeys({ partition, type: 'resize', limit: 100 });
    return keys.map((key) => ({ type: 'resize', key }));
  };
  const send = (
    on: Moving,
    strangers: Partial<Strangers>,
    known: MisplacedMemory,
    partition = 0,
    held = NO_JOBS,
  ) =>
    on.finish(
      moveMisplaced(
        on.context,
        partition,
        { ...NOTHING_HELD, held },
        { jobs: [], keys: [], ...strangers },
        known,
        on.time.nowMs,
      ),
    );

  it('are keys, some at a time, each once a minute, and again at once where it got somewhere', async () => {
    const on = moving();
    const known = memory();
    const jobs = await waiting(on, keysIn(1, 2, 30));
    await on.advance(1);
    const keys = await met(on);
    expect(await send(on, { keys }, known)).toBe(20);
    expect(await send(on, { keys }, known)).toBe(0);
    expect(await send(on, { keys }, known)).toBe(10);
    expect(new Set(on.homesOf(jobs))).toEqual(new Set([1]));
    for (let round = 0; round < 3; round += 1) await send(on, { keys }, known);
    const before = on.asked('readLine').length;
    await send(on, { keys }, known);
    expect(on.asked('readLine').length).toBe(before);
    await on.advance(MINUTE_MS);
    await send(on, { keys }, known);
    expect(on.asked('readLine').length).toBe(before + 20);
  });

  it('are lines that are retired once they are empty and nobody can announce them late', async () => {
    const on = moving();
    const [moved, ...staying] = await waiting(on, keysIn(1, 2, 1), 3);
    if (moved === undefined) throw new Error('no job');
    await on.advance(1);
    const isHeld = new Set(staying.map(({ id }) => id));
    await send(on, { keys: await met(on) }, memory(), 0, isHeld);
    await send(on, { keys: await met(on) }, memory());
    // They may be on their way to it.
    await send(on, { keys: await met(on) }, memory());
    expect(await met(on)).toHaveLength(1);
    await on.advance(3 * ANNOUNCE_EVERY_MS);
    const more = await waiting(on, [moved.fairnessKey]);
    await on.store.rehome({ jobs: more, partition: 0, nowMs: on.time.nowMs });
    await send(on, { keys: await met(on) }, memory());
    expect(on.asked('retireLine')).toHaveLength(0);
    await on.advance(3 * ANNOUNCE_EVERY_MS);
    await send(on, { keys: await met(on) }, memory());
    await on.advance(1);
    expect(await met(on)).toHaveLength(0);
  });

  it('are no lines to retire in which a job stands that counts here still', async () => {
    const on = moving();
    const [job] = await waiting(on, keysIn(1, 2, 1));
    await on.advance(3 * ANNOUNCE_EVERY_MS);
    await send(on, { keys: await met(on) }, memory(), 0, new Set([job?.id ?? '']));
    expect(on.asked('readLine')).not.toEqual([]);
    expect(on.asked('retireLine')).toEqual([]);
  });

  it('is all that stands in a partition that is none any more: it is walked through every few minutes', async () => {
    const on = moving(1);
    const known = memory();
    const late = async () => waiting(on, ['late'], 1, { partition: 1 });
    const first = await late();
    expect(await send(on, {}, known, 1)).toBe(1);
    expect(on.homesOf(first)).toEqual([0]);
    // Where it got somewhere there may be more.
    const second = await late();
    expect(await send(on, {}, known, 1)).toBe(1);
    expect(on.homesOf(second)).toEqual([0]);
    expect(await send(on, {}, known, 1)).toBe(0);
    const third = await late();
    expect(await send(on, {}, known, 1)).toBe(0);
    await on.advance(5 * MINUTE_MS);
    expect(await send(on, {}, known, 1)).toBe(1);
    expect(on.homesOf(third)).toEqual([0]);
    const reads = on.asked('readKeys').length;
    await on.advance(10 * MINUTE_MS);
    await send(on, {}, known, 0);
    expect(on.asked('readKeys').length).toBe(reads);
  });
});

describe('parked jobs', () => {
  it('of a key that has moved go home, and their lines here are not announced again', async () => {
    const on = moving();
    const [moved = '', stays = ''] = [...keysIn(1, 2, 1), ...keysIn(0, 2, 1)];
    const jobs = await waiting(on, [moved, stays], 1, { resourceId: 'photos' });
    await on.store.markParked({ partition: 0, conflictKeys: ['former/photos'], nowMs: on.time.nowMs });
    const { version } = on.store.inspect(0).summary;
    await on.store.park({ partition: 0, version, jobs, conflictKey: 'former/photos' });
    await on.advance(1);
    const state = { ...(await on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs })), parks: true };
    const carried = await on.finish(moveForDeclaration(on.context, 0, commitsOf(on, state), state));
    expect(carried).toMatchObject({ moved: 2 });
    expect(on.homesOf(jobs)).toEqual([1, 0]);
    const announced = on.asked('announceLines').map(({ partition, lines }) => ({ partition, lines }));
    expect(announced).toEqual([
      { partition: 1, lines: [expect.objectContaining({ fairnessKey: moved })] },
      { partition: 0, lines: [expect.objectContaining({ fairnessKey: stays })] },
    ]);
  });
});

describe('a partition that comes to the declaration', () => {
  it('moves nothing before it has noted that: whoever has it by now may know of an attempt that still counts', async () => {
    const on = moving();
    const jobs = await waiting(on, keysIn(1, 2, 1));
    const state = await on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs });
    await on.advance(2 * MINUTE_MS);
    await on.commit({});
    await expect(on.finish(moveForDeclaration(on.context, 0, commitsOf(on, state), state))).rejects.toThrow(
      CommitLostError,
    );
    expect(on.homesOf(jobs)).toEqual([0]);
  });
});
