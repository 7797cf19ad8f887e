import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EXIT } from '../../lib/cli/describe-error.ts';
import type { ValidationError } from '../../lib/core/errors.ts';
import type { ScheduleRequest } from '../../lib/schedules/request.ts';
import { putSchedule } from '../../lib/schedules/schedules.ts';
import { allOf, desk } from '../client/desk.ts';
import {
  ALLOWED,
  BAD_REST,
  BAD_TIMES,
  type BadSchedule,
  badRequest,
  shownValue,
  TOLD_WITHOUT_VALUE,
} from '../fixtures/bad-schedules.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { counter } from './desk.ts';

const BAD = [...BAD_TIMES, ...BAD_REST].map((bad) => [bad.title, bad] as const);
/** The desk's pool knows other types. */
const forDesk = (request: Readonly<Record<string, unknown>>): Record<string, unknown> => ({
  ...request,
  ...(request.type === 'work' ? { type: 'resize' } : {}),
});

/** Which schedule, which field, the value, and what is allowed. */
function expectTold(
  error: { readonly name: string; readonly field: string; readonly message: string } | undefined,
  bad: BadSchedule,
): void {
  expect(error?.name).toBe('ValidationError');
  expect(error?.field).toMatch(new RegExp(`^${bad.field}\\b`));
  expect(error?.message).toMatch(new RegExp(`^${bad.field}\\b.*\\(schedule nightly\\)$`, 's'));
  expect(error?.message).toMatch(ALLOWED);
  const value = shownValue(bad);
  if (value !== undefined && !TOLD_WITHOUT_VALUE.has(bad.title)) expect(error?.message).toContain(value);
}

describe('the client refuses, and stores nothing of it,', () => {
  it.each(BAD)('%s', async (_, bad) => {
    const { client } = desk();
    const put = client.schedules.put('nightly', forDesk(badRequest(bad)) as unknown as ScheduleRequest);
    const error = await put.then(
      () => undefined,
      (thrown: unknown) => thrown as ValidationError,
    );
    expectTold(error, bad);
    expect(await allOf(client.schedules.list())).toEqual([]);
  });

  it.each(['', 'a b', '/x', 'x'.repeat(129), 5, null])('the name %j', async (id) => {
    const { client } = desk();
    const put = client.schedules.put(id as string, { cron: '@daily', type: 'resize' });
    await expect(put).rejects.toMatchObject({ name: 'ValidationError', field: 'id' });
  });
});

function fileOf(content: unknown): string {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-schedule-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'schedule.json');
  writeFileSync(file, JSON.stringify(content));
  return file;
}

describe('the command line refuses, and stores nothing of it,', () => {
  it.each(BAD)('%s', async (_, bad) => {
    const desk = counter();
    const request = forDesk(badRequest(bad));
    const file = fileOf(request);
    const { code, error } = await desk.fairlead('schedules', 'put', 'nightly', '--file', file, '--json');
    expect(code).toBe(EXIT.refused);
    // JSON has no NaN.
    if (!/NaN|infinite/.test(bad.title)) expectTold(JSON.parse(error).error, bad);
    expect(JSON.parse(error).error.name).toBe('ValidationError');
    expect(await desk.data('schedules', 'list')).toEqual({ schedules: [], more: false });
    expect(desk.open()).toBe(0);
  });
});

describe('the command line refuses among its options, and stores nothing of it,', () => {
  const said = BAD_TIMES.filter(({ fields }) =>
    Object.values(fields).every((value) => typeof value !== 'object'),
  );
  it('sixty of what may be wrong', () => expect(said.length).toBeGreaterThanOrEqual(60));

  it.each(said.map((bad) => [bad.title, bad] as const))('%s', async (_, bad) => {
    const desk = counter();
    const { seconds, ...fields } = forDesk(badRequest(bad));
    const words = Object.entries(fields).map(([name, value]) => `--${name}=${String(value)}`);
    if (seconds === false) words.push('--no-seconds');
    const { code, error } = await desk.fairlead('schedules', 'put', 'nightly', ...words, '--json');
    expect(code).toBe(EXIT.refused);
    const told = JSON.parse(error).error;
    expectTold({ ...told, message: told.message.replace(/^--/, '') }, bad);
    expect(await desk.data('schedules', 'list')).toEqual({ schedules: [], more: false });
  });
});

describe('the client refuses to say when a schedule fires,', () => {
  it.each([
    ['from', 'now'],
    ['from', '2026-02-30T00:00:00Z'],
    ['from', '9999-01-01T00:00:00Z'],
    ['count', 0],
    ['count', Number.NaN],
    ['count', -1],
    ['count', 1_001],
    ['many', 3],
  ])('with %s %s', async (name, value) => {
    const { client, finish } = desk();
    await finish(client.schedules.put('hourly', { every: '1h', type: 'resize' }));
    await expect(client.schedules.next('hourly', { [name]: value })).rejects.toMatchObject({
      name: 'ValidationError',
      message: expect.stringContaining(name),
    });
  });
});

