/** From a hint to passes: under the partition's lease, until nothing is left to decide or a bound is met. */
import type { MovingJob } from '../core/job.ts';
import { StoreThrottled } from '../store/errors.ts';
import type { JobImage } from '../store/job-fields.ts';
import { DUE_WORK, type NamedJob, type WakeCount, type Wakes } from '../store/records.ts';
import type { DispatchContext } from './context.ts';
import type { Deployed } from './declaration.ts';
import { noteEnds } from './firing.ts';
import { noteLed } from './lead-for-a-while.ts';
import {
  dropNames,
  type HeldLease,
  hear,
  leaveWord,
  mayBeLeftOpen,
  namesOf,
  namesOfNew,
  noteBusy,
  noteOpen,
  openLease,
  releaseLease,
  renewLease,
  takeLease,
  takeLeaseUnlessHeld,
  type Word,
} from './lease.ts';
import { isOutdated } from './line-images.ts';
import { LeaseNeededError } from './pass/commits.ts';
import { pass } from './pass/pass.ts';
import type { LostPass, OutdatedPass, PassReport } from './pass/scope.ts';
import { isDueWorkLeft, wakeAgain, wakeFor, wakeForDueWork, wakeForNearWork } from './timers.ts';

/** What caused a run: images of jobs that were just seen, and why. */
export interface Trigger {
  /** From the stream, or just stored: candidates the index may not show yet, and outcomes to settle. */
  readonly jobs: readonly MovingJob[];
  readonly reason: 'stream' | 'wake' | 'tick' | 'ingest' | 'told';
  /** Of a wake that says which; those of the jobs, or all, unless given. */
  readonly partitions?: readonly number[] | undefined;
  /** When what a wake is for becomes due: by the clock of whoever makes the pass, that may be still to come. */
  readonly dueAtMs?: number | undefined;
  /** A wake for what becomes due then or sooner, and for nothing else. */
  readonly isForDue?: boolean | undefined;
  /** Jobs that were being stored in the one partition that is named, when somebody told of it: they are looked up. */
  readonly jobIds?: readonly string[] | undefined;
}

/**
 * What one run of passes did. `left`: to another dispatcher, which holds the lease. `known`: there was nothing to do that this process had
 * not done.
 */
export interface DispatchReport {
  readonly kind: 'left' | 'known' | 'done' | 'lost' | 'outOfBudget';
  readonly passes: number;
  readonly admitted: number;
  readonly settled: number;
  readonly lostClaims: number;
}

const sum = (reports: readonly PassReport[], of: (report: PassReport) => number): number =>
  reports.reduce((total, report) => total + of(report), 0);

const isDue = (job: MovingJob, nowMs: number): boolean => job.state === 'scheduled' && job.runAtMs <= nowMs;

/** How long the stream tries for a lease that another holds: a pass of its own starts jobs sooner than word does. */
const STREAM_PATIENCE_MS = 300;
/** Where there is no room to name what it knows, it waits: of word without names its holder would have to look everything up. */
const ROOM_PATIENCE_MS = 2_000;
/** What a pass that was begun has left to do has no name. */
const BEGUN_PATIENCE_MS = 2_000;
/** Whoever was told of jobs tries for less: the stream tells of them, too, and soon. */
const TOLD_PATIENCE_MS = 200;

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
  caches: new Map(),
  led: new Set(),
  open: new Map(),
});

async function dispatchUnder(
  context: DispatchContext,
  partition: number,
  trigger: Trigger,
): Promise<DispatchReport | OutdatedPass> {
  if (trigger.reason === 'stream' && isKnown(context, partition, trigger.jobs)) return reportOf('known', []);
  const begun = await passWithoutLease(context, partition, trigger);
  if (begun?.kind === 'done') return reportOf('done', [begun]);
  const lease = await leaseFor(context, partition, trigger, begun);
  if (lease === undefined) return reportOf('left', begun === undefined ? [] : [begun]);
  const run = new PassRun(context, lease, trigger, begun);
  try {
    const end = await run.run();
    if (typeof end !== 'string') return end;
    if (end === 'lost' && trigger.jobs.length > 0) {
      // Whoever has the partition now knows nothing of what was shown here: it is told to look it up.
      await leaveWord(context, partition, { jobs: namesOf(trigger.jobs), hints: trigger.jobs });
      await context.queue.sendWake(partition, 0);
    }
    const report = reportOf(end, run.reports);
    if (context.lead !== undefined && trigger.reason === 'stream') {
      await noteLed(context, lease.fence, {
        moved: report.admitted + report.settled,
        // Who takes slots over looks for those that are about to be free between what the stream tells.
        isContended: lease.waited || run.hasHeard || run.hasTakenOver,
      });
    }
    return report;
  } finally {
    // Also when a pass failed: a process may be frozen when it has answered, and its messages with it.
    await Promise.all(run.beside);
  }
}

