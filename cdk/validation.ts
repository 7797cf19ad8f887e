/**
 * Checks that need the stack: a declaration against its functions and the limits of AWS. `resolveConfiguration` checks
 * the pool itself before.
 */

import { type Duration, type ResourceEnvironment, Token } from 'aws-cdk-lib';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import type { DurationInput } from '../lib/core/duration.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import type { FleetInput, JobTypeInput, PoolInput } from '../lib/core/pool-input.ts';
import { checkSlots, FUNCTION_SLOTS } from '../lib/declaration/types-of-jobs.ts';
import { EVENT_SOURCE_MIN_CONCURRENCY, type FleetProps } from './fleet.ts';
import { type Handler, handlerOf } from './handlers.ts';
import type { SchedulerProps } from './props.ts';
import { refuseTokens } from './tokens.ts';
import { toDuration } from './values.ts';

/** The largest maximum concurrency of an SQS event source. */
const EVENT_SOURCE_MAX_CONCURRENCY = 1_000;

/** The part of a function's timeout that is reserved for recording a job's timeout: a tenth, 1 to 30 seconds. */
const MARGIN = { share: 0.1, minMs: 1_000, maxMs: 30_000 } as const;

/**
 * The largest declaration, in bytes. CloudFormation sends a resource's old and new properties in one event of 256 KB. A
 * declaration of more than half of that could be deployed once and never changed. (Lambda accepts 1 MB now, but no
 * documentation says that CloudFormation sends as much.)
 */
const PROPERTIES_MAX_BYTES = 120_000;
/**
 * The bytes of `https://sqs.<region>.amazonaws.com/<account>/<name>`, with a generated name of up to 80 characters, and
 * its delimiters.
 */
const QUEUE_URL_BYTES = 150;

/** The handlers of all fleets that have one, by fleet. */
export type Handlers = ReadonlyMap<string, Handler>;

export type FleetInputs = Readonly<Record<string, FleetProps>>;

/**
 * Returns the handlers of these fleets.
 * @throws ConfigurationError for a handler that cannot run jobs
 */
export function handlersOf(fleets: FleetInputs): Handlers {
  return new Map(
    Object.entries(fleets).flatMap(([fleet, props]) => {
      const handler = handlerOf(fleet, props);
      return handler === undefined ? [] : [[fleet, handler] as const];
    }),
  );
}

/**
 * Returns the input of `resolveConfiguration`. A fleet with a handler gets its slots. A type without a timeout gets the
 * longest that the functions of all its fleets can keep.
 * @param scheduler - identifies the scheduler that declares the pool
 * @param place - its account and Region
 * @throws ConfigurationError for a fleet that its handler cannot serve
 */
export function poolInput(
  declaration: Omit<PoolInput, 'fleets'>,
  fleets: FleetInputs,
  handlers: Handlers,
  scheduler: object,
  place: ResourceEnvironment,
): PoolInput {
  const keptMs = new Map<string, number>();
  const inputs: [string, FleetInput][] = Object.entries(fleets).map(([fleet, props]) => {
    // Unknown fields stay in the input, and are refused later.
    const { handler, handlerTimeout, visibilityTimeout, ...served } = props;
    const { batchSize, maxConcurrency, provisionedPollers, ...input } = served;
    refuseTokens('fleets', { [fleet]: { types: props.types, slots: props.slots, batchSize } });
    checkSlots(fleet, props.slots);
    const found = handlers.get(fleet);
    if (found === undefined) {
      refuseWithoutHandler(fleet, { batchSize, maxConcurrency, provisionedPollers });
      return [fleet, input];
    }
    for (const type of Array.isArray(props.types) ? props.types : []) {
      keptMs.set(type, Math.min(keptMs.get(type) ?? Number.POSITIVE_INFINITY, keptTimeMs(found.timeout)));
    }
    checkVisibility(fleet, visibilityTimeout, found.timeout);
    checkHandlerPlace(fleet, found, place);
    checkHandlerAlone(fleet, found, handlers, scheduler);
    checkPollers(fleet, provisionedPollers);
    checkConcurrency(fleet, maxConcurrency, provisionedPollers);
    return [fleet, { ...input, batchSize, slots: readSlots(fleet, props) }];
  });
  const types: Record<string, JobTypeInput> = { ...declaration.types };
  for (const [type, timeoutMs] of keptMs) types[type] = { timeoutMs, ...dropUndefined(types[type] ?? {}) };
  return { ...declaration, types, fleets: Object.fromEntries(inputs) };
}

