/** What can go wrong with a queue. A message that was not accepted is a value in the answer. */

/** The fleet has no queue here. */
export class UnknownFleet extends Error {
  override readonly name = 'UnknownFleet';

  constructor(fleet: string, known: readonly string[]) {
    super(
      `fleet ${JSON.stringify(fleet)} has no queue; the stack has queues for: ${known.join(', ') || 'none'}; deploy it again`,
    );
  }
}

/** The queue, or the right to use it, is missing: waiting does not help. */
export class QueueMisconfigured extends Error {
  override readonly name = 'QueueMisconfigured';
}

/** No answer, or too many requests. The request may have been applied: repeat it, messages bear that. */
export class QueueUnavailable extends Error {
  override readonly name = 'QueueUnavailable';
}

/** The queue does not take such a request. */
export class QueueRefused extends Error {
  override readonly name = 'QueueRefused';
}
