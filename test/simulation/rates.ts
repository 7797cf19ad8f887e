/**
 * What rates promise while declarations change. An observer knows each reservation, each settlement and each first line of a
 * handler, in the order in which they happened.
 *
 * A start is held to the rates that were declared when its job was reserved. Of all starts within a window of theirs, it counts
 * those that were reserved in its partition before it, because a partition may use its share of a rate, and no other partition
 * counts there:
 *
 * - A start whose reservation was still held then counts, under whatever it was reserved.
 * - A start that was settled before counts if each declaration that may have settled it had this rate, for this type and this
 *   key, and for as long as that declaration's window is.
 *
 * So a job that was reserved before its type was under a rate is held to none, but later ones count it.
 */
import type {
  LimitConfiguration,
  PoolConfiguration,
  RateConfiguration,
} from '../../lib/core/configuration.ts';
import type { Job, ReservedJob } from '../../lib/core/job.ts';
import { shareOfPool } from '../../lib/core/partition.ts';
import type { Commit } from '../../lib/store/contract/requests.ts';
import type { Versions } from './versions.ts';

interface ReservedStart {
  readonly entry: ReservedJob;
  readonly partition: number;
  /** The place of its commit among all. */
  readonly order: number;
  readonly reservedAtMs: number;
  readonly declared: number;
  /** Its settlement, and the first and the last declaration under which that may have been. */
  settled?: { readonly order: number; readonly from: number; readonly to: number };
}

interface Start {
  readonly job: Job;
  readonly atMs: number;
  readonly of: ReservedStart;
}

/** A whole limit, or one key of it. */
type Bound = 'whole' | 'key';

/** The key by which a limit counts a job. */
export const keyOf = (
  { fairnessKey, keys }: Pick<Job, 'fairnessKey' | 'keys'>,
  keyedBy: string | undefined,
): string => (keyedBy === undefined ? fairnessKey : (keys?.[keyedBy] ?? ''));

const mostOf = (rate: RateConfiguration, bound: Bound): number | null =>
  bound === 'key' ? rate.perKey : (rate.units ?? rate.starts);

export class Rates {
  readonly #versions: Versions;
  readonly #nowMs: () => number;
  readonly #violated: (what: string) => void;
  readonly #reserved = new Map<string, ReservedStart>();
  #starts: readonly Start[] = [];
  #commits = 0;

  constructor(options: {
    readonly versions: Versions;
    readonly nowMs: () => number;
    readonly violated: (what: string) => void;
  }) {
    this.#versions = options.versions;
    this.#nowMs = options.nowMs;
    this.#violated = options.violated;
  }

