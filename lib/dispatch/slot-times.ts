/**
 * When slots become free, as far as that can be told: what attempts of a type have taken beside their estimate, from where they were counted,
 * and how far that was off. Learned anew by each process, within a few attempts.
 */
import type { ReservedJob } from '../core/job.ts';
import { claimIdOfPlace, type Place, type Settled } from './settle/settled.ts';

/** Smoothing of what is learned, once more than a few are seen. */
const ALPHA = 0.1;
/** One attempt that is far off says no more than this many times the bound: what ends as told mostly goes on being told. */
const OUTLIER = 4;
/** Where they are off by so many times the bound in the mean, what was learned is of no use: it begins anew. */
const ANEW = 3;

/** Which slots of functions are taken over before they are free (`takeovers.ts`). */
export interface TakeoverBudget {
  /** So long before its slot is free a fleet is told of a job; 0: no slot is taken over. */
  readonly aheadMs: number;
  /** Of attempts that are estimated to take this at most: of longer ones a slot stands still for a small part of the time only. */
  readonly shortMs: number;
  /** Where so many attempts of the type have been seen to end, */
  readonly seenMin: number;
  /** and what was foretold of them was off by this at most, in the mean. */
  readonly offMaxMs: number;
}

export const NO_TAKEOVERS: TakeoverBudget = { aheadMs: 0, shortMs: 0, seenMin: 0, offMaxMs: 0 };

/** Slots that were free when the last pass had ended, by fleet: as many places need not wait for others. */
export type SpareSlots = ReadonlyMap<string, number>;

type Bounds = Pick<TakeoverBudget, 'seenMin' | 'offMaxMs'>;

interface Learned {
  seen: number;
  overheadMs: number;
  offMs: number;
}

const NOTHING_LEARNED: Readonly<Learned> = { seen: 0, overheadMs: 0, offMs: 0 };

export class SlotTimes {
  /** By type, and whether its attempts took a slot over: those begin at its end, others some time after their reservation. */
  readonly #learned = new Map<string, Learned>();
  /** By claim: when its attempt ended, as long as a job that took its slot over is in flight. */
  #freedAtMs: ReadonlyMap<string, number> = new Map();
  /** Claims of jobs that took slots over and were seen to run. */
  #started = new Set<string>();

  /** When the attempt of a place ends, epoch ms; undefined: nobody can tell. */
  endsAtMs({ reservation, entry }: Place, { seenMin, offMaxMs }: Bounds): number | undefined {
    const fromMs = this.#beginsAtMs(reservation.reservedAtMs, entry);
    const { seen, offMs, overheadMs } = this.#learned.get(kindOf(entry)) ?? NOTHING_LEARNED;
    if (fromMs === undefined || seen < seenMin || offMs > offMaxMs) return undefined;
    return fromMs + entry.estimatedCostMs + overheadMs;
  }

  /** Notes ends, and remembers only what concerns these, which took slots over. */
  note(settled: readonly Settled[], takeovers: readonly Place[], bounds: Bounds): void {
    for (const place of settled) this.#learn(place, bounds);
    if (takeovers.length === 0 && this.#freedAtMs.size + this.#started.size === 0) return;
    const taken = new Set(takeovers.map(({ entry }) => entry.takesOver));
    const known = new Map([...this.#freedAtMs].filter(([claimId]) => taken.has(claimId)));
    for (const place of settled) {
      const claimId = claimIdOfPlace(place);
      if (place.endedAtMs !== undefined && taken.has(claimId)) known.set(claimId, place.endedAtMs);
    }
    this.#freedAtMs = known;
    this.#started = new Set(takeovers.map(claimIdOfPlace).filter((claimId) => this.#started.has(claimId)));
  }

  /** When the attempt of a claim ended whose slot a job in flight took over, as far as this process has seen it. */
  freedAtMs(claimId: string): number | undefined {
    return this.#freedAtMs.get(claimId);
  }

  /** Remembers that a place which took a slot over was seen to have it. */
  noteStarted(claimId: string): void {
    this.#started.add(claimId);
  }

  hasStarted(claimId: string): boolean {
    return this.#started.has(claimId);
  }

  #beginsAtMs(reservedAtMs: number, { takesOver }: ReservedJob): number | undefined {
    return takesOver === undefined ? reservedAtMs : this.#freedAtMs.get(takesOver);
  }

  #learn({ reservation, entry, succeeded, endedAtMs }: Settled, { offMaxMs }: Bounds): void {
    const fromMs = this.#beginsAtMs(reservation.reservedAtMs, entry);
    if (!succeeded || endedAtMs === undefined || fromMs === undefined) return;
    const kind = kindOf(entry);
    const overheadMs = endedAtMs - fromMs - entry.estimatedCostMs;
    const known = this.#learned.get(kind);
    // The first one says where they are, and not how far they spread.
    if (known === undefined || known.offMs > ANEW * offMaxMs) {
      this.#learned.set(kind, { seen: 1, overheadMs, offMs: 0 });
      return;
    }
    known.seen += 1;
    const share = Math.max(1 / known.seen, ALPHA);
    const mostMs = OUTLIER * offMaxMs;
    const errorMs = Math.min(mostMs, Math.max(-mostMs, overheadMs - known.overheadMs));
    known.offMs += share * (Math.abs(errorMs) - known.offMs);
    known.overheadMs += share * errorMs;
  }
}

const kindOf = ({ type, takesOver }: ReservedJob): string =>
  `${type}/${takesOver === undefined ? 'free' : 'taken'}`;
