/** What holds for each command: tables fit the terminal, documents have one shape, messages are in the words of the shell. */

import { tmpdir } from 'node:os';
import type { Command } from 'commander';
import stringWidth from 'string-width';
import { describe, expect, it, vi } from 'vitest';
import { programFor, type Surroundings } from '../../lib/cli/program.ts';
import { AbortError } from '../../lib/client/errors.ts';
import { EnvironmentError } from '../../lib/core/errors.ts';
import { aDispatcherRecord } from '../fixtures/factories/dispatcher.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aRejection } from '../fixtures/factories/rejection.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { type Counter, counter, fileOf } from './desk.ts';
import { fairlead } from './run.ts';

// Tables of the longest texts take seconds to draw and to measure, and more on a busy machine.
vi.setConfig({ testTimeout: 180_000 });

/** Every command that does something, by its words. */
function commandsOf(
  command: Command,
  before: readonly string[] = [],
): readonly (readonly [string, Command])[] {
  return command.commands.flatMap((each) => {
    const words = [...before, each.name()];
    return each.commands.length > 0 ? commandsOf(each, words) : [[words.join(' '), each] as const];
  });
}

const silent = { out: () => {}, error: () => {} };
const ALL = new Map(
  commandsOf(programFor(silent, silent, { connect: () => Promise.reject(new Error('not asked')) }, () => {})),
);

const LONG = `${'x'.repeat(5_000)}${'漢字'.repeat(2_500)}`;
const KEY = `${'k'.repeat(300)}${'漢字'.repeat(15)}`;
const SINCE = new Date(NOW_MS - 3_600_000).toISOString();
const SCENARIO = {
  schema: 'fairlead/1',
  scenarios: [
    {
      id: 'one',
      untilMs: 60_000,
      configuration: {
        types: { [`resize-${'t'.repeat(40)}`]: {} },
        fleets: { images: { types: [`resize-${'t'.repeat(40)}`], slots: 1 } },
      },
      jobs: [
        {
          id: 'j',
          type: `resize-${'t'.repeat(40)}`,
          fairnessKey: KEY.slice(0, 150),
          atMs: 0,
          durationMs: 500,
        },
      ],
    },
  ],
};

/** A pool of which everything that is listed is as long as it may be. */
async function crowded(): Promise<{
  readonly at: Counter;
  readonly failed: string;
  readonly waiting: string;
}> {
  const at = counter();
  await at.put(at.job({ fairnessKey: KEY }));
  const [failed] = await at.work({ kind: 'failed', error: { name: 'Broken', message: LONG } });
  if (failed === undefined) throw new Error('nothing was started');
  await at.pass({ jobs: [failed], reason: 'stream' });
  const [waiting] = await at.put(at.job({ fairnessKey: KEY }), at.job({ fairnessKey: `${KEY}2` }));
  const load = { lagMs: 12_345, memoryMb: 34_567 };
  const expiresAtMs = at.time.nowMs + 30_000;
  await at.store.registerWorker({
    partition: 0,
    record: aWorkerRecord({ workerId: 'w'.repeat(120), fleet: 'general', expiresAtMs, load }),
  });
  const dispatcherId = `host/${'d'.repeat(90)}`;
  await at.store.keepDispatcher(aDispatcherRecord({ dispatcherId, expiresAtMs, leads: [0, 1, 2, 3] }));
  const id = `nightly/${'n'.repeat(100)}`;
  const rejected = { sourceId: 'e'.repeat(512), field: `jobs[3].${'f'.repeat(150)}`, reason: LONG };
  await at.store.recordRejections([aRejection(rejected)]);
  const put = await at.fairlead('schedules', 'put', id, '--cron', '30 2 * * *', '--type', 'resize');
  if (put.code !== 0) throw new Error(put.error);
  await at.fairlead('schedules', 'run-now', id);
  return { at, failed: failed.id, waiting: waiting?.id ?? '' };
}

