/** A line in rank order whose head is cheap to read and to remove, however long the line is. */

/** A position in a line: by rank, then by id, both compared as DynamoDB compares text. */
export interface Placed {
  readonly rank: string;
  readonly id: string;
}

/** A chunk is split at this length, so that an insertion moves at most that many entries, however long the line is. */
const CHUNK_MAX = 512;

// UTF-8 puts surrogate pairs after U+E000-U+FFFF; UTF-16 code units would put them before.
const unitWeight = (unit: number): number =>
  unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800;

/** Orders text by its UTF-8 bytes, as DynamoDB does. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at += 1) {
    const left = a.charCodeAt(at);
    const right = b.charCodeAt(at);
    if (left !== right) return unitWeight(left) - unitWeight(right);
  }
  return a.length - b.length;
}

export function comparePlaces(a: Placed, b: Placed): number {
  return compareText(a.rank, b.rank) || compareText(a.id, b.id);
}

/** Below this, JavaScript's own order equals that of UTF-8, and is much faster. */
const FIRST_SURROGATE = 0xd800;
const hasSurrogates = ({ rank, id }: Placed): boolean => textHasSurrogates(rank) || textHasSurrogates(id);

// A regular expression would take longer than all other work on an entry.
function textHasSurrogates(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) if (text.charCodeAt(at) >= FIRST_SURROGATE) return true;
  return false;
}

