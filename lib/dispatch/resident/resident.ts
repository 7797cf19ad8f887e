/**
 * A resident: a dispatcher process that keeps running, beside dispatch functions or in their place. It is a member while it
 * renews its record. The ring of members gives it partitions to lead (`../lead/lead.ts`) and others to be on standby for.
 *
 * Safety comes from each partition's version alone: two dispatchers that both believe to lead a partition do no harm. So an
 * outdated, lost or overlong membership only costs time. If there is no member, or a leader does not lead, functions make the
 * passes.
 *
 * With a membership lease L, clocks that differ by at most S, and a margin M:
 *
 *     t            a renewal is about to be sent (by the dispatcher's monotonic clock)
 *     t + L - M    it stops leading, unless a newer renewal was answered
 *     t + L        the earliest instant at which another dispatcher sees the record expired, as it says L + S
 *
 * L is the configured lease. It is longer while the store answers slowly, as a worker's lease is (`../worker/membership.ts`).
 */

import { ThrottledError, UnavailableError } from '../../core/errors.ts';
import { leaseExtensionMs } from '../../core/lease.ts';
import { untilAborted } from '../../runtime/abort.ts';
import { incarnationOf } from '../../runtime/incarnation.ts';
import { REPEAT_MS, ROUNDS_PER_LEASE } from '../tuning.ts';
import { Duties } from './duties.ts';
import { LoadMeter } from './load.ts';
import { Membership } from './membership.ts';
import { type ResidentEnd, type ResidentOptions, type ResidentReport, settingsOf } from './options.ts';
import { ResidentContext } from './resident-context.ts';

/**
 * Runs a dispatcher until its signal is aborted, or another incarnation of its id begins. Once this resolves, the dispatcher
 * makes no more passes and leads nothing; only if a request hangs do its leads last until they expire.
 *
 * @throws ConfigurationError - before anything was done
 * @throws the store's errors - if it could not become a member, and waiting would not help
 */
export async function runDispatcher(options: ResidentOptions): Promise<ResidentReport> {
  const settings = settingsOf(options);
  const { clock, random, log, dispatcherId, signal } = settings;
  const life = { dispatcherId, incarnation: incarnationOf(clock.nowMs(), random()) };
  const ending = new AbortController();
  const shared = new ResidentContext(settings, life);
  const meter = new LoadMeter(settings, shared, ending.signal);
  const membership = new Membership(settings, life, meter);
  const duties = new Duties(settings, shared, meter, membership);

  const onSignal = (): void => {
    ending.abort();
    duties.drop();
  };
  let end: ResidentEnd = 'stopped';
  if (signal.aborted) onSignal();
  signal.addEventListener('abort', onSignal);
  try {
    end = await stayMember({ membership, duties, shared }, ending, settings.memberLeaseMs, {
      clock,
      log,
      life,
    });
  } finally {
    signal.removeEventListener('abort', onSignal);
    onSignal();
  }
  const over = new AbortController();
  // The membership ends first, so that others take over the partitions as soon as the last passes are over.
  const left = Promise.all([membership.leave(), meter.counting, duties.ended()]);
  void left.then(() => over.abort());
  await clock.sleep(settings.shutdownMs, over.signal);
  if (!over.signal.aborted) {
    const { shutdownMs } = settings;
    log.warn('a pass did not end in time; its lead expires', { ...life, shutdownMs });
  }
  const { totals } = duties;
  log.info('dispatcher ended', { ...life, end, ...totals });
  return { end, ...totals };
}

/** Renews the membership and takes the partitions that it assigns, until the end. */
async function stayMember(
  {
    membership,
    duties,
    shared,
  }: { readonly membership: Membership; readonly duties: Duties; readonly shared: ResidentContext },
  ending: AbortController,
  memberLeaseMs: number,
  { clock, log, life }: Pick<ResidentOptions, 'clock' | 'log'> & { readonly life: object },
): Promise<ResidentEnd> {
  let hasBeenMember = false;
  /** Renews the membership and assigns roles by the live members. */
  const renewAndAssign = async (): Promise<'member' | 'superseded'> => {
    const members = await membership.renew(duties.led(), duties.count);
    if (members === 'superseded') return members;
    if (!ending.signal.aborted && membership.isMember()) duties.assign(members);
    // planted: deaf-resident
    await shared.keepUp();
    return 'member';
  };
  while (!ending.signal.aborted) {
    let pauseMs = memberLeaseMs / ROUNDS_PER_LEASE;
    try {
      // A hanging renewal does not delay the end. If it arrives after the end, it is refused.
      if ((await untilAborted(renewAndAssign(), ending.signal)) === 'superseded') {
        ending.abort();
        log.warn('another incarnation of this dispatcher has started', { ...life });
        return 'superseded';
      }
      hasBeenMember = true;
      const { slowMs } = membership;
      // A slow store needs earlier renewals, as a worker's heartbeat does.
      if (leaseExtensionMs(memberLeaseMs, slowMs) > 0) pauseMs = Math.max(0, pauseMs - slowMs);
    } catch (error) {
      const isTransient = error instanceof ThrottledError || error instanceof UnavailableError;
      if (!isTransient && !hasBeenMember) throw error;
      log.warn('the membership was not renewed; trying again', { ...life, error: String(error) });
      pauseMs = Math.min(pauseMs, REPEAT_MS);
    }
    if (!membership.isMember()) duties.drop();
    await clock.sleep(pauseMs, ending.signal);
  }
  return 'stopped';
}
