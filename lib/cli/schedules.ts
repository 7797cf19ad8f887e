/** The commands about schedules. `next` of an expression needs no deployed scheduler. */
import type { Command } from 'commander';
import { type FiringsOf, firingsOf, type ListedFiring } from '../client/firings.ts';
import type { ScheduleView } from '../client/schedules.ts';
import type { ScheduleRequest, TimeRequest } from '../schedules/request.ts';
import { type Common, common, type Operator, perform, say } from './perform.ts';
import { amount, duration, fields, instant, printable, shortly, table, whole, words } from './report.ts';
import { instantMsOf, jsonFrom, LIMIT, limitOf, numberOf, readText, UsageError } from './usage.ts';

/** Adds the commands to the program. */
export function addSchedules(program: Command, operator: Operator): void {
  const schedules = program.command('schedules').description('Make, look at and steer recurring work.');
  addPut(schedules, operator);
  addNext(schedules, operator);
  addLooking(schedules, operator);
  addSteering(schedules, operator);
}

interface PutOptions extends Common, TimeOptions {
  readonly file?: string;
  readonly type?: string;
  readonly payload?: string;
  readonly payloadTemplate?: string;
  readonly priority?: string;
  readonly key?: string;
  readonly resource?: string;
  readonly mode?: string;
  readonly misfire?: string;
  readonly misfireGrace?: string;
  readonly misfireMax?: string;
  readonly ifRunning?: string;
  readonly maxFailures?: string;
}

function addPut(schedules: Command, operator: Operator): void {
  common(
    timing(
      schedules
        .command('put')
        .description('Make a schedule, or change it from its next firing on.')
        .argument('<id>')
        .option('--file <file>', 'all of it as JSON, in place of other options; - is the standard input')
        .option('--type <type>', 'of its jobs')
        .option('--payload <json>', 'what the handler gets')
        .option('--payload-template <json>', 'the same, with {{scheduledAt}} and the like')
        .option('--priority <number>', '0 to 10')
        .option('--key <key>', 'fairness key: whose share its jobs count against')
        .option('--resource <id>', 'with the conflict group of its type: never two at once')
        .option('--mode <mode>', 'queued or onDemand')
        .option('--misfire <policy>', 'firings that were missed: skip, once, or all')
        .option('--misfire-grace <duration>', 'later than this, a firing was missed')
        .option('--misfire-max <number>', 'missed firings that all makes up for')
        .option('--if-running <policy>', 'while its last job has not ended: allow, skip, queue, or replace')
        .option('--max-failures <number>', 'pause it after so many failed jobs in a row'),
    ),
  ).action((id: string, options: PutOptions) => {
    const { signal } = operator;
    const request = requestOf(options);
    return perform(operator, options, async (client) => {
      const { outcome, schedule } = await client.schedules.put(id, request, { signal });
      return { data: { outcome, schedule }, text: (width) => `${outcome}\n${scheduleText(schedule, width)}` };
    });
  });
}

function requestOf(options: PutOptions): ScheduleRequest {
  const { file, payload, payloadTemplate, priority, misfireMax, maxFailures, key, resource } = options;
  const given = {
    ...timesOf(options),
    type: options.type,
    payload: payload === undefined ? undefined : jsonFrom('--payload', payload),
    payloadTemplate:
      payloadTemplate === undefined ? undefined : jsonFrom('--payload-template', payloadTemplate),
    priority: priority === undefined ? undefined : numberOf('--priority', priority),
    fairnessKey: key,
    resourceId: resource,
    mode: options.mode,
    misfire: options.misfire,
    misfireGrace: options.misfireGrace,
    misfireMax: misfireMax === undefined ? undefined : numberOf('--misfire-max', misfireMax),
    ifRunning: options.ifRunning,
    maxFailures: maxFailures === undefined ? undefined : numberOf('--max-failures', maxFailures),
  };
  const said = Object.entries(given).filter(([, value]) => value !== undefined);
  if (file === undefined) return Object.fromEntries(said) as unknown as ScheduleRequest;
  if (said.length > 0)
    throw new UsageError(
      `--file: holds all of the schedule; put ${said.map(([name]) => name).join(', ')} into it`,
    );
  return jsonFrom('--file', readText('--file', file)) as ScheduleRequest;
}

function addLooking(schedules: Command, operator: Operator): void {
  common(
    schedules
      .command('list')
      .description('Schedules, with their next firing.')
      .option('--limit <number>', 'at most so many', LIMIT),
  ).action((options: Common & { readonly limit: string }) => {
    const limit = limitOf(options.limit);
    return perform(operator, options, async (client) => {
      const found: ScheduleView[] = [];
      let more = false;
      for await (const schedule of client.schedules.list({ signal: operator.signal })) {
        more = found.length >= limit;
        if (more) break;
        found.push(schedule);
      }
      return { data: { schedules: found, more }, text: (width) => schedulesText(found, more, width) };
    });
  });
  common(
    schedules
      .command('get')
      .description('A schedule, what its last firings became, and why it does not fire.')
      .argument('<id>'),
  ).action((id: string, options: Common) =>
    perform(operator, options, async (client) => {
      const schedule = await client.schedules.get(id, { signal: operator.signal });
      return { data: { schedule }, text: (width) => scheduleText(schedule, width) };
    }),
  );
}

