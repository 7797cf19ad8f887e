import { hashText } from '../core/partition.ts';
import { RING_SPACE } from '../core/ring.ts';
import type { Random } from '../runtime/contract.ts';

/** Returns a source of evenly distributed numbers in [0, 1), which are the same for the same seed. */
export function seeded(seed: string): Random {
  let drawn = 0;
  return () => {
    drawn += 1;
    return hashText(`${seed}/${drawn}`) / RING_SPACE;
  };
}
