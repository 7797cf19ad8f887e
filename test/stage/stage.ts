/** A scheduler in memory under virtual time: one store, one queue, one bus, as many dispatchers and workers as a test wants. */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job, ReservedJob } from '../../lib/core/job.ts';
import type { Verdict } from '../../lib/core/life-cycle.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { type DispatchReport, dispatch, type Trigger } from '../../lib/dispatch/dispatch.ts';
import type { DispatchBudget, DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { pass as onePass } from '../../lib/dispatch/pass/pass.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import type { OutcomeEvent } from '../../lib/events/contract.ts';
import { MemoryEventBus } from '../../lib/events/memory/bus.ts';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import type { OperateContext } from '../../lib/operate/controls.ts';
import type { DispatchMessage } from '../../lib/queue/contract.ts';
import { MemoryJobQueue, type QueueImitation } from '../../lib/queue/memory/queue.ts';
import type { Log } from '../../lib/runtime/contract.ts';
import type { Commit } from '../../lib/store/contract/requests.ts';
import type { JobStore, RequestOf } from '../../lib/store/contract/verbs.ts';
import type { StoreEvent, StoreImitation } from '../../lib/store/memory/imitation/imitation.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { rankOf, type SubmitContext, submit } from '../../lib/submit/submit.ts';
import { endAttemptOfDeadFunction } from '../../lib/worker/dead-function.ts';
import { FUNCTION_END_MS } from '../../lib/worker/run-job.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aDispatchContext } from '../fixtures/factories/dispatch-context.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { seeded } from '../simulation/random.ts';
import { toldJobs } from '../testing/received.ts';
import { steppedStore } from './interleave.ts';

const TERMINAL_TTL_MS = 3_600_000;
const HIDE_MS = 60_000;

/** Whoever submits in a test: on the whole store, so that it may do what operators do, too. */
type Desk = SubmitContext & { readonly store: JobStore };

export interface StageOptions {
  readonly pool?: PoolInput | undefined;
  /** Where jobs wait, if that follows from something else than the pool. */
  readonly place?: ReturnType<typeof rankOf> | undefined;
  readonly budget?: Partial<DispatchBudget> | undefined;
  /** Its passes are those of leads that go on, and remember. @default - each run of passes begins with what it reads */
  readonly leads?: boolean | undefined;
  readonly store?: StoreImitation | undefined;
  readonly queue?: QueueImitation | undefined;
  readonly seed?: number | undefined;
  readonly observe?: ((event: StoreEvent<Job>) => void) | undefined;
}

/** One type on one fleet of four slots, unless a test says otherwise. */
const SMALL_POOL: PoolInput = {
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 30_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 4 } },
};

export const SUCCEEDED: Verdict = { kind: 'succeeded', result: null };
export const FAILED: Verdict = { kind: 'failed', error: { name: 'Broken', message: 'it broke' } };

/** What a worker received and started. */
export interface Started {
  readonly fleet: string;
  readonly message: DispatchMessage;
  readonly job: Job;
}

export type Stage = ReturnType<typeof stage>;