/** What a command needs beside the option in question. */
function argumentsOf(command: string, option: string): readonly string[] {
  const [words] = DOCUMENTS[command] ?? [];
  if (command === 'jobs submit') return option === '--file' ? [] : ['resize'];
  if (command === 'fleet-worker') return ['--forward', 'http://127.0.0.1:8080'];
  if (command === 'schedules put' && option === '--file') return [NIGHTLY];
  return words?.({ failed: 'f', waiting: 'w' }) ?? [];
}

const SURROUNDINGS: Partial<Surroundings> = {
  readLogs: async ({ fromMs }) => [{ atMs: fromMs, text: LONG }],
  testWorker: async () => [{ promise: 'a job is answered', failure: LONG }],
  readStack: async () => ({
    outputs: { TableName: 't', BusName: 'b', WakeQueueUrl: 'https://sqs.eu-west-1.amazonaws.com/1/w' },
    region: 'eu-west-1',
  }),
  connectPublisher: async () => ({
    ended: {
      async *endedJobs() {
        yield [aJob({ state: 'succeeded' })];
      },
    },
    events: { publish: async () => [] },
    close: () => {},
  }),
  connectQueues: async () => ({
    queues: {
      names: ['ingest', 'outcomes'],
      look: async (queue) => {
        const shown = [{ sentAtMs: NOW_MS, body: LONG, reason: LONG.slice(0, 60) }];
        return { queue, waiting: 123_456, taken: 0, deadLetters: 1, shown };
      },
      redrive: async () => ({ sentBack: 1, kept: 1 }),
      purge: async () => {},
    },
    close: () => {},
  }),
};

/** What each command is asked, and what its document may have at its root. */
type Asked = (crowd: { readonly failed: string; readonly waiting: string }) => readonly string[];
const NIGHTLY = `nightly/${'n'.repeat(100)}`;
const MANY = JSON.stringify([{ type: 'resize' }, { type: LONG }]);
const DOCUMENTS: Readonly<Record<string, readonly [Asked, readonly string[]]>> = {
  'jobs submit': [() => ['--file', fileOf(MANY)], ['requests']],
  'jobs run': [() => ['resize', '--timeout', '2s'], ['job']],
  'jobs get': [({ failed }) => [failed], ['job']],
  'jobs list': [() => ['--state', 'failed'], ['jobs', 'more']],
  'jobs explain': [({ waiting }) => [waiting], ['explanation']],
  'jobs logs': [({ failed }) => [failed], ['attempts']],
  'jobs history': [({ failed }) => [failed], ['history']],
  'jobs cancel': [({ waiting }) => [waiting], ['outcome', 'job']],
  'jobs retime': [({ waiting }) => [waiting, '--in', '1h'], ['job']],
  'jobs priority': [({ waiting }) => [waiting, '7'], ['job']],
  'jobs retry': [({ failed }) => [failed], ['jobId', 'repeated']],
  keys: [() => [], ['keys', 'more']],
  fleets: [() => [], ['fleets']],
  types: [() => [], ['types']],
  dispatchers: [() => [], ['dispatchers', 'partitions']],
  declaration: [() => [], ['declaration']],
  'dead-letters list': [() => [], ['deadLetters', 'more']],
  'dead-letters redrive': [() => ['--all'], ['redriven', 'more']],
  'dead-letters unreadable': [() => [], ['unreadable']],
  'rejections list': [() => [], ['rejections', 'more']],
  'rejections show': [() => ['e'.repeat(512)], ['rejections']],
  pause: [() => ['--pool'], ['control']],
  resume: [() => ['--pool'], ['control']],
  drain: [() => ['--tier', 'standard', '--timeout', '2s'], ['drained']],
  'override list': [() => [], ['controls']],
  'override history': [() => [], ['controls']],
  'override set': [() => ['--pool', '--max-concurrency', '1'], ['control']],
  'override clear': [() => ['--pool'], ['control']],
  'schedules put': [() => [NIGHTLY, '--every', '1h', '--type', 'resize'], ['outcome', 'schedule']],
  'schedules next': [() => [NIGHTLY], ['firings']],
  'schedules list': [() => [], ['schedules', 'more']],
  'schedules get': [() => [NIGHTLY], ['schedule']],
  'schedules pause': [() => [NIGHTLY], ['schedule']],
  'schedules resume': [() => [NIGHTLY], ['schedule']],
  'schedules delete': [() => [NIGHTLY], ['deleted']],
  'schedules run-now': [() => [NIGHTLY], ['jobId']],
  'queues list': [() => [], ['queues']],
  'queues redrive': [() => ['ingest'], ['queue', 'sentBack', 'kept']],
  'queues purge': [() => ['ingest', '--yes'], ['queue', 'purged']],
  'outcomes publish': [() => ['--since', SINCE], ['outcomes', 'dryRun']],
  env: [() => ['--stack', 'Orders'], ['environment']],
  'test-worker': [() => ['http://127.0.0.1:8080'], ['checks']],
  simulate: [() => [fileOf(JSON.stringify(SCENARIO))], ['schema', 'results']],
};
/** Streams of lines, and a script for a shell. */
const WITHOUT_DOCUMENT = ['dispatcher', 'fleet-worker', 'dashboard', 'dev', 'mcp', 'complete'];

