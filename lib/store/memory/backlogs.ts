/** The lines of a fairness key, and one more or less. */
import type { KeyBacklog } from '../records.ts';
import type { ReadyLine } from '../schema.ts';

type OwnBacklog = Omit<KeyBacklog, 'rankCostMs'>;

export const withoutLine = (
  { fairnessKey, lines, announcedAtMs }: OwnBacklog,
  { mode, sub = 0 }: ReadyLine,
): OwnBacklog => ({
  fairnessKey,
  announcedAtMs,
  lines: lines.filter((each) => each.mode !== mode || (each.sub ?? 0) !== sub),
});

export function withLine(backlog: OwnBacklog, line: ReadyLine): OwnBacklog {
  const { lines, ...rest } = withoutLine(backlog, line);
  return { ...rest, lines: [...lines, { mode: line.mode }] };
}
