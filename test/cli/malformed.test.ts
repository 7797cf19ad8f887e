import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { fairlead, scenarioFile, simulated } from './run.ts';

const pathOf = (file: string): string =>
  fileURLToPath(new URL(`../fixtures/oracles/${file}.json`, import.meta.url));

const read = (file: string) => JSON.parse(readFileSync(pathOf(file), 'utf8'));

/** A file of one case, with one field changed, or removed. */
function one(file: string, id: string, field: string, value: unknown): unknown {
  const content = read(file);
  const list = content.cases ? 'cases' : 'scenarios';
  const scenario = content[list].find((entry: { id: string }) => entry.id === id);
  const names = field.split(/[.[\]]+/).filter((name) => name !== '');
  const last = names.pop() ?? '';
  const holder = names.reduce((object, name) => object[name], scenario);
  if (value === undefined) delete holder[last];
  else holder[last] = value;
  return { schema: content.schema, [list]: [scenario] };
}

async function refused(content: unknown, message: RegExp): Promise<void> {
  for (const words of [['--json'], []]) {
    const { code, out, error } = await simulated(content, ...words);
    const told = words.length === 0 ? error : `fairlead: ${JSON.parse(error).error.message}`;
    expect(told).toMatch(message);
    expect(error.trim().split('\n')).toHaveLength(1);
    expect(out).toBe('');
    expect(code).toBe(2);
  }
}