/** What may be told of without the lease: it says of which jobs. */
const OPEN_REASONS: ReadonlySet<Trigger['reason']> = new Set(['stream', 'told', 'ingest']);

/** Where more jobs are told of at once, a pass writes more than its page. */
const OPEN_JOBS_MAX = 8;

/** Where passes are in each other's way the lease is not given back open for so long; where they write more than their page, or slowly, longer. */
const CROWDED_MS = 2_000;
const LASTING_MS = 30_000;

/** The epoch may be another one since this process saw it, or somebody else commits first: twice in a row is seldom. */
const OPEN_TRIES = 3;

/** Whether a trigger may be served without the lease: it says of which jobs, they are few, and none of them is due. */
const isForOpen = ({ reason, jobs, jobIds = [] }: Trigger, nowMs: number): boolean =>
  OPEN_REASONS.has(reason) &&
  jobs.length + jobIds.length <= OPEN_JOBS_MAX &&
  !jobs.some((job) => isDue(job, nowMs));

/**
 * Makes a pass without the lease, where the partition is open: each of its commits is a write of the page that counts only if
 * nobody has committed, or taken the lease, since the page was loaded. Undefined: the partition is not open, or somebody else was in
 * the way, and nothing that the trigger tells of may count as done.
 */
async function passWithoutLease(
  context: DispatchContext,
  partition: number,
  trigger: Trigger,
): Promise<PassReport | undefined> {
  const { reason, jobs, jobIds: told = [] } = trigger;
  if (!isForOpen(trigger, context.clock.nowMs())) return undefined;
  const beside: Promise<unknown>[] = [];
  try {
    for (let tries = 0; tries < OPEN_TRIES; tries += 1) {
      const lease = await openLease(context, partition);
      if (lease === undefined) return undefined;
      // Whoever came first may have met what was stored just now.
      const isUnseen = reason === 'ingest' && tries === 0;
      const outcome = await unlessNeeded(
        pass(context, lease, {
          hints: jobs,
          told,
          checksAll: false,
          hasMissed: false,
          promotes: reason === 'ingest',
          fires: false,
          justStored: isUnseen ? new Set(jobs.map(({ id }) => id)) : NOTHING_STORED,
          inBackground: (work) => beside.push(work),
        }),
      );
      let lasts: boolean;
      if (outcome instanceof LeaseNeededError) {
        noteOpen(context, partition, outcome.openEpoch);
        ({ lasts } = outcome);
      } else {
        if (outcome.kind !== 'lost') return outcome.kind === 'outdated' ? undefined : outcome;
        noteSuperseded(context, outcome);
        lasts = outcome.needsLease;
      }
      if (!lasts) continue;
      // The next passes are like this one.
      noteBusy(context, partition, LASTING_MS);
      return undefined;
    }
    noteBusy(context, partition, CROWDED_MS);
    return undefined;
  } finally {
    await Promise.all(beside);
  }
}

/** What became of a pass without the lease, or that it needs the lease. */
async function unlessNeeded<Outcome>(made: Promise<Outcome>): Promise<Outcome | LeaseNeededError> {
  try {
    return await made;
  } catch (error) {
    if (error instanceof LeaseNeededError) return error;
    throw error;
  }
}

