/** Whoever holds a client: producers who submit and wait, and operators who do anything at any moment. */
import type { StoreClient } from '../../lib/client/client.ts';
import { endedAtMs, type Job } from '../../lib/core/job.ts';
import { leastOverride } from '../../lib/core/partition.ts';
import { printScope, type Scope } from '../../lib/core/scope.ts';
import type { VirtualTime } from '../../lib/local/virtual-time.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { jobIdOf } from '../../lib/submit/request.ts';
import type { Faults } from './faults.ts';
import type { Invariants } from './invariants.ts';
import type { SimulatedNode } from './node.ts';
import {
  MOVED_MAX_MS,
  type OperatorAct,
  type PlannedJob,
  type PlannedMove,
  type SimulationPlan,
} from './plan.ts';
import { type Dice, diceOf } from './random.ts';

export interface UsersOptions {
  readonly plan: SimulationPlan;
  readonly time: VirtualTime;
  readonly startMs: number;
  readonly faults: Faults;
  readonly invariants: Invariants;
  /** A process of a user's, with a client in it. */
  readonly begin: (kind: string) => {
    readonly node: SimulatedNode;
    readonly client: StoreClient;
    readonly store: JobStore;
  };
  readonly trace: (line: string) => void;
  readonly onBug: (what: string) => void;
}

/** Trouble that passes: a user tries again. */
const TRANSIENT: ReadonlySet<string> = new Set(['ThrottledError', 'UnavailableError', 'UnavailableError']);
/** What the end of a wait may be. */
const ENDS_OF_RUN: ReadonlySet<string> = new Set([
  'WaitTimeoutError',
  'JobFailedError',
  'JobCancelledError',
  'NotFoundError',
]);
/** What an operator may be told. */
const TOLD: ReadonlySet<string> = new Set([
  ...ENDS_OF_RUN,
  'JobStateError',
  'WaitTimeoutError',
  'ConflictError',
]);

const SUBMIT_AGAIN_MS = 5_000;
const RESTORE_AGAIN_MS = 5_000;
const DRAIN_TIMEOUT_MS = 60_000;
/** Soon enough to be moved again as it becomes due. */
const SOON_MS = 4_000;
/** Whoever named what is not declared does so again after this. */
const ASKS_AGAIN_MS = 20_000;
/** Of jobs whose type is gone, every so many is cancelled. */
const CANCELLED_NTH = 3;
/** A look reads no further. */
const LOOKED_AT_MAX = 20;

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : String(error));

export const requestIdOf = (at: number): string => `request-${at}`;
export const plannedIdOf = (at: number): string => jobIdOf(requestIdOf(at));

/** What is asked for, as an event's detail and as a client's request. */
export function requestOf(planned: PlannedJob, at: number, startMs: number) {
  const {
    type,
    fairnessKey,
    resourceId,
    keys,
    units,
    priority,
    mode,
    tags,
    askedAtMs,
    delayMs,
    expireAfterMs,
    dedupe,
  } = planned;
  return {
    type,
    fairnessKey,
    ...(resourceId === undefined ? {} : { resourceId }),
    ...(keys === undefined ? {} : { keys }),
    ...(units === undefined ? {} : { units }),
    priority,
    mode,
    idempotencyKey: requestIdOf(at),
    payload: { at },
    ...(tags === undefined ? {} : { tags }),
    ...(expireAfterMs === undefined ? {} : { expireAfter: expireAfterMs }),
    ...(dedupe === undefined ? {} : { dedupe }),
    ...(delayMs === 0 ? {} : { runAt: new Date(startMs + askedAtMs + delayMs).toISOString() }),
  };
}

export class Users {
  readonly #options: UsersOptions;
  /** Everything an operator has changed. */
  readonly #touched = new Map<string, Scope>();
  /** How often something was asked for a scope. */
  readonly #asked = new Map<string, number>();

  constructor(options: UsersOptions) {
    this.#options = options;
  }

  /** Submits through a client, or waits for the end: as often as it takes to be stored. */
  submit(planned: PlannedJob, at: number, tries = 1): void {
    const { begin, time, startMs } = this.#options;
    const { node, client } = begin(planned.via);
    const { mode, ...request } = requestOf(planned, at, startMs);
    const again = (): void => time.after(SUBMIT_AGAIN_MS, () => this.submit(planned, at, tries + 1));
    const work = (): Promise<unknown> =>
      planned.via === 'run'
        ? client.run(request, { timeout: planned.waitsMs, dieWithWaiter: planned.diesWithWaiter })
        : client
            .submit({ ...request, mode })
            .then((handle) => this.#options.invariants.requireDropped(plannedIdOf(at), handle));
    this.#do(node, `${planned.via} of request-${at} try ${tries}`, work, {
      onDeath: again,
      onError: (name) => {
        if (name === 'WaitTimeoutError') this.#options.faults.count('waiterGivesUp');
        if (TRANSIENT.has(name) || name === 'BacklogFullError') again();
        else if (this.#isUnknown(name)) this.#askAgain(planned, at, tries);
        else if (planned.via !== 'run' || !ENDS_OF_RUN.has(name)) return false;
        return true;
      },
    });
  }

