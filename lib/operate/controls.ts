/** Controls: pauses, caps and weights that an operator changes while the pool runs. A control takes effect in the next pass. */

import type { Control } from '../core/capacity.ts';
import type { PoolConfiguration } from '../core/configuration.ts';
import { ValidationError } from '../core/errors.ts';
import { homePartitionsOf, leastOverride } from '../core/partition.ts';
import { declaredCapOf, isInScope, printScope, type Scope } from '../core/scope.ts';
import type { DeclaredPool } from '../declaration/codec.ts';
import type { JobQueue } from '../queue/contract.ts';
import { allEnded } from '../runtime/all-ended.ts';
import type { Clock } from '../runtime/contract.ts';
import type { PartitionState } from '../store/contract/records.ts';
import type { ControlChange, ControlOutcome } from '../store/contract/requests.ts';
import type { OperatorStore } from '../store/contract/verbs.ts';
import type { SubmitContext } from '../submit/submit.ts';

export interface OperateContext extends SubmitContext {
  readonly store: OperatorStore;
  readonly clock: Clock;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly partitionOf: (fairnessKey: string) => number;
  /** Types that are not declared any more. Jobs of these types may still wait. */
  readonly formerTypes?: readonly string[] | undefined;
  /** The declaration's record of partitions; undefined if there were never others than the configured ones. */
  readonly shared?: Pick<DeclaredPool, 'partitionsEver' | 'partitionNumbers' | 'sharedSince'> | undefined;
  /** JSON Schemas of payloads by type; undefined if none is declared. */
  readonly payloadSchemas?: DeclaredPool['payloadSchemas'];
}

/** Returns all partitions of the pool, including former ones, in which jobs may still wait or run. */
export function partitionsOf({
  configuration,
  shared,
}: Pick<OperateContext, 'configuration' | 'shared'>): readonly number[] {
  const length = Math.max(configuration.partitions, shared?.partitionsEver ?? 1);
  return Array.from({ length }, (_, partition) => partition);
}

/** Returns the partitions in which jobs of a key may be: the key's current one and its former ones. */
export const partitionsOfKey = (
  { partitionOf, shared }: Pick<OperateContext, 'partitionOf' | 'shared'>,
  fairnessKey: string,
): readonly number[] => [
  ...new Set([partitionOf(fairnessKey), ...homePartitionsOf(fairnessKey, shared?.partitionNumbers ?? [])]),
];

/**
 * Returns the partitions of a scope: for a key its own ones, for any other scope all of them. Former partitions get
 * controls as well, because they may be used again.
 */
function partitionsOfScope(context: OperateContext, scope: Scope): readonly number[] {
  return typeof scope === 'object' && 'fairnessKey' in scope
    ? partitionsOfKey(context, scope.fairnessKey)
    : partitionsOf(context);
}

/** Reads the state of these partitions. */
export const loadAll = (
  context: OperateContext,
  partitions: readonly number[],
): Promise<readonly PartitionState[]> =>
  allEnded(
    partitions.map((partition) => context.store.loadPartition({ partition, nowMs: context.clock.nowMs() })),
  );

/**
 * Changes a scope's control in each of its partitions. If two operators change different fields of one scope at the
 * same moment, both changes take effect. If they change the same field, one of them is superseded, in each partition on
 * its own. If that field is a cap, no more jobs run than the greater cap allows, because a partition's share never
 * falls when the cap rises. A superseded change is not retried, because it may be old by now and the other operator
 * knows better.
 */
export async function changeControl(
  context: OperateContext,
  scope: Scope,
  change: ControlChange,
): Promise<ControlOutcome> {
  const partitions = partitionsOfScope(context, scope);
  const name = printScope(scope);
  const outcomes = await allEnded(
    partitions.map((partition) => context.store.changeControl({ partition, scope: name, change })),
  );
  // A change that may let jobs start needs a pass, and so does one that ends by itself: that pass asks for a wake at the end.
  if (change.paused !== true || change.untilMs !== undefined) await wakeAll(context, partitions);
  const control = combinedControl(
    name,
    outcomes.map((outcome) => outcome.control),
  );
  return { kind: outcomes.every(({ kind }) => kind === 'changed') ? 'changed' : 'superseded', control };
}

/** Refuses an override that leaves a partition without a share. @throws ValidationError */
export function requireShares(
  scope: Scope,
  maxConcurrency: number | null | undefined,
  configuration: PoolConfiguration,
): void {
  const least = leastOverride(printScope(scope), configuration);
  if (typeof maxConcurrency !== 'number' || maxConcurrency >= least) return;
  throw new ValidationError(
    'change.maxConcurrency',
    `leaves some of the ${configuration.partitions} partitions without a share, and their jobs would wait for ever (got ${maxConcurrency}); name at least ${least}, or pause the scope`,
  );
}

/** A control after a change. */
export interface ControlAnswer extends Control {
  /** The declared cap, if the override is above it. */
  readonly aboveDeclared?: number | undefined;
}

/** Returns the answer with the declared cap, if the override is above it. */
export function withDeclared(configuration: PoolConfiguration, control: Control): ControlAnswer {
  const { scope, maxConcurrency } = control;
  const declared = declaredCapOf(configuration, scope);
  const isAbove = declared !== null && maxConcurrency !== undefined && maxConcurrency > declared;
  return isAbove ? { ...control, aboveDeclared: declared } : control;
}

