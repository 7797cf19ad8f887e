/** The lines of a fairness key that have, or lately had, jobs. */

import { JOB_MODES, type JobMode } from '../../../core/job.ts';
import type { KeyBacklog, ParkedLine } from '../../records.ts';
import { type AnnouncedLine, costOfRank } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf } from './cells.ts';

/** A line inside a backlog's set: its mode, and the conflict key where its jobs are parked. */
export const encodeBacklogLine = ({ mode, parkedIn }: Pick<AnnouncedLine, 'mode' | 'parkedIn'>): string =>
  parkedIn === undefined ? mode : `${mode}!${parkedIn}`;

const isMode = (text: string): text is JobMode => JOB_MODES.some((mode) => mode === text);

/** As a backlog's set names its lines. */
export const lineNamesOf = ({
  lines,
  parked = [],
}: Pick<KeyBacklog, 'lines' | 'parked'>): readonly string[] => [
  ...lines.map(encodeBacklogLine),
  ...parked.map(({ mode, conflictKey }) => encodeBacklogLine({ mode, parkedIn: conflictKey })),
];

export function decodeBacklog(item: Item): KeyBacklog {
  const cells = cellsOf(item);
  const lines: KeyBacklog['lines'][number][] = [];
  const parked: ParkedLine[] = [];
  for (const text of cells.texts(A.lines).toSorted()) {
    const [, mode = '', conflictKey] = /^(\w+)(?:!(.*))?$/s.exec(text) ?? [];
    if (!isMode(mode)) throw cells.malformed(A.lines, 'a set of <mode> and <mode>!<conflict key>');
    if (conflictKey !== undefined) parked.push({ mode, conflictKey });
    else lines.push({ mode });
  }
  return {
    fairnessKey: cells.text(A.fairnessKey),
    lines,
    ...(parked.length === 0 ? {} : { parked }),
    announcedAtMs: cells.number(A.announcedAtMs),
    rankCostMs: costOfRank(cells.text(A.rank)),
  };
}
