/**
 * What only the stack can check: a declaration against the functions that serve it and the limits of AWS.
 * Everything about the pool itself is checked by `resolveConfiguration`, before.
 */
import { type Duration, Token } from 'aws-cdk-lib';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import type { FleetInput, JobTypeInput, PoolInput } from '../lib/core/defaults.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { eventSourceConcurrency, type FleetProps, timeoutOf } from './fleet.ts';

/** Jobs that a fleet with a handler runs at once, if it does not say. */
const LAMBDA_SLOTS = 10;

/** What SQS accepts for one event source. */
const EVENT_SOURCE_MAX_CONCURRENCY = 1_000;
const EVENT_SOURCE_MAX_BATCH = 10;

/** What a handler keeps of its function's time to record that a job was too slow: a tenth, 1 to 30 seconds. */
const MARGIN = { share: 0.1, minMs: 1_000, maxMs: 30_000 } as const;

/** CloudFormation hands a resource's properties over in an event of 256 KB, which has an envelope. */
const PROPERTIES_MAX_BYTES = 240_000;
/** `https://sqs.<region>.amazonaws.com/<account>/<name>`, with a generated name of up to 80 characters, and what is around it. */
const QUEUE_URL_BYTES = 150;

/**
 * The pool as `resolveConfiguration` takes it. A fleet with a handler gets its slots; a type that names no timeout
 * gets the longest that the functions of all its fleets can keep.
 * @throws ConfigurationError for a fleet that its handler cannot serve.
 */
export function poolInput(
  declaration: Omit<PoolInput, 'fleets'>,
  fleets: Readonly<Record<string, FleetProps>>,
): PoolInput {
  const keptMs = new Map<string, number>();
  const inputs: [string, FleetInput][] = Object.entries(fleets).map(([fleet, props]) => {
    // Fields that nobody knows stay in, to be refused.
    const { handler, batchSize, visibilityTimeout, ...input } = props;
    checkSlots(fleet, props.slots);
    checkBatchSize(fleet, batchSize);
    if (handler === undefined) {
      if (batchSize === undefined) return [fleet, input];
      throw new ConfigurationError(
        `fleets.${fleet}.batchSize`,
        batchSize,
        'says how many jobs one invocation takes, but the fleet has no handler',
        'Add the handler, or leave batchSize out.',
      );
    }
    const timeout = timeoutOf(handler);
    for (const type of Array.isArray(props.types) ? props.types : []) {
      keptMs.set(type, Math.min(keptMs.get(type) ?? Number.POSITIVE_INFINITY, keptTimeMs(timeout)));
    }
    checkVisibility(fleet, visibilityTimeout, timeout);
    checkHandlerAlone(fleet, props, fleets);
    return [fleet, { ...input, slots: readSlots(fleet, props) }];
  });
  const types: Record<string, JobTypeInput> = { ...declaration.types };
  for (const [type, timeoutMs] of keptMs) types[type] = { timeoutMs, ...dropUndefined(types[type] ?? {}) };
  return { ...declaration, types, fleets: Object.fromEntries(inputs) };
}

/**
 * @throws ConfigurationError for a type that may take longer than a function of its fleets lives.
 */
export function checkTimeouts(pool: PoolConfiguration, fleets: Readonly<Record<string, FleetProps>>): void {
  for (const { fleet, types } of pool.fleets) {
    const handler = fleets[fleet]?.handler;
    if (handler === undefined) continue;
    const functionTimeoutMs = timeoutOf(handler).toMilliseconds();
    for (const { type, timeoutMs } of pool.types) {
      if (!types.includes(type) || timeoutMs < functionTimeoutMs) continue;
      throw new ConfigurationError(
        `types.${type}.timeoutMs`,
        timeoutMs,
        `must be below the timeout of the function of fleet ${fleet} (${functionTimeoutMs} ms)`,
        "Lower it, or raise the function's timeout: a job that is cut off cannot say why.",
      );
    }
  }
}