function comparePlainPlaces(a: Placed, b: Placed): number {
  if (a.rank < b.rank) return -1;
  if (a.rank > b.rank) return 1;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

/** The ranks of most lines have the same first characters: the exponent of a score, the century of an instant. */
const SHARED_CHARS = 3;
/** Twelve hexadecimal digits are 48 bits, and a double holds every such number exactly. */
const KEY_DIGITS = 12;

/** Returns the first characters of a rank as one number. */
const headOf = ({ rank }: Placed): number =>
  (rank.charCodeAt(0) * 65_536 + rank.charCodeAt(1)) * 65_536 + rank.charCodeAt(2);

/**
 * Returns a number that orders most pairs of ranks with the same first characters, without reading their texts, which
 * are scattered in memory. It consists of the next characters if all are hexadecimal digits, as in instants and scores;
 * otherwise it is NaN.
 */
function keyOf({ rank }: Placed): number {
  let key = 0;
  for (let at = SHARED_CHARS; at < SHARED_CHARS + KEY_DIGITS; at += 1) {
    // Past the end the unit is NaN, which is no digit.
    const unit = rank.charCodeAt(at);
    const digit = unit >= 97 ? unit - 87 : unit - 48;
    const isDigit = (unit >= 48 && unit <= 57) || (unit >= 97 && unit <= 102);
    if (!isDigit) return Number.NaN;
    key = 16 * key + digit;
  }
  return key;
}

interface Chunk<T> {
  readonly entries: T[];
  /** The key of each entry. */
  readonly keys: number[];
}

/** A sorted list in two levels: insert, remove and find cost O(log n) comparisons and one short move. */
export class SortedLine<T extends Placed> {
  readonly #chunks: Chunk<T>[] = [];
  #size = 0;
  #isPlain = true;
  /**
   * Whether ranks are compared by number keys (`keyOf`). False as soon as one rank has no such key, or begins with other
   * characters than the first rank did: from then on all keys are 0 and texts are compared.
   */
  #isKeyed = true;
  /** The first characters of all ranks. */
  #head: number | undefined;

  get size(): number {
    return this.#size;
  }

  insert(entry: T): void {
    this.#isPlain &&= !hasSurrogates(entry);
    const compare = this.#isPlain ? comparePlainPlaces : comparePlaces;
    const key = this.#keyToInsert(entry);
    const at = this.#chunkOf(key, entry, compare);
    const chunk = this.#chunks[at] ?? this.#chunks.at(-1);
    this.#size += 1;
    if (chunk === undefined) {
      this.#chunks.push({ entries: [entry], keys: [key] });
      return;
    }
    const index = firstBehind(chunk, key, entry, compare, false);
    chunk.entries.splice(index, 0, entry);
    chunk.keys.splice(index, 0, key);
    // Most ranks arrive in rising order, so a split at the end leaves the full chunk full.
    if (chunk.entries.length > CHUNK_MAX) {
      const index = Math.min(at, this.#chunks.length - 1);
      const half = index === this.#chunks.length - 1 ? CHUNK_MAX - 1 : CHUNK_MAX / 2;
      const rest = { entries: chunk.entries.splice(half), keys: chunk.keys.splice(half) };
      this.#chunks.splice(index + 1, 0, rest);
    }
  }

  /** Removes the entry at exactly this position; false if there is none. */
  remove(entry: Placed): boolean {
    // Most jobs leave their line at its head.
    const head = this.#chunks[0];
    const first = head?.entries[0];
    const isFirst = first === entry || (first?.rank === entry.rank && first.id === entry.id);
    if (head !== undefined && isFirst) {
      head.entries.shift();
      head.keys.shift();
      if (head.entries.length === 0) this.#chunks.shift();
      this.#size -= 1;
      return true;
    }
    const compare = this.#comparison(entry);
    const key = this.#keyToFind(entry);
    const at = this.#chunkOf(key, entry, compare);
    const chunk = this.#chunks[at];
    if (chunk === undefined) return false;
    const index = firstBehind(chunk, key, entry, compare, true);
    const found = chunk.entries[index];
    if (found === undefined || (found !== entry && compare(found, entry) !== 0)) return false;
    chunk.entries.splice(index, 1);
    chunk.keys.splice(index, 1);
    if (chunk.entries.length === 0) this.#chunks.splice(at, 1);
    this.#size -= 1;
    return true;
  }

  /** Returns up to `limit` entries after `after`, by default from the head. */
  read(limit: number, after?: Placed): T[] {
    const heads: T[] = [];
    let at = 0;
    let index = 0;
    if (after !== undefined) {
      const compare = this.#comparison(after);
      const key = this.#keyToFind(after);
      at = this.#chunkOf(key, after, compare);
      const chunk = this.#chunks[at];
      if (chunk !== undefined) index = firstBehind(chunk, key, after, compare, false);
    }
    let chunk = this.#chunks[at];
    while (chunk !== undefined && heads.length < limit) {
      const entry = chunk.entries[index];
      if (entry === undefined) {
        at += 1;
        chunk = this.#chunks[at];
        index = 0;
      } else {
        heads.push(entry);
        index += 1;
      }
    }
    return heads;
  }

  #keyToInsert(entry: Placed): number {
    this.#head ??= headOf(entry);
    const key = this.#keyToFind(entry);
    if (!Number.isNaN(key)) return key;
    this.#isKeyed = false;
    for (const { keys } of this.#chunks) keys.fill(0);
    return 0;
  }

  /** Returns the number by which a position is looked for. NaN: the position has no such number, so ranks are compared as texts. */
  #keyToFind(place: Placed): number {
    if (!this.#isKeyed) return 0;
    return headOf(place) === this.#head ? keyOf(place) : Number.NaN;
  }

  #comparison(place: Placed): Comparison {
    return this.#isPlain && !hasSurrogates(place) ? comparePlainPlaces : comparePlaces;
  }

  /**
   * Returns the index of the chunk that contains the position, or would contain it; the number of chunks if the
   * position is after all of them.
   */
  #chunkOf(key: number, place: Placed, compare: Comparison): number {
    let from = 0;
    let to = this.#chunks.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      const chunk = this.#chunks[middle];
      const last = (chunk?.entries.length ?? 0) - 1;
      if (chunk !== undefined && orderOf(chunk, last, key, place, compare) < 0) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

type Comparison = (a: Placed, b: Placed) => number;

/** Compares an entry of a chunk with a position: by key, and if the keys are equal or NaN, by text. */
function orderOf<T extends Placed>(
  { entries, keys }: Chunk<T>,
  index: number,
  key: number,
  place: Placed,
  compare: Comparison,
): number {
  const order = (keys[index] ?? 0) - key;
  if (order < 0 || order > 0) return order;
  const entry = entries[index];
  return entry === undefined ? 0 : compare(entry, place);
}

/** Returns the first index in a chunk whose entry is after the position, or, with `orAt`, at it. */
function firstBehind<T extends Placed>(
  chunk: Chunk<T>,
  key: number,
  place: Placed,
  compare: Comparison,
  orAt: boolean,
): number {
  let from = 0;
  let to = chunk.keys.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    const order = orderOf(chunk, middle, key, place, compare);
    if (order < 0 || (order === 0 && !orAt)) from = middle + 1;
    else to = middle;
  }
  return from;
}
