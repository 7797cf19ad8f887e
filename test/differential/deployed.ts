/**
 * The deployed path over the memory adapters: jobs are submitted, dispatched, started, ended, moved and cancelled by the
 * product's code, under the scenario's time. Dispatchers keep their memories between triggers, and hear of things as they
 * would from a stream, an ingest function, a wake or a tick: in any order, twice, with old images among them.
 *
 * All that happens at an instant is in one trigger, and the index lags behind nothing: so what starts is exactly what the
 * policy says.
 */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { type Job, partitionOfClaim, TERMINAL_TTL_MS } from '../../lib/core/job.ts';
import { isWaiting, type Verdict } from '../../lib/core/life-cycle.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import { afterFailure, afterWorkerLost } from '../../lib/core/retry.ts';
import type { Scope } from '../../lib/core/scope.ts';
import { type DispatchReport, dispatchAll, type WakeTrigger } from '../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import { changeControl, type OperateContext } from '../../lib/operate/controls.ts';
import { retimeJob } from '../../lib/operate/retime.ts';
import { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import type { Clock } from '../../lib/runtime/contract.ts';
import type { WorkerRecord } from '../../lib/store/contract/records.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { jobFrom } from '../../lib/submit/request.ts';
import { rankOf, submit } from '../../lib/submit/submit.ts';
import { aDispatchContext } from '../fixtures/factories/dispatch-context.ts';
import { type Dice, diceOf, hashText, seeded } from '../simulation/random.ts';
import { storeWith } from '../stage/stage.ts';
import { toldJobs } from '../testing/received.ts';
import { shareOf } from './partitions.ts';
import {
  EPOCH_MS,
  type Happening,
  type Player,
  type Scenario,
  type ScenarioJob,
  type Start,
} from './play.ts';

const HIDE_MS = 60_000;
/** What a function has left after its slowest type's timeout. */
const FUNCTION_MARGIN_MS = 30_000;
const RECEIVE_MAX = 10;
const NEVER_MS = 2 ** 52;
/** Images that may come again. */
const OLD_MAX = 200;
/** Triggers that one instant may take before its dispatchers are said to make no end. */
const TRIGGERS_MAX = 200;

/** These cause a look at what is due. */
const LOOKING: readonly ['ingest', 'wake', 'tick'] = ['ingest', 'wake', 'tick'];

/** Something the deployed path must never do, whatever it hears. */
export class BrokenRule extends Error {
  override readonly name = 'BrokenRule';
}

export type Planted = (store: JobStore) => Partial<JobStore>;

export class Deployed implements Player {
  readonly store: MemoryJobStore;
  readonly configuration: PoolConfiguration;
  readonly #scenario: Scenario;
  readonly #queue: MemoryJobQueue;
  readonly #dispatchers: readonly DispatchContext[];
  readonly #clock: Clock;
  readonly #announced = new Map<string, number>();
  readonly #workers = new Map<string, WorkerRecord>();
  readonly #operate: OperateContext;
  /** Whether workers vanish: any pass may find one to be gone. */
  readonly #vanishes: boolean;
  #nowMs = EPOCH_MS;
  #wakeAt: (atMs: number) => void = () => undefined;
  #last = 0;
  /** Of what happened since the last trigger. */
  #fresh: Job[] = [];
  /** Of what dispatchers and workers did since. */
  #noise: Job[] = [];
  #old: Job[] = [];
  #isWorld = true;
  #beforeRelease: (() => Promise<void>) | undefined;
  /** By claim. */
  readonly #claims = new Map<string, Start>();
  /** Attempts whose worker a dispatcher found to be gone. */
  readonly losses: { readonly id: string; readonly startedAtMs: number; readonly atMs: number }[] = [];
  #lost: Job[] = [];

  /** @param planted - verbs of the dispatchers' store that are wrong on purpose */
  constructor(scenario: Scenario, planted: Planted = () => ({})) {
    this.#scenario = scenario;
    this.#vanishes = scenario.jobs.some(({ attempts }) =>
      attempts.some(({ outcome }) => outcome === 'vanished'),
    );
    this.configuration = resolveConfiguration(scenario.pool);
    const clock = (): number => this.#nowMs;
    const random = seeded(scenario.seed);
    this.store = new MemoryJobStore({
      clock,
      random,
      place: rankOf(this.configuration),
      observe: (event) => {
        if (event.kind !== 'job') return;
        (this.#isWorld ? this.#fresh : this.#noise).push(event.newJob);
        const { id, attempt, claim, state, startedAtMs = 0 } = event.newJob;
        if (event.verb === 'endUnfinished' && !this.#isWorld) {
          this.#lost.push(event.newJob);
          this.losses.push({ id, startedAtMs: startedAtMs - EPOCH_MS, atMs: this.#nowMs - EPOCH_MS });
        }
        const isClaimed = event.oldJob?.state === 'pending' && (state === 'claimed' || state === 'running');
        if (isClaimed && claim !== undefined)
          this.#claims.set(claim.claimId, { atMs: this.#nowMs - EPOCH_MS, id, fleet: claim.fleet, attempt });
      },
    });
    this.#queue = new MemoryJobQueue({
      clock,
      random,
      after: (delayMs) => this.#wakeAt(this.#nowMs - EPOCH_MS + delayMs),
    });
    // Whoever waits for a lease waits in no time, and yet not for ever.
    let sleptMs = 0;
    this.#clock = {
      nowMs: clock,
      monotonicMs: () => clock() + sleptMs,
      sleep: async (ms) => {
        sleptMs += ms;
      },
    };
    this.#operate = {
      store: this.store,
      queue: this.#queue,
      configuration: this.configuration,
      nowMs: clock,
      clock: this.#clock,
      announced: this.#announced,
      partitionOf: (fairnessKey) => this.#partitionOf(fairnessKey),
    };
    const store = storeWith(this.store, {
      ...planted(this.store),
      // A request is a hint: where each is lost, partitions do not lend, and what each of them starts is known.
      askForLoan: () => Promise.resolve(),
      stopLeading: async (request) => {
        const before = this.#beforeRelease;
        this.#beforeRelease = undefined;
        await before?.();
        return this.store.stopLeading(request);
      },
    });
    this.#dispatchers = Array.from({ length: scenario.hearing.dispatchers }, (_, number) =>
      aDispatchContext({
        store,
        queue: this.#queue,
        configuration: this.configuration,
        clock: this.#clock,
        random,
        holder: `dispatcher-${number}`,
        // Here the index lags behind nothing.
        budget: { ...DISPATCH_BUDGET, seenWithinMs: 0, ...scenario.budget },
      }),
    );
  }

  wakeBy(wakeAt: (atMs: number) => void): void {
    this.#wakeAt = wakeAt;
  }

  async instant(atMs: number, happenings: readonly Happening[]): Promise<readonly Start[]> {
    this.#nowMs = EPOCH_MS + atMs;
    this.#claims.clear();
    // By the instant: it does not depend on what else is in the scenario.
    const dice = diceOf(seeded(hashText(`${this.#scenario.seed}/${atMs}`)));
    const happen = async (): Promise<void> => {
      this.#isWorld = true;
      for (const happening of happenings) await this.#apply(happening);
      this.#isWorld = false;
    };
    // What is due, or is found to be lost, before the word is left starts before it is known what else there is. And word
    // says nothing of jobs that were moved or cancelled: until when they kept their keys from being away stays unknown.
    const { idlePolicy, keyTtlMs } = this.configuration.fairness;
    const knowsKeys = idlePolicy === 'advance' || keyTtlMs !== null;
    const mayLeaveWord =
      !this.#vanishes &&
      !happenings.some(({ op }) => op === 'due' || (knowsKeys && (op === 'retime' || op === 'cancel')));
    if (dice.chance(this.#scenario.hearing.leftWord) && mayLeaveWord) await this.#leaveWord(dice, happen);
    else {
      await happen();
      await this.#hear(dice, happenings);
    }
    // A loss that a pass finds is written, so its stream record comes.
    for (let jobs = this.#lost; jobs.length > 0; jobs = this.#lost) {
      this.#lost = [];
      await this.#trigger(this.#last, { jobs, reason: 'stream' });
    }
    await this.#startAll();
    // In the order in which they were decided, partition by partition; workers may begin them in any other.
    return [...this.#claims]
      .sort(([one], [other]) => compareDecided(placeOfClaim(one), placeOfClaim(other)))
      .map(([, start]) => start);
  }

  #partitionOf(fairnessKey: string): number {
    return partitionOf(fairnessKey, this.configuration.partitions);
  }

  get #partitions(): readonly number[] {
    return Array.from({ length: this.configuration.partitions }, (_, partition) => partition);
  }

  async #apply(happening: Happening): Promise<void> {
    const { store } = this;
    switch (happening.op) {
      case 'submit':
        await submit({ ...this.#operate }, [this.#jobOf(happening.job)]);
        return;
      case 'cancel':
        await store.cancelJob({
          jobId: happening.id,
          nowMs: this.#nowMs,
          expiresAtMs: this.#nowMs + TERMINAL_TTL_MS,
        });
        return;
      case 'retime':
        await retimeJob(this.#operate, happening.id, EPOCH_MS + happening.runAtMs);
        return;
      case 'control': {
        const { scope, paused, maxConcurrency, weight } = happening;
        await changeControl(this.#operate, scopeOf(scope), { paused, maxConcurrency, weight });
        return;
      }
      case 'slots':
        await this.#setSlots(happening.fleet, happening.slots);
        return;
      case 'end':
        await this.#end(happening);
        return;
      case 'due':
      case 'tick':
      case 'wake':
        return;
    }
  }

  #jobOf({ id, runAtMs, attempts: _attempts, atMs: _atMs, ...asked }: ScenarioJob): Job {
    const request = {
      ...asked,
      payload: { id },
      ...(runAtMs === undefined ? {} : { runAtMs: EPOCH_MS + runAtMs }),
    };
    return jobFrom(request, id, this.#partitionOf(asked.fairnessKey), this.#nowMs);
  }

  async #setSlots(fleet: string, slots: number): Promise<void> {
    const workerId = `worker-${fleet}`;
    const known = this.#workers.get(fleet);
    const record: WorkerRecord = {
      workerId,
      incarnation: `${workerId}-1`,
      fleet,
      slots,
      expiresAtMs: NEVER_MS,
      occupants: [],
    };
    this.#workers.set(fleet, record);
    for (const partition of this.#partitions) {
      const own = { ...record, slots: shareOf(slots, partition, this.#partitions.length) };
      if (known === undefined) await this.store.registerWorker({ partition, record: own });
      else await this.store.heartbeat({ partition, record: own });
    }
  }

  async #end({ start, outcome }: Extract<Happening, { readonly op: 'end' }>): Promise<void> {
    const { store } = this;
    const [job] = await store.getJobs({ ids: [start.id] });
    const type = this.configuration.types.find((each) => each.type === job?.type);
    if (job?.state !== 'running' || type === undefined)
      throw new BrokenRule(`${start.id} runs by what was started, and is ${job?.state}`);
    const nowMs = this.#nowMs;
    const error = { name: 'Broken', message: 'it broke' };
    const verdict: Verdict =
      outcome === 'succeeded'
        ? { kind: 'succeeded', result: null }
        : outcome === 'failed'
          ? afterFailure(job, error, type.retry, 0, nowMs)
          : afterWorkerLost(job, type, nowMs);
    const expiresAtMs = nowMs + TERMINAL_TTL_MS;
    const { workerId = '', incarnation = '' } = job.worker ?? {};
    const ended =
      outcome === 'lost'
        ? await store.endUnfinished({ job, verdict, nowMs, expiresAtMs })
        : await store.finishJob({ workerId, incarnation, job, verdict, nowMs, expiresAtMs });
    if (ended.kind !== 'finished') throw new BrokenRule(`the end of ${start.id} was refused`);
  }

  /** Triggers dispatchers with what happened, until they have nothing to do. */
  async #hear(dice: Dice, happenings: readonly Happening[]): Promise<void> {
    const { hearing } = this.#scenario;
    const isTick = happenings.some(({ op }) => op === 'tick');
    const fresh = this.#fresh;
    const noise = this.#noise.filter(() => dice.chance(hearing.noise));
    this.#fresh = [];
    this.#noise = [];
    this.#old = [...this.#old, ...fresh, ...noise].slice(-OLD_MAX);
    const isLost = hearing.lost > 0 && !isTick && dice.chance(hearing.lost);
    if (isLost) return;
    const old = dice.chance(hearing.repeats) ? this.#some(dice) : [];
    const isDue = (job: Job): boolean => job.state === 'scheduled' && job.runAtMs <= this.#nowMs;
    // A stream's records alone cause a look at what is due only if they show something due.
    const mayBeDue = happenings.some(({ op }) => op === 'due' || op === 'retime') || fresh.some(isDue);
    // Of several partitions, one whose records show something due says nothing of the others.
    const showsDue = this.configuration.partitions === 1 && [...fresh, ...noise, ...old].some(isDue);
    const picked = dice.pick<WakeTrigger['reason']>(
      mayBeDue && !showsDue ? LOOKING : [...LOOKING, 'stream', 'stream'],
    );
    const reason = picked === 'ingest' && [...fresh, ...noise].some(waitedBefore) ? 'wake' : picked;
    // Whoever stores jobs knows that these are new: only what comes from elsewhere may be old.
    const jobs = shuffled(dice, [...fresh, ...noise, ...(reason === 'ingest' && !isTick ? [] : old)]);
    await this.#trigger(this.#dispatcher(dice), { jobs, reason: isTick ? 'tick' : reason });
    if (dice.chance(hearing.repeats))
      await this.#trigger(dice.whole(0, hearing.dispatchers - 1), {
        jobs: this.#some(dice),
        reason: 'stream',
      });
  }

  /** All happens while a dispatcher whose pass is over gives the lease back: another one comes with it, and leaves word. */
  async #leaveWord(dice: Dice, happen: () => Promise<void>): Promise<void> {
    const holder = this.#dispatcher(dice);
    const other = (holder + 1) % this.#scenario.hearing.dispatchers;
    const atMs = this.#nowMs;
    // Nothing that happens now is ready when it looks.
    this.#nowMs = atMs - 1;
    this.#beforeRelease = async () => {
      this.#nowMs = atMs;
      await happen();
      const jobs = this.#fresh;
      this.#fresh = [];
      const [report] = await this.#dispatch(other, { jobs, reason: 'stream' });
      if (report?.kind !== 'letterLeft')
        throw new BrokenRule(`the lease is held, and another one is ${report?.kind}`);
    };
    await this.#trigger(holder, { jobs: [], reason: 'wake' });
    this.#old = [...this.#old, ...this.#noise].slice(-OLD_MAX);
    this.#noise = [];
  }

  #dispatcher(dice: Dice): number {
    const { dispatchers, changes, forgets } = this.#scenario.hearing;
    if (dice.chance(changes)) this.#last = dice.whole(0, dispatchers - 1);
    if (dice.chance(forgets)) this.#dispatchers[this.#last]?.caches.clear();
    return this.#last;
  }

  #some(dice: Dice): Job[] {
    return Array.from({ length: dice.whole(1, 5) }, () =>
      this.#old.slice(dice.whole(0, Math.max(0, this.#old.length - 1))).slice(0, 1),
    ).flat();
  }

  async #trigger(dispatcher: number, trigger: WakeTrigger): Promise<void> {
    let next = trigger;
    for (let triggers = 0; triggers < TRIGGERS_MAX; triggers += 1) {
      const reports = await this.#dispatch(dispatcher, next);
      if (reports.every(({ kind }) => kind === 'done')) return;
      // What an ingest leaves to the stream, the stream brings; and what is due has its own wake.
      const isLeftToStream = next.reason === 'ingest' && reports.some(({ kind }) => kind === 'letterLeft');
      next = { jobs: isLeftToStream ? next.jobs : [], reason: 'wake' };
    }
    throw new BrokenRule(`${TRIGGERS_MAX} triggers, and the dispatcher is not done`);
  }

  #dispatch(dispatcher: number, trigger: WakeTrigger): Promise<readonly DispatchReport[]> {
    const context = this.#dispatchers[dispatcher];
    if (context === undefined) throw new Error(`no dispatcher ${dispatcher}`);
    return dispatchAll(context, { ...trigger, partitions: this.#partitions });
  }

  /** Workers start what they were sent at once. */
  async #startAll(): Promise<void> {
    for (const { fleet } of this.configuration.fleets) {
      for (;;) {
        const received = await this.#queue.receive(fleet, RECEIVE_MAX, 0, HIDE_MS);
        if (received.length === 0) break;
        for (const { message, receipt } of toldJobs(received)) {
          const record = this.#workers.get(fleet);
          const worker = {
            workerId: record?.workerId ?? `lambda-${message.claimId}`,
            incarnation: record?.incarnation ?? `lambda-${message.claimId}`,
          };
          const nowMs = this.#nowMs;
          const runUntilMs = record === undefined ? await this.#functionEndsMs(message.jobId) : undefined;
          await this.store.startJob({ ...worker, ...message, nowMs, runUntilMs });
          await this.#queue.delete(fleet, [receipt]);
        }
      }
    }
    for (const { id } of this.#claims.values()) {
      const state = this.store.inspectJob(id)?.state;
      if (state !== 'running')
        throw new BrokenRule(`${id} was claimed, and no worker was told: it is ${state}`);
    }
  }

  /** When a function that the job begins in now is certainly over. */
  async #functionEndsMs(jobId: string): Promise<number> {
    const [job] = await this.store.getJobs({ ids: [jobId] });
    const { timeoutMs = 0 } = this.configuration.types.find(({ type }) => type === job?.type) ?? {};
    return this.#nowMs + timeoutMs + FUNCTION_MARGIN_MS;
  }
}

