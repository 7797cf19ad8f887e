/** Jobs, keys and fleets as a person reads them. */
import type { CancelEntry, RetimeEntry } from '../client/bulk.ts';
import type { RedriveEntry } from '../client/dead-letters.ts';
import type { SubmitEntry } from '../client/submissions.ts';
import { type Control, type ControlEntry, type ControlField, lastChange } from '../core/capacity.ts';
import type { JobAttempt, JobEvent, JobHistory } from '../core/history.ts';
import { endedAtMs, isTerminal, type Job, type JobUnits, type MovingJob, type Tags } from '../core/job.ts';
import { referenceIn, sizeText } from '../core/object-reference.ts';
import { leaseInForceMs } from '../dispatch/recovery/silence.ts';
import type { ControlAnswer } from '../operate/controls.ts';
import type { DispatchersView } from '../operate/dispatchers.ts';
import type { DeclarationView, FleetView, KeyView, TypeView } from '../operate/inspect.ts';
import type { Rejection, UnreadableItem } from '../store/contract/records.ts';
import {
  type Column,
  duration,
  fieldLines,
  instant,
  instantWithoutMs,
  number,
  numberColumn,
  printable,
  table,
  textColumn,
  uncutColumn,
} from './report.ts';

export const errorText = (job: MovingJob): string =>
  job.error === undefined ? '-' : `${job.error.name}: ${job.error.message}`;

/** The least width of a column with ids or reasons: an id's length. Ids are not cut, reasons may be. */
const ID_LETTERS = 32;
/** The least width of an event's id on the bus. */
const EVENT_LETTERS = 36;
/** The least width of an error, which is enough to tell errors apart. */
const ERROR_LETTERS = 24;

/** Returns tags as `--tag` takes them. */
export const tagsText = (tags: Tags | JobUnits): string =>
  Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

/** Returns a table of jobs, and whether there are more. */
export function jobsText(jobs: readonly Job[], more: boolean, width: number): string {
  if (jobs.length === 0) return 'no such jobs';
  // There is room for tags only if columns are not cut.
  const showsTags = width === Number.POSITIVE_INFINITY && jobs.some(({ tags }) => tags !== undefined);
  const rows = jobs.map((job) => [
    job.id,
    job.state,
    job.type,
    job.fairnessKey,
    job.priority,
    instantWithoutMs(
      job.state === 'scheduled' ? job.runAtMs : isTerminal(job.state) ? endedAtMs(job) : job.readyAtMs,
    ),
    job.attempt,
    ...(showsTags ? [tagsText(job.tags ?? {})] : []),
    ...(job.state === 'failed' ? [errorText(job)] : []),
  ]);
  const columns = [
    uncutColumn('job'),
    textColumn('state', 4),
    textColumn('type'),
    textColumn('key', 1),
    numberColumn('priority', 5),
    uncutColumn(timeOf(jobs), 2),
    numberColumn('attempt', 3),
    ...(showsTags ? [textColumn('tags')] : []),
    ...(jobs.some((job) => job.state === 'failed') ? [textColumn('error', 0, ERROR_LETTERS)] : []),
  ];
  return withMore(table(columns, rows, width), more);
}

/** Returns the items that cannot be read, with the reasons. */
export function unreadableText(items: readonly UnreadableItem[]): string {
  if (items.length === 0) return 'all items that were read are readable';
  return items
    .map(({ seenAtMs, line, reason }) => {
      const from = line === undefined ? '' : `, and taken out of ${printable(line)}`;
      return `found at ${instant(seenAtMs)}${from}\n  ${printable(reason)}`;
    })
    .join('\n');
}

/** Returns a table of refused entries of events. */
export function rejectionsText(rejections: readonly Rejection[], more: boolean, width: number): string {
  if (rejections.length === 0) return 'nothing was refused in the last 30 days';
  const rows = rejections.map(({ rejectedAtMs, sourceId, position, field, reason }) => [
    instantWithoutMs(rejectedAtMs),
    sourceId,
    position,
    field,
    reason,
  ]);
  const columns = [
    uncutColumn('refused at', 2),
    textColumn('event', 0, EVENT_LETTERS),
    numberColumn('entry', 3),
    textColumn('field', 1),
    textColumn('why'),
  ];
  return withMore(table(columns, rows, width), more);
}

