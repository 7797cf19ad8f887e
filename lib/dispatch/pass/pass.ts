/**
 * One pass over a partition. This file calls the steps in order; each step has a file of its own.
 *
 *  - load: reads the partition with its version, and promotes what is due
 *  - settle: releases the capacity of ended attempts, and looks up those that are due for a check
 *  - plan: opens a planner with the free capacity and the candidates
 *  - admit: commits settlement and reservations on condition of the loaded version, then sends each batch to its fleet's queue
 *  - close: parks blocked jobs, lends capacity, and asks for the next pass
 *
 * A pass whose first commit is refused has decided nothing: its earlier writes are idempotent by the jobs' versions. The steps
 * that take capacity have the same names as in the protocol models (test/protocol).
 *
 * Bounds: one read of the partition, at most `checkMax` reservations looked up, `promoteMax` due jobs in each of ten reads, and
 * as many heads as the planner asks for, which the free capacity bounds.
 */

import { CommitLostError, type Commits } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { betweenPartitions } from '../partitions/between-partitions.ts';
import { openCache } from '../view/partition-cache.ts';
import { Admission } from './admit.ts';
import { close } from './close.ts';
import { load } from './load.ts';
import { plan } from './plan.ts';
import type { LedPass, LostPass, OutdatedPass, PassInput, PassReport } from './scope.ts';
import { settle } from './settle.ts';

/**
 * Makes one pass. `lost`: another commit came first. `led`: nothing was decided, because another dispatcher leads the partition.
 * `outdated`: nothing was decided, because the partition has a newer declaration.
 */
export async function pass(
  context: DispatchContext,
  partition: number,
  input: PassInput,
): Promise<PassReport | LostPass | LedPass | OutdatedPass> {
  const cached = openCache(context.caches, partition, input.leadBy);
  const nowMs = context.clock.nowMs();
  let admission: Admission | undefined;
  let commits: Commits | undefined;
  try {
    const between = betweenPartitions(context, partition);
    const loaded = await load({ context, input, partition, between, nowMs, cached });
    if ('kind' in loaded) return loaded;
    commits = loaded.commits;
    const planned = await plan(await settle(loaded));
    admission = new Admission(planned);
    await admission.run();
    return await close(planned, admission);
  } catch (error) {
    // Wait for the commits that have begun, so that none is under way when the caller gets its answer.
    await commits?.written().catch(() => {});
    if (!(error instanceof CommitLostError)) throw error;
    const { admitted = 0, lostClaims = 0 } = admission ?? {};
    return { kind: 'lost', admitted, lostClaims };
  }
}
