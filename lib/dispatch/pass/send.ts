/** Tells fleets of claims. */
import type { DispatchMessage } from '../../queue/contract.ts';
import type { DispatchContext } from '../context.ts';

/** Sends to the fleets. What is not accepted is sent again when its reservation is checked. */
export async function send(
  context: DispatchContext,
  messages: readonly { readonly fleet: string; readonly message: DispatchMessage }[],
): Promise<void> {
  const byFleet = Map.groupBy(messages, ({ fleet }) => fleet);
  await Promise.all(
    [...byFleet].map(async ([fleet, ofFleet]) => {
      try {
        const unsent = await context.queue.send(
          fleet,
          ofFleet.map(({ message }) => message),
        );
        if (unsent.length > 0)
          context.log.warn('messages were not accepted', { fleet, unsent: unsent.length });
      } catch (error) {
        context.log.warn('messages could not be sent', {
          fleet,
          messages: ofFleet.length,
          error: String(error),
        });
      }
    }),
  );
}