/** Returns all fields of the refused entries of one event. */
export function rejectionText(rejections: readonly Rejection[]): string {
  return rejections
    .map(({ sourceId, position, field, reason, rejectedAtMs, detail }) =>
      fieldLines([
        ['event', sourceId],
        ['entry', position],
        ['field', field === '' ? 'the whole' : field],
        ['why', reason],
        ['refused at', instant(rejectedAtMs)],
        ['sent', detail],
      ]).join('\n'),
    )
    .join('\n\n');
}

function timeOf(jobs: readonly Job[]): string {
  const [first] = jobs;
  if (first === undefined || !isTerminal(first.state)) {
    return first?.state === 'scheduled' ? 'runs at' : 'ready at';
  }
  return first.state === 'failed' ? 'failed at' : 'ended at';
}

const withMore = (text: string, more: boolean): string =>
  more ? `${text}\n… and more: raise --limit, or use a filter` : text;

/** A value as JSON; of a reference, how large its object is, and where. */
function valueText(value: unknown): string {
  const object = referenceIn(value);
  return object === undefined ? JSON.stringify(value) : `${sizeText(object.bytes)} in S3: ${object.key}`;
}

/** Returns all fields of one job. */
export function jobText(job: Job): string {
  const rows: (readonly [string, unknown])[] = [
    ['job', job.id],
    ['state', job.state],
    ['type', job.type],
    ['key', job.fairnessKey],
    ['resource', job.resourceId],
    ['keys', job.keys === undefined ? undefined : tagsText(job.keys)],
    ['units', job.units === undefined ? undefined : tagsText(job.units)],
    ['label', job.label],
    ['tags', job.tags === undefined ? undefined : tagsText(job.tags)],
    ['priority', job.priority],
    ['mode', job.mode],
    ['attempt', job.attempt],
    ['workers lost', job.workersLost],
    ['submitted', instant(job.submittedAtMs)],
    ['not before', instant(job.runAtMs)],
    ['started', instant(job.startedAtMs)],
    ['finished', instant(job.finishedAtMs)],
    ['cancel requested', instant(job.cancelRequestedAtMs)],
    ['worker', job.worker?.workerId],
    ['progress', job.progress === undefined ? undefined : JSON.stringify(job.progress)],
    ['error', job.error === undefined ? undefined : errorText(job)],
    ['another try of', job.redriveOf],
    ['tried again as', job.redrivenAs],
    ['unreadable', job.unreadable],
    ['payload', valueText(job.payload)],
    ['result', job.result === undefined ? undefined : valueText(job.result)],
  ];
  return fieldLines(rows.filter(([, value]) => value !== undefined && value !== '-')).join('\n');
}

/** Returns a job's history, one line for each event; the stack of a failed attempt's error stands below it. */
export function historyText({ jobId, state, events, dropped }: JobHistory): string {
  const { attempts, losses, others } = dropped;
  const gone = attempts + others;
  return [
    `job ${jobId} is ${state}`,
    ...events.flatMap((event, at) => [
      `${instant(timeOfEvent(event))}  ${eventText(event)}`,
      ...(at === 0 && gone > 0
        ? [
            `… ${gone} events were dropped: ${attempts} attempts, ${losses} of them lost, and ${others} others`,
          ]
        : []),
    ]),
  ].join('\n');
}

const timeOfEvent = (event: JobEvent): number | undefined =>
  event.kind === 'attempt' ? (event.startedAtMs ?? event.claimedAtMs) : event.atMs;

const byText = (by: string | undefined): string => (by === undefined ? '' : ` by ${printable(by)}`);

function eventText(event: JobEvent): string {
  switch (event.kind) {
    case 'submitted':
      return event.redriveOf === undefined
        ? 'submitted'
        : `made as another try of ${event.redriveOf}${byText(event.by)}`;
    case 'attempt':
      return attemptText(event);
    case 'moved':
      return `moved${byText(event.by)} from ${instant(event.fromMs)} to ${instant(event.toMs)}`;
    case 'priority':
      return `priority changed${byText(event.by)} from ${event.from} to ${event.to}`;
    case 'notClaimed':
      return `passed on: its reservation was not claimed (${event.claimId})`;
    case 'givenBack':
      return `passed on: its claim ${event.claimId} was given back, because fleet ${printable(event.fleet)} is not declared any more`;
    case 'cancelled':
      return event.from === 'running'
        ? `its worker was asked to stop${byText(event.by)}`
        : `cancelled${byText(event.by)}${event.from === undefined ? '' : `, ${event.from} until then`}`;
    case 'expired':
      return 'expired: it had not started in time';
    case 'redriven':
      return `tried again as ${event.as}${byText(event.by)}`;
  }
}

