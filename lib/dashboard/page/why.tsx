/** Why a job waits, in sentences with links. */
import type { ComponentChildren } from 'preact';
import type { LiveExplanation } from '../../operate/explain.ts';
import type { LiveWaitsFor } from '../../operate/live-waits.ts';
import { JobLink, When } from './parts.tsx';
import { durationText, numberText, scopeText } from './words.ts';

const NAMED_MAX = 8;
/** A guarantee beyond this is of no use to a person. */
const BOUND_SHOWN_MS = 24 * 3_600_000;

function Slots({ fleet, of }: { readonly fleet: string; readonly of: LiveExplanation }) {
  const found = of.fleets.find((each) => each.fleet === fleet);
  const words = ((): string => {
    if (found === undefined) return '';
    if (found.paused) return ' is paused';
    if (found.workers === 0) return ' has no live worker';
    const { maxConcurrency: cap, busy, slots } = found;
    return cap !== undefined && busy >= cap
      ? ` may run ${cap} jobs at once, and runs ${busy}`
      : ` has ${busy} of ${slots} slots busy`;
  })();
  return (
    <>
      <a href="/fleets">fleet {fleet}</a>
      {words}
    </>
  );
}

type SpentWindow = Extract<LiveWaitsFor, { readonly why: 'rate' | 'budget' }>;

/** A rate or a budget that leaves no room for a job. */
function Spent({ of: waits, nowMs }: { readonly of: SpentWindow; readonly nowMs: number }) {
  return (
    <>
      The {waits.why} of <a href="/limits">{scopeText(waits.scope)}</a> is used up: {usedText(waits)} within{' '}
      {durationText(waits.perMs)}.{' '}
      {waits.untilMs === undefined ? (
        'It opens when a running job ends.'
      ) : (
        <>
          It opens <When atMs={waits.untilMs} nowMs={nowMs} />.
        </>
      )}
    </>
  );
}

function usedText({ why, used, most, perJob }: SpentWindow): string {
  if (why === 'budget') return `${durationText(used)} of ${durationText(most)}`;
  const amount = `${numberText(used)} of ${numberText(most)}`;
  return perJob === undefined
    ? `${amount} starts`
    : `${amount} units, of which a job may have ${numberText(perJob)},`;
}

/** A scope of which no job may start. */
function Closed({
  of: waits,
  nowMs,
}: {
  readonly of: Extract<LiveWaitsFor, { readonly why: 'rests' | 'paused' }>;
  readonly nowMs: number;
}) {
  if (waits.why === 'rests')
    return (
      <>
        A handler has asked for a cool-down: <a href="/limits">{scopeText(waits.scope)}</a> rests until{' '}
        <When atMs={waits.untilMs} nowMs={nowMs} />.
      </>
    );
  return (
    <>
      <a href="/limits">{scopeText(waits.scope)}</a> is paused
      {waits.by === undefined ? '' : ` by ${waits.by}`}
      {waits.reason === undefined ? '' : `: ${waits.reason}`}
      {waits.untilMs === undefined ? null : (
        <>
          , until <When atMs={waits.untilMs} nowMs={nowMs} />
        </>
      )}
      .
    </>
  );
}