/**
 * @throws ConfigurationError if the declaration, with the addresses that are known only when deployed, may be too large to
 * be handed over.
 */
export function checkDeclaration(pool: PoolConfiguration, encodedPool: string): void {
  const names = pool.fleets.reduce((bytes, { fleet }) => bytes + Buffer.byteLength(JSON.stringify(fleet)), 0);
  const bytes = encodedPool.length + names + pool.fleets.length * QUEUE_URL_BYTES;
  if (bytes <= PROPERTIES_MAX_BYTES) return;
  throw new ConfigurationError(
    'fleets',
    pool.fleets.length,
    `with their queues and the pool (${encodedPool.length} bytes) they need about ${bytes} bytes of the declaration, ` +
      `which a deployment hands over in at most ${PROPERTIES_MAX_BYTES}`,
    'Let fewer, versatile fleets take several types each, or split the work into several schedulers.',
  );
}

function readSlots(fleet: string, props: FleetProps): number {
  const slots = props.slots === undefined ? LAMBDA_SLOTS : props.slots;
  if (slots === null) {
    throw new ConfigurationError(
      `fleets.${fleet}.slots`,
      slots,
      'must be a number where a handler does the work: functions do not register slots',
      'Set it to the jobs that may run at once.',
    );
  }
  const concurrency = eventSourceConcurrency(slots, props.batchSize ?? 1);
  if (concurrency > EVENT_SOURCE_MAX_CONCURRENCY) {
    throw new ConfigurationError(
      `fleets.${fleet}.slots`,
      slots,
      `needs ${concurrency} invocations at once, and an event source has at most ${EVENT_SOURCE_MAX_CONCURRENCY}`,
      'Raise batchSize, or split the fleet.',
    );
  }
  return slots;
}

/** The pool accepts none, for a fleet that is shut down for a while; a stack that deploys one is a mistake. */
function checkSlots(fleet: string, slots: number | null | undefined): void {
  if (slots === undefined || slots === null || (Number.isInteger(slots) && slots >= 1)) return;
  throw new ConfigurationError(
    `fleets.${fleet}.slots`,
    slots,
    'must be a whole number of at least 1',
    'Pause the fleet with an operator control, or remove it.',
  );
}

function checkBatchSize(fleet: string, batchSize: number | undefined): void {
  if (batchSize === undefined || Token.isUnresolved(batchSize)) return;
  if (Number.isInteger(batchSize) && batchSize >= 1 && batchSize <= EVENT_SOURCE_MAX_BATCH) return;
  throw new ConfigurationError(
    `fleets.${fleet}.batchSize`,
    batchSize,
    `must be a whole number from 1 to ${EVENT_SOURCE_MAX_BATCH}`,
    'Leave it out for 1.',
  );
}

function checkVisibility(fleet: string, visibility: Duration | undefined, timeout: Duration): void {
  if (visibility === undefined || visibility.toMilliseconds() >= timeout.toMilliseconds()) return;
  throw new ConfigurationError(
    `fleets.${fleet}.visibilityTimeout`,
    visibility.toHumanString(),
    `must not be below the timeout of the fleet's function (${timeout.toHumanString()})`,
    'Leave it out for 20 seconds more than that.',
  );
}

/** Its environment says which fleet a function works for. */
function checkHandlerAlone(
  fleet: string,
  props: FleetProps,
  fleets: Readonly<Record<string, FleetProps>>,
): void {
  const other = Object.entries(fleets).find(
    ([name, candidate]) => name !== fleet && candidate.handler === props.handler,
  );
  if (other === undefined) return;
  throw new ConfigurationError(
    `fleets.${fleet}.handler`,
    props.handler?.node.path,
    `is the handler of fleet ${other[0]} too, and a function works for one fleet`,
    'Deploy the code as a function of its own for each fleet.',
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