/**
 * Checks the timeouts of types.
 * @throws ConfigurationError for a type whose timeout is not below that of a function of its fleets
 */
export function checkTimeouts(pool: PoolConfiguration, handlers: Handlers): void {
  for (const { fleet, types } of pool.fleets) {
    const handler = handlers.get(fleet);
    if (handler === undefined) continue;
    const functionTimeoutMs = handler.timeout.toMilliseconds();
    for (const { type, timeoutMs } of pool.types) {
      if (!types.includes(type) || timeoutMs < functionTimeoutMs) continue;
      throw new ConfigurationError(
        `types.${type}.timeoutMs`,
        timeoutMs,
        `must be below the timeout of the function of fleet ${fleet} (${functionTimeoutMs} ms)`,
        "Lower it, or raise the function's timeout: a job that is cut off cannot record its error.",
      );
    }
  }
}

/** The queues whose messages must not be lost, and their dead-letter queues. */
const OWN_QUEUES = 4;

/** Texts that a deployment sends beside the pool. */
interface DeclaredBeside {
  readonly schedules?: string;
  readonly payloadSchemas?: string | undefined;
}

/**
 * Checks the size of the declaration.
 * @throws ConfigurationError if the declaration, with addresses that are known only at deployment, may be too large for
 * a CloudFormation event
 */
export function checkDeclaration(
  pool: PoolConfiguration,
  encodedPool: string,
  { schedules: encodedSchedules = '', payloadSchemas = '' }: DeclaredBeside,
): void {
  const names = pool.fleets.reduce((bytes, { fleet }) => bytes + Buffer.byteLength(JSON.stringify(fleet)), 0);
  const queues = names + (pool.fleets.length + OWN_QUEUES) * QUEUE_URL_BYTES;
  // The schedules are sent as a text within a text.
  const schedules = Buffer.byteLength(JSON.stringify(encodedSchedules));
  const bytes = encodedPool.length + queues + schedules + payloadSchemas.length;
  if (bytes <= PROPERTIES_MAX_BYTES) return;
  throw new ConfigurationError(
    '',
    bytes,
    `is too large for a deployment, which can send at most ${PROPERTIES_MAX_BYTES} bytes: types and weights take ${encodedPool.length}, ` +
      `${pool.fleets.length} fleets with their queues ${queues}, schedules ${schedules}, payload schemas ${payloadSchemas.length}`,
    'Set weights with operator controls, let versatile fleets take several types each, or split the work into several schedulers.',
  );
}

function readSlots(fleet: string, props: FleetProps): number {
  const slots = props.slots === undefined ? FUNCTION_SLOTS : props.slots;
  if (slots === null) {
    throw new ConfigurationError(
      `fleets.${fleet}.slots`,
      slots,
      'must be a number for a fleet with a handler: functions do not register slots',
      'Set it to the number of jobs that may run at once.',
    );
  }
  // A message names the jobs of one pass for the fleet, which may be a single one.
  const { batchSize = 1 } = props;
  // An invalid size is refused with the pool.
  const isSize = Number.isInteger(batchSize) && batchSize >= 1;
  const invocations = isSize ? Math.ceil(slots / batchSize) : 0;
  if (invocations > EVENT_SOURCE_MAX_CONCURRENCY) {
    throw new ConfigurationError(
      `fleets.${fleet}.slots`,
      slots,
      `may need ${invocations} invocations at once, and an event source has at most ${EVENT_SOURCE_MAX_CONCURRENCY}`,
      'Split the fleet, or raise batchSize if an invocation may run several jobs.',
    );
  }
  return slots;
}

