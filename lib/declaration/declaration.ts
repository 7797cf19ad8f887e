/**
 * The declaration as a process knows it. A process reads it at start, and again when it sees a newer version.
 *
 * It sees newer versions in what it reads anyway: a dispatcher in its partition's items, a worker in the claim of a job
 * that it starts, a submitter by a type that it does not know. In addition, a process in use reads the current version
 * number once a minute, which is one small read.
 */

import type { JobTypeConfiguration, PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import { MisconfiguredError } from '../core/errors.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import type { DeclarationRecord } from '../store/contract/records.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { rankOf } from '../submit/submit.ts';
import { type DeclaredPool, unpackDeclaration } from './codec.ts';

/** Milliseconds for which a process uses the declaration before it checks for a newer version. */
export const DECLARATION_AGE_MS = 60_000;
/** Milliseconds between two checks for a newer version that an unknown type causes. */
export const DECLARATION_AGAIN_MS = 1_000;

/** How many versions a process caches. Running jobs may have been claimed under older ones. */
const CACHED_VERSIONS_MAX = 20;

/** One version of the declaration. */
export interface VersionedDeclaration extends DeclaredPool {
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

/** The declarations that one process has read. */
export class Declarations {
  readonly #store: DeclarationsOptions['store'];
  readonly #clock: DeclarationsOptions['clock'];
  readonly #log: DeclarationsOptions['log'];
  /** The newest declaration that was read. */
  #known: VersionedDeclaration | undefined;
  #checkedAtMonotonicMs = -Infinity;
  readonly #versions = new Map<number, VersionedDeclaration>();

  constructor({ store, clock, log }: DeclarationsOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Returns the newest declaration that this process has read. Makes no request.
   * @throws MisconfiguredError if none was read yet
   */
  get known(): VersionedDeclaration {
    if (this.#known !== undefined) return this.#known;
    throw new MisconfiguredError('the declaration was not read yet: read it before anything else');
  }

  /**
   * Returns the declaration, checked for a newer version at most `maxAgeMs` ago. If the check fails, returns the known
   * one.
   * @throws MisconfiguredError, ConfigurationError, and the store's errors while nothing is known
   */
  async current(maxAgeMs = DECLARATION_AGE_MS): Promise<VersionedDeclaration> {
    const askedAtMonotonicMs = this.#clock.monotonicMs();
    const known = this.#known;
    if (known === undefined) return this.#readNewest(askedAtMonotonicMs);
    if (askedAtMonotonicMs - this.#checkedAtMonotonicMs < maxAgeMs) return known;
    try {
      const version = await this.#store.readDeclaredVersion();
      this.#checkedAtMonotonicMs = askedAtMonotonicMs;
      return version > known.version ? await this.#readNewest(askedAtMonotonicMs) : this.known;
    } catch (error) {
      this.#log?.warn('could not check for a newer declaration; the known one stays in use', {
        version: known.version,
        error: String(error),
      });
      return known;
    }
  }

  /**
   * The name of the declared bucket; undefined if there is none.
   * @param again - checks for a newer declaration first, because it may name one
   */
  readonly bucket = async (again: boolean): Promise<string | undefined> =>
    (await this.current(again ? DECLARATION_AGAIN_MS : undefined)).bucket;

  /**
   * Returns the declaration at this version or a newer one. The version must exist: the caller has met it in an item or a message.
   */
  async atLeast(version: number): Promise<VersionedDeclaration> {
    const known = this.#known;
    return known !== undefined && known.version >= version
      ? known
      : this.#readNewest(this.#clock.monotonicMs());
  }

  /**
   * Returns the configuration of a type under a version; undefined if that version lacks the type or is not in the
   * table.
   */
  async typeUnder(version: number, type: string): Promise<JobTypeConfiguration | undefined> {
    const known = this.#versions.get(version);
    if (known !== undefined) return typeIn(known.configuration, type);
    const record = await this.#store.readDeclaration(version);
    return record === undefined ? undefined : typeIn(this.#remember(record).configuration, type);
  }

  /** Gives the store a pending job's rank under the newest known declaration. */
  readonly place = (job: JobHead): ReturnType<ReturnType<typeof rankOf>> =>
    rankOf(this.known.configuration)(job);

  async #readNewest(askedAtMonotonicMs: number): Promise<VersionedDeclaration> {
    const record = await this.#store.readDeclaration();
    if (record === undefined) {
      throw new MisconfiguredError(
        'nothing is declared in the table: deploy the stack with the Scheduler construct, which declares what it deploys',
      );
    }
    this.#checkedAtMonotonicMs = Math.max(this.#checkedAtMonotonicMs, askedAtMonotonicMs);
    return this.#remember(record);
  }

  #remember({ version, text, declaredAtMs }: DeclarationRecord): VersionedDeclaration {
    const declared = { ...unpackDeclaration(text), version, declaredAtMs };
    if (this.#versions.size >= CACHED_VERSIONS_MAX) this.#versions.clear();
    this.#versions.set(version, declared);
    // Two concurrent reads may return in either order.
    if (this.#known === undefined || this.#known.version < version) this.#known = declared;
    return declared;
  }
}

/** The declaration that a dispatcher plans under, and how it gets a newer one. */
export interface DeclarationState {
  readonly version: number;
  /** Types that were declared before and are not any more. Jobs of these types may still wait. */
  readonly formerTypes: readonly string[];
  /** The largest number of partitions ever declared. */
  readonly partitionsEver: number;
  /** See `DeclaredPool`. */
  readonly partitionNumbers: readonly number[];
  /** See `DeclaredPool`. */
  readonly sharedSince: number;
  /**
   * Returns the configuration of a type under a version. A running job keeps the settings that it was claimed under.
   */
  readonly typeUnder: (version: number, type: string) => Promise<JobTypeConfiguration | undefined>;
  /** Returns the context's parts under this version or a newer one. */
  readonly newer: (version: number) => Promise<DeployedParts>;
}

/** The parts of a dispatcher's context that depend on the declaration. */
export interface DeployedParts {
  readonly configuration: PoolConfiguration;
  readonly queue: JobQueue;
  readonly deployed: DeclarationState;
}

/** Builds the parts of a dispatcher's context that depend on the declaration. */
export function declaredParts(
  declarations: Declarations,
  declared: VersionedDeclaration,
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
      newer: async (atLeast) => declaredParts(declarations, await declarations.atLeast(atLeast), queueOf),
    },
  };
}