  /** `told`: the declaration of which the partition knew when the pass of this commit loaded it. */
  onCommit(partition: number, { drop, reserve }: Commit, told: number): void {
    this.#commits += 1;
    const order = this.#commits;
    // A commit that also reserves tells under which declaration its pass was.
    const { declared: from = told, declared: to = this.#versions.newest } = reserve[0] ?? {};
    for (const { reservation, positions } of drop) {
      for (const position of positions) {
        const of = this.#reserved.get(`${reservation.batchId}.${position}`);
        if (of !== undefined) of.settled ??= { order, from, to };
      }
    }
    for (const { batchId, declared = 0, jobs } of reserve) {
      for (const [position, entry] of jobs)
        this.#reserved.set(`${batchId}.${position}`, {
          entry,
          partition,
          order,
          reservedAtMs: this.#nowMs(),
          declared,
        });
    }
  }

  /** The first line of a handler. */
  onStart(job: Job): void {
    const of = this.#reserved.get(job.claim?.claimId ?? '');
    if (of === undefined) return;
    const start = { job, atMs: this.#nowMs(), of };
    const longestMs = this.#longestMs;
    this.#starts = [...this.#starts.filter(({ atMs }) => atMs > start.atMs - longestMs), start];
    if (this.#versions.newest <= 1) this.#requireWhole(start);
    for (const last of this.#starts)
      if (last.of.partition === of.partition && last.of.order >= of.order) this.#require(last, start);
  }

  get #longestMs(): number {
    const all = this.#versions.since(0).flatMap(({ limits = [] }) => limits);
    return Math.max(0, ...all.map(({ rate }) => rate?.perMs ?? 0));
  }

  /** Requires the rates of a start, of those that were reserved before it, in the window that ends with the newest start. */
  #require(last: Start, newest: Start): void {
    const { declared, partition } = last.of;
    const configuration = this.#versions.under(declared);
    for (const limit of shareOfPool(configuration, partition).limits ?? []) {
      const { rate } = limit;
      if (rate === undefined || !isUnder(configuration, last.of.entry.type, limit)) continue;
      if (last.atMs <= newest.atMs - rate.perMs) continue;
      for (const bound of ['whole', 'key'] as const) {
        const most = mostOf(rate, bound);
        if (most === null) continue;
        let others = 0;
        for (const start of this.#starts) {
          const isBefore = start.of.partition === partition && start.of.order <= last.of.order;
          if (start === last || !isBefore || start.atMs <= newest.atMs - rate.perMs) continue;
          others += this.#counted(start, last.of, limit, bound);
        }
        const own = this.#amountOf(limit, rate, last);
        // A job with more units than the whole rate allows since a deployment starts alone.
        if (others > 0 && others + own > most)
          this.#violated(
            `${limit.limit} of ${bound === 'key' ? keyOf(last.job, limit.keyedBy) : 'all'} in partition ${partition} saw ${others + own} of ${most} within a window, with ${newest.job.id}, under version ${declared}`,
          );
      }
    }
  }

  /** Where nothing has been declared since the start, all partitions together have the whole rate. */
  #requireWhole(newest: Start): void {
    const configuration = this.#versions.under(newest.of.declared);
    for (const limit of configuration.limits ?? []) {
      const { rate, keyedBy } = limit;
      if (rate === undefined || !isUnder(configuration, newest.job.type, limit)) continue;
      for (const bound of ['whole', 'key'] as const) {
        const counted = this.#starts.filter(
          ({ job, atMs }) =>
            atMs > newest.atMs - rate.perMs &&
            isUnder(configuration, job.type, limit) &&
            (bound === 'whole' || keyOf(job, keyedBy) === keyOf(newest.job, keyedBy)),
        );
        const sum = counted.reduce((total, start) => total + this.#amountOf(limit, rate, start), 0);
        const most = mostOf(rate, bound) ?? Infinity;
        if (sum > most)
          this.#violated(`${limit.limit} saw ${sum} of ${most} within a window, with ${newest.job.id}`);
      }
    }
  }

  /** What a start counts for one that was reserved later, or beside it, under this limit. */
  #counted(start: Start, last: ReservedStart, limit: LimitConfiguration, bound: Bound): number {
    const { rate, keyedBy } = limit;
    const { atMs, of } = start;
    const { entry, settled, declared: first } = of;
    if (rate === undefined) return 0;
    if (bound === 'key' && keyOf(entry, keyedBy) !== keyOf(last.entry, keyedBy)) return 0;
    const counts = (configuration: PoolConfiguration): boolean =>
      entry.limits?.includes(limit.limit) === true || isUnder(configuration, entry.type, limit);
    if (settled === undefined || settled.order > last.order)
      return counts(this.#versions.under(last.declared)) ? this.#amountOf(limit, rate, start) : 0;
    let least = Infinity;
    const to = Math.min(settled.to, last.declared);
    for (let version = Math.max(first, settled.from); version <= to; version += 1) {
      const configuration = this.#versions.under(version);
      const declared = configuration.limits?.find((each) => each.limit === limit.limit);
      const its = declared?.rate;
      const isBound =
        its !== undefined &&
        mostOf(its, bound) !== null &&
        counts(configuration) &&
        (bound === 'whole' || declared?.keyedBy === keyedBy);
      if (!isBound || last.reservedAtMs >= atMs + its.perMs) return 0;
      least = Math.min(least, this.#amountOf(limit, its, start));
    }
    return least;
  }

  /** What a start counts in a rate. It keeps what it named, or had to have, when it was reserved, if that was counted then. */
  #amountOf({ limit }: LimitConfiguration, { perJob }: RateConfiguration, { job, of }: Start): number {
    if (perJob === undefined) return 1;
    const configuration = this.#versions.under(of.declared);
    const reserved = configuration.limits?.find((each) => each.limit === limit);
    const isCounted = reserved !== undefined && isUnder(configuration, job.type, reserved);
    const perJobThen = isCounted ? reserved.rate?.perJob : undefined;
    return perJobThen === undefined ? perJob : (job.units?.[limit] ?? perJobThen);
  }
}

const isUnder = ({ types }: PoolConfiguration, name: string, { limit }: LimitConfiguration): boolean =>
  types.find(({ type }) => type === name)?.limits?.includes(limit) === true;
