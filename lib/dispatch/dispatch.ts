/**
 * The entry to dispatching: turns a trigger into passes over the partitions that it concerns. For a stream batch, for jobs that
 * were just stored, and for a wake that names only jobs which a client is storing, the dispatcher makes passes by itself (`Run`),
 * or leaves a letter if another dispatcher leads. For any other wake, or a tick, it takes the lead (`lead/lead.ts`).
 *
 * A pass whose commit is refused is made again. After three refusals in a row several dispatchers are competing, so this one
 * leaves a letter, then sends a wake, and asks for a function that leads.
 */
import { ThrottledError } from '../core/errors.ts';
import type { MovingJob } from '../core/job.ts';
import type { DeclarationState } from '../declaration/declaration.ts';
import type { JobImage } from '../store/contract/job-fields.ts';
import { isLedAt, type Letter } from '../store/contract/records.ts';
import { type LeadOptions, type LeadTotals, lead, leaveLetter, noteSeen } from './lead/lead.ts';
import { rateAfter } from './lead/pace.ts';
import type { DispatchContext } from './partition/context.ts';
import { wakeFor, wakeForDueWork, wakeWhenDue } from './partition/timers.ts';
import { expireDue } from './pass/expire.ts';
import { fireAfterEnds } from './pass/firing.ts';
import { pass } from './pass/pass.ts';
import type { LostPass, PassReport } from './pass/scope.ts';
import {
  CALM_AFTER_MS,
  LIVELY_POLL_MS,
  LOST_MAX,
  REFUSED_FOR_MS,
  SUCCESSOR_MS,
  TRIES_MAX,
} from './tuning.ts';

/** The cause of a run of passes. */
export interface Trigger {
  /**
   * Images from the stream, or of jobs that were just stored. They show jobs that the index may not show yet, and
   * outcomes to settle.
   */
  readonly jobs: readonly JobImage[];
  /**
   * The sender of the hint. `wake` and `tick` take the lead of the partition; the others make passes of their own.
   *
   * - `stream`: the table's stream, with jobs that were stored, have ended or were moved.
   * - `wake`: a message of the wake queue, or an invocation.
   * - `tick`: the rule of each minute.
   * - `ingest`: the ingest function, which has just stored these jobs.
   * - `stored`: a wake that only names jobs which a client is storing. The dispatcher makes a pass of its own for it.
   */
  readonly reason: 'stream' | 'wake' | 'tick' | 'ingest' | 'stored';
  /** The partitions that a wake names. @default - the partitions of the jobs; without jobs, all partitions */
  readonly partitions?: readonly number[] | undefined;
  /**
   * Epoch ms at which the work that a wake announces is due, by the sender's clock. By this dispatcher's clock it may still be in
   * the future.
   */
  readonly dueAtMs?: number | undefined;
  /** Everything that the wake announces is due by `dueAtMs`. */
  readonly isForDue?: boolean | undefined;
  /** Ids of jobs in the one named partition that were still being stored when the hint was sent. The pass looks them up. */
  readonly jobIds?: readonly string[] | undefined;
}

/** A trigger whose images, if any, are complete. */
export type WakeTrigger = Trigger & { readonly jobs: readonly MovingJob[] };

/**
 * Result of one run of passes. `letterLeft`: another dispatcher leads, and reads the letter that this one has left it.
 * `lost`: three commits in a row were refused. `outOfBudget`: a bound was reached with work left.
 */
export interface DispatchReport {
  readonly kind: 'letterLeft' | 'done' | 'lost' | 'outOfBudget';
  readonly passes: number;
  readonly admitted: number;
  readonly settled: number;
  readonly lostClaims: number;
}

/** Runs passes over one partition. If the partition has a newer declaration, the run continues with it. */
export async function dispatch(
  given: DispatchContext,
  partition: number,
  trigger: Trigger,
): Promise<DispatchReport> {
  let context = given;
  let remaining = trigger;
  for (let renewals = 0; ; renewals += 1) {
    const report = takesLead(remaining)
      ? await leadOnce(context, partition, remaining)
      : await new Run(context, partition, remaining).run();
    if (report.kind !== 'outdated') return report;
    if (renewals === TRIES_MAX || context.deployed === undefined) {
      throw new ThrottledError(
        `partition ${partition} had another newer declaration at each of ${TRIES_MAX} tries; try again`,
      );
    }
    remaining = { ...trigger, jobs: report.hints, jobIds: report.jobIds };
    context = await withDeclaration(context, context.deployed, report.version);
    context.log.info('a newer declaration was read', { partition, version: context.deployed?.version });
  }
}

/** Returns a copy of the context with the declaration of this version or a newer one. */
export const withDeclaration = async (
  context: DispatchContext,
  deployed: DeclarationState,
  version: number,
): Promise<DispatchContext> => ({
  ...context,
  ...(await deployed.newer(version)),
  // Under another declaration, what was read may belong to other partitions.
  caches: new Map(),
});

