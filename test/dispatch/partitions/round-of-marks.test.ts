/**
 * What a lost hint leaves parked behind a conflict key that nothing holds is found by the round over all marks. A hundred of them are
 * looked at each minute, and where the round goes on is remembered by the process alone.
 */
import { expect, it } from 'vitest';
import { stage } from '../../stage/stage.ts';

const ALBUMS = 150;
const MINUTES_MAX = 60;

it.each([
  [1, 5],
  [2, MINUTES_MAX - 1],
])(
  'is found by %d dispatchers in turn within %d minutes, of 150 held conflict keys',
  async (count, most) => {
    const on = stage({
      pool: {
        types: { resize: { conflictGroup: 'album', defaultCostMs: 1_000, timeoutMs: 24 * 3_600_000 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: ALBUMS + 10 } },
      },
    });
    const others = Array.from({ length: ALBUMS * 10 }, (_, at) =>
      on.job({ resourceId: `album-${String(at % ALBUMS).padStart(4, '0')}` }),
    );
    const own = Array.from({ length: 20 }, () => on.job({ resourceId: 'zzz', fairnessKey: 'own' }));
    await on.put(...others, ...own);
    await on.pass({ jobs: own, reason: 'stream' });
    const started = await on.startAll('images');
    const runs = started.find(({ job }) => job.resourceId === 'zzz');
    if (runs === undefined || started.length !== ALBUMS + 1) throw new Error('not all albums have started');
    // Its key is paused, and the job ends: the first of those that are parked stand in their ready line again.
    await on.store.changeControl({ partition: 0, scope: 'key/own', change: { paused: true } });
    await on.pass({ jobs: [await on.end(runs)], reason: 'stream' });
    // These are cancelled, of which no hint arrives, and the key goes on.
    const line = await on.store.readLine({
      partition: 0,
      line: { type: 'resize', mode: 'queued', fairnessKey: 'own' },
      limit: 50,
    });
    for (const { id } of line.jobs)
      await on.store.cancelJob({ jobId: id, nowMs: on.time.nowMs, expiresAtMs: on.time.nowMs + 1_000_000 });
    await on.store.changeControl({ partition: 0, scope: 'key/own', change: { paused: false } });
    const waits = own.filter(({ id }) => on.stateOf(id) === 'pending');
    expect(waits.length).toBeGreaterThan(0);
    // Nothing holds their conflict key, nine slots are free, and each minute's tick makes a pass.
    const dispatchers = Array.from({ length: count }, () => on.dispatcher());
    let minutes = 0;
    for (; minutes < MINUTES_MAX; minutes += 1) {
      await on.pass({}, dispatchers[minutes % count]);
      if (waits.some(({ id }) => on.stateOf(id) === 'claimed')) break;
      await on.advance(60_000);
    }
    expect(minutes).toBeLessThanOrEqual(most);
  },
  120_000,
);