export function stage(options: StageOptions = {}) {
  const configuration: PoolConfiguration = resolveConfiguration(options.pool ?? SMALL_POOL);
  const time = new VirtualTime(NOW_MS);
  const clock = time.clock();
  const random = seeded(options.seed ?? 1);
  const store = new MemoryJobStore({
    clock: () => time.nowMs,
    random,
    place: options.place ?? rankOf(configuration),
    imitate: options.store,
    after: time.after,
    observe: options.observe,
  });
  const queue = new MemoryJobQueue({
    clock: () => time.nowMs,
    random,
    after: time.after,
    imitate: options.queue,
  });
  const bus = new MemoryEventBus({ random });
  const published: OutcomeEvent[] = [];
  bus.subscribe((event) => published.push(event));
  /** Instants at which wakes came. */
  const wakes: number[] = [];
  queue.onWake(() => wakes.push(time.nowMs));
  const logged: { readonly level: keyof Log; readonly message: string; readonly fields: unknown }[] = [];
  const writeAs =
    (level: keyof Log): Log['info'] =>
    (message, fields) =>
      void logged.push({ level, message, fields });
  const log: Log = { info: writeAs('info'), warn: writeAs('warn'), error: writeAs('error') };

  let dispatchers = 0;
  /** A dispatch function's process: a memory of its own, and perhaps a store that is wrapped. */
  const dispatcher = (own: Partial<DispatchContext> = {}): DispatchContext => {
    dispatchers += 1;
    return aDispatchContext({
      store,
      queue,
      configuration,
      clock,
      random,
      log,
      holder: `dispatcher-${dispatchers}`,
      budget: { ...DISPATCH_BUDGET, ...options.budget },
      ...own,
    });
  };
  const main = dispatcher();

  /** Lets time pass only as far as the work needs it. */
  const finish = async <T>(work: Promise<T>): Promise<T> => {
    let isOver = false;
    const ended = work.then(
      () => undefined,
      () => undefined,
    );
    void ended.then(() => {
      isOver = true;
    });
    await time.run({ isOver: () => isOver, untilMs: time.nowMs + 600_000 });
    if (!isOver) throw new Error('the work waits for something that never comes');
    return work;
  };

  const pass = (trigger: Partial<Trigger> = {}, context: DispatchContext = main): Promise<DispatchReport> => {
    const given: Trigger = { jobs: [], reason: 'tick', ...trigger };
    return finish(options.leads === true ? passesOfLead(context, given) : dispatch(context, 0, given));
  };

  /** Commits as another dispatcher may at any moment: what is given, and nothing else. */
  const commit = async (changes: Partial<Commit>, partition = 0): Promise<void> => {
    const { version } = store.inspect(partition).summary;
    const outcome = await store.commit({ partition, commit: aCommit({ version, ...changes }) });
    if (outcome === 'lost') throw new Error(`partition ${partition} had gone on from version ${version}`);
  };

  const submitter = (own: Partial<Desk> = {}): Desk => ({
    store,
    configuration,
    nowMs: () => time.nowMs,
    clock,
    announced: new Map(),
    ...own,
  });

  /** Whoever looks at the pool, and changes what it does. */
  const operator = (): OperateContext => ({ ...submitter(), clock, queue, partitionOf: () => 0 });

  /** Stores jobs as a submitter does. */
  const put = async (...jobs: readonly Job[]): Promise<readonly Job[]> => {
    await submit(submitter(), jobs);
    return jobs;
  };

  const job = (changes: Partial<Job> = {}): Job =>
    aJob({ readyAtMs: time.nowMs, runAtMs: time.nowMs, submittedAtMs: time.nowMs, ...changes });

  /** What a function that lives as long as its type's timeout says of its end; nothing, for a process. */
  const runUntilMsOf = (fleet: string, jobId: string): number | undefined => {
    if (configuration.fleets.find((each) => each.fleet === fleet)?.slots === null) return undefined;
    const type = store.inspectJob(jobId)?.type;
    const timeoutMs = configuration.types.find((each) => each.type === type)?.timeoutMs ?? 0;
    return time.nowMs + timeoutMs + FUNCTION_END_MS;
  };

  let invocations = 0;
  const begin = (fleet: string, workerId: string, message: DispatchMessage) => {
    invocations += 1;
    return store.startJob({
      workerId,
      incarnation: `${workerId}-${invocations}`,
      ...message,
      nowMs: time.nowMs,
      runUntilMs: runUntilMsOf(fleet, message.jobId),
    });
  };
  /** Receives what a fleet was sent, and starts it. What cannot be started any more is deleted. */
  const startAll = async (fleet: string, workerId = 'worker'): Promise<readonly Started[]> => {
    const started: Started[] = [];
    for (;;) {
      const received = await queue.receive(fleet, 10, 0, HIDE_MS);
      if (received.length === 0) return started;
      for (const { message, receipt } of toldJobs(received)) {
        const outcome = await begin(fleet, workerId, message);
        await queue.delete(fleet, [receipt]);
        if (outcome.kind === 'started') started.push({ fleet, message, job: outcome.job });
      }
    }
  };
  /**
   * Receives what a fleet was sent, as its workers do: what starts goes on, and what is refused changes nothing, but word is left
   * of it. Answers the jobs that were refused.
   */
  const startOrTell = async (fleet: string): Promise<readonly string[]> => {
    const refused: string[] = [];
    for (;;) {
      const received = await queue.receive(fleet, 10, 0, HIDE_MS);
      if (received.length === 0) return refused;
      for (const { message, receipt } of toldJobs(received)) {
        const { jobId } = message;
        const before = store.inspectJob(jobId);
        if ((await begin(fleet, 'worker', message)).kind === 'superseded') {
          refused.push(jobId);
          await endAttemptOfDeadFunction({ store, configuration, clock, random, log }, message);
          if (store.inspectJob(jobId) !== before)
            throw new Error(`job ${jobId} was changed by a refused start`);
        }
        await queue.delete(fleet, [receipt]);
      }
    }
  };
  const startEverywhere = async (): Promise<readonly Started[]> => {
    const all: Started[] = [];
    for (const { fleet } of configuration.fleets) all.push(...(await startAll(fleet)));
    return all;
  };

  /** Ends an attempt. Answers the job's new image: the hint that the stream would bring. */
  const end = async ({ job: running }: Pick<Started, 'job'>, verdict: Verdict = SUCCEEDED): Promise<Job> => {
    const { workerId = '', incarnation = '' } = running.worker ?? {};
    const nowMs = time.nowMs;
    const outcome = await store.finishJob({
      workerId,
      incarnation,
      job: running,
      verdict,
      nowMs,
      expiresAtMs: nowMs + TERMINAL_TTL_MS,
    });
    if (outcome.kind !== 'finished') throw new Error(`job ${running.id} was superseded`);
    return { ...outcome.job, payload: running.payload };
  };

  const advance = (ms: number): Promise<unknown> => time.run({ untilMs: time.nowMs + ms });

  /** Everything that holds capacity. */
  const held = (): readonly ReservedJob[] =>
    [...store.inspect(0).reservations.values()].flatMap(({ jobs }) => [...jobs.values()]);
  /** A place is reserved for the job as it is: its fleet was told, and nobody has started it. */
  const hasPlace = ({ id, version, partition }: Job): boolean =>
    [...store.inspect(partition).reservations.values()].some(({ jobs }) =>
      [...jobs.values()].some((entry) => entry.id === id && entry.version === version),
    );
  /** Of a job that waits and has a place: `claimed`, whether by its pass or by its start to come. */
  const stateOf = (id: string): Job['state'] | undefined => {
    const found = store.inspectJob(id);
    return found?.state === 'pending' && hasPlace(found) ? 'claimed' : found?.state;
  };
  const states = (jobs: readonly Job[]): readonly (Job['state'] | undefined)[] =>
    jobs.map(({ id }) => stateOf(id));

  return {
    configuration,
    time,
    clock,
    random,
    store,
    queue,
    bus,
    log,
    published,
    wakes,
    logged,
    main,
    dispatcher,
    submitter,
    operator,
    finish,
    pass,
    commit,
    put,
    job,
    startAll,
    startOrTell,
    startEverywhere,
    end,
    advance,
    held,
    stateOf,
    states,
  };
}