function attemptText(attempt: JobAttempt): string {
  const { workerId, fleet, startedAtMs, endedAtMs, outcome, next } = attempt;
  const on = workerId === undefined ? `for fleet ${fleet}` : `on ${printable(workerId)} of fleet ${fleet}`;
  const after =
    startedAtMs === undefined || endedAtMs === undefined
      ? ''
      : ` after ${duration(Math.max(0, endedAtMs - startedAtMs))}`;
  const why =
    attempt.error === undefined ? '' : `, ${printable(`${attempt.error.name}: ${attempt.error.message}`)}`;
  const then =
    next === undefined
      ? ''
      : `; ${outcome === 'parked' ? 'runs' : 'tried'} again from ${instant(next.runAtMs)} on, ${next.isFromStart ? 'from the start' : 'from its checkpoint, if it left one'}`;
  const stack = (attempt.error?.stack ?? '').split('\n').filter((line) => line !== '');
  return [
    `attempt ${attempt.attempt} ${on}: ${OUTCOMES[outcome]}${after}${why}${then}`,
    ...stack.map((line) => `    ${printable(line)}`),
  ].join('\n');
}

const OUTCOMES: Readonly<Record<JobAttempt['outcome'], string>> = {
  claimed: 'claimed, not started yet',
  notStarted: 'claimed, and ended before a worker started it',
  running: 'running',
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'stopped',
  lost: 'its worker was lost',
  released: 'its worker ended in order, and gave it back',
  rested: 'its handler asked for a cool-down, and no attempt was counted',
  parked: 'its handler parked the job, and no attempt was counted',
};

/** Returns a table of the outcomes of submitted jobs. */
export function submittedText(entries: readonly SubmitEntry[], width: number): string {
  const rows = entries.map((entry, at) => [at, ...outcomeOf(entry)]);
  return table(
    [numberColumn('request'), textColumn('outcome'), textColumn('job, or reason', 0, ID_LETTERS)],
    rows,
    width,
  );
}

function outcomeOf(entry: SubmitEntry): readonly string[] {
  if (entry.kind !== 'accepted') return [entry.kind, entry.error.message];
  return [entry.repeated ? 'existed' : 'accepted', entry.jobId];
}

export function redrivenText(entries: readonly RedriveEntry[], more: boolean, width: number): string {
  if (entries.length === 0) return 'no such dead letters';
  const rows = entries.map((entry) => [
    entry.deadLetterId,
    entry.type,
    entry.kind === 'redriven' ? (entry.repeated ? 'was tried again before' : 'tried again') : entry.kind,
    entry.kind === 'redriven' ? entry.jobId : entry.kind === 'skipped' ? entry.reason : '-',
  ]);
  const columns = [
    uncutColumn('dead letter', 1),
    textColumn('type', 2),
    textColumn('outcome'),
    textColumn('new job, or reason', 0, ID_LETTERS),
  ];
  return withMore(table(columns, rows, width), more);
}

/** The outcomes of `cancelMany` and `retimeMany`. */
export type EntryShown = CancelEntry | RetimeEntry;

/** Returns a table of jobs that a command has changed, with its outcome for each. */
export function entriesText(entries: readonly EntryShown[], more: boolean, width: number): string {
  if (entries.length === 0) return 'no such jobs';
  const detailOf = (entry: EntryShown): string =>
    entry.kind === 'skipped'
      ? entry.reason
      : entry.kind === 'moved'
        ? `not before ${instant(entry.runAtMs)}`
        : entry.kind === 'requested'
          ? 'its worker was asked to stop'
          : '-';
  const rows = entries.map((entry) => [entry.jobId, entry.type, entry.kind, detailOf(entry)]);
  const columns = [
    uncutColumn('job', 1),
    textColumn('type', 2),
    textColumn('outcome'),
    textColumn('detail', 0, ID_LETTERS),
  ];
  return withMore(table(columns, rows, width), more);
}

