import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { encodeConfiguration } from '../../lib/declaration/codec.ts';
import { declare } from '../../lib/deploy/declare.ts';
import { type DeclaredSchedules, packDeclaredSchedules } from '../../lib/deploy/declared-schedules.ts';
import { pauseSchedule, putSchedule } from '../../lib/schedules/schedules.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { queueUrlsFor } from '../fixtures/declared.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { stage, storeWith } from '../stage/stage.ts';

const POOL: PoolInput = {
  types: { resize: { timeoutMs: 30_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 4 } },
};
const HOURLY = { every: '1h', type: 'resize' } as const;
const DAILY = { cron: '@daily', type: 'resize' } as const;

function scene() {
  const on = stage({ pool: POOL });
  const configuration = resolveConfiguration(POOL);
  let deployments = 0;
  const nextName = (): string => {
    deployments += 1;
    return `d${deployments}`;
  };
  const deploy = (schedules: DeclaredSchedules, store: JobStore = on.store, deployment = nextName()) =>
    on.finish(
      declare(
        { store, queue: on.queue, nowMs: on.clock.nowMs, log: on.log },
        {
          pool: encodeConfiguration(configuration),
          queueUrls: queueUrlsFor(configuration),
          schedules: packDeclaredSchedules(schedules),
          deployment,
        },
      ),
    );
  const ids = () => [...on.store.everySchedule()].map(({ state }) => state.id).sort();
  const stateOf = async (id: string) => (await on.store.getSchedules({ ids: [id] }))[0]?.state;
  return { on, deploy, ids, stateOf };
}

describe('a deployment', () => {
  it('adds, changes and removes the schedules that deployments have made', async () => {
    const { deploy, ids, stateOf } = scene();
    await deploy({ a: HOURLY, b: DAILY });
    expect(ids()).toEqual(['a', 'b']);
    const first = (await stateOf('b'))?.revision ?? 0;
    await deploy({ b: HOURLY, c: DAILY });
    expect(ids()).toEqual(['b', 'c']);
    expect(await stateOf('b')).toMatchObject({ revision: first + 1, isDeclared: true });
    await deploy({});
    expect(ids()).toEqual([]);
  });

  it('leaves what it does not change as it is: its time, its history, and a pause', async () => {
    const { on, deploy, stateOf } = scene();
    await deploy({ a: HOURLY });
    const before = await stateOf('a');
    await on.advance(600_000);
    await deploy({ a: HOURLY, b: DAILY });
    expect(await stateOf('a')).toEqual(before);
    await on.finish(pauseSchedule(on.operator(), 'a'));
    await deploy({ a: { ...HOURLY, priority: 3 } });
    expect(await stateOf('a')).toMatchObject({ stopped: 'asked' });
  });

  it('never touches a schedule that was made at run time, and refuses its name before anything is declared', async () => {
    const { on, deploy, ids, stateOf } = scene();
    await on.finish(putSchedule(on.operator(), 'mine', aScheduleSpec(), false));
    const before = await stateOf('mine');
    await expect(deploy({ mine: HOURLY, other: HOURLY })).rejects.toMatchObject({
      name: 'ConfigurationError',
      value: 'mine',
    });
    expect(await on.store.readDeclaredVersion()).toBe(0);
    await deploy({ other: HOURLY });
    await deploy({});
    expect(ids()).toEqual(['mine']);
    expect(await stateOf('mine')).toEqual(before);
  });

  it('fails where somebody takes a name while it runs, and makes all others', async () => {
    const { on, deploy, ids, stateOf } = scene();
    const store = storeWith(on.store, {
      putDeclaration: async (request) => {
        await putSchedule(on.operator(), 'b', aScheduleSpec(), false);
        return on.store.putDeclaration(request);
      },
    });
    await expect(deploy({ a: HOURLY, b: DAILY, c: DAILY }, store, 'raced')).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/^schedules: .*got "b".*another id/),
    });
    expect(ids()).toEqual(['a', 'b', 'c']);
    expect(await stateOf('b')).toMatchObject({ isDeclared: false });
    await deploy({});
    expect(ids()).toEqual(['b']);
  });

  it('shows what a wrong field has', async () => {
    const { deploy } = scene();
    await expect(deploy({ a: Object.assign({ timeZone: 'Europe/Berlin' }, HOURLY) })).rejects.toMatchObject({
      message: 'schedules.a.timeZone: is not a field of a schedule, got "Europe/Berlin". Leave it out.',
    });
  });

  it('refuses a bad schedule before anything is declared', async () => {
    const { on, deploy, ids } = scene();
    await expect(deploy({ a: HOURLY, b: { cron: '0 0 30 2 *', type: 'resize' } })).rejects.toMatchObject({
      name: 'ConfigurationError',
      field: 'schedules.b.cron',
    });
    expect([await on.store.readDeclaredVersion(), ids()]).toEqual([0, []]);
  });
});
