/**
 * A small world of schedules, and its laws. Guests move, pause, resume, run and delete schedules; dispatchers look at them, some
 * die at any call, some stand still for a while within one and go on; the index lags, requests are refused or answered too
 * late, deployments change the number of partitions. After each write of a schedule its laws are checked; at the end there is a
 * job for each firing that was decided, and for no other.
 *
 * The wide world has all policies, ordinary jobs beside, and workers whose jobs go on, succeed and fail; its dispatchers, often two
 * at a time, die at any verb of the store. Each firing becomes a job, or is left out by its policy alone, which the schedule's
 * history says. What is drawn for it comes from a stream of its own.
 *
 * The deployed world has, beside all that, deployments which declare schedules, some of which die on the way, blackouts, and a type
 * that is declared, removed, and declared again. Deployments change and remove what deployments have made, and nothing else.
 */

import { expect } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { ThrottledError, UnavailableError } from '../../lib/core/errors.ts';
import { isTerminal, type Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import type { ScheduleRecord, ScheduleSpec, ScheduleState } from '../../lib/core/recurring.ts';
import { MISFIRE_POLICIES, RUNNING_POLICIES, rulesOf } from '../../lib/core/recurring.ts';
import { firesOf, jitterOf } from '../../lib/core/schedule.ts';
import { readCron } from '../../lib/cron/croner.ts';
import { declareSchedules, requireNamesFree } from '../../lib/deploy/declared-schedules.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { firingJobId } from '../../lib/dispatch/pass/firing.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import type { Clock } from '../../lib/runtime/contract.ts';
import {
  deleteSchedule,
  pauseSchedule,
  putSchedule,
  resumeSchedule,
  runNow,
} from '../../lib/schedules/schedules.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { rankOf, submit } from '../../lib/submit/submit.ts';
import { ROLES } from '../contract/roles.ts';
import { aDispatchContext } from '../fixtures/factories/dispatch-context.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { toldJobs } from '../testing/received.ts';
import { seeded } from './random.ts';

const STEPS = 60;
const NAMES = ['a', 'b', 'c'] as const;
const DECLARED_NAMES = ['x', 'y', 'z'] as const;
const VERBS = [
  'readDueSchedules',
  'getSchedules',
  'lookUpJobs',
  'saveSchedule',
  'createJobs',
  'announceLines',
  'cancelJob',
] as const;

/** All that a dispatcher asks of the store. */
const EVERY_VERB = ROLES.dispatch.verbs as readonly (keyof JobStore)[];

export interface World {
  /** Firings that were decided, and what happened on the way. */
  readonly decided: number;
  readonly seen: ReadonlySet<string>;
}

export async function scheduleWorld(
  seed: number,
  options: { readonly isWide?: boolean; readonly isDeployed?: boolean } = {},
): Promise<World> {
  const { isDeployed = false, isWide = isDeployed } = options;
  const deploys = seeded(seed + 2_000_000);
  const deploysBelow = (count: number): number => Math.floor(deploys() * count);
  const random = seeded(seed);
  const below = (count: number): number => Math.floor(random() * count);
  const wide = seeded(seed + 1_000_000);
  const wideBelow = (count: number): number => Math.floor(wide() * count);
  const time = new VirtualTime(NOW_MS);
  const clock: Clock = time.clock();
  const configurationOf = (partitions: number, hasRare = isDeployed) =>
    resolveConfiguration({
      types: { resize: { timeoutMs: 3_600_000 }, ...(hasRare ? { rare: { timeoutMs: 3_600_000 } } : {}) },
      fleets: { images: { types: ['resize', ...(hasRare ? ['rare'] : [])], slots: 1_000 } },
      partitions,
    });
  let configuration = configurationOf(1 + below(2));
  let imitates = true;
  const store = new MemoryJobStore({
    clock: () => time.nowMs,
    random: () => (imitates ? random() : 1),
    place: (job) => rankOf(configuration)(job),
    after: time.after,
    imitate: { indexLagMs: 3_000, throttled: 0.01, unanswered: 0.02 },
    observe: (event) => event.kind === 'schedule' && obeys(event.before, event.after),
  });
  const queue = new MemoryJobQueue({ clock: () => time.nowMs, random, after: time.after });
  const seen = new Set<string>();
  const decided = new Map<string, number>();
  const faults: string[] = [];
  const law = (holds: boolean, what: string): void => {
    if (!holds) faults.push(`${what} (seed ${seed}, ${time.nowMs - NOW_MS} ms)`);
  };

  /** Of schedules that look at their jobs: those that they have made since they do. */
  const watched = new Map<string, Set<string>>();
  /** Of schedules whose decided jobs take the place of others: these. */
  const replaced = new Map<string, readonly string[]>();
  const openOf = (id: string): readonly string[] =>
    [...(watched.get(id) ?? [])].filter((jobId) => {
      const state = store.inspectJob(jobId)?.state;
      return state !== undefined && !isTerminal(state);
    });
  /** Keeps account of a schedule's jobs, beside what the schedule itself remembers. */
  const account = (before: ScheduleRecord, after: ScheduleRecord | undefined): void => {
    const { id, making = [] } = before.state;
    if (after === undefined || !looksAtJobs(after.spec)) watched.delete(id);
    if (after === undefined) return;
    const isCompleted = making.length > 0 && after.state.making === undefined;
    if (isCompleted) {
      for (const jobId of replaced.get(id) ?? []) {
        const job = store.inspectJob(jobId);
        const isAsked = job === undefined || isTerminal(job.state) || job.cancelRequestedAtMs !== undefined;
        law(isAsked, `schedule ${id} replaced ${jobId}, which was not asked to end`);
      }
      replaced.delete(id);
    }
    const decidedNow = making.length === 0 ? (after.state.making ?? []) : [];
    if (decidedNow.length === 0 || !looksAtJobs(after.spec)) return;
    const isBySchedule = decidedNow.some(({ isManual }) => !isManual);
    const { ifRunning } = before.spec;
    if (isBySchedule && (ifRunning === 'skip' || ifRunning === 'queue'))
      law(openOf(id).length === 0, `schedule ${id} made a job while ${openOf(id)} had not ended`);
    if (isBySchedule && ifRunning === 'replace') replaced.set(id, openOf(id));
    const jobs = watched.get(id) ?? new Set();
    for (const firing of decidedNow) jobs.add(firingJobId(id, firing));
    watched.set(id, jobs);
  };

  const obeys = (before: ScheduleRecord | undefined, after: ScheduleRecord | undefined): void => {
    if (before === undefined) return;
    if (isWide) account(before, after);
    const { state } = before;
    const making = state.making ?? [];
    const keepsMaking = JSON.stringify(after?.state.making ?? []) === JSON.stringify(making);
    if (making.length > 0 && !keepsMaking) {
      const isMade = making.every((firing) => store.inspectJob(firingJobId(state.id, firing)) !== undefined);
      law(isMade, `schedule ${state.id} forgot a firing that was decided`);
    }
    if (after === undefined) return;
    if (after.state.stopped !== undefined) seen.add(`stopped: ${after.state.stopped}`);
    law(after.state.isDeclared === state.isDeclared, `schedule ${state.id} changed its owner`);
    law(after.state.dealtMs >= state.dealtMs, `schedule ${state.id} went back`);
    law(after.state.revision === state.revision + 1, `schedule ${state.id} skipped a revision`);
    const isDecision = making.length === 0 && (after.state.making ?? []).length > 0;
    const isAsked =
      JSON.stringify(after.spec) !== JSON.stringify(before.spec) || after.state.stopped !== state.stopped;
    if (!isDecision && (isAsked || after.state.dealtMs === state.dealtMs)) return;
    const fires = firesOf(rulesOf(before.spec, state.anchorMs), readCron);
    if (isWide) {
      for (const fault of wideFaults(before, after)) law(false, `schedule ${state.id} ${fault}`);
    }
    const expected: number[] = [];
    for (
      let atMs = fires.next(state.dealtMs);
      atMs !== undefined && atMs <= after.state.dealtMs;
      atMs = fires.next(atMs)
    )
      expected.push(atMs);
    const made = (after.state.making ?? []).flatMap(({ atMs, isManual }) => (isManual ? [] : [atMs]));
    law(
      isWide || JSON.stringify(made) === JSON.stringify(expected),
      `schedule ${state.id} decided ${made} for ${expected}`,
    );
    law(state.stopped === undefined || made.length === 0, `schedule ${state.id} fired while it was stopped`);
    const jitterMs = jitterOf(state.id, before.spec.jitterMs);
    // What waited for the end of a job was due by the jitter that the schedule had then.
    law(
      made.every((atMs) => atMs === state.queuedMs || atMs + jitterMs <= time.nowMs),
      `schedule ${state.id} fired early`,
    );
    for (const firing of after.state.making ?? []) {
      const id = firingJobId(state.id, firing);
      law(!decided.has(id), `schedule ${state.id} decided ${firing.atMs} twice`);
      decided.set(id, firing.atMs + (firing.isManual ? 0 : jitterMs));
    }
  };

  let dispatchers = 0;
  /** Dies at a call, or stands still in one; or neither. */
  const dispatcher = (): DispatchContext => {
    dispatchers += 1;
    const fate = isWide ? wideBelow(4) : below(4);
    const at = isWide ? wideBelow(60) : below(14);
    let calls = 0;
    const verbs = Object.fromEntries(
      (isWide ? EVERY_VERB : VERBS).map((verb) => [
        verb,
        async (...given: readonly unknown[]) => {
          calls += 1;
          const isHere = calls === at;
          if (fate === 0 && calls >= at && !(isHere && random() < 0.5)) throw new Error('it died');
          if (fate === 1 && isHere) {
            seen.add('stood still');
            await clock.sleep(below(90_000));
          }
          const answer: unknown = await Reflect.apply(store[verb] as () => unknown, store, given);
          if (fate === 0 && isHere) seen.add(`died behind ${verb}`);
          if (fate === 0 && isHere) throw new Error('it died');
          return answer;
        },
      ]),
    );
    const own = new Proxy<JobStore>(store, {
      get: (target, name) => {
        const other: unknown = Reflect.get(verbs, name);
        if (other !== undefined) return other;
        const method: unknown = Reflect.get(target, name, target);
        return typeof method === 'function' ? method.bind(target) : method;
      },
    });
    const budget = { ...DISPATCH_BUDGET, passesMax: 3 };
    return aDispatchContext({
      store: own,
      queue,
      configuration,
      clock,
      random,
      budget,
      holder: `d${dispatchers}`,
    });
  };

  const specOf = (): ScheduleSpec => ({
    ...narrowSpec(),
    ...(isWide ? policies() : {}),
    ...(isDeployed ? { blackouts: blackouts() } : {}),
  });
  const blackouts = (): ScheduleSpec['blackouts'] =>
    Array.from({ length: deploysBelow(3) }, () => {
      const fromMs = time.nowMs + deploysBelow(300) * 1_000;
      return { kind: 'between', fromMs, untilMs: fromMs + 1_000 + deploysBelow(60_000) };
    });
  const ofType = (spec: ScheduleSpec, isRare: boolean): ScheduleSpec =>
    isRare ? { ...spec, job: { ...spec.job, type: 'rare' } } : spec;
  const policies = (): Partial<ScheduleSpec> => ({
    misfire: MISFIRE_POLICIES[wideBelow(MISFIRE_POLICIES.length)] ?? 'all',
    misfireMax: 1 + wideBelow(4),
    misfireGraceMs: wideBelow(3) * 15_000,
    ifRunning: RUNNING_POLICIES[wideBelow(RUNNING_POLICIES.length)] ?? 'allow',
    ...(wideBelow(3) === 0 ? { maxFailures: 1 + wideBelow(3) } : {}),
  });
  const narrowSpec = (): ScheduleSpec =>
    aScheduleSpec({
      when: { kind: 'every', everyMs: 1_000 * (5 + below(60)) },
      misfire: 'all',
      misfireMax: 100,
      misfireGraceMs: below(2) * 60_000,
      jitterMs: below(2) * 5_000,
      job: { ...aScheduleSpec().job, fairnessKey: `key-${below(5)}` },
    });
  const guest = () => ({
    store,
    configuration,
    nowMs: () => time.nowMs,
    announced: new Map<string, number>(),
    clock,
    queue,
    partitionOf: (fairnessKey: string) => partitionOf(fairnessKey, configuration.partitions),
  });
  const ask = async (id: string): Promise<unknown> => {
    const what = below(10);
    if (what < 4)
      return putSchedule(guest(), id, ofType(specOf(), isDeployed && deploysBelow(3) === 0), false);
    if (what < 5) return pauseSchedule(guest(), id);
    if (what < 7) return resumeSchedule(guest(), id);
    if (what < 9) return runNow(guest(), id);
    return deleteSchedule(guest(), id, false);
  };

  /** What the newest deployment that went through declares. */
  let declared: ReadonlyMap<string, ScheduleSpec> = new Map();
  /** What a deployment asks of the store; it may die at a call. */
  const deploying = (diesAt: number): JobStore => {
    let calls = 0;
    const ownedBy = (id: string, seenRevision: number): void => {
      const found = [...store.everySchedule()].find(({ state }) => state.id === id)?.state;
      const isStale = found?.revision !== seenRevision;
      law(isStale || found.isDeclared, `a deployment wrote ${id}, which was made at run time`);
    };
    return new Proxy(store, {
      get: (target, name) => {
        const method: unknown = Reflect.get(target, name, target);
        if (typeof method !== 'function') return method;
        return async (...given: readonly unknown[]) => {
          calls += 1;
          if (calls === diesAt) {
            seen.add('a deployment died');
            throw new Error('it died');
          }
          if (name === 'deleteSchedule') {
            const { id, afterRevision: revision } = given[0] as { id: string; afterRevision: number };
            ownedBy(id, revision);
          }
          if (name === 'putSchedule') {
            const { record, afterRevision: revision } = given[0] as {
              record: ScheduleRecord;
              afterRevision: number;
            };
            if (revision !== 0) ownedBy(record.state.id, revision);
          }
          return (await Reflect.apply(method, target, given)) as unknown;
        };
      },
    });
  };
  const deploy = async (diesAt = 1 + deploysBelow(40)): Promise<void> => {
    const hasRare = deploysBelow(2) === 0;
    const wanted = new Map<string, ScheduleSpec>();
    for (const name of [...DECLARED_NAMES, 'a'])
      if (deploysBelow(name === 'a' ? 12 : 2) === 0)
        wanted.set(name, ofType(specOf(), hasRare && deploysBelow(2) === 0));
    const own = deploying(diesAt);
    await requireNamesFree(own, wanted.keys());
    configuration = configurationOf(configuration.partitions, hasRare);
    // It began: half of it may be there from now on.
    declared = wanted;
    await declareSchedules({ store: own, queue, nowMs: () => time.nowMs }, configuration, wanted);
    seen.add('a deployment went through');
  };
  let lastDeployment: Promise<unknown> = Promise.resolve();
  /** Deployments follow each other. */
  const deployNext = (): Promise<unknown> => {
    lastDeployment = lastDeployment
      .then(() => deploy())
      .catch((error: unknown) => void seen.add(nameOf(error)));
    return lastDeployment;
  };

  // In some worlds jobs outlive many firings.
  const goesOn = seed % 3 === 0 ? 0.97 : 1 / 3;
  const workers = new SmallFleet(store, queue, clock, { below: wideBelow, goesOn }, law);
  const ordinary: string[] = [];
  /** What the wide world has beside. */
  const beside = async (): Promise<void> => {
    if (wideBelow(2) === 0) {
      const partition = (key: string) => partitionOf(key, configuration.partitions);
      const fairnessKey = `key-${wideBelow(5)}`;
      const runAtMs = time.nowMs + wideBelow(2) * wideBelow(40_000);
      const job = aJob({
        id: `job-${ordinary.length}`,
        fairnessKey,
        partition: partition(fairnessKey),
        state: runAtMs > time.nowMs ? 'scheduled' : 'pending',
        runAtMs,
        readyAtMs: runAtMs,
        submittedAtMs: time.nowMs,
      });
      ordinary.push(job.id);
      await untilAnswered(() => submit(guest(), [job]));
    }
    await workers.work();
    if (wideBelow(3) === 0) quietly(dispatchAll(dispatcher(), { jobs: [], reason: 'tick' }));
  };

  const going: Promise<unknown>[] = [];
  const quietly = (work: Promise<unknown>): void =>
    void going.push(work.catch((error: unknown) => seen.add(nameOf(error))));
  for (let step = 0; step < STEPS; step += 1) {
    const what = random();
    const hasRare = configuration.types.some(({ type }) => type === 'rare');
    if (what < 0.03) configuration = configurationOf(1 + below(3), hasRare);
    if (isDeployed && deploysBelow(6) === 0) quietly(deployNext());
    if (isDeployed && deploysBelow(6) === 0)
      quietly(ask(DECLARED_NAMES[deploysBelow(DECLARED_NAMES.length)] ?? 'x'));
    if (what < 0.4) quietly(ask(NAMES[below(NAMES.length)] ?? 'a'));
    else quietly(dispatchAll(dispatcher(), { jobs: [], reason: 'tick' }));
    if (isWide) quietly(beside());
    await time.run({ untilMs: time.nowMs + below(15_000) });
  }
  imitates = false;
  // Whoever stands still goes on; leases of the dead run out.
  await time.run({ untilMs: time.nowMs + 180_000 });
  if (isDeployed) {
    const madeByGuests = (): readonly string[] =>
      [...store.everySchedule()].flatMap(({ state }) => (state.isDeclared ? [] : [state.id])).sort();
    const before = madeByGuests();
    configuration = configurationOf(3);
    const calm = { store: deploying(Number.POSITIVE_INFINITY), queue, nowMs: () => time.nowMs };
    quietly(declareSchedules(calm, configuration, declared));
    await time.run({ untilMs: time.nowMs + 1_000 });
    // Guests take names, too; a deployment tells of those, and makes the others.
    const kept = new Map([...declared].filter(([name]) => !before.includes(name)));
    const there = [...store.everySchedule()].filter(({ state }) => state.isDeclared);
    law(
      JSON.stringify(there.map(({ state }) => state.id).sort()) === JSON.stringify([...kept.keys()].sort()),
      `deployments left ${there.map(({ state }) => state.id)}, and declare ${[...kept.keys()]}`,
    );
    for (const { spec, state } of there) expect(spec).toEqual(kept.get(state.id));
    law(JSON.stringify(madeByGuests()) === JSON.stringify(before), 'a deployment removed what guests made');
  }
  for (let tick = 0; tick < 6; tick += 1) {
    const calm = aDispatchContext({
      store,
      queue,
      configuration: configurationOf(3),
      clock,
      random,
      holder: `calm-${tick}`,
    });
    quietly(dispatchAll(calm, { jobs: [], reason: 'tick' }));
    await time.run({ untilMs: time.nowMs + 10_000 });
  }
  await Promise.all(going);
  const calm = aDispatchContext({
    store,
    queue,
    configuration: configurationOf(3),
    clock,
    random,
    holder: 'last',
  });
  quietly(dispatchAll(calm, { jobs: [], reason: 'tick' }));
  await time.run({ untilMs: time.nowMs + 1 });

  /** Nothing fires any more: all that waits and runs comes to its end. */
  const drain = async (): Promise<void> => {
    workers.hurry();
    for (let tick = 0; tick < 60; tick += 1) {
      quietly(
        dispatchAll(
          aDispatchContext({
            store,
            queue,
            configuration: configurationOf(3),
            clock,
            random,
            holder: `end-${tick}`,
          }),
          { jobs: [], reason: 'tick' },
        ),
      );
      quietly(workers.work());
      await time.run({ untilMs: time.nowMs + 10_000 });
      if (tick > 2 && [...store.everyJob()].every(({ state }) => isTerminal(state))) break;
    }
    await Promise.all(going);
  };

  for (const { state } of store.everySchedule()) checkRest(state, time.nowMs, law);
  const jobs = new Map(
    [...store.everyJob()].filter(({ scheduleId }) => scheduleId !== undefined).map((job) => [job.id, job]),
  );
  for (const [id, dueMs] of decided) law(jobs.get(id)?.runAtMs === dueMs, `firing ${dueMs} was lost`);
  for (const id of jobs.keys()) law(decided.has(id), `job ${id} was made by nobody`);
  if (!isWide) for (const job of jobs.values()) law(isInOneLine(job), `job ${job.id} is ${job.state}`);
  else {
    for (const { state } of [...store.everySchedule()]) quietly(pauseSchedule(guest(), state.id));
    await drain();
    for (const id of ordinary) law(store.inspectJob(id) !== undefined, `job ${id} was lost`);
    for (const job of store.everyJob()) {
      law(isTerminal(job.state), `job ${job.id} is ${job.state} at the end`);
      seen.add(`${job.scheduleId === undefined ? 'ordinary' : 'scheduled'} ${job.state}`);
    }
    for (const { state } of store.everySchedule())
      for (const { what } of state.history) seen.add(`firing ${what}`);
  }
  expect(faults).toEqual([]);
  return { decided: decided.size, seen };
}

const looksAtJobs = ({ ifRunning, maxFailures }: ScheduleSpec): boolean =>
  ifRunning !== 'allow' || maxFailures !== undefined;

/** Workers of the fleet: each job that is received starts once, goes on for some steps, and ends. */
class SmallFleet {
  readonly #store: MemoryJobStore;
  readonly #queue: MemoryJobQueue;
  readonly #clock: Clock;
  readonly #below: (count: number) => number;
  /** How likely a job that runs goes on for another step. */
  #goesOn: number;
  readonly #law: (holds: boolean, what: string) => void;
  readonly #running: Job[] = [];
  readonly #started = new Set<string>();
  #invocations = 0;

  constructor(
    store: MemoryJobStore,
    queue: MemoryJobQueue,
    clock: Clock,
    { below, goesOn }: { readonly below: (count: number) => number; readonly goesOn: number },
    law: (holds: boolean, what: string) => void,
  ) {
    this.#goesOn = goesOn;
    this.#store = store;
    this.#queue = queue;
    this.#clock = clock;
    this.#below = below;
    this.#law = law;
  }

  /** From now on jobs come to their end. */
  hurry(): void {
    this.#goesOn = 1 / 3;
  }

  async work(): Promise<void> {
    for (const job of this.#running.splice(0)) {
      if (this.#below(300) < 300 * this.#goesOn) this.#running.push(job);
      else await this.#end(job);
    }
    for (const { message, receipt } of toldJobs(await this.#queue.receive('images', 10, 0, 30_000))) {
      this.#invocations += 1;
      const nowMs = this.#clock.nowMs();
      const request = {
        workerId: 'w',
        incarnation: `w-${this.#invocations}`,
        ...message,
        nowMs,
        runUntilMs: nowMs + 7_200_000,
      };
      const outcome = await untilAnswered(() => this.#store.startJob(request));
      await this.#queue.delete('images', [receipt]);
      if (outcome.kind !== 'started') continue;
      const { job } = outcome;
      this.#law(!this.#started.has(job.id), `job ${job.id} started twice`);
      this.#law(job.runAtMs <= nowMs, `job ${job.id} started early`);
      this.#started.add(job.id);
      this.#running.push(job);
    }
  }

  async #end(job: Job): Promise<void> {
    const { workerId = '', incarnation = '' } = job.worker ?? {};
    const nowMs = this.#clock.nowMs();
    const error = { name: 'Broken', message: 'it broke' };
    const verdict =
      this.#below(3) === 0
        ? { kind: 'failed' as const, error }
        : { kind: 'succeeded' as const, result: null };
    const request = { workerId, incarnation, job, verdict, nowMs, expiresAtMs: nowMs + 86_400_000 };
    await untilAnswered(() => this.#store.finishJob(request));
  }
}

/** Whoever gets no answer asks again. */
async function untilAnswered<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ThrottledError || error instanceof UnavailableError) || tries > 50) throw error;
    }
  }
}

