/**
 * A resident: a dispatcher that runs on, beside the functions or in their stead. It is a member as long as it renews its
 * record; the members' ring gives it partitions to lead (`../lead/lead.ts`) and others to stand by for.
 *
 * Safety is the partition's version alone: two dispatchers that both believe to lead one partition do no harm. So membership may lag, get
 * lost, or be believed too long: it costs time. Where there is no member, or a leader does not lead, functions make the passes.
 *
 * With a membership lease L, clocks that differ by at most S, and a margin M:
 *
 *     t            the renewal is about to be sent (by the dispatcher's monotonic clock)
 *     t + L - M    without a newer one that was answered: it stops leading
 *     t + L        the earliest instant at which anybody sees the record expired: it says L + S
 *
 * L is the configured one, and more while the store answers slowly, as with a worker's (`../worker/membership.ts`).
 */

import { ThrottledError, UnavailableError } from '../../core/errors.ts';
import { leaseExtensionMs } from '../../core/lease.ts';
import { orAborted } from '../../runtime/abort.ts';
import { incarnationOf } from '../../runtime/incarnation.ts';
import { REPEAT_MS, ROUNDS_PER_LEASE } from '../tuning.ts';
import { Duties } from './duties.ts';
import { LoadMeter } from './load.ts';
import { Membership } from './membership.ts';
import { type ResidentEnd, type ResidentOptions, type ResidentReport, settingsOf } from './options.ts';
import { ResidentContext } from './resident-context.ts';

/**
 * Runs a dispatcher until it is told to end, or another life of its name begins. When this resolves, it makes no more
 * passes and leads nothing, unless a request hung: then its leads expire.
 *
 * @throws ConfigurationError - before anything was done
 * @throws the store's errors - when it could not become a member, and waiting does not help
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
  // First others learn that it goes; they have its partitions as soon as their last passes are over.
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

/** Renews the membership, and takes the partitions that it gives, until it is to end. */
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
  /** Says that it lives, and looks who else does. */
  const round = async (): Promise<'member' | 'superseded'> => {
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
      // A renewal that hangs does not hold up the end; if it arrives after it, it is refused.
      if ((await orAborted(round(), ending.signal)) === 'superseded') {
        ending.abort();
        log.warn('another life of this dispatcher has begun', { ...life });
        return 'superseded';
      }
      hasBeenMember = true;
      const { slowMs } = membership;
      // As a worker's heartbeat: it asks for more while there is time.
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
