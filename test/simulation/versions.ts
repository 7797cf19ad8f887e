/** Every declaration of a run, as an observer knows them who sees each in the moment in which it is made. */
import type { JobTypeConfiguration, PoolConfiguration } from '../../lib/core/configuration.ts';
import { conflictKeyFor } from '../../lib/core/conflict.ts';
import type { Job } from '../../lib/core/job.ts';

interface Version {
  readonly configuration: PoolConfiguration;
  readonly atMs: number;
}

export class Versions {
  /** What holds while nothing is declared. */
  readonly #undeclared: PoolConfiguration;
  /** From version 1. */
  readonly #declared: Version[] = [];

  constructor(undeclared: PoolConfiguration) {
    this.#undeclared = undeclared;
  }

  add(configuration: PoolConfiguration, atMs: number): void {
    this.#declared.push({ configuration, atMs });
  }

  /** 0: nothing is declared. */
  get newest(): number {
    return this.#declared.length;
  }

  get configuration(): PoolConfiguration {
    return this.under(this.newest);
  }

  /** When the newest was declared; 0: nothing was. */
  get atMs(): number {
    return this.#declared.at(-1)?.atMs ?? 0;
  }

  under(version: number | undefined): PoolConfiguration {
    return this.#declared[(version ?? 0) - 1]?.configuration ?? this.#undeclared;
  }

  /** A version and all that came after it. */
  since(version: number | undefined): readonly PoolConfiguration[] {
    if (this.newest === 0) return [this.#undeclared];
    return this.#declared.slice(Math.max(0, (version ?? 1) - 1)).map((each) => each.configuration);
  }

  /** When a version was the newest no more; undefined: it still is. */
  supersededAtMs(version: number): number | undefined {
    return this.#declared[version]?.atMs;
  }

  typeUnder(version: number | undefined, name: string): JobTypeConfiguration | undefined {
    return this.under(version).types.find(({ type }) => type === name);
  }

  /** As many partitions as there ever were, up to a version. */
  partitionsEver(version: number): number {
    const declared = this.#declared.slice(0, version).map(({ configuration }) => configuration.partitions);
    return Math.max(this.#undeclared.partitions, ...declared);
  }

  isDeclared(type: string): boolean {
    return this.typeUnder(this.newest, type) !== undefined;
  }

  /** Since when a type is declared, and counts such units, without a gap; undefined: it does not. */
  acceptedSinceMs({
    type: name,
    units = {},
  }: {
    readonly type: string;
    readonly units?: Readonly<Record<string, number>> | undefined;
  }): number | undefined {
    let sinceMs: number | undefined;
    for (const { configuration, atMs } of this.#declared.toReversed()) {
      const type = configuration.types.find((each) => each.type === name);
      const mostIn = (limit: string): number =>
        (type?.limits?.includes(limit) === true
          ? configuration.limits?.find((each) => each.limit === limit)?.rate?.perJob
          : undefined) ?? 0;
      if (type === undefined || Object.entries(units).some(([limit, count]) => count > mostIn(limit))) break;
      sinceMs = atMs;
    }
    return sinceMs;
  }

  /** The conflict key of a job as a version has it: of its group, or of its resource, where its type limits that one's jobs. */
  conflictKey(
    version: number | undefined,
    { type, resourceId }: Pick<Job, 'type' | 'resourceId'>,
  ): string | undefined {
    return conflictKeyFor(this.typeUnder(version, type), resourceId);
  }

  /**
   * Whether two jobs in flight exclude each other, in whatever partitions: both by the keys that they were claimed with, and the
   * one that was claimed under the later version also by what the other one's type has become by then.
   */
  exclude(one: Job, other: Job): string | undefined {
    if (one.resourceId === undefined || one.resourceId !== other.resourceId) return undefined;
    const [mine, its] = [one.claim?.declared ?? this.newest, other.claim?.declared ?? this.newest];
    const own = this.#group(mine, one);
    if (own !== undefined && own === this.#group(its, other)) return own;
    if (mine === its) return undefined;
    const [later, former, version] = mine > its ? [one, other, mine] : [other, one, its];
    const key = this.#group(version, later);
    return key !== undefined && key === this.#group(version, former) ? key : undefined;
  }

  #group(version: number | undefined, { type }: Pick<Job, 'type'>): string | undefined {
    return this.typeUnder(version, type)?.conflictGroup ?? undefined;
  }
}