async function leaseFor(
  context: DispatchContext,
  partition: number,
  trigger: Trigger,
  begun: PassReport | undefined,
): Promise<HeldLease | undefined> {
  const { reason, jobIds = [], isForDue = false, dueAtMs = -Infinity } = trigger;
  if (begun !== undefined) return takeLease(context, { partition, patienceMs: BEGUN_PATIENCE_MS });
  if (reason === 'told') {
    return takeLeaseUnlessHeld(context, {
      partition,
      patienceMs: TOLD_PATIENCE_MS,
      jobs: namesOfNew(jobIds),
    });
  }
  if (isForDue && (await isDueWorkLeft(context, partition, { dueAtMs, jobs: namesOfNew(jobIds) })))
    return undefined;
  return takeLease(context, {
    partition,
    patienceMs: reason === 'stream' ? STREAM_PATIENCE_MS : 0,
    roomPatienceMs: reason === 'stream' ? ROOM_PATIENCE_MS : 0,
    waitsForNext: reason === 'stream' || reason === 'ingest',
    ...wordOf(trigger),
  });
}

/** What word says of why somebody has come. */
function wordOf({ reason, jobs, jobIds = [], isForDue = false }: Trigger): Word {
  if (reason === 'stream' || reason === 'ingest')
    return { jobs: namesOf(jobs), hints: jobs, isToldElsewhere: reason === 'ingest' };
  return { jobs: isForDue ? [...namesOfNew(jobIds), DUE_WORK] : undefined };
}

/**
 * Whether these are images of jobs as they were when this process admitted them, or tried to: they have moved on, and the
 * stream tells of that by itself.
 */
function isKnown({ caches }: DispatchContext, partition: number, jobs: readonly MovingJob[]): boolean {
  const lines = caches.get(partition)?.lines;
  if (lines === undefined || jobs.length === 0) return false;
  return jobs.every((job) => job.state === 'pending' && isOutdated(lines, job));
}

const reportOf = (kind: DispatchReport['kind'], reports: readonly PassReport[]): DispatchReport => ({
  kind,
  passes: reports.length,
  admitted: sum(reports, (each) => each.admitted),
  settled: sum(reports, (each) => each.settled),
  lostClaims: sum(reports, (each) => each.lostClaims),
});

/**
 * The wake counter as this process read it when it last gave the lease back, if nobody held it since: whoever raised it
 * then found this process holding it, and another pass is due for that anyway.
 */
function wakesKnown(context: DispatchContext, { fence }: HeldLease): Wakes | undefined {
  const cache = context.caches.get(fence.partition);
  return cache?.epoch === fence.epoch - 1 ? cache.wakes : undefined;
}

function noteWakes(context: DispatchContext, { fence }: HeldLease, wakes: Wakes | undefined): void {
  const cache = context.caches.get(fence.partition);
  if (cache?.epoch === fence.epoch) cache.wakes = wakes;
}

type RunEnd = 'done' | 'lost' | 'outOfBudget' | OutdatedPass;

/** Passes under one lease, one after the other, until nothing more is to be done or a bound is met. */
class PassRun {
  readonly #context: DispatchContext;
  readonly #justStored: ReadonlySet<string>;
  readonly #endsAtMonotonicMs: number;
  readonly reports: PassReport[] = [];
  /** What goes on beside the passes. */
  readonly beside: Promise<unknown>[] = [];
  /** Others have left word of jobs. */
  hasHeard = false;
  #lease: HeldLease;
  #hints: readonly JobImage[];
  /** The next pass looks up what is in flight, and promotes what is due. */
  #checksAll = false;
  #promotes: boolean;
  /** It looks for schedules that are due, too. What is stored, or has ended, says nothing of these. */
  #fires: boolean;
  /** The wakes up to which was looked. */
  #lookedAt: WakeCount;
  /** Jobs that the next pass is told of while they are stored, and looks up. */
  #told: readonly string[];
  /** Jobs that word was left of, and that it looks up as well. */
  #named: readonly NamedJob[] = [];
  /** Somebody may have left word of what is due at some time in this run. */
  #isToldOfDueWork = false;
  /** Somebody has left word of what is due since the pass before. */
  #hearsOfDueWork = false;

