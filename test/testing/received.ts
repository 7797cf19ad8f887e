/** What workers of tests read in the messages that they received. */
import type { DispatchMessage, ReceivedMessage } from '../../lib/queue/contract.ts';

/** Each job that was told of, with the receipt of its message. */
export const toldJobs = (
  received: readonly ReceivedMessage[],
): readonly { readonly message: DispatchMessage; readonly receipt: string }[] =>
  received.flatMap(({ jobs, receipt }) => jobs.map((message) => ({ message, receipt })));

/** The only job that a message tells of. */
export function onlyJob(received: ReceivedMessage | undefined): DispatchMessage {
  const [job, ...others] = received?.jobs ?? [];
  if (job === undefined || others.length > 0)
    throw new Error(`one job was awaited, and ${received?.jobs.length ?? 'no'} came`);
  return job;
}