describe('what is no file of cases', () => {
  it.each([
    ['an empty file', '', /the file is empty/],
    ['blank space', ' \n\t', /the file is empty/],
    ['no JSON', 'schema: fairness/1', /the file is not JSON/],
    ['half of it', '{"schema":"fairness/1","scenarios":[', /the file is not JSON/],
    ['NaN, which is no JSON', '{"schema":NaN}', /the file is not JSON/],
    ['nothing but a number', '3', /must be an object/],
    ['null', 'null', /must be an object/],
    ['a list', '[]', /must be an object/],
    ['no schema', {}, /schema: is missing/],
    ['a schema of another type', { schema: 3 }, /schema: must be a string/],
    ['an unknown schema', { schema: 'fairness' }, /schema: "fairness" is none of fairness\/1, /],
    ['another unknown schema', { schema: 'constructor/1' }, /schema: "constructor\/1" is none of/],
    ['no cases', { schema: 'timers/2' }, /cases: is missing/],
    ['cases under another name', { schema: 'fairness/1', cases: [] }, /scenarios: is missing/],
    ['a case that is none', { schema: 'timers/2', cases: [3] }, /cases\[0\]: must be an object/],
    ['a case without an id', { schema: 'timers/2', cases: [{}] }, /cases\[0\]\.id: is missing/],
    ['a case with an empty id', { schema: 'timers/2', cases: [{ id: '' }] }, /cases\[0\]\.id: /],
    [
      'a name that reaches the prototype',
      '{"schema":"timers/2","cases":[],"x":{"__proto__":{}}}',
      /x\.__proto__: is not/,
    ],
    ['endless depth', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, /is nested too deeply/],
    ['an endless list', { schema: 'timers/2', cases: Array(200_001).fill(0) }, /cases: has 200001 entries/],
  ])('%s is refused', async (_, content, message) => refused(content, message));

  it('two cases of one name are refused', async () => {
    const content = read('timers');
    content.cases[3].id = content.cases[1].id;
    await refused(content, /cases\[3\]\.id: B2 is used twice/);
  });

  it('a folder, and a file that is not there, are refused', async () => {
    for (const path of [tmpdir(), `${tmpdir()}/no/such/file.json`]) {
      const { code, error } = await fairlead('simulate', path);
      expect(code).toBe(2);
      expect(error).toMatch(/cannot be read \((it is a directory; name a file|there is no such file)\)/);
    }
  });

  it('a byte order mark is forgiven', async () => {
    const { code } = await fairlead(
      'simulate',
      scenarioFile(`\uFEFF${JSON.stringify(read('timers'))}`),
      '--json',
    );
    expect(code).toBe(0);
  });

  it('an empty list of cases gives an empty list of results', async () => {
    const { code, out } = await simulated({ schema: 'scoring/2', cases: [] }, '--json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({ schema: 'scoring/2', results: [] });
  });
});

describe('a wrong field is named with its path', () => {
  it.each([
    ['fairness', 'C1', 'config', undefined, /scenarios\[0\]\.config: /],
    ['fairness', 'C1', 'untilMs', undefined, /scenarios\[0\]\.untilMs: /],
    ['fairness', 'C1', 'untilMs', -1, /scenarios\[0\]\.untilMs: /],
    ['fairness', 'C1', 'untilMs', '25000', /scenarios\[0\]\.untilMs: /],
    ['fairness', 'C1', 'config.alpha', 2, /scenarios\[0\]\.config\.alpha: /],
    ['fairness', 'C1', 'config.globalMax', 1.5, /scenarios\[0\]\.config\.globalMax: /],
    ['fairness', 'C1', 'config.idlePolicy', 'sleep', /config\.idlePolicy: /],
    ['fairness', 'C1', 'config.resetEveryMs', 0, /config\.resetEveryMs: /],
    ['fairness', 'C1', 'config.types[1].priority', undefined, /config\.types\[1\]\.priority: /],
    ['fairness', 'C1', 'config.types[2].type', 'repack', /config\.types\[2\]\.type: repack is used twice/],
    ['fairness', 'C1', 'arrivals', {}, /scenarios\[0\]\.arrivals: /],
    ['fairness', 'C1', 'arrivals[4].fairnessKey', undefined, /scenarios\[0\]\.arrivals\[4\]\.fairnessKey: /],
    ['fairness', 'C1', 'arrivals[4].durationMs', null, /arrivals\[4\]\.durationMs: /],
    ['fairness', 'C1', 'arrivals[4].atMs', 1e300, /arrivals\[4\]\.atMs: /],
    ['fairness', 'C1', 'arrivals[4].id', 1, /arrivals\[4\]\.id: 1 is used twice/],
    ['fairness', 'C1', 'arrivals[4].id', 1.5, /arrivals\[4\]\.id: /],
    ['scoring', 'A-S1', 'kind', 'guess', /cases\[0\]\.kind: /],
    ['scoring', 'A-S1', 'kind', undefined, /cases\[0\]\.kind: /],
    ['scoring', 'A-S1', 'input', undefined, /cases\[0\]\.input: /],
    ['scoring', 'A-S1', 'input.priority', 11, /cases\[0\]\.input\.priority: /],
    ['scoring', 'A-S1', 'input.onDemand', 'no', /cases\[0\]\.input\.onDemand: /],
    ['scoring', 'A-X1', 'input.mode', 'apart', /cases\[0\]\.input\.mode: /],
    ['scoring', 'A-L1', 'input.slots[1].types', 1, /cases\[0\]\.input\.slots\[1\]\.types: /],
    ['scoring', 'A-L1', 'input.slots[1].id', 1, /cases\[0\]\.input\.slots\[1\]\.id: 1 is used twice/],
    ['scoring', 'A-P1', 'input.ops[1].op', 'grab', /cases\[0\]\.input\.ops\[1\]\.op: /],
    [
      'scoring',
      'A-P3',
      'input.ops[3].slots[0].id',
      1,
      /ops\[3\]\.slots\[0\]\.id: slot 1 was registered before/,
    ],
    ['scoring', 'A-A1', 'input.queued[1].id', 1, /cases\[0\]\.input\.queued\[1\]\.id: 1 is used twice/],
    ['scoring', 'A-A2', 'input.onDemand[0].id', 1, /cases\[0\]\.input\.onDemand\[0\]\.id: 1 is queued too/],
    ['timers', 'B1', 'input.events[1].triggerMs', 'soon', /cases\[0\]\.input\.events\[1\]\.triggerMs: /],
    ['timers', 'B1', 'input.events[1].op', 'make', /cases\[0\]\.input\.events\[1\]\.op: /],
    ['timers', 'B1', 'input.horizonMs', undefined, /cases\[0\]\.input\.horizonMs: /],
    [
      'partitions',
      'D1',
      'input.positions.Pod-A[0]',
      256,
      /cases\[0\]\.input\.positions\.Pod-A: must be a whole/,
    ],
    ['partitions', 'D1', 'input.hashes[3]', -1, /cases\[0\]\.input\.hashes\[3\]: /],
    ['partitions', 'D6', 'input.keys', 1e9, /cases\[0\]\.input\.keys: /],
    ['partitions', 'D6', 'input.keyTemplate', 'job', /cases\[0\]\.input\.keyTemplate: /],
    ['partitions', 'D9', 'input.heartbeatMs', 0, /cases\[0\]\.input\.heartbeatMs: /],
    ['partitions', 'D9', 'input.claims[0].node', 'z', /cases\[0\]\.input\.claims\[0\]\.node: z is not in/],
    ['partitions', 'D9', 'input.events[0].node', 'z', /cases\[0\]\.input\.events\[0\]\.node: z is not in/],
    ['partitions', 'D14', 'input.thief', 'z', /cases\[0\]\.input\.thief: z has no load/],
    ['partitions', 'D14', 'input.movable.b', undefined, /cases\[0\]\.input\.movable\.b: /],
    ['partitions', 'D19', 'input.freeCapacity.c', undefined, /cases\[0\]\.input\.freeCapacity\.c: /],
    ['partitions', 'D20', 'input.inclusiveRanges[0]', [1], /cases\[0\]\.input\.inclusiveRanges\[0\]/],
    ['partitions', 'D21', 'input.way', 'vanish', /cases\[0\]\.input\.way: /],
    ['partitions', 'D23', 'input.steps[2].token', undefined, /cases\[0\]\.input\.steps\[2\]\.token: /],
  ] as const)('%s %s: %s = %j', async (file, id, field, value, message) =>
    refused(one(file, id, field, value), message),
  );

  it('in a case that does not run, too', async () => {
    const content = read('timers');
    content.cases[2].input.horizonMs = 'late';
    const { code, error } = await simulated(content, '--case', 'B1', '--json');
    expect(code).toBe(2);
    expect(error).toMatch(/cases\[2\]\.input\.horizonMs/);
  });
});

describe('a field that a format does not know is refused by its name', () => {
  it.each([
    ['fairness', 'C1', 'configs', /scenarios\[0\]\.configs: is not a known field/],
    ['fairness', 'C1', 'config.globalMaximum', /scenarios\[0\]\.config\.globalMaximum: is not/],
    ['fairness', 'C1', 'config.types[1].weight', /scenarios\[0\]\.config\.types\[1\]\.weight: is not/],
    ['fairness', 'C1', 'arrivals[2].runAtMs', /scenarios\[0\]\.arrivals\[2\]\.runAtMs: is not/],
    ['scoring', 'A-S1', 'busy', /cases\[0\]\.busy: is not a known field/],
    ['scoring', 'A-S1', 'input.resourceId', /cases\[0\]\.input\.resourceId: is not/],
    ['scoring', 'A-X1', 'input.a.age', /cases\[0\]\.input\.a\.age: is not/],
    ['scoring', 'A-L1', 'input.slots[1].busy', /cases\[0\]\.input\.slots\[1\]\.busy: is not/],
    ['scoring', 'A-P1', 'input.ops[0].types', /cases\[0\]\.input\.ops\[0\]\.types: is not/],
    ['scoring', 'A-A1', 'input.limit', /cases\[0\]\.input\.limit: is not/],
    ['scoring', 'A-A1', 'input.queued[0].ageMs', /cases\[0\]\.input\.queued\[0\]\.ageMs: is not/],
    ['timers', 'B1', 'input.until', /cases\[0\]\.input\.until: is not/],
    ['timers', 'B1', 'input.events[1].atSec', /cases\[0\]\.input\.events\[1\]\.atSec: is not/],
    ['partitions', 'D1', 'input.nodes', /cases\[0\]\.input\.nodes: is not/],
    ['partitions', 'D9', 'input.claims[0].leaseMs', /cases\[0\]\.input\.claims\[0\]\.leaseMs: is not/],
    ['partitions', 'D14', 'input.capacity', /cases\[0\]\.input\.capacity: is not/],
    ['partitions', 'D20', 'input.jobs[0].type', /cases\[0\]\.input\.jobs\[0\]\.type: is not/],
    ['partitions', 'D23', 'input.steps[0].epoch', /cases\[0\]\.input\.steps\[0\]\.epoch: is not/],
  ] as const)('%s %s: %s', async (file, id, field, message) => refused(one(file, id, field, 1), message));

  it.each(['fairness', 'scoring', 'timers', 'partitions'])(
    'beside the cases of a file of %s',
    async (file) => {
      await refused({ ...read(file), cores: 2 }, /^fairlead: [^:]*: cores: is not a known field$/m);
    },
  );

  it.each([
    ['of the file', { defaults: {} }, {}, /: defaults: is not a known field/],
    ['of a scenario', {}, { workload: [] }, /scenarios\[0\]\.workload: is not/],
    ['of the configuration', {}, { configuration: { fleet: {} } }, /scenarios\[0\]\.configuration\.fleet: /],
    ['of a job', {}, { jobs: [{ type: 'a', atMs: 0, durationMs: 1, prio: 1 }] }, /jobs\[0\]\.prio: is not/],
    [
      'of a failure',
      {},
      { jobs: [{ type: 'a', atMs: 0, durationMs: 1, failures: [{ name: 'E', atMs: 1 }] }] },
      /jobs\[0\]\.failures\[0\]\.atMs: is not/,
    ],
    [
      'of a worker',
      {},
      { workers: [{ worker: 'w', fleet: 'a', slots: 1, leaseMs: 1 }] },
      /workers\[0\]\.leaseMs: is not/,
    ],
    [
      'of an event',
      {},
      { events: [{ op: 'cancel', atMs: 0, id: 'x', why: '' }] },
      /events\[0\]\.why: is not/,
    ],
    [
      'of a schedule',
      {},
      { schedules: [{ id: 's', schedule: '@daily', job: { type: 'a', durationMs: 1, atMs: 0 } }] },
      /schedules\[0\]\.job\.atMs: is not/,
    ],
  ])('fairlead: %s', async (_, beside, within, message) => {
    const scenario = { id: 's', untilMs: 1, configuration: { types: { a: {} } }, ...within };
    await refused({ schema: 'fairlead/1', scenarios: [scenario], ...beside }, message);
  });

  it('but what is expected, and what is for readers, is accepted and never read', async () => {
    const content = read('timers');
    const [first] = content.cases;
    const plain = { schema: content.schema, cases: [{ id: first.id, input: first.input }] };
    const remarked = {
      ...plain,
      note: 'of the file',
      cases: [{ ...plain.cases[0], title: 1, tags: [], note: '', notes: [], expected: 'nothing' }],
    };
    expect(await simulated(remarked, '--json')).toEqual(await simulated(plain, '--json'));
  });

  it('and what an arrival repeats of its type must be so', async () => {
    await refused(
      one('fairness', 'C1', 'arrivals[0].priority', 99),
      /scenarios\[0\]\.arrivals\[0\]\.priority: is 99, but its type /,
    );
  });
});

describe('a busy slot', () => {
  it('is not free in a pass', async () => {
    const input = {
      now: 0,
      slots: [
        { id: 1, types: [1] },
        { id: 2, types: [1, 2] },
        { id: 3, types: [1, 2, 3] },
      ],
      queued: [1, 2, 3].map((id) => ({ id, type: 1, priority: 0, createdAt: -id })),
    };
    const cases = [
      { id: 'free', kind: 'pass', input },
      { id: 'busy', kind: 'pass', input: { ...input, busy: [1, 3] } },
    ];
    const { out } = await simulated({ schema: 'scoring/2', cases }, '--json');
    expect(JSON.parse(out).results).toEqual([
      {
        id: 'free',
        assignments: [
          [3, 1],
          [2, 2],
          [1, 3],
        ],
        freeSlots: [],
      },
      { id: 'busy', assignments: [[3, 2]], freeSlots: [] },
    ]);
  });
});

describe('wrong words', () => {
  it.each([
    [['simulate'], /missing required argument 'file'/],
    [['simulate', pathOf('timers'), '--jsno'], /unknown option '--jsno'/],
    [['simulate', pathOf('timers'), '--case', 'Z9'], /no case has the id "Z9"/],
    [['stimulate'], /unknown command 'stimulate'/],
    [[], /Usage: fairlead/],
  ])('%j end with exit code 2', async (words, message) => {
    const { code, error, out } = await fairlead(...words);
    expect(error + out).toMatch(message);
    expect(code).toBe(2);
  });

  it('asking for help is none of them', async () => {
    const { code, out } = await fairlead('simulate', '--help');
    expect(code).toBe(0);
    expect(out).toContain('Exit codes: 0 done; 2 the file or an option is wrong');
  });

  it('end a process of its own with 2 as well', async () => {
    const main = fileURLToPath(new URL('../../lib/cli/main.ts', import.meta.url));
    const { code, error } = await new Promise<{ code: number | null; error: string }>((resolve) => {
      const child = execFile(process.execPath, [main, 'simulate', tmpdir()], (_, __, stderr) => {
        resolve({ code: child.exitCode, error: stderr });
      });
    });
    expect(code).toBe(2);
    expect(error).toMatch(/^fairlead: file: .* cannot be read \(it is a directory; name a file\)/);
  });
});
