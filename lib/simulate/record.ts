/**
 * Records what happens in a simulated pool: attempts as they start and end in the store, and the shares of keys, types
 * and fleets.
 */
import { isTerminal, type Job } from '../core/job.ts';
import type { StoreEvent } from '../store/memory/imitation/imitation.ts';
import type { Run } from './fairness.ts';

/** How one attempt ended. */
export type AttemptOutcome = 'succeeded' | 'failed' | 'retry' | 'workerLost' | 'cancelled' | 'running';

export interface Attempt {
  readonly id: string;
  readonly attempt: number;
  readonly fleet: string;
  readonly startMs: number;
  readonly endMs: number | null;
  readonly outcome: AttemptOutcome;
  /** The error's name, if there was one. */
  readonly error?: string;
}

/** The jobs, slot time and waits of a fairness key or a type. */
export interface Share {
  readonly submitted: number;
  readonly started: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  readonly waiting: number;
  readonly running: number;
  /** Slot time used, in ms. */
  readonly busyMs: number;
  /** Time from ready to start, over all started attempts. */
  readonly waitMeanMs: number;
  readonly waitMaxMs: number;
}

export interface FleetUse {
  /** Number of slots when the scenario ends. */
  readonly slots: number;
  /** Slots times their duration. Busy slots of a vanished worker count until its loss is noticed. */
  readonly slotMs: number;
  readonly busyMs: number;
  readonly peak: number;
}

interface Tally {
  submitted: number;
  started: number;
  succeeded: number;
  failed: number;
  cancelled: number;
  expired: number;
  busyMs: number;
  waitMs: number;
  waitMaxMs: number;
  running: number;
  peak: number;
}

interface OpenAttempt {
  readonly job: Job;
  readonly fleet: string;
  readonly startMs: number;
  /** The worker process vanished, and its loss is not noticed yet, so the slot still counts. */
  hasVanished: boolean;
}

export interface RecordOptions {
  /** Milliseconds since the scenario's beginning. */
  readonly nowMs: () => number;
  readonly startEpochMs: number;
  readonly untilMs: number;
  /** The most starts. More indicate a mistake, such as endless retries without a delay. */
  readonly startsMax: number;
  readonly onTooManyStarts: () => void;
}

export class SimulationRecord {
  readonly #options: RecordOptions;
  readonly #attempts: Attempt[] = [];
  readonly #running = new Map<string, OpenAttempt>();
  readonly #jobs = new Map<string, Job>();
  /** When each job first became ready. */
  readonly #readyMs = new Map<string, number>();
  readonly #byKey = new Map<string, Tally>();
  readonly #byType = new Map<string, Tally>();
  readonly #byFleet = new Map<string, Tally>();
  readonly #slotsOf = new Map<string, number>();
  readonly #slotMsOf = new Map<string, number>();
  /** Types and resources of the jobs that succeeded. */
  readonly #learned = new Map<string, Pick<Job, 'type' | 'resourceId'>>();
  /** Number of jobs that are pending, claimed or running. */
  #openCount = 0;
  #peak = 0;

  constructor(options: RecordOptions) {
    this.#options = options;
  }

  get hasOpenJobs(): boolean {
    return this.#openCount > 0;
  }

  get peak(): number {
    return this.#peak;
  }

  get learned(): Iterable<Pick<Job, 'type' | 'resourceId'>> {
    return this.#learned.values();
  }

