/** The declaration of a scheduler in one process: what the construct takes, without what only AWS has. */
import type { PoolConfiguration } from '../core/configuration.ts';
import { resolveConfiguration } from '../core/defaults.ts';
import { ConfigurationError } from '../core/errors.ts';
import type { FleetInput, JobTypeInput, PoolInput } from '../core/pool-input.ts';
import { readName, readRecord } from '../core/read-fields.ts';
import {
  checkSlots,
  checkTypesOfFleet,
  checkUnitsOf,
  FUNCTION_SLOTS,
  payloadSchemasOf,
  typesOfJobs,
} from '../declaration/types-of-jobs.ts';
import { checkDeclaredSchedules, type DeclaredSchedules } from '../deploy/declared-schedules.ts';
import type { Jobs, TypeOf } from '../jobs/jobs.ts';
import type { ScheduleRequest } from '../schedules/request.ts';

/**
 * The declaration as the construct takes it: types, tiers, fleets, limits and schedules. A fleet runs 10 jobs at once unless
 * it says otherwise; one with `slots: null` is served by worker processes.
 */
export interface LocalDeclaration<Declared extends Jobs = Jobs> extends Omit<PoolInput, 'types'> {
  /** Settings of job types by name. @default - each type has the default settings */
  readonly types?: { readonly [Type in TypeOf<Declared>]?: JobTypeInput } | undefined;
  /** Schedules by name. @default - none */
  readonly schedules?:
    | { readonly [name: string]: ScheduleRequest & { readonly type: TypeOf<Declared> } }
    | undefined;
}

export interface DeclaredLocally {
  readonly configuration: PoolConfiguration;
  readonly schedules: DeclaredSchedules;
  /** Text of `encodePayloadSchemas`. */
  readonly payloadSchemas: string | undefined;
}

/**
 * Returns the pool as it would be deployed. It throws the errors that the construct would throw.
 *
 * @param jobs - undefined: the declaration's own types
 * @throws ConfigurationError
 */
export function declaredLocally(
  jobs: Jobs | undefined,
  { schedules = {}, ...declaration }: LocalDeclaration,
): DeclaredLocally {
  const types =
    jobs === undefined
      ? (declaration.types as Readonly<Record<string, JobTypeInput>> | undefined)
      : typesOfJobs(jobs, declaration.types);
  const fleets = Object.fromEntries(
    readRecord('fleets', declaration.fleets ?? {}, Number.POSITIVE_INFINITY).map(([fleet, given]) => {
      readName(`fleets.${fleet}`, fleet);
      return [fleet, fleetOf(fleet, given, types)];
    }),
  );
  const served = new Set(
    Object.values(fleets).flatMap(({ types: ofFleet }) => (Array.isArray(ofFleet) ? ofFleet : [])),
  );
  // As with the construct, a type without a fleet gets one of its own.
  for (const type of Object.keys(types ?? {}))
    if (!served.has(type) && !Object.hasOwn(fleets, type))
      fleets[type] = { types: [type], slots: FUNCTION_SLOTS };
  const configuration = resolveConfiguration({
    ...declaration,
    types,
    fleets,
  });
  checkUnitsOf(jobs, configuration);
  checkDeclaredSchedules(schedules, configuration);
  return { configuration, schedules, payloadSchemas: payloadSchemasOf(jobs) };
}

function fleetOf(fleet: string, given: unknown, types: LocalDeclaration['types']): FleetInput {
  if (typeof given !== 'object' || given === null)
    throw new ConfigurationError(
      `fleets.${fleet}`,
      given,
      'must be an object',
      "Write { types: ['render'] }.",
    );
  const { slots = FUNCTION_SLOTS, ...rest } = given as FleetInput;
  checkSlots(fleet, slots);
  checkTypesOfFleet(fleet, rest, Object.keys(types ?? {}));
  return { ...rest, slots };
}
