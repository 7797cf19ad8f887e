/** Errors of the queues. A message that was not accepted is not an error but a returned value. */

/** The fleet has no queue in this deployment. */
export class UnknownFleet extends Error {
  override readonly name = 'UnknownFleet';

  constructor(fleet: string, known: readonly string[]) {
    super(
      `fleet ${JSON.stringify(fleet)} has no queue; the stack has queues for: ${known.join(', ') || 'none'}; deploy it again`,
    );
  }
}

/** The queue, or the permission to use it, is missing. Waiting does not help. */
export class QueueMisconfigured extends Error {
  override readonly name = 'QueueMisconfigured';
}

/** The queue did not answer, or throttled the request. The request may have been carried out; repeating it is safe. */
export class QueueUnavailable extends Error {
  override readonly name = 'QueueUnavailable';
}

/** The queue refuses this request. */
export class QueueRefused extends Error {
  override readonly name = 'QueueRefused';
}
