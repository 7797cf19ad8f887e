import { describe, expect, it } from 'vitest';
import { EXIT } from '../../lib/cli/describe-error.ts';
import { runProgram } from '../../lib/cli/program.ts';
import { jitterOf } from '../../lib/core/schedule.ts';
import { BAD_TIMES, badRequest } from '../fixtures/bad-schedules.ts';

async function run(...words: readonly string[]): Promise<{ code: number; out: string; error: string }> {
  let out = '';
  let error = '';
  const code = await runProgram(
    ['schedules', 'next', ...words],
    { out: (text) => (out += text), error: (text) => (error += text) },
    {
      connect: () => Promise.reject(new Error('nobody needs a deployed scheduler')),
      nowMs: () => Date.UTC(2026, 0),
    },
  );
  return { code, out, error };
}

const NIGHT = ['--cron', '30 2 * * *', '--zone', 'Europe/Berlin'];
const SPRING = ['--from', '2026-03-28T00:00:00Z', '--count', '3', '--json'];
const AUTUMN = ['--from', '2026-10-24T12:00:00Z', '--count', '3', '--json'];

describe('fairlead schedules next', () => {
  it.each([
    [
      'next, in spring',
      [...SPRING, '--gap', 'next'],
      [
        ['2026-03-28T01:30:00.000Z', '2026-03-28T02:30:00+01:00'],
        ['2026-03-29T01:00:00.000Z', '2026-03-29T03:00:00+02:00'],
        ['2026-03-30T00:30:00.000Z', '2026-03-30T02:30:00+02:00'],
      ],
    ],
    [
      'skip, in spring',
      [...SPRING, '--gap', 'skip'],
      [
        ['2026-03-28T01:30:00.000Z', '2026-03-28T02:30:00+01:00'],
        ['2026-03-30T00:30:00.000Z', '2026-03-30T02:30:00+02:00'],
        ['2026-03-31T00:30:00.000Z', '2026-03-31T02:30:00+02:00'],
      ],
    ],
    [
      'once, in autumn',
      [...AUTUMN, '--overlap', 'once'],
      [
        ['2026-10-25T00:30:00.000Z', '2026-10-25T02:30:00+02:00'],
        ['2026-10-26T01:30:00.000Z', '2026-10-26T02:30:00+01:00'],
        ['2026-10-27T01:30:00.000Z', '2026-10-27T02:30:00+01:00'],
      ],
    ],
    [
      'twice, in autumn',
      [...AUTUMN, '--overlap', 'twice'],
      [
        ['2026-10-25T00:30:00.000Z', '2026-10-25T02:30:00+02:00'],
        ['2026-10-25T01:30:00.000Z', '2026-10-25T02:30:00+01:00'],
        ['2026-10-26T01:30:00.000Z', '2026-10-26T02:30:00+01:00'],
      ],
    ],
  ] as const)('prints firings as one document: %s', async (_, words, expected) => {
    const { code, out } = await run(...NIGHT, ...words);
    expect(code).toBe(EXIT.done);
    expect(JSON.parse(out).firings).toEqual(expected.map(([utc, local]) => ({ utc, local })));
  });

  it('says in the document, too, what each policy does where the clock changes, and nothing where it does not', async () => {
    const { out } = await run(...NIGHT, ...SPRING, '--gap', 'skip');
    expect(JSON.parse(out).policies).toEqual([
      {
        utc: '2026-03-29T01:00:00.000Z',
        local: '2026-03-29T03:00:00+02:00',
        change: 'moved',
        what: 'gap next fires here, in place of a local time that is skipped; gap skip does not fire',
      },
    ]);
    const { out: autumn } = await run(...NIGHT, ...AUTUMN);
    expect(JSON.parse(autumn).policies).toMatchObject([
      { utc: '2026-10-25T00:30:00.000Z', change: 'first' },
      { utc: '2026-10-25T01:30:00.000Z', change: 'second' },
    ]);
    const { out: winter } = await run(...NIGHT, '--count', '2', '--json');
    expect(Object.keys(JSON.parse(winter))).toEqual(['firings']);
  });

  it('says how much later the schedule of an expression with jitter may fire', async () => {
    const { out } = await run(...NIGHT, '--jitter', '90s');
    expect(out).toMatch(/up to 1\.5 min later than this\. Its id decides by how much: /m);
    expect(out).toMatch(/2026-01-01T01:30:00Z .*2026-01-01T01:31:30Z/);
    expect((await run(...NIGHT)).out).not.toContain('later');
    const { out: json } = await run(...NIGHT, '--jitter', '90s', '--json');
    const { jitterSec, firings } = JSON.parse(json);
    expect(jitterSec).toBe(90);
    expect(firings[0]).toEqual({
      utc: '2026-01-01T01:30:00.000Z',
      local: '2026-01-01T02:30:00+01:00',
      latest: '2026-01-01T01:31:30.000Z',
    });
  });

  it('gives the firings of an expression with the jitter of the schedule that it is meant for', async () => {
    const words = [...NIGHT, '--jitter', '10m', '--count', '2', '--from', '2026-03-28T12:00:00Z'];
    const { out } = await run(...words, '--as', 'report/berlin', '--json');
    const laterMs = jitterOf('report/berlin', 600_000);
    expect(laterMs).toBeGreaterThan(0);
    const at = (plain: string): string => new Date(Date.parse(plain) + laterMs).toISOString();
    const { firings, policies } = JSON.parse(out);
    expect(firings.map(({ utc }: { utc: string }) => utc)).toEqual([
      at('2026-03-29T01:00:00Z'),
      at('2026-03-30T00:30:00Z'),
    ]);
    expect(policies).toMatchObject([{ utc: at('2026-03-29T01:00:00Z'), change: 'moved' }]);
    expect((await run(...words, '--as', 'report/berlin')).out).not.toContain('later than this');
    expect((await run(...words, '--as', 'report/rome', '--json')).out).not.toEqual(out);
  });

  it.each(['', 'a b', '__proto__', 'x'.repeat(129)])(
    'refuses %j as the id that it is meant for',
    async (id) => {
      const { code, error } = await run(...NIGHT, '--json', '--as', id);
      expect(code).toBe(EXIT.refused);
      expect(JSON.parse(error).error).toMatchObject({ name: 'ValidationError', field: 'id' });
    },
  );

  it('shows ten firings in local time and UTC, those that a clock change moves, and what each policy does', async () => {
    const { out } = await run(...NIGHT, '--from', '2026-03-25T00:00:00Z');
    expect(out.match(/2026-\d\d-\d\dT\S+Z/g)).toHaveLength(10);
    expect(out).toMatch(/2026-03-29T03:00:00\+02:00 .*2026-03-29T01:00:00Z .*moved/);
    expect(out).toContain(
      'gap next fires here, in place of a local time that is skipped; gap skip does not fire',
    );
  });

  it('says which local times come twice, whatever the policy', async () => {
    const { out } = await run(...NIGHT, '--from', '2026-10-23T00:00:00Z', '--overlap', 'twice');
    expect(out).toContain('first of two');
    expect(out).toContain('second of two');
    const once = await run(...NIGHT, '--from', '2026-10-23T00:00:00Z');
    expect(once.out).toContain('overlap twice also fires here, the second time; overlap once does not');
  });

  it('leaves out what is in a blackout, of which there may be several', async () => {
    const { out } = await run(
      ...['--cron', '0 */6 * * *', '--from', '2026-01-01T01:00:00Z', '--count', '2', '--json'],
      ...['--blackout', '{"from":"05:00","until":"07:00"}'],
      ...['--blackout', '{"from":"2026-01-01T12:00:00Z","until":"2026-01-01T18:00:00Z"}'],
    );
    expect(JSON.parse(out).firings.map(({ utc }: { utc: string }) => utc)).toEqual([
      '2026-01-01T18:00:00.000Z',
      '2026-01-02T00:00:00.000Z',
    ]);
  });

  it.each([
    ['no JSON', '22:00', 'UsageError', '--blackout'],
    ['a time of day that is none', '{"from":"24:00","until":"06:00"}', 'ValidationError', '--blackout [0]: '],
    ['a number', 'NaN', 'UsageError', '--blackout'],
    ['nothing', '{}', 'ValidationError', '--blackout [0]: '],
  ])('refuses a blackout that is %s', async (_, text, name, field) => {
    const { code, out, error } = await run(...NIGHT, '--json', '--blackout', text);
    expect({ code, out }).toEqual({ code: EXIT.refused, out: '' });
    expect(JSON.parse(error).error).toMatchObject({ name, message: expect.stringContaining(field) });
  });

  it('counts an interval from the instant that it is asked for', async () => {
    const { out } = await run('--every', '90m', '--from', '2026-01-01T00:00:00Z', '--count', '2', '--json');
    expect(JSON.parse(out).firings.map(({ utc }: { utc: string }) => utc)).toEqual([
      '2026-01-01T01:30:00.000Z',
      '2026-01-01T03:00:00.000Z',
    ]);
  });

  it.each([
    ['--count', '0'],
    ['--count', '1001'],
    ['--count', 'NaN'],
    ['--count', '-1'],
    ['--count', '1.5'],
    ['--from', '9999-01-01T00:00:00Z'],
    ['--from', 'now'],
    ['--from', '2026-03-29T02:30:00'],
    ['--from', '2026-13-01T00:00:00Z'],
    ['--from', '-1'],
  ])('refuses %s %s', async (option, value) => {
    const { code, out, error } = await run(...NIGHT, '--json', option, value);
    expect({ code, out }).toEqual({ code: EXIT.refused, out: '' });
    expect(JSON.parse(error).error.message).toContain(option.slice(2));
  });

  it.each(BAD_TIMES.map((bad) => [bad.title, bad] as const))('refuses %s', async (_, bad) => {
    const { type: __, seconds, ...fields } = badRequest(bad);
    const words = Object.entries(fields).flatMap(([name, value]) => [`--${name}=${String(value)}`]);
    const { code, out, error } = await run(
      '--json',
      ...words,
      ...(seconds === false ? ['--no-seconds'] : []),
    );
    expect({ code, out }).toEqual({ code: EXIT.refused, out: '' });
    expect(JSON.parse(error).error).toMatchObject({ name: 'ValidationError', field: bad.field });
  });
});
