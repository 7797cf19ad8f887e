/** Jobs, keys, fleets and explanations as a person reads them. */
import type { RedriveEntry } from '../client/dead-letters.ts';
import type { SubmitEntry } from '../client/submissions.ts';
import type { Control } from '../core/capacity.ts';
import type { JobAttempt, JobEvent, JobHistory } from '../core/history.ts';
import type { Job, MovingJob } from '../core/job.ts';
import { resourceIn } from '../core/scope.ts';
import type { DispatchersView } from '../dispatch/dispatchers.ts';
import type { LiveExplanation } from '../dispatch/explain.ts';
import type { DeclarationView, FleetView, KeyView, TypeView } from '../dispatch/inspect.ts';
import type { LiveWaitsFor } from '../dispatch/live-waits.ts';
import { leaseInForceMs } from '../dispatch/settle/silence.ts';
import type { UnreadableItem } from '../store/records.ts';
import { duration, number, printable, table } from './report.ts';

/** Ids of those that come first which are named; the others are counted. */
const NAMED_MAX = 5;

export const instant = (atMs: number | undefined): string =>
  atMs === undefined ? '-' : new Date(atMs).toISOString();

const error = (job: MovingJob): string =>
  job.error === undefined ? '-' : `${job.error.name}: ${job.error.message}`;

const all = (rows: readonly unknown[]): number => Math.max(1, rows.length);

/** A table of jobs, and whether there are others. */
export function jobsText(jobs: readonly Job[], more: boolean): string {
  if (jobs.length === 0) return 'no such jobs';
  const rows = jobs.map((job) => [
    job.id,
    job.state,
    job.type,
    job.fairnessKey,
    job.priority,
    instant(job.state === 'scheduled' ? job.runAtMs : (job.finishedAtMs ?? job.readyAtMs)),
    job.attempt,
    ...(job.state === 'failed' ? [error(job)] : []),
  ]);
  const head = ['job', 'state', 'type', 'key', 'priority', timeOf(jobs), 'attempt'];
  const errors = jobs.some((job) => job.state === 'failed') ? ['error'] : [];
  return withMore(table([...head, ...errors], rows, all(rows)), more);
}

/** Items that cannot be read, and why. */
export function unreadableText(items: readonly UnreadableItem[]): string {
  if (items.length === 0) return 'every item that was met can be read';
  const rows = items.map(({ seenAtMs, line, reason }) => [instant(seenAtMs), line ?? '-', reason]);
  return table(['met at', 'taken out of', 'what is wrong, and what to do'], rows, all(rows));
}

function timeOf(jobs: readonly Job[]): string {
  const [first] = jobs;
  return first?.state === 'scheduled' ? 'runs at' : first?.state === 'failed' ? 'failed at' : 'ready at';
}

const withMore = (text: string, more: boolean): string =>
  more ? `${text}\n… and more: raise --limit, or narrow it` : text;