  /** @param begun - a pass that was made of the trigger already, and has left something to do */
  constructor(context: DispatchContext, lease: HeldLease, trigger: Trigger, begun?: PassReport) {
    const { clock, budget } = context;
    const { reason, jobs, jobIds = [] } = trigger;
    if (begun !== undefined) this.reports.push(begun);
    this.#told = begun === undefined ? jobIds : [];
    this.#context = context;
    this.#lease = lease;
    this.#hints = begun === undefined ? jobs : begun.hints;
    const isUnseen = reason === 'ingest' && !lease.waited && begun === undefined;
    this.#justStored = isUnseen ? new Set(jobs.map(({ id }) => id)) : NOTHING_STORED;
    this.#promotes =
      (reason !== 'stream' && reason !== 'told') || jobs.some((job) => isDue(job, clock.nowMs()));
    this.#fires = reason === 'tick' || reason === 'wake';
    this.#lookedAt = lease.wakesLookedAt;
    this.#endsAtMonotonicMs = clock.monotonicMs() + budget.runMs;
  }

  /** Some of what has started takes slots over. */
  get hasTakenOver(): boolean {
    return this.reports.some(({ takenOver }) => takenOver > 0);
  }

  async run(): Promise<RunEnd> {
    for (;;) {
      const lease = this.#lease;
      const wakesSeen = await wakesOf(this.#context, lease);
      await this.#hear(wakesSeen);
      const outcome = await this.#pass();
      if (outcome.kind === 'lost') return 'lost';
      if (outcome.kind === 'outdated') {
        await this.#context.store.releaseLease({ fence: lease.fence });
        return outcome;
      }
      this.reports.push(outcome);
      this.#hints = outcome.hints;
      this.#told = [];
      this.#named = [];
      this.#checksAll = false;
      this.#lookedAt = wakesSeen;
      this.beside.push(dropNames(this.#context, lease.fence.partition, wakesSeen));
      const ended =
        outcome.kind === 'again' && !this.#isLast()
          ? await this.#goOn()
          : await this.#end(outcome, wakesSeen);
      if (ended === undefined) continue;
      if (this.#isToldOfDueWork) this.beside.push(wakeForNearWork(this.#context, lease.fence.partition));
      return ended;
    }
  }

  /** Whoever left word has left its hints behind. Who did not name them may have come for what is due. */
  async #hear(wakesSeen: Wakes): Promise<void> {
    const { partition } = this.#lease.fence;
    const { isBlank, isOfDueWork, jobs, hints } = await givingBack(this.#context, this.#lease, () =>
      hear(this.#context, partition, this.#lookedAt, wakesSeen),
    );
    this.#hints = [...this.#hints, ...hints];
    this.#named = jobs;
    this.hasHeard ||= jobs.length > 0;
    this.#hearsOfDueWork = isOfDueWork;
    if (!isBlank && !isOfDueWork && jobs.length === 0) return;
    this.#promotes = true;
    if (!isBlank && !isOfDueWork) return;
    this.#checksAll ||= isBlank;
    this.#fires = true;
    this.#isToldOfDueWork = true;
  }

  #isLast(): boolean {
    const { budget, clock } = this.#context;
    return this.reports.length >= budget.passesMax || clock.monotonicMs() >= this.#endsAtMonotonicMs;
  }

  #pass(): ReturnType<typeof pass> {
    return givingBack(this.#context, this.#lease, () =>
      pass(this.#context, this.#lease, {
        hints: this.#hints,
        told: this.#told,
        named: this.#named,
        isToldOfDueWork: this.#hearsOfDueWork,
        checksAll: this.#checksAll,
        hasMissed: this.#checksAll,
        promotes: this.#promotes,
        fires: this.#fires,
        justStored: this.#justStored,
        inBackground: (work) => this.beside.push(work),
      }),
    );
  }

  /** Keeps the lease for the next pass. */
  async #goOn(): Promise<RunEnd | undefined> {
    const { clock, budget } = this.#context;
    const leftMs = this.#lease.trustedUntilMonotonicMs - clock.monotonicMs();
    if (leftMs > budget.leaseMs / 2) return undefined;
    const renewed = await renewLease(this.#context, this.#lease);
    if (renewed === undefined) return 'lost';
    this.#lease = renewed;
    return undefined;
  }

  /** Gives the lease back. Undefined: somebody has left word meanwhile, it was taken again, and another pass is due. */
  async #end({ kind, isCalm }: PassReport, wakesSeen: Wakes): Promise<RunEnd | undefined> {
    const { store, queue } = this.#context;
    const lease = this.#lease;
    const isLast = this.#isLast();
    const { partition } = lease.fence;
    const isOpen = isCalm && kind === 'done' && mayBeLeftOpen(this.#context, lease);
    const { wakes, next } = await releaseLease(this.#context, lease, wakesSeen, isOpen);
    if (next === undefined && kind === 'done') {
      noteWakes(this.#context, lease, wakes);
      return 'done';
    }
    if (!isLast && next !== undefined) {
      // The counter was raised: what was known of it from before this run is not what it is.
      noteWakes(this.#context, lease, undefined);
      this.#lease = next;
      this.#lookedAt = next.wakesLookedAt;
      return undefined;
    }
    // The bound: stop here, and let a fresh invocation go on. What it is not told, it looks up if the counter says so.
    if (next !== undefined) await store.releaseLease({ fence: next.fence });
    if (this.#hints.length > 0) {
      await leaveWord(this.#context, partition, { jobs: namesOf(this.#hints), hints: this.#hints });
      noteWakes(this.#context, lease, undefined);
    } else if (next === undefined) noteWakes(this.#context, lease, wakes);
    await queue.sendWake(partition, 0);
    return 'outOfBudget';
  }
}

/** The word that was left before a pass. */
const wakesOf = (context: DispatchContext, lease: HeldLease): Promise<Wakes> =>
  givingBack(
    context,
    lease,
    async () => wakesKnown(context, lease) ?? (await context.store.readWakes(lease.fence.partition)),
  );

const NOTHING_STORED: ReadonlySet<string> = new Set();

/** Work under a lease: if it fails, the lease is given back. */
async function givingBack<T>(context: DispatchContext, lease: HeldLease, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // What was begun may still arrive. Nobody has to wait for the lease to run out: who takes it fences that.
    await context.store.releaseLease({ fence: lease.fence, isWriting: true }).catch(() => undefined);
    throw error;
  }
}

/** Those that were once, too: what waits there is moved. */
const everyPartition = ({ configuration, deployed }: DispatchContext): readonly number[] =>
  Array.from({ length: Math.max(configuration.partitions, deployed?.partitionsEver ?? 1) }, (_, at) => at);

function noteRun({ metrics }: DispatchContext, report: DispatchReport, tookMs: number): void {
  metrics?.add('claimed', report.admitted);
  metrics?.add('lostRaces', report.lostClaims + (report.kind === 'lost' ? 1 : 0));
  if (report.passes > 0) metrics?.add('passDuration', tookMs);
}

/** What a pass had claimed before somebody else committed. That it is made again is no news: such passes lose nothing by it. */
function noteSuperseded({ metrics }: DispatchContext, { admitted, lostClaims }: LostPass): void {
  if (admitted > 0) metrics?.add('claimed', admitted);
  if (lostClaims > 0) metrics?.add('lostRaces', lostClaims);
}

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
      const look =
        trigger.reason === 'tick'
          ? wakeForDueWork(context, partition)
          : trigger.dueAtMs === undefined
            ? wakeFor(context, partition, jobs)
            : wakeAgain(context, partition, trigger.dueAtMs);
      // Near work first: a look ahead that fails, or is slow, holds up nothing that is due by now.
      const [passed, looked] = await Promise.allSettled([
        dispatch(context, partition, { ...trigger, jobs }),
        look,
        noteEnds(context, jobs),
      ]);
      if (passed.status === 'rejected') throw passed.reason;
      if (looked.status === 'rejected') throw looked.reason;
      const report = passed.value;
      const tookMs = Math.round(context.clock.monotonicMs() - startedMs);
      noteRun(context, report, tookMs);
      // It made no pass: a line for each of these would be most of its log.
      if (report.passes > 0 || report.kind === 'lost')
        context.log.info('dispatched', { partition, reason: trigger.reason, tookMs, ...report });
      return report;
    }),
  );
}
