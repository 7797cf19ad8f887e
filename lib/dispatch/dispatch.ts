/** From a hint to passes: under the partition's lease, until nothing is left to decide or a bound is met. */
import type { Job } from '../core/job.ts';
import type { JobHead } from '../store/contract.ts';
import { StoreThrottled } from '../store/errors.ts';
import type { DispatchContext } from './context.ts';
import type { Deployed } from './declaration.ts';
import { type HeldLease, releaseLease, renewLease, takeLease } from './lease.ts';
import { type PassInput, type PassReport, pass } from './pass.ts';
import { wakeAgain, wakeFor, wakeForDueWork } from './timers.ts';

/** What caused a run: images of jobs that were just seen, and why. */
export interface Trigger {
  /** From the stream, or just stored: candidates the index may not show yet, and outcomes to settle. */
  readonly jobs: readonly Job[];
  readonly reason: 'stream' | 'wake' | 'tick' | 'ingest';
  /** Of a wake that says which; those of the jobs, or all, unless given. */
  readonly partitions?: readonly number[] | undefined;
  /** When what a wake is for becomes due: by the clock of whoever makes the pass, that may be still to come. */
  readonly dueAtMs?: number | undefined;
}

/** What one run of passes did. `left`: another dispatcher holds the lease and was woken. */
export interface DispatchReport {
  readonly kind: 'left' | 'done' | 'lost' | 'outOfBudget';
  readonly passes: number;
  readonly admitted: number;
  readonly settled: number;
  readonly lostClaims: number;
}

/** The partition knows of this declaration, which is newer. */
interface Outdated {
  readonly kind: 'outdated';
  readonly version: number;
}

const sum = (reports: readonly PassReport[], of: (report: PassReport) => number): number =>
  reports.reduce((total, report) => total + of(report), 0);

const isDue = (job: Job, nowMs: number): boolean => job.state === 'scheduled' && job.runAtMs <= nowMs;

/** How long the stream tries for a lease that another holds: passes are short. */
const LEASE_PATIENCE_MS = 2_000;

/** Declarations that may follow each other during one run. */
const RENEWALS_MAX = 5;

/** Runs passes of one partition: under the newest declaration that it was told of. */
export async function dispatch(
  given: DispatchContext,
  partition: number,
  trigger: Trigger,
): Promise<DispatchReport> {
  let context = given;
  for (let renewals = 0; ; renewals += 1) {
    const report = await dispatchUnder(context, partition, trigger);
    if (!('version' in report)) return report;
    if (renewals === RENEWALS_MAX || context.deployed === undefined) {
      throw new StoreThrottled(
        `partition ${partition} was told of another declaration at each of ${RENEWALS_MAX} tries; try again`,
      );
    }
    context = await renewed(context, context.deployed, report.version);
    context.log.info('a newer declaration was read', { partition, version: context.deployed?.version });
  }
}

/** The same dispatcher, under this version or a newer one. */
export const renewed = async (
  context: DispatchContext,
  deployed: Deployed,
  version: number,
): Promise<DispatchContext> => ({
  ...context,
  ...(await deployed.newer(version)),
  // What was read under another declaration may stand elsewhere under this one.
  books: new Map(),
});

async function dispatchUnder(
  context: DispatchContext,
  partition: number,
  trigger: Trigger,
): Promise<DispatchReport | Outdated> {
  const reports: PassReport[] = [];
  const beside: Promise<unknown>[] = [];
  // What the stream shows saves the holder a look at every job in flight, and an index may not show new jobs yet.
  const patienceMs = trigger.reason === 'stream' ? LEASE_PATIENCE_MS : 0;
  const lease = await takeLease(context, partition, patienceMs);
  let kind: DispatchReport['kind'] = 'left';
  try {
    if (lease !== undefined) {
      const end = await runPasses(context, lease, trigger, reports, beside);
      if (typeof end !== 'string') return end;
      kind = end;
    }
    if (kind === 'lost' && trigger.jobs.length > 0) {
      // Whoever has the partition now knows nothing of what was shown here: it is told to look it up.
      await context.store.wake(partition);
      await context.queue.sendWake(partition, 0);
    }
  } finally {
    // Also when a pass failed: a process may be frozen when it has answered, and its messages with it.
    await Promise.all(beside);
  }
  return {
    kind,
    passes: reports.length,
    admitted: sum(reports, (each) => each.admitted),
    settled: sum(reports, (each) => each.settled),
    lostClaims: sum(reports, (each) => each.lostClaims),
  };
}

/**
 * The wake counter as this process read it when it last gave the lease back, if nobody held it since: whoever raised it
 * then found this process holding it, and another pass is due for that anyway.
 */
function wakesKnown(context: DispatchContext, { fence }: HeldLease): number | undefined {
  const books = context.books.get(fence.partition);
  return books?.epoch === fence.epoch - 1 ? books.wakes : undefined;
}

function noteWakes(context: DispatchContext, { fence }: HeldLease, wakes: number | undefined): void {
  const books = context.books.get(fence.partition);
  if (books?.epoch === fence.epoch) books.wakes = wakes;
}

