/** The commands for schedules. `next` with an expression needs no deployed scheduler. */
import type { Command } from 'commander';
import { type FiringsOf, firingsOf, type ListedFiring } from '../client/firings.ts';
import type { ScheduleView } from '../client/schedules.ts';
import type { Tags } from '../core/job.ts';
import type { ScheduleRequest, TimeRequest } from '../schedules/request.ts';
import { type CommonOptions, type Operator, perform, printOutput, withCommonOptions } from './perform.ts';
import {
  duration,
  fieldLines,
  instant,
  instantWithoutMs,
  numberColumn,
  printable,
  table,
  textColumn,
  uncutColumn,
} from './report.ts';
import {
  instantMsOf,
  jsonFrom,
  LIMIT,
  type LimitOptions,
  limitOf,
  numberOf,
  readText,
  UsageError,
  withLimitOptions,
  withTags,
} from './usage.ts';
import { tagsText } from './views.ts';

/** Adds the commands to the program. */
export function addSchedules(program: Command, operator: Operator): void {
  const schedules = program.command('schedules').description('Create, inspect and change recurring jobs.');
  addPut(schedules, operator);
  addNext(schedules, operator);
  addInspecting(schedules, operator);
  addChanging(schedules, operator);
}

interface PutOptions extends CommonOptions, TimeOptions, LimitOptions {
  readonly file?: string;
  readonly type?: string;
  readonly payload?: string;
  readonly payloadTemplate?: string;
  readonly priority?: string;
  readonly key?: string;
  readonly resource?: string;
  readonly tag?: Tags;
  readonly mode?: string;
  readonly misfire?: string;
  readonly misfireGrace?: string;
  readonly misfireMax?: string;
  readonly ifRunning?: string;
  readonly maxFailures?: string;
}

function addPut(schedules: Command, operator: Operator): void {
  withCommonOptions(
    withTimeOptions(
      withLimitOptions(
        withTags(
          schedules
            .command('put')
            .description('Create a schedule, or change it from its next firing on.')
            .argument('<id>'),
          'a tag of its jobs',
        ),
      )
        .option('--file <file>', 'the whole schedule as JSON, instead of options; - is the standard input')
        .option('--type <type>', 'the type of its jobs')
        .option('--payload <json>', "the handler's input")
        .option('--payload-template <json>', 'the same, with placeholders such as {{scheduledAt}}')
        .option('--priority <number>', '0 to 10')
        .option('--key <key>', 'fairness key: whose share its jobs are charged to')
        .option('--resource <id>', 'jobs on one resource never overlap, within a conflict group')
        .option('--mode <mode>', 'queued or onDemand')
        .option('--misfire <policy>', 'what to do with missed firings: skip, once, or all')
        .option('--misfire-grace <duration>', 'a firing counts as missed if it is noticed later than this')
        .option('--misfire-max <number>', 'the most missed firings that `all` makes up for')
        .option('--if-running <policy>', 'if its last job has not ended: allow, skip, queue, or replace')
        .option('--max-failures <number>', 'stop the schedule after so many failed jobs in a row'),
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
    keys: options.keys,
    units: options.units,
    tags: options.tag,
    mode: options.mode,
    misfire: options.misfire,
    misfireGrace: options.misfireGrace,
    misfireMax: misfireMax === undefined ? undefined : numberOf('--misfire-max', misfireMax),
    ifRunning: options.ifRunning,
    maxFailures: maxFailures === undefined ? undefined : numberOf('--max-failures', maxFailures),
  };
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  if (file === undefined) return Object.fromEntries(set) as unknown as ScheduleRequest;
  if (set.length > 0)
    throw new UsageError(
      `--file: holds the whole schedule; put ${set.map(([name]) => name).join(', ')} into it`,
    );
  return jsonFrom('--file', readText('--file', file)) as ScheduleRequest;
}

function addInspecting(schedules: Command, operator: Operator): void {
  withCommonOptions(
    schedules
      .command('list')
      .description('List schedules with their next firing.')
      .option('--limit <number>', 'at most this many', LIMIT),
  ).action((options: CommonOptions & { readonly limit: string }) => {
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
  withCommonOptions(
    schedules
      .command('get')
      .description('Show a schedule, its last firings, and why it does not fire.')
      .argument('<id>'),
  ).action((id: string, options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const schedule = await client.schedules.get(id, { signal: operator.signal });
      return { data: { schedule }, text: (width) => scheduleText(schedule, width) };
    }),
  );
}

function addChanging(schedules: Command, operator: Operator): void {
  for (const verb of ['pause', 'resume'] as const) {
    withCommonOptions(
      schedules
        .command(verb)
        .description(verb === 'pause' ? 'Pause a schedule.' : 'Resume a schedule with its next firing.')
        .argument('<id>'),
    ).action((id: string, options: CommonOptions) =>
      perform(operator, options, async (client) => {
        const schedule = await client.schedules[verb](id, { signal: operator.signal });
        return { data: { schedule }, text: (width) => scheduleText(schedule, width) };
      }),
    );
  }
  withCommonOptions(
    schedules.command('delete').description('Remove a schedule; its jobs continue.').argument('<id>'),
  ).action((id: string, options: CommonOptions) =>
    perform(operator, options, async (client) => {
      await client.schedules.delete(id, { signal: operator.signal });
      return { data: { deleted: id }, text: `deleted ${id}` };
    }),
  );
  withCommonOptions(
    schedules
      .command('run-now')
      .description("Make a schedule's job now, in addition to its firings.")
      .argument('<id>'),
  ).action((id: string, options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const { jobId } = await client.schedules.runNow(id, { signal: operator.signal });
      return { data: { jobId }, text: jobId };
    }),
  );
}

/** Options that describe when a schedule fires. */
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
  /** Whether patterns may have a field for seconds; false with `--no-seconds`. */
  readonly seconds?: boolean;
}