/** Reads controls by scope: those in force, or those that have ended and whose changes are kept. */
export async function readControls(
  context: OperateContext,
  which: 'controls' | 'endedControls' = 'controls',
): Promise<readonly Control[]> {
  const states = await loadAll(context, partitionsOf(context));
  const byScope = Map.groupBy(
    states.flatMap((state) => state[which]),
    (control) => control.scope,
  );
  return [...byScope]
    .map(([scope, parts]) => combinedControl(scope, parts))
    .filter(({ changes }) => which === 'controls' || changes !== undefined);
}

/**
 * Combines the partitions' controls of one scope. They are equal unless a change is in progress, or did not reach all
 * partitions. A cap is that of the whole pool, of which each partition takes its share.
 */
export function combinedControl(scope: string, parts: readonly Control[]): Control {
  const rests = parts.flatMap(({ restsUntilMs }) => restsUntilMs ?? []);
  const changes = parts
    .map((part) => part.changes)
    .reduce((newest, next) => (isNewer(next, newest) ? next : newest), undefined);
  const caps = parts.flatMap(({ maxConcurrency }) => (maxConcurrency === undefined ? [] : [maxConcurrency]));
  return {
    scope,
    paused: parts.some((part) => part.paused),
    ...optionalField('maxConcurrency', caps.length === 0 ? undefined : Math.max(...caps)),
    ...optionalField('weight', parts.find((part) => part.weight !== undefined)?.weight),
    ...optionalField('restsUntilMs', rests.length === 0 ? undefined : Math.max(...rests)),
    ...(changes === undefined ? {} : { changes }),
  };
}

const isNewer = (one: Control['changes'], other: Control['changes']): boolean =>
  (one?.at(-1)?.atMs ?? 0) > (other?.at(-1)?.atMs ?? 0);

function optionalField<Name extends string>(
  name: Name,
  value: number | undefined,
): { readonly [Key in Name]?: number } {
  return (value === undefined ? {} : { [name]: value }) as { readonly [Key in Name]?: number };
}

/** Wakes these partitions. A lost wake costs at most a minute, because the tick causes a pass as well. */
async function wakeAll(context: OperateContext, partitions: readonly number[]): Promise<void> {
  await Promise.allSettled(partitions.map((partition) => context.queue.sendWake({ partition })));
}

/** Milliseconds between the first two reads of a drain. The later ones are further apart. */
const LOOK_FIRST_MS = 200;
/** The longest interval between two reads of a drain, and the shortest between its wakes. */
const LOOK_LAST_MS = 5_000;

export interface DrainOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Called after each read with the number of the scope's jobs that hold capacity. */
  readonly onProgress?: ((running: number) => void) | undefined;
}

export interface DrainOutcome {
  /** `superseded`: another operator ended the pause at the moment it began. */
  readonly kind: 'drained' | 'timedOut' | 'aborted' | 'superseded';
  /** Jobs of the scope that hold capacity: reserved, claimed or running. */
  readonly running: number;
}

/**
 * Pauses a scope and waits until none of its jobs holds capacity.
 *
 * A pass that read the controls before the pause may still admit a job, but only with a commit on the version that it
 * loaded. So it is certain that nothing runs any more once each partition shows a newer version and no job in flight. A
 * wake causes a commit, and so a newer version.
 */
export async function drain(
  context: OperateContext,
  scope: Scope,
  options: DrainOptions,
): Promise<DrainOutcome> {
  const { clock } = context;
  const { timeoutMs, signal, onProgress } = options;
  const startedMs = clock.monotonicMs();
  const paused = await changeControl(context, scope, { paused: true });
  if (paused.kind === 'superseded') return { kind: 'superseded', running: 0 };
  const partitions = partitionsOfScope(context, scope);
  const versions = (await loadAll(context, partitions)).map((state) => state.version);
  let wokenMs = Number.NEGATIVE_INFINITY;
  for (let pauseMs = LOOK_FIRST_MS; ; pauseMs = Math.min(LOOK_LAST_MS, pauseMs * 1.5)) {
    const states = await loadAll(context, partitions);
    const running = states
      .flatMap((state) => state.reservations)
      .flatMap((reservation) => [...reservation.jobs.values()])
      .filter((entry) => isInScope(scope, entry, context.configuration)).length;
    onProgress?.(running);
    const stale = partitions.filter((_, place) => (states[place]?.version ?? 0) <= (versions[place] ?? 0));
    if (running === 0 && stale.length === 0) return { kind: 'drained', running };
    if (signal?.aborted === true) return { kind: 'aborted', running };
    const leftMs = timeoutMs - (clock.monotonicMs() - startedMs);
    if (leftMs <= 0) return { kind: 'timedOut', running };
    if (stale.length > 0 && clock.monotonicMs() - wokenMs >= LOOK_LAST_MS) {
      wokenMs = clock.monotonicMs();
      await wakeAll(context, stale);
    }
    await clock.sleep(Math.min(pauseMs, leftMs), signal);
  }
}
