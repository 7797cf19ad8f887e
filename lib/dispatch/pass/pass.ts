/**
 * One pass. Its steps, which stand in this list only:
 *
 *  - load: reads the partition with its version, and promotes the jobs that are due
 *  - settle: gives back the capacity of attempts that have ended
 *  - plan: decides which jobs may start
 *  - commit: writes settlement and reservations, on condition of the version that was loaded
 *  - send: tells the fleets' queues, after the answer to that commit
 *
 * A pass that is refused has decided nothing: what it did before its commit is idempotent by the jobs' versions. The steps that take
 * capacity are named as in the models of the protocol (test/protocol).
 *
 * Bounds: one partition read, at most `checkMax` reservations looked up, `promoteMax` due jobs in each of ten rounds, and
 * as many heads as the planner asks for, which is bounded by the free capacity.
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
 * `outdated`: nothing was decided, because the partition knows of a newer declaration.
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
    // Nothing of it is under way when it is answered.
    await commits?.written().catch(() => {});
    if (!(error instanceof CommitLostError)) throw error;
    const { admitted = 0, lostClaims = 0 } = admission ?? {};
    return { kind: 'lost', admitted, lostClaims };
  }
}
