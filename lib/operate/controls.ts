/** What an operator changes while the pool runs: pauses, caps, weights. A control is obeyed from the next pass on. */

import type { Control } from '../core/capacity.ts';
import { homesOf } from '../core/partition.ts';
import { isInScope, printScope, type Scope } from '../core/scope.ts';
import type { DeclaredPool } from '../declaration/codec.ts';
import type { JobQueue } from '../queue/contract.ts';
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
  /** Types that are not declared any more: jobs of theirs may wait still. */
  readonly formerTypes?: readonly string[] | undefined;
  /** What is declared of partitions; undefined: there never were others than those that are configured. */
  readonly shared?: Pick<DeclaredPool, 'partitionsEver' | 'partitionNumbers' | 'sharedSince'> | undefined;
}

/** All partitions of the pool, with those that were: jobs may stand or run there still. */
export function partitionsOf({
  configuration,
  shared,
}: Pick<OperateContext, 'configuration' | 'shared'>): readonly number[] {
  const length = Math.max(configuration.partitions, shared?.partitionsEver ?? 1);
  return Array.from({ length }, (_, partition) => partition);
}

/** The partitions in which jobs of a key may be: the one where it lives, and those where it lived. */
export const partitionsOfKey = (
  { partitionOf, shared }: Pick<OperateContext, 'partitionOf' | 'shared'>,
  fairnessKey: string,
): readonly number[] => [
  ...new Set([partitionOf(fairnessKey), ...homesOf(fairnessKey, shared?.partitionNumbers ?? [])]),
];

/** A key lives in one partition, everything else in all. Those that were may be again: what they are told they keep. */
function partitionsOfScope(context: OperateContext, scope: Scope): readonly number[] {
  return typeof scope === 'object' && 'fairnessKey' in scope
    ? partitionsOfKey(context, scope.fairnessKey)
    : partitionsOf(context);
}

const loadAll = (
  context: OperateContext,
  partitions: readonly number[],
): Promise<readonly PartitionState[]> =>
  Promise.all(
    partitions.map((partition) => context.store.loadPartition({ partition, nowMs: context.clock.nowMs() })),
  );

/**
 * Changes a scope's control in each of its partitions. Of two operators who change different things of one scope in the
 * same moment, neither is lost; of one thing, one is superseded in each partition, and may be the other one in another.
 * Where that is a cap, no more runs than the greater one allows: a partition's share never falls when the cap rises. It is
 * not tried again here: who is superseded may have stood still for long, and others know better by now.
 */
export async function changeControl(
  context: OperateContext,
  scope: Scope,
  change: ControlChange,
): Promise<ControlOutcome> {
  const partitions = partitionsOfScope(context, scope);
  const name = printScope(scope);
  const outcomes = await Promise.all(
    partitions.map((partition) => context.store.changeControl({ partition, scope: name, change })),
  );
  // A pause needs no pass to be obeyed; whatever opens a way does.
  if (change.paused !== true) await wakeAll(context, partitions);
  const control = combinedControl(
    name,
    outcomes.map((outcome) => outcome.control),
  );
  return { kind: outcomes.every(({ kind }) => kind === 'changed') ? 'changed' : 'superseded', control };
}

/** Controls in force, by scope. */
export async function readControls(context: OperateContext): Promise<readonly Control[]> {
  const states = await loadAll(context, partitionsOf(context));
  const byScope = Map.groupBy(
    states.flatMap((state) => state.controls),
    (control) => control.scope,
  );
  return [...byScope].map(([scope, parts]) => combinedControl(scope, parts));
}

/**
 * What the partitions' controls of one scope say together: all are the same, but while a change is under way, or did not
 * reach all. A cap is the whole pool's, each partition takes its share of it.
 */
export function combinedControl(scope: string, parts: readonly Control[]): Control {
  const caps = parts.flatMap(({ maxConcurrency }) => (maxConcurrency === undefined ? [] : [maxConcurrency]));
  return {
    scope,
    paused: parts.some((part) => part.paused),
    ...present('maxConcurrency', caps.length === 0 ? undefined : Math.max(...caps)),
    ...present('weight', parts.find((part) => part.weight !== undefined)?.weight),
  };
}

function present<Name extends string>(
  name: Name,
  value: number | undefined,
): { readonly [Key in Name]?: number } {
  return (value === undefined ? {} : { [name]: value }) as { readonly [Key in Name]?: number };
}

/** A wake that is lost costs a minute at most: the tick looks too. */
async function wakeAll(context: OperateContext, partitions: readonly number[]): Promise<void> {
  await Promise.allSettled(partitions.map((partition) => context.queue.sendWake({ partition })));
}

/** How often a drain looks, at first and at last. */
const LOOK_FIRST_MS = 200;
const LOOK_LAST_MS = 5_000;

export interface DrainOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Hears how many jobs of the scope hold capacity, each time that was looked up. */
  readonly onProgress?: ((running: number) => void) | undefined;
}

export interface DrainOutcome {
  /** `superseded`: somebody else has ended the pause in the moment it began. */
  readonly kind: 'drained' | 'timedOut' | 'aborted' | 'superseded';
  /** Jobs of the scope that hold capacity: reserved, claimed or running. */
  readonly running: number;
}

/**
 * Pauses a scope and waits until none of its jobs holds capacity.
 *
 * A pass that had read the controls before the pause may still admit a job, but only by a commit that follows the version which it
 * loaded. So nothing runs any more, for certain, once a newer version was seen together with no job in flight. A wake makes one.
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
      .filter((entry) => isInScope(scope, entry)).length;
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
