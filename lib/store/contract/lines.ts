/** Lines of waiting jobs: their names, and the order of the jobs in them. */
import { createHash } from 'node:crypto';
import type { JobMode } from '../../core/job.ts';

/**
 * A line of pending jobs of one type, mode and fairness key. The type's tier is not part of its name, because a deployment may change the
 * tier while jobs wait.
 */
export interface ReadyLine {
  readonly type: string;
  readonly mode: JobMode;
  readonly fairnessKey: string;
}

/** The line of jobs that are parked for a conflict key. */
export interface BlockedLine {
  readonly conflictKey: string;
}

/**
 * The longest encoded name that is not shortened. DynamoDB's sort keys end at 1,024 bytes, its partition keys at 2,048, and the longest key
 * here has four parts.
 */
const PART_MAX = 200;
const PART_KEPT = 100;

// Encodes one part of a line's name. Names may contain any character; encoded, they contain no slash. A long name is cut, and gets its hash
// behind a character that the encoding never yields. Items therefore hold their names in full: no name is ever read from a key.
export function keyPart(text: string): string {
  const known = parts.get(text);
  if (known !== undefined) return known;
  const encoded = encodedPart(text);
  if (parts.size >= PARTS_MAX) parts.clear();
  parts.set(text, encoded);
  return encoded;
}

/** A cache, because types and keys are encoded again for every job. */
const parts = new Map<string, string>();
const PARTS_MAX = 10_000;

function encodedPart(text: string): string {
  const encoded = encodeURIComponent(text.toWellFormed());
  if (encoded.length <= PART_MAX) return encoded;
  return `${encoded.slice(0, PART_KEPT)}=${createHash('sha256').update(encoded).digest('hex')}`;
}

// Returns the name of a ready line. Names are cached by key and type, because every job needs one, and equal names that
// are the same string compare faster.
export function readyLineName(partition: number, line: ReadyLine): string {
  const { type, mode, fairnessKey } = line;
  let names = readyNames.get(fairnessKey);
  if (names === undefined) {
    if (readyNames.size >= PARTS_MAX) readyNames.clear();
    names = [];
    readyNames.set(fairnessKey, names);
  }
  for (const known of names) {
    if (known.type === type && known.partition === partition && known.mode === mode) return known.name;
  }
  const key = keyPart(fairnessKey);
  const name = `ready/${partition}/${keyPart(type)}/${mode}/${key}`;
  if (names.length < LINES_OF_KEY_MAX) names.push({ partition, type, mode, name });
  return name;
}

interface ReadyName extends Omit<ReadyLine, 'fairnessKey'> {
  readonly partition: number;
  readonly name: string;
}
const readyNames = new Map<string, ReadyName[]>();
/** How many names of one key are cached. With more, a search would take longer than making the name. */
const LINES_OF_KEY_MAX = 64;

/**
 * Returns the name of a ready line's group in blocked lines. A blocked line holds jobs of several ready lines. The jobs
 * of one ready line stand together in that line's order: they are a group, and only the first of each group can start
 * next.
 */
export const blockedGroup = ({ type, mode, fairnessKey }: ReadyLine): string =>
  `${keyPart(type)}/${mode}/${keyPart(fairnessKey)}/`;
export const blockedRank = (of: ReadyLine, rank: string): string => `${blockedGroup(of)}${rank}`;
/** Returns a rank in a blocked line: behind all jobs of the group, before those of the next one. */
export const endOfGroup = (group: string): string => `${group}~`;
