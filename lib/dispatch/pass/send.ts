/**
 * Part of the settle and admit steps: sends jobs to the queues of their fleets. A job's first message follows the commit that
 * reserves it; recovery sends messages again that may be lost.
 */
import { jobsPerMessage } from '../../core/capacity.ts';
import type { DispatchMessage, FleetMessage } from '../../queue/contract.ts';
import type { DispatchContext } from '../partition/context.ts';

/** Sends messages to the fleets' queues. A message that the queue refuses is sent again when its reservation is checked. */
export async function send(context: DispatchContext, messages: readonly FleetMessage[]): Promise<void> {
  const byFleet = Map.groupBy(messages, ({ fleet }) => fleet);
  await Promise.all(
    [...byFleet].flatMap(([fleet, ofFleet]) => {
      const those = (isAlone: boolean): readonly DispatchMessage[] =>
        ofFleet.filter((each) => each.isAlone === isAlone).map(({ message }) => message);
      return [
        sendToFleet(context, fleet, those(true), 1),
        sendToFleet(context, fleet, those(false), jobsInOneMessage(context, fleet)),
      ];
    }),
  );
}

async function sendToFleet(
  { queue, log }: DispatchContext,
  fleet: string,
  jobs: readonly DispatchMessage[],
  atOnce: number,
): Promise<void> {
  if (jobs.length === 0) return;
  try {
    const unsent = await queue.send(fleet, jobs, atOnce);
    if (unsent.length > 0) log.warn('messages were not accepted', { fleet, unsent: unsent.length });
  } catch (error) {
    log.warn('messages could not be sent', { fleet, messages: jobs.length, error: String(error) });
  }
}

/**
 * Returns how many jobs one message to the fleet may name. A fleet that is no longer declared gets a message for each
 * job.
 */
function jobsInOneMessage({ configuration }: DispatchContext, fleet: string): number {
  const declared = configuration.fleets.find((each) => each.fleet === fleet);
  return declared === undefined ? 1 : jobsPerMessage(declared);
}
