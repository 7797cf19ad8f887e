/** What becomes of marks and lines while jobs are parked for long. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { dispatch } from '../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { ANNOUNCE_EVERY_MS } from '../../lib/submit/submit.ts';
import { type Stage, type Started, stage, storeWith } from '../stage/stage.ts';

const KEY = 'tenant-a';

const conflicting = (): Stage =>
  stage({
    pool: {
      types: { resize: { defaultCostMs: 1_000, timeoutMs: 3_600_000, conflictGroup: 'album' } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 2 } },
    },
    budget: { parkKept: 1 },
  });

/** A job of a conflict key runs, and others are parked behind it. */
async function parked(): Promise<{
  readonly on: Stage;
  readonly context: DispatchContext;
  readonly running: Started;
  readonly photos: readonly Job[];
}> {
  const on = conflicting();
  const context = on.dispatcher();
  const photos = await on.put(...someOf(on));
  await on.pass({ jobs: photos, reason: 'stream' }, context);
  const [running] = await on.startAll('images');
  if (running === undefined) throw new Error('nothing started');
  return { on, context, running, photos };
}

const someOf = (on: Stage): readonly Job[] =>
  Array.from({ length: 10 }, () => on.job({ fairnessKey: KEY, resourceId: 'photos' }));

const isParked = (on: Stage, { id }: Job): boolean =>
  on.store.inspectLine(id)?.startsWith('blocked/') === true;

describe('while jobs are parked', () => {
  it('their mark outlives a look that does not see what was parked since', async () => {
    const { on, context, running } = await parked();
    await on.advance(50_000);
    const later = await on.put(...someOf(on));
    await on.pass({ jobs: later, reason: 'stream' }, context);
    expect(later.some((job) => isParked(on, job))).toBe(true);
    await on.advance(15_000);
    const store = storeWith(on.store, { readBlocked: async () => ({ jobs: [] }) });
    await on.pass({ jobs: [await on.end(running)], reason: 'stream' }, { ...context, store });
    expect(on.store.inspect(0).parked.size).toBe(1);
  });

  it('their mark is not taken away by a pass whose commit comes after the parking of one that stood still', async () => {
    const on = conflicting();
    const photos = await on.put(...someOf(on));
    let parking: ReturnType<typeof on.store.park> | undefined;
    const frozen = storeWith(on.store, {
      park: async (request) => {
        if (parking !== undefined) return on.store.park(request);
        await on.main.clock.sleep(61_000);
        const [running] = await on.startAll('images');
        if (running === undefined) throw new Error('nothing started');
        const store = storeWith(on.store, {
          commit: async (commit) => {
            parking ??= on.store.park(request);
            await parking;
            return on.store.commit(commit);
          },
        });
        const ended = { jobs: [await on.end(running)], reason: 'stream' } as const;
        await dispatch({ ...on.dispatcher(), store }, 0, ended);
        return (await parking) ?? on.store.park(request);
      },
    });
    await on.pass({ jobs: photos, reason: 'stream' }, { ...on.dispatcher(), store: frozen });
    expect(photos.some((job) => isParked(on, job))).toBe(true);
    expect(on.store.inspect(0).parked.size).toBe(1);
  });

  it('a line that is retired meanwhile is announced for those that come back to it', async () => {
    const { on, context, running, photos } = await parked();
    const isAnnounced = (): boolean =>
      (on.store.inspect(0).backlogs.get(KEY)?.get('resize')?.value.lines ?? []).length > 0;
    const cancelled: Job[] = [];
    for (const { id } of photos.filter((job) => !isParked(on, job))) {
      const outcome = await on.store.cancelJob({
        jobId: id,
        nowMs: on.time.nowMs,
        expiresAtMs: on.time.nowMs + ANNOUNCE_EVERY_MS,
      });
      if (outcome.kind === 'cancelled') cancelled.push(outcome.job);
    }
    await on.pass({ jobs: cancelled, reason: 'stream' }, context);
    for (let minute = 0; minute < 12; minute += 1) {
      await on.advance(60_000);
      await on.pass({}, on.dispatcher());
    }
    expect(isAnnounced()).toBe(false);
    await on.store.changeControl({ partition: 0, scope: 'type/resize', change: { paused: true } });
    await on.pass({ jobs: [await on.end(running)], reason: 'stream' }, on.dispatcher());
    const [first] = photos.filter((job) => on.stateOf(job.id) === 'pending');
    expect(first !== undefined && isParked(on, first)).toBe(false);
    expect(isAnnounced()).toBe(true);
  });
});
