/** Every bad word of every command ends with 2 and one line that names it, and changes nothing. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { counter, fileOf } from './desk.ts';

const LONG = 'x'.repeat(513);
const SUBMIT = ['jobs', 'submit', 'resize'];
const RETIME = ['jobs', 'retime', 'a', '--run-at', '2027-01-31T08:00:00Z'];
const RUN = ['jobs', 'run', 'resize'];
const NEXT = ['schedules', 'next', '--cron', '30 2 * * *'];
const DEDUPED = ['jobs', 'submit', 'report', '--dedupe-key'];
const PUT = ['schedules', 'put', 'nightly', '--cron', '30 2 * * *', '--type', 'resize'];

/** The words, and what the error says. */
const CASES: readonly (readonly [readonly string[], RegExp])[] = [
  [[...SUBMIT, 'more'], /too many arguments/],
  [['jobs', 'submit'], /give a type, or --file/],
  [['jobs', 'submit', ''], /type: unknown job type ""/],
  [['jobs', 'submit', 'resise'], /type: unknown job type "resise"; this pool has: resize, report/],
  [['jobs', 'submit', '__proto__'], /type: unknown job type/],
  [[...SUBMIT, '--prority', '3'], /unknown option '--prority'/],
  [[...SUBMIT, '--priority'], /argument missing/],
  [[...SUBMIT, '--priority', ''], /--priority: must be a number/],
  [[...SUBMIT, '--priority', 'high'], /--priority: must be a number/],
  [[...SUBMIT, '--priority', '0x5'], /--priority: must be a number/],
  [[...SUBMIT, '--priority', '5e0'], /--priority: must be a number/],
  [[...SUBMIT, '--priority', 'NaN'], /--priority: must be a number/],
  [[...SUBMIT, '--priority', '-1'], /--priority: /],
  [[...SUBMIT, '--priority', '11'], /--priority: must be a whole number from 0 to 10 \(got 11\)/],
  [[...SUBMIT, '--priority', '2.5'], /--priority: must be a whole number from 0 to 10 \(got 2.5\)/],
  [[...SUBMIT, '--priority', '9'.repeat(400)], /--priority: /],
  [[...SUBMIT, '--mode', 'urgent'], /--mode: /],
  [[...SUBMIT, '--mode', ''], /--mode: /],
  [[...SUBMIT, '--key', LONG], /--key: must be at most 512 bytes/],
  [[...SUBMIT, '--resource', ''], /--resource: must not be empty/],
  [[...SUBMIT, '--resource', LONG], /--resource: must be at most 512 bytes/],
  [[...SUBMIT, '--idempotency-key', ''], /--idempotency-key: must not be empty/],
  [[...SUBMIT, '--idempotency-key', LONG], /--idempotency-key: must be at most 512 bytes/],
  [[...SUBMIT, '--run-at', 'tomorrow'], /--run-at: must be an ISO 8601 instant/],
  [[...SUBMIT, '--run-at', '2027-01-31'], /--run-at: must be an ISO 8601 instant/],
  [[...SUBMIT, '--run-at', '2027-02-30T08:00:00Z'], /--run-at: must be an ISO 8601 instant/],
  [[...SUBMIT, '--run-at', '1800000000000'], /--run-at: must be an ISO 8601 instant/],
  [[...SUBMIT, '--payload', ''], /--payload: is not JSON/],
  [[...SUBMIT, '--payload', 'page 1'], /--payload: is not JSON/],
  [[...SUBMIT, '--payload', '{"page":1'], /--payload: is not JSON/],
  [[...SUBMIT, '--payload', 'NaN'], /--payload: is not JSON/],
  [[...SUBMIT, '--payload', '1'.repeat(400)], /--payload: /],
  [[...SUBMIT, '--payload', `${'['.repeat(102)}${']'.repeat(102)}`], /--payload: .*too deep/],
  [[...SUBMIT, '--payload', JSON.stringify('x'.repeat(65_537))], /payload has 65539 bytes/],
  [[...SUBMIT, '--payload-file', '/no/such/file'], /--payload-file: \/no\/such\/file cannot be read/],
  [[...SUBMIT, '--payload-file', '/'], /--payload-file: \/ cannot be read/],
  [
    [...SUBMIT, '--payload', '1', '--payload-file', '/etc/hosts'],
    /give --payload or --payload-file, not both/,
  ],
  [[...SUBMIT, '--file', '/etc/hosts'], /give a type or --file, not both/],
  [['jobs', 'submit', '--file', '/no/such/file'], /--file: .* cannot be read/],
  [['jobs', 'submit', '--file', '/etc/hosts'], /--file: is not JSON/],
  [['jobs', 'submit', '--timeout', '5s', 'resize'], /unknown option '--timeout'/],
  [['jobs', 'run'], /missing required argument 'type'/],
  [[...RUN, '--mode', 'queued'], /unknown option '--mode'/],
  [[...RUN, '--timeout'], /argument missing/],
  [[...RUN, '--timeout', ''], /--timeout: must be a number with a unit/],
  [[...RUN, '--timeout', '30'], /--timeout: must be a number with a unit/],
  [[...RUN, '--timeout', '-5s'], /--timeout: must be a number with a unit/],
  [[...RUN, '--timeout', '5 s'], /--timeout: must be a number with a unit/],
  [[...RUN, '--timeout', '5d'], /--timeout: must be a number with a unit/],
  [[...RUN, '--timeout', '1e3s'], /--timeout: must be a number with a unit/],
  [[...RUN, '--timeout', '0s'], /--timeout: /],
  [[...RUN, '--timeout', '25h'], /--timeout: /],
  [[...RUN, '--timeout', `${'9'.repeat(400)}h`], /--timeout: /],
  [[...RUN, '--cancel-on-exit=no'], /error: /],
  ...[
    '',
    'limit',
    'openai=6',
    'limit:openai',
    'limit:openai=',
    'limit:openai=six',
    'limit:openai/acme.perKey=6',
    'type:resize.perKey=6',
    'type:resize.paused=1',
    'queue:resize=6',
    'resource:resize/a=6',
  ].map((text): [readonly string[], RegExp] => [
    ['jobs', 'explain', 'a', '--if', text],
    /--if: .*, such as limit:openai\.perKey=6/,
  ]),
  [['jobs', 'explain', 'a', '--if', 'limit:openai=6'], /--if scope\.limit: no limit has the name "openai"/],
  [['jobs', 'explain', 'a', '--if', 'type:resise=6'], /--if scope\.type: no job type has the name "resise"/],
  [['jobs', 'explain', 'a', '--if', 'pool=0'], /--if maxConcurrency: must be a whole number from 1/],
  [['jobs', 'explain', 'a', '--if', 'pool.weight=2'], /--if weight: only a fairness key/],
  [[...SUBMIT, '--units', '12'], /--units: must be a name and a value, such as openai=1200/],
  [[...SUBMIT, '--units', 'openai=many'], /--units openai: must be a number, such as 5, not "many"/],
  [[...SUBMIT, '--units', 'openai=1.5'], /--units openai: must be a whole number of 1 or more/],
  [[...SUBMIT, '--units', 'openai=12'], /--units openai: names no limit of type/],
  [[...SUBMIT, '--keys', 'acme'], /--keys: must be a name and a value, such as org=acme/],
  [[...SUBMIT, '--keys', 'org='], /--keys org: must not be empty/],
  ...['get', 'retry', 'explain'].map((verb): [readonly string[], RegExp] => [
    ['jobs', verb],
    /missing required argument 'id'/,
  ]),
  ...['get', 'cancel', 'retry', 'explain'].flatMap((verb): [readonly string[], RegExp][] => [
    [['jobs', verb, ''], /id: must not be empty/],
    [['jobs', verb, LONG], /id: must be at most 256 bytes/],
    [['jobs', verb, 'a', 'b'], /too many arguments/],
    [['jobs', verb, 'a', '--force'], /unknown option '--force'/],
  ]),
  [['jobs', 'cancel'], /give an id, or a filter such as --type/],
  [['jobs', 'cancel', '--yes'], /give an id, or a filter such as --type/],
  [['jobs', 'cancel', 'a', '--type', 'resize'], /give an id or a filter, not both/],
  [['jobs', 'cancel', 'a', '--dry-run'], /give an id or a filter, not both/],
  [['jobs', 'cancel', '--state', 'succeeded'], /--state: must be one of/],
  [['jobs', 'cancel', '--type', 'resise', '--yes'], /--type: no job type has the name "resise"/],
  [['jobs', 'cancel', '--tag', 'order'], /--tag: must be a name and a value/],
  [['jobs', 'cancel', '--tag', `order=${'x'.repeat(513)}`], /--tag: must have at most 512 bytes/],
  [['jobs', 'cancel', '--type', 'resize', '--limit', '0'], /--limit: must be a whole number/],
  [['jobs', 'priority', 'a'], /missing required argument 'priority'/],
  [['jobs', 'priority', 'a', 'high'], /priority: must be a number/],
  [['jobs', 'priority', 'a', '11'], /priority: must be a whole number from 0 to 10/],
  [['jobs', 'priority', '', '5'], /id: must not be empty/],
  [['jobs', 'retime', '--in', '5m'], /give an id, or a filter such as --type/],
  [['jobs', 'retime', '--state', 'running', '--in', '5m'], /--state: must be one of/],
  [['jobs', 'retime', '--type', 'resize'], /name exactly one of --run-at and --in/],
  [['jobs', 'retime', 'a'], /name exactly one of --run-at and --in/],
  [[...RETIME, '--in', '5m'], /name exactly one of --run-at and --in/],
  [['jobs', 'retime', '', '--in', '5m'], /id: must not be empty/],
  [['jobs', 'retime', LONG, '--in', '5m'], /id: must be at most 256 bytes/],
  [[...RETIME, 'b'], /too many arguments/],
  [[...RETIME, '--force'], /unknown option '--force'/],
  [['jobs', 'retime', 'a', '--at', '2027-01-31T08:00:00Z'], /unknown option '--at'/],
  [['jobs', 'retime', 'a', '--run-at'], /argument missing/],
  [['jobs', 'retime', 'a', '--run-at', ''], /--run-at: must be an ISO 8601 instant/],
  [['jobs', 'retime', 'a', '--run-at', 'tomorrow'], /--run-at: must be an ISO 8601 instant/],
  [['jobs', 'retime', 'a', '--run-at', '2027-01-31'], /--run-at: must be an ISO 8601 instant/],
  [['jobs', 'retime', 'a', '--run-at', '2027-02-30T08:00:00Z'], /--run-at: must be an ISO 8601 instant/],
  [['jobs', 'retime', 'a', '--run-at', '1800000000000'], /--run-at: must be an ISO 8601 instant/],
  [['jobs', 'retime', 'a', '--in', ''], /--in: must be a number with a unit/],
  [['jobs', 'retime', 'a', '--in', '5'], /--in: must be a number with a unit/],
  [['jobs', 'retime', 'a', '--in', '-5m'], /--in: must be a number with a unit/],
  [['jobs', 'retime', 'a', '--in', `${'9'.repeat(12)}h`], /--in: "9+h" from now is after the year 9999/],
  [['jobs', 'retime', 'a', '--in', `${'9'.repeat(400)}h`], /--in: "9+h" from now is after the year 9999/],
  [['jobs', 'list', '--state', 'done'], /--state: must be one of "scheduled", "pending"/],
  [['jobs', 'list', '--state', 'succeeded'], /--type: is missing/],
  [['jobs', 'list', '--state', 'succeeded', '--type', 'resize'], /--type: .*listFinished: true/],
  [['jobs', 'list', '--since', 'yesterday'], /--since: must be an ISO 8601 instant/],
  [['jobs', 'list', '--state', ''], /--state: /],
  [['jobs', 'list', '--type', 'resise'], /--type: no job type has the name "resise"/],
  [['jobs', 'list', '--type', ''], /--type: /],
  [['jobs', 'list', '--key', LONG], /--key: /],
  [['jobs', 'list', '--key', ''], /--key: is empty/],
  [['jobs', 'list', '--mode', 'slow'], /--mode: /],
  [['jobs', 'list', '--limit', '0'], /--limit: must be a whole number from 1 to 10000/],
  [['jobs', 'list', '--limit', '10001'], /--limit: must be a whole number/],
  [['jobs', 'list', '--limit', '1.5'], /--limit: must be a whole number/],
  [['jobs', 'list', '--limit', 'all'], /--limit: must be a number/],
  [['jobs', 'list', 'pending'], /too many arguments/],
  [['jobs', 'stop'], /unknown command 'stop'/],
  [['keys', '--limit', '-1'], /--limit: must be a whole number/],
  [['keys', '--count', 'many'], /--count: must be a number/],
  [['keys', '--count', '-1'], /--count: /],
  [['keys', '--count', '1.5'], /--count: /],
  [['keys', '--count', '10001'], /--count: /],
  [['fleets', 'images'], /too many arguments/],
  [['fleets', '--jsno'], /unknown option '--jsno'/],
  [['fleets', '--env-file'], /argument missing/],
  [['dead-letters', 'purge'], /unknown command "purge"\. .*dead-letters has: list, redrive/],
  [['dead-letters', 'redrve'], /unknown command "redrve"\. Did you mean "redrive"/],
  [['dead-letters', '--type', 'resise'], /--type: /],
  [['dead-letters', 'list', '--error', ''], /--error: /],
  [['dead-letters', 'list', '--after', 'yesterday'], /--after: /],
  [['dead-letters', 'list', '--before', '2027-01-31'], /--before: /],
  [['dead-letters', 'list', '--limit', '0'], /--limit: /],
  [['dead-letters', 'redrive'], /give a filter, or --all/],
  [['dead-letters', 'redrive', '--all', '--key', 'a'], /give a filter, or --all/],
  [['dead-letters', 'redrive', '--type', 'resise'], /--type: /],
  [['dead-letters', 'redrive', '--all', '--limit', '10001'], /--limit: /],
  ...['pause', 'resume', 'drain'].flatMap((verb): [readonly string[], RegExp][] => [
    [[verb], /name exactly one of --pool/],
    [[verb, '--pool', '--type', 'resize'], /name exactly one of --pool/],
    [[verb, '--type'], /argument missing/],
    [[verb, '--type', 'resise'], /--type: no job type has the name "resise"/],
    [[verb, '--tier', 'gold'], /--tier: no tier has the name "gold"/],
    [[verb, '--fleet', 'trucks'], /--fleet: no fleet has the name "trucks"/],
    [[verb, '--fleet', ''], /--(key|fleet): /],
    [[verb, '--key', LONG], /--(key|fleet): /],
    [[verb, '--key', ''], /--key: is empty/],
    [[verb, 'resize'], /too many arguments/],
  ]),
  [['drain', '--pool', '--timeout', 'soon'], /--timeout: /],
  [['drain', '--pool', '--timeout', '0ms'], /--timeout: /],
  [[...DEDUPED, 'k', '--quiet', '5x'], /--quiet: must be a duration/],
  [[...DEDUPED, 'k', '--quiet', '5s', '--at-most', '0s'], /--at-most: must be a duration/],
  [[...DEDUPED, 'k', '--at-most', '5s'], /--at-most: bounds /],
  [[...DEDUPED, 'k', '--keep', 'lst'], /--keep: must be one of/],
  [[...DEDUPED, 'k', '--while-running', 'wait'], /--while-running: must be one of/],
  [[...DEDUPED, 'x'.repeat(600)], /--dedupe-key: must be at most 512 bytes/],
  [['override', 'set'], /name exactly one of --pool/],
  [['override', 'set', '--pool'], /name --max-concurrency or --weight/],
  [['override', 'set', '--pool', '--max-concurrency', '0'], /--max-concurrency: /],
  [['override', 'set', '--pool', '--max-concurrency', '1.5'], /--max-concurrency: /],
  [['override', 'set', '--pool', '--max-concurrency', 'none'], /--max-concurrency: must be a number/],
  [['override', 'set', '--pool', '--weight', '2'], /only a fairness key has a weight/],
  [['override', 'set', '--key', 'a', '--weight', '0'], /--weight: /],
  [['override', 'set', '--key', 'a', '--weight', '-1'], /--weight: /],
  [['override', 'set', '--key', 'a', '--weight', 'much'], /--weight: must be a number/],
  [['override', 'clear'], /name exactly one of --pool/],
  [['override', 'clear', '--type', 'resise'], /--type: /],
  [['override', 'drop'], /unknown command "drop"\. .*override has: list, history, set, clear/],
  [['schedules', 'list', '--limit', '0'], /--limit: must be a whole number from 1 to 10000/],
  [['schedules', 'list', '--limit', '-1'], /--limit: must be a whole number from 1 to 10000/],
  [['schedules', 'list', '--limit', '1.5'], /--limit: must be a whole number from 1 to 10000/],
  [['schedules', 'nxt'], /unknown command 'nxt'/],
  [[...NEXT, '--from', '2026-02-30T00:00:00Z'], /--from: must be an ISO 8601 instant/],
  [[...NEXT, '--from', '2026-03-29T02:30:00'], /--from: must be an ISO 8601 instant/],
  [['schedules', 'next', '--cron', '30 2 * *'], /cron: is not a cron pattern \(it has 4 fields\)/],
  [['schedules', 'next', '--cron', 'daily'], /cron: is not a cron pattern \(it has 1 field\)/],
  [
    ['schedules', 'next', '--cron', '0 30 2 * * * 2027'],
    /--cron: is a pattern of Quartz .* Write "30 2 \* \* \*"/,
  ],
  [[...PUT, '--misfire-max', '0.5'], /--misfire-max: must be a whole number from 1 to 100 \(got 0.5\)/],
  [[...PUT, '--max-failures', '0'], /--max-failures: must be a whole number from 1 to 1000 \(got 0\)/],
  [[...PUT, '--file', '/etc/hosts'], /--file: holds the whole schedule; put cron, type into it/],
  [
    [...PUT.slice(0, 3), '--file', '/etc/hosts', '--no-seconds'],
    /--file: holds the whole schedule; put seconds/,
  ],
  [['outcomes', 'publish', '--since', '2026-02-30T00:00:00Z'], /--since: must be an ISO 8601 instant/],
];

