/** What worker processes of the tests write down, one line each. */
import { appendFileSync, readFileSync } from 'node:fs';

export interface Entry {
  /** `kept`: a checkpoint was. */
  readonly what: 'begin' | 'kept' | 'end';
  readonly jobId: string;
  /** The process's name. */
  readonly by: string;
  readonly atMs: number;
}

export const note = (journal: string, entry: Omit<Entry, 'atMs'>): void =>
  appendFileSync(journal, `${JSON.stringify({ ...entry, atMs: Date.now() })}\n`);

export function entriesOf(journal: string): readonly Entry[] {
  try {
    const lines = readFileSync(journal, 'utf8').trim().split('\n');
    return lines.map((line) => JSON.parse(line) as Entry);
  } catch {
    return [];
  }
}
