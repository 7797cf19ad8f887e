/** Seeded chance: the same seed, the same numbers. */

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** A 32-bit hash of text, continued from another one. Source: FNV-1a. */
export function hashText(text: string, from = FNV_OFFSET): number {
  let hash = from;
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  }
  return hash >>> 0;
}

/** Evenly distributed in [0, 1), from a 32-bit seed: a Weyl sequence, mixed. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 4_294_967_296;
  };
}

/** What a seed draws, in the words of the plan. */
export interface Dice {
  readonly chance: (probability: number) => boolean;
  /** A whole number from `least` to `most`. */
  readonly whole: (least: number, most: number) => number;
  readonly between: (least: number, most: number) => number;
  readonly pick: <T>(options: readonly [T, ...T[]]) => T;
}

export function diceOf(random: () => number): Dice {
  return {
    chance: (probability) => random() < probability,
    whole: (least, most) => least + Math.floor(random() * (most - least + 1)),
    between: (least, most) => least + random() * (most - least),
    pick: (options) => options[Math.floor(random() * options.length)] ?? options[0],
  };
}