/** What a decision does that its policies do not allow. Written without the core's own: firing by firing. */
function wideFaults({ spec, state }: ScheduleRecord, { state: after }: ScheduleRecord): readonly string[] {
  const faults: string[] = [];
  const fires = firesOf(rulesOf(spec, state.anchorMs), readCron);
  const made = (after.making ?? []).flatMap(({ atMs, isManual }) => (isManual ? [] : [atMs]));
  // By when it looked: it may have stood still before it wrote.
  const untilMs = after.changedAtMs - jitterOf(state.id, spec.jitterMs);
  const fresh = after.history.filter(({ atMs, untilMs: lastMs = atMs }) => lastMs > state.dealtMs);
  const isIn = (atMs: number, what: 'missed' | 'running'): boolean =>
    fresh.some((entry) => entry.what === what && entry.atMs <= atMs && atMs <= (entry.untilMs ?? entry.atMs));
  const isLate = (atMs: number): boolean => atMs < untilMs - spec.misfireGraceMs;
  const firings: number[] = [];
  for (let at = fires.next(state.dealtMs); at !== undefined && at <= after.dealtMs; at = fires.next(at))
    firings.push(at);
  const late = firings.filter(isLate);
  // Of more the history has forgotten some by now.
  const isKnown = made.length <= 8;
  for (const atMs of firings) {
    if (made.includes(atMs) || !isKnown) continue;
    const isMissed = isIn(atMs, 'missed');
    if (!isMissed && !isIn(atMs, 'running') && after.queuedMs !== atMs) faults.push(`forgot ${atMs}`);
    if (isMissed && !isLate(atMs) && !isIn(atMs, 'running'))
      faults.push(`missed ${atMs}, which was not late`);
    if (isMissed && spec.misfire === 'once' && atMs === late.at(-1))
      faults.push(`missed the latest, ${atMs}`);
    if (isMissed && spec.misfire === 'all' && late.indexOf(atMs) < spec.misfireMax)
      if (!isIn(atMs, 'running')) faults.push(`missed ${atMs} within its bound`);
  }
  if (spec.misfire === 'skip' && made.some((atMs) => late.includes(atMs))) faults.push('made what was late');
  if (spec.misfire === 'all' && made.filter((atMs) => late.includes(atMs)).length > spec.misfireMax)
    faults.push('made more of what was late than its bound');
  const known = new Set([...firings, ...(state.queuedMs === undefined ? [] : [state.queuedMs])]);
  for (const atMs of made) if (!known.has(atMs)) faults.push(`made ${atMs}, which is no firing`);
  if (new Set(made).size < made.length) faults.push('made a firing twice');
  const { ifRunning } = spec;
  if (ifRunning === 'allow' && fresh.some(({ what }) => what === 'running')) faults.push('waited for a job');
  if (ifRunning !== 'allow' && made.length > 1) faults.push('made several at once');
  return faults;
}

const isInOneLine = ({ state }: Job): boolean => ['pending', 'claimed'].includes(state);
const nameOf = (error: unknown): string => (error instanceof Error ? error.name : String(error));

function checkRest(state: ScheduleState, nowMs: number, law: (holds: boolean, what: string) => void): void {
  law(state.making === undefined, `schedule ${state.id} was never completed`);
  law(state.stopped === undefined || state.dueMs === undefined, `schedule ${state.id} is stopped and due`);
  law(
    state.stopped !== undefined || (state.dueMs ?? 0) > nowMs - 20_000,
    `schedule ${state.id} was left behind`,
  );
}
