/** Adds lines to the backlog of a fairness key, and removes them. */

import type { ReadyLine } from '../contract/lines.ts';
import type { KeyBacklog } from '../contract/records.ts';

type OwnBacklog = Omit<KeyBacklog, 'rankCostMs'>;

export const withoutLine = (
  { fairnessKey, lines, announcedAtMs }: OwnBacklog,
  { mode }: ReadyLine,
): OwnBacklog => ({
  fairnessKey,
  announcedAtMs,
  lines: lines.filter((each) => each.mode !== mode),
});

export function withLine(backlog: OwnBacklog, line: ReadyLine): OwnBacklog {
  const { lines, ...rest } = withoutLine(backlog, line);
  return { ...rest, lines: [...lines, { mode: line.mode }] };
}
