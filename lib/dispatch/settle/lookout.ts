/** Sees to it that somebody looks at the workers of a partition while jobs run there: a look sends the next one. */
import type { ReservedJob } from '../../core/job.ts';
import type { Attendance, Lookout, PartitionState } from '../../store/records.ts';
import type { DispatchContext } from '../context.ts';
import { isOnItsWay, nextLookAtMs, runsOnWorkers } from './silence.ts';

/** Notes a look, and sends the next one. `superseded`: another one was noted meanwhile; nothing was sent. */
export async function lookAgain(
  { store, queue, clock, log }: DispatchContext,
  partition: number,
  seen: Lookout | undefined,
  next: Lookout,
): Promise<'applied' | 'superseded'> {
  const applied = await store.keepLookout({ partition, seen, next });
  if (applied === 'superseded') return applied;
  try {
    await queue.sendLook(partition, Math.max(0, next.nextAtMs - clock.nowMs()));
  } catch (error) {
    log.warn('the next look at the workers was not sent; the next pass sends it', {
      partition,
      error: String(error),
    });
    // Else passes would take it for on its way.
    await store.keepLookout({ partition, seen: next, next: { ...next, nextAtMs: 0 } });
  }
  return applied;
}

export interface AfterPass {
  /** As the pass has loaded it, not before `loadedAtMs`. */
  readonly state: PartitionState;
  readonly loadedAtMs: number;
  /** What holds capacity after it. */
  readonly held: readonly ReservedJob[];
  readonly attendance: Attendance;
  /** What ran under leases that had ended by then was taken; undefined: the pass did not look. */
  readonly judgedUntilMs: number | undefined;
}

/** What a pass leaves to those who look: that it has looked itself, and a first look where none is on its way. Never rejects. */
export async function stayOnLookout(
  context: DispatchContext,
  partition: number,
  { state, loadedAtMs, held, attendance, judgedUntilMs }: AfterPass,
): Promise<void> {
  const { store, clock, log } = context;
  const { lookout } = state;
  const nowMs = clock.nowMs();
  const { sinceMs, atMs } = attendance;
  const isMissing = runsOnWorkers(state, held) && !isOnItsWay(lookout, nowMs);
  const isNews = judgedUntilMs !== undefined && judgedUntilMs > (lookout?.judgedUntilMs ?? 0);
  const judged = Math.max(judgedUntilMs ?? 0, lookout?.judgedUntilMs ?? 0);
  try {
    if (isMissing) {
      const nextAtMs = nextLookAtMs(state, attendance, loadedAtMs, nowMs);
      await lookAgain(context, partition, lookout, { sinceMs, atMs, nextAtMs, judgedUntilMs: judged });
    } else if (isNews) {
      const nextAtMs = lookout?.nextAtMs ?? 0;
      await store.keepLookout({
        partition,
        seen: lookout,
        next: { sinceMs, atMs, nextAtMs, judgedUntilMs: judged },
      });
    }
  } catch (error) {
    log.warn('no look at the workers was asked for; the next pass does it', {
      partition,
      error: String(error),
    });
  }
}