/** A run that met a newer declaration, with the hints that it has not used. */
interface OutdatedRun {
  readonly kind: 'outdated';
  readonly version: number;
  readonly hints: readonly JobImage[];
  readonly jobIds: readonly string[];
}

const takesLead = ({ reason }: Trigger): boolean => reason === 'wake' || reason === 'tick';

const reportOf = (
  kind: DispatchReport['kind'],
  { passes, admitted, settled, lostClaims }: LeadTotals,
): DispatchReport => ({
  kind,
  passes,
  admitted,
  settled,
  lostClaims,
});

/** Takes the lead of a partition, and makes passes while something is left to do. */
async function leadOnce(
  context: DispatchContext,
  partition: number,
  trigger: Trigger,
): Promise<DispatchReport | OutdatedRun> {
  const { clock, budget } = context;
  const { jobs, jobIds } = trigger;
  const report = await lead(context, partition, {
    first: {
      hints: jobs,
      jobIds: jobIds,
      fires: true,
      // A drain waits for a newer version of the summary (`changeControl` wakes), so a wake commits unless it only
      // announces work that is due.
      // planted: woken-for-nothing
      mustCommit: trigger.reason === 'wake' && trigger.isForDue !== true,
    },
    letter: { hints: jobs, jobIds },
    endsAtMonotonicMs: clock.monotonicMs() + budget.runMs,
    passesMax: budget.passesMax,
  });
  if (report.outdated !== undefined) return { kind: 'outdated', ...report.outdated };
  const kind =
    report.end === 'ledByAnother' ? 'letterLeft' : report.end === 'outOfTime' ? 'outOfBudget' : 'done';
  await noteThroughput(context, partition, report.admitted + report.settled);
  return reportOf(kind, report);
}

/** Makes passes without leading, until nothing is left to do or a bound is reached. */
class Run {
  readonly #context: DispatchContext;
  readonly #partition: number;
  readonly #trigger: Trigger;
  readonly #endsAtMonotonicMs: number;
  readonly #totals: LeadTotals = { passes: 0, admitted: 0, settled: 0, lostClaims: 0 };
  #hints: readonly JobImage[];
  #jobIds: readonly string[];
  /** How many commits in a row were refused. */
  #lost = 0;

  constructor(context: DispatchContext, partition: number, trigger: Trigger) {
    const { clock, budget } = context;
    this.#context = context;
    this.#partition = partition;
    this.#trigger = trigger;
    this.#hints = trigger.jobs;
    this.#jobIds = trigger.jobIds ?? [];
    this.#endsAtMonotonicMs = clock.monotonicMs() + budget.runMs;
  }

