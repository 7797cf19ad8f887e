/** What every store keeps of schedules: a conformance suite. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ScheduleRecord } from '../../lib/core/recurring.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aSchedule } from '../fixtures/factories/schedule.ts';
import type { ScheduleStoreHarness } from './harness.ts';

export function scheduleStoreContract(name: string, open: () => Promise<ScheduleStoreHarness>): void {
  describe(`schedules in the store: ${name}`, () => {
    let harness: ScheduleStoreHarness;
    beforeEach(async () => {
      harness = await open();
    });
    afterEach(() => harness.close());

    const full: ScheduleRecord = aSchedule(
      {
        id: 'room/121-B',
        revision: 1,
        isDeclared: true,
        queuedMs: NOW_MS + 1,
        lastMs: NOW_MS - 1,
        making: [
          { atMs: NOW_MS, isManual: false },
          { atMs: NOW_MS + 5, isManual: true },
        ],
        failures: 3,
        history: [
          { atMs: NOW_MS - 9, what: 'missed', untilMs: NOW_MS - 5 },
          { atMs: NOW_MS - 1, what: 'made', jobState: 'failed', lateMs: 120 },
        ],
      },
      {
        when: { kind: 'cron', expression: '30 2 * * *' },
        timeZone: 'Europe/Berlin',
        gap: 'skip',
        overlap: 'twice',
        startMs: 5,
        endMs: NOW_MS * 2,
        blackouts: [
          { kind: 'between', fromMs: 1, untilMs: 2 },
          { kind: 'daily', days: [0, 6], fromMinute: 5, untilMinute: 6 },
        ],
        maxFailures: 4,
        job: {
          type: 'resize',
          payload: { deep: [{ 'odd "name"': 'Größe {{scheduledAt}}' }] },
          isTemplate: true,
          priority: 7,
          mode: 'onDemand',
          fairnessKey: '',
          resourceId: 'room',
        },
      },
    );

    it('answers a schedule as it was put, and nothing where there is none', async () => {
      expect(await harness.store.putSchedule({ record: full, afterRevision: 0 })).toBe('applied');
      expect(await harness.store.getSchedules({ ids: ['none', 'room/121-B', 'room/121-B'] })).toEqual([
        undefined,
        full,
        full,
      ]);
      expect(await harness.store.getSchedules({ ids: [] })).toEqual([]);
    });

    it('puts one that is new only where there is none, and another only over the revision that was read', async () => {
      const { store } = harness;
      const one = aSchedule();
      expect(await store.putSchedule({ record: one, afterRevision: 3 })).toBe('superseded');
      expect(await store.putSchedule({ record: one, afterRevision: 0 })).toBe('applied');
      expect(
        await store.putSchedule({ record: aSchedule({}, { timeZone: 'Asia/Tokyo' }), afterRevision: 0 }),
      ).toBe('superseded');
      expect(await store.getSchedules({ ids: ['nightly'] })).toEqual([one]);
      const two = aSchedule({ revision: 2 }, { timeZone: 'Asia/Tokyo' });
      expect(await store.putSchedule({ record: two, afterRevision: 1 })).toBe('applied');
      expect(await store.putSchedule({ record: aSchedule({ revision: 2 }), afterRevision: 1 })).toBe(
        'superseded',
      );
      expect(await store.getSchedules({ ids: ['nightly'] })).toEqual([two]);
    });

    it('saves how far it is over exactly the revision that was read, and leaves what was asked for', async () => {
      const { store } = harness;
      const { spec, state } = aSchedule();
      expect(await store.saveSchedule({ state, afterRevision: 0 })).toBe('superseded');
      await store.putSchedule({ record: { spec, state }, afterRevision: 0 });
      const next = { ...state, revision: 2, lastMs: NOW_MS, dueMs: NOW_MS + 90_000 };
      expect(await store.saveSchedule({ state: next, afterRevision: 1 })).toBe('applied');
      expect(await store.saveSchedule({ state: { ...state, revision: 2 }, afterRevision: 1 })).toBe(
        'superseded',
      );
      expect(await store.getSchedules({ ids: ['nightly'] })).toEqual([{ spec, state: next }]);
    });

    it('of many who save one revision, lets one through', async () => {
      const { store } = harness;
      await store.putSchedule({ record: aSchedule(), afterRevision: 0 });
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, (_, at) =>
          store.saveSchedule({
            state: aSchedule({ revision: 2, lastMs: NOW_MS + at }).state,
            afterRevision: 1,
          }),
        ),
      );
      expect(outcomes.filter((outcome) => outcome === 'applied')).toHaveLength(1);
    });

    it('removes exactly the revision that was read', async () => {
      const { store } = harness;
      await store.putSchedule({ record: aSchedule(), afterRevision: 0 });
      expect(await store.deleteSchedule({ id: 'nightly', afterRevision: 2 })).toBe('superseded');
      expect(await store.deleteSchedule({ id: 'nightly', afterRevision: 1 })).toBe('applied');
      expect(await store.deleteSchedule({ id: 'nightly', afterRevision: 1 })).toBe('superseded');
      expect(await store.getSchedules({ ids: ['nightly'] })).toEqual([undefined]);
      expect(
        await store.readDueSchedules({ partition: 0, fromMs: -1, untilMs: NOW_MS * 2, limit: 10 }),
      ).toEqual({ schedules: [], next: undefined });
      expect(await store.putSchedule({ record: aSchedule(), afterRevision: 0 })).toBe('applied');
    });

    it('shows what is to be looked at in a time, soonest first, page by page', async () => {
      const { store } = harness;
      for (const [at, id] of ['c', 'a', 'b', 'd'].entries())
        await store.putSchedule({
          record: aSchedule({ id, dueMs: NOW_MS + 1_000 * (at + 1) }),
          afterRevision: 0,
        });
      await store.putSchedule({
        record: aSchedule({ id: 'elsewhere', partition: 1, dueMs: NOW_MS }),
        afterRevision: 0,
      });
      const first = await store.readDueSchedules({
        partition: 0,
        fromMs: NOW_MS,
        untilMs: NOW_MS + 3_000,
        limit: 2,
      });
      expect(first.schedules).toEqual([
        { id: 'c', dueMs: NOW_MS + 1_000 },
        { id: 'a', dueMs: NOW_MS + 2_000 },
      ]);
      const second = await store.readDueSchedules({
        partition: 0,
        fromMs: NOW_MS,
        untilMs: NOW_MS + 3_000,
        limit: 2,
        after: first.next,
      });
      expect(second.schedules).toEqual([{ id: 'b', dueMs: NOW_MS + 3_000 }]);
      const idsIn = async (fromMs: number, untilMs: number) =>
        (await store.readDueSchedules({ partition: 0, fromMs, untilMs, limit: 9 })).schedules.map(
          ({ id }) => id,
        );
      // Not at the beginning, but at the end.
      expect(await idsIn(NOW_MS + 1_000, NOW_MS + 2_000)).toEqual(['a']);
      expect(await idsIn(NOW_MS + 4_000, NOW_MS + 9_000)).toEqual([]);
    });

    it('shows those that are stopped apart, by id, and moves them back', async () => {
      const { store } = harness;
      for (const id of ['b', 'a', 'c'])
        await store.putSchedule({
          record: aSchedule({ id, dueMs: undefined, stopped: 'asked' }),
          afterRevision: 0,
        });
      expect(
        await store.readDueSchedules({ partition: 0, fromMs: -1, untilMs: NOW_MS * 2, limit: 9 }),
      ).toMatchObject({ schedules: [] });
      const first = await store.readStoppedSchedules({ partition: 0, limit: 2 });
      expect(first.schedules.map(({ id }) => id)).toEqual(['a', 'b']);
      const rest = await store.readStoppedSchedules({ partition: 0, limit: 2, after: first.next });
      expect(rest).toMatchObject({ schedules: [{ id: 'c' }], next: undefined });
      await store.saveSchedule({ state: aSchedule({ id: 'b', revision: 2 }).state, afterRevision: 1 });
      expect(
        (await store.readStoppedSchedules({ partition: 0, limit: 9 })).schedules.map(({ id }) => id),
      ).toEqual(['a', 'c']);
    });

    it('keeps which schedules deployments have made', async () => {
      const { store } = harness;
      expect(await store.readDeclaredSchedules()).toEqual([]);
      await store.noteDeclaredSchedules(['nightly', 'room/121-B']);
      await store.noteDeclaredSchedules(['nightly']);
      expect(await store.readDeclaredSchedules()).toEqual(['nightly']);
    });

    describe('one that cannot be read', () => {
      const due = async () =>
        (
          await harness.store.readDueSchedules({ partition: 0, fromMs: -1, untilMs: NOW_MS * 2, limit: 9 })
        ).schedules.map(({ id }) => id);
      const spoiled = async () => {
        for (const id of ['good', 'bad', 'stopped'])
          await harness.store.putSchedule({
            record: aSchedule({ id, ...(id === 'stopped' ? { dueMs: undefined, stopped: 'asked' } : {}) }),
            afterRevision: 0,
          });
        await harness.damage('bad');
        await harness.damage('stopped');
      };

      it('is an error to whoever asks for it alone, and stays where it stands', async () => {
        await spoiled();
        await expect(harness.store.getSchedules({ ids: ['good', 'bad'] })).rejects.toMatchObject({
          name: 'MalformedItemError',
          key: 'schedule/bad schedule',
          message: expect.stringContaining('elete the schedule'),
        });
        expect(await due()).toEqual(['bad', 'good']);
        expect(harness.told).toEqual([]);
      });

      it('is taken out of its line with its reason, told of once, and left out of many', async () => {
        await spoiled();
        const ids = ['stopped', 'good', 'none', 'bad'];
        for (let time = 0; time < 2; time += 1) {
          const unreadable: string[] = [];
          const records = await harness.store.getSchedules({ ids, unreadable: (id) => unreadable.push(id) });
          expect(records.map((record) => record?.state.id)).toEqual([
            undefined,
            'good',
            undefined,
            undefined,
          ]);
          expect(unreadable.sort()).toEqual(['bad', 'stopped']);
        }
        expect(await due()).toEqual(['good']);
        expect((await harness.store.readStoppedSchedules({ partition: 0, limit: 9 })).schedules).toEqual([]);
        const [bad, stopped] = [...harness.told].sort((one, other) => (one.key < other.key ? -1 : 1));
        expect(harness.told).toHaveLength(2);
        expect(bad).toMatchObject({ key: 'schedule/bad schedule', line: 'schedules/0' });
        expect(bad?.reason).toMatch(/attribute text .*elete the schedule, and put it again/);
        expect(stopped).toMatchObject({ key: 'schedule/stopped schedule', line: 'stopped/0' });
        expect(new Set(await harness.store.listUnreadable(0))).toEqual(new Set([bad, stopped]));
      });

      it('is removed whatever it says, and can be put again; one that can be read is not', async () => {
        await spoiled();
        const { store } = harness;
        await store.getSchedules({ ids: ['bad'], unreadable: () => {} });
        expect(await store.discardSchedule('good')).toBe('superseded');
        expect(await store.discardSchedule('none')).toBe('superseded');
        expect(await store.discardSchedule('bad')).toBe('applied');
        expect(await store.discardSchedule('stopped')).toBe('applied');
        expect(await store.listUnreadable(0)).toEqual([]);
        expect(await store.putSchedule({ record: aSchedule({ id: 'bad' }), afterRevision: 0 })).toBe(
          'applied',
        );
        expect(await due()).toEqual(['bad', 'good']);
      });

      it('is back in its line with its next write, once it was corrected', async () => {
        await spoiled();
        const { store } = harness;
        await store.getSchedules({ ids: ['bad'], unreadable: () => {} });
        await harness.mend('bad');
        expect(await store.listUnreadable(0)).toEqual([]);
        expect(await due()).toEqual(['good']);
        const { state } = aSchedule({ id: 'bad', revision: 2 });
        expect(await store.saveSchedule({ state, afterRevision: 1 })).toBe('applied');
        expect(await due()).toEqual(['bad', 'good']);
      });
    });

    it('keeps job and schedule apart that share a name, and a job that names its schedule', async () => {
      const { store } = harness;
      await store.putSchedule({ record: aSchedule(), afterRevision: 0 });
      expect(await store.getJobs({ ids: ['nightly'] })).toEqual([undefined]);
    });
  });
}