function checkVisibility(fleet: string, given: DurationInput | undefined, timeout: Duration): void {
  const visibility = given === undefined ? undefined : toDuration(given);
  if (visibility === undefined || visibility.isUnresolved()) return;
  if (visibility.toMilliseconds() >= timeout.toMilliseconds()) return;
  throw new ConfigurationError(
    `fleets.${fleet}.visibilityTimeout`,
    visibility.toHumanString(),
    `must not be below the timeout of the fleet's function (${timeout.toHumanString()})`,
    'Leave it out: the default is 20 seconds more than that.',
  );
}

function refuseWithoutHandler(
  fleet: string,
  props: Pick<FleetProps, 'batchSize' | 'maxConcurrency' | 'provisionedPollers'>,
): void {
  const says = {
    batchSize: 'how many jobs one invocation runs',
    maxConcurrency: 'how many invocations run at once',
    provisionedPollers: 'how many pollers the handler has',
  };
  for (const field of ['batchSize', 'maxConcurrency', 'provisionedPollers'] as const) {
    if (props[field] === undefined) continue;
    throw new ConfigurationError(
      `fleets.${fleet}.${field}`,
      props[field],
      `says ${says[field]}, but the fleet has no handler`,
      `Add the handler, or leave ${field} out.`,
    );
  }
}

/** The scheduler of each function in this app. */
const schedulerOf = new WeakMap<IFunction, object>();

const whatRuns = ({ own, function: named }: Handler): IFunction => own ?? named;

/** Reserves these functions for this scheduler. */
export function claimHandlers(handlers: Handlers, scheduler: object): void {
  for (const handler of handlers.values()) schedulerOf.set(whatRuns(handler), scheduler);
}

/** Checks that a function serves one fleet of one scheduler, because its environment names only one of each. */
function checkHandlerAlone(fleet: string, handler: Handler, handlers: Handlers, scheduler: object): void {
  const runs = whatRuns(handler);
  const other = [...handlers].find(([name, each]) => name !== fleet && whatRuns(each) === runs);
  const isElsewhere = (schedulerOf.get(runs) ?? scheduler) !== scheduler;
  if (other === undefined && !isElsewhere) return;
  throw new ConfigurationError(
    `fleets.${fleet}.handler`,
    handler.function.node.path,
    `is also the handler of ${other === undefined ? 'another scheduler' : `fleet ${other[0]}`}, but a function can serve only one fleet`,
    'Deploy the code as a separate function for each fleet.',
  );
}

/**
 * Checks that a function is in the scheduler's account and Region: Lambda receives only from queues of its own Region,
 * and the rights on the table are those of one account.
 */
function checkHandlerPlace(fleet: string, { function: lambda }: Handler, place: ResourceEnvironment): void {
  checkPlace(`fleets.${fleet}.handler`, lambda.env, place, {
    why: 'could not receive its jobs',
    wayOut: (what) => `Deploy the function in the scheduler's ${what}, or a scheduler in the function's.`,
  });
}

/**
 * The given resources must be in the scheduler's account and Region: its functions look for their table there, rules are
 * created at their bus, and services use keys of their own Region.
 * @throws ConfigurationError for a resource that is known to be elsewhere
 */
export function checkPlaces(
  { table, eventBus, encryptionKey }: SchedulerProps,
  place: ResourceEnvironment,
): void {
  const arn = table?.existing?.tableArn;
  if (arn !== undefined && !Token.isUnresolved(arn)) {
    const [, , , region = '', account = ''] = arn.split(':');
    checkPlace('table.existing.tableArn', { region, account }, place, {
      value: arn,
      why: 'the scheduler’s functions would look for it in their own',
      wayOut: (what) =>
        `Deploy the scheduler in the table's ${what}, or restore the table in the scheduler's.`,
    });
  }
  if (eventBus !== undefined) checkBusPlace('eventBus', eventBus.env, place);
  if (encryptionKey === undefined) return;
  checkPlace('encryptionKey', { ...encryptionKey.env, account: place.account }, place, {
    why: 'services use keys of their own Region',
    wayOut: () => 'Use a key of that Region, or a replica of a multi-Region key there.',
  });
}

