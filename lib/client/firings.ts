/**
 * Lists when an expression fires, and the effect of its policies at clock changes, so that it can be tried before it
 * is deployed.
 */
import { ValidationError } from '../core/errors.ts';
import { rulesOf, type ScheduleSpec } from '../core/recurring.ts';
import { firesOf, jitterOf, LAST_FIRING_MS, localIso } from '../core/schedule.ts';
import { readCron } from '../cron/croner.ts';
import { parseTimes, scheduleIdProblem, type TimeRequest, type TimeSpec } from '../schedules/request.ts';

export const FIRINGS_COUNT_MAX = 1_000;

export interface ListedFiring {
  /** The instant, in ISO 8601 and UTC. */
  readonly utc: string;
  /** The same instant in the schedule's zone, with its offset. */
  readonly local: string;
  /**
   * `moved`: the local time is skipped because clocks are set forward, and this is the first valid time after it.
   * `first` and `second`: the local time occurs twice because clocks are set back.
   */
  readonly change?: 'moved' | 'first' | 'second' | undefined;
  /**
   * `utc` plus the whole jitter, ISO 8601 in UTC: the firing comes no later. Set only if the schedule has a jitter and
   * its id is not known, because the id decides the exact delay.
   */
  readonly latest?: string | undefined;
}

/** An instant near a clock change, and the policy under which the expression fires at it. */
export interface PolicyAt {
  readonly utc: string;
  readonly local: string;
  readonly change: NonNullable<ListedFiring['change']>;
  readonly what: string;
}

export interface FiringsOf {
  readonly zone: string;
  readonly firings: readonly ListedFiring[];
  /**
   * Instants near clock changes, from the first to the last firing, with the policy under which the expression fires
   * at them.
   */
  readonly policies: readonly PolicyAt[];
  /**
   * How much later than `firings` a schedule of this expression may fire, in ms. Left out if the expression has no
   * jitter, or the schedule's id is known: the delay follows from the id, and `firings` then include it.
   */
  readonly jitterMs?: number;
  /** The state of a schedule that will fire none of these until it is resumed or changed; absent: it is active. */
  readonly state?: 'paused' | 'stopped' | 'ended';
}

/** Returns the instant in ISO 8601, or as a number if no `Date` can represent it. */
const instantText = (atMs: number): string =>
  Math.abs(atMs) <= 8_640_000_000_000_000 ? new Date(atMs).toISOString() : String(atMs);

/**
 * Returns the firings of an expression after an instant.
 * @param id - the schedule's id, if known: its delay within the jitter follows from it
 * @throws ValidationError - it names the field
 */
export function firingsOf(request: TimeRequest, fromMs: number, count: number, id?: string): FiringsOf {
  checkFrom(fromMs);
  const ofId = id === undefined ? undefined : scheduleIdProblem(id);
  if (ofId !== undefined) throw new ValidationError('id', ofId);
  if (!Number.isInteger(count) || count < 1 || count > FIRINGS_COUNT_MAX)
    throw new ValidationError(
      'count',
      `must be a whole number from 1 to ${FIRINGS_COUNT_MAX} (got ${String(count)})`,
    );
  const parsed = parseTimes(request, fromMs);
  if ('refusal' in parsed) throw new ValidationError(parsed.refusal.field, parsed.refusal.reason);
  const { jitterMs } = parsed.spec;
  if (id !== undefined)
    return firingsBy(parsed.spec, { anchorMs: fromMs, fromMs, count, jitterMs: jitterOf(id, jitterMs) });
  const found = firingsBy(parsed.spec, { anchorMs: fromMs, fromMs, count, jitterMs: 0 });
  if (jitterMs === 0) return found;
  const firings = found.firings.map((firing) => ({
    ...firing,
    latest: new Date(Date.parse(firing.utc) + jitterMs).toISOString(),
  }));
  return { ...found, firings, jitterMs };
}

/**
 * Returns the firings of an existing schedule.
 * @throws ValidationError - it names the field
 */