export function keysText(keys: readonly KeyView[], more: boolean, width: number): string {
  if (keys.length === 0) return 'no key has jobs';
  const rows = keys.map((key) => [
    key.fairnessKey,
    key.tier,
    key.type,
    key.more ? `${key.waiting} or more` : key.waiting,
    key.inFlight,
    duration(key.settledCostMs),
    duration(key.inFlightCostMs),
    key.weight,
    duration(key.shareMs),
    key.maxConcurrency,
    key.paused ? 'paused' : 'open',
  ]);
  const columns = [
    textColumn('key'),
    textColumn('tier', 3),
    textColumn('type'),
    numberColumn('waiting'),
    numberColumn('in flight'),
    numberColumn('cost settled', 6),
    numberColumn('cost in flight', 7),
    numberColumn('weight', 4),
    numberColumn('share', 1),
    numberColumn('cap', 5),
    textColumn('admission', 2),
  ];
  return withMore(table(columns, rows, width), more);
}

export function declarationText(declaration: DeclarationView, width: number): string {
  const { version, types, tiers, fleets, formerTypes, partitions } = declaration;
  const named: (readonly [string, unknown])[] = [
    ['version', version],
    ['types', types.join(', ')],
    ['tiers', tiers.join(', ')],
    ['fleets', fleets.join(', ')],
    ['former types', formerTypes.join(', ') || 'none'],
  ];
  const rows = partitions.map(({ partition, told, carriedVersion, moved, isDone, isHandingOver }) => [
    partition,
    told,
    carriedVersion,
    moved,
    isDone ? (isHandingOver ? 'waits for others' : 'done') : 'under way',
  ]);
  return [
    ...fieldLines(named),
    table(
      [
        numberColumn('partition'),
        numberColumn('notified of', 2),
        numberColumn('applied', 3),
        numberColumn('jobs moved', 1),
        textColumn('state'),
      ],
      rows,
      width,
    ),
  ].join('\n');
}

export function typesText(types: readonly TypeView[], width: number): string {
  const rows = types.map(({ type, tier, timeoutMs, onWorkerLost, samples, meanMs, ordinarilyWithinMs }) => [
    type,
    tier,
    duration(timeoutMs),
    onWorkerLost,
    samples,
    durationText(meanMs),
    durationText(ordinarilyWithinMs),
  ]);
  const columns = [
    textColumn('type'),
    textColumn('tier', 1),
    numberColumn('timeout', 2),
    textColumn('worker lost', 4),
    numberColumn('successes', 3),
    numberColumn('takes'),
    numberColumn('ordinarily within'),
  ];
  return table(columns, rows, width);
}

export function fleetsText(fleets: readonly FleetView[], nowMs: number, width: number): string {
  const rows = fleets.map((fleet) => [
    fleet.fleet,
    fleet.types.join(', '),
    fleet.slots,
    fleet.busy,
    fleet.maxConcurrency,
    fleet.paused ? 'paused' : 'open',
  ]);
  const workers = fleets.flatMap((fleet) =>
    fleet.workers.map((worker) => [
      worker.workerId,
      fleet.fleet,
      worker.slots,
      worker.occupants.length,
      worker.load === undefined ? undefined : `${number(worker.load.lagMs)} ms`,
      worker.load === undefined ? undefined : `${number(worker.load.memoryMb)} MiB`,
      durationText(leaseInForceMs(worker)),
      duration(Math.max(0, worker.expiresAtMs - nowMs)),
    ]),
  );
  const columns = [
    textColumn('fleet'),
    textColumn('types', 2),
    numberColumn('slots'),
    numberColumn('busy'),
    numberColumn('cap', 3),
    textColumn('admission', 1),
  ];
  return [
    table(columns, rows, width),
    ...(workers.length === 0 ? [] : [table(WORKER_COLUMNS, workers, width)]),
  ].join('\n');
}

const WORKER_COLUMNS: readonly Column[] = [
  textColumn('worker'),
  textColumn('fleet', 1),
  numberColumn('slots'),
  numberColumn('runs'),
  numberColumn('lag', 3),
  numberColumn('memory', 3),
  numberColumn('lease', 4),
  numberColumn('expires in', 2),
];

const countText = (waiting: { readonly jobs: number; readonly isLeast: boolean } | undefined) =>
  waiting === undefined ? undefined : `${waiting.jobs}${waiting.isLeast ? ' or more' : ''}`;

const durationText = (ms: number | undefined): string | undefined =>
  ms === undefined ? undefined : duration(ms);