function addSteering(schedules: Command, operator: Operator): void {
  for (const verb of ['pause', 'resume'] as const) {
    common(
      schedules
        .command(verb)
        .description(verb === 'pause' ? 'Stop a schedule.' : 'Let a schedule go on with its next firing.')
        .argument('<id>'),
    ).action((id: string, options: Common) =>
      perform(operator, options, async (client) => {
        const schedule = await client.schedules[verb](id, { signal: operator.signal });
        return { data: { schedule }, text: (width) => scheduleText(schedule, width) };
      }),
    );
  }
  common(
    schedules.command('delete').description('Remove a schedule; its jobs go on.').argument('<id>'),
  ).action((id: string, options: Common) =>
    perform(operator, options, async (client) => {
      await client.schedules.delete(id, { signal: operator.signal });
      return { data: { deleted: id }, text: `deleted ${id}` };
    }),
  );
  common(
    schedules
      .command('run-now')
      .description("Make a schedule's job now, beside its firings.")
      .argument('<id>'),
  ).action((id: string, options: Common) =>
    perform(operator, options, async (client) => {
      const { jobId } = await client.schedules.runNow(id, { signal: operator.signal });
      return { data: { jobId }, text: jobId };
    }),
  );
}

/** How a command says when something fires. */
interface TimeOptions {
  readonly cron?: string;
  readonly every?: string;
  readonly zone?: string;
  readonly gap?: string;
  readonly overlap?: string;
  readonly start?: string;
  readonly end?: string;
  readonly jitter?: string;
  readonly blackout?: TimeRequest['blackouts'];
  /** False with `--no-seconds`. */
  readonly seconds?: boolean;
}

function timing(command: Command): Command {
  return command
    .option('--cron <pattern>', 'five fields from minutes, six from seconds, or @daily and the like')
    .option('--every <duration>', 'elapsed time between firings, such as 30s, 5m, 1h or 1d')
    .option('--zone <zone>', 'IANA name, such as Europe/Berlin; UTC unless given')
    .option('--gap <policy>', 'a local time that is skipped: next, or skip')
    .option('--overlap <policy>', 'a local time that comes twice: once, or twice')
    .option('--start <instant>', 'not before, such as 2027-01-31T08:00:00Z')
    .option('--end <instant>', 'not at or after')
    .option('--jitter <duration>', 'each firing is later by a part of this')
    .option(
      '--blackout <json>',
      'a time without firings, such as {"from":"22:00","until":"06:00","days":["fri"]}; may be repeated',
      (text: string, before: readonly unknown[] = []) => [...before, jsonFrom('--blackout', text)],
    )
    .option('--no-seconds', 'refuse a pattern with a field for seconds');
}

