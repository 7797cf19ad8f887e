/**
 * From a hint to passes. A dispatcher that was shown jobs makes passes of its own, each of which begins with what it reads and was shown;
 * where another one leads, it leaves a letter. A dispatcher that was woken takes the lead (`lead.ts`).
 *
 * A pass that is refused loads again. After three in a row the dispatcher leaves a letter, then sends a wake, and asks for a lead: passes of
 * several dispatchers are in each other's way there.
 */
import { ThrottledError } from '../core/errors.ts';
import type { MovingJob } from '../core/job.ts';
import type { Deployed } from '../declaration/declaration.ts';
import type { JobImage } from '../store/contract/job-fields.ts';
import type { Letter } from '../store/contract/records.ts';
import { type LeadOptions, type LeadTotals, lead, leaveLetter, noteSeen } from './lead/lead.ts';
import { rateAfter } from './lead/pace.ts';
import type { DispatchContext } from './partition/context.ts';
import { wakeAgain, wakeFor, wakeForDueWork } from './partition/timers.ts';
import { noteEnds } from './pass/firing.ts';
import { isLedBy } from './pass/load.ts';
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

/** What caused a run: images of jobs that were just seen, and why. */
export interface Trigger {
  /** From the stream, or just stored: candidates the index may not show yet, and outcomes to settle. */
  readonly jobs: readonly JobImage[];
  readonly reason: 'stream' | 'wake' | 'tick' | 'ingest' | 'told';
  /** Of a wake that says which; those of the jobs, or all, unless given. */
  readonly partitions?: readonly number[] | undefined;
  /** When what a wake is for becomes due: by the clock of the dispatcher that makes the pass, that may be still to come. */
  readonly dueAtMs?: number | undefined;
  /** All that the wake is for becomes due by `dueAtMs`. */
  readonly isForDue?: boolean | undefined;
  /** Jobs that were being stored in the one partition that is named, when this dispatcher was told of them: they are looked up. */
  readonly jobIds?: readonly string[] | undefined;
}

/** One that shows no jobs, or those that were seen as they are. */
export type WakeTrigger = Trigger & { readonly jobs: readonly MovingJob[] };

/** What one run of passes did. `left`: a letter, because another dispatcher leads. `lost`: other commits came first, three times in a row. */
export interface DispatchReport {
  readonly kind: 'left' | 'done' | 'lost' | 'outOfBudget';
  readonly passes: number;
  readonly admitted: number;
  readonly settled: number;
  readonly lostClaims: number;
}

/** Runs passes of one partition: under the newest declaration that it was told of. */
export async function dispatch(
  given: DispatchContext,
  partition: number,
  trigger: Trigger,
): Promise<DispatchReport> {
  let context = given;
  let left = trigger;
  for (let renewals = 0; ; renewals += 1) {
    const report = isWoken(left)
      ? await leadOnce(context, partition, left)
      : await new Run(context, partition, left).run();
    if (report.kind !== 'outdated') return report;
    if (renewals === TRIES_MAX || context.deployed === undefined) {
      throw new ThrottledError(
        `partition ${partition} was told of another declaration at each of ${TRIES_MAX} tries; try again`,
      );
    }
    left = { ...trigger, jobs: report.hints, jobIds: report.told };
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
});

/** A run that met a newer declaration, and what it was shown and has not used. */
interface OutdatedRun {
  readonly kind: 'outdated';
  readonly version: number;
  readonly hints: readonly JobImage[];
  readonly told: readonly string[];
}

const isWoken = ({ reason }: Trigger): boolean => reason === 'wake' || reason === 'tick';

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

/** Takes the lead of a partition, and goes on for as long as something is left to do. */
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
      told: jobIds,
      fires: true,
      // planted: woken-for-nothing
      commitsAnyway: trigger.reason === 'wake' && trigger.isForDue !== true,
    },
    letter: { hints: jobs, jobIds },
    endsAtMonotonicMs: clock.monotonicMs() + budget.runMs,
    passesMax: budget.passesMax,
  });
  if (report.outdated !== undefined) return { kind: 'outdated', ...report.outdated };
  const kind = report.end === 'left' ? 'left' : report.end === 'outOfTime' ? 'outOfBudget' : 'done';
  await noteMoved(context, partition, report.admitted + report.settled);
  return reportOf(kind, report);
}

/** Passes of a dispatcher that does not lead, one after the other, until nothing is left to do or a bound is met. */
class Run {
  readonly #context: DispatchContext;
  readonly #partition: number;
  readonly #trigger: Trigger;
  readonly #endsAtMonotonicMs: number;
  readonly #totals: LeadTotals = { passes: 0, admitted: 0, settled: 0, lostClaims: 0 };
  #hints: readonly JobImage[];
  #told: readonly string[];
  /** Refused commits in a row. */
  #lost = 0;

  constructor(context: DispatchContext, partition: number, trigger: Trigger) {
    const { clock, budget } = context;
    this.#context = context;
    this.#partition = partition;
    this.#trigger = trigger;
    this.#hints = trigger.jobs;
    this.#told = trigger.jobIds ?? [];
    this.#endsAtMonotonicMs = clock.monotonicMs() + budget.runMs;
  }