export function firingsOfSchedule(
  id: string,
  spec: ScheduleSpec,
  { anchorMs, fromMs, count }: { readonly anchorMs: number; readonly fromMs: number; readonly count: number },
): FiringsOf {
  checkFrom(fromMs, ` (schedule ${id})`);
  return firingsBy(spec, { anchorMs, fromMs, count, jitterMs: jitterOf(id, spec.jitterMs) });
}

function checkFrom(fromMs: number, about = ''): void {
  if (Number.isFinite(fromMs) && fromMs >= 0 && fromMs <= LAST_FIRING_MS) return;
  throw new ValidationError(
    'from',
    `must be an instant from 1970 to 2199 (got ${instantText(fromMs)})${about}`,
  );
}

interface FiringsQuery {
  readonly anchorMs: number;
  readonly fromMs: number;
  readonly count: number;
  readonly jitterMs: number;
}

const POLICIES = [
  { gap: 'skip', overlap: 'once' },
  { gap: 'next', overlap: 'once' },
  { gap: 'skip', overlap: 'twice' },
] as const;

function firingsBy(spec: TimeSpec, { anchorMs, fromMs, count, jitterMs }: FiringsQuery): FiringsOf {
  const fires = firesOf(rulesOf(spec as ScheduleSpec, anchorMs), readCron);
  const instants: number[] = [];
  for (let atMs = fires.next(fromMs); atMs !== undefined && instants.length < count; atMs = fires.next(atMs))
    instants.push(atMs);
  const isCron = spec.when.kind === 'cron';
  const lastMs = instants.at(-1) ?? fromMs;
  const [plain = NO_INSTANTS, next = NO_INSTANTS, twice = NO_INSTANTS] = isCron
    ? POLICIES.map((policy) =>
        firedBetween({ ...spec, ...policy }, anchorMs, fromMs, lastMs, 2 * count + 100),
      )
    : [];
  const seconds = new Set([...twice].filter((atMs) => !plain.has(atMs)));
  const zone = spec.timeZone;
  const walls = new Set([...seconds].map((atMs) => localIso(zone, atMs).slice(0, 19)));
  const changeOf = (atMs: number): ListedFiring['change'] => {
    if (!isCron) return undefined;
    if (seconds.has(atMs)) return 'second';
    if (!plain.has(atMs) && next.has(atMs)) return 'moved';
    return walls.has(localIso(zone, atMs).slice(0, 19)) ? 'first' : undefined;
  };
  const candidates = [...new Set([...plain, ...next, ...twice])].sort((one, other) => one - other);
  const shown = (atMs: number) => ({
    utc: new Date(atMs + jitterMs).toISOString(),
    local: localIso(zone, atMs + jitterMs),
  });
  return {
    zone,
    firings: instants.map((atMs) => {
      const change = changeOf(atMs);
      return { ...shown(atMs), ...(change === undefined ? {} : { change }) };
    }),
    policies: candidates.flatMap((atMs) => {
      const change = changeOf(atMs);
      return change === undefined ? [] : [{ ...shown(atMs), change, what: POLICY_TEXTS[change] }];
    }),
  };
}

const NO_INSTANTS: ReadonlySet<number> = new Set();

const POLICY_TEXTS: Readonly<Record<NonNullable<ListedFiring['change']>, string>> = {
  moved: 'gap next fires here, in place of a local time that is skipped; gap skip does not fire',
  first: 'occurs twice; overlap once and overlap twice fire here, the first time',
  second: 'occurs twice; overlap twice also fires here, the second time; overlap once does not',
};

/** Returns the firings in (fromMs, untilMs], at most `most` of them, which is more than any list of firings needs. */
function firedBetween(
  spec: TimeSpec,
  anchorMs: number,
  fromMs: number,
  untilMs: number,
  most: number,
): ReadonlySet<number> {
  const fires = firesOf(rulesOf(spec as ScheduleSpec, anchorMs), readCron);
  const found = new Set<number>();
  let atMs = fires.next(fromMs);
  while (atMs !== undefined && atMs <= untilMs && found.size < most) {
    found.add(atMs);
    atMs = fires.next(atMs);
  }
  return found;
}
