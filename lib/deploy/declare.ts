/** Carries out a deployment: validates the declaration, stores it as the next version, and notifies the partitions. */
import type { PoolConfiguration } from '../core/configuration.ts';
import { ConfigurationError, MisconfiguredError, ThrottledError } from '../core/errors.ts';
import { declaredCaps } from '../core/scope.ts';
import {
  type DeclaredPool,
  decodeConfiguration,
  decodePayloadSchemas,
  type FormerDeclaration,
  formerDeclaration,
  type OwnQueues,
  packDeclaration,
} from '../declaration/codec.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import type { DeployStore } from '../store/contract/verbs.ts';
import { declareSchedules, requireNamesFree, unpackDeclaredSchedules } from './declared-schedules.ts';

export interface DeclareContext {
  readonly store: DeployStore;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly nowMs: () => number;
  readonly log: Log;
  /** Refreshes the declaration by which the store ranks jobs. */
  readonly refresh?: (() => Promise<unknown>) | undefined;
}

export interface Deployment {
  /** The pool, as `encodeConfiguration` encodes it. */
  readonly pool: string;
  /** URL of each fleet's queue, by fleet. */
  readonly queueUrls: Readonly<Record<string, string>>;
  readonly ownQueues?: OwnQueues | undefined;
  /** The name of the bucket for values over 64 KB; undefined without `largePayloads`. */
  readonly bucket?: string | undefined;
  /** The schedules, as `packDeclaredSchedules` encodes them; undefined if there are none. */
  readonly schedules?: string | undefined;
  /** The payloads' schemas, as `encodePayloadSchemas` encodes them; undefined if there are none. */
  readonly payloadSchemas?: string | undefined;
  /** Id of this deployment. Repeating it declares once, and does not undo later declarations. */
  readonly deployment: string;
}

/**
 * Milliseconds to wait after each refusal for a missing permission. Permissions granted by the same deployment take
 * seconds to spread.
 */
const PERMISSION_WAITS_MS = [1_000, 2_000, 4_000, 8_000, 15_000] as const;

export type DeploymentOutcome =
  | { readonly kind: 'declared'; readonly version: number }
  | { readonly kind: 'refused'; readonly reason: string };

/** Declares, and retries for half a minute while a permission is missing. */
export async function declareWhenPermitted(
  given: () => readonly [context: DeclareContext, deployment: Deployment],
  { log, sleep }: { readonly log: Log; readonly sleep: Clock['sleep'] },
): Promise<DeploymentOutcome> {
  try {
    const [context, deployment] = given();
    const version = await retryUntilPermitted(() => declare(context, deployment), { log, sleep });
    log.info('declared', { version });
    return { kind: 'declared', version };
  } catch (error) {
    log.warn('the declaration was refused', { error: String(error) });
    return {
      kind: 'refused',
      reason: error instanceof Error ? `${error.name}: ${error.message}` : String(error),
    };
  }
}

/**
 * Repeats an attempt while a permission is missing.
 * @throws the last attempt's error; an error that is not about permissions is thrown at once
 */
async function retryUntilPermitted<Answer>(
  work: () => Promise<Answer>,
  { log, sleep }: { readonly log: Pick<Log, 'warn'>; readonly sleep: Clock['sleep'] },
): Promise<Answer> {
  for (const waitMs of PERMISSION_WAITS_MS) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof MisconfiguredError)) throw error;
      log.warn('a permission is missing; it may not have spread yet', { error: String(error), waitMs });
      await sleep(waitMs);
    }
  }
  return work();
}

/** How many times a deployment tries to write the next version while other deployments write theirs. */
const TRIES_MAX = 5;
/**
 * How many versions are searched for an earlier write of the same deployment. A repetition after more versions counts
 * as new.
 */
const VERSIONS_SEARCHED = 10;
/** The most former types that a declaration lists: types that are not declared any more. */
const FORMER_TYPES_MAX = 1_000;
/** How many partitions are notified at the same time. */
const NOTIFIED_AT_ONCE = 32;

/**
 * Declares what is deployed. Returns its version.
 * @throws ConfigurationError - the declaration cannot work; nothing was changed
 * @throws ThrottledError - another deployment declared during each attempt; nothing was changed
 */
export async function declare(
  context: DeclareContext,
  { pool, queueUrls, ownQueues = {}, bucket, schedules = '{}', payloadSchemas, deployment }: Deployment,
): Promise<number> {
  const { store, nowMs } = context;
  const configuration = decodeConfiguration(pool);
  const described =
    payloadSchemas === undefined ? {} : { payloadSchemas: decodePayloadSchemas(payloadSchemas) };
  requireQueues(configuration, queueUrls);
  requireBucket(configuration, bucket);
  const recurring = unpackDeclaredSchedules(schedules, configuration);
  await requireNamesFree(store, recurring.keys());
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    const newest = await store.readDeclaration();
    const before = newest === undefined ? undefined : formerDeclaration(newest.text);
    if (newest !== undefined && before?.configuration === undefined)
      context.log.warn('the previous declaration cannot be read completely; this one replaces it', {
        version: newest.version,
      });
    const earlier = await versionDeclaredBy(store, deployment, newest?.version ?? 0);
    // planted: declared-twice
    if (earlier !== undefined) {
      // The earlier attempt may have stopped before it notified the partitions.
      await notifyPartitions(context, before?.partitionsEver ?? 1, earlier);
      if (earlier === newest?.version) await declareSchedules(context, configuration, recurring);
      return earlier;
    }
    const declared: DeclaredPool = {
      configuration,
      queueUrls,
      ownQueues,
      formerTypes: formerTypesOf(configuration, before),
      ...partitionHistory(configuration, before, (newest?.version ?? 0) + 1),
      deployment,
      ...(bucket === undefined ? {} : { bucket }),
      ...described,
    };
    const outcome = await store.putDeclaration({
      text: packDeclaration(declared),
      after: newest?.version ?? 0,
      nowMs: nowMs(),
    });
    if (outcome.kind === 'outdated') continue;
    await notifyPartitions(context, declared.partitionsEver, outcome.version);
    await context.refresh?.();
    await declareSchedules(context, configuration, recurring);
    return outcome.version;
  }
  throw new ThrottledError(
    `other deployments declared during each of ${TRIES_MAX} attempts, nothing was changed; deploy one after the other`,
  );
}

