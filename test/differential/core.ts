/** The core's scheduler, driven directly: it is told all that happens, and knows nothing of stores and passes. */
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { Scheduler } from '../../lib/core/scheduler.ts';
import { delayMs, EPOCH_MS, type Happening, type Player, type Scenario, type Start } from './play.ts';

interface Known {
  readonly type: string;
  readonly place: {
    readonly id: string;
    readonly priority: number;
    readonly mode: 'queued' | 'onDemand';
    readonly fairnessKey: string;
    readonly resourceId?: string | undefined;
    readonly keys?: Readonly<Record<string, string>> | undefined;
  };
  state: 'scheduled' | 'pending' | 'running' | 'over';
  runAtMs: number;
  readyAtMs: number;
  attempt: number;
  workersLost: number;
  isCancelled: boolean;
  startedAtMs: number;
  /** In the backlog. */
  number: number;
}

export class CorePlayer implements Player {
  readonly #configuration;
  readonly #scheduler: Scheduler;
  readonly #jobs = new Map<string, Known>();
  readonly #controls = new Map<
    string,
    { paused: boolean; maxConcurrency?: number | undefined; weight?: number | undefined }
  >();

  constructor({ pool }: Pick<Scenario, 'pool'>) {
    this.#configuration = resolveConfiguration(pool);
    this.#scheduler = new Scheduler(this.#configuration);
  }

  instant(atMs: number, happenings: readonly Happening[]): readonly Start[] {
    const nowMs = EPOCH_MS + atMs;
    this.#scheduler.evict(nowMs);
    const ends = happenings.filter((each) => each.op === 'end');
    for (const happening of happenings) if (happening.op !== 'end') this.#apply(happening, nowMs);
    // A key whose last job ends as another one comes was not away.
    this.#promote(nowMs);
    for (const { start, outcome } of ends) this.#end(start, outcome, nowMs);
    this.#promote(nowMs);
    this.#scheduler.beginPass(nowMs);
    const starts: Start[] = [];
    for (let next = this.#scheduler.next(); next !== undefined; next = this.#scheduler.next()) {
      const { id, fleet, attempt } = next.reserved;
      const job = this.#known(id);
      job.state = 'running';
      job.startedAtMs = nowMs;
      starts.push({ atMs, id, fleet, attempt });
    }
    return starts;
  }

  #apply(happening: Exclude<Happening, { readonly op: 'end' }>, nowMs: number): void {
    switch (happening.op) {
      case 'submit': {
        const { job, atMs } = happening;
        const { type, ...place } = job;
        const runAtMs = Math.max(job.runAtMs ?? atMs, atMs) + EPOCH_MS;
        this.#jobs.set(job.id, {
          type,
          place,
          state: 'scheduled',
          runAtMs,
          readyAtMs: runAtMs,
          attempt: 1,
          workersLost: 0,
          isCancelled: false,
          startedAtMs: 0,
          number: -1,
        });
        return;
      }
      case 'cancel': {
        const job = this.#jobs.get(happening.id);
        if (job === undefined) return;
        if (job.state === 'running') job.isCancelled = true;
        else {
          if (job.state === 'pending') this.#scheduler.withdraw(job.number, happening.id, nowMs);
          job.state = 'over';
        }
        return;
      }
      case 'retime': {
        const job = this.#jobs.get(happening.id);
        if (job === undefined || job.state === 'running' || job.state === 'over') return;
        const runAtMs = EPOCH_MS + happening.runAtMs;
        if (runAtMs > nowMs) {
          if (job.state === 'pending') this.#scheduler.withdraw(job.number, happening.id, nowMs);
          job.state = 'scheduled';
          job.readyAtMs = runAtMs;
        } else if (job.state === 'scheduled') job.readyAtMs = Math.min(job.runAtMs, nowMs);
        job.runAtMs = Math.max(runAtMs, nowMs);
        return;
      }
      case 'control': {
        const { scope, paused, maxConcurrency, weight } = happening;
        const before = this.#controls.get(scope) ?? { paused: false };
        const control = {
          paused: paused ?? before.paused,
          maxConcurrency:
            maxConcurrency === undefined ? before.maxConcurrency : (maxConcurrency ?? undefined),
          weight: weight === undefined ? before.weight : (weight ?? undefined),
        };
        this.#controls.set(scope, control);
        this.#scheduler.override({ scope, ...control });
        return;
      }
      case 'slots':
        this.#scheduler.setSlots(happening.fleet, happening.slots);
        return;
      case 'due':
      case 'tick':
      case 'wake':
        return;
    }
  }

  #promote(nowMs: number): void {
    for (const [id, job] of this.#jobs) {
      if (job.state !== 'scheduled' || job.runAtMs > nowMs) continue;
      const { type, place, readyAtMs, attempt } = job;
      const waiting = { ...place, id, type, readyAtMs, attempt, version: 1 };
      job.number = this.#scheduler.arrive(waiting, nowMs) ?? -1;
      job.state = 'pending';
    }
  }

  #end({ id, attempt }: Start, outcome: 'succeeded' | 'failed' | 'lost', nowMs: number): void {
    const job = this.#known(id);
    const type = this.#configuration.types.find((each) => each.type === job.type);
    if (type === undefined) return;
    const usedMs = nowMs - job.startedAtMs;
    this.#scheduler.settle(id, { nowMs, usedMs, succeeded: outcome === 'succeeded' });
    job.state = 'over';
    if (job.isCancelled || outcome === 'succeeded') return;
    if (outcome === 'failed') {
      if (attempt >= type.retry.maxAttempts) return;
      job.attempt += 1;
      job.runAtMs = nowMs + delayMs(type.retry, attempt);
      job.readyAtMs = job.runAtMs;
    } else {
      job.workersLost += 1;
      if (type.onWorkerLost === 'fail' || job.workersLost > type.retry.maxWorkersLost) return;
      job.runAtMs = nowMs;
    }
    job.state = 'scheduled';
  }

  #known(id: string): Known {
    const job = this.#jobs.get(id);
    if (job === undefined) throw new Error(`no job ${id}`);
    return job;
  }
}