  /** Operators do something every now and then, as long as faults happen. */
  operate(count = 1): void {
    const { faults, time } = this.#options;
    const dice = diceOf(faults.randomOf(`operator-${count}`));
    time.after(dice.between(1_000, 20_000), () => {
      if (!faults.active) return;
      for (const act of this.#draw(dice, `operator-${count}`)) this.act(act);
      this.operate(count + 1);
    });
  }

  /** What was changed is taken back, until that is done: a forgotten pause is no fault of the scheduler. */
  restoreAll(): void {
    for (const scope of this.#touched.values()) this.#restore(scope);
  }

  act(act: OperatorAct): void {
    const { begin, invariants, faults } = this.#options;
    const { node, client } = begin('operator');
    const scope = 'scope' in act ? printScope(act.scope) : undefined;
    const endsByItself =
      (act.kind === 'override' ? act.change : act.kind === 'pause' ? act : {}).for !== undefined;
    if ('scope' in act && !endsByItself) this.#touched.set(printScope(act.scope), act.scope);
    const asked = (this.#asked.get(scope ?? '') ?? 0) + 1;
    if (scope !== undefined) this.#asked.set(scope, asked);
    const work = async (): Promise<void> => {
      switch (act.kind) {
        case 'cancel':
          await client.cancel(act.jobId);
          return;
        case 'retry':
          await client.retry(act.jobId);
          return;
        case 'retime':
          for (const { afterMs, inMs } of act.moves) {
            await this.#options.time.sleep(afterMs);
            await this.#move(client, act.jobId, inMs);
          }
          return;
        case 'setPriority':
          await client.setPriority(act.jobId, act.priority);
          return;
        case 'pause':
          await client.pause(act.scope, { for: act.for });
          return;
        case 'resume':
          await client.resume(act.scope);
          return;
        case 'override':
          await client.override(act.scope, act.change);
          return;
        case 'drain': {
          await client.drain(act.scope, { timeout: DRAIN_TIMEOUT_MS });
          const { rates } = this.#options.plan;
          // Nobody has let the scope go on, or may yet have without being seen.
          const isSole =
            this.#asked.get(scope ?? '') === asked && rates.appliedLate + rates.requestRepeated === 0;
          if (isSole) invariants.requireDrained(act.scope);
          return;
        }
        case 'redrive': {
          let left = act.limit;
          for await (const _ of client.redriveDeadLetters({}, { limit: act.limit })) left -= 1;
          if (left < 0) throw new RangeError(`${act.limit} dead letters were asked for, and more came`);
          return;
        }
        case 'look':
          await this.#look(client, act.jobId);
          return;
      }
    };
    this.#do(node, `operator's ${act.kind} ${scope ?? ''}`, work, {
      // What is named may not be declared any more.
      onError: (name) => TRANSIENT.has(name) || TOLD.has(name) || this.#isUnknown(name),
    });
    if (!endsByItself && (act.kind === 'drain' || act.kind === 'pause' || act.kind === 'override')) {
      const dice = diceOf(faults.randomOf(`${node.name}/back`));
      this.#options.time.after(dice.between(1_000, 90_000), () => this.#restore(act.scope));
    }
  }

  #isUnknown(error: string): boolean {
    return this.#options.plan.redeploys !== undefined && error === 'ValidationError';
  }