async function inhabited() {
  const scene = counter();
  await scene.deadLetter();
  await scene.put(scene.job(), scene.job());
  await scene.pass();
  await scene.client.pause({ fairnessKey: 'tenant-b' });
  return { ...scene, before: scene.everything() };
}

describe('words that cannot be meant', () => {
  it.each(CASES.map(([words, says]) => [words.join(' ').slice(0, 60), words, says] as const))(
    '%s',
    async (_, words, says) => {
      const { fairlead, everything, before, open } = await inhabited();
      const { code, out, error } = await fairlead(...words);
      expect(error).toMatch(says);
      expect(error.trim().split('\n').length).toBeLessThanOrEqual(2);
      // What a shell cannot give: null, and objects of the client.
      expect(error).not.toMatch(/got an (object|array)|null (means|removes)/);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(everything()).toBe(before);
      expect(open()).toBe(0);
    },
  );

  it('of which there are enough cases', () => {
    expect(CASES.length).toBeGreaterThanOrEqual(80);
  });

  it.each([
    ['5'],
    ['null'],
    ['"jobs"'],
    ['{}'],
    ['{"jobs":5}'],
    ['[]'],
    ['{"jobs":[]}'],
    [JSON.stringify(new Array(10_001).fill({ type: 'resize' }))],
  ])('a file of %.20s', async (content) => {
    const { fairlead, everything, before } = await inhabited();
    const { code, out, error } = await fairlead('jobs', 'submit', '--file', fileOf(content));
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(error).toMatch(/^fairlead: (--file: must hold|requests: must be) .*\n$/);
    expect(everything()).toBe(before);
  });

  it('as JSON, too, end with one document that names the field', async () => {
    const { fairlead } = counter();
    const { code, out, error } = await fairlead(...SUBMIT, '--priority', '11', '--json');
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(JSON.parse(error)).toMatchObject({ error: { name: 'ValidationError', field: 'priority' } });
  });
});

