/** Real redeploys while jobs wait, are claimed, and run: tier, conflict group and fleet change under them. */

import { EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import { describe, expect, it } from 'vitest';
import { NotFoundError } from '../../lib/client/errors.ts';
import type { ScheduleView } from '../../lib/client/schedules.ts';
import { clientConfiguration } from '../contract/aws.ts';
import { hasSucceeded, intervalOf, LOOK_EVERY_MS, redeployedStack, TEST_MS, WAIT_MS } from './redeploys.ts';

describe('a stack that is redeployed', () => {
  const on = redeployedStack('FIRST');

  const schedules = async (): Promise<Readonly<Record<string, ScheduleView>>> => {
    const all: Record<string, ScheduleView> = {};
    for await (const each of on.client().schedules.list()) all[each.id] = each;
    return all;
  };
  const cronOf = (view: ScheduleView | undefined): unknown => view?.spec.when;

  it(
    'makes the schedules that it declares, and one that the bus asks for, whose firings run',
    async (context) => {
      if (on.isDeclaredByHand()) return context.skip('no resource of the stack declares here');
      expect(Object.keys(await schedules()).sort()).toEqual(['dropped', 'nightly', 'weekly']);
      expect(await on.client().schedules.get('nightly')).toMatchObject({ isDeclared: true, state: 'active' });
      await on.client().schedules.put('guest', { every: '10d', type: 'print' });
      await expect(on.client().schedules.delete('nightly')).rejects.toMatchObject({
        name: 'ConflictError',
      });
      const bus = new EventBridgeClient(clientConfiguration);
      const ask = async (DetailType: string, detail: object): Promise<void> => {
        const Entries = [
          {
            Source: 'redeploy-test',
            DetailType,
            Detail: JSON.stringify(detail),
            EventBusName: on.output('BusName'),
          },
        ];
        expect(await bus.send(new PutEventsCommand({ Entries }))).toMatchObject({ FailedEntryCount: 0 });
      };
      try {
        await ask('Schedule Put Requested', {
          id: 'room/121',
          schedule: { every: '5s', type: 'print', payload: 7 },
        });
        const polling = { timeout: WAIT_MS, interval: LOOK_EVERY_MS };
        const firings = async () => {
          const view = await on
            .client()
            .schedules.get('room/121')
            .catch((error: unknown) => {
              if (error instanceof NotFoundError) return undefined;
              throw error;
            });
          return view?.firings.filter(({ what }) => what === 'made') ?? [];
        };
        await expect.poll(async () => (await firings()).length, polling).toBeGreaterThanOrEqual(2);
        const ids = (await firings()).map(({ jobId }) => jobId ?? '');
        const jobs = await on.until(ids, hasSucceeded);
        for (const job of jobs) expect(job).toMatchObject({ payload: 7, attempt: 1, scheduleId: 'room/121' });
        expect(new Set(jobs.map(({ runAtMs }) => runAtMs)).size).toBe(jobs.length);
        await ask('Schedule Delete Requested', { id: 'room/121' });
        await expect
          .poll(async () => Object.keys(await schedules()).includes('room/121'), polling)
          .toBe(false);
      } finally {
        bus.destroy();
      }
    },
    TEST_MS,
  );

  it(
    'moves what waits to another tier and conflict group, and overlaps nothing with what runs',
    async () => {
      const running = await on.submitted('print', on.held(), 'cover');
      await on.until([running], ({ state }) => state === 'running');
      const waiting = await Promise.all(Array.from({ length: 14 }, () => on.submitted('print', 50, 'cover')));
      // A wake each, so that passes meet them, and park them.
      for (let round = 0; round < 3; round += 1) await on.client().explain(waiting[0] ?? '');
      await on.redeploy('SECOND');
      const waits = await on.client().get(waiting[0] ?? '');
      expect(['pending', 'claimed']).toContain(waits.state);
      on.gate.answer();
      const behind = await on.submitted('print', 50, 'cover');
      // This producer began before the type was declared.
      const shipped = await on.submitted('ship', 0);
      const jobs = await on.until([running, ...waiting, behind, shipped], hasSucceeded);
      const ofCover = jobs
        .filter(({ type }) => type === 'print')
        .map(intervalOf)
        .toSorted((one, other) => one.fromMs - other.fromMs);
      for (const [at, { fromMs }] of ofCover.entries())
        expect(fromMs).toBeGreaterThanOrEqual(ofCover[at - 1]?.toMs ?? 0);
      expect(jobs[0]).toMatchObject({ attempt: 1, workersLost: 0, claim: { declared: 1 } });
      expect(await on.client().declaration()).toMatchObject({
        version: 2,
        partitions: [{ told: 2, carriedVersion: 2, isDone: true }],
      });
    },
    TEST_MS,
  );

  it('adds, changes and removes exactly the schedules that it owns', async (context) => {
    if (on.isDeclaredByHand()) return context.skip('no resource of the stack declares here');
    const after = await schedules();
    expect(Object.keys(after).sort()).toEqual(['fresh', 'guest', 'nightly', 'weekly']);
    expect(cronOf(after.nightly)).toEqual({ kind: 'cron', expression: '30 4 * * *' });
    expect(after.nightly?.spec.job.type).toBe('ship');
    expect(after.guest).toMatchObject({ isDeclared: false, state: 'active' });
    for (const id of ['fresh', 'nightly', 'weekly'])
      expect(after[id]).toMatchObject({ isDeclared: true, state: 'active' });
    // What has not changed was not written.
    expect(after.weekly?.changedAtMs).toBe(after.weekly?.createdAtMs);
    expect(after.nightly?.changedAtMs).toBeGreaterThan(after.nightly?.createdAtMs ?? Infinity);
  });
});
