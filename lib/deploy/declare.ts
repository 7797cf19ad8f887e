/** A deployment declares: checks what it is given, writes it as the next version, and tells the partitions. */

import type { PoolConfiguration } from '../core/configuration.ts';
import { ConfigurationError, MisconfiguredError, ThrottledError } from '../core/errors.ts';
import { declaredCaps } from '../core/scope.ts';
import {
  type DeclaredPool,
  decodeConfiguration,
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
  /** Lets the store place jobs by what is declared now. */
  readonly refresh?: (() => Promise<unknown>) | undefined;
}

export interface Deployment {
  /** As `encodeConfiguration` wrote it. */
  readonly pool: string;
  /** By fleet. */
  readonly queueUrls: Readonly<Record<string, string>>;
  readonly ownQueues?: OwnQueues | undefined;
  /** As `encodeDeclaredSchedules` wrote them; absent: none. */
  readonly schedules?: string | undefined;
  /** Names this deployment: repeated, it declares once, and not again what others have declared since. */
  readonly deployment: string;
}

/** Rights that the same deployment gives spread within seconds: so long is waited after each refusal for want of one. */
const SPREAD_MS = [1_000, 2_000, 4_000, 8_000, 15_000] as const;

export type DeploymentOutcome =
  | { readonly kind: 'declared'; readonly version: number }
  | { readonly kind: 'refused'; readonly reason: string };

/**
 * Declares, and tries again for half a minute while a right is missing.
 *
 * @param given - answers what to declare, and by what; an error that it throws is a reason to refuse
 */
export async function declareOnceAllowed(
  given: () => readonly [context: DeclareContext, deployment: Deployment],
  { log, sleep }: { readonly log: Log; readonly sleep: Clock['sleep'] },
): Promise<DeploymentOutcome> {
  try {
    const [context, deployment] = given();
    const version = await onceAllowed(() => declare(context, deployment), { log, sleep });
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

/** @throws what the last try throws, and at once an error that is not about rights */
export async function onceAllowed<Answer>(
  work: () => Promise<Answer>,
  { log, sleep }: { readonly log: Pick<Log, 'warn'>; readonly sleep: Clock['sleep'] },
): Promise<Answer> {
  for (const waitMs of SPREAD_MS) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof MisconfiguredError || error instanceof MisconfiguredError)) throw error;
      log.warn('a right is missing; it may not have spread yet', { error: String(error), waitMs });
      await sleep(waitMs);
    }
  }
  return work();
}

/** Another deployment may declare meanwhile: as often as this. */
const TRIES_MAX = 5;
/** A repetition that comes after so many other deployments is taken for a new one. */
const LOOKED_BACK = 10;
/** Types that are remembered when they are not declared any more. */
const FORMER_TYPES_MAX = 1_000;
/** Partitions told at once. */
const TOLD_AT_ONCE = 32;

/**
 * Declares what is deployed. Answers its version.
 * @throws ConfigurationError - for what cannot work; nothing was changed
 * @throws ThrottledError - others declared at each try; nothing was changed
 */
export async function declare(
  context: DeclareContext,
  { pool, queueUrls, ownQueues = {}, schedules = '{}', deployment }: Deployment,
): Promise<number> {
  const { store, nowMs } = context;
  const configuration = decodeConfiguration(pool);
  requireQueues(configuration, queueUrls);
  const recurring = unpackDeclaredSchedules(schedules, configuration);
  await requireNamesFree(store, recurring.keys());
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    const newest = await store.readDeclaration();
    const before = newest === undefined ? undefined : formerDeclaration(newest.text);
    if (newest !== undefined && before?.configuration === undefined)
      context.log.warn(
        'what was declared before cannot be read as a whole; this declaration takes its place',
        {
          version: newest.version,
        },
      );
    const earlier = await versionOf(store, deployment, newest?.version ?? 0);
    // planted: declared-twice
    if (earlier !== undefined) {
      // Whoever declared it may have died before it told anybody.
      await tell(context, before?.partitionsEver ?? 1, earlier);
      if (earlier === newest?.version) await declareSchedules(context, configuration, recurring);
      return earlier;
    }
    const declared: DeclaredPool = {
      configuration,
      queueUrls,
      ownQueues,
      formerTypes: formerTypesOf(configuration, before),
      ...partitionsOver(configuration, before, (newest?.version ?? 0) + 1),
      deployment,
    };
    const outcome = await store.putDeclaration({
      text: packDeclaration(declared),
      after: newest?.version ?? 0,
      nowMs: nowMs(),
    });
    if (outcome.kind === 'outdated') continue;
    await tell(context, declared.partitionsEver, outcome.version);
    await context.refresh?.();
    await declareSchedules(context, configuration, recurring);
    return outcome.version;
  }
  throw new ThrottledError(
    `others declared at each of ${TRIES_MAX} tries, nothing was changed; deploy one after the other`,
  );
}

function requireQueues(configuration: PoolConfiguration, queueUrls: Readonly<Record<string, string>>): void {
  for (const { fleet } of configuration.fleets) {
    const url = Object.hasOwn(queueUrls, fleet) ? queueUrls[fleet] : undefined;
    if (typeof url === 'string' && url !== '') continue;
    throw new ConfigurationError(
      `queueUrls.${fleet}`,
      url,
      'must be the address of the queue of the fleet',
      'Declare through the Scheduler construct, which names the queue of each fleet.',
    );
  }
}

/** The version that this very deployment has declared before: its request may come twice, and late. */
async function versionOf(
  store: DeployStore,
  deployment: string,
  newest: number,
): Promise<number | undefined> {
  for (let version = newest; version > Math.max(0, newest - LOOKED_BACK); version -= 1) {
    const record = await store.readDeclaration(version);
    if (record !== undefined && formerDeclaration(record.text)?.deployment === deployment) return version;
  }
  return undefined;
}

/** What a declaration says of partitions that were, and of what those that are there share. */
function partitionsOver(
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
    (before.configuration !== undefined && sharedBy(configuration) === sharedBy(before.configuration));
  return {
    partitionsEver: Math.max(before?.partitionsEver ?? 1, partitions),
    partitionNumbers,
    sharedSince: isSame ? (before?.sharedSince ?? 0) : version,
  };
}

/** What partitions share, as a text: only among several, the caps that are divided and what excludes jobs. */
function sharedBy(configuration: PoolConfiguration): string {
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
  // The latest stand last, also those that come and go.
  const latest = [...new Set(former.toReversed())].reverse();
  // planted: former-types
  return latest.filter((type) => !declared.has(type)).slice(-FORMER_TYPES_MAX);
}

/**
 * Tells the partitions. What is not told learns it all the same: processes look at the version each minute, and who plans
 * under a newer one tells its partition.
 */
async function tell(
  { store, queue, log }: DeclareContext,
  partitions: number,
  version: number,
): Promise<void> {
  for (let from = 0; from < partitions; from += TOLD_AT_ONCE) {
    const some = Array.from({ length: Math.min(TOLD_AT_ONCE, partitions - from) }, (_, at) => from + at);
    await Promise.all(
      some.map(async (partition) => {
        try {
          // planted: untold-declaration-2
          await store.announceDeclaration({ partition, version });
          await queue.sendWake({ partition });
        } catch (error) {
          log.warn('a partition was not told of the declaration; it learns within a minute', {
            partition,
            version,
            error: String(error),
          });
        }
      }),
    );
  }
}