function withTimeOptions(command: Command): Command {
  return command
    .option('--cron <pattern>', 'five fields from minutes, six from seconds, or a name such as @daily')
    .option('--every <duration>', 'elapsed time between firings, such as 30s, 5m, 1h or 1d')
    .option('--zone <zone>', 'IANA time zone, such as Europe/Berlin (default: UTC)')
    .option('--gap <policy>', 'for a local time that a clock change skips: next, or skip')
    .option('--overlap <policy>', 'for a local time that occurs twice: once, or twice')
    .option('--start <instant>', 'no firings before this, such as 2027-01-31T08:00:00Z')
    .option('--end <instant>', 'no firings at or after this')
    .option('--jitter <duration>', 'each firing is delayed by a part of this')
    .option(
      '--blackout <json>',
      'a time without firings, such as {"from":"22:00","until":"06:00","days":["fri"]}; may be repeated',
      (text: string, before: readonly unknown[] = []) => [...before, jsonFrom('--blackout', text)],
    )
    .option('--no-seconds', 'refuse a pattern with a seconds field');
}

/** Returns the options that were given. The request's own rule checks them. */
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

interface NextOptions extends TimeOptions, CommonOptions {
  readonly as?: string;
  readonly from?: string;
  readonly count: string;
}

function addNext(schedules: Command, operator: Operator): void {
  withCommonOptions(
    withTimeOptions(
      schedules
        .command('next')
        .description('Show when a schedule fires, or when an expression would.')
        .argument('[id]', 'a schedule; without one, an expression: --cron or --every')
        .option('--as <id>', 'a schedule id for the expression, which decides its delay by jitter')
        .option('--from <instant>', 'firings after this instant (default: now)')
        .option('--count <number>', 'how many firings', '10'),
    ),
  ).action(async (id: string | undefined, options: NextOptions) => {
    const count = numberOf('--count', options.count);
    const fromMs = options.from === undefined ? operator.nowMs() : instantMsOf('--from', options.from);
    if (id === undefined) {
      const found = firingsOf(timesOf(options), fromMs, count, options.as);
      return printOutput(operator, options, {
        data: dataOf(found),
        text: (width) => firingsText(found, width),
      });
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

/** The least width of a pattern with its zone, such as `30 2 * * * Europe/Berlin`. */
const WHEN_LETTERS = 24;
/** The least width of a firing: `2027-01-31T08:00:00Z`, and a sign that more follows. */
const INSTANT_LETTERS = 21;

const MARKS: Readonly<Record<NonNullable<ListedFiring['change']>, string>> = {
  moved: 'moved: skipped',
  first: 'first of two',
  second: 'second of two',
};

/** Returns a table of firings, and the effect of each policy at clock changes. */
export function firingsText(
  { zone, firings, policies, jitterMs = 0, state }: FiringsOf,
  width: number,
): string {
  if (firings.length === 0) return 'it does not fire any more';
  const isChanged = firings.some(({ change }) => change !== undefined);
  const rows = firings.map(({ utc, local, change, latest }) => [
    local,
    instantWithoutMs(Date.parse(utc)),
    ...(latest === undefined ? [] : [instantWithoutMs(Date.parse(latest))]),
    ...(isChanged ? [change === undefined ? '-' : MARKS[change]] : []),
  ]);
  const latest = jitterMs === 0 ? [] : [uncutColumn('UTC, at the latest', 1)];
  const columns = [
    uncutColumn(`local time (${printable(zone)})`),
    uncutColumn('UTC', 1),
    ...latest,
    ...(isChanged ? [uncutColumn('clock change')] : []),
  ];
  const lines = policies.map(({ local, what }) => `  ${local}: ${what}`);
  const changes =
    lines.length === 0
      ? 'No clock change moves a firing in this time.'
      : `The effect of each policy at clock changes in this time:\n${lines.join('\n')}`;
  const later =
    jitterMs === 0
      ? ''
      : `\nA schedule fires up to ${duration(jitterMs)} later than this. Its id decides by how much: give it with --as <id>.`;
  const stopped =
    state === undefined ? '' : `\nIt is ${state}: it will not fire at these times unless it is resumed.`;
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
    instantWithoutMs(each.lastMs),
    instantWithoutMs(each.nextDueMs),
  ]);
  const columns = [
    textColumn('schedule'),
    textColumn('state', 1),
    textColumn('when', 0, WHEN_LETTERS),
    textColumn('type', 3),
    uncutColumn('last', 4),
    uncutColumn('next', 2),
  ];
  return `${table(columns, rows, width)}${more ? '\n… and more: raise --limit' : ''}`;
}

/** Returns all fields of one schedule. */
function scheduleText(schedule: ScheduleView, width: number): string {
  const rows: (readonly [string, unknown])[] = [
    ['schedule', schedule.id],
    ['state', schedule.state],
    ['when', whenText(schedule)],
    ['zone', schedule.spec.timeZone],
    ['type', schedule.spec.job.type],
    ['key', schedule.spec.job.fairnessKey],
    ...(schedule.spec.job.keys === undefined ? [] : [['keys', tagsText(schedule.spec.job.keys)] as const]),
    ...(schedule.spec.job.units === undefined ? [] : [['units', tagsText(schedule.spec.job.units)] as const]),
    ...(schedule.spec.job.tags === undefined ? [] : [['tags', tagsText(schedule.spec.job.tags)] as const]),
    ['declared by a deployment', schedule.isDeclared ? 'yes' : 'no'],
    ['last', instant(schedule.lastMs)],
    ['next', instant(schedule.nextDueMs)],
    ['failures in a row', schedule.failures],
  ];
  const firings = schedule.firings.map(({ atMs, untilMs, what, jobId, jobState, lateMs }) => [
    untilMs === undefined
      ? instantWithoutMs(atMs)
      : `${instantWithoutMs(atMs)} to ${instantWithoutMs(untilMs)}`,
    what,
    jobId ?? '-',
    jobState ?? '-',
    lateMs === undefined ? '-' : duration(lateMs),
  ]);
  const columns = [
    textColumn('firing', 0, INSTANT_LETTERS),
    textColumn('outcome'),
    uncutColumn('job', 1),
    textColumn('state', 3),
    numberColumn('started late by', 2),
  ];
  return [
    ...fieldLines(rows),
    ...(firings.length === 0 ? ['It has not fired yet.'] : [table(columns, firings, width)]),
    ...schedule.why.map((sentence) => printable(sentence)),
  ].join('\n');
}
