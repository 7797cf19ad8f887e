/** Lines of waiting jobs: what names them, and how jobs stand in them. */
import { createHash } from 'node:crypto';
import type { JobMode } from '../../core/job.ts';

/**
 * A line of jobs that are ready: all of one type, mode and fairness key. Its name says nothing of the type's tier, which a
 * deployment may change while jobs wait.
 */
export interface ReadyLine {
  readonly type: string;
  readonly mode: JobMode;
  readonly fairnessKey: string;
}

/** Where the jobs stand that are parked for a conflict key. */
export interface BlockedLine {
  readonly conflictKey: string;
}

/** DynamoDB's sort keys end at 1,024 bytes, its partition keys at 2,048; the longest name here has four parts. */
const PART_MAX = 200;
const PART_KEPT = 100;

// Names may hold any character: encoded, a slash always separates. A long one is cut and told apart by its hash,
// behind a character that the encoding never yields. So items say their names in full: none is read out of a key.
export function keyPart(text: string): string {
  const known = parts.get(text);
  if (known !== undefined) return known;
  const encoded = encodedPart(text);
  if (parts.size >= PARTS_MAX) parts.clear();
  parts.set(text, encoded);
  return encoded;
}

/** Types and keys come again with every job. */
const parts = new Map<string, string>();
const PARTS_MAX = 10_000;

function encodedPart(text: string): string {
  const encoded = encodeURIComponent(text.toWellFormed());
  if (encoded.length <= PART_MAX) return encoded;
  return `${encoded.slice(0, PART_KEPT)}=${createHash('sha256').update(encoded).digest('hex')}`;
}

// Lines come again with every job, and whoever looks one up compares its name: one text for each, kept by key and type.
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
/** Beyond, looking through them costs more than making the name. */
const LINES_OF_KEY_MAX = 64;

/**
 * In a blocked line jobs of several ready lines meet. Those of one stand together, in its order: they are a group, and
 * only the first of each can be the next to start.
 */
export const blockedGroup = ({ type, mode, fairnessKey }: ReadyLine): string =>
  `${keyPart(type)}/${mode}/${keyPart(fairnessKey)}/`;
export const blockedRank = (of: ReadyLine, rank: string): string => `${blockedGroup(of)}${rank}`;
/** Behind everything in a group, and before the next one. */
export const behindGroup = (group: string): string => `${group}~`;