  get fairnessKeys(): readonly string[] {
    return [...this.#byKey.keys()];
  }

  readonly observe = (event: StoreEvent<Job>): void => {
    if (event.kind !== 'job') return;
    const { oldJob: before, newJob: job } = event;
    this.#jobs.set(job.id, job);
    this.#openCount += (isOpen(job) ? 1 : 0) - (before !== undefined && isOpen(before) ? 1 : 0);
    if (before === undefined) for (const tally of this.#jobTallies(job)) tally.submitted += 1;
    if (job.state === 'pending' && !this.#readyMs.has(job.id)) {
      this.#readyMs.set(job.id, job.readyAtMs - this.#options.startEpochMs);
    }
    if (job.state === 'running' && before?.state !== 'running') this.#start(job);
    if (before?.state === 'running' && job.state !== 'running')
      this.#end(job, job.workersLost > before.workersLost ? 'workerLost' : outcomeOf(job));
    if (isTerminal(job.state) && before?.state !== job.state) this.#countEnd(job);
  };

  /** Adds slots to a fleet from now on; a negative number removes them. */
  addSlots(fleet: string, slots: number): void {
    const { untilMs, nowMs } = this.#options;
    this.#slotMsOf.set(fleet, (this.#slotMsOf.get(fleet) ?? 0) + slots * (untilMs - nowMs()));
    this.#slotsOf.set(fleet, (this.#slotsOf.get(fleet) ?? 0) + slots);
  }

  /** Removes a vanished worker's free slots. Its busy slots count until the loss of their jobs is noticed. */
  vanish(workerId: string, fleet: string, slots: number): void {
    let counted = 0;
    for (const open of this.#running.values()) {
      if (open.hasVanished || open.job.worker?.workerId !== workerId) continue;
      open.hasVanished = true;
      counted += 1;
    }
    this.addSlots(fleet, counted - slots);
  }

  /** Attempts in the order of their starts. */
  attempts(): readonly Attempt[] {
    const running = [...this.#running.values()].map((open) => attemptOf(open, null, 'running', open.job));
    return [...this.#attempts, ...running].sort(
      (one, other) =>
        one.startMs - other.startMs || compareText(one.id, other.id) || one.attempt - other.attempt,
    );
  }

  keys<More>(more: (key: string) => More): Readonly<Record<string, Share & More>> {
    return sortedRecord(this.#byKey, (key, tally) => ({ ...this.#shareOf(tally), ...more(key) }));
  }

  types(): Readonly<Record<string, Share & { readonly peak: number }>> {
    return sortedRecord(this.#byType, (_, tally) => ({ ...this.#shareOf(tally), peak: tally.peak }));
  }

  fleets(): Readonly<Record<string, FleetUse>> {
    return sortedRecord(this.#slotsOf, (fleet, slots) => {
      const tally = tallyOf(this.#byFleet, fleet);
      const slotMs = this.#slotMsOf.get(fleet) ?? 0;
      return { slots, slotMs, peak: tally.peak, busyMs: this.#busyMs(tally) };
    });
  }

  /** Ids of waiting jobs, sorted. */
  waiting(): readonly string[] {
    return [...this.#jobs.values()]
      .filter(({ state }) => state === 'pending' || state === 'scheduled' || state === 'claimed')
      .map(({ id }) => id)
      .sort(compareText);
  }

  /** Data for a chart: attempts, and how long each job waited before its first one. */
  runs(attempts: readonly Attempt[]): readonly Run[] {
    const ran: Run[] = attempts.map(({ id, startMs, endMs }) => ({
      group: this.#jobs.get(id)?.fairnessKey ?? '',
      readyAtMs: startMs,
      startMs,
      endMs: endMs ?? undefined,
    }));
    const firstStart = new Map<string, number>();
    for (const { id, startMs } of attempts) if (!firstStart.has(id)) firstStart.set(id, startMs);
    const waits: Run[] = [...this.#readyMs].map(([id, readyAtMs]) => {
      const job = this.#jobs.get(id);
      const endedMs =
        job?.finishedAtMs === undefined ? undefined : job.finishedAtMs - this.#options.startEpochMs;
      const untilMs = firstStart.get(id) ?? endedMs;
      return { group: job?.fairnessKey ?? '', readyAtMs, startMs: untilMs, endMs: untilMs };
    });
    return [...ran, ...waits];
  }

  #start(job: Job): void {
    const { nowMs, startEpochMs, startsMax, onTooManyStarts } = this.#options;
    const startMs = nowMs();
    const fleet = job.claim?.fleet ?? '';
    this.#running.set(job.id, { job, fleet, startMs, hasVanished: false });
    if (this.#attempts.length + this.#running.size > startsMax) onTooManyStarts();
    const waitMs = startMs - (job.readyAtMs - startEpochMs);
    for (const tally of this.#attemptTallies(job, fleet)) {
      tally.started += 1;
      tally.running += 1;
      tally.peak = Math.max(tally.peak, tally.running);
      tally.waitMs += waitMs;
      tally.waitMaxMs = Math.max(tally.waitMaxMs, waitMs);
      // Busy time is the end minus the start. The start is subtracted now, and the end is added when it is known, or
      // `untilMs` if the job still runs then.
      tally.busyMs -= startMs;
    }
    this.#peak = Math.max(this.#peak, this.#running.size);
  }

  #end(job: Job, outcome: AttemptOutcome): void {
    const open = this.#running.get(job.id);
    if (open === undefined) return;
    const endMs = this.#options.nowMs();
    this.#running.delete(job.id);
    for (const tally of this.#attemptTallies(job, open.fleet)) {
      tally.running -= 1;
      tally.busyMs += endMs;
    }
    this.#attempts.push(attemptOf(open, endMs, outcome, job));
    if (open.hasVanished) this.addSlots(open.fleet, -1);
  }

  #countEnd(job: Job): void {
    if (!isTerminal(job.state)) return;
    for (const tally of this.#jobTallies(job)) tally[job.state] += 1;
    if (job.state !== 'succeeded') return;
    const { type, resourceId } = job;
    this.#learned.set(JSON.stringify([type, resourceId]), { type, resourceId });
  }

  #jobTallies({ fairnessKey, type }: Job): readonly Tally[] {
    return [tallyOf(this.#byKey, fairnessKey), tallyOf(this.#byType, type)];
  }

  #attemptTallies(job: Job, fleet: string): readonly Tally[] {
    return [...this.#jobTallies(job), tallyOf(this.#byFleet, fleet)];
  }

  #busyMs({ busyMs, running }: Tally): number {
    return busyMs + running * this.#options.untilMs;
  }

  #shareOf(tally: Tally): Share {
    const { submitted, started, succeeded, failed, cancelled, expired, running, waitMs, waitMaxMs } = tally;
    return {
      submitted,
      started,
      succeeded,
      failed,
      cancelled,
      expired,
      waiting: submitted - succeeded - failed - cancelled - expired - running,
      running,
      busyMs: this.#busyMs(tally),
      waitMeanMs: started === 0 ? 0 : waitMs / started,
      waitMaxMs,
    };
  }
}

const isOpen = ({ state }: Job): boolean => state === 'pending' || state === 'claimed' || state === 'running';

function outcomeOf({ state }: Job): AttemptOutcome {
  return state === 'succeeded' || state === 'failed' || state === 'cancelled' ? state : 'retry';
}

function attemptOf(open: OpenAttempt, endMs: number | null, outcome: AttemptOutcome, after: Job): Attempt {
  const hasError = outcome === 'failed' || outcome === 'retry' || outcome === 'workerLost';
  const error = hasError ? after.error?.name : undefined;
  return {
    id: open.job.id,
    attempt: open.job.attempt,
    fleet: open.fleet,
    startMs: open.startMs,
    endMs,
    outcome,
    ...(error === undefined ? {} : { error }),
  };
}

function tallyOf(tallies: Map<string, Tally>, name: string): Tally {
  const known = tallies.get(name);
  if (known !== undefined) return known;
  const tally = {
    submitted: 0,
    started: 0,
    succeeded: 0,
    failed: 0,
    cancelled: 0,
    expired: 0,
    busyMs: 0,
    waitMs: 0,
    waitMaxMs: 0,
    running: 0,
    peak: 0,
  };
  tallies.set(name, tally);
  return tally;
}

function sortedRecord<Value, Shown>(
  values: ReadonlyMap<string, Value>,
  show: (name: string, value: Value) => Shown,
): Readonly<Record<string, Shown>> {
  const names = [...values].sort(([one], [other]) => compareText(one, other));
  return Object.fromEntries(names.map(([name, value]) => [name, show(name, value)]));
}

function compareText(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