  async run(): Promise<DispatchReport | OutdatedRun> {
    // If another dispatcher led the partition when this process last looked, it leaves a letter before it reads
    // anything.
    const wasLed = this.#context.seen.get(this.#partition)?.isLed === true;
    if (wasLed && (await this.#leaveLetter())) return reportOf('letterLeft', this.#totals);
    for (;;) {
      const outcome = await this.#pass();
      if (outcome.kind === 'outdated')
        return { kind: 'outdated', version: outcome.version, hints: this.#hints, jobIds: this.#jobIds };
      if (outcome.kind === 'led') {
        if (await this.#leaveLetter()) return reportOf('letterLeft', this.#totals);
        continue;
      }
      if (outcome.kind === 'lost') {
        this.#noteLost(outcome);
        if (this.#lost < LOST_MAX) continue;
        // planted: lost-and-gone
        await this.#handOver();
        await askToLead(this.#context, this.#partition);
        return reportOf('lost', this.#totals);
      }
      this.#note(outcome);
      if (outcome.kind === 'done') break;
      if (!this.#isLast()) continue;
      await this.#handOver();
      return reportOf('outOfBudget', this.#totals);
    }
    await noteThroughput(this.#context, this.#partition, this.#totals.admitted + this.#totals.settled);
    return reportOf('done', this.#totals);
  }

  async #pass(): ReturnType<typeof pass> {
    const { clock } = this.#context;
    const { reason } = this.#trigger;
    const isFirst = this.#totals.passes + this.#lost === 0;
    const background: Promise<unknown>[] = [];
    try {
      return await pass(this.#context, this.#partition, {
        hints: this.#hints,
        jobIds: this.#jobIds,
        checksAll: false,
        promotes: reason === 'ingest' || this.#hints.some((job) => isDue(job, clock.nowMs())),
        fires: false,
        // No other pass can have seen jobs that were stored a moment ago.
        justStored: reason === 'ingest' && isFirst ? new Set(this.#hints.map(({ id }) => id)) : undefined,
        inBackground: (work) => background.push(work),
      });
    } finally {
      // Wait even if the pass failed: a function may be frozen after its answer, and unsent messages with it.
      await Promise.all(background);
    }
  }

  #letter(): Letter {
    return { hints: this.#hints, jobIds: this.#jobIds };
  }

  /** Leaves the hints to the leader. False: no dispatcher leads any more. */
  #leaveLetter(): Promise<boolean> {
    return leaveLetter(this.#context, this.#partition, this.#letter());
  }

  /** The letter is written before the wake is sent, because the woken dispatcher reads letters. */
  async #handOver(): Promise<void> {
    const { store, queue, clock } = this.#context;
    const partition = this.#partition;
    await store.putLetter({ partition, letter: this.#letter(), nowMs: clock.nowMs() });
    await queue.sendWake({ partition });
  }

  #note({ admitted, settled, lostClaims, hints }: PassReport): void {
    const totals = this.#totals;
    totals.passes += 1;
    totals.admitted += admitted;
    totals.settled += settled;
    totals.lostClaims += lostClaims;
    this.#hints = hints;
    this.#jobIds = [];
    this.#lost = 0;
  }

  /** Counts what a refused pass had committed before. The refusal itself is not counted, because the pass is made again. */
  #noteLost({ admitted, lostClaims }: LostPass): void {
    const { metrics } = this.#context;
    this.#lost += 1;
    if (admitted > 0) metrics?.add('claimed', admitted);
    if (lostClaims > 0) metrics?.add('lostRaces', lostClaims);
  }

  #isLast(): boolean {
    const { budget, clock } = this.#context;
    return this.#totals.passes >= budget.passesMax || clock.monotonicMs() >= this.#endsAtMonotonicMs;
  }
}

const isDue = (job: Pick<MovingJob, 'state' | 'runAtMs'>, nowMs: number): boolean =>
  job.state === 'scheduled' && job.runAtMs <= nowMs;

/** Updates the rate of jobs that this process starts and settles, and asks for a leader if it is high. */
async function noteThroughput(context: DispatchContext, partition: number, moved: number): Promise<void> {
  const { clock, budget, seen } = context;
  const nowMonotonicMs = clock.monotonicMs();
  const { movedPerSec = 0, countedAtMonotonicMs = nowMonotonicMs } = seen.get(partition) ?? {};
  const perSec = rateAfter(movedPerSec, nowMonotonicMs - countedAtMonotonicMs, moved);
  noteSeen(context, partition, { movedPerSec: perSec, countedAtMonotonicMs: nowMonotonicMs });
  if (perSec >= budget.leadFrom) await askToLead(context, partition);
}

/**
 * Asks for a function that leads the partition. If the request is lost or refused, dispatchers go on competing with single
 * passes.
 */
async function askToLead(context: DispatchContext, partition: number): Promise<void> {
  const { clock, budget, seen, askToLead: ask, log } = context;
  const nowMonotonicMs = clock.monotonicMs();
  const { askedUntilMonotonicMs = -Infinity } = seen.get(partition) ?? {};
  if (ask === undefined || nowMonotonicMs < askedUntilMonotonicMs) return;
  noteSeen(context, partition, { askedUntilMonotonicMs: nowMonotonicMs + budget.leadMs / 2 });
  try {
    await ask(partition);
  } catch (error) {
    noteSeen(context, partition, { askedUntilMonotonicMs: nowMonotonicMs + REFUSED_FOR_MS });
    log.warn('no function could be asked to lead; single passes go on', { partition, error: String(error) });
  }
}

/**
 * Leads a partition while it is busy, for one function run at most. Returns undefined if another dispatcher leads.
 * @throws the store's errors
 */
export async function leadWhileBusy(
  given: DispatchContext,
  partition: number,
): Promise<DispatchReport | undefined> {
  let context = given;
  const { store, clock, budget, log } = context;
  // Resident dispatchers take every partition that is free.
  if ((await store.listDispatchers(clock.nowMs())).length > 0) return undefined;
  const startedMonotonicMs = clock.monotonicMs();
  while (isLedAt(await store.readLeader(partition), clock.nowMs())) {
    if (clock.monotonicMs() >= startedMonotonicMs + 3 * SUCCESSOR_MS) return undefined;
    await clock.sleep(LIVELY_POLL_MS);
  }
  const endsAtMonotonicMs = startedMonotonicMs + budget.runMs;
  const asked: Promise<void>[] = [];
  const options: LeadOptions = {
    first: { hints: [], fires: false },
    letter: undefined,
    stays: whileBusy(context, partition, endsAtMonotonicMs, asked),
    endsAtMonotonicMs,
  };
  let report = await lead(context, partition, options);
  for (let renewals = 0; report.outdated !== undefined && context.deployed !== undefined; renewals += 1) {
    if (renewals === TRIES_MAX) break;
    const { version, hints, jobIds } = report.outdated;
    context = await withDeclaration(context, context.deployed, version);
    report = await lead(context, partition, {
      ...options,
      first: { hints, jobIds, fires: false },
      letter: { hints, jobIds },
    });
  }
  await Promise.all(asked);
  log.info('led while busy', {
    partition,
    tookMs: Math.round(clock.monotonicMs() - startedMonotonicMs),
    ...report,
  });
  return report.end === 'ledByAnother' ? undefined : reportOf('done', report);
}

/**
 * Returns the `stays` callback: whether enough jobs start and end to go on leading. Shortly before the run ends it asks for the
 * next leader.
 */
function whileBusy(
  context: DispatchContext,
  partition: number,
  endsAtMonotonicMs: number,
  asked: Promise<void>[],
): LeadOptions['stays'] {
  const { clock, budget } = context;
  let countedAtMonotonicMs = clock.monotonicMs();
  let counted = 0;
  let isBusy = true;
  return ({ admitted, settled }) => {
    const nowMonotonicMs = clock.monotonicMs();
    const sinceMs = nowMonotonicMs - countedAtMonotonicMs;
    if (sinceMs >= CALM_AFTER_MS) {
      isBusy = (admitted + settled - counted) * 1_000 >= budget.leadWhile * sinceMs;
      counted = admitted + settled;
      countedAtMonotonicMs = nowMonotonicMs;
    }
    if (isBusy && asked.length === 0 && nowMonotonicMs >= endsAtMonotonicMs - SUCCESSOR_MS)
      asked.push(askToLead(context, partition));
    return isBusy && nowMonotonicMs < endsAtMonotonicMs;
  };
}

/**
 * Returns the numbers of all partitions, also of those that only earlier declarations have: jobs that wait there must
 * be moved.
 */
const everyPartition = ({ configuration, deployed }: DispatchContext): readonly number[] =>
  Array.from({ length: Math.max(configuration.partitions, deployed?.partitionsEver ?? 1) }, (_, at) => at);

function noteRun(
  { metrics }: DispatchContext,
  trigger: Trigger,
  report: DispatchReport,
  tookMs: number,
): void {
  if (report.kind === 'lost') metrics?.add('lostRaces', 1);
  // A lead reports the metrics of its own passes.
  if (takesLead(trigger)) return;
  metrics?.add('claimed', report.admitted);
  metrics?.add('lostRaces', report.lostClaims);
  if (report.passes > 0) metrics?.add('passDuration', tookMs);
}

/**
 * Runs passes over every partition that the trigger concerns, or over all if it names neither a job nor a partition. A tick
 * also ends the jobs that have not started in time.
 */
export async function dispatchAll(
  context: DispatchContext,
  trigger: WakeTrigger,
): Promise<readonly DispatchReport[]> {
  const [passed, ended] = await Promise.allSettled([
    passOverAll(context, trigger),
    trigger.reason === 'tick' ? expireDue(context) : undefined,
  ]);
  if (passed.status === 'rejected') throw passed.reason;
  if (ended.status === 'rejected') throw ended.reason;
  return passed.value;
}

async function passOverAll(
  context: DispatchContext,
  trigger: WakeTrigger,
): Promise<readonly DispatchReport[]> {
  const byPartition = Map.groupBy(trigger.jobs, (job) => job.partition);
  const named = [...new Set([...byPartition.keys(), ...(trigger.partitions ?? [])])];
  const partitions = named.length > 0 ? named : everyPartition(context);
  return Promise.all(
    partitions.map(async (partition) => {
      const jobs = byPartition.get(partition) ?? [];
      const startedMs = context.clock.monotonicMs();
      // planted: no-wake-for-due
      const laterWakes =
        trigger.reason === 'tick'
          ? wakeForDueWork(context, partition)
          : trigger.dueAtMs === undefined
            ? wakeFor(context, partition, jobs)
            : wakeWhenDue(context, partition, trigger.dueAtMs);
      // Wakes for later work are sent while the passes run, so a slow or failed wake delays no work that is due now. A failure of
      // `fireAfterEnds` is not thrown: the next check of the schedule fires it.
      const [passed, woken] = await Promise.allSettled([
        dispatch(context, partition, { ...trigger, jobs }),
        laterWakes,
        fireAfterEnds(context, jobs),
      ]);
      if (passed.status === 'rejected') throw passed.reason;
      if (woken.status === 'rejected') throw woken.reason;
      const report = passed.value;
      const tookMs = Math.round(context.clock.monotonicMs() - startedMs);
      noteRun(context, trigger, report, tookMs);
      // Runs without a pass are not logged: they would be most of the log.
      if (report.passes > 0 || report.kind === 'lost')
        context.log.info('dispatched', { partition, reason: trigger.reason, tookMs, ...report });
      return report;
    }),
  );
}
