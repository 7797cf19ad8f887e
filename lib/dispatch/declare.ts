/** A deployment declares: checks what it is given, writes it as the next version, and tells the partitions. */
import type { PoolConfiguration } from '../core/configuration.ts';
import { ConfigurationError, show } from '../core/errors.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Log } from '../runtime/contract.ts';
import type { JobStore } from '../store/contract.ts';
import { StoreThrottled } from '../store/errors.ts';
import {
  type DeclaredPool,
  decodeConfiguration,
  decodeDeclaration,
  encodeDeclaration,
} from './declaration-codec.ts';

export interface DeclareContext {
  readonly store: JobStore;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly nowMs: () => number;
  readonly log: Log;
}

interface RefusedChange {
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
  /** Of so many jobs. */
  readonly why: string;
}

/**
 * A declaration that cannot follow the one before it while there are jobs. Nothing was changed.
 */
export class DeclarationRefused extends Error {
  override readonly name = 'DeclarationRefused';
  /** The field that cannot change, such as `partitions`. */
  readonly field: string;
  /** Jobs that wait or run. */
  readonly jobs: number;

  constructor(
    { field, from, to, why }: RefusedChange,
    { jobs, isAtLeast = false }: { readonly jobs: number; readonly isAtLeast?: boolean },
  ) {
    super(
      `${field} cannot change from ${show(from)} to ${show(to)} while ${isAtLeast ? 'at least ' : ''}${jobs} ${why}. ` +
        `Let them end, or cancel them, and deploy again; or leave ${field} at ${show(from)}.`,
    );
    this.field = field;
    this.jobs = jobs;
  }
}

export interface Deployment {
  /** As `encodeConfiguration` wrote it. */
  readonly pool: string;
  /** By fleet. */
  readonly queueUrls: Readonly<Record<string, string>>;
  /** Names this deployment: repeated, it declares once, and not again what others have declared since. */
  readonly deployment: string;
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
 * @throws DeclarationRefused - for what jobs that are there cannot be carried over to; nothing was changed
 * @throws StoreThrottled - others declared at each try; nothing was changed
 */
export async function declare(
  context: DeclareContext,
  { pool, queueUrls, deployment }: Deployment,
): Promise<number> {
  const { store, nowMs } = context;
  const configuration = decodeConfiguration(pool);
  requireQueues(configuration, queueUrls);
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    const newest = await store.readDeclaration();
    const before = newest === undefined ? undefined : decodeDeclaration(newest.text);
    const earlier = await versionOf(store, deployment, newest?.version ?? 0);
    if (earlier !== undefined) {
      // Whoever declared it may have died before it told anybody.
      await tell(context, before?.partitionsEver ?? 1, earlier);
      return earlier;
    }
    if (before !== undefined) await requireCarriable(store, configuration, before, nowMs());
    const declared: DeclaredPool = {
      configuration,
      queueUrls,
      formerTypes: formerTypesOf(configuration, before),
      partitionsEver: Math.max(configuration.partitions, before?.partitionsEver ?? 1),
      deployment,
    };
    const outcome = await store.putDeclaration(encodeDeclaration(declared), newest?.version ?? 0, nowMs());
    if (outcome.kind === 'outdated') continue;
    await tell(context, declared.partitionsEver, outcome.version);
    return outcome.version;
  }
  throw new StoreThrottled(
    `others declared at each of ${TRIES_MAX} tries, nothing was changed; deploy one after the other`,
  );
}

/** Jobs counted at most. */
const COUNTED_MAX = 1_000;
const PAGE = 100;
const LAST_INSTANT_MS = 999_999_999_999_999;

/** @throws DeclarationRefused */
async function requireCarriable(
  store: JobStore,
  configuration: PoolConfiguration,
  before: DeclaredPool,
  nowMs: number,
): Promise<void> {
  await requireExclusive(store, configuration, before, nowMs);
  const from = before.configuration.partitions;
  const to = configuration.partitions;
  if (to === from) return;
  let jobs = 0;
  for (let partition = 0; partition < before.partitionsEver && jobs < COUNTED_MAX; partition += 1) {
    for await (const some of jobsIn(store, before, partition, nowMs)) {
      jobs += some;
      if (jobs >= COUNTED_MAX) break;
    }
  }
  if (jobs === 0) return;
  const why = 'jobs wait or run: each stands in its partition, whose share of the caps it counts in';
  throw new DeclarationRefused(
    { field: 'partitions', from, to, why },
    { jobs, isAtLeast: jobs >= COUNTED_MAX },
  );
}