/** What was said, as it is checked with everything else. */
function timesOf(options: TimeOptions): TimeRequest {
  const { cron, every, zone, gap, overlap, start, end, jitter, blackout, seconds } = options;
  const given = {
    cron,
    every,
    zone,
    gap,
    overlap,
    start,
    end,
    jitter,
    blackouts: blackout,
    ...(seconds === false ? { seconds } : {}),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as TimeRequest;
}

interface NextOptions extends TimeOptions, Common {
  readonly as?: string;
  readonly from?: string;
  readonly count: string;
}

function addNext(schedules: Command, operator: Operator): void {
  common(
    timing(
      schedules
        .command('next')
        .description('Show when a schedule fires, or an expression that nobody has deployed.')
        .argument('[id]', 'a schedule; without one, an expression: --cron or --every')
        .option('--as <id>', 'of the schedule that an expression is meant for: its jitter follows from it')
        .option('--from <instant>', 'firings after this instant; now unless given')
        .option('--count <number>', 'how many', '10'),
    ),
  ).action(async (id: string | undefined, options: NextOptions) => {
    const count = numberOf('--count', options.count);
    const fromMs = options.from === undefined ? operator.nowMs() : instantMsOf('--from', options.from);
    if (id === undefined) {
      const found = firingsOf(timesOf(options), fromMs, count, options.as);
      return say(operator, options, { data: dataOf(found), text: (width) => firingsText(found, width) });
    }
    if (options.as !== undefined || Object.keys(timesOf(options)).length > 0)
      throw new UsageError('next: give either the id of a schedule, or an expression');
    await perform(operator, options, async (client) => {
      const found = await client.schedules.next(id, {
        from: new Date(fromMs).toISOString(),
        count,
        signal: operator.signal,
      });
      return { data: dataOf(found), text: (width) => firingsText(found, width) };
    });
  });
}

const dataOf = ({ firings, policies, jitterMs, state }: FiringsOf) => ({
  firings: firings.map(({ utc, local, latest }) => ({
    utc,
    local,
    ...(latest === undefined ? {} : { latest }),
  })),
  ...(policies.length === 0 ? {} : { policies }),
  ...(jitterMs === undefined ? {} : { jitterSec: jitterMs / 1_000 }),
  ...(state === undefined ? {} : { state }),
});

/** Of a pattern with its zone, such as `30 2 * * * Europe/Berlin`. */
const WHEN_LETTERS = 24;
/** Of `2027-01-31T08:00:00Z`, and a sign that more follows. */
const INSTANT_LETTERS = 21;

const MARKS: Readonly<Record<NonNullable<ListedFiring['change']>, string>> = {
  moved: 'moved: skipped',
  first: 'first of two',
  second: 'second of two',
};

/** Firings as a person reads them, and what the policies about clock changes would do. */
export function firingsText(
  { zone, firings, policies, jitterMs = 0, state }: FiringsOf,
  width: number,
): string {
  if (firings.length === 0) return 'it does not fire any more';
  const isChanged = firings.some(({ change }) => change !== undefined);
  const rows = firings.map(({ utc, local, change, latest }) => [
    local,
    shortly(Date.parse(utc)),
    ...(latest === undefined ? [] : [shortly(Date.parse(latest))]),
    ...(isChanged ? [change === undefined ? '-' : MARKS[change]] : []),
  ]);
  const latest = jitterMs === 0 ? [] : [whole('UTC, at the latest', 1)];
  const columns = [
    whole(`local time (${printable(zone)})`),
    whole('UTC', 1),
    ...latest,
    ...(isChanged ? [whole('clock change')] : []),
  ];
  const told = policies.map(({ local, what }) => `  ${local}: ${what}`);
  const changes =
    told.length === 0
      ? 'No clock change moves a firing in this time.'
      : `What each policy does where the clock changes in this time:\n${told.join('\n')}`;
  const later =
    jitterMs === 0
      ? ''
      : `\nA schedule fires later than this by up to ${duration(jitterMs)}, always as much: it follows from its id. Name that: --as <id>.`;
  const stopped =
    state === undefined ? '' : `\nIt is ${state}: it fires at none of these until it is resumed.`;
  return `${table(columns, rows, width)}\n${changes}${later}${stopped}`;
}

const whenText = ({ spec }: ScheduleView): string =>
  spec.when.kind === 'cron' ? spec.when.expression : `every ${duration(spec.when.everyMs)}`;

function schedulesText(schedules: readonly ScheduleView[], more: boolean, width: number): string {
  if (schedules.length === 0) return 'no schedules';
  const rows = schedules.map((each) => [
    each.id,
    each.state,
    `${whenText(each)} ${each.spec.timeZone}`,
    each.spec.job.type,
    shortly(each.lastMs),
    shortly(each.nextDueMs),
  ]);
  const columns = [
    words('schedule'),
    words('state', 1),
    words('when', 0, WHEN_LETTERS),
    words('type', 3),
    whole('last', 4),
    whole('next', 2),
  ];
  return `${table(columns, rows, width)}${more ? '\n… and more: raise --limit' : ''}`;
}

/** Everything about one schedule. */
function scheduleText(schedule: ScheduleView, width: number): string {
  const rows: (readonly [string, unknown])[] = [
    ['schedule', schedule.id],
    ['state', schedule.state],
    ['when', whenText(schedule)],
    ['zone', schedule.spec.timeZone],
    ['type', schedule.spec.job.type],
    ['key', schedule.spec.job.fairnessKey],
    ['declared by a deployment', schedule.isDeclared ? 'yes' : 'no'],
    ['last', instant(schedule.lastMs)],
    ['next', instant(schedule.nextDueMs)],
    ['failures in a row', schedule.failures],
  ];
  const firings = schedule.firings.map(({ atMs, untilMs, what, jobId, jobState, lateMs }) => [
    untilMs === undefined ? shortly(atMs) : `${shortly(atMs)} to ${shortly(untilMs)}`,
    what,
    jobId ?? '-',
    jobState ?? '-',
    lateMs === undefined ? '-' : duration(lateMs),
  ]);
  const columns = [
    words('firing', 0, INSTANT_LETTERS),
    words('what became of it'),
    whole('job', 1),
    words('state', 3),
    amount('started late by', 2),
  ];
  return [
    ...fields(rows),
    ...(firings.length === 0 ? ['It has not fired yet.'] : [table(columns, firings, width)]),
    ...schedule.why.map((sentence) => printable(sentence)),
  ].join('\n');
}
