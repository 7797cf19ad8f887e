/**
 * Runs a scenario for the product's own configuration (format `fairlead/1`) under virtual time.
 *
 * Nothing here decides: the core's scheduler orders and places, its life cycle moves jobs, its retry policy says what
 * follows a failure, its schedules when to fire. This file only lets time pass. Dispatch takes no time; a worker that
 * vanishes is missed a lease later, and counts as running until then.
 */
import type { JobTypeConfiguration, PoolConfiguration } from '../../core/configuration.ts';
import { type PoolInput, resolveConfiguration } from '../../core/defaults.ts';
import { ConfigurationError } from '../../core/errors.ts';
import { isTerminal, type Job } from '../../core/job.ts';
import {
  cancel,
  claim,
  finish,
  initialState,
  loseWorker,
  promote,
  retime,
  start,
  type Transition,
  type Verdict,
} from '../../core/life-cycle.ts';
import { afterFailure, afterWorkerLost } from '../../core/retry.ts';
import { hashText, RING_SPACE } from '../../core/ring.ts';
import { decideOverlap, type Fires, firesOf, readRecurrence } from '../../core/schedule.ts';
import { type Decision, Scheduler } from '../../core/scheduler.ts';
import { readCron } from '../../schedule/croner.ts';
import type {
  ProductEvent,
  ProductJob,
  ProductScenario,
  ProductSchedule,
  ProductWorker,
} from '../product-scenario.ts';
import { pathOf, refuseDuplicates, ScenarioError } from '../scenario-file.ts';
import { Agenda } from './agenda.ts';
import { Books } from './books.ts';
import type { Run } from './fairness.ts';

/** How one attempt went. */
export type AttemptOutcome = 'succeeded' | 'failed' | 'retry' | 'workerLost' | 'cancelled' | 'running';

export interface Attempt {
  readonly id: string;
  readonly attempt: number;
  readonly fleet: string;
  readonly startMs: number;
  readonly endMs: number | null;
  readonly outcome: AttemptOutcome;
  /** The error's name, where there was one. */
  readonly error?: string;
}

/** What a fairness key got, or a type. */
export interface Share {
  readonly submitted: number;
  readonly started: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly waiting: number;
  readonly running: number;
  /** Of slots. */
  readonly busyMs: number;
  /** From ready to start, over all attempts that started. */
  readonly waitMeanMs: number;
  readonly waitMaxMs: number;
}

export interface FleetUse {
  /** When the scenario ends. */
  readonly slots: number;
  /** Slots over time. A vanished worker's busy slots count until it is missed. */
  readonly slotMs: number;
  readonly busyMs: number;
  readonly peak: number;
}

export interface ProductResult {
  readonly attempts: readonly Attempt[];
  readonly keys: Readonly<Record<string, Share & { readonly costMs: number; readonly weight: number }>>;
  readonly types: Readonly<Record<string, Share & { readonly peak: number }>>;
  readonly fleets: Readonly<Record<string, FleetUse>>;
  readonly peak: number;
  readonly estimates: readonly (readonly [type: string, resourceId: string, meanMs: number])[];
  /** Waiting when the scenario ends, in id order, at most `MOST_LISTED`. */
  readonly waiting: readonly string[];
}

/** More starts than this are no scenario but a mistake, such as endless retries without a delay. */
const MOST_STARTS = 1_000_000;
const MOST_JOBS = 200_000;
const MOST_LISTED = 100;

type Work = Pick<
  ProductJob,
  'type' | 'priority' | 'mode' | 'fairnessKey' | 'resourceId' | 'durationMs' | 'failures'
>;

/** What a job does when it runs, and where it comes from. */
interface Plan {
  readonly work: Work;
  readonly schedule: string | undefined;
}

type Happening =
  | { readonly kind: 'submit'; readonly id: string; readonly plan: Plan; readonly runAtMs: number }
  | { readonly kind: 'promote'; readonly id: string; readonly version: number }
  | { readonly kind: 'end'; readonly id: string; readonly claimId: string }
  | { readonly kind: 'missed'; readonly id: string; readonly claimId: string }
  | { readonly kind: 'fire'; readonly schedule: string }
  | { readonly kind: 'join'; readonly worker: ProductWorker }
  | { readonly kind: 'vanish'; readonly worker: ProductWorker }
  | { readonly kind: 'event'; readonly event: ProductEvent };