/** Runs a command on a crowd of its own; a job that it waits for is done meanwhile. */
async function asked(
  command: string,
  columns: number | undefined,
  before: readonly string[],
  after: readonly string[],
) {
  const crowd = await crowded();
  const { at } = crowd;
  const words = DOCUMENTS[command]?.[0](crowd) ?? [];
  const running = at.fairleadIn(
    { ...SURROUNDINGS, columns },
    ...before,
    ...command.split(' '),
    ...words,
    ...after,
  );
  if (command === 'jobs run' || command === 'drain') {
    await at.advance(0);
    await at.work();
    return at.finish(running);
  }
  return running;
}

it('each command is asked here', () => {
  expect([...Object.keys(DOCUMENTS), ...WITHOUT_DOCUMENT].sort()).toEqual([...ALL.keys()].sort());
});

describe.each(Object.entries(DOCUMENTS))('fairlead %s', (command, [, roots]) => {
  it('draws tables that are no wider than the terminal, or than 80 where that does not say, and whole with --wide', async () => {
    const rows = (text: string): readonly string[] =>
      text.split('\n').filter((line) => /^[┌├└│]| │/.test(line));
    for (const [columns, most] of [
      [undefined, 80],
      [50, 50],
      [120, 120],
    ] as const) {
      const { out } = await asked(command, columns, [], []);
      for (const row of rows(out)) expect(stringWidth(row), row).toBeLessThanOrEqual(most);
    }
    const narrow = await asked(command, 50, [], []);
    const wide = await asked(command, 50, [], ...[['--wide']]);
    if (rows(narrow.out).length === 0 || command === 'schedules next') return;
    expect(wide.out).not.toMatch(/…|no room for/);
  });

  it('has numbers at the right of their columns, and texts at the left', async () => {
    const { out } = await asked(command, 50, [], ['--wide']);
    const tables = out.split(/^┌.*$/m).map((text) =>
      text
        .split('\n')
        .filter((line) => line.startsWith('│'))
        .map((line) => line.split('│').slice(1, -1)),
    );
    for (const [heads = [], ...rows] of tables)
      for (const [column, head] of heads.entries()) {
        const cells = rows.map((row) => row[column] ?? '').filter((cell) => cell.trim() !== '');
        const areNumbers = cells.every((cell) => /^ *[\d.,]+( [a-z]{1,3})? *$/.test(cell));
        const areTexts = cells.some((cell) => /^ *[a-z]{2}/i.test(cell));
        if (areNumbers && cells.length > 0)
          for (const cell of [head, ...cells]) expect(cell, out).toMatch(/\S $/);
        if (areTexts) for (const cell of [head, ...cells]) expect(cell, out).toMatch(/^ \S/);
      }
  });

  it('prints one document that names what it holds, with --json before the verb as behind it', async () => {
    const behind = await asked(command, 80, [], ['--json']);
    expect(Object.keys(JSON.parse(behind.out))).toEqual(roots);
    expect(behind.error).toBe('');
    const before = await asked(command, 80, ['--json'], []);
    expect([before.code, Object.keys(JSON.parse(before.out))]).toEqual([behind.code, roots]);
    const [group = '', ...verb] = command.split(' ');
    if (verb.length === 0) return;
    const crowd = await crowded();
    const words = [...verb, ...(DOCUMENTS[command]?.[0](crowd) ?? [])];
    const help = await crowd.at.fairleadIn(SURROUNDINGS, group, '--json', ...words, '--nope');
    expect(JSON.parse(help.error)).toMatchObject({ error: { name: 'UsageError', message: /--nope/ } });
  });
});

