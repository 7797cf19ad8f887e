/** What `fairlead test-worker` checks of a server that runs forwarded jobs. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Json } from '../core/job.ts';
import { type ForwardedAttempt, Forwarder, forwardUrl } from './forward.ts';

/** The outcome of one check. */
export interface Conformance {
  /** The promise of the server that the check is about, as a sentence. */
  readonly promise: string;
  /** How it broke the promise; undefined if it kept it. */
  readonly failure?: string | undefined;
}

const ATTEMPT_MS = 10_000;
/** How long an attempt may have run when its connection is closed. */
const CLOSE_AFTER_MS = 50;
const SIDE_BY_SIDE = 4;
const UNKNOWN_TYPE = 'fairlead-type-that-no-server-has';

/**
 * Runs all checks, one after the other.
 *
 * @param type - a type that the server runs
 * @param begin - is told of each check when it begins
 * @throws ConfigurationError - the URL is not that of a server on this machine
 */
export async function checkWorker(
  url: string,
  type: string,
  payload: Json,
  begin: (promise: string, mostMs: number) => void = () => undefined,
): Promise<readonly Conformance[]> {
  const forwarder = new Forwarder(forwardUrl(url));
  await forwarder.listen();
  const attempt = (changes: Partial<ForwardedAttempt> = {}): ForwardedAttempt => ({
    id: 'conformance',
    type,
    limits: [],
    attempt: 1,
    fencingToken: 1,
    deadline: new Date(Date.now() + ATTEMPT_MS),
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    signal: AbortSignal.timeout(ATTEMPT_MS),
    heartbeat: () => undefined,
    checkpoint: async () => undefined,
    ...changes,
  });
  const run = (changes?: Partial<ForwardedAttempt>): Promise<Json> =>
    forwarder.forward(payload, attempt(changes));
  const checks: readonly (readonly [promise: string, check: () => Promise<unknown>])[] = [
    ['a job is answered 200 with its result as JSON, or 204', () => run()],
    ['a repeated attempt is answered, too', () => run({ attempt: 2, fencingToken: 3 })],
    [
      `${SIDE_BY_SIDE} jobs side by side are answered`,
      () => Promise.all(Array.from({ length: SIDE_BY_SIDE }, (_, at) => run({ id: `conformance-${at}` }))),
    ],
    ['a job id with any characters is answered', () => run({ id: 'event/é %2F"' })],
    ['a job without a trace is answered', () => run({ traceparent: undefined })],
    ['a job with a checkpoint is answered', () => run({ attempt: 2, lastCheckpoint: { done: 1 } })],
    [
      'a type that the server does not run is not answered as a success',
      async () => {
        const answered = await run({ type: UNKNOWN_TYPE }).then(
          () => true,
          () => false,
        );
        if (answered) throw new Error(`POST /jobs/${UNKNOWN_TYPE} was answered with a result; answer 404`);
      },
    ],
    [
      'a connection that closes, because the job was cancelled, disturbs no other job',
      async () => {
        const cancelled = new AbortController();
        const gone = run({ signal: cancelled.signal }).catch(() => undefined);
        await sleep(CLOSE_AFTER_MS);
        cancelled.abort();
        await gone;
        await run();
      },
    ],
  ];
  const outcomes: Conformance[] = [];
  try {
    for (const [promise, check] of checks) {
      begin(promise, ATTEMPT_MS);
      outcomes.push({ promise, failure: await check().then(() => undefined, String) });
    }
  } finally {
    forwarder.close();
  }
  return outcomes;
}