/** Within an instant: operators and workers, then the clock, then what ends, so that capacity is known before dispatch. */
const RANKS: Readonly<Record<Happening['kind'], number>> = {
  event: 0,
  join: 1,
  vanish: 1,
  fire: 2,
  submit: 3,
  promote: 4,
  missed: 5,
  end: 6,
};

/** @throws ScenarioError with a path below `path`, the scenario's. */
export function simulateProduct(
  scenario: ProductScenario,
  path: string,
): { readonly result: ProductResult; readonly runs: readonly Run[] } {
  return new Simulation(scenario, path).run();
}

interface OpenAttempt {
  readonly job: Job;
  readonly fleet: string;
  readonly startMs: number;
  readonly worker: string | undefined;
  readonly outcome: Verdict;
  lost: boolean;
}

interface ScheduleState {
  readonly schedule: ProductSchedule;
  readonly fires: Fires;
  readonly unfinished: Set<string>;
  fired: number;
  waiting: number;
}

interface Tally {
  submitted: number;
  started: number;
  succeeded: number;
  failed: number;
  cancelled: number;
  busyMs: number;
  waitMs: number;
  waitMaxMs: number;
  running: number;
  peak: number;
}

class Simulation {
  readonly #scenario: ProductScenario;
  readonly #path: string;
  readonly #configuration: PoolConfiguration;
  readonly #types: ReadonlyMap<string, JobTypeConfiguration>;
  readonly #scheduler: Scheduler;
  readonly #books: Books;
  readonly #agenda = new Agenda<Happening>();
  readonly #epochMs: number;
  readonly #random: () => number;
  readonly #jobs = new Map<string, Job>();
  readonly #plans = new Map<string, Plan>();
  /** Places in the scheduler's backlog, of pending jobs. */
  readonly #places = new Map<string, number>();
  /** When each job first became ready. */
  readonly #readyMs = new Map<string, number>();
  readonly #open = new Map<string, OpenAttempt>();
  readonly #schedules = new Map<string, ScheduleState>();
  readonly #slotsOf = new Map<string, number>();
  /** Slots over time, until the end of the scenario. */
  readonly #slotMsOf = new Map<string, number>();
  /** Alive, with the jobs on them. */
  readonly #workers = new Map<string, { readonly worker: ProductWorker; readonly jobs: Set<string> }>();
  readonly #attempts: Attempt[] = [];
  readonly #byKey = new Map<string, Tally>();
  readonly #byType = new Map<string, Tally>();
  readonly #byFleet = new Map<string, Tally>();
  #running = 0;
  #peak = 0;
  #fires = 0;

  constructor(scenario: ProductScenario, path: string) {
    this.#scenario = scenario;
    this.#path = path;
    this.#configuration = configurationOf(scenario.configuration, path);
    this.#types = new Map(this.#configuration.types.map((type) => [type.type, type]));
    this.#scheduler = new Scheduler(this.#configuration, { explains: false });
    this.#books = new Books(this.#scheduler, this.#configuration.fairness);
    this.#epochMs = Date.parse(scenario.startsAt);
    this.#random = seeded(scenario.seed);
    for (const { fleet, slots } of this.#configuration.fleets) this.#addSlots(fleet, slots ?? 0, 0);
    this.#planJobs();
    this.#planSchedules();
    this.#planWorkers();
    this.#planEvents();
  }

  run(): ReturnType<typeof simulateProduct> {
    const { untilMs } = this.#scenario;
    while (this.#agenda.nextMs <= untilMs) {
      const nowMs = this.#agenda.nextMs;
      this.#books.keep(nowMs);
      for (let next = this.#agenda.take(nowMs); next !== undefined; next = this.#agenda.take(nowMs)) {
        this.#happen(next, nowMs);
      }
      this.#dispatch(nowMs);
    }
    this.#books.close(untilMs);
    return this.#report();
  }

  #planJobs(): void {
    const { jobs } = this.#scenario;
    const used = new Set<string>();
    let number = 0;
    jobs.forEach((job, index) => {
      const path = `${this.#path}.jobs[${index}]`;
      this.#knowType(job.type, path);
      const { count, everyMs } = job.repeat ?? { count: 1, everyMs: 0 };
      for (let copy = 0; copy < count; copy += 1) {
        number += 1;
        if (number > MOST_JOBS) throw new ScenarioError(path, `makes more than ${MOST_JOBS} jobs`);
        const base = job.id ?? `${job.type}-${number}`;
        const id = job.id !== undefined && job.repeat !== undefined ? `${base}-${copy + 1}` : base;
        if (used.has(id)) throw new ScenarioError(`${path}.id`, `${id} is there twice`);
        used.add(id);
        const atMs = job.atMs + copy * everyMs;
        const plan = { work: job, schedule: undefined };
        this.#add(atMs, { kind: 'submit', id, plan, runAtMs: job.runAtMs ?? atMs });
      }
    });
  }

