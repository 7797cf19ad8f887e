import { describe, expect, it } from 'vitest';
import { ingestSchedules, scheduleMessageOf } from '../../lib/schedules/ingest.ts';
import { putSchedule } from '../../lib/schedules/schedules.ts';
import {
  ALLOWED,
  BAD_REST,
  BAD_TIMES,
  badRequest,
  shownValue,
  TOLD_WITHOUT_VALUE,
} from '../fixtures/bad-schedules.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { type StageOptions, stage } from '../stage/stage.ts';

const SPEC = { every: '1m', type: 'resize' };

function scene(pool?: StageOptions['pool']) {
  const on = stage({ pool });
  const context = { ...on.operator(), counted: new Map(), events: on.bus, log: on.log };
  let sent = 0;
  const nextName = (): string => {
    sent += 1;
    return `event-${sent}`;
  };
  const event = (what: string, detail: unknown, id = nextName()): string =>
    JSON.stringify({
      id,
      'detail-type': `Schedule ${what} Requested`,
      time: new Date(NOW_MS).toISOString(),
      detail,
    });
  const deliver = async (...bodies: readonly string[]) => {
    const messages = bodies.flatMap((body, at) => scheduleMessageOf(`message-${at}`, body) ?? []);
    return on.finish(ingestSchedules(context, messages));
  };
  const stateOf = async (id = 's') => (await on.store.getSchedules({ ids: [id] }))[0]?.state;
  return { on, context, event, deliver, stateOf };
}

describe('an event about a schedule', () => {
  it('puts, pauses, resumes and deletes it', async () => {
    const { event, deliver, stateOf } = scene();
    await deliver(event('Put', { id: 's', schedule: SPEC }));
    expect(await stateOf()).toMatchObject({ nextMs: NOW_MS + 60_000 });
    await deliver(event('Pause', { id: 's' }));
    expect(await stateOf()).toMatchObject({ stopped: 'asked' });
    await deliver(event('Resume', { id: 's' }));
    expect((await stateOf())?.stopped).toBeUndefined();
    await deliver(event('Delete', { id: 's' }));
    expect(await stateOf()).toBeUndefined();
  });

  it('that is delivered twice makes one job, and two of one second make two', async () => {
    const { on, event, deliver, stateOf } = scene();
    await deliver(event('Put', { id: 's', schedule: SPEC }));
    const once = event('Run', { id: 's' });
    await deliver(once);
    await deliver(once, event('Run', { id: 's' }));
    expect((await stateOf())?.history).toHaveLength(2);
    expect([...on.store.everyJob()]).toHaveLength(2);
  });

  it('that asks for a job while as many wait as may is rejected', async () => {
    const { on, event, deliver, stateOf } = scene({
      types: { resize: { maxWaiting: 1 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 1 } },
    });
    await on.advance(1_000);
    await deliver(event('Put', { id: 's', schedule: SPEC }), event('Run', { id: 's' }));
    expect(await deliver(event('Run', { id: 's' }, 'e'))).toEqual({ failedMessageIds: [], rejected: 1 });
    const reason = expect.stringContaining('1 jobs of type "resize" wait, and maxWaiting is 1');
    expect(await on.store.listRejections('e')).toMatchObject([{ field: 'id', reason }]);
    expect((await stateOf())?.history.map(({ what }) => what)).toEqual(['manual', 'full']);
    expect([...on.store.everyJob()]).toHaveLength(1);
  });

  it.each([
    ['nothing', undefined, ''],
    ['no id', {}, 'id'],
    ['a bad id', { id: '/' }, 'id'],
    ['an unknown id', { id: 'none' }, 'id'],
    ['something else beside the id', { id: 's', now: true }, 'now'],
    ['a schedule where none is taken', { id: 's', schedule: SPEC }, 'schedule'],
  ])('that says %s is rejected, on record and on the bus', async (_, detail, field) => {
    const { on, event, deliver } = scene();
    expect(await deliver(event('Pause', detail, 'e'))).toEqual({ failedMessageIds: [], rejected: 1 });
    expect(await on.store.listRejections('e')).toMatchObject([{ sourceId: 'e', field }]);
    expect(on.logged).toMatchObject([
      { message: 'a request was rejected', fields: { eventId: 'e', position: 0, field } },
    ]);
    await on.advance(1);
    expect(on.published).toMatchObject([{ kind: 'rejected', detail: { sourceId: 'e', field } }]);
  });

  it.each([...BAD_TIMES, ...BAD_REST].map((bad) => [bad.title, bad] as const))(
    'that asks for %s is rejected, and nothing is stored',
    async (_, bad) => {
      const { on, event, deliver, stateOf } = scene();
      const request = badRequest(bad);
      const schedule = request.type === 'work' ? { ...request, type: 'resize' } : request;
      await deliver(event('Put', { id: 's', schedule }, 'e'));
      expect(await stateOf()).toBeUndefined();
      const [rejection] = await on.store.listRejections('e');
      expect(rejection?.field).toMatch(new RegExp(`^schedule\\.${bad.field}\\b`));
      expect(rejection?.reason).toContain('(schedule s)');
      expect(rejection?.reason).toMatch(ALLOWED);
      const value = shownValue(bad);
      // JSON has no NaN.
      if (value !== undefined && !/NaN|infinite/.test(bad.title) && !TOLD_WITHOUT_VALUE.has(bad.title))
        expect(rejection?.reason).toContain(value);
    },
  );

  it('does not touch what a deployment declares, but pauses it', async () => {
    const { on, context, event, deliver, stateOf } = scene();
    await on.finish(putSchedule(context, 's', aScheduleSpec(), true));
    expect(
      await deliver(event('Put', { id: 's', schedule: SPEC }), event('Delete', { id: 's' })),
    ).toMatchObject({ rejected: 2 });
    await deliver(event('Pause', { id: 's' }));
    expect(await stateOf()).toMatchObject({ isDeclared: true, stopped: 'asked' });
  });

  it('comes again when the store does not answer', async () => {
    const { on, context, event } = scene();
    const message = scheduleMessageOf('m', event('Pause', { id: 's' }));
    const store = {
      ...on.store,
      getSchedules: () => Promise.reject(new Error('no answer')),
    } as unknown as typeof on.store;
    expect(await ingestSchedules({ ...context, store }, message === undefined ? [] : [message])).toEqual({
      failedMessageIds: ['m'],
      rejected: 0,
    });
  });

  it('is told from all others', () => {
    expect(scheduleMessageOf('m', 'no JSON')).toBeUndefined();
    expect(
      scheduleMessageOf('m', JSON.stringify({ 'detail-type': 'Job Requested', detail: {} })),
    ).toBeUndefined();
  });
});