describe('fairlead schedules', () => {
  const NIGHTLY = ['--cron', '30 2 * * *', '--zone', 'Europe/Berlin', '--type', 'resize', '--key', 'acme'];

  it('puts, shows, lists, pauses, resumes, runs and deletes', async () => {
    const { data, fairlead, stateOf } = counter();
    expect(await data('schedules', 'put', 'nightly', ...NIGHTLY, '--payload', '{"all":true}')).toMatchObject({
      outcome: 'created',
      schedule: {
        id: 'nightly',
        state: 'active',
        spec: { job: { payload: { all: true }, fairnessKey: 'acme' } },
      },
    });
    expect(await data('schedules', 'put', 'nightly', ...NIGHTLY, '--payload', '{"all":true}')).toMatchObject({
      outcome: 'unchanged',
    });
    expect(await data('schedules', 'pause', 'nightly')).toMatchObject({ schedule: { state: 'paused' } });
    expect(await data('schedules', 'list')).toMatchObject({
      schedules: [{ id: 'nightly', state: 'paused' }],
    });
    const shown = await fairlead('schedules', 'get', 'nightly');
    expect(shown.out).toContain('It is paused');
    expect(await data('schedules', 'resume', 'nightly')).toMatchObject({
      schedule: { state: 'active', why: [] },
    });
    const { jobId } = await data('schedules', 'run-now', 'nightly');
    expect(stateOf(String(jobId))).toBe('pending');
    expect(await data('schedules', 'get', 'nightly')).toMatchObject({
      schedule: { firings: [{ what: 'manual', jobId, jobState: 'pending' }] },
    });
    const listed = await fairlead('schedules', 'list');
    expect(listed.out).toMatch(/nightly .*active .*30 2 \* \* \* Europe\/Berlin/);
    expect(await data('schedules', 'delete', 'nightly')).toEqual({ deleted: 'nightly' });
    expect((await fairlead('schedules', 'list')).out).toBe('no schedules\n');
  });

  it('shows when a schedule that is there fires', async () => {
    const { data, fairlead } = counter();
    await data('schedules', 'put', 'hourly', '--every', '1h', '--type', 'resize');
    const { firings } = await data('schedules', 'next', 'hourly', '--count', '2');
    expect(firings).toMatchObject([
      { utc: new Date(NOW_MS + 3_600_000).toISOString() },
      { utc: new Date(NOW_MS + 7_200_000).toISOString() },
    ]);
    expect((await fairlead('schedules', 'next', 'hourly', '--every', '2h')).code).toBe(EXIT.refused);
    expect((await fairlead('schedules', 'next', 'hourly', '--as', 'other')).code).toBe(EXIT.refused);
    expect((await fairlead('schedules', 'next', 'hourly')).out).not.toContain('It is paused');
    await data('schedules', 'pause', 'hourly');
    expect((await fairlead('schedules', 'next', 'hourly')).out).toContain(
      'It is paused: it will not fire at these times',
    );
    expect(await data('schedules', 'next', 'hourly')).toMatchObject({ state: 'paused' });
  });

  it.each(['get', 'pause', 'resume', 'delete', 'run-now', 'next'])(
    '%s says that there is no such schedule',
    async (verb) => {
      const { fairlead } = counter();
      const { code, error } = await fairlead('schedules', verb, 'none', '--json');
      expect(code).toBe(EXIT.notFound);
      expect(JSON.parse(error).error.name).toBe('NotFoundError');
    },
  );

  it('leaves a declared schedule to the deployment, but pauses it', async () => {
    const desk = counter();
    await desk.finish(putSchedule(desk.operator(), 'owned', aScheduleSpec(), true));
    for (const words of [
      ['put', 'owned', ...NIGHTLY],
      ['delete', 'owned'],
    ]) {
      const { code, error } = await desk.fairlead('schedules', ...words, '--json');
      expect(code).toBe(EXIT.failed);
      expect(JSON.parse(error).error.name).toBe('ConflictError');
    }
    expect(await desk.data('schedules', 'pause', 'owned')).toMatchObject({
      schedule: { state: 'paused', isDeclared: true },
    });
  });

  it('says why a firing made no job, and what became of the others', async () => {
    const desk = counter();
    await desk.data('schedules', 'put', 's', '--every', '1m', '--type', 'resize', '--if-running', 'skip');
    await desk.advance(60_000);
    await desk.pass();
    await desk.advance(60_000);
    await desk.pass();
    await desk.advance(600_000);
    await desk.pass();
    const { out } = await desk.fairlead('schedules', 'get', 's');
    expect(out).toContain('the job before had not ended, and ifRunning is skip');
    expect(out).toContain('late, and misfire is once');
    expect(out).toMatch(/made .*[0-9a-f]{32}/);
  });

  it('says what a pause and a blackout left out, also once it fires again', async () => {
    const desk = counter();
    const file = fileOf({
      every: '1m',
      type: 'resize',
      blackouts: [
        { from: new Date(NOW_MS + 90_000).toISOString(), until: new Date(NOW_MS + 150_000).toISOString() },
      ],
    });
    await desk.data('schedules', 'put', 's', '--file', file);
    await desk.advance(60_000);
    await desk.pass();
    await desk.advance(120_000);
    await desk.pass();
    await desk.data('schedules', 'pause', 's');
    await desk.advance(150_000);
    await desk.data('schedules', 'resume', 's');
    const { out } = await desk.fairlead('schedules', 'get', 's');
    const at = (minute: number): string => new Date(NOW_MS + minute * 60_000).toISOString();
    expect(out).toContain(`The firing of ${at(2)} made no job: in a blackout.`);
    expect(out).toContain(`The firings from ${at(4)} to ${at(5)} made no job: the schedule was paused.`);
  });

  it('says that a firing is in a blackout', async () => {
    const desk = counter();
    const file = fileOf({ every: '1h', type: 'resize', blackouts: [{ from: '00:00', until: '23:00' }] });
    await desk.data('schedules', 'put', 's', '--file', file);
    expect((await desk.fairlead('schedules', 'get', 's')).out).toContain(
      'is in a blackout; the next one outside of it is that of',
    );
  });
});
