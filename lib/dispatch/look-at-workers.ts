/**
 * Checks the workers of a partition between its passes: one read and one small write, and no commit. While all leases
 * are valid it only sends the next check. If a worker's lease has ended, it makes a pass.
 *
 * If checks were sent twice, all but one end: each notes its time in the partition, and a check ends if it finds
 * another time there. A lost check costs time: the next pass, which the minute's tick causes at the latest, sends a new
 * one.
 */

import { WAKE_STEP_MS } from '../queue/contract.ts';
import { dispatch } from './dispatch.ts';
import type { DispatchContext } from './partition/context.ts';
import {
  extendObservation,
  joinObservations,
  mayDeclareLost,
  nextLeaseEndMs,
  nextWorkerCheckAtMs,
  runsOnWorkers,
  sendNextCheck,
  suspicionOf,
} from './recovery/silence.ts';
import { TRIES_MAX } from './tuning.ts';

/** Result of a check. */
export type LookReport =
  /** No job runs on a worker process any more, or a later check was noted. */
  | 'over'
  /** All leases are valid, or it is too early to say: another check follows. */
  | 'goesOn'
  /** A lease has ended, and a pass was made. */
  | 'passed';

/**
 * Checks the workers once.
 * @param atMs - epoch ms that was noted for this check
 */
export async function lookAtWorkers(
  context: DispatchContext,
  partition: number,
  atMs: number,
): Promise<LookReport> {
  const { store, clock } = context;
  let hasWaited = false;
  for (let reads = 0; reads < TRIES_MAX; reads += 1) {
    const nowMs = clock.nowMs();
    const state = await store.loadPartition({ partition, nowMs });
    const places = state.reservations.flatMap(({ jobs }) => [...jobs.values()]);
    // planted: looks-of-others-too
    if (state.lookout?.nextAtMs !== atMs || !runsOnWorkers(state, places)) return 'over';
    const waitMs = (nextLeaseEndMs(state, nowMs) ?? Infinity) - nowMs + 1;
    // Messages are delayed by whole seconds. If a lease ends sooner than that, the check waits for it.
    if (waitMs <= WAKE_STEP_MS && !hasWaited) {
      hasWaited = true;
      await clock.sleep(waitMs);
      continue;
    }
    const known = joinObservations(state.observation, state.lookout);
    const observation = extendObservation(known, nowMs, clock.nowMs());
    const applied = await sendNextCheck(context, partition, state.lookout, {
      sinceMs: observation.sinceMs,
      atMs: observation.atMs,
      nextAtMs: nextWorkerCheckAtMs(state, observation, nowMs, clock.nowMs()),
      judgedUntilMs: state.lookout?.judgedUntilMs ?? 0,
    });
    if (applied === 'superseded') continue;
    if (suspicionOf(state, nowMs) === undefined || !mayDeclareLost(observation, nowMs)) return 'goesOn';
    await dispatch(context, partition, { jobs: [], reason: 'wake' });
    return 'passed';
  }
  return 'over';
}
