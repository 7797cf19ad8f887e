/** What the command line says of the dispatchers that make the passes. */
import { describe, expect, it } from 'vitest';
import { residentHolder } from '../../lib/dispatch/lead/lead.ts';
import { aDispatcherRecord } from '../fixtures/factories/dispatcher.ts';
import { counter } from './desk.ts';

const on = () =>
  counter({
    pool: {
      types: { resize: { conflictGroup: 'album', timeoutMs: 30_000 } },
      fleets: { images: { types: ['resize'], slots: 4 } },
      partitions: 2,
    },
  });

describe('fairlead dispatchers', () => {
  it('says that functions make the passes where no dispatcher runs on, and which of them leads', async () => {
    const at = on();
    const untilMs = at.time.nowMs + 10_000;
    await at.store.lead({ partition: 0, holder: 'function-1', nowMs: at.time.nowMs, untilMs });
    const { code, out, error } = await at.fairlead('dispatchers', '--wide');
    expect({ code, error }).toEqual({ code: 0, error: '' });
    expect(out).toContain('no long-running dispatcher: functions run the passes');
    expect(out).toMatch(/ 0 .* function .* function-1 .* 10 s .* 0 .* - /);
    expect(out).toMatch(/ 1 .* nobody .* - .* - .* 0 .* - /);
    await at.advance(10_000);
    expect((await at.fairlead('dispatchers', '--wide')).out).toMatch(/ 0 .* nobody .* - .* - .* 0 .* - /);
  });

  it('shows what each that runs on leads, stands by for, and how busy it is, and what waits where', async () => {
    const at = on();
    const nowMs = at.time.nowMs;
    const names = ['east', 'west/1'];
    const load = {
      waiting: { jobs: 12, isLeast: true },
      waitedMs: 90_000,
      busy: 0.251,
      eventLoopLagMs: 4,
      memoryBytes: 96 * 1024 * 1024,
    };
    for (const dispatcherId of names) {
      const expiresAtMs = nowMs + 15_000;
      const leads = dispatcherId === 'east' ? [0] : [];
      await at.store.keepDispatcher(
        aDispatcherRecord({ dispatcherId, leads, expiresAtMs, ...(leads.length === 0 ? {} : { load }) }),
      );
    }
    await at.store.lead({
      partition: 0,
      holder: residentHolder({ dispatcherId: 'west/1', incarnation: '1' }),
      nowMs,
      untilMs: nowMs + 20_000,
    });
    await at.put(at.job(), at.job());
    await at.advance(5_000);
    const { out } = await at.fairlead('dispatchers', '--wide');
    expect(out).toMatch(/ east .* 0 .* 12 or more .* 1.5 min .* 25.1 % .* 4 ms .* 96 MB .* 10 s /);
    expect(out).toMatch(/ west\/1 /);
    expect(out).toMatch(/ 0 .* resident .* west\/1 .* 15 s .* 2 .* 5 s /);
    const data = (await at.data('dispatchers')) as {
      readonly dispatchers: readonly { readonly standsBy: readonly number[] }[];
      readonly partitions: unknown;
    };
    expect(data.dispatchers).toMatchObject([
      { dispatcherId: 'east', leads: [0], load },
      { dispatcherId: 'west/1', leads: [] },
    ]);
    expect(data.dispatchers.flatMap(({ standsBy }) => standsBy).sort()).toEqual([0, 1]);
    expect(data.partitions).toMatchObject([
      {
        partition: 0,
        ledBy: 'resident',
        leader: 'west/1',
        untilMs: nowMs + 20_000,
        depth: { jobs: 2, isLeast: false },
        waitedMs: 5_000,
      },
      { partition: 1, ledBy: 'nobody', depth: { jobs: 0, isLeast: false } },
    ]);
  });

  it('counts at least so many where more wait than are counted, or some are parked', async () => {
    const at = on();
    await at.put(...Array.from({ length: 130 }, () => at.job()));
    expect(await at.data('dispatchers')).toMatchObject({
      partitions: [{ depth: { jobs: 100, isLeast: true } }, { depth: { jobs: 0 } }],
    });
    await at.put(...Array.from({ length: 40 }, () => at.job({ fairnessKey: 'other', resourceId: 'cats' })));
    await at.pass();
    expect((await at.fairlead('dispatchers', '--wide')).out).toContain('or more');
  });

  it('refuses words that it does not know', async () => {
    const { fairlead } = on();
    expect((await fairlead('dispatchers', 'all')).code).toBe(2);
  });
});
