/**
 * Whether nothing waits in a partition, as a single instant instead of a list of lines that were found empty. A pass that leaves
 * nothing waiting writes this instant into the partition summary, with a commit that it makes anyway. The next pass of any
 * dispatcher then reads only lines that hints name. A pass that leaves a job waiting removes the statement, if need be with a
 * commit of its own.
 *
 * An index lags. So a pass that leaves a job waiting that a hint reported also writes `unseenUntilMs`. A pass may state that
 * nothing waits only if it has read all lines to their ends from that instant on (test/protocol/quiet_model.py).
 *
 * All lines are read again after `LOOK_AROUND_MS`: the first pass after that starts a job whose hints were all lost. The
 * statement holds for one declaration, and not while jobs are parked or keys move between partitions.
 */
import type { NothingWaits } from '../../store/contract/records.ts';
import type { DispatchContext } from '../partition/context.ts';
import type { Order, View } from '../view/view.ts';

export interface QuietInput {
  readonly order: Pick<Order, 'nameOf'>;
  readonly nowMs: number;
  /** Epoch ms: reads of lines that began before it may miss jobs, so they do not count. */
  readonly unseenUntilMs: number;
}

/**
 * Returns the statement that nothing waits, with the instant since when, if the view knows of no waiting job.
 * Undefined: not all lines were read to their ends.
 */
export function quietOf(
  { configuration, deployed }: Pick<DispatchContext, 'configuration' | 'deployed'>,
  view: View,
  { order, nowMs, unseenUntilMs }: QuietInput,
): NothingWaits | undefined {
  if (view.hasHiddenJobs) return undefined;
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
