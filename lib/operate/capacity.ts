/** Reads how much of each cap and rate is used, and which conflict keys are held. */

import { type Control, type ControlEntry, lastChange } from '../core/capacity.ts';
import type { PoolConfiguration } from '../core/configuration.ts';
import { conflictKeysOf, typesByName } from '../core/conflict.ts';
import { LimitGates, type RateUse } from '../core/limits.ts';
import { type CapScope, declaredCaps, parseScope, printScope, scopesOf } from '../core/scope.ts';
import { heldIn } from '../dispatch/partition/depth.ts';
import type { PartitionState } from '../store/contract/records.ts';
import { combinedControl, loadAll, type OperateContext, partitionsOf } from './controls.ts';

/** A scope that is capped, or that an operator has changed, and the jobs that hold capacity in it. */
export interface ScopeUse {
  /** The scope's text, such as `tier/standard`, as in explanations and controls. */
  readonly scope: string;
  /** The declared cap; undefined if there is none. */
  readonly declared?: number | undefined;
  /** The cap in force: the declared one, or an operator's. Undefined: any number of jobs may run. */
  readonly cap?: number | undefined;
  /** Jobs that hold capacity: reserved, claimed or running. */
  readonly running: number;
  readonly paused: boolean;
  /** A handler has asked for a cool-down: no job of the scope starts before this instant, epoch ms. */
  readonly restsUntilMs?: number | undefined;
  /** The operators' changes that set the cap and the pause in force. */
  readonly capSet?: ControlEntry | undefined;
  readonly pauseSet?: ControlEntry | undefined;
}

export interface CapacityView {
  readonly readAtMs: number;
  /** The pool, its tiers, types and limits, and each other scope that an operator has changed. */
  readonly scopes: readonly ScopeUse[];
  readonly rates: readonly RateUse[];
}

/** A conflict key that is held, or for which jobs are parked. */
export interface LockView {
  readonly conflictKey: string;
  /** Ids of the jobs that hold the conflict key. */
  readonly holders: readonly string[];
  /** How many jobs are parked until the key is free, counted up to `LOCK_BOUNDS.parked`. */
  readonly parked: number;
  readonly more: boolean;
}

export const LOCK_BOUNDS = {
  /** The most conflict keys of one partition whose parked jobs are counted. */
  keys: 100,
  /** The most jobs that are counted for each of these keys. */
  parked: 1_000,
} as const;

/** Reads the use of every cap and rate, with one strongly consistent read of each partition. */
export async function readCapacity(context: OperateContext): Promise<CapacityView> {
  const { configuration, clock } = context;
  const states = await loadAll(context, partitionsOf(context));
  const entries = states.flatMap(({ reservations }) =>
    reservations.flatMap(({ jobs }) => [...jobs.values()]),
  );
  const controls = states.flatMap((state) => state.controls);
  const running = new Map<string, number>();
  for (const entry of entries)
    for (const scope of scopesOf(configuration, entry)) running.set(scope, (running.get(scope) ?? 0) + 1);
  const declared = new Map(declaredCaps(configuration).map(({ scope, cap }) => [scope, cap]));
  const controlsOf = Map.groupBy(controls, ({ scope }) => scope);
  return {
    readAtMs: clock.nowMs(),
    scopes: scopesShown(configuration, controls).map((scope) =>
      useOf(
        combinedControl(scope, controlsOf.get(scope) ?? []),
        declared.get(scope) ?? undefined,
        running.get(scope) ?? 0,
      ),
    ),
    rates: ratesOf(configuration, states, clock.nowMs()),
  };
}

/**
 * Returns the scopes to show: the pool, tiers, types and limits, then other scopes with a control. Fleets have a read
 * of their own.
 */
function scopesShown(
  { tiers, types, limits = [] }: PoolConfiguration,
  controls: readonly Control[],
): readonly string[] {
  const named: readonly CapScope[] = [
    'pool',
    ...tiers.map(({ tier }) => ({ tier })),
    ...types.map(({ type }) => ({ type })),
    ...limits.map(({ limit }) => ({ limit })),
  ];
  const texts = new Set([...named.map(printScope), ...controls.map(({ scope }) => scope)]);
  return [...texts].filter((text) => parseScope(text) !== undefined);
}

function useOf(control: Control, declared: number | undefined, running: number): ScopeUse {
  const cap = control.maxConcurrency ?? declared;
  return {
    scope: control.scope,
    ...(declared === undefined ? {} : { declared }),
    ...(cap === undefined ? {} : { cap }),
    running,
    paused: control.paused,
    ...(control.restsUntilMs === undefined ? {} : { restsUntilMs: control.restsUntilMs }),
    ...(control.maxConcurrency === undefined ? {} : { capSet: lastChange(control, 'maxConcurrency') }),
    ...(control.paused ? { pauseSet: lastChange(control, 'paused') } : {}),
  };
}

function ratesOf(
  configuration: PoolConfiguration,
  states: readonly PartitionState[],
  nowMs: number,
): readonly RateUse[] {
  const gates = new LimitGates(configuration);
  if (gates.isEmpty) return [];
  const numbers = new Map(configuration.types.map(({ type }, at) => [type, at]));
  gates.beginPass(nowMs);
  for (const { uses, reservations } of states) {
    if (uses !== undefined) gates.setUses(uses);
    for (const { jobs } of reservations)
      for (const entry of jobs.values())
        gates.count({
          limits: gates.numbersOf(numbers.get(entry.type) ?? -1, entry),
          fairnessKey: entry.fairnessKey,
          units: entry.units,
          startByMs: entry.startByMs,
          costMs: entry.estimatedCostMs,
        });
  }
  return gates.rates;
}

/** Reads the conflict keys that are held, and those for which jobs are parked, from an index that may lag. */
export async function readLockViews(context: OperateContext): Promise<readonly LockView[]> {
  const { store, configuration, clock } = context;
  const types = typesByName(configuration);
  const views = new Map<string, LockView>();
  const add = (conflictKey: string, more: Partial<LockView>): void => {
    const before = views.get(conflictKey) ?? { conflictKey, holders: [], parked: 0, more: false };
    views.set(conflictKey, {
      conflictKey,
      holders: [...before.holders, ...(more.holders ?? [])],
      parked: before.parked + (more.parked ?? 0),
      more: before.more || more.more === true,
    });
  };
  for (const partition of partitionsOf(context)) {
    const { places } = heldIn(await store.loadPartition({ partition, nowMs: clock.nowMs() }));
    for (const entry of places.values())
      for (const conflictKey of conflictKeysOf(types, entry)) add(conflictKey, { holders: [entry.id] });
    const { marks } = await store.listParked({ partition, limit: LOCK_BOUNDS.keys });
    for (const { conflictKey } of marks) {
      const line = { partition, line: { conflictKey }, limit: LOCK_BOUNDS.parked };
      const { jobs, next } = await store.readLine(line);
      if (jobs.length > 0) add(conflictKey, { parked: jobs.length, more: next !== undefined });
    }
  }
  return [...views.values()].toSorted((one, other) => other.parked - one.parked);
}