const partitionsText = (partitions: readonly number[]): string =>
  partitions.length === 0 ? '-' : partitions.join(', ');

/** Tables of the dispatchers and of the partitions. */
export function dispatchersText(
  { residents, partitions }: DispatchersView,
  nowMs: number,
  width: number,
): string {
  const running = residents.map(({ dispatcherId, leads, standsBy, load, expiresAtMs }) => [
    dispatcherId,
    partitionsText(leads),
    partitionsText(standsBy),
    countText(load?.waiting),
    durationText(load?.waitedMs),
    load === undefined ? undefined : `${number(Math.round(load.busy * 1_000) / 10)} %`,
    durationText(load?.eventLoopLagMs),
    load?.memoryBytes === undefined ? undefined : `${Math.round(load.memoryBytes / 1024 / 1024)} MB`,
    duration(Math.max(0, expiresAtMs - nowMs)),
  ]);
  const led = partitions.map(({ partition, ledBy, leader, untilMs, depth, waitedMs }) => [
    partition,
    ledBy,
    leader,
    untilMs === undefined ? undefined : duration(Math.max(0, untilMs - nowMs)),
    countText(depth),
    durationText(waitedMs),
  ]);
  return [
    running.length === 0
      ? 'no long-running dispatcher: functions run the passes'
      : table(DISPATCHER_COLUMNS, running, width),
    table(PARTITION_COLUMNS, led, width),
  ].join('\n');
}

const DISPATCHER_COLUMNS: readonly Column[] = [
  textColumn('dispatcher'),
  textColumn('leads'),
  textColumn('stands by for', 5),
  numberColumn('waiting'),
  numberColumn('longest wait', 1),
  numberColumn('busy', 2),
  numberColumn('lag', 4),
  numberColumn('memory', 4),
  numberColumn('expires in', 3),
];

const PARTITION_COLUMNS: readonly Column[] = [
  numberColumn('partition'),
  textColumn('led by'),
  textColumn('name', 1),
  numberColumn('for', 2),
  numberColumn('waiting'),
  numberColumn('longest wait'),
];

/** Returns the person or tool that has set a control, until when it holds, and why, as far as that is known. */
export const byOperatorText = ({
  by,
  untilMs,
  reason,
}: Partial<Pick<ControlEntry, 'by' | 'untilMs' | 'reason'>>): string =>
  [
    by === undefined ? '' : byText(by),
    untilMs === undefined ? '' : ` until ${instant(untilMs)}`,
    reason === undefined ? '' : `: ${printable(reason)}`,
  ].join('');

export function controlText(control: ControlAnswer): string {
  const { scope, paused, maxConcurrency, weight, restsUntilMs, aboveDeclared } = control;
  const set = (field: ControlField, what: string): string =>
    `${what}${byOperatorText(lastChange(control, field) ?? {})}`;
  const above = aboveDeclared === undefined ? '' : `, above the declared ${aboveDeclared}`;
  const said = [
    ...(paused ? [set('paused', 'paused')] : []),
    ...(maxConcurrency === undefined ? [] : [set('maxConcurrency', `cap ${maxConcurrency}${above}`)]),
    ...(weight === undefined ? [] : [set('weight', `weight ${number(weight)}`)]),
    ...(restsUntilMs === undefined ? [] : [`rests until ${instant(restsUntilMs)}`]),
  ];
  return `${printable(scope)}: ${said.length === 0 ? 'as configured' : said.join('; ')}`;
}

/** Returns the changes of controls, the latest first. */
export function controlHistoryText(controls: readonly Control[]): string {
  const lines = controls
    .flatMap(({ scope, changes = [] }) => changes.map((entry) => ({ scope, entry })))
    .toSorted((one, other) => other.entry.atMs - one.entry.atMs)
    .map(({ scope, entry }) => {
      const { field, to, atMs } = entry;
      const what =
        field === 'paused'
          ? to === true
            ? 'paused'
            : 'resumed'
          : `${field === 'weight' ? 'weight' : 'cap'} ${to === null ? 'as configured' : to}`;
      return `${instant(atMs)} ${printable(scope)}: ${what}${byOperatorText(entry)}`;
    });
  return lines.length === 0 ? 'nothing was changed in the last days' : lines.join('\n');
}

export function controlsText(controls: readonly Control[]): string {
  return controls.length === 0
    ? 'no overrides: everything is as configured'
    : controls.map(controlText).join('\n');
}
