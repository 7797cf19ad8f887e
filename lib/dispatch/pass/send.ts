/** Tells fleets of claims. */
import { jobsPerMessage } from '../../core/capacity.ts';
import type { DispatchMessage, FleetMessage } from '../../queue/contract.ts';
import type { DispatchContext } from '../partition/context.ts';

/** Sends to the fleets. What is not accepted is sent again when its reservation is checked. */
export async function send(context: DispatchContext, messages: readonly FleetMessage[]): Promise<void> {
  const byFleet = Map.groupBy(messages, ({ fleet }) => fleet);
  await Promise.all(
    [...byFleet].flatMap(([fleet, ofFleet]) => {
      const those = (isAlone: boolean): readonly DispatchMessage[] =>
        ofFleet.filter((each) => each.isAlone === isAlone).map(({ message }) => message);
      return [
        sendToFleet(context, fleet, those(true), 1),
        sendToFleet(context, fleet, those(false), together(context, fleet)),
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

/** Jobs of the fleet that one message names. One that the declaration does not know any more is told of each by itself. */
function together({ configuration }: DispatchContext, fleet: string): number {
  const declared = configuration.fleets.find((each) => each.fleet === fleet);
  return declared === undefined ? 1 : jobsPerMessage(declared);
}