/** Everything about one job. */
export function jobText(job: Job): string {
  const rows: (readonly [string, unknown])[] = [
    ['job', job.id],
    ['state', job.state],
    ['type', job.type],
    ['key', job.fairnessKey],
    ['resource', job.resourceId],
    ['label', job.label],
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
    ['error', job.error === undefined ? undefined : error(job)],
    ['another try of', job.redriveOf],
    ['tried again as', job.redrivenAs],
    ['payload', JSON.stringify(job.payload)],
    ['result', job.result === undefined ? undefined : JSON.stringify(job.result)],
  ];
  const shown = rows.filter(([, value]) => value !== undefined && value !== '-');
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${printable(String(value))}`).join('\n');
}

/** What became of a job, a line for each event; below an attempt that failed, where its error came from. */
export function historyText({ jobId, state, events, dropped }: JobHistory): string {
  const { attempts, losses, others } = dropped;
  const gone = attempts + others;
  return [
    `job ${jobId} is ${state}`,
    ...events.flatMap((event, at) => [
      `${instant(timeOfEvent(event))}  ${eventText(event)}`,
      ...(at === 0 && gone > 0
        ? [
            `… ${gone} events are not kept: ${attempts} attempts, ${losses} of them lost, and ${others} others`,
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
    case 'notClaimed':
      return `handed on: nobody claimed it for the place that was reserved (${event.claimId})`;
    case 'givenBack':
      return `handed on: its claim ${event.claimId} was given back, as the fleet ${printable(event.fleet)} is not declared any more`;
    case 'cancelled':
      return event.from === 'running'
        ? `its worker was asked to stop${byText(event.by)}`
        : `cancelled${byText(event.by)}${event.from === undefined ? '' : `, ${event.from} until then`}`;
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
      : `; again from ${instant(next.runAtMs)} on, ${next.isFromStart ? 'anew' : 'from its checkpoint, if it left one'}`;
  const stack = (attempt.error?.stack ?? '').split('\n').filter((line) => line !== '');
  return [
    `attempt ${attempt.attempt} ${on}: ${OUTCOMES[outcome]}${after}${why}${then}`,
    ...stack.map((line) => `    ${printable(line)}`),
  ].join('\n');
}

const OUTCOMES: Readonly<Record<JobAttempt['outcome'], string>> = {
  claimed: 'claimed, not started yet',
  notStarted: 'claimed, and cancelled before a worker started it',
  running: 'running',
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'stopped',
  lost: 'its worker was lost',
  released: 'its worker ended in order, and gave it back',
};

/** What became of each request. */
export function submittedText(entries: readonly SubmitEntry[]): string {
  const rows = entries.map((entry, at) => [at, ...outcomeOf(entry)]);
  return table(['request', 'outcome', 'job, or why not'], rows, all(rows));
}

function outcomeOf(entry: SubmitEntry): readonly string[] {
  if (entry.kind !== 'accepted') return [entry.kind, entry.error.message];
  return [entry.repeated ? 'was there' : 'accepted', entry.jobId];
}

export function redrivenText(entries: readonly RedriveEntry[], more: boolean): string {
  if (entries.length === 0) return 'no such dead letters';
  const rows = entries.map((entry) => [
    entry.deadLetterId,
    entry.type,
    entry.kind === 'redriven' ? (entry.repeated ? 'was tried again before' : 'tried again') : 'skipped',
    entry.kind === 'redriven' ? entry.jobId : entry.reason,
  ]);
  return withMore(table(['dead letter', 'type', 'outcome', 'new job, or why not'], rows, all(rows)), more);
}

export function keysText(keys: readonly KeyView[], more: boolean): string {
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
  const head = [
    'key',
    'tier',
    'type',
    'waiting',
    'in flight',
    'cost settled',
    'cost in flight',
    'weight',
    'share',
    'cap',
    'admission',
  ];
  return withMore(table(head, rows, all(rows)), more);
}

export function declarationText(declaration: DeclarationView): string {
  const { version, types, tiers, fleets, formerTypes, partitions } = declaration;
  const named = [
    ['version', version],
    ['types', types.join(', ')],
    ['tiers', tiers.join(', ')],
    ['fleets', fleets.join(', ')],
    ['declared once', formerTypes.join(', ') || 'none'],
  ];
  const rows = partitions.map(({ partition, told, carriedVersion, moved, isDone, isHandingOver }) => [
    partition,
    told,
    carriedVersion,
    moved,
    isDone ? (isHandingOver ? 'waits for others' : 'done') : 'under way',
  ]);
  return [
    table(['declaration', ''], named, all(named)),
    table(['partition', 'told of', 'carried over to', 'jobs moved', 'state'], rows, all(rows)),
  ].join('\n');
}

export function typesText(types: readonly TypeView[]): string {
  const rows = types.map(({ type, tier, timeoutMs, onWorkerLost, samples, meanMs, ordinarilyWithinMs }) => [
    type,
    tier,
    duration(timeoutMs),
    onWorkerLost,
    samples,
    spanOf(meanMs),
    spanOf(ordinarilyWithinMs),
  ]);
  const head = ['type', 'tier', 'timeout', 'worker lost', 'successes', 'takes', 'over within, ordinarily'];
  return table(head, rows, all(rows));
}

export function fleetsText(fleets: readonly FleetView[], nowMs: number): string {
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
      spanOf(leaseInForceMs(worker)),
      duration(Math.max(0, worker.expiresAtMs - nowMs)),
    ]),
  );
  return [
    table(['fleet', 'types', 'slots', 'busy', 'cap', 'admission'], rows, all(rows)),
    ...(workers.length === 0
      ? []
      : [
          table(
            ['worker', 'fleet', 'slots', 'runs', 'lag', 'memory', 'lease', 'expires in'],
            workers,
            all(workers),
          ),
        ]),
  ].join('\n');
}

const counted = (waiting: { readonly jobs: number; readonly isLeast: boolean } | undefined) =>
  waiting === undefined ? undefined : `${waiting.jobs}${waiting.isLeast ? ' or more' : ''}`;

const spanOf = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : duration(ms));

const listed = (partitions: readonly number[]): string =>
  partitions.length === 0 ? '-' : partitions.join(', ');

/** Who makes the passes. */
export function dispatchersText({ residents, partitions }: DispatchersView, nowMs: number): string {
  const running = residents.map(({ dispatcherId, leads, standsBy, load, expiresAtMs }) => [
    dispatcherId,
    listed(leads),
    listed(standsBy),
    counted(load?.waiting),
    spanOf(load?.waitedMs),
    load === undefined ? undefined : `${number(Math.round(load.busy * 1_000) / 10)} %`,
    spanOf(load?.eventLoopLagMs),
    load?.memoryBytes === undefined ? undefined : `${Math.round(load.memoryBytes / 1024 / 1024)} MB`,
    duration(Math.max(0, expiresAtMs - nowMs)),
  ]);
  const led = partitions.map(({ partition, ledBy, leader, untilMs, depth, waitedMs }) => [
    partition,
    ledBy,
    leader,
    untilMs === undefined ? undefined : duration(Math.max(0, untilMs - nowMs)),
    counted(depth),
    spanOf(waitedMs),
  ]);
  const head = ['dispatcher', 'leads', 'stands by for', 'waiting', 'longest wait', 'busy', 'lag', 'memory'];
  return [
    running.length === 0
      ? 'no dispatcher runs on: functions make the passes'
      : table([...head, 'expires in'], running, all(running)),
    table(['partition', 'led by', 'name', 'for', 'waiting', 'longest wait'], led, all(led)),
  ].join('\n');
}

export function controlText({ scope, paused, maxConcurrency, weight }: Control): string {
  const said = [
    ...(paused ? ['paused'] : []),
    ...(maxConcurrency === undefined ? [] : [`cap ${maxConcurrency}`]),
    ...(weight === undefined ? [] : [`weight ${number(weight)}`]),
  ];
  return `${printable(scope)}: ${said.length === 0 ? 'as configured' : said.join(', ')}`;
}

export function controlsText(controls: readonly Control[]): string {
  return controls.length === 0
    ? 'no overrides: everything is as configured'
    : controls.map(controlText).join('\n');
}

/** What is heard of a running job's worker, and when it is given up without more. */
function heardText({ heardAtMs, givenUpAtMs }: NonNullable<LiveExplanation['runs']>, nowMs: number): string {
  const when = `${instant(givenUpAtMs)}, in ${duration(givenUpAtMs - nowMs)}`;
  const since = heardAtMs === undefined ? undefined : `not heard of since ${instant(heardAtMs)}`;
  if (givenUpAtMs <= nowMs) return `${since ?? 'nothing is heard of it any more'}: the next look gives it up`;
  if (heardAtMs === undefined || since === undefined)
    return `if nothing is heard of it, it is given up at ${when}`;
  // Heartbeats come several times in a lease: half of it without one is silence.
  return nowMs - heardAtMs > (givenUpAtMs - heardAtMs) / 2
    ? `${since}, given up at ${when}`
    : `last heard of ${duration(nowMs - heardAtMs)} ago; if it falls silent, it is given up at ${when}`;
}

/** Where an attempt takes longer than its type's do, and has not said how far it is. */
function ordinaryText(
  { startedAtMs, ordinarilyWithinMs, progress, heardAtMs }: NonNullable<LiveExplanation['runs']>,
  nowMs: number,
): readonly string[] {
  if (ordinarilyWithinMs === undefined || nowMs - startedAtMs <= ordinarilyWithinMs) return [];
  const silent = progress === undefined ? 'its handler has said nothing so far, and ' : '';
  const what = heardAtMs === undefined ? 'it may be lost, or stuck' : 'it may be stuck';
  return [
    `${silent}attempts of its type are ordinarily over within ${duration(ordinarilyWithinMs)}: ${what}`,
  ];
}

/** Why a job is not running, in sentences. */
export function explanationText(explanation: LiveExplanation): string {
  const { job, explainedAtMs } = explanation;
  const resource = job.resourceId === undefined ? '' : `, resource ${printable(job.resourceId)}`;
  const lines = [
    `job ${job.id} is ${job.state}: type ${job.type}, key ${printable(job.fairnessKey)}${resource}, priority ${job.priority}, ${job.mode}, attempt ${job.attempt}`,
  ];
  if (job.label !== undefined) lines.push(`label: ${printable(job.label)}`);
  if (explanation.runs !== undefined) {
    const { workerId, fleet, startedAtMs, progress } = explanation.runs;
    lines.push(
      `it runs on ${printable(workerId)} of fleet ${fleet}, for ${duration(explainedAtMs - startedAtMs)}`,
      ...(progress === undefined ? [] : [`progress: ${printable(JSON.stringify(progress))}`]),
      heardText(explanation.runs, explainedAtMs),
      ...ordinaryText(explanation.runs, explainedAtMs),
    );
  }
  if (job.cancelRequestedAtMs !== undefined && job.state === 'running') {
    lines.push(`its worker was asked to stop at ${instant(job.cancelRequestedAtMs)}`);
  }
  if (explanation.waitsFor.length > 0) {
    lines.push(
      'it waits for:',
      ...explanation.waitsFor.map((each) => `  - ${waitsForText(each, explanation)}`),
    );
  }
  if (explanation.position !== undefined) {
    const before = `${explanation.positionIsLeast ? 'at least ' : ''}${number(explanation.position)}`;
    lines.push(`in its own line, ${before} come before it`);
  }
  if (explanation.keysBefore.length > 0) lines.push(sharesText(explanation.keysBefore));
  if (explanation.score !== undefined) {
    const { total, priority, age, rarity, onDemand } = explanation.score;
    const parts = `priority ${number(priority)}, age ${number(Math.round(age))}, rarity ${number(rarity)}, on demand ${number(Math.round(onDemand))}`;
    lines.push(`score ${number(Math.round(total))} (${parts})`);
  }
  if (explanation.latestStartAtMs !== undefined) {
    const { latestStartAtMs } = explanation;
    lines.push(
      `as things stand, it starts within ${duration(Math.max(0, latestStartAtMs - explainedAtMs))} at the latest (${instant(latestStartAtMs)})`,
    );
  }
  if (job.error !== undefined && job.state !== 'succeeded')
    lines.push(`last error: ${printable(error(job))}`);
  if (explanation.partial) lines.push('the backlog is long: others may come first that were not read');
  return lines.join('\n');
}

function waitsForText(waits: LiveWaitsFor, explanation: LiveExplanation): string {
  const { explainedAtMs } = explanation;
  switch (waits.why) {
    case 'time':
      return `its time: ${instant(waits.untilMs)}, in ${duration(waits.untilMs - explainedAtMs)}`;
    case 'paused':
      return `the end of a pause: ${printable(waits.scope)} (see fairlead resume)`;
    case 'cap':
      return capText(waits);
    case 'noSlot':
      return waits.fleets.length === 0
        ? `a fleet: none takes the type ${printable(waits.type)}`
        : `a free slot: ${waits.fleets.map((fleet) => slotText(fleet, explanation)).join('; ')}`;
    case 'conflict':
      return `job ${waits.holder}, which holds ${printable(waits.conflictKey)}`;
    case 'move':
      return `its move from partition ${waits.partition} to ${waits.home}, where its key lives by now: the next pass makes it`;
    case 'carry':
      return `its move out of the line of a conflict group that its type had before declaration ${waits.declared}: the next passes make it`;
    case 'handover':
      return handoverText(waits);
    case 'otherTurn':
      return `${printable(waits.conflictKey)}, which partition ${waits.partition} has in turn for ${duration(waits.untilMs - explainedAtMs)}`;
    case 'unknownType':
      return `a type that this pool does not have any more: ${printable(waits.type)}`;
    case 'turn':
      return turnText(waits.before);
    case 'pass':
      return 'the next pass, which starts it';
    case 'promotion':
      return `its place in line: due for ${duration(explainedAtMs - waits.dueSinceMs)}, the soonest due jobs go first, and there are many`;
    case 'announcement':
      return `the announcement of its line: whoever put it was stopped on the way; the next job of ${printable(waits.fairnessKey)} makes up for it`;
    case 'index':
      return 'the index, which does not show it yet';
    case 'worker':
      return `a worker of fleet ${waits.fleet}, which was told ${duration(explainedAtMs - waits.sinceMs)} ago`;
  }
}

function capText({ scope, running, cap, split }: Extract<LiveWaitsFor, { readonly why: 'cap' }>): string {
  const of = resourceIn(scope);
  return of === undefined
    ? `room under a cap: ${printable(scope)} runs ${running} of at most ${cap}${splitText(split)}`
    : `resource ${printable(of.resourceId)}: ${running} of ${cap} running of type ${printable(of.type)}${splitText(split)}`;
}

function handoverText({
  partition,
  holds,
  name = '',
}: Extract<LiveWaitsFor, { readonly why: 'handover' }>): string {
  switch (holds) {
    case 'declaration':
      return `partition ${partition}, which has not come to the newest declaration`;
    case 'cap':
      return `jobs in partition ${partition} that began before the last deployment: they take what ${printable(name)} allows`;
    case 'conflict':
      return `a job in partition ${partition} that began before the last deployment, and holds ${printable(name)}`;
  }
}

/** Partitions are counted from 0, as in the names of lines. */
function splitText(split: Extract<LiveWaitsFor, { readonly why: 'cap' }>['split']): string {
  if (split === undefined) return '';
  return `, the share of partition ${split.partition} in the pool's ${split.cap}, which ${split.partitions} partitions divide`;
}

