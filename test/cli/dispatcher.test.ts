/** `fairlead dispatcher`: what it says, and how it ends. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { aDispatcherRecord } from '../fixtures/factories/dispatcher.ts';
import { counter } from './desk.ts';

/** Runs the command until it is told to end, as long after its start. */
async function running(ms: number, ...words: readonly string[]) {
  const at = counter();
  const end = new AbortController();
  const jobs = await at.put(at.job({ type: 'resize' }));
  const command = at.fairleadIn({ signal: end.signal }, 'dispatcher', '--name', 'one', ...words);
  // What the command loads is loaded when it is asked for.
  await Promise.all([
    import('../../lib/dispatch/resident/resident.ts'),
    import('../../lib/runtime/vitals.ts'),
    import('../../lib/runtime/process-metrics.ts'),
  ]);
  await at.advance(ms);
  const states = at.states(jobs);
  end.abort();
  const said = await at.finish(command);
  return { ...at, ...said, states };
}

describe('fairlead dispatcher', () => {
  afterEach(() => void vi.unstubAllEnvs());

  it('makes passes until it is told to end, and tells people what it does, a line each', async () => {
    const { code, out, error, states, open, store } = await running(1_000);
    expect({ code, error, states, open: open() }).toEqual({
      code: 0,
      error: '',
      states: ['claimed'],
      open: 0,
    });
    const lines = out.trim().split('\n');
    expect(
      lines.every((line) => /^\d\d:\d\d:\d\d dispatche[rd] /.test(line) || line.includes(' dispatched: ')),
    ).toBe(true);
    expect(lines.map((line) => line.slice(9).replace(/passes \d+/, 'passes N'))).toEqual([
      'dispatcher registered: dispatcherId one, partitions 1',
      'dispatcher changed its role: dispatcherId one, partition 0, from offline, to standby',
      'dispatcher changed its role: dispatcherId one, partition 0, from standby, to leader',
      'dispatched: partition 0, tookMs 0, admitted 1, settled 0, lostClaims 0',
      'dispatcher changed its role: dispatcherId one, partition 0, from leader, to standby, why stopped',
      'dispatcher changed its role: dispatcherId one, partition 0, from standby, to offline',
      'dispatcher ended: dispatcherId one, end stopped, passes N, admitted 1, settled 0',
    ]);
    expect(await store.readLeader(0)).toBeUndefined();
  });

  it('tells machines the same, a JSON object a line', async () => {
    const { out } = await running(1_000, '--json');
    const lines = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines[0]).toMatchObject({ level: 'info', message: 'dispatcher registered', dispatcherId: 'one' });
    expect(lines.at(-1)).toMatchObject({
      message: 'dispatcher ended',
      end: 'stopped',
      passes: expect.any(Number),
    });
  });

  it('tells metrics of its passes where it is told to, as functions do, and else none', async () => {
    const toldBy = async (...words: readonly string[]): Promise<readonly Record<string, unknown>[]> => {
      const { out } = await running(1_000, '--json', ...words);
      const lines = out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      return lines.filter((line) => '_aws' in line);
    };
    // Whoever does not say which may look at any of them.
    expect(JSON.stringify(await toldBy('--metrics'))).toMatch(/JobsClaimed.*PassDuration/s);
    vi.stubEnv('FAIRLEAD_METRICS', ' ');
    expect(JSON.stringify(await toldBy('--metrics'))).toMatch(/JobsClaimed.*PassDuration/s);
    vi.stubEnv('FAIRLEAD_METRICS', 'writeUnits');
    const always = await toldBy('--metrics');
    expect(always).toContainEqual(expect.objectContaining({ Scheduler: 'table', JobsWaiting: 0 }));
    expect(JSON.stringify(always)).not.toMatch(/JobsClaimed|JobsRunning|PassDuration/);
    vi.stubEnv('FAIRLEAD_METRICS', 'claimed,running');
    const told = await toldBy('--metrics');
    expect(told.flatMap(({ JobsClaimed }) => (JobsClaimed === undefined ? [] : [JobsClaimed]))).toEqual([1]);
    expect(told).toContainEqual(
      expect.objectContaining({ Scheduler: 'table', JobsRunning: 1, JobsWaiting: 0 }),
    );
    expect(await toldBy()).toEqual([]);
  });

  it('is refused a metric that there is not, and closes what it had opened', async () => {
    vi.stubEnv('FAIRLEAD_METRICS', 'claimed,runing');
    const { code, error } = await running(1_000, '--metrics');
    expect([code, error]).toEqual([
      2,
      expect.stringMatching(/FAIRLEAD_METRICS: "runing" is not a metric; Did you mean "running"\?/),
    ]);
  });

  it('makes passes as often as it is told', async () => {
    const { out } = await running(10_000, '--json', '--pass-every', '1s', '--poll', '100ms');
    const { passes } = JSON.parse(out.trim().split('\n').at(-1) ?? '') as { readonly passes: number };
    expect(passes).toBeGreaterThanOrEqual(9);
    // A lead begins with a few more: it reads its lines before it judges how much goes on.
    expect(passes).toBeLessThanOrEqual(15);
  });

  it('fails with 1 when another one of its name has begun', async () => {
    const at = counter();
    await at.store.keepDispatcher(
      aDispatcherRecord({ dispatcherId: 'one', incarnation: '9', expiresAtMs: at.time.nowMs + 1_000 }),
    );
    const { code, error } = await at.finish(at.fairlead('dispatcher', '--name', 'one'));
    expect(code).toBe(1);
    expect(error).toMatch(/another incarnation of this dispatcher has started/);
  });

  it.each([
    ['--poll', '250'],
    ['--poll', '0ms'],
    ['--pass-every', 'often'],
    ['--name', ''],
  ])('refuses %s %j with 2', async (option, value) => {
    const { fairlead, open } = counter();
    const { code, error } = await fairlead('dispatcher', option, value);
    expect([code, open()]).toEqual([2, 0]);
    expect(error).toMatch(/^fairlead: .*\n$/);
  });
});
