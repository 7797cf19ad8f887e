/** The lines of a fairness key that have, or lately had, jobs. */

import { JOB_MODES, type JobMode } from '../../../core/job.ts';
import type { KeyBacklog } from '../../records.ts';
import { costOfRank, type ReadyLine } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf } from './cells.ts';

/** A line inside a backlog's set: its mode, and its part where it is not the first. */
export const encodeBacklogLine = ({ mode, sub = 0 }: Pick<ReadyLine, 'mode' | 'sub'>): string =>
  `${mode}${sub === 0 ? '' : `.${sub}`}`;

const isMode = (text: string): text is JobMode => JOB_MODES.some((mode) => mode === text);

/** As a backlog's set names its lines. */
export const lineNamesOf = ({ lines }: Pick<KeyBacklog, 'lines'>): readonly string[] =>
  lines.map(encodeBacklogLine);

export function decodeBacklog(item: Item): KeyBacklog {
  const cells = cellsOf(item);
  const lines: KeyBacklog['lines'][number][] = [];
  for (const text of cells.texts(A.lines).toSorted()) {
    const [, mode = '', sub = '0'] = /^(\w+)(?:\.(\d{1,3}))?$/.exec(text) ?? [];
    if (!isMode(mode)) throw cells.malformed(A.lines, 'a set of <mode> and <mode>.<part>');
    lines.push(sub === '0' ? { mode } : { mode, sub: Number(sub) });
  }
  return {
    fairnessKey: cells.text(A.fairnessKey),
    lines,
    announcedAtMs: cells.number(A.announcedAtMs),
    rankCostMs: costOfRank(cells.text(A.rank)),
  };
}