  #planSchedules(): void {
    const { schedules } = this.#scenario;
    refuseDuplicates(
      schedules.map(({ id }) => id),
      `${this.#path}.schedules`,
      'id',
    );
    schedules.forEach((schedule, index) => {
      const path = `${this.#path}.schedules[${index}]`;
      this.#knowType(schedule.job.type, `${path}.job`);
      const fires = placed(path, () => {
        const recurrence = readRecurrence(schedule.schedule, schedule.timeZone, this.#epochMs);
        const { dst } = schedule;
        return firesOf(recurrence.kind === 'cron' ? { ...recurrence, dst } : recurrence, readCron);
      });
      this.#schedules.set(schedule.id, { schedule, fires, unfinished: new Set(), fired: 0, waiting: 0 });
      this.#planFire(schedule.id, this.#epochMs - 1);
    });
  }

  #planFire(id: string, afterMs: number): void {
    const state = this.#schedules.get(id);
    const next = state?.fires.next(afterMs);
    if (next !== undefined) this.#add(next - this.#epochMs, { kind: 'fire', schedule: id });
  }

  #planWorkers(): void {
    const { workers } = this.#scenario;
    refuseDuplicates(
      workers.map(({ worker }) => worker),
      `${this.#path}.workers`,
      'worker',
    );
    workers.forEach((worker, index) => {
      const path = `${this.#path}.workers[${index}]`;
      if (!this.#slotsOf.has(worker.fleet))
        throw new ScenarioError(`${path}.fleet`, `${worker.fleet} is no fleet`);
      if (worker.lostAtMs !== undefined && worker.lostAtMs <= worker.fromMs) {
        throw new ScenarioError(`${path}.lostAtMs`, 'expected an instant after fromMs');
      }
      this.#add(worker.fromMs, { kind: 'join', worker });
      if (worker.lostAtMs !== undefined) this.#add(worker.lostAtMs, { kind: 'vanish', worker });
    });
  }

  #planEvents(): void {
    this.#scenario.events.forEach((event, index) => {
      if (event.op === 'override') this.#knowScope(event.scope, `${this.#path}.events[${index}].scope`);
      this.#add(event.atMs, { kind: 'event', event });
    });
  }

  #knowScope(scope: string, path: string): void {
    const slash = scope.indexOf('/');
    const name = scope.slice(slash + 1);
    const { tiers, fleets } = this.#configuration;
    const isKnown =
      scope === 'pool' ||
      (scope.startsWith('key/') && slash > 0) ||
      (scope.startsWith('tier/') && tiers.some(({ tier }) => tier === name)) ||
      (scope.startsWith('type/') && this.#types.has(name)) ||
      (scope.startsWith('fleet/') && fleets.some(({ fleet }) => fleet === name));
    if (isKnown) return;
    throw new ScenarioError(
      path,
      `${scope} is no scope: pool, tier/<tier>, type/<type>, fleet/<fleet>, key/<key>`,
    );
  }

  #knowType(type: string, path: string): void {
    if (this.#types.has(type)) return;
    const known = [...this.#types.keys()].slice(0, 10).join(', ');
    throw new ScenarioError(`${path}.type`, `${type} is not a type of the configuration (${known})`);
  }

  #add(atMs: number, what: Happening): void {
    this.#agenda.add(atMs, RANKS[what.kind], what);
  }

  #happen(what: Happening, nowMs: number): void {
    switch (what.kind) {
      case 'submit':
        this.#submit(what.id, what.plan, what.runAtMs, nowMs);
        break;
      case 'promote': {
        const job = this.#jobs.get(what.id);
        // A moved time wins: the older promotion finds a newer version.
        if (job?.version === what.version) this.#moveTo(promote(job, nowMs), nowMs);
        break;
      }
      case 'end':
        this.#end(what.id, what.claimId, nowMs);
        break;
      case 'missed':
        this.#missed(what.id, what.claimId, nowMs);
        break;
      case 'fire':
        this.#fire(what.schedule, nowMs);
        this.#planFire(what.schedule, this.#epochMs + nowMs);
        break;
      case 'join':
        this.#workers.set(what.worker.worker, { worker: what.worker, jobs: new Set() });
        this.#addSlots(what.worker.fleet, what.worker.slots, nowMs);
        break;
      case 'vanish':
        this.#vanish(what.worker, nowMs);
        break;
      case 'event':
        this.#operate(what.event, nowMs);
    }
  }

  #submit(id: string, plan: Plan, runAtMs: number, nowMs: number): void {
    const { type, priority, mode, fairnessKey, resourceId } = plan.work;
    const job: Job = {
      id,
      type,
      priority,
      mode,
      fairnessKey,
      ...(resourceId === undefined ? {} : { resourceId }),
      readyAtMs: Math.max(nowMs, runAtMs),
      version: 1,
      attempt: 1,
      partition: 0,
      state: initialState(runAtMs, nowMs),
      payload: null,
      contentHash: '',
      runAtMs,
      submittedAtMs: nowMs,
      workersLost: 0,
    };
    this.#plans.set(id, plan);
    this.#tally(this.#byKey, fairnessKey).submitted += 1;
    this.#tally(this.#byType, type).submitted += 1;
    this.#place(job, nowMs);
  }

  /** Puts a job where its state belongs: into the backlog, or on the agenda for its time. */
  #place(job: Job, nowMs: number): void {
    this.#jobs.set(job.id, job);
    if (job.state === 'pending') {
      if (!this.#readyMs.has(job.id)) this.#readyMs.set(job.id, job.readyAtMs);
      this.#books.arrive(job.fairnessKey, job.type, job.resourceId, nowMs);
      const place = this.#scheduler.arrive(job, nowMs);
      if (place !== undefined) this.#places.set(job.id, place);
    } else if (job.state === 'scheduled') {
      this.#add(Math.max(nowMs, job.runAtMs), { kind: 'promote', id: job.id, version: job.version });
    }
  }

  #moveTo(transition: Transition, nowMs: number): boolean {
    if (transition.kind === 'refused') return false;
    this.#place(transition.job, nowMs);
    return true;
  }

  #dispatch(nowMs: number): void {
    const scheduler = this.#scheduler;
    scheduler.beginPass(nowMs);
    for (let decision = scheduler.next(); decision !== undefined; decision = scheduler.next()) {
      this.#start(decision, nowMs);
    }
  }

  #start(decision: Decision, nowMs: number): void {
    const { id, type: typeName, fleet } = decision.reserved;
    this.#places.delete(id);
    const pending = this.#jobs.get(id);
    const type = this.#types.get(typeName);
    if (pending === undefined || type === undefined) return;
    if (this.#attempts.length + this.#open.size >= MOST_STARTS) {
      throw new ScenarioError(this.#path, `makes more than ${MOST_STARTS} starts`);
    }
    const claimId = `1.${pending.version}.${id}`;
    const worker = this.#workerFor(fleet, id);
    const life = { workerId: worker ?? fleet, incarnation: claimId };
    const claimed = claim(
      pending,
      { claimId, epoch: 1, batchId: '', fleet, claimedAtMs: nowMs },
      pending.version,
    );
    const started = claimed.kind === 'moved' ? start(claimed.job, claimId, life, nowMs) : claimed;
    if (started.kind === 'refused') return;
    const { outcome, takesMs } = this.#outcomeOf(started.job, type);
    this.#jobs.set(id, started.job);
    this.#open.set(id, { job: started.job, fleet, startMs: nowMs, worker, outcome, lost: false });
    this.#add(nowMs + takesMs, { kind: 'end', id, claimId });
    this.#count(started.job, fleet, nowMs);
  }

  /** A slot of a worker that registered; undefined where the fleet's slots are a Lambda's. */
  #workerFor(fleet: string, id: string): string | undefined {
    for (const [name, { worker, jobs }] of this.#workers) {
      if (worker.fleet !== fleet || jobs.size >= worker.slots) continue;
      jobs.add(id);
      return name;
    }
    return undefined;
  }

  #outcomeOf(job: Job, type: JobTypeConfiguration): { readonly outcome: Verdict; readonly takesMs: number } {
    const work = this.#plans.get(job.id)?.work;
    const failure = work?.failures[job.attempt - 1];
    const takesMs = failure?.afterMs ?? work?.durationMs ?? 0;
    if (takesMs > type.timeoutMs) {
      const message = `The attempt took longer than ${type.timeoutMs} ms.`;
      return { outcome: { kind: 'failed', error: { name: 'Timeout', message } }, takesMs: type.timeoutMs };
    }
    if (failure === undefined) return { outcome: { kind: 'succeeded', result: null }, takesMs };
    return { outcome: { kind: 'failed', error: { name: failure.name, message: '' } }, takesMs };
  }

  #end(id: string, claimId: string, nowMs: number): void {
    const open = this.#open.get(id);
    const type = open === undefined ? undefined : this.#types.get(open.job.type);
    // What a vanished worker did reaches nobody; the lease will tell.
    if (open === undefined || type === undefined || open.lost || open.job.claim?.claimId !== claimId) return;
    const { outcome, job } = open;
    const verdict =
      outcome.kind === 'failed'
        ? afterFailure(job, outcome.error, type.retry, this.#random(), nowMs)
        : outcome;
    const life = job.worker ?? { workerId: '', incarnation: '' };
    this.#settle(open, finish(job, claimId, life, verdict, nowMs), verdict.kind, nowMs);
  }

  #missed(id: string, claimId: string, nowMs: number): void {
    const open = this.#open.get(id);
    const type = open === undefined ? undefined : this.#types.get(open.job.type);
    if (open === undefined || type === undefined || open.job.claim?.claimId !== claimId) return;
    const verdict = afterWorkerLost(open.job, type, nowMs);
    this.#settle(open, loseWorker(open.job, claimId, verdict, nowMs), 'workerLost', nowMs);
  }

  /** The slot is free again, the key's cost is trued up, and the job goes where its verdict says. */
  #settle(open: OpenAttempt, transition: Transition, outcome: AttemptOutcome, nowMs: number): void {
    if (transition.kind === 'refused') return;
    const { job } = open;
    this.#open.delete(job.id);
    this.#uncount(open, nowMs);
    this.#scheduler.settle(job.id, {
      nowMs,
      usedMs: nowMs - open.startMs,
      succeeded: transition.job.state === 'succeeded',
    });
    this.#attempts.push(attemptOf(open, nowMs, outcome, transition.job));
    this.#leaveWorker(open, nowMs);
    this.#place(transition.job, nowMs);
    if (isTerminal(transition.job.state)) this.#over(transition.job, nowMs);
  }

  #leaveWorker({ worker, fleet, job }: OpenAttempt, nowMs: number): void {
    if (worker === undefined) return;
    const alive = this.#workers.get(worker);
    if (alive !== undefined) alive.jobs.delete(job.id);
    // The slots of a worker that vanished went with it, except those in which its jobs were still counted.
    else this.#addSlots(fleet, -1, nowMs);
  }

  #over(job: Job, nowMs: number): void {
    const outcome = job.state === 'succeeded' ? 'succeeded' : job.state === 'failed' ? 'failed' : 'cancelled';
    this.#tally(this.#byKey, job.fairnessKey)[outcome] += 1;
    this.#tally(this.#byType, job.type)[outcome] += 1;
    const schedule = this.#plans.get(job.id)?.schedule;
    const state = schedule === undefined ? undefined : this.#schedules.get(schedule);
    if (state === undefined) return;
    state.unfinished.delete(job.id);
    if (state.waiting > 0 && state.unfinished.size === 0) {
      state.waiting -= 1;
      this.#submitFire(state, nowMs);
    }
  }

  #fire(id: string, nowMs: number): void {
    const state = this.#schedules.get(id);
    if (state === undefined) return;
    this.#fires += 1;
    if (this.#fires > MOST_JOBS) throw new ScenarioError(this.#path, `fires more than ${MOST_JOBS} times`);
    switch (decideOverlap(state.schedule.overlap, state.unfinished.size, state.waiting)) {
      case 'skip':
        return;
      case 'wait':
        state.waiting += 1;
        return;
      case 'replace':
        for (const unfinished of [...state.unfinished]) this.#cancel(unfinished, nowMs);
        this.#submitFire(state, nowMs);
        return;
      case 'start':
        this.#submitFire(state, nowMs);
    }
  }

  #submitFire(state: ScheduleState, nowMs: number): void {
    state.fired += 1;
    if (this.#jobs.size >= MOST_JOBS)
      throw new ScenarioError(this.#path, `makes more than ${MOST_JOBS} jobs`);
    const id = `${state.schedule.id}#${state.fired}`;
    if (this.#jobs.has(id)) throw new ScenarioError(this.#path, `the job ${id} is there twice`);
    state.unfinished.add(id);
    this.#submit(id, { work: state.schedule.job, schedule: state.schedule.id }, nowMs, nowMs);
  }

  #vanish(worker: ProductWorker, nowMs: number): void {
    const alive = this.#workers.get(worker.worker);
    if (alive === undefined) return;
    this.#workers.delete(worker.worker);
    this.#addSlots(worker.fleet, alive.jobs.size - worker.slots, nowMs);
    for (const id of alive.jobs) this.#lose(id, nowMs);
  }

  #lose(id: string, nowMs: number): void {
    const open = this.#open.get(id);
    if (open === undefined || open.lost) return;
    open.lost = true;
    const claimId = open.job.claim?.claimId ?? '';
    this.#add(nowMs + this.#scenario.leaseMs, { kind: 'missed', id, claimId });
  }

  #operate(event: ProductEvent, nowMs: number): void {
    switch (event.op) {
      case 'cancel':
        this.#cancel(event.id, nowMs);
        return;
      case 'retime':
        this.#retime(event.id, event.runAtMs, nowMs);
        return;
      case 'lose':
        // What ran the job is gone, not its worker: the slot is free again when the job is given up.
        this.#lose(event.id, nowMs);
        return;
      case 'override': {
        const { scope, paused, maxConcurrency, weight } = event;
        this.#scheduler.override({ scope, paused, maxConcurrency, weight });
      }
    }
  }

  #cancel(id: string, nowMs: number): void {
    const job = this.#jobs.get(id);
    if (job === undefined) return;
    const transition = cancel(job, nowMs);
    const open = this.#open.get(id);
    if (open !== undefined) {
      this.#settle(open, transition, 'cancelled', nowMs);
      return;
    }
    this.#withdraw(job, nowMs);
    if (this.#moveTo(transition, nowMs)) this.#over(this.#jobs.get(id) ?? job, nowMs);
  }

  #retime(id: string, runAtMs: number, nowMs: number): void {
    const job = this.#jobs.get(id);
    if (job === undefined) return;
    const transition = retime(job, runAtMs, nowMs);
    if (transition.kind === 'refused') return;
    this.#withdraw(job, nowMs);
    this.#place(transition.job, nowMs);
  }

  #withdraw(job: Job, nowMs: number): void {
    const place = this.#places.get(job.id);
    if (place === undefined) return;
    this.#places.delete(job.id);
    this.#scheduler.withdraw(place, job.id, nowMs);
  }

  #addSlots(fleet: string, slots: number, nowMs: number): void {
    const { untilMs } = this.#scenario;
    this.#slotMsOf.set(fleet, (this.#slotMsOf.get(fleet) ?? 0) + slots * (untilMs - nowMs));
    const total = (this.#slotsOf.get(fleet) ?? 0) + slots;
    this.#slotsOf.set(fleet, total);
    this.#scheduler.setSlots(fleet, total);
  }

  #count(job: Job, fleet: string, nowMs: number): void {
    const waitMs = nowMs - job.readyAtMs;
    for (const tally of this.#talliesOf(job, fleet)) {
      tally.started += 1;
      tally.running += 1;
      tally.peak = Math.max(tally.peak, tally.running);
      tally.waitMs += waitMs;
      tally.waitMaxMs = Math.max(tally.waitMaxMs, waitMs);
    }
    this.#running += 1;
    this.#peak = Math.max(this.#peak, this.#running);
  }

  #uncount(open: OpenAttempt, nowMs: number): void {
    for (const tally of this.#talliesOf(open.job, open.fleet)) {
      tally.running -= 1;
      tally.busyMs += nowMs - open.startMs;
    }
    this.#running -= 1;
  }

  #talliesOf(job: Job, fleet: string): readonly Tally[] {
    return [
      this.#tally(this.#byKey, job.fairnessKey),
      this.#tally(this.#byType, job.type),
      this.#tally(this.#byFleet, fleet),
    ];
  }

  #tally(tallies: Map<string, Tally>, name: string): Tally {
    const known = tallies.get(name);
    if (known !== undefined) return known;
    const tally = {
      submitted: 0,
      started: 0,
      succeeded: 0,
      failed: 0,
      cancelled: 0,
      busyMs: 0,
      waitMs: 0,
      waitMaxMs: 0,
      running: 0,
      peak: 0,
    };
    tallies.set(name, tally);
    return tally;
  }

  #report(): ReturnType<typeof simulateProduct> {
    const { untilMs } = this.#scenario;
    for (const open of this.#open.values()) {
      for (const tally of this.#talliesOf(open.job, open.fleet)) tally.busyMs += untilMs - open.startMs;
    }
    const open = [...this.#open.values()].map((one) => attemptOf(one, null, 'running', one.job));
    const attempts = [...this.#attempts, ...open].sort(
      (one, other) =>
        one.startMs - other.startMs || compareText(one.id, other.id) || one.attempt - other.attempt,
    );
    const costs = new Map(this.#scheduler.costs().map((cost) => [cost.fairnessKey, cost]));
    const { defaultWeight, weights } = this.#configuration.fairness;
    return {
      result: {
        attempts,
        keys: record(this.#byKey, (key, tally) => ({
          ...shareOf(tally),
          costMs: costs.get(key)?.costMs ?? 0,
          weight:
            costs.get(key)?.weight ??
            (Object.hasOwn(weights, key) ? weights[key] : undefined) ??
            defaultWeight,
        })),
        types: record(this.#byType, (_, tally) => ({ ...shareOf(tally), peak: tally.peak })),
        fleets: record(
          new Map([...this.#slotsOf.keys()].map((fleet) => [fleet, this.#tally(this.#byFleet, fleet)])),
          (fleet, tally) => ({
            slots: this.#slotsOf.get(fleet) ?? 0,
            slotMs: this.#slotMsOf.get(fleet) ?? 0,
            peak: tally.peak,
            busyMs: tally.busyMs,
          }),
        ),
        peak: this.#peak,
        estimates: this.#scheduler.estimates
          .list()
          .map(({ type, resourceId, meanMs }) => [type, resourceId, meanMs]),
        waiting: [...this.#jobs.values()]
          .filter(({ state }) => state === 'pending' || state === 'scheduled')
          .map(({ id }) => id)
          .sort(compareText)
          .slice(0, MOST_LISTED),
      },
      runs: this.#runs(attempts),
    };
  }

  #runs(attempts: readonly Attempt[]): readonly Run[] {
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
      const untilMs = firstStart.get(id) ?? job?.finishedAtMs;
      return { group: job?.fairnessKey ?? '', readyAtMs, startMs: untilMs, endMs: untilMs };
    });
    return [...ran, ...waits];
  }
}

