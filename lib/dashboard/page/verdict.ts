/** One sentence about the pool as it is now. */
import type { CapacityView } from '../../operate/capacity.ts';
import type { DispatchersView } from '../../operate/dispatchers.ts';
import type { FleetView, KeyView } from '../../operate/inspect.ts';
import { durationText, isFull, listText, plural, scopeText } from './words.ts';

export interface PoolVerdict {
  /** `late`: jobs wait, and nothing that is known keeps them. */
  readonly tone: 'fine' | 'full' | 'late';
  readonly text: string;
}

export interface Seen {
  readonly capacity: CapacityView;
  readonly fleets: readonly FleetView[];
  readonly partitions: DispatchersView['partitions'];
  readonly keys: readonly KeyView[];
}

/** Milliseconds after which a waiting job with room for it is late: passes find what was missed within two minutes. */
const LATE_MS = 120_000;
const NAMED_MAX = 3;

/** Returns some of the names, and how many there are. */
function named(names: readonly string[], what: string, are: string): readonly string[] {
  if (names.length === 0) return [];
  if (names.length <= NAMED_MAX) return [`${listText(names)} ${are}`];
  return [`${plural(names.length, what)} ${are}`];
}

export const waitingOf = ({
  partitions,
}: Pick<Seen, 'partitions'>): { readonly count: number; readonly more: boolean } => ({
  count: partitions.reduce((sum, { depth }) => sum + depth.jobs, 0),
  more: partitions.some(({ depth }) => depth.isLeast),
});

export const longestWaitMs = ({ partitions }: Pick<Seen, 'partitions'>): number =>
  Math.max(0, ...partitions.map(({ waitedMs = 0 }) => waitedMs));

/** Returns the sentence about what stands out, and its tone. */
export function verdictOf(seen: Seen): PoolVerdict {
  const { capacity, fleets, keys } = seen;
  const waitedMs = longestWaitMs(seen);
  const paused = [
    ...capacity.scopes.filter((each) => each.paused).map(({ scope }) => scopeText(scope)),
    ...fleets.filter((each) => each.paused).map(({ fleet }) => `fleet ${fleet}`),
  ];
  const empty = fleets.filter(({ slots }) => slots === 0).map(({ fleet }) => `fleet ${fleet}`);
  const full = fleets.filter(({ slots, busy }) => slots > 0 && busy >= slots).map(({ fleet }) => fleet);
  const capped = [
    ...capacity.scopes.filter((each) => !each.paused && isFull(each)).map(({ scope }) => scopeText(scope)),
    ...capacity.rates
      .filter(({ used, most, perJob = 1 }) => used + perJob > most)
      .map(({ limit }) => `the rate of ${limit}`),
  ];
  const cappedKeys = keys
    .filter(({ inFlight, maxConcurrency }) => maxConcurrency !== undefined && inFlight >= maxConcurrency)
    .map(({ fairnessKey }) => fairnessKey);
  const parts = [
    ...named(paused, 'pause', paused.length > NAMED_MAX ? 'are in force' : 'paused'),
    ...named(empty, 'fleet', empty.length === 1 ? 'has no worker' : 'have no worker'),
    ...named(full.length > NAMED_MAX ? full : full.map((fleet) => `fleet ${fleet}`), 'fleet', 'full'),
    ...named(capped, 'cap', capped.length > NAMED_MAX ? 'are used up' : 'at the cap'),
    ...named([...new Set(cappedKeys)], 'key', 'at the cap'),
  ];
  const isHeld = parts.length > 0;
  const late =
    waitedMs === 0
      ? 'nothing waits'
      : waitedMs < LATE_MS
        ? 'nothing late'
        : `the longest wait is ${durationText(waitedMs)}`;
  const sentence = [...parts, late].join(', ');
  const tone = waitedMs >= LATE_MS && !isHeld ? 'late' : isHeld ? 'full' : 'fine';
  const why = tone === 'late' ? ', although nothing is full or paused' : '';
  return { tone, text: `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}${why}.` };
}
