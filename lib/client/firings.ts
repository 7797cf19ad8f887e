/** When an expression fires, and what its policies about clock changes do: for whoever tries it before it is deployed. */
import { ValidationError } from '../core/errors.ts';
import { rulesOf, type ScheduleSpec } from '../core/recurring.ts';
import { firesOf, jitterOf, LAST_FIRING_MS, localIso } from '../core/schedule.ts';
import { readCron } from '../cron/croner.ts';
import { parseTimes, scheduleIdProblem, type TimeRequest, type TimeSpec } from '../schedules/request.ts';

export const FIRINGS_COUNT_MAX = 1_000;

export interface ListedFiring {
  /** ISO 8601, in UTC. */
  readonly utc: string;
  /** The same instant in the schedule's zone, with its offset. */
  readonly local: string;
  /**
   * `moved`: its local time is skipped where clocks are set forward, and this is the first valid one after it. `first`, `second`:
   * its local time comes twice where clocks are set back.
   */
  readonly change?: 'moved' | 'first' | 'second' | undefined;
  /** With jitter whose part is not known: the latest that it may be, ISO 8601, in UTC. */
  readonly latest?: string | undefined;
}

/** An instant near a clock change, and which policy fires at it. */
export interface PolicyAt {
  readonly utc: string;
  readonly local: string;
  readonly change: NonNullable<ListedFiring['change']>;
  readonly what: string;
}

export interface FiringsOf {
  readonly zone: string;
  readonly firings: readonly ListedFiring[];
  /** Local times near clock changes, from the first to the last firing, and which policy fires at them. */
  readonly policies: readonly PolicyAt[];
  /**
   * Of an expression with jitter and without an id: a schedule fires later than `firings` by up to this, in ms. How much follows from
   * its id. Where that is known, firings have it in them.
   */
  readonly jitterMs?: number;
  /** Of a schedule that fires none of these until somebody resumes or changes it: what it is. */
  readonly state?: 'paused' | 'stopped' | 'ended';
}

/** As a person would write it, if there is such an instant. */
const instantText = (atMs: number): string =>
  Math.abs(atMs) <= 8_640_000_000_000_000 ? new Date(atMs).toISOString() : String(atMs);

/**
 * The firings of an expression after an instant.
 *
 * @param id - of the schedule that it is meant for, from which its place in the jitter window follows
 * @throws ValidationError which names the field
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
 * The firings of a schedule that is there.
 * @throws ValidationError which names the field
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

interface Wanted {
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

function firingsBy(spec: TimeSpec, { anchorMs, fromMs, count, jitterMs }: Wanted): FiringsOf {
  const fires = firesOf(rulesOf(spec as ScheduleSpec, anchorMs), readCron);
  const instants: number[] = [];
  for (let atMs = fires.next(fromMs); atMs !== undefined && instants.length < count; atMs = fires.next(atMs))
    instants.push(atMs);
  const isCron = spec.when.kind === 'cron';
  const lastMs = instants.at(-1) ?? fromMs;
  const [plain = ALL, next = ALL, twice = ALL] = isCron
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
  const told = [...new Set([...plain, ...next, ...twice])].sort((one, other) => one - other);
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
    policies: told.flatMap((atMs) => {
      const change = changeOf(atMs);
      return change === undefined ? [] : [{ ...shown(atMs), change, what: TOLD[change] }];
    }),
  };
}

const ALL: ReadonlySet<number> = new Set();

const TOLD: Readonly<Record<NonNullable<ListedFiring['change']>, string>> = {
  moved: 'gap next fires here, in place of a local time that is skipped; gap skip does not',
  first: 'comes twice; overlap once and twice fire here, the first time',
  second: 'comes twice; overlap twice fires here, the second time, too; overlap once does not',
};

/** All that fires in (fromMs, untilMs], up to a number that no list of so many firings needs. */
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