function requireQueues(configuration: PoolConfiguration, queueUrls: Readonly<Record<string, string>>): void {
  for (const { fleet } of configuration.fleets) {
    const url = Object.hasOwn(queueUrls, fleet) ? queueUrls[fleet] : undefined;
    if (typeof url === 'string' && url !== '') continue;
    throw new ConfigurationError(
      `queueUrls.${fleet}`,
      url,
      "must be the URL of the fleet's queue",
      'Declare through the Scheduler construct, which names the queue of each fleet.',
    );
  }
}

function requireBucket({ largePayloads }: PoolConfiguration, bucket: string | undefined): void {
  if (largePayloads === undefined || (bucket !== undefined && bucket !== '')) return;
  throw new ConfigurationError(
    'bucket',
    bucket,
    'must be the name of the bucket for largePayloads',
    'Declare through the Scheduler construct, which has one.',
  );
}

/** Finds the version that this same deployment declared before. CloudFormation may repeat its request, even late. */
async function versionDeclaredBy(
  store: DeployStore,
  deployment: string,
  newest: number,
): Promise<number | undefined> {
  for (let version = newest; version > Math.max(0, newest - VERSIONS_SEARCHED); version -= 1) {
    const record = await store.readDeclaration(version);
    if (record !== undefined && formerDeclaration(record.text)?.deployment === deployment) return version;
  }
  return undefined;
}

/** Computes what the declaration says about former partitions, and since when the shared settings have been the same. */
function partitionHistory(
  configuration: PoolConfiguration,
  before: FormerDeclaration | undefined,
  version: number,
): Pick<DeclaredPool, 'partitionsEver' | 'partitionNumbers' | 'sharedSince'> {
  const { partitions } = configuration;
  const { configuration: former, partitionNumbers: ever = [] } = before ?? {};
  const numbers = former === undefined ? ever : [...ever, former.partitions];
  const partitionNumbers = [...new Set([...numbers, partitions])].sort((one, other) => one - other);
  const isSame =
    before === undefined ||
    (before.configuration !== undefined &&
      sharedSettings(configuration) === sharedSettings(before.configuration));
  return {
    partitionsEver: Math.max(before?.partitionsEver ?? 1, partitions),
    partitionNumbers,
    sharedSince: isSame ? (before?.sharedSince ?? 0) : version,
  };
}

/**
 * Returns the settings that partitions share, as a comparable text. With several partitions these are the divided caps
 * and the conflict groups.
 */
function sharedSettings(configuration: PoolConfiguration): string {
  const { partitions, types } = configuration;
  if (partitions === 1) return '1';
  const caps = declaredCaps(configuration).map(({ scope, cap }) => [scope, cap]);
  const groups = types.map(({ type, conflictGroup }) => [type, conflictGroup]);
  return JSON.stringify([partitions, caps.sort(), groups.sort()]);
}

function formerTypesOf(
  configuration: PoolConfiguration,
  before: FormerDeclaration | undefined,
): readonly string[] {
  if (before === undefined) return [];
  const declared = new Set(configuration.types.map(({ type }) => type));
  const former = [...before.formerTypes, ...before.types];
  // The latest mention of each type is kept, so that the latest types are last, even if a type comes and goes.
  const latest = [...new Set(former.toReversed())].reverse();
  // planted: former-types
  return latest.filter((type) => !declared.has(type)).slice(-FORMER_TYPES_MAX);
}

/**
 * Notifies the partitions. A partition that this misses learns of the declaration anyway: processes check the version
 * each minute, and a dispatcher that plans under a newer version announces it to its partition.
 */
async function notifyPartitions(
  { store, queue, log }: DeclareContext,
  partitions: number,
  version: number,
): Promise<void> {
  for (let from = 0; from < partitions; from += NOTIFIED_AT_ONCE) {
    const some = Array.from({ length: Math.min(NOTIFIED_AT_ONCE, partitions - from) }, (_, at) => from + at);
    await Promise.all(
      some.map(async (partition) => {
        try {
          // planted: untold-declaration-2
          await store.announceDeclaration({ partition, version });
          await queue.sendWake({ partition });
        } catch (error) {
          log.warn('a partition could not be notified of the declaration; it learns of it within a minute', {
            partition,
            version,
            error: String(error),
          });
        }
      }),
    );
  }
}
