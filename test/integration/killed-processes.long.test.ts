/** SIGKILL of a worker process, 20 times: quiet and busy pools, with another worker and without, at all ages of a heartbeat. */
import { describe, expect, it } from 'vitest';
import { type Restart, restartOf, type Scene, SOONEST_MS } from './killing.ts';

const TIMES = 20;
/** Side by side: each waits for a lease. */
const TOGETHER = 4;
const TEST_MS = 1_200_000;

describe('a job whose worker process is killed', () => {
  it(`begins again within lease + 5 s and a pass, ${TIMES} times of ${TIMES}`, {
    timeout: TEST_MS,
  }, async () => {
    const scenes = Array.from(
      { length: TIMES },
      (_, at): Scene => ({
        isBusy: at % 2 === 1,
        hasPeer: at % 4 < 2,
        killedAfterMs: 1_000 + at * 700,
      }),
    );
    const figures: Restart[] = [];
    for (let from = 0; from < TIMES; from += TOGETHER) {
      const together = scenes.slice(from, from + TOGETHER);
      const restarts = await Promise.all(together.map(restartOf));
      figures.push(...restarts);
      for (const [at, { isBusy, hasPeer, killedAfterMs }] of together.entries()) {
        console.info(
          `${from + at + 1}: ${isBusy ? 'busy' : 'quiet'}, ${hasPeer ? 'with' : 'without'} another worker, killed ${killedAfterMs} ms into its job: began again after ${restarts[at]?.afterMs} ms, of ${restarts[at]?.latestMs} at most`,
        );
      }
    }
    expect(figures.filter(({ afterMs, latestMs }) => afterMs > latestMs)).toEqual([]);
    expect(figures.filter(({ afterMs }) => afterMs < SOONEST_MS)).toEqual([]);
    expect(figures).toHaveLength(TIMES);
  });
});