describe('what is common to commands and stands before a verb that has it not', () => {
  it.each([
    [['-f', 'file', 'simulate', 'x'], 'simulate has no option --env-file'],
    [['--wide', 'dispatcher'], 'dispatcher has no option --wide'],
  ])('%j is refused', async (words, message) => {
    expect(await counter().fairlead(...words)).toMatchObject({ code: 2, error: `fairlead: ${message}\n` });
  });
});

/** What belongs to programs: methods, paths of arguments, a schema library's own words. */
const OF_PROGRAMS =
  /\w\(\)|\bsignal\b|[Ii]nvalid input|[Ee]xpected (string|number|object|array|int|one of)|received \w+|Too (big|small)|\b(filter|options|change|scope|jobs?)\.\w|\b(fairnessKey|resourceId|runAt|idempotencyKey|timeoutMs|countUpTo|jobId|misfireMax|maxFailures|maxConcurrency)\b/;

describe('messages', () => {
  const BAD = ['', '-1', '1.5', 'x', '99999999999999999999', 'x'.repeat(600), '{}', '[', '2027-02-30'];
  it('of each option with each bad value are in the words of the shell', async () => {
    const told = new Set<string>();
    for (const [command, [words]] of Object.entries(DOCUMENTS)) {
      const crowd = await crowded();
      for (const option of ALL.get(command)?.options ?? []) {
        if (option.isBoolean() || ['--env-file', '--file', '--stack'].includes(option.long ?? '')) continue;
        for (const value of BAD) {
          const running = crowd.at.fairleadIn(
            SURROUNDINGS,
            ...command.split(' '),
            ...words(crowd),
            `${option.long}=${value}`,
          );
          const { error } = await crowd.at.finish(running);
          told.add(error);
        }
      }
    }
    expect(told.size).toBeGreaterThan(100);
    for (const error of told) expect(error.replace(/"(\\.|[^"\\])*"/g, '')).not.toMatch(OF_PROGRAMS);
  }, 120_000);

  it('of errors that programs are told in words of theirs are said in those of the shell', async () => {
    for (const error of [
      new EnvironmentError('FAIRLEAD_TABLE'),
      new AbortError(new Error('told'), { mayHaveChanged: true }),
      new AbortError(new Error('told'), { mayHaveChanged: false }),
      new AbortError(new Error('told'), { jobId: 'j', cancel: undefined }),
      new AbortError(new Error('told'), { jobId: 'j', cancel: 'cancelled' }),
      new AbortError(new Error('told'), { jobId: 'j', cancel: 'requested' }),
    ]) {
      for (const words of [[], ['--json']]) {
        const told = await counter().fairleadIn({ connect: () => Promise.reject(error) }, 'fleets', ...words);
        const message = words.length === 0 ? told.error : JSON.parse(told.error).error.message;
        expect(message).not.toMatch(OF_PROGRAMS);
      }
    }
  });
});

