/** The commits of a pass, one after the other: each names the commit before it, and only the holder of the lease makes them. */
import type { PassStore } from '../../store/contract.ts';
import type { Fence } from '../../store/records.ts';
import type { Commit } from '../../store/requests.ts';

/** Somebody else leads the partition by now: nothing of this pass counts any more. Who makes passes ends this one quietly. */
export class LeaseLostError extends Error {
  constructor({ partition, epoch }: Fence) {
    super(`the lease of partition ${partition}, epoch ${epoch}, is somebody else's by now`);
    this.name = 'LeaseLostError';
  }
}

/** A commit without effect, to be filled. */
export const EMPTY_COMMIT = { drop: [], postpone: [], ledgers: [], estimates: [], reserve: [] };

export class Commits {
  readonly #store: Pick<PassStore, 'commit'>;
  readonly #fence: Fence;
  #turn: number;

  /** @param turn - how many commits the partition has seen, as it was loaded */
  constructor(store: Pick<PassStore, 'commit'>, fence: Fence, turn: number) {
    this.#store = store;
    this.#fence = fence;
    this.#turn = turn;
  }

  /** The number of the next commit. */
  get turn(): number {
    return this.#turn;
  }

  /** @throws LeaseLostError if somebody else has the lease, or has committed */
  async write(commit: Omit<Commit, 'turn'>): Promise<void> {
    const outcome = await this.#store.commit({ fence: this.#fence, commit: { ...commit, turn: this.#turn } });
    if (outcome === 'lost') throw new LeaseLostError(this.#fence);
    this.#turn += 1;
  }
}
