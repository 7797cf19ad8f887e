/**
 * That nothing waits: an instant, in place of all the lines that were found empty. A pass that leaves nothing waiting, by all that was read
 * and told, writes it into the partition summary with what it commits anyway. The next pass, of any dispatcher, then reads only lines that
 * hints tell of. A pass that leaves something waiting takes it back, if need be with a commit of its own.
 *
 * An index lags. So a pass that leaves a job waiting of which it was told writes `unseenUntilMs` as well, and a pass says that
 * nothing waits only if it has read all lines to their ends from that instant on (test/protocol/quiet_model.py).
 *
 * All lines are read again after `LOOK_AROUND_MS`: a job whose every hint was lost starts with the first pass after that. It holds for one
 * declaration, and not while jobs are parked, or keys move between partitions.
 */
import type { Quiet } from '../../store/contract/records.ts';
import type { DispatchContext } from '../partition/context.ts';
import type { Order, View } from '../view/view.ts';

export interface QuietInput {
  readonly order: Pick<Order, 'nameOf'>;
  readonly nowMs: number;
  /** A read of the lines that began before says too little. */
  readonly unseenUntilMs: number;
}

/** What is known of the partition if no job is left that is known to wait; undefined: not all lines were read to their ends. */
export function quietOf(
  { configuration, deployed }: Pick<DispatchContext, 'configuration' | 'deployed'>,
  view: View,
  { order, nowMs, unseenUntilMs }: QuietInput,
): Quiet | undefined {
  if (view.isBlind) return undefined;
  let lookedAtMs = nowMs;
  for (const { type } of configuration.types) {
    const known = view.keys.get(type);
    if (known === undefined || known.next !== undefined) return undefined;
    lookedAtMs = Math.min(lookedAtMs, known.readAtMs);
    for (const { fairnessKey, lines } of known.keys.values()) {
      for (const { mode } of lines) {
        const line = view.lines.get(order.nameOf({ type, mode, fairnessKey }));
        // planted: quiet-though-the-line-goes-on
        if (line === undefined || line.next !== undefined) return undefined;
        lookedAtMs = Math.min(lookedAtMs, line.readAtMs);
      }
    }
  }
  const declared = deployed === undefined ? {} : { declared: deployed.version };
  // planted: quiet-before-whole
  return lookedAtMs < unseenUntilMs ? undefined : { lookedAtMs, ...declared };
}