  /** Its type is not declared, or its units are of no limit: whoever asked does so again, as long as it takes. */
  #askAgain(planned: PlannedJob, at: number, tries: number): void {
    const { faults, invariants, time } = this.#options;
    faults.count('typeUnknown');
    invariants.requireRefusable(planned);
    time.after(ASKS_AGAIN_MS, () => this.submit(planned, at, tries + 1));
  }

  /** Jobs of types that are gone are listed, explained and cancelled; the others come alive with them. */
  async requireSeen(stranded: readonly Job[]): Promise<void> {
    const { begin, invariants } = this.#options;
    const { client } = begin('operator');
    const listed = new Set<string>();
    for (const state of ['scheduled', 'pending'] as const)
      for await (const { id } of client.list({ state })) listed.add(id);
    for (const [at, { id, type, state }] of stranded.entries()) {
      const wrong = (what: string): void =>
        invariants.violate('declarations', `${id} is ${state}, its type ${type} is gone, and ${what}`);
      if (!listed.has(id)) wrong('it is not listed');
      const { job, waitsFor } = await client.explain(id);
      // Its last waiter may have given up meanwhile.
      if (job.state === 'cancelled' || job.state === 'expired') continue;
      // If its time to start is over, a pass ends it, whatever is declared.
      if (state === 'pending' && !waitsFor.some(({ why }) => why === 'unknownType' || why === 'expiry'))
        wrong(`it is said to wait for ${JSON.stringify(waitsFor)}`);
      if (at % CANCELLED_NTH !== 0) continue;
      await client.cancel(id);
      const { state: after } = await client.get(id);
      if (after !== 'cancelled' && after !== 'expired') wrong('it is not cancelled');
    }
  }

  async #move(client: StoreClient, jobId: string, inMs: number): Promise<void> {
    const runAt = new Date(this.#options.time.nowMs + inMs).toISOString();
    const job = await client.retime(jobId, { runAt });
    this.#options.invariants.requireMoved(job, Date.parse(runAt));
  }

  /** A job with a searchable tag stands once in the list of that tag, also while its record is moved to another instant. */
  async #lookByTags(client: StoreClient, { id, tags = {} }: Pick<Job, 'id' | 'tags'>): Promise<void> {
    const { searchableTags = [] } = this.#options.plan.configuration;
    if (!Object.keys(tags).some((name) => searchableTags.includes(name))) return;
    let found = 0;
    for await (const listed of client.list({ state: 'any', tags })) if (listed.id === id) found += 1;
    if (found !== 1) this.#options.onBug(`job ${id} is listed ${found} times by its tags`);
  }

  async #look(client: StoreClient, jobId: string): Promise<void> {
    await client.get(jobId);
    const { job, latestStartAtMs } = await client.explain(jobId);
    this.#options.invariants.requireHonest(job, latestStartAtMs);
    await client.fleets();
    await client.dispatchers();
    await client.controls();
    await client.unreadable();
    await this.#lookByTags(client, job);
    let seen = 0;
    for (const filter of [{}, { eventId: 'malformed-0' }]) {
      seen = 0;
      for await (const _ of client.rejections(filter)) if (++seen >= LOOKED_AT_MAX) break;
    }
    seen = 0;
    for await (const _ of client.keys()) if (++seen >= LOOKED_AT_MAX) break;
    for (const state of ['scheduled', 'pending', 'claimed', 'running', 'failed'] as const) {
      seen = 0;
      for await (const _ of client.list({ state })) if (++seen >= LOOKED_AT_MAX) break;
    }
    for (const { type, listFinished } of this.#options.plan.configuration.types) {
      if (listFinished !== true) continue;
      for (const state of ['succeeded', 'cancelled', 'expired'] as const) {
        seen = 0;
        let beforeMs = Number.POSITIVE_INFINITY;
        for await (const job of client.list({ state, type })) {
          const atMs = Math.floor(endedAtMs(job));
          if (job.state !== state || atMs > beforeMs)
            this.#options.onBug(`job ${job.id} is listed as ${state}`);
          beforeMs = atMs;
          if (++seen >= LOOKED_AT_MAX) break;
        }
      }
    }
  }

  #restore(scope: Scope): void {
    const { begin, time } = this.#options;
    const { node, client } = begin('operator');
    const name = printScope(scope);
    this.#asked.set(name, (this.#asked.get(name) ?? 0) + 1);
    const again = (): void => time.after(RESTORE_AGAIN_MS, () => this.#restore(scope));
    const isKey = typeof scope === 'object' && 'fairnessKey' in scope;
    const work = async (): Promise<void> => {
      await client.override(scope, { maxConcurrency: null, ...(isKey ? { weight: null } : {}) });
      await client.resume(scope);
    };
    this.#do(node, `operator's end of ${name}`, work, {
      onDeath: again,
      onError: (error) => {
        // Somebody pauses it in the same moment.
        const isOpen = TRANSIENT.has(error) || error === 'ConflictError';
        if (isOpen) again();
        // It holds for what comes back under that name.
        if (this.#isUnknown(error)) time.after(ASKS_AGAIN_MS, () => this.#restore(scope));
        return isOpen || this.#isUnknown(error);
      },
    });
  }

  /** Lets a process do one thing; it is over then. `onError` answers whether that may happen. */
  #do(
    node: SimulatedNode,
    what: string,
    work: () => Promise<unknown>,
    { onDeath, onError }: { readonly onDeath?: () => void; readonly onError: (name: string) => boolean },
  ): void {
    const { trace, time, onBug } = this.#options;
    let isOver = false;
    const end = (): void => {
      isOver = true;
      node.kill();
    };
    node.onDeath(() => {
      if (!isOver) onDeath?.();
    });
    trace(`${time.nowMs} ${node.name} begins ${what}`);
    work().then(end, (error: unknown) => {
      end();
      trace(`${time.nowMs} ${node.name} ends ${what}: ${nameOf(error)}`);
      if (!onError(nameOf(error))) onBug(`${what} threw ${String(error)}`);
    });
  }

  #draw(dice: Dice, name: string): readonly OperatorAct[] {
    const { faults, invariants, plan } = this.#options;
    const { configuration } = plan;
    const ids = [...invariants.accepted];
    const jobId = ids[dice.whole(0, ids.length - 1)];
    const of = <T>(list: readonly T[]): T | undefined => list[dice.whole(0, list.length - 1)];
    const type = of(configuration.types)?.type ?? '';
    const keys = [...new Set(plan.jobs.map((job) => job.fairnessKey))];
    const scope: Scope = dice.pick<Scope>([
      'pool',
      { tier: of(configuration.tiers)?.tier ?? '' },
      { type },
      { type },
      { fairnessKey: of(keys) ?? '' },
      { fleet: of(configuration.fleets)?.fleet ?? '' },
    ]);
    const cap = dice.whole(1, 4);
    const weight = dice.pick([0.25, 1, 5]);
    const limit = dice.pick([1, 10]);
    const happens = (fault: Parameters<Faults['happens']>[0]): boolean => faults.happens(fault, name, 15);
    const acts: OperatorAct[] = [];
    if (jobId !== undefined) {
      if (happens('operatorCancels')) acts.push({ kind: 'cancel', jobId });
      if (happens('operatorLooks')) acts.push({ kind: 'look', jobId });
      if (happens('operatorRedrives'))
        acts.push(dice.chance(0.3) ? { kind: 'retry', jobId } : { kind: 'redrive', limit });
    }
    if (happens('operatorRetimes')) acts.push(...this.#drawMoves(name));
    const ending = diceOf(faults.randomOf(`${name}/for`));
    const terms = ending.chance(0.3) ? { for: `${ending.whole(1, 60)}s` } : {};
    if (happens('operatorPauses')) acts.push({ kind: 'pause', scope, ...terms });
    if (happens('operatorDrains')) acts.push({ kind: 'drain', scope });
    if (happens('operatorOverrides')) {
      const weighs = typeof scope === 'object' && 'fairnessKey' in scope && dice.chance(0.6);
      acts.push({
        kind: 'override',
        scope,
        // A lower one is refused.
        change: {
          maxConcurrency: Math.max(cap, leastOverride(printScope(scope), configuration)),
          ...(weighs ? { weight } : {}),
          ...terms,
        },
      });
    }
    return acts;
  }

  /** Moves of one job, most often of one that waits, by one user again and again, or by several at once; and another priority. */
  #drawMoves(name: string): readonly OperatorAct[] {
    const { faults, invariants, plan } = this.#options;
    const dice = diceOf(faults.randomOf(`${name}/moves`));
    const all = [...invariants.accepted];
    const waiting = all.filter((id) => invariants.waits(id));
    const ids = waiting.length > 0 && dice.chance(0.8) ? waiting : all;
    const jobId = ids[dice.whole(0, ids.length - 1)];
    if (jobId === undefined) return [];
    const moves = (count: number): readonly PlannedMove[] => {
      const list: PlannedMove[] = [];
      for (let at = 0; at < count; at += 1) {
        const beforeMs = list.at(-1)?.inMs ?? 0;
        // At any moment, but most likely when somebody is woken to promote the job, or start it, at the time before.
        const isAimed = beforeMs > 0 && beforeMs <= SOON_MS && dice.chance(0.8);
        const wokenMs = Math.ceil(beforeMs / 1_000) * 1_000;
        const afterMs = isAimed
          ? wokenMs + dice.between(0, 4) * plan.latencyMaxMs
          : dice.pick([0, 50, 2_000]);
        const inMs = dice.pick([-3_600_000, 0, dice.between(1, SOON_MS), dice.between(1, MOVED_MAX_MS)]);
        list.push({ afterMs, inMs });
      }
      return list;
    };
    const acts: OperatorAct[] = Array.from({ length: dice.pick([1, 1, 2, 3]) }, () => ({
      kind: 'retime' as const,
      jobId,
      moves: moves(dice.pick([1, 1, 2, 4])),
    }));
    // The same job while it is moved, or another one that waits.
    const other = dice.chance(0.3) ? jobId : waiting[dice.whole(0, waiting.length - 1)];
    const priority = dice.whole(0, 10);
    return other === undefined ? acts : [...acts, { kind: 'setPriority', jobId: other, priority }];
  }
}