/**
 * Whether an image shows a job that was there before, and waits or was cancelled. Whoever stores jobs tells of no such
 * job: what comes from there counts as new, and its key as one that had nothing waiting.
 */
const waitedBefore = ({ version, state }: Job): boolean =>
  version > 1 && (isWaiting(state) || state === 'cancelled');

/** From `type/x` to what an operator names. */
function scopeOf(scope: string): Scope {
  const slash = scope.indexOf('/');
  const name = scope.slice(slash + 1);
  switch (scope.slice(0, Math.max(0, slash))) {
    case 'tier':
      return { tier: name };
    case 'type':
      return { type: name };
    case 'fleet':
      return { fleet: name };
    case 'key':
      return { fairnessKey: name };
    default:
      return 'pool';
  }
}

function shuffled<T>(dice: Dice, values: readonly T[]): T[] {
  const rest = [...values];
  for (let at = rest.length - 1; at > 0; at -= 1) {
    const other = dice.whole(0, at);
    const [one, two] = [rest[at], rest[other]] as [T, T];
    rest[at] = two;
    rest[other] = one;
  }
  return rest;
}

/** Partition, version, number of the batch in its commit, and position of a claim. */
const placeOfClaim = (claimId: string): readonly number[] => {
  const [, version, batch = '', position] = /^(\d+)-\w{8}(\w)(?:@\d+)?\.(\d+)$/.exec(claimId) ?? [];
  return [partitionOfClaim(claimId), Number(version), Number.parseInt(batch, 36), Number(position)];
};

function compareDecided(one: readonly number[], other: readonly number[]): number {
  const at = one.findIndex((each, index) => each !== other[index]);
  return at === -1 ? 0 : (one[at] ?? 0) - (other[at] ?? 0);
}