function configurationOf(input: unknown, path: string): PoolConfiguration {
  return placed(`${path}.configuration`, () => resolveConfiguration(input as PoolInput));
}

/** Gives a broken rule of the core its place in the file. */
function placed<Value>(path: string, make: () => Value): Value {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const field = error.field === '' ? path : pathOf([error.field], path);
    const problem = error.message.slice(error.message.indexOf(': ') + 2);
    throw new ScenarioError(field, problem);
  }
}

function attemptOf(open: OpenAttempt, endMs: number | null, outcome: AttemptOutcome, after: Job): Attempt {
  const error = outcome === 'succeeded' || outcome === 'running' ? undefined : after.error?.name;
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

function shareOf(tally: Tally): Share {
  const { submitted, started, succeeded, failed, cancelled, busyMs, running, waitMs, waitMaxMs } = tally;
  return {
    submitted,
    started,
    succeeded,
    failed,
    cancelled,
    waiting: submitted - succeeded - failed - cancelled - running,
    running,
    busyMs,
    waitMeanMs: started === 0 ? 0 : waitMs / started,
    waitMaxMs,
  };
}

function record<Value, Shown>(
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

/** Even numbers from [0, 1), the same for the same seed. */
function seeded(seed: number): () => number {
  let drawn = 0;
  return () => {
    drawn += 1;
    return hashText(`${seed}/${drawn}`) / RING_SPACE;
  };
}