async function runPasses(
  context: DispatchContext,
  first: HeldLease,
  trigger: Trigger,
  reports: PassReport[],
  beside: Promise<unknown>[],
): Promise<'done' | 'lost' | 'outOfBudget' | Outdated> {
  const { store, clock, queue, budget } = context;
  const { partition } = first.fence;
  const isStream = trigger.reason === 'stream';
  const stored = new Set(trigger.jobs.map(({ id }) => id));
  let lease = first;
  let hints: readonly JobHead[] = trigger.jobs;
  let looksUp = false;
  let lookedAt = first.wakesLookedAt;
  let promotes = !isStream || trigger.jobs.some((job) => isDue(job, clock.nowMs()));
  let batches = 0;
  const endsAtMonotonicMs = clock.monotonicMs() + budget.runMs;
  const nextBatch = (): number => {
    batches += 1;
    return batches;
  };
  for (;;) {
    const wakesSeen = await wakesOf(context, lease);
    // Whoever raised the counter has left its hints behind, and may have come for what is due.
    if (wakesSeen > lookedAt) {
      looksUp = true;
      promotes = true;
    }
    const outcome = await tryPass(context, lease, {
      hints,
      looksUp,
      promotes,
      justStored: trigger.reason === 'ingest' && !first.waited ? stored : NOTHING_STORED,
      nextBatch,
      goOnBeside: (work) => beside.push(work),
    });
    if (outcome.kind === 'lost') return 'lost';
    if (outcome.kind === 'outdated') {
      await store.releaseLease(lease.fence);
      return outcome;
    }
    reports.push(outcome);
    hints = outcome.hints;
    looksUp = false;
    lookedAt = wakesSeen;
    const isLast = reports.length >= budget.passesMax || clock.monotonicMs() >= endsAtMonotonicMs;
    if (outcome.kind === 'again' && !isLast) {
      const leftMs = lease.trustedUntilMonotonicMs - clock.monotonicMs();
      const renewed = leftMs > budget.leaseMs / 2 ? lease : await renewLease(context, lease);
      if (renewed === undefined) return 'lost';
      lease = renewed;
      continue;
    }
    const next = await releaseLease(context, lease, wakesSeen);
    if (next === undefined && outcome.kind === 'done') {
      noteWakes(context, lease, wakesSeen);
      return 'done';
    }
    if (isLast || next === undefined) {
      // The bound: stop here, and let a fresh invocation go on. What it is not told, it looks up if the counter says so.
      if (next !== undefined) await store.releaseLease(next.fence);
      else if (hints.length === 0) noteWakes(context, lease, wakesSeen);
      else {
        await store.wake(partition);
        noteWakes(context, lease, undefined);
      }
      await queue.sendWake(partition, 0);
      return 'outOfBudget';
    }
    // The counter was raised: what was known of it from before this run is not what it is.
    noteWakes(context, lease, undefined);
    lease = next;
    looksUp = true;
    promotes = true;
  }
}

/** The wake counter before a pass. */
const wakesOf = (context: DispatchContext, lease: HeldLease): Promise<number> =>
  givingBack(
    context,
    lease,
    async () => wakesKnown(context, lease) ?? (await context.store.readWakes(lease.fence.partition)),
  );

const tryPass = (
  context: DispatchContext,
  lease: HeldLease,
  input: PassInput,
): Promise<Awaited<ReturnType<typeof pass>>> => givingBack(context, lease, () => pass(context, lease, input));

const NOTHING_STORED: ReadonlySet<string> = new Set();

/** Work under a lease: if it fails, the lease is given back. */
async function givingBack<T>(context: DispatchContext, lease: HeldLease, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // What we began is fenced by the epoch: nobody has to wait for the lease to run out.
    await context.store.releaseLease(lease.fence).catch(() => undefined);
    throw error;
  }
}

/** Those that were once, too: what waits there is moved. */
const everyPartition = ({ configuration, deployed }: DispatchContext): readonly number[] =>
  Array.from({ length: Math.max(configuration.partitions, deployed?.partitionsEver ?? 1) }, (_, at) => at);

/** Runs passes of every partition that the trigger concerns; of all, if it names neither a job nor a partition. */
export async function dispatchAll(
  context: DispatchContext,
  trigger: Trigger,
): Promise<readonly DispatchReport[]> {
  const byPartition = Map.groupBy(trigger.jobs, (job) => job.partition);
  const named = [...new Set([...byPartition.keys(), ...(trigger.partitions ?? [])])];
  const partitions = named.length > 0 ? named : everyPartition(context);
  return Promise.all(
    partitions.map(async (partition) => {
      const jobs = byPartition.get(partition) ?? [];
      const startedMs = context.clock.monotonicMs();
      const isTick = trigger.reason === 'tick';
      const look = isTick
        ? wakeForDueWork(context, partition)
        : trigger.dueAtMs === undefined
          ? wakeFor(context, partition, jobs)
          : wakeAgain(context, partition, trigger.dueAtMs);
      // Near work first: a look ahead that fails, or is slow, holds up nothing that is due by now.
      const [passed, looked] = await Promise.allSettled([
        dispatch(context, partition, { ...trigger, jobs }),
        look,
      ]);
      if (passed.status === 'rejected') throw passed.reason;
      if (looked.status === 'rejected') throw looked.reason;
      const report = passed.value;
      const tookMs = Math.round(context.clock.monotonicMs() - startedMs);
      context.log.info('dispatched', { partition, reason: trigger.reason, tookMs, ...report });
      return report;
    }),
  );
}