  async run(): Promise<DispatchReport | OutdatedRun> {
    // Of a partition that was led when this process looked last, nothing is read before the letter is left.
    const wasLed = this.#context.seen.get(this.#partition)?.isLed === true;
    if (wasLed && (await this.#leave())) return reportOf('left', this.#totals);
    for (;;) {
      const outcome = await this.#pass();
      if (outcome.kind === 'outdated')
        return { kind: 'outdated', version: outcome.version, hints: this.#hints, told: this.#told };
      if (outcome.kind === 'led') {
        if (await this.#leave()) return reportOf('left', this.#totals);
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
    await noteMoved(this.#context, this.#partition, this.#totals.admitted + this.#totals.settled);
    return reportOf('done', this.#totals);
  }

  async #pass(): ReturnType<typeof pass> {
    const { clock } = this.#context;
    const { reason } = this.#trigger;
    const isFirst = this.#totals.passes + this.#lost === 0;
    const beside: Promise<unknown>[] = [];
    try {
      return await pass(this.#context, this.#partition, {
        hints: this.#hints,
        told: this.#told,
        looksAtAll: false,
        promotes: reason === 'ingest' || this.#hints.some((job) => isDue(job, clock.nowMs())),
        fires: false,
        // What was stored a moment ago, no other pass has met.
        justStored: reason === 'ingest' && isFirst ? new Set(this.#hints.map(({ id }) => id)) : undefined,
        inBackground: (work) => beside.push(work),
      });
    } finally {
      // Also when a pass failed: a process may be frozen when it has answered, and its messages with it.
      await Promise.all(beside);
    }
  }

  #letter(): Letter {
    return { hints: this.#hints, jobIds: this.#told };
  }

  /** Leaves what it knows to the leader; false: no dispatcher leads any more. */
  #leave(): Promise<boolean> {
    return leaveLetter(this.#context, this.#partition, this.#letter());
  }

  /** First the letter, then the wake: the dispatcher that is woken reads letters. */
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
    this.#told = [];
    this.#lost = 0;
  }

  /** What a refused pass had committed before counts. That it is made again is no news: it loses nothing by it. */
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

/** Counts jobs that this process has started and settled, and asks for a lead where they are many. */
async function noteMoved(context: DispatchContext, partition: number, moved: number): Promise<void> {
  const { clock, budget, seen } = context;
  const nowMonotonicMs = clock.monotonicMs();
  const { movedPerSec = 0, countedAtMonotonicMs = nowMonotonicMs } = seen.get(partition) ?? {};
  const perSec = rateAfter(movedPerSec, nowMonotonicMs - countedAtMonotonicMs, moved);
  noteSeen(context, partition, { movedPerSec: perSec, countedAtMonotonicMs: nowMonotonicMs });
  if (perSec >= budget.leadFrom) await askToLead(context, partition);
}

/** Asks for a function that leads the partition. A hint: one that is lost, or refused, costs passes that are in each other's way. */
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
    log.warn('nobody could be asked to lead; passes go on one by one', { partition, error: String(error) });
  }
}

/**
 * Leads a partition for as long as a run of passes may take, or until little goes on there. Undefined: another dispatcher leads.
 *
 * @throws the store's errors
 */
export async function leadWhileBusy(
  given: DispatchContext,
  partition: number,
): Promise<DispatchReport | undefined> {
  let context = given;
  const { store, clock, budget, log } = context;
  // A dispatcher that runs on takes whatever partition is free.
  if ((await store.listDispatchers(clock.nowMs())).length > 0) return undefined;
  const startedMonotonicMs = clock.monotonicMs();
  while (isLedBy(await store.readLeader(partition), undefined, clock.nowMs())) {
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
    const { version, hints, told } = report.outdated;
    context = await renewed(context, context.deployed, version);
    report = await lead(context, partition, {
      ...options,
      first: { hints, told, fires: false },
      letter: { hints, jobIds: told },
    });
  }
  await Promise.all(asked);
  log.info('led while busy', {
    partition,
    tookMs: Math.round(clock.monotonicMs() - startedMonotonicMs),
    ...report,
  });
  return report.end === 'left' ? undefined : reportOf('done', report);
}

/** Whether as much goes on as leading is worth; asked again and again. Before the time is over, it asks for the next leader. */
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

/** Those that were once, too: what waits there is moved. */
const everyPartition = ({ configuration, deployed }: DispatchContext): readonly number[] =>
  Array.from({ length: Math.max(configuration.partitions, deployed?.partitionsEver ?? 1) }, (_, at) => at);

function noteRun(
  { metrics }: DispatchContext,
  { reason }: Trigger,
  report: DispatchReport,
  tookMs: number,
): void {
  if (report.kind === 'lost') metrics?.add('lostRaces', 1);
  // A lead counts its passes itself.
  if (isWoken({ reason, jobs: [] })) return;
  metrics?.add('claimed', report.admitted);
  metrics?.add('lostRaces', report.lostClaims);
  if (report.passes > 0) metrics?.add('passDuration', tookMs);
}

/** Runs passes of every partition that the trigger concerns; of all, if it names neither a job nor a partition. */
export async function dispatchAll(
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
      noteRun(context, trigger, report, tookMs);
      // It made no pass: a line for each of these would be most of its log.
      if (report.passes > 0 || report.kind === 'lost')
        context.log.info('dispatched', { partition, reason: trigger.reason, tookMs, ...report });
      return report;
    }),
  );
}
