/** Encodes and decodes the backlog of a fairness key: the lines of a type that have jobs, now or recently. */

import { JOB_MODES, type JobMode } from '../../../core/job.ts';
import type { ReadyLine } from '../../contract/lines.ts';
import type { KeyBacklog } from '../../contract/records.ts';
import { costOfRank } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf } from './cells.ts';

/** Returns a line as an element of a backlog's set: its mode. */
export const encodeBacklogLine = ({ mode }: Pick<ReadyLine, 'mode'>): string => mode;

const isMode = (text: string): text is JobMode => JOB_MODES.some((mode) => mode === text);

/** Returns the elements of a backlog's set. */
export const lineNamesOf = ({ lines }: Pick<KeyBacklog, 'lines'>): readonly string[] =>
  lines.map(encodeBacklogLine);

export function decodeBacklog(item: Item): KeyBacklog {
  const cells = cellsOf(item);
  const lines: KeyBacklog['lines'][number][] = [];
  for (const text of cells.texts(A.lines).toSorted()) {
    if (!isMode(text)) throw cells.malformed(A.lines, 'a set of modes');
    lines.push({ mode: text });
  }
  return {
    fairnessKey: cells.text(A.fairnessKey),
    lines,
    announcedAtMs: cells.number(A.announcedAtMs),
    rankCostMs: costOfRank(cells.text(A.rank)),
  };
}
