/**
 * The declaration as a process knows it: read when it starts, and again when it meets a newer version.
 *
 * A process meets one where it reads anyway: a dispatcher with a partition, a worker in the claim of a job that
 * it starts, a submitter in a type that it does not know. Besides, a process looks at the version each minute that it
 * is used: one small read.
 */

import type { JobTypeConfiguration, PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import { MisconfiguredError } from '../core/errors.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import type { DeclarationRecord } from '../store/contract/records.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { placeOf } from '../submit/submit.ts';
import { type DeclaredPool, unpackDeclaration } from './codec.ts';

/** How long a process that is used believes what it has read. */
export const DECLARATION_AGE_MS = 60_000;
/** How soon it looks again because of something that it does not know. */
export const DECLARATION_AGAIN_MS = 1_000;

/** Versions that a process remembers: those under which what runs was claimed. */
const CACHED_MAX = 20;

/** What is declared, under which version. */
export interface Declared extends DeclaredPool {
  readonly version: number;
  readonly declaredAtMs: number;
}

export interface DeclarationsOptions {
  readonly store: Pick<SubmitStore, 'readDeclaredVersion' | 'readDeclaration'>;
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly log?: Pick<Log, 'warn'> | undefined;
}

const typeIn = (configuration: PoolConfiguration, type: string): JobTypeConfiguration | undefined =>
  typesByName(configuration).get(type);

/** What one process knows of the declarations. */
export class Declarations {
  readonly #store: DeclarationsOptions['store'];
  readonly #clock: DeclarationsOptions['clock'];
  readonly #log: DeclarationsOptions['log'];
  /** The newest that was read. */
  #known: Declared | undefined;
  #lookedAtMonotonicMs = -Infinity;
  readonly #versions = new Map<number, Declared>();

  constructor({ store, clock, log }: DeclarationsOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * What was read last, without a look.
   * @throws MisconfiguredError before anything was read
   */
  get known(): Declared {
    if (this.#known !== undefined) return this.#known;
    throw new MisconfiguredError('the declaration was not read yet: read it before anything else');
  }

  /**
   * What is declared, as it was no longer ago than this. Where it cannot be looked at, what is known goes on.
   * @throws MisconfiguredError, ConfigurationError, and the store's errors while nothing is known
   */
  async current(maxAgeMs = DECLARATION_AGE_MS): Promise<Declared> {
    const askedAtMonotonicMs = this.#clock.monotonicMs();
    const known = this.#known;
    if (known === undefined) return this.#readNewest(askedAtMonotonicMs);
    if (askedAtMonotonicMs - this.#lookedAtMonotonicMs < maxAgeMs) return known;
    try {
      const version = await this.#store.readDeclaredVersion();
      this.#lookedAtMonotonicMs = askedAtMonotonicMs;
      return version > known.version ? await this.#readNewest(askedAtMonotonicMs) : this.known;
    } catch (error) {
      this.#log?.warn('the declaration could not be looked at; what was declared before goes on', {
        version: known.version,
        error: String(error),
      });
      return known;
    }
  }

  /** What is declared, by this version or a newer one: a process has met it, so it is there. */
  async atLeast(version: number): Promise<Declared> {
    const known = this.#known;
    return known !== undefined && known.version >= version
      ? known
      : this.#readNewest(this.#clock.monotonicMs());
  }

  /** What a type was declared to be under a version; undefined: that version had no such type, or is not there. */
  async typeUnder(version: number, type: string): Promise<JobTypeConfiguration | undefined> {
    const known = this.#versions.get(version);
    if (known !== undefined) return typeIn(known.configuration, type);
    const record = await this.#store.readDeclaration(version);
    return record === undefined ? undefined : typeIn(this.#remember(record).configuration, type);
  }

  /** Where jobs wait, for a store: as the newest known declaration says. */
  readonly place = (job: JobHead): ReturnType<ReturnType<typeof placeOf>> =>
    placeOf(this.known.configuration)(job);

  async #readNewest(askedAtMonotonicMs: number): Promise<Declared> {
    const record = await this.#store.readDeclaration();
    if (record === undefined) {
      throw new MisconfiguredError(
        'nothing is declared in the table: deploy the stack with the Scheduler construct, which declares what it deploys',
      );
    }
    this.#lookedAtMonotonicMs = Math.max(this.#lookedAtMonotonicMs, askedAtMonotonicMs);
    return this.#remember(record);
  }

  #remember({ version, text, declaredAtMs }: DeclarationRecord): Declared {
    const declared = { ...unpackDeclaration(text), version, declaredAtMs };
    if (this.#versions.size >= CACHED_MAX) this.#versions.clear();
    this.#versions.set(version, declared);
    // Two reads may be answered in either order.
    if (this.#known === undefined || this.#known.version < version) this.#known = declared;
    return declared;
  }
}

/** Under which declaration a dispatcher plans, and how it comes to a newer one. */
export interface Deployed {
  readonly version: number;
  /** Types that were declared once: jobs of theirs may wait still. */
  readonly formerTypes: readonly string[];
  /** As many partitions as there ever were. */
  readonly partitionsEver: number;
  /** See `DeclaredPool`. */
  readonly partitionNumbers: readonly number[];
  /** See `DeclaredPool`. */
  readonly sharedSince: number;
  /** What a type was declared to be under a version: what runs keeps the terms that it was claimed under. */
  readonly typeUnder: (version: number, type: string) => Promise<JobTypeConfiguration | undefined>;
  /** What takes the place of a context's parts from this version on, or from a newer one. */
  readonly newer: (version: number) => Promise<DeployedParts>;
}

/** What follows from a declaration. */
export interface DeployedParts {
  readonly configuration: PoolConfiguration;
  readonly queue: JobQueue;
  readonly deployed: Deployed;
}

/** The parts that follow from a declaration, for dispatchers. */
export function deployedParts(
  declarations: Declarations,
  declared: Declared,
  queueOf: (queueUrls: Readonly<Record<string, string>>) => JobQueue,
): DeployedParts {
  const { version, configuration, queueUrls, formerTypes, partitionsEver } = declared;
  const { partitionNumbers, sharedSince } = declared;
  return {
    configuration,
    queue: queueOf(queueUrls),
    deployed: {
      version,
      formerTypes,
      partitionsEver,
      partitionNumbers,
      sharedSince,
      typeUnder: (under, type) => declarations.typeUnder(under, type),
      newer: async (atLeast) => deployedParts(declarations, await declarations.atLeast(atLeast), queueOf),
    },
  };
}
