/** A line in rank order, cheap at its head however long it is. */

/** A place in a line: by rank, then by id, both compared as DynamoDB compares text. */
export interface Placed {
  readonly rank: string;
  readonly id: string;
}

/** A chunk is split at this length: inserting moves at most that many entries, whatever the line's length. */
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

// Below the surrogates the engine's own order is that of UTF-8, and much faster.
const ODD = /[\ud800-\uffff]/;
// Most ranks end with the id: then it need not be looked through twice.
const isOdd = ({ rank, id }: Placed): boolean => ODD.test(rank) || (!rank.endsWith(id) && ODD.test(id));

function comparePlainPlaces(a: Placed, b: Placed): number {
  if (a.rank < b.rank) return -1;
  if (a.rank > b.rank) return 1;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

/** The first index at which `isBehind` holds, of a list in which it holds from some index on. */
function firstIndex<T>(list: readonly T[], isBehind: (entry: T) => boolean): number {
  let from = 0;
  let to = list.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    const entry = list[middle];
    if (entry !== undefined && !isBehind(entry)) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** A sorted list in two levels: insert, remove and find cost O(log n) comparisons and one short move. */
export class SortedLine<T extends Placed> {
  readonly #chunks: T[][] = [];
  #size = 0;
  #isPlain = true;

  get size(): number {
    return this.#size;
  }

  insert(entry: T): void {
    this.#isPlain &&= !isOdd(entry);
    const compare = this.#isPlain ? comparePlainPlaces : comparePlaces;
    const at = this.#chunkOf(entry, compare);
    const chunk = this.#chunks[at] ?? this.#chunks.at(-1);
    this.#size += 1;
    if (chunk === undefined) {
      this.#chunks.push([entry]);
      return;
    }
    chunk.splice(
      firstIndex(chunk, (other) => compare(other, entry) > 0),
      0,
      entry,
    );
    // Most ranks arrive in rising order: a split at the end leaves the full chunk full.
    if (chunk.length > CHUNK_MAX) {
      const index = Math.min(at, this.#chunks.length - 1);
      const half = index === this.#chunks.length - 1 ? CHUNK_MAX - 1 : CHUNK_MAX / 2;
      this.#chunks.splice(index + 1, 0, chunk.splice(half));
    }
  }

  /** Takes exactly this place out; false if nothing stands there. */
  remove(entry: Placed): boolean {
    // Most jobs leave their line at its head.
    const head = this.#chunks[0];
    if (head?.[0]?.rank === entry.rank && head[0].id === entry.id) {
      head.shift();
      if (head.length === 0) this.#chunks.shift();
      this.#size -= 1;
      return true;
    }
    const compare = this.#comparison(entry);
    const at = this.#chunkOf(entry, compare);
    const chunk = this.#chunks[at];
    if (chunk === undefined) return false;
    const index = firstIndex(chunk, (other) => compare(other, entry) >= 0);
    const found = chunk[index];
    if (found === undefined || compare(found, entry) !== 0) return false;
    if (index === 0) chunk.shift();
    else chunk.splice(index, 1);
    if (chunk.length === 0) this.#chunks.splice(at, 1);
    this.#size -= 1;
    return true;
  }

  /** Up to `limit` entries behind `after`, from the head without it. */
  read(limit: number, after?: Placed): T[] {
    const heads: T[] = [];
    const compare = after === undefined ? comparePlaces : this.#comparison(after);
    let at = after === undefined ? 0 : this.#chunkOf(after, compare);
    let chunk = this.#chunks[at];
    let index =
      after === undefined || chunk === undefined
        ? 0
        : firstIndex(chunk, (other) => compare(other, after) > 0);
    while (chunk !== undefined && heads.length < limit) {
      const entry = chunk[index];
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

  #comparison(place: Placed): typeof comparePlaces {
    return this.#isPlain && !isOdd(place) ? comparePlainPlaces : comparePlaces;
  }

  /** The chunk in which this place is, or would be; past the end behind all. */
  #chunkOf(place: Placed, compare: typeof comparePlaces): number {
    return firstIndex(this.#chunks, (chunk) => {
      const last = chunk.at(-1);
      return last !== undefined && compare(last, place) >= 0;
    });
  }
}
