/** The lines of a fairness key, and one more or less. */
import type { KeyBacklog } from '../records.ts';
import type { AnnouncedLine } from '../schema.ts';

type OwnBacklog = Omit<KeyBacklog, 'rankCostMs'>;

export const countOf = ({ lines, parked = [] }: OwnBacklog): number => lines.length + parked.length;

export function withoutLine(
  { fairnessKey, lines, parked = [], announcedAtMs }: OwnBacklog,
  { mode, parkedIn }: AnnouncedLine,
): OwnBacklog {
  const left = parked.filter((each) => each.mode !== mode || each.conflictKey !== parkedIn);
  return {
    fairnessKey,
    announcedAtMs,
    lines: lines.filter((each) => parkedIn !== undefined || each.mode !== mode),
    ...(left.length === 0 ? {} : { parked: left }),
  };
}

export function withLine(backlog: OwnBacklog, line: AnnouncedLine): OwnBacklog {
  const { lines, parked = [], ...rest } = withoutLine(backlog, line);
  const { mode, parkedIn } = line;
  if (parkedIn !== undefined) return { ...rest, lines, parked: [...parked, { mode, conflictKey: parkedIn }] };
  return {
    ...rest,
    lines: [...lines, { mode }],
    ...(parked.length === 0 ? {} : { parked }),
  };
}
