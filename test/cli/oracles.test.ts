import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { fairlead, simulated } from './run.ts';

const FILES = ['fairness', 'scoring', 'timers', 'partitions'] as const;

type Fields = Readonly<Record<string, unknown>>;
interface Case {
  readonly id: string;
  readonly kind?: string;
  readonly expected: Fields;
}

const pathOf = (file: string): string =>
  fileURLToPath(new URL(`../fixtures/oracles/${file}.json`, import.meta.url));

function casesOf(file: string): readonly Case[] {
  const content = JSON.parse(readFileSync(pathOf(file), 'utf8'));
  return content.cases ?? content.scenarios;
}

/** What the oracles' README asks for, from what a case expects. */
function wanted(file: string, { kind, expected }: Case): Fields {
  if (file === 'fairness') {
    const { dispatch, perKey, estimates } = expected as unknown as {
      dispatch: { atMs: number; id: number }[];
      perKey: Record<string, { accumulatedCost: number }>;
      estimates: { type: string; jobId: string; cost: number }[];
    };
    return {
      dispatch: dispatch.map(({ atMs, id }) => [atMs, id]),
      accumulated: Object.fromEntries(
        Object.entries(perKey).map(([key, { accumulatedCost }]) => [key, close(accumulatedCost)]),
      ),
      estimates: estimates.map(({ type, jobId, cost }) => [type, jobId, close(cost)]),
    };
  }
  if (file === 'timers') {
    const starts = expected.starts as { id: string; atMs: number }[];
    return { starts: starts.map(({ id, atMs }) => [id, atMs]), waitingAtEnd: expected.waitingAtEnd };
  }
  const fields = FIELDS[kind ?? ''];
  if (fields !== undefined) return only(expected, fields);
  if (kind === 'lease') {
    const jobs = expected.jobs as Fields[];
    return { jobs: jobs.map((job) => only(job, ['job', 'recovered', 'recoverAtScanMs', 'newOwner'])) };
  }
  if (kind === 'steal-decision') return { allowed: expected.allowed };
  if (kind === 'leave') return { jobs: expected.jobs };
  if (kind === 'steal-run') return { terminates: true, ...(expected.reference as Fields) };
  return { everyKeyHasExactlyOneOwner: true, everyMoveTouchesAChangedNode: true };
}

const FIELDS: Readonly<Record<string, readonly string[]>> = {
  score: ['score'],
  crossover: ['tieAtSec', 'firstStrictSec'],
  slot: ['slot'],
  pool: ['after'],
  pass: ['assignments', 'freeSlots'],
  'ring-lookup': ['owners'],
  'ring-change': ['moved', 'unmoved'],
  'due-window': ['selected'],
  fence: ['results', 'completions'],
};

function only(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(names.flatMap((name) => (name in fields ? [[name, fields[name]]] : [])));
}

function close(value: number): unknown {
  return expect.closeTo(value, 6);
}

describe.each(FILES)('fairlead simulate %s --json', (file) => {
  it('prints one result per case, in order, with what the reference expects', async () => {
    const { code, out, error } = await fairlead('simulate', pathOf(file), '--json');
    expect(error).toBe('');
    expect(code).toBe(0);
    const { schema, results } = JSON.parse(out) as { schema: string; results: Fields[] };
    expect(schema).toMatch(new RegExp(`^${file}/`));
    const cases = casesOf(file);
    expect(results.map(({ id }) => id)).toEqual(cases.map(({ id }) => id));
    cases.forEach((one, index) => {
      expect(results[index], one.id).toMatchObject(wanted(file, one));
    });
  });

  it('never reads what is expected', async () => {
    const content = JSON.parse(readFileSync(pathOf(file), 'utf8'));
    const first = await simulated(content, '--json');
    for (const one of content.cases ?? content.scenarios) delete one.expected;
    expect(await simulated(content, '--json')).toEqual(first);
  });

  it('runs one case alone', async () => {
    const [, second] = casesOf(file);
    const { out } = await fairlead('simulate', pathOf(file), '--case', second?.id ?? '', '--json');
    const all = await fairlead('simulate', pathOf(file), '--json');
    expect(JSON.parse(out).results).toEqual([JSON.parse(all.out).results[1]]);
  });

  it('prints tables for a person', async () => {
    const { code, out } = await fairlead('simulate', pathOf(file));
    expect(code).toBe(0);
    for (const { id } of casesOf(file)) expect(out).toContain(`■ ${id}\n`);
  });

  it('works as a program of its own', async () => {
    const main = fileURLToPath(new URL('../../lib/cli/main.ts', import.meta.url));
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [main, 'simulate', pathOf(file), '--json'],
      {
        maxBuffer: 2 ** 26,
      },
    );
    const { out } = await fairlead('simulate', pathOf(file), '--json');
    expect(stdout).toBe(out);
  });
});

describe('steal decisions', () => {
  it('name an allowed source and move a count inside the bounds', async () => {
    const { out } = await fairlead('simulate', pathOf('partitions'), '--json');
    const results = new Map((JSON.parse(out).results as Fields[]).map((result) => [result.id, result]));
    for (const { id, kind, expected } of casesOf('partitions')) {
      if (kind !== 'steal-decision' || expected.allowed !== true) continue;
      const result = results.get(id);
      expect(expected.fromAnyOf).toContain(result?.from);
      expect(result?.moved).toBeGreaterThanOrEqual(expected.minMoved as number);
      expect(result?.moved).toBeLessThanOrEqual(expected.maxMoved as number);
    }
  });
});