describe('words that are no command, with --json', () => {
  it.each([
    ['keys --type nope --json', "unknown option '--type'"],
    ['jobs get --json', "missing required argument 'id'"],
    ['nope --json', "unknown command 'nope'"],
    ['jobs --json', 'a command is missing; fairlead --help lists them'],
    ['--json', 'a command is missing; fairlead --help lists them'],
  ])('end with one document that says what is wrong: %s', async (line, message) => {
    const { fairlead } = counter();
    const { code, out, error } = await fairlead(...line.split(' '));
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(JSON.parse(error)).toEqual({ error: { name: 'UsageError', message } });
  });
});

describe('whatever words come', () => {
  const COMMANDS = [
    ['jobs', 'submit'],
    ['jobs', 'get'],
    ['jobs', 'list'],
    ['jobs', 'explain'],
    ['jobs', 'cancel'],
    ['jobs', 'retry'],
    ['jobs', 'retime'],
    ['keys'],
    ['fleets'],
    ['types'],
    ['dead-letters'],
    ['dead-letters', 'redrive'],
    ['pause'],
    ['resume'],
    ['override', 'set'],
    ['override', 'clear'],
  ] as const;
  const OPTIONS = [
    ...['--json', '--type', '--key', '--state', '--limit', '--count', '--priority', '--payload', '--run-at'],
    ...[
      '--mode',
      '--resource',
      '--idempotency-key',
      '--pool',
      '--tier',
      '--fleet',
      '--all',
      '--after',
      '--error',
    ],
    ...['--max-concurrency', '--weight', '--in', '--help', '--'],
  ];
  const words = fc.tuple(
    fc.constantFrom(...COMMANDS),
    fc.array(
      fc.oneof(
        fc.constantFrom(...OPTIONS),
        fc.constantFrom('resize', 'images', 'urgent', 'tenant-a', 'pending', '1', 'null'),
        fc.string({ unit: 'binary', maxLength: 12 }).filter((text) => text !== '-'),
      ),
      { maxLength: 6 },
    ),
  );

  it('the command ends with a code that it states, and with 2 it has changed nothing', async () => {
    await fc.assert(
      fc.asyncProperty(words, async ([command, rest]) => {
        const { fairlead, everything, open } = counter();
        const before = everything();
        const { code, error } = await fairlead(...command, ...rest);
        expect([0, 1, 2, 3, 4]).toContain(code);
        // Only what nobody foresaw tells where it happened.
        expect(error).not.toMatch(/\n +at /);
        if (code === 2) expect(everything()).toBe(before);
        expect(open()).toBe(0);
      }),
      { numRuns: 500 },
    );
  });
});
