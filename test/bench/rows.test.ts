import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { isArgumentError, parseArguments } from '../../bench/cloud/arguments.ts';
import { DEFAULT_ROWS, isSame, pickRows, RowsError, USUAL } from '../../bench/cloud/rows.ts';

describe('--only', () => {
  it('reaches each row of the matrix', () => {
    const row = {
      load: 'half',
      keys: 10_000,
      payloadBytes: 4_096,
      path: 'bus10',
      shards: 8,
      partitions: 16,
      dispatchers: 'residents',
      adds: 'steps',
    } as const;
    const only = Object.entries(row).map(([axis, value]) => `${axis}=${value}`);
    expect(DEFAULT_ROWS.some((each) => isSame(each, row))).toBe(false);
    expect(pickRows(only.join(','))).toEqual([row]);
  });

  it.each([
    ['load=fast', 'load is one of saturated, half, 100/s, 20/s, 1/s'],
    ['keys=51', 'keys is one of 1, 50, 1000, 10000'],
    ['speed=1', 'load=saturated|half|100/s|20/s|1/s'],
    ['load', 'load is one of'],
    ['', 'it takes load='],
  ])('%s is refused with what is allowed', (only, said) => {
    expect(() => pickRows(only)).toThrow(RowsError);
    expect(() => pickRows(only)).toThrow(said);
  });
});

describe('bench:cloud', () => {
  it('takes rows, limits of the table, and a model of the pollers', () => {
    const argv = [
      '--json',
      '--only',
      'load=half,keys=10000',
      '--table',
      '10000',
      '--key-units',
      '500',
      '--seed',
      '7',
      '--prompt',
      'no',
      '--batch',
      '10',
      '--producers',
      '100',
      '--rate',
      '30',
    ];
    expect(parseArguments([...argv, '--pollers', 'five'])).toEqual({
      json: true,
      save: false,
      sources: false,
      rows: [{ ...USUAL, load: 'half', keys: 10_000 }],
      limits: { writeUnits: 10_000, readUnits: 30_000, keyWriteUnits: 500 },
      pollers: 'five',
      workers: 'functions',
      isPrompt: false,
      batchSize: 10,
      producers: 100,
      jobsPerSecond: 30,
      seed: 7,
    });
    expect(parseArguments(['--table', 'quota']).limits).toEqual({ writeUnits: 40_000, readUnits: 40_000 });
    expect(parseArguments([])).toMatchObject({ json: false, rows: DEFAULT_ROWS, limits: {}, seed: 1 });
  });

  it.each([
    [['--only', 'load=fast'], 'load is one of'],
    [['--table', 'old'], '--table is "old"; it is one of new, quota, raised, or write units a second'],
    [['--key-units', '0'], '--key-units is "0"; it is a whole number from 1'],
    [['--pollers', 'six'], '--pollers is "six"; it is one of documented, five'],
    [['--batch', '11'], '--batch is "11"; it is a whole number from 1 to 10'],
    [['--producers', '0'], '--producers is "0"; it is a whole number from 1 to 10000'],
    [['--rate', 'fast'], '--rate is "fast"; it is a whole number from 1'],
    [['--save', '--rate', '30'], '--save keeps what the defaults come to; leave --rate out'],
    [['--seed', 'x'], '--seed is "x"; it is a whole number from 0'],
    [['--workers', 'people'], '--workers is "people"; it is one of functions, processes'],
    [['--prompt', 'maybe'], '--prompt is "maybe"; it is one of yes, no'],
    [['--save', '--table=quota'], '--save keeps what the defaults come to; leave --table out'],
    [['--fast'], "Unknown option '--fast'"],
    [['fast'], 'fast'],
  ])('refuses %j with a sentence', (argv, said) => {
    let error: unknown;
    try {
      parseArguments(argv);
    } catch (thrown) {
      error = thrown;
    }
    expect(isArgumentError(error)).toBe(true);
    expect(String(error)).toContain(said);
  });

  it('ends with 2 then, and prints nothing but that', () => {
    const program = fileURLToPath(new URL('../../bench/cloud.ts', import.meta.url));
    const parameters = [program, '--only', 'speed=1'];
    const { status, stderr, stdout } = spawnSync(process.execPath, parameters, { encoding: 'utf8' });
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^--only names "speed"; it takes load=.*\n$/);
  });
});
