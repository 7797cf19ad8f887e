/** Why a job is not running, in sentences. */
import { isTerminal } from '../core/job.ts';
import { resourceIn } from '../core/scope.ts';
import type { LiveExplanation } from '../operate/explain.ts';
import type { LiveWaitsFor } from '../operate/live-waits.ts';
import { duration, instant, number, printable } from './report.ts';
import { byOperatorText, errorText, tagsText } from './views.ts';

/** How many jobs or keys ahead of a job are named; the others are counted. */
const NAMED_MAX = 5;

/** Returns when a running job's worker was last heard, and when it is given up if it stays silent. */
function heartbeatText(
  { heardAtMs, givenUpAtMs }: NonNullable<LiveExplanation['runs']>,
  nowMs: number,
): string {
  const when = `${instant(givenUpAtMs)}, in ${duration(givenUpAtMs - nowMs)}`;
  const since = heardAtMs === undefined ? undefined : `no heartbeat since ${instant(heardAtMs)}`;
  if (givenUpAtMs <= nowMs) return `${since ?? 'its time is up'}: the next check gives it up`;
  if (heardAtMs === undefined || since === undefined)
    return `unless it ends before, it is given up at ${when}`;
  // Heartbeats come several times in a lease, so half a lease without one means silence.
  return nowMs - heardAtMs > (givenUpAtMs - heardAtMs) / 2
    ? `${since}, given up at ${when}`
    : `last heartbeat ${duration(nowMs - heardAtMs)} ago; without another, it is given up at ${when}`;
}

/** Returns a warning, if an attempt takes longer than attempts of its type usually do. */
function overdueText(
  { startedAtMs, ordinarilyWithinMs, progress, heardAtMs }: NonNullable<LiveExplanation['runs']>,
  nowMs: number,
): readonly string[] {
  if (ordinarilyWithinMs === undefined || nowMs - startedAtMs <= ordinarilyWithinMs) return [];
  const silent = progress === undefined ? 'its handler has reported no progress, and ' : '';
  const what = heardAtMs === undefined ? 'it may be lost, or stuck' : 'it may be stuck';
  return [`${silent}attempts of its type usually end within ${duration(ordinarilyWithinMs)}: ${what}`];
}

