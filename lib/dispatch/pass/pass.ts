/**
 * One pass: load, settle, plan, admit (reserve, claim, send), close. The steps that take capacity are named as in the model
 * of the protocol (test/protocol): loads → reserves → sends the claim → raises the version → drops.
 *
 * Bounds: one partition read, at most `checkMax` reservations looked up, `promoteMax` due jobs in each of ten rounds, and
 * as many heads as the planner asks for, which is bounded by the free capacity.
 */
import { betweenPartitions } from '../between-partitions.ts';
import type { DispatchContext } from '../context.ts';
import type { HeldLease } from '../lease.ts';
import { openCache } from '../partition-cache.ts';
import { Admission } from './admit.ts';
import { close } from './close.ts';
import { type Commits, LeaseLostError, LeaseNeededError } from './commits.ts';
import { withFewLooks } from './late-hints.ts';
import { load } from './load.ts';
import { plan } from './plan.ts';
import type { LostPass, OutdatedPass, PassInput, PassReport } from './scope.ts';
import { settle } from './settle.ts';

/**
 * Makes one pass under a lease, or without one where the partition is open. `lost`: somebody has superseded it; nothing that follows
 * would count. `outdated`: nothing was decided, because the partition knows of a newer declaration.
 *
 * @throws LeaseNeededError if it was to be made without the lease, and cannot: nothing was decided
 */
export async function pass(
  context: DispatchContext,
  lease: HeldLease,
  given: PassInput,
): Promise<PassReport | LostPass | OutdatedPass> {
  const { partition, epoch } = lease.fence;
  const known = context.caches.get(partition);
  const cached = openCache(context.caches, partition, epoch, lease.isOpen);
  const nowMs = context.clock.nowMs();
  let admission: Admission | undefined;
  let commits: Commits | undefined;
  try {
    const between = betweenPartitions(context, partition);
    const input = withFewLooks(given, cached.lines, nowMs);
    const loaded = await load({ context, lease, input, partition, between, nowMs, cached });
    if ('kind' in loaded) return loaded;
    commits = loaded.commits;
    const planned = await plan(await settle(loaded));
    admission = new Admission(planned);
    await admission.run();
    return await close(planned, admission);
  } catch (error) {
    // Nothing of it is under way once the lease is given back.
    await commits?.written().catch(() => {});
    if (error instanceof LeaseLostError) {
      const { admitted = 0, lostClaims = 0 } = admission ?? {};
      return { kind: 'lost', needsLease: error.needsLease, admitted, lostClaims };
    }
    if (error instanceof LeaseNeededError && known !== undefined) context.caches.set(partition, known);
    throw error;
  }
}