/** Commands that change nothing, and that their user may interrupt. */
const LOOKS = [
  ...['jobs get', 'jobs list', 'jobs explain', 'jobs history', 'keys', 'fleets', 'types', 'dispatchers'],
  ...['declaration', 'dead-letters list', 'dead-letters unreadable', 'rejections list', 'rejections show'],
  ...['override list', 'schedules next', 'schedules list', 'schedules get'],
];

it.each(LOOKS)('fairlead %s, interrupted, leaves no doubt about what it only looked at', async (command) => {
  const crowd = await crowded();
  const words = [...command.split(' '), ...(DOCUMENTS[command]?.[0](crowd) ?? [])];
  const said = await crowd.at.fairleadIn({ signal: AbortSignal.abort() }, ...words);
  expect(said).toMatchObject({ code: 130, error: 'fairlead: interrupted; nothing was changed\n' });
});

describe('a file that cannot be read', () => {
  /** Every option and argument that names a file, as it is given. */
  const FILES = [...ALL].flatMap(([name, command]) => [
    ...command.options
      .filter(({ flags }) => flags.includes('<file>'))
      .map(({ long }) => [name, long ?? ''] as const),
    ...command.registeredArguments
      .filter((argument) => argument.name() === 'file')
      .map(() => [name, 'file'] as const),
  ]);
  it.each(FILES)('%s: the file of %s is named with what is wrong', async (command, option) => {
    const wrong = [
      [tmpdir(), 'it is a directory; name a file'],
      [`${tmpdir()}/no/such`, 'there is no such file'],
    ] as const;
    const [group = '', ...verb] = command.split(' ');
    for (const [path, reason] of wrong) {
      const given = option === 'file' ? [path] : [...argumentsOf(command, option), `${option}=${path}`];
      const { code, error } = await fairlead(group, ...verb, ...given);
      expect([code, error]).toEqual([2, `fairlead: ${option}: ${path} cannot be read (${reason})\n`]);
    }
  });
});

describe('with --json', () => {
  it('the version, and the help of each command, are documents, too', async () => {
    const version = await fairlead('--json', '--version');
    expect(version).toMatchObject({ code: 0, error: '' });
    expect(JSON.parse(version.out)).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    for (const words of [[], ['jobs'], ...[...ALL.keys()].map((name) => name.split(' '))]) {
      const { code, out, error } = await fairlead(...words, '--json', '--help');
      expect([words, code, error]).toEqual([words, 0, '']);
      expect(JSON.parse(out)).toEqual({ help: expect.stringContaining('Usage: fairlead') });
    }
  });
});

describe('a command that waits', () => {
  it('shows the id of its job at once, and says for what it waits and how long', async () => {
    const at = counter();
    const running = at.fairlead('jobs', 'run', 'resize', '--timeout', '90s');
    await at.advance(0);
    const [job] = [...at.store.everyJob()];
    await at.work();
    const { code, error } = await at.finish(running);
    expect(code).toBe(0);
    expect(error).toMatch(
      new RegExp(`^job ${job?.id} is pending: waiting for its end, at most 1\\.5 min\\n`),
    );
  });

  it.each([
    [['--cancel-on-exit'], 'was cancelled, and will not run'],
    [[], 'continues: `fairlead jobs cancel '],
  ])('says, when it is interrupted, what became of its job: %j', async (words, what) => {
    const at = counter();
    const abort = new AbortController();
    const running = at.fairleadIn({ signal: abort.signal }, 'jobs', 'run', 'resize', ...words);
    await at.advance(0);
    abort.abort();
    const { code, error } = await at.finish(running);
    const [job] = [...at.store.everyJob()];
    expect(code).toBe(130);
    expect(error).toContain(`fairlead: interrupted; job ${job?.id} ${what}`);
  });
});
