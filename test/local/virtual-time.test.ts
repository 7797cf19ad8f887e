/** Time that passes only when it is told to. */
import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../lib/local/virtual-time.ts';

describe('virtual time', () => {
  it('does what is due at one instant one after the other, each to its end', async () => {
    const time = new VirtualTime(1_000);
    const seen: string[] = [];
    const work = async (name: string): Promise<void> => {
      await time.sleep(500);
      seen.push(`${name} begins`);
      for (let turn = 0; turn < 10; turn += 1) await undefined;
      seen.push(`${name} ends`);
    };
    void work('one');
    void work('other');
    await time.runDue();
    expect(seen).toEqual([]);
    time.moveTo(1_500);
    await time.runDue();
    expect(seen).toEqual(['one begins', 'one ends', 'other begins', 'other ends']);
  });

  it('knows when something happens next, and forgets sleeps that nobody waits for any more', async () => {
    const time = new VirtualTime(0);
    const early = new AbortController();
    void time.sleep(10, early.signal);
    void time.sleep(20);
    expect(time.nextAtMs).toBe(10);
    early.abort();
    expect(time.nextAtMs).toBe(20);
    expect(new VirtualTime(0).nextAtMs).toBeUndefined();
  });

  it('leaves time out: the clock goes on, what is to happen is as far away as before, and nobody waited', async () => {
    const time = new VirtualTime(1_000);
    const clock = time.clock();
    let isOver = false;
    void time.sleep(300).then(() => {
      isOver = true;
    });
    const before = clock.monotonicMs();
    time.skip(86_400_000);
    expect([clock.nowMs(), clock.monotonicMs() - before, time.nextAtMs]).toEqual([86_401_000, 0, 86_401_300]);
    expect(await time.run({ untilMs: 86_401_299 })).toBe('until');
    expect(isOver).toBe(false);
    expect(await time.run({ untilMs: 86_401_300 })).toBe('idle');
    expect([isOver, clock.monotonicMs() - before]).toEqual([true, 300]);
  });
});
