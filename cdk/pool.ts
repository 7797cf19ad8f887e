/**
 * The declaration of an app so far, because types and fleets may be added after the construct. A refused addition changes
 * nothing.
 */

import type { ResourceEnvironment } from 'aws-cdk-lib';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import { DEFAULT_TIER, resolveConfiguration } from '../lib/core/defaults.ts';
import { ConfigurationError, show } from '../lib/core/errors.ts';
import type { JobTypeInput, PoolInput } from '../lib/core/pool-input.ts';
import { readName, readRecord } from '../lib/core/read-fields.ts';
import { encodeConfiguration } from '../lib/declaration/codec.ts';
import { checkTypesOfFleet, checkUnitsOf, payloadSchemasOf } from '../lib/declaration/types-of-jobs.ts';
import { checkFleet, type FleetProps } from './fleet.ts';
import type { SchedulerProps } from './props.ts';
import { refuseTokens } from './tokens.ts';
import {
  checkDeclaration,
  checkTimeouts,
  claimHandlers,
  type FleetInputs,
  type Handlers,
  handlersOf,
  poolInput,
} from './validation.ts';

/** The type, and the fleet, of a scheduler that declares none. */
const DEFAULT_TYPE = DEFAULT_TIER;

interface Declared {
  readonly types: Readonly<Record<string, JobTypeInput>>;
  readonly fleets: FleetInputs;
  /** Whether types were declared by name, so that fleets may name only these. */
  readonly isStrict: boolean;
}

interface Resolved {
  readonly configuration: PoolConfiguration;
  readonly handlers: Handlers;
  /** The encoded configuration. Packing a large pool takes seconds, so it is done once, for the final declaration. */
  encoded?: string;
}

export class PoolDeclaration {
  readonly #place: ResourceEnvironment;
  /** The encoded JSON Schemas of payloads; undefined if there are none. */
  readonly payloadSchemas: string | undefined;
  readonly #rest: Omit<PoolInput, 'types' | 'fleets'>;
  #declared: Declared;
  #resolved: Resolved;

  /**
   * @param place - the scheduler's account and Region
   * @param jobs - the declared jobs, of which `input` has the types
   * @throws ConfigurationError for a declaration that cannot work
   */
  constructor(
    input: Omit<PoolInput, 'fleets'>,
    fleets: FleetInputs,
    place: ResourceEnvironment,
    jobs: SchedulerProps['jobs'],
  ) {
    const { types, ...rest } = input;
    this.payloadSchemas = payloadSchemasOf(jobs);
    this.#place = place;
    checkFleets(fleets);
    this.#rest = rest;
    this.#declared = { types: types ?? {}, fleets, isStrict: types !== undefined };
    const names = namesOf(this.#declared);
    for (const [fleet, props] of Object.entries(fleets)) checkTypesOfFleet(fleet, props, names);
    this.#resolved = this.#resolve(this.#declared);
    checkUnitsOf(jobs, this.configuration);
    this.encode();
    claimHandlers(this.handlers, this);
  }

  /** The configuration declared so far, with all defaults. */
  get configuration(): PoolConfiguration {
    return this.#resolved.configuration;
  }

  /** Returns the encoded declaration of a deployment. @throws ConfigurationError if it is too large */
  encode(): string {
    const { configuration, encoded = encodeConfiguration(configuration) } = this.#resolved;
    this.#resolved.encoded = encoded;
    checkDeclaration(configuration, encoded, { payloadSchemas: this.payloadSchemas });
    return encoded;
  }

  get handlers(): Handlers {
    return this.#resolved.handlers;
  }

  fleet(name: string): FleetProps | undefined {
    return Object.hasOwn(this.#declared.fleets, name) ? this.#declared.fleets[name] : undefined;
  }

  /** Whether the type was declared with a timeout of its own. */
  hasTimeout(type: string): boolean {
    const { types } = this.#declared;
    return Object.hasOwn(types, type) && types[type]?.timeoutMs !== undefined;
  }

  /** @throws ConfigurationError */
  addType(type: string, input: JobTypeInput): void {
    const { types } = this.#declared;
    readName(`types.${type}`, type);
    if (Object.hasOwn(types, type)) throw declaredTwice(`types.${type}`, type);
    this.#change({
      ...this.#declared,
      types: { ...types, ...this.#impliedTypes(), [type]: input },
      isStrict: true,
    });
  }

  /** @throws ConfigurationError */
  addFleet(fleet: string, props: FleetProps): void {
    const { fleets } = this.#declared;
    readName(`fleets.${fleet}`, fleet);
    if (Object.hasOwn(fleets, fleet)) throw declaredTwice(`fleets.${fleet}`, fleet);
    checkFleets({ [fleet]: props });
    checkTypesOfFleet(fleet, props, namesOf(this.#declared));
    this.#change({ ...this.#declared, fleets: { ...fleets, [fleet]: props } });
  }

  /** Returns the types that only fleets name. They count as declared as soon as other types are declared by name. */
  #impliedTypes(): Readonly<Record<string, JobTypeInput>> {
    const { types, fleets } = this.#declared;
    const named = Object.values(fleets).flatMap((props) => props.types);
    return Object.fromEntries(named.filter((type) => !Object.hasOwn(types, type)).map((type) => [type, {}]));
  }

  #change(declared: Declared): void {
    this.#resolved = this.#resolve(declared);
    this.#declared = declared;
    claimHandlers(this.handlers, this);
  }

  #resolve({ types, fleets }: Declared): Resolved {
    refuseTokens('', { ...this.#rest, types });
    const isEmpty = Object.keys(types).length === 0 && Object.keys(fleets).length === 0;
    const handlers = handlersOf(fleets);
    const input = poolInput(
      { ...this.#rest, types: isEmpty ? { [DEFAULT_TYPE]: {} } : types },
      fleets,
      handlers,
      this,
      this.#place,
    );
    const configuration = resolveConfiguration(input);
    checkIds(configuration.fleets.map(({ fleet }) => fleet));
    checkTimeouts(configuration, handlers);
    return { configuration, handlers };
  }
}

/**
 * Checks the fleets.
 * @throws ConfigurationError for a value that is not a record of fleets, and for an impossible fleet
 */
function checkFleets(fleets: unknown): void {
  for (const [fleet, props] of readRecord('fleets', fleets, Number.POSITIVE_INFINITY))
    checkFleet(`fleets.${fleet}`, props ?? null);
}

/**
 * Checks that the fleets' names can be construct ids.
 * @throws ConfigurationError for fleets whose names cannot be construct ids, in which a slash becomes two dashes
 */
function checkIds(fleets: readonly string[]): void {
  const ids = new Map<string, string>();
  for (const fleet of fleets) {
    const id = fleet.replaceAll('/', '--');
    const other = ids.get(id);
    ids.set(id, fleet);
    if (other === undefined && !(id in {})) continue;
    const reason =
      other === undefined
        ? 'is a property of every JavaScript object, so a construct cannot have it as its id'
        : `has the same construct id as fleet ${show(other)}`;
    throw new ConfigurationError(`fleets.${fleet}`, fleet, reason, 'Choose another name for the fleet.');
  }
}

/** Returns the types that fleets may name. An empty list allows every type. */
const namesOf = ({ types, isStrict }: Declared): readonly string[] => (isStrict ? Object.keys(types) : []);

const declaredTwice = (field: string, name: string): ConfigurationError =>
  new ConfigurationError(field, name, 'is already declared', 'Declare it once, or choose another name.');
