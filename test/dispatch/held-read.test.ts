/** A job that a place holds still though it waits anew: the hint of its end is late, and a read of its line shows it. */
import { expect, it } from 'vitest';
import type { RequestOf } from '../../lib/store/contract.ts';
import { type Stage, stage, storeWith } from './stage.ts';

const twoSlots = (): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: 600_000, defaultCostMs: 1_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 2 } },
    },
  });

it('a job that waits anew while it is held stands in its place once its attempt is settled', async () => {
  const on = twoSlots();
  const reserved: string[] = [];
  const store = storeWith(on.store, {
    commit: (request: RequestOf<'commit'>) => {
      for (const { jobs } of request.commit.reserve) for (const { id } of jobs.values()) reserved.push(id);
      return on.store.commit(request);
    },
  });
  const context = { ...on.main, store };
  await on.pass({}, context);
  await on.advance(20_000);
  const [again, first] = [on.job({ id: 'again' }), on.job({ id: 'first' })];
  await on.put(again, first);
  await on.pass({ jobs: [again, first], reason: 'stream' }, context);
  const begun = await on.startAll('images');
  const running = (id: string) => {
    const found = begun.find(({ job }) => job.id === id);
    if (found === undefined) throw new Error(`${id} did not start`);
    return found;
  };
  await on.advance(1_000);
  const failed = await on.end(running('again'), {
    kind: 'retry',
    error: { name: 'Busy', message: 'try again' },
    runAtMs: on.time.nowMs + 30_000,
  });
  const waiting = Array.from({ length: 5 }, (_, at) => on.job({ id: `waits-${at}` }));
  await on.put(...waiting);
  await on.advance(1_000);
  // An operator moves it to now. Of that no hint comes, and of its failure a late one.
  const present = on.store.inspectJob('again');
  if (present === undefined) throw new Error('gone');
  await on.store.retimeJob({ job: present, runAtMs: on.time.nowMs - 1, nowMs: on.time.nowMs });
  await on.advance(1_000);
  await on.pass(
    { jobs: [await on.end(running('first')), ...waiting.slice(0, 1)], reason: 'stream' },
    context,
  );
  const runs = [...(await on.startAll('images'))];
  await on.advance(1_000);
  await on.pass({ jobs: [failed], reason: 'stream' }, context);
  runs.push(...(await on.startAll('images')));
  const late = Array.from({ length: 4 }, (_, at) => on.job({ id: `late-${at}` }));
  await on.put(...late);
  await on.pass({ jobs: late, reason: 'stream' }, context);
  for (let ends = 0; ends < 6; ends += 1) {
    await on.advance(1_000);
    const next = runs.shift();
    if (next === undefined) throw new Error('nothing runs');
    await on.pass({ jobs: [await on.end(next)], reason: 'stream' }, context);
    runs.push(...(await on.startAll('images')));
  }
  expect(reserved.indexOf('again', 2)).toBeGreaterThan(0);
  expect(reserved.indexOf('again', 2)).toBeLessThan(reserved.indexOf('late-0'));
});
