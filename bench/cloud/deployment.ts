/**
 * What a deployment of the `Scheduler` construct has by default, as far as it costs money or time. A test compares these
 * figures with the template that the construct makes.
 */

export interface FunctionFigures {
  readonly memoryMb: number;
  readonly timeoutMs: number;
}

/** An event source on a queue. */
export interface SourceFigures {
  readonly batchSize: number;
  /** How long a batch is waited for. */
  readonly windowMs: number;
  /** Undefined: none is set, and Lambda may keep fewer pollers while the queue is empty. */
  readonly maxConcurrency: number | undefined;
}

export const DEPLOYMENT = {
  /** Of the scheduler's own functions, and of a `WorkerFunction`: JSON, and of Lambda's own lines only those of what fails. */
  logs: { format: 'JSON', systemLevel: 'WARN' },
  dispatch: { memoryMb: 1_024, timeoutMs: 60_000 } satisfies FunctionFigures,
  ingest: { memoryMb: 512, timeoutMs: 30_000 } satisfies FunctionFigures,
  stream: { batchSize: 1_000, windowMs: 0 },
  wakeQueue: {
    batchSize: 10,
    windowMs: 0,
    maxConcurrency: undefined,
  } satisfies SourceFigures as SourceFigures,
  ingestQueue: { batchSize: 10, windowMs: 0, maxConcurrency: 5 } satisfies SourceFigures as SourceFigures,
  /** A fleet with a function: a message of one or several jobs for each invocation. */
  fleetQueue: { batchSize: 1, windowMs: 0, hasMaxConcurrency: false },
  tickMs: 60_000,
  /** Of a received message: six times the timeout of the function behind the queue. */
  visibilityTimeouts: 6,
} as const;

/** A worker function is the user's: this is what one is taken to be. Its handler's own time is not in the bill. */
export const WORKER_FUNCTION = { memoryMb: 512, timeoutMs: 60_000 } as const satisfies FunctionFigures;

/** Long polls of an event source wait this long for a message: three empty receives a minute and poller. */
export const LONG_POLL_MS = 20_000;

/**
 * Pollers of an event source on a queue: Lambda starts with five, and may keep two where the queue is idle and no maximum
 * concurrency is set (Lambda's guide, "Scaling with Amazon SQS"). `five` leaves that saving out.
 */
export const POLLER_MODELS = ['documented', 'five'] as const;
export type PollerModel = (typeof POLLER_MODELS)[number];

const POLLERS = 5;
const IDLE_POLLERS = 2;

export function pollersOf(model: PollerModel, hasMaxConcurrency: boolean, isIdle: boolean): number {
  return model === 'documented' && isIdle && !hasMaxConcurrency ? IDLE_POLLERS : POLLERS;
}