/**
 * In one partition a job in flight holds the conflict key of its type's new group, too. Among several the key is held by a lock,
 * which a job that runs has taken for its old group only.
 * @throws DeclarationRefused
 */
async function requireExclusive(
  store: JobStore,
  configuration: PoolConfiguration,
  before: DeclaredPool,
  nowMs: number,
): Promise<void> {
  if (before.configuration.partitions === 1) return;
  const groupsBefore = new Map(
    before.configuration.types.map(({ type, conflictGroup }) => [type, conflictGroup]),
  );
  const changed = configuration.types.filter(
    ({ type, conflictGroup }) =>
      conflictGroup !== null && groupsBefore.has(type) && groupsBefore.get(type) !== conflictGroup,
  );
  if (changed.length === 0) return;
  const inFlight = new Map<string, number>();
  for (let partition = 0; partition < before.partitionsEver; partition += 1) {
    const { reservations } = await store.loadPartition(partition, nowMs);
    for (const { jobs } of reservations)
      for (const { type } of jobs.values()) inFlight.set(type, (inFlight.get(type) ?? 0) + 1);
  }
  for (const { type, conflictGroup } of changed) {
    const jobs = inFlight.get(type) ?? 0;
    if (jobs === 0) continue;
    const from = groupsBefore.get(type);
    const why = 'jobs of the type run: other partitions would not know what they exclude';
    throw new DeclarationRefused(
      { field: `types.${type}.conflictGroup`, from, to: conflictGroup, why },
      { jobs },
    );
  }
}

/** How many jobs of a partition run and wait, in the order in which they are found. From indexes, so it may lag. */
async function* jobsIn(
  store: JobStore,
  { configuration, formerTypes }: DeclaredPool,
  partition: number,
  nowMs: number,
): AsyncGenerator<number> {
  const { reservations, dueShards } = await store.loadPartition(partition, nowMs);
  yield reservations.reduce((sum, { jobs }) => sum + jobs.size, 0);
  const types = [...configuration.types.map(({ type }) => type), ...formerTypes];
  for (const type of types) {
    for (let after: string | undefined; ; ) {
      const { keys, next } = await store.readKeys(partition, type, PAGE, after);
      for (const { fairnessKey, lines } of keys) {
        for (const { mode, sub } of lines) {
          const line = { type, mode, fairnessKey, ...(sub === undefined ? {} : { sub }) };
          yield (await store.readLine(partition, line, COUNTED_MAX)).jobs.length;
        }
      }
      if (next === undefined) break;
      after = next;
    }
  }
  for (let shard = 0; shard < dueShards; shard += 1)
    yield (await store.readDue(partition, LAST_INSTANT_MS, COUNTED_MAX, undefined, shard)).jobs.length;
  const { marks } = await store.listParked(partition, PAGE);
  for (const { conflictKey } of marks)
    yield (await store.readBlocked(partition, conflictKey, PAGE)).jobs.length;
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
async function versionOf(store: JobStore, deployment: string, newest: number): Promise<number | undefined> {
  for (let version = newest; version > Math.max(0, newest - LOOKED_BACK); version -= 1) {
    const record = await store.readDeclaration(version);
    if (record !== undefined && decodeDeclaration(record.text).deployment === deployment) return version;
  }
  return undefined;
}

function formerTypesOf(
  configuration: PoolConfiguration,
  before: DeclaredPool | undefined,
): readonly string[] {
  if (before === undefined) return [];
  const declared = new Set(configuration.types.map(({ type }) => type));
  const former = [...before.formerTypes, ...before.configuration.types.map(({ type }) => type)];
  // The latest stand last, also those that come and go.
  const latest = [...new Set(former.toReversed())].reverse();
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
          await store.announceDeclaration(partition, version);
          await store.wake(partition);
          await queue.sendWake(partition, 0);
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
