/**
 * Worlds in which nothing fails but processes and functions, which are killed while they run jobs: in pools where little else happens, down to
 * one worker with one job, and in busy ones.
 */
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { JobTypeInput } from '../../lib/core/pool-input.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import {
  FAULT_CLASSES,
  type FaultClass,
  type PlannedEvent,
  type PlannedJob,
  type SimulationPlan,
} from './plan.ts';
import { diceOf, seeded } from './random.ts';

/** Kills happen until then. */
const KILLS_UNTIL_MS = 240_000;
const FLEET = 'farm';

export function crashPlanOf(seed: number): SimulationPlan {
  const dice = diceOf(seeded(seed ^ 0x2c1b3c6d));
  const isBusy = dice.chance(0.4);
  const partitions = dice.pick([1, 1, 1, 2]);
  const types: Record<string, JobTypeInput> = Object.fromEntries(
    Array.from({ length: dice.whole(1, 2) }, (_, at) => [
      `type-${at}`,
      {
        tier: 'standard',
        timeoutMs: 200_000,
        onWorkerLost: dice.pick(['retry', 'resume'] as const),
        conflictGroup: dice.chance(0.3) ? 'catalogue' : null,
        retry: { maxWorkersLost: 5 },
      },
    ]),
  );
  const [firstName = '', ...otherNames] = Object.keys(types);
  const names = [firstName, ...otherNames] as const;
  const hasFunctions = dice.chance(0.3);
  const functions = hasFunctions ? { lambda: { types: [firstName], slots: 2 } } : {};
  const configuration = resolveConfiguration({
    types,
    tiers: [{ tier: 'standard' }],
    fleets: { [FLEET]: { types: [...names] }, ...functions },
    partitions,
  });
  const processes = Array.from({ length: dice.pick([1, 1, 2, 3]) }, (_, at) => ({
    fleet: FLEET,
    workerId: `${FLEET}/${at}`,
    slots: dice.whole(partitions, partitions + 2),
  }));
  // Of its own, so that it changes no other draw.
  const own = diceOf(seeded(seed ^ 0x57e9));
  const count = isBusy ? dice.whole(30, 60) : dice.whole(1, 3);
  const jobs = Array.from(
    { length: count },
    (): PlannedJob => ({
      type: dice.pick(names),
      fairnessKey: `key-${dice.whole(0, 3)}`,
      ...(dice.chance(0.5) ? { resourceId: `resource-${dice.whole(0, 3)}` } : {}),
      priority: 0,
      mode: 'queued',
      askedAtMs: dice.whole(0, isBusy ? KILLS_UNTIL_MS : 60_000),
      delayMs: 0,
      durationMs: isBusy ? dice.pick([200, 3_000, 15_000]) : dice.pick([20_000, 60_000, 120_000]),
      via: dice.pick(['bus', 'client'] as const),
      waitsMs: 0,
      diesWithWaiter: false,
      checkpoints: dice.chance(0.5),
      steps: own.chance(0.3),
      fails: false,
      heeds: true,
    }),
  );
  const events = Array.from(
    { length: dice.whole(1, 6) },
    (): PlannedEvent => ({
      atMs: dice.whole(3_000, KILLS_UNTIL_MS),
      kills: dice.chance(hasFunctions ? 0.3 : 0)
        ? 'worker-lambda'
        : `process-${FLEET}/${dice.whole(0, processes.length - 1)}`,
    }),
  );
  const skewMaxMs = dice.pick([0, 0, 1_000]);
  return {
    seed,
    configuration,
    budget: DISPATCH_BUDGET,
    jobs,
    processes,
    residents: dice.chance(0.25) ? [{ dispatcherId: 'dispatcher/0', pollMs: 250 }] : [],
    rates: Object.fromEntries(FAULT_CLASSES.map((fault) => [fault, 0])) as Record<FaultClass, number>,
    store: {},
    // Queues deliver twice, now and then: looks must not multiply.
    queue: { duplicated: dice.pick([undefined, 0.3]) },
    bus: {},
    skewMaxMs,
    faultsUntilMs: KILLS_UNTIL_MS + 60_000,
    endless: false,
    latencyMaxMs: dice.pick([5, 30, 200]),
    malformed: 0,
    events,
  };
}