/** One reason. */
export function reasonOf(waits: LiveWaitsFor, of: LiveExplanation): ComponentChildren {
  const nowMs = of.explainedAtMs;
  switch (waits.why) {
    case 'time':
      return (
        <>
          Its time comes <When atMs={waits.untilMs} nowMs={nowMs} />.
        </>
      );
    case 'parked':
      return (
        <>
          Its handler has parked it: it runs again <When atMs={waits.untilMs} nowMs={nowMs} />. Until then it
          holds no slot and no conflict key
          {waits.hasState ? ', and its state is kept for the next attempt' : ''}.
        </>
      );
    case 'rests':
    case 'paused':
      return <Closed of={waits} nowMs={nowMs} />;
    case 'cap':
      return (
        <>
          <a href="/limits">{scopeText(waits.scope)}</a> is at its cap: {waits.running} of {waits.cap} run
          {waits.split === undefined
            ? ''
            : ` (the share of partition ${waits.split.partition} in the pool's ${waits.split.cap})`}
          .
        </>
      );
    case 'rate':
    case 'budget':
      return <Spent of={waits} nowMs={nowMs} />;
    case 'noSlot':
      return waits.fleets.length === 0 ? (
        `No fleet runs the type ${waits.type}.`
      ) : (
        <>
          No slot is free:{' '}
          {waits.fleets.map((fleet, at) => (
            <>
              {at === 0 ? '' : '; '}
              <Slots fleet={fleet} of={of} />
            </>
          ))}
          .
        </>
      );
    case 'conflict':
      return (
        <>
          Job <JobLink id={waits.holder} /> holds <a href="/limits">{waits.conflictKey}</a>.
        </>
      );
    case 'turn':
      return waits.before.length === 0 ? (
        'Other jobs come first.'
      ) : (
        <>
          {waits.before.length === 1 ? 'One job comes' : `${numberText(waits.before.length)} jobs come`}{' '}
          first:{' '}
          {waits.before.slice(0, NAMED_MAX).map((id, at) => (
            <>
              {at === 0 ? '' : ', '}
              <JobLink id={id} />
            </>
          ))}
          {waits.before.length > NAMED_MAX ? ` and ${numberText(waits.before.length - NAMED_MAX)} more` : ''}.
        </>
      );
    case 'worker':
      return (
        <>
          The queue of <a href="/fleets">fleet {waits.fleet}</a> got it{' '}
          <When atMs={waits.sinceMs} nowMs={nowMs} />, and no worker has started it.
        </>
      );
    default:
      return otherReason(waits, nowMs);
  }
}

function otherReason(
  waits: Exclude<
    LiveWaitsFor,
    {
      readonly why:
        | 'time'
        | 'parked'
        | 'rests'
        | 'paused'
        | 'cap'
        | 'rate'
        | 'budget'
        | 'noSlot'
        | 'conflict'
        | 'turn'
        | 'worker';
    }
  >,
  nowMs: number,
): string {
  switch (waits.why) {
    case 'unknownType':
      return `The pool does not have its type ${waits.type} any more.`;
    case 'expiry':
      return 'Its time to start is over: a pass ends it as expired.';
    case 'pass':
      return 'The next pass starts it.';
    case 'move':
      return `The next pass moves it from partition ${waits.partition} to ${waits.home}, where its key belongs now.`;
    case 'carry':
      return `One of the next passes moves it out of a line of declaration ${waits.declared}.`;
    case 'handover':
      return `Partition ${waits.partition} hands over after the last deployment${waits.name === undefined ? '' : `: it still uses ${waits.name}`}.`;
    case 'otherTurn':
      return `${waits.conflictKey} is reserved for partition ${waits.partition} for ${durationText(waits.untilMs - nowMs)}.`;
    case 'promotion':
      return `It has been due for ${durationText(nowMs - waits.dueSinceMs)}; passes move the many jobs that were due earlier first.`;
    case 'announcement':
      return `Its line is not announced yet; the stream, or the next job of ${waits.fairnessKey}, announces it.`;
    case 'index':
      return 'The index does not show it yet.';
  }
}

/** When it starts, as far as that can be told. */
export function startOf(of: LiveExplanation): ComponentChildren {
  const { estimatedStartAtMs, latestStartAtMs, explainedAtMs, partial, waitsFor } = of;
  if (waitsFor.length === 0) return null;
  return (
    <>
      {estimatedStartAtMs === undefined ? null : (
        <li>
          From past durations, it starts {partial ? 'no earlier than' : 'about'}{' '}
          <strong>
            <When atMs={estimatedStartAtMs} nowMs={explainedAtMs} />
          </strong>
          .
        </li>
      )}
      {latestStartAtMs === undefined || latestStartAtMs - explainedAtMs > BOUND_SHOWN_MS ? null : (
        <li>
          As things stand, it starts <When atMs={latestStartAtMs} nowMs={explainedAtMs} /> at the latest.
        </li>
      )}
      {partial ? <li>The backlog is long: jobs that were not read may come first.</li> : null}
    </>
  );
}