/**
 * Checks the place of a bus.
 * @throws ConfigurationError for a bus of another account or Region, where this stack cannot create rules
 */
export function checkBusPlace(field: string, its: ResourceEnvironment, place: ResourceEnvironment): void {
  checkPlace(field, its, place, {
    why: 'a rule cannot be created there',
    wayOut: (what) => `Forward its events, by a rule there, to a bus in the scheduler's ${what}.`,
  });
}

function checkPlace(
  field: string,
  its: ResourceEnvironment,
  ours: ResourceEnvironment,
  {
    value,
    why,
    wayOut,
  }: {
    readonly value?: string;
    readonly why: string;
    readonly wayOut: (what: string) => string;
  },
): void {
  for (const [part, what] of [
    ['region', 'Region'],
    ['account', 'account'],
  ] as const) {
    if (Token.isUnresolved(its[part]) || Token.isUnresolved(ours[part]) || its[part] === ours[part]) continue;
    throw new ConfigurationError(
      field,
      value ?? its[part],
      `is in another ${what} than the scheduler (${ours[part]}), and ${why}`,
      wayOut(what),
    );
  }
}

/** Lambda's limits of provisioned pollers for SQS. */
const POLLERS = { min: 2, minimumMax: 200, maximumMax: 2_000 } as const;

function checkPollers(fleet: string, pollers: FleetProps['provisionedPollers']): void {
  if (pollers === undefined) return;
  const { minimumPollers = POLLERS.min, maximumPollers = POLLERS.minimumMax } = pollers;
  const check = (field: string, value: number, min: number, max: number): void => {
    if (Token.isUnresolved(value) || (Number.isInteger(value) && value >= min && value <= max)) return;
    throw new ConfigurationError(
      `fleets.${fleet}.provisionedPollers.${field}`,
      value,
      `must be a whole number from ${min} to ${max}`,
      'Leave provisionedPollers out to use Lambda’s shared pollers.',
    );
  };
  check('minimumPollers', minimumPollers, POLLERS.min, POLLERS.minimumMax);
  check('maximumPollers', maximumPollers, minimumPollers, POLLERS.maximumMax);
}

function checkConcurrency(
  fleet: string,
  maxConcurrency: number | undefined,
  provisionedPollers: FleetProps['provisionedPollers'],
): void {
  if (maxConcurrency === undefined) return;
  const field = `fleets.${fleet}.maxConcurrency`;
  if (provisionedPollers !== undefined) {
    throw new ConfigurationError(
      field,
      maxConcurrency,
      'cannot be combined with provisionedPollers: Lambda accepts only one of the two',
      'Leave one of them out.',
    );
  }
  const [min, max] = [EVENT_SOURCE_MIN_CONCURRENCY, EVENT_SOURCE_MAX_CONCURRENCY];
  if (Token.isUnresolved(maxConcurrency)) return;
  if (Number.isInteger(maxConcurrency) && maxConcurrency >= min && maxConcurrency <= max) return;
  throw new ConfigurationError(
    field,
    maxConcurrency,
    `must be a whole number from ${min} to ${max}`,
    'Leave it out: the slots limit the jobs that run at once.',
  );
}

function keptTimeMs(timeout: Duration): number {
  const timeoutMs = timeout.toMilliseconds();
  const marginMs = Math.min(Math.max(timeoutMs * MARGIN.share, MARGIN.minMs), MARGIN.maxMs);
  return Math.max(1, Math.floor(timeoutMs - marginMs));
}

function dropUndefined(input: JobTypeInput): JobTypeInput {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
}
