/** Why a job is not running, in sentences. */
import { resourceIn } from '../core/scope.ts';
import type { LiveExplanation } from '../operate/explain.ts';
import type { LiveWaitsFor } from '../operate/live-waits.ts';
import { duration, instant, number, printable } from './report.ts';
import { errorText } from './views.ts';

/** Ids of those that come first which are named; the others are counted. */
const NAMED_MAX = 5;

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
  lines.push(...startsText(explanation));
  if (job.error !== undefined && job.state !== 'succeeded')
    lines.push(`last error: ${printable(errorText(job))}`);
  if (explanation.partial) lines.push('the backlog is long: others may come first that were not read');
  return lines.join('\n');
}

/** Beyond this the least that is promised tells a person nothing. */
const BOUND_SHOWN_MS = 24 * 3_600_000;

/** When it starts: what is promised, where that helps, and what is likely. */
function startsText(explanation: LiveExplanation): readonly string[] {
  const { latestStartAtMs, estimatedStartAtMs, explainedAtMs, partial } = explanation;
  const lines: string[] = [];
  if (estimatedStartAtMs !== undefined && explanation.waitsFor.length > 0) {
    const about = duration(Math.max(0, estimatedStartAtMs - explainedAtMs));
    const when = partial ? `not before ${about} from now` : `in about ${about}`;
    lines.push(
      `it starts ${when} (${instant(estimatedStartAtMs)}): an estimate, from what such jobs took so far`,
    );
  }
  if (latestStartAtMs !== undefined && latestStartAtMs - explainedAtMs < BOUND_SHOWN_MS) {
    const bound = duration(Math.max(0, latestStartAtMs - explainedAtMs));
    lines.push(`as things stand, it starts within ${bound} at the latest (${instant(latestStartAtMs)})`);
  }
  return lines;
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