/** Returns why a job is not running, in sentences. */
export function explanationText(explanation: LiveExplanation): string {
  const { job, explainedAtMs } = explanation;
  const resource = job.resourceId === undefined ? '' : `, resource ${printable(job.resourceId)}`;
  const lines = [
    `job ${job.id} is ${job.state}: type ${job.type}, key ${printable(job.fairnessKey)}${resource}, priority ${job.priority}, ${job.mode}, attempt ${job.attempt}`,
  ];
  if (job.label !== undefined) lines.push(`label: ${printable(job.label)}`);
  if (job.keys !== undefined) lines.push(`keys: ${printable(tagsText(job.keys))}`);
  if (job.units !== undefined) lines.push(`units: ${printable(tagsText(job.units))}`);
  if (job.tags !== undefined) lines.push(`tags: ${printable(tagsText(job.tags))}`);
  if (explanation.runs !== undefined) {
    const { workerId, fleet, startedAtMs, progress } = explanation.runs;
    lines.push(
      `it runs on ${printable(workerId)} of fleet ${fleet}, for ${duration(explainedAtMs - startedAtMs)}`,
      ...(progress === undefined ? [] : [`progress: ${printable(JSON.stringify(progress))}`]),
      heartbeatText(explanation.runs, explainedAtMs),
      ...overdueText(explanation.runs, explainedAtMs),
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
    lines.push(`${before} jobs of its own line come before it`);
  }
  if (explanation.keysBefore.length > 0) lines.push(sharesText(explanation.keysBefore));
  if (explanation.score !== undefined) {
    const { total, priority, age, rarity, onDemand } = explanation.score;
    const parts = `priority ${number(priority)}, age ${number(Math.round(age))}, rarity ${number(rarity)}, on demand ${number(Math.round(onDemand))}`;
    lines.push(`score ${number(Math.round(total))} (${parts})`);
  }
  lines.push(...startText(explanation), ...expiryText(explanation));
  if (job.error !== undefined && job.state !== 'succeeded')
    lines.push(`last error: ${printable(errorText(job))}`);
  if (explanation.partial) lines.push('the backlog is long: jobs that were not read may come first');
  return lines.join('\n');
}

/** A guarantee beyond this is of no use to a person, and is not shown. */
const BOUND_SHOWN_MS = 24 * 3_600_000;

/** Returns when the job starts: the likely time, and the guaranteed one. */
function startText(explanation: LiveExplanation): readonly string[] {
  const { latestStartAtMs, estimatedStartAtMs, explainedAtMs, partial } = explanation;
  const lines: string[] = [];
  if (estimatedStartAtMs !== undefined && explanation.waitsFor.length > 0) {
    const aheadMs = estimatedStartAtMs - explainedAtMs;
    const about = duration(Math.max(0, aheadMs));
    const when = partial ? `not before ${about} from now` : `in about ${about}`;
    lines.push(
      aheadMs > 0
        ? `it starts ${when} (${instant(estimatedStartAtMs)}): an estimate from past durations`
        : 'it starts as soon as a pass can start it: an estimate from past durations',
    );
  }
  if (latestStartAtMs !== undefined && latestStartAtMs - explainedAtMs < BOUND_SHOWN_MS) {
    const bound = duration(Math.max(0, latestStartAtMs - explainedAtMs));
    lines.push(`as things stand, it starts within ${bound} at the latest (${instant(latestStartAtMs)})`);
  }
  return lines;
}

/** Returns until when the job must have started. */
function expiryText({ job, explainedAtMs }: LiveExplanation): readonly string[] {
  const { expireAtMs = 0, state } = job;
  return expireAtMs <= explainedAtMs || isTerminal(state)
    ? []
    : [
        `it expires unless it starts by ${instant(expireAtMs)}, within ${duration(expireAtMs - explainedAtMs)}`,
      ];
}

const rateText = (used: number, most: number, perJob: number | undefined): string =>
  perJob === undefined
    ? `${number(used)} of ${number(most)} starts`
    : `${number(used)} of ${number(most)} units, of which a job may have ${number(perJob)},`;

function windowText(
  {
    why,
    scope,
    most,
    perMs,
    used,
    perJob,
    untilMs,
  }: Extract<LiveWaitsFor, { readonly why: 'rate' | 'budget' }>,
  { explainedAtMs }: LiveExplanation,
): string {
  const amount =
    why === 'rate' ? rateText(used, most, perJob) : `${duration(used)} of ${duration(most)} of run time`;
  const opens =
    untilMs === undefined
      ? 'the end of a running job'
      : `${instant(untilMs)}, in ${duration(Math.max(0, untilMs - explainedAtMs))}`;
  return `${printable(scope)}, which has used ${amount} within ${duration(perMs)}, until ${opens}`;
}

/** Returns one reason as a part of a sentence, without its subject. */
export function waitsForText(waits: LiveWaitsFor, explanation: LiveExplanation): string {
  const { explainedAtMs } = explanation;
  switch (waits.why) {
    case 'time':
      return `its time: ${instant(waits.untilMs)}, in ${duration(waits.untilMs - explainedAtMs)}`;
    case 'expiry':
      return `a pass that ends it as expired: its time to start was over ${duration(explainedAtMs - waits.sinceMs)} ago`;
    case 'parked':
      return `the time until which its handler parked it: ${instant(waits.untilMs)}, in ${duration(waits.untilMs - explainedAtMs)}; it holds no slot and no conflict key${waits.hasState ? ', and its state is kept for the next attempt' : ''}`;
    case 'paused':
      return `the end of a pause: ${printable(waits.scope)}${byOperatorText(waits)} (see fairlead resume)`;
    case 'rests':
      return `the end of a cool-down that a handler asked for: ${printable(waits.scope)} rests until ${instant(waits.untilMs)}, for ${duration(waits.untilMs - explainedAtMs)}`;
    case 'cap':
      return capText(waits);
    case 'rate':
    case 'budget':
      return windowText(waits, explanation);
    case 'noSlot':
      return waits.fleets.length === 0
        ? `a fleet: none runs the type ${printable(waits.type)}`
        : `a free slot: ${waits.fleets.map((fleet) => slotText(fleet, explanation)).join('; ')}`;
    case 'conflict':
      return `job ${waits.holder}, which holds ${printable(waits.conflictKey)}`;
    case 'move':
      return `its move from partition ${waits.partition} to ${waits.home}, where its key belongs now: the next pass moves it`;
    case 'carry':
      return `its move out of the line of a conflict group that its type had before declaration ${waits.declared}: one of the next passes moves it`;
    case 'handover':
      return handoverText(waits);
    case 'otherTurn':
      return `${printable(waits.conflictKey)}, which is reserved for partition ${waits.partition} for ${duration(waits.untilMs - explainedAtMs)}`;
    case 'unknownType':
      return `a type that this pool does not have any more: ${printable(waits.type)}`;
    case 'turn':
      return earlierJobsText(waits.before);
    case 'pass':
      return 'the next pass, which starts it';
    case 'promotion':
      return `a pass that moves it into its line: it has been due for ${duration(explainedAtMs - waits.dueSinceMs)}, and many jobs were due earlier`;
    case 'announcement':
      return `the announcement of its line, whose submitter stopped too early: the stream, or the next job of ${printable(waits.fairnessKey)}, announces it`;
    case 'index':
      return 'the index, which does not show it yet';
    case 'worker':
      return `a worker of fleet ${waits.fleet}, whose queue got it ${duration(explainedAtMs - waits.sinceMs)} ago`;
  }
}

function capText(waits: Extract<LiveWaitsFor, { readonly why: 'cap' }>): string {
  const { scope, running, cap, split } = waits;
  const of = resourceIn(scope);
  return of === undefined
    ? `room under a cap: ${printable(scope)} runs ${running} of at most ${cap}${splitText(split)}${byOperatorText(waits)}`
    : `resource ${printable(of.resourceId)}: ${running} of ${cap} running of type ${printable(of.type)}${splitText(split)}`;
}

function handoverText({
  partition,
  holds,
  name = '',
}: Extract<LiveWaitsFor, { readonly why: 'handover' }>): string {
  switch (holds) {
    case 'declaration':
      return `partition ${partition}, which has not applied the newest declaration yet`;
    case 'cap':
      return `jobs in partition ${partition} that started before the last deployment: they use up the cap of ${printable(name)}`;
    case 'conflict':
      return `a job in partition ${partition} that started before the last deployment, and holds ${printable(name)}`;
  }
}

function splitText(split: Extract<LiveWaitsFor, { readonly why: 'cap' }>['split']): string {
  if (split === undefined) return '';
  return `, the share of partition ${split.partition} in the pool's ${split.cap}, which is divided among ${split.partitions} partitions`;
}

function slotText(fleet: string, { fleets }: LiveExplanation): string {
  const found = fleets.find((each) => each.fleet === fleet);
  if (found === undefined) return fleet;
  if (found.paused) return `${fleet} is paused`;
  if (found.workers === 0) return `${fleet} has no live worker`;
  const { maxConcurrency: cap } = found;
  if (cap !== undefined && found.busy >= cap)
    return `${fleet} may run ${cap} jobs at once here, and runs ${found.busy}`;
  return `${fleet} has ${found.busy} of ${found.slots} busy`;
}

function earlierJobsText(before: readonly string[]): string {
  if (before.length === 0) return 'jobs that come first';
  const others = before.length > NAMED_MAX ? ` and ${before.length - NAMED_MAX} more` : '';
  return `jobs that come first: ${before.slice(0, NAMED_MAX).join(', ')}${others}`;
}

function sharesText(keysBefore: LiveExplanation['keysBefore']): string {
  const named =
    keysBefore.length > NAMED_MAX
      ? [...keysBefore.slice(0, NAMED_MAX - 1), ...keysBefore.slice(-1)]
      : keysBefore;
  const shares = named.map((key) => `${printable(key.fairnessKey)} ${duration(key.shareMs)}`).join(', ');
  return `keys with the least share come first: ${shares}`;
}