function slotText(fleet: string, { fleets }: LiveExplanation): string {
  const found = fleets.find((each) => each.fleet === fleet);
  if (found === undefined) return fleet;
  if (found.paused) return `${fleet} is paused`;
  if (found.workers === 0) return `${fleet} has no live worker`;
  const { maxConcurrency: cap } = found;
  if (cap !== undefined && found.busy >= cap)
    return `${fleet} may run ${cap} at once here, and runs ${found.busy}`;
  return `${fleet} has ${found.busy} of ${found.slots} busy`;
}

function turnText(before: readonly string[]): string {
  if (before.length === 0) return 'its turn: others come first';
  const others = before.length > NAMED_MAX ? ` and ${before.length - NAMED_MAX} more` : '';
  return `its turn: first come ${before.slice(0, NAMED_MAX).join(', ')}${others}`;
}

function sharesText(keysBefore: LiveExplanation['keysBefore']): string {
  const named =
    keysBefore.length > NAMED_MAX
      ? [...keysBefore.slice(0, NAMED_MAX - 1), ...keysBefore.slice(-1)]
      : keysBefore;
  const shares = named.map((key) => `${printable(key.fairnessKey)} ${duration(key.shareMs)}`).join(', ');
  return `keys with the least share come first: ${shares}`;
}