/** Passes of one lead that goes on, until nothing is left to do at once. */
async function passesOfLead(
  context: DispatchContext,
  { jobs, jobIds, reason }: Trigger,
): Promise<DispatchReport> {
  const totals = { passes: 0, admitted: 0, settled: 0, lostClaims: 0 };
  let hints = jobs;
  let told = jobIds;
  for (let tries = 0; tries < context.budget.passesMax; tries += 1) {
    const beside: Promise<unknown>[] = [];
    const outcome = await onePass(context, 0, {
      leadBy: 'lead',
      hints,
      jobIds: told,
      checksAll: false,
      promotes: true,
      fires: reason === 'tick' || reason === 'wake',
      justStored: new Set(reason === 'ingest' && tries === 0 ? jobs.map(({ id }) => id) : []),
      inBackground: (work) => beside.push(work),
    });
    await Promise.all(beside);
    if (outcome.kind === 'lost') continue;
    if (outcome.kind === 'led' || outcome.kind === 'outdated') throw new Error(`the pass is ${outcome.kind}`);
    totals.passes += 1;
    totals.admitted += outcome.admitted;
    totals.settled += outcome.settled;
    totals.lostClaims += outcome.lostClaims;
    hints = outcome.hints;
    told = [];
    if (outcome.kind === 'done') return { kind: 'done', ...totals };
  }
  return { kind: 'outOfBudget', ...totals };
}

/** The store with some verbs replaced; the others go on as they were. */
export function storeWith<Store extends object>(store: Store, verbs: Partial<Store>): Store {
  return new Proxy(store, {
    get: (target, name) => {
      const own: unknown = Reflect.get(verbs, name);
      if (own !== undefined) return own;
      const method: unknown = Reflect.get(target, name, target);
      return typeof method === 'function' ? method.bind(target) : method;
    },
  });
}

/** A dispatcher while whose run is at this verb, for the first time, somebody else comes along. */
export function disturbed(on: Stage, verb: keyof JobStore, disturb: () => Promise<unknown>): DispatchContext {
  let isDone = false;
  return on.dispatcher({
    store: steppedStore(on.store, [verb], async () => {
      if (isDone) return;
      isDone = true;
      await disturb();
    }),
  });
}

/** The store, of which each answer takes from half as long as the mean to half as long again. */
export function answeringIn(on: Stage, meanMs: number): JobStore {
  const random = seeded(1);
  return new Proxy<JobStore>(on.store, {
    get: (target, name) => {
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== 'function') return method;
      return async (...asked: readonly unknown[]): Promise<unknown> => {
        const halfMs = (meanMs * (0.5 + random())) / 2;
        await on.clock.sleep(halfMs);
        const answer: unknown = await method.apply(target, asked);
        await on.clock.sleep(halfMs);
        return answer;
      };
    },
  });
}

/** The store, and the ids of the jobs that are looked up in it. */
export function notingLooks(store: JobStore): { readonly store: JobStore; readonly looked: string[] } {
  const looked: string[] = [];
  const lookUpJobs = (asked: RequestOf<'lookUpJobs'>) => {
    looked.push(...asked.ids);
    return store.lookUpJobs(asked);
  };
  return { store: storeWith(store, { lookUpJobs }), looked };
}
