/**
 * A long-running worker: it registers its slots, receives as many messages as it has free slots, and runs their jobs.
 * It ends in order: on request, when its lease is lost, or when a handler ignores its signal.
 */
import { aborted, untilAborted } from '../../runtime/abort.ts';
import { incarnationOf } from '../../runtime/incarnation.ts';
import { instantOf } from '../../runtime/instant.ts';
import { type Guard, guardInSameThread } from '../guard.ts';
import { LOSS_GRACE_MS } from '../membership.ts';
import { STOP_GRACE_MS } from '../run-job.ts';
import { Attempts, WRITES_MS } from './attempts.ts';
import { WorkerShutdown } from './ending.ts';
import { deletions, RECEIVE_WAIT_MAX_MS, receiveMessages } from './messages.ts';
import { settingsOf, type WorkerProcessOptions, type WorkerReport, type WorkerSettings } from './options.ts';
import { initialShares, ServedPartitions, wake } from './partitions.ts';

/** Milliseconds between two messages by which the worker's thread tells the guard that it is not busy. */
const ALIVE_EVERY_MS = 30_000;
/** How long a worker that has lost its lease keeps trying to store the outcomes of its handlers. */
const OUTCOMES_MS = 60_000;

/**
 * Runs a worker until `signal` aborts or it has to end. When this resolves, no handler runs any more, or `exit` was
 * called.
 *
 * @throws ConfigurationError - before the worker is registered
 * @throws the store's errors - the worker could not be registered
 */
export async function runWorker(options: WorkerProcessOptions): Promise<WorkerReport> {
  const settings = settingsOf(options);
  const { store, clock, random, log, fleet, slots, workerId, signal, heartbeatMs, leaseMs } = settings;
  const life = { workerId, incarnation: incarnationOf(clock.nowMs(), random()) };
  const ending = new WorkerShutdown();
  const first = initialShares(settings);
  // planted: guard-in-the-thread
  const makeGuard = options.guard ?? guardInSameThread({ store, clock, log, kill: options.exit });
  const guard = await makeGuard(
    { life, fleet, shares: first.shares, heartbeatMs, leaseMs },
    { onLost: (loss) => ending.lose(loss), signal },
  );
  if (guard === 'aborted') return { end: 'stopped', outcomes: {} };
  if (guard === 'superseded') return { end: 'superseded', outcomes: {} };
  log.info('worker registered', { ...life, fleet, slots });
  ending.begun.addEventListener('abort', () => guard.tell({ kind: 'ending' }));
  const onSignal = (): void => ending.begin('stopped');
  if (signal.aborted) onSignal();
  signal.addEventListener('abort', onSignal);

  const deleted = deletions(settings);
  const partitions = new ServedPartitions(settings, life, guard, first, (partition) =>
    attempts.isAtWork(partition),
  );
  const attempts = new Attempts({ settings, life, guard, ending, partitions, deletions: deleted });
  const ended = new AbortController();
  void tellAlive(settings, guard, ended.signal);
  void tellLoad(settings, guard, ended.signal);
  void partitions.follow(ending.begun, ended.signal);
  await wake(settings, first.shares.keys());
  const received = receiveMessages(settings, attempts, ending.begun, ending.lost);
  await aborted(ending.begun);

  await endAttempts(attempts, ending, settings.shutdownMs);
  signal.removeEventListener('abort', onSignal);
  ended.abort();
  const { handling, outcomes } = attempts;
  if (handling === 0 && !ending.lost.aborted) await guard.leave();
  // The lease is kept while handlers run, so it must not be given up before they have ended.
  const over = Promise.race([received, clock.sleep(RECEIVE_WAIT_MAX_MS, ending.lost)]);
  await untilAborted(Promise.all([deleted.flush(), over]), ending.lost);
  guard.abandon();
  const end = ending.why ?? 'stopped';
  log.info('worker ended', { ...life, fleet, end, outcomes });
  if (handling > 0)
    options.exit(`worker ${workerId} ends (${end}): ${handling} of its handlers ignored their signal`);
  return { end, outcomes };
}

/**
 * Waits for the attempts to end. After `shutdownMs` their handlers are told to stop, and at last outcomes that could
 * not be stored are given up.
 */
async function endAttempts(attempts: Attempts, ending: WorkerShutdown, shutdownMs: number): Promise<void> {
  const { lost } = ending;
  await attempts.untilIdle(shutdownMs, lost);
  if (!lost.aborted && !attempts.isIdle()) {
    ending.stop();
    await attempts.untilIdle(STOP_GRACE_MS + WRITES_MS, lost);
  }
  if (lost.aborted) await attempts.untilIdle(LOSS_GRACE_MS);
  // No handler runs any more. During an outage the outcomes still count, because no other process could take the jobs
  // over.
  if (lost.aborted && attempts.handling === 0 && !attempts.isIdle()) await attempts.untilIdle(OUTCOMES_MS);
  ending.giveUp();
}

/** Tells the guard that the thread is not busy. Attempts do so as well; this covers the time between them. */
async function tellAlive({ clock }: WorkerSettings, guard: Guard, ended: AbortSignal): Promise<void> {
  for (; !ended.aborted; await clock.sleep(ALIVE_EVERY_MS, ended)) guard.tell({ kind: 'alive' });
}

async function tellLoad(
  { clock, measure, heartbeatMs }: WorkerSettings,
  guard: Guard,
  ended: AbortSignal,
): Promise<void> {
  if (measure === undefined) return;
  for (; !ended.aborted; await clock.sleep(heartbeatMs, ended))
    guard.tell({ kind: 'load', load: measure(), since: instantOf(clock), nextInMs: heartbeatMs });
}
