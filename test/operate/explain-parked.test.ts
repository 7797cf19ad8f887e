/** What is told of a job that stands in a blocked line: jobs that stand there before it are before it. */
import { describe, expect, it } from 'vitest';
import { explainJob, type LiveExplanation } from '../../lib/operate/explain.ts';
import { type Stage, stage } from '../stage/stage.ts';

const JOBS = 200;

/** As many jobs for one resource, of which one runs; and what is told of the one whose turn comes last. */
async function crowd(): Promise<{ readonly on: Stage; readonly told: LiveExplanation }> {
  const on = stage({
    pool: {
      types: { resize: { conflictGroup: 'album', defaultCostMs: 60_000, timeoutMs: 60_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 4 } },
    },
  });
  const jobs = Array.from({ length: JOBS }, () => on.job({ resourceId: 'one' }));
  await on.put(...jobs);
  await on.pass({ jobs, reason: 'stream' });
  const last =
    jobs
      .map(({ id }) => id)
      .sort()
      .at(-1) ?? '';
  const told = await explainJob(on.operator(), last);
  if (told === undefined) throw new Error('there is no such job');
  return { on, told };
}

describe('of the last of 200 jobs for one resource, explain', () => {
  it('counts those before it, or says that there are more', async () => {
    const { told } = await crowd();
    // One runs; all others come first.
    expect(told.position === JOBS - 2 || told.positionIsLeast || told.partial).toBe(true);
  });

  it('says no instant as the latest at which it starts, and then it starts later', async () => {
    const { on, told } = await crowd();
    let startedAtMs: number | undefined;
    while (startedAtMs === undefined) {
      const [started] = await on.startAll('images');
      if (started === undefined) throw new Error('nothing started');
      if (started.job.id === told.id) startedAtMs = on.time.nowMs;
      await on.advance(59_000);
      await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
    }
    const latestMs = (told.latestStartAtMs ?? Infinity) - told.explainedAtMs;
    expect(startedAtMs - told.explainedAtMs).toBeLessThanOrEqual(latestMs);
  });
});
