/** The invariants of the design, checked at every write of the store, after every step and after every pass. */

import type { SubmitResult } from '../../lib/client/submissions.ts';
import { type Control, controlAt, isClosed } from '../../lib/core/capacity.ts';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { correctionMs } from '../../lib/core/fairness.ts';
import {
  type AttemptEntry,
  isTerminal,
  type Job,
  type MovingJob,
  type ReservedJob,
} from '../../lib/core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../lib/core/lease.ts';
import { isLegal, isWaiting, type Verdict } from '../../lib/core/life-cycle.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import { isInScope, parkingKeysFor, printScope, type Scope } from '../../lib/core/scope.ts';
import { weightOf } from '../../lib/core/score.ts';
import { HELD_BACK_MAX_MS, WORKER_LEASE_MS } from '../../lib/dispatch/tuning.ts';
import { readyLineName } from '../../lib/store/contract/lines.ts';
import type { Ledger, Reservation } from '../../lib/store/contract/records.ts';
import type {
  ClaimRequest,
  Commit,
  ControlChange,
  FinishRequest,
  StartRequest,
} from '../../lib/store/contract/requests.ts';
import type { RequestOf } from '../../lib/store/contract/verbs.ts';
import type { StoreEvent } from '../../lib/store/memory/imitation/imitation.ts';
import type { PartitionView } from '../../lib/store/memory/items.ts';
import type { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { BLOCKED_PREFIX, blockedLineName } from '../../lib/store/table/schema.ts';
import { Chronicle } from './chronicle.ts';
import { type Loaded, Order, type OrderBounds } from './order.ts';
import type { PlannedJob } from './plan.ts';
import { keyOf, Rates } from './rates.ts';
import { Starvation, Turns } from './starvation.ts';
import { Versions } from './versions.ts';

/** The invariants by their numbers in the design, and what has none. */
export const INVARIANTS = {
  nothingLost: '1 nothing is lost',
  oneClaim: '2 one active claim, versions increase',
  fencing: '3 fencing',
  exclusion: '4 exclusion',
  caps: '5 caps are never exceeded',
  oneEnd: '6 one terminal transition, legal edges',
  neverEarly: '7 never early',
  noStarvation: '8 no starvation',
  costConserved: '9 cost is conserved',
  hintsAreHints: '10 hints are only hints',
  policyOrder: "11 order is the policy's",
  declarations: '12 declarations may change at any time',
  stepsOnce: 'a step that was done is never run again',
  neverExpired: 'a job that has expired never starts',
  dedupeKept: 'dedupe keeps exactly what it says',
  boundsKept: 'no more jobs wait than maxWaiting says, but for those that came since they were counted',
  historyTold: "a job's history tells what happened",
} as const;

export interface Violation {
  readonly invariant: string;
  readonly atMs: number;
  readonly what: string;
}

/** An attempt that really runs, in a process that lives: whatever the items say. */
export interface Execution {
  readonly job: Job;
  readonly node: string;
}

/** Handlers of the simulation sign what they answer and what they throw with their fencing token: the job's version. */
export const SIGNATURE = 'signed by ';

/** The fencing token of the handler whose outcome a verdict is; undefined: it says of no handler. */
function signedBy(verdict: Verdict): string | undefined {
  if (verdict.kind === 'cancelled') return undefined;
  if (verdict.kind !== 'succeeded') {
    const message = verdict.error?.message ?? '';
    return message.includes(SIGNATURE) ? message.split(SIGNATURE)[1] : undefined;
  }
  const { result } = verdict;
  return typeof result === 'object' && result !== null && 'by' in result ? String(result.by) : undefined;
}

/** What an attempt counts as that did not succeed: by its verb, and by what its history says. Only a handler that hung fails without `finishJob`. */
function countedAs(verb: string, before: Job, after: Job): AttemptEntry['outcome'] {
  const entry = after.history?.entries.at(-1);
  const isNew = entry?.kind === 'attempt' && entry.claimId === before.claim?.claimId;
  if (verb === 'finishJob') return 'failed';
  return isNew && (entry.outcome !== 'failed' || before.hung !== undefined)
    ? entry.outcome
    : before.hung === undefined
      ? 'lost'
      : 'failed';
}

const releasesOf = ({ history }: Job): number =>
  (history?.entries ?? []).filter((entry) => entry.kind === 'attempt' && entry.outcome === 'released').length;
/** A worker without the handler gives a job back so often before it fails it, while a deployment may be under way. */
const RELEASES_MIN = 15;

const isActive = (job: Job | undefined): boolean => job?.state === 'claimed' || job?.state === 'running';

/** Verbs that note something on a job without moving it. */
const NOTES: ReadonlySet<string> = new Set([
  'saveCheckpoint',
  'saveSteps',
  'saveProgress',
  'saveHung',
  'cancelJob',
  'redrive',
  'mergeJob',
]);

/** Verbs after which a wake is sent: what waited may start. */
const OPENING: ReadonlySet<string> = new Set([
  'registerWorker',
  'changeControl',
  'retimeJob',
  'createJobs',
  'createDeduped',
]);

/** Whether a place belongs to the scope of this name. */
function isNamed(scope: string, { type, tier, fairnessKey, fleet }: ReservedJob): boolean {
  return ['pool', `type/${type}`, `tier/${tier}`, `key/${fairnessKey}`, `fleet/${fleet}`].includes(scope);
}

/** Verbs that give a job another time: a move, or another attempt. */
const TIMING: ReadonlySet<string> = new Set(['retimeJob', 'finishJob', 'endUnfinished', 'mergeJob']);

type Work = Pick<Job, 'type' | 'fairnessKey' | 'resourceId' | 'keys'>;

/** Whether one job may stand for requests of both. */
const isSameWork = (one: Work, other: Work): boolean =>
  one.type === other.type &&
  one.fairnessKey === other.fairnessKey &&
  one.resourceId === other.resourceId &&
  Object.keys({ ...one.keys, ...other.keys }).every((name) => one.keys?.[name] === other.keys?.[name]);

const moveName = (id: string, version: number, runAtMs: number): string => `${id}/${version}/${runAtMs}`;

/** What may pass between the end of a lease and the answer to it. */
const AFTER_LEASE_MS = 10_000;
/** Two ticks, and their passes. */
const LETTER_READ_MS = 150_000;
const COST_TOLERANCE_MS = 0.01;
/** A full look at all jobs costs a little for each: not sooner than after so many steps, and as many as there are jobs. */
const SWEEP_STEPS = 128;

/** A process that cannot look believes what it has read; but it is told by whatever it works with. */
const OUTDATED_MAX_MS = 5 * 60_000;

/** What a node read of a partition. */
interface Load {
  readonly atMs: number;
  /** The declaration of which the partition knew. */
  readonly told: number;
  readonly controls: ReadonlyMap<string, Control>;
  readonly loaded: Loaded;
}

/** What a job in flight counts in. */
type Scopes = readonly (readonly [scope: string, name: string])[];

export interface InvariantsOptions {
  readonly configuration: PoolConfiguration;
  /** Other ones are declared while this runs. */
  readonly isRedeployed: boolean;
  readonly partitions: readonly number[];
  readonly nowMs: () => number;
  readonly skewMaxMs: number;
  /** Records of terminal jobs expire while this runs. */
  readonly recordsExpire: boolean;
  /** Every change of an item reaches the stream, however late. */
  readonly streamIsWhole: boolean;
  /** No index lags, and no request comes late: whoever looks sees all that there is. */
  readonly readsAreWhole: boolean;
  /** What was asked for, by the id of the request. */
  readonly requests: ReadonlyMap<string, PlannedJob & Pick<Job, 'payload'>>;
  /** How old a count of waiting jobs may be that lets another one in; undefined: nobody can say. */
  readonly countedWithinMs: number | undefined;
  readonly orderBounds: OrderBounds;
  /** Of a job that may start all the time: see `starvation.ts`. */
  readonly starvation: { readonly fromMs: number; readonly unseenMs: number };
  /** How long each job waits is held against the documented bound, with so much to spare; undefined: it is not. */
  readonly turnSlackMs?: number | undefined;
}

export class Invariants {
  readonly violations: Violation[] = [];
  readonly versions: Versions;
  readonly #options: InvariantsOptions;
  readonly #accepted = new Set<string>();
  readonly #ended = new Set<string>();
  /** Jobs by what was asked for. */
  readonly #asked = new Map<string, string>();
  /** Ids of the requests that became jobs, or for which a job stands. */
  readonly #standing = new Set<string>();
  /** Ids of the requests that made none, because a job of their key ran. */
  readonly #dropped = new Set<string>();
  /** Since when a job stands in a ready line. */
  readonly #readySinceMs = new Map<string, number>();
  /** Jobs that were claimed: a worker has had them, or may have. */
  readonly #begun = new Set<string>();
  /** Jobs that have run, so that a handler may have their payload. A claim that was given back has shown it to none. */
  readonly #ran = new Set<string>();
  /** Of what ended, what the bus told. */
  readonly #told = new Set<string>();
  /** Some outcomes were given up with the stream's records. */
  #isToldForCertain = true;
  /** Dead letters that another job was made of. */
  readonly #redriven = new Set<string>();
  /** The greatest cap and every weight that operators have ever put, by scope. */
  readonly #loosestCaps = new Map<string, number>();
  readonly #weights = new Map<string, number[]>();
  /** By scope, then by name. */
  readonly #held = {
    item: new Map<string, Map<string, number>>(),
    real: new Map<string, Map<string, number>>(),
  };
  /** The last move of each job that took effect: to when, and the version that it made. */
  readonly #moved = new Map<string, { readonly version: number; readonly runAtMs: number }>();
  /** Moves that were asked for, by the version that was seen. */
  readonly #movesAsked = new Set<string>();
  readonly #executions = new Set<Execution>();
  /** Jobs that are claimed or run, by what their items say. */
  readonly #active = new Map<string, Job>();
  /** What they, and what really runs, were counted in when they began. */
  readonly #countedIn = new Map<Job | Execution, Scopes>();
  /** By partition: the last batch that something was claimed for, and under which declaration. */
  readonly #planned = new Map<number, { readonly follows: number; readonly declared: number }>();
  readonly #usedMs = new Map<string, number>();
  /** By partition, then by fairness key. */
  readonly #ledgers = new Map<number, Map<string, Ledger>>();
  /** By partition and job: the version that the last batch follows for which it was claimed. */
  readonly #claims = new Map<string, number>();
  readonly #claimIds = new Set<string>();
  /** By claim: the process that has begun the attempt, and lives on to write down what became of it. */
  readonly #holders = new Map<string, string>();
  /** The last outage of the store. */
  #outage: { readonly fromMs: number; readonly untilMs: number } = { fromMs: 0, untilMs: 0 };
  /** By partition: since when losses are held back, as the last commit says. */
  readonly #heldBackSinceMs = new Map<number, number>();
  /** By node and partition: what it read last. */
  readonly #loads = new Map<string, Load>();
  /** By batch: the declaration of which the partition was told when the pass that reserved it read the partition. */
  readonly #toldBefore = new Map<string, number>();
  /** By commit: who sent it, and what it had read by then. The commit may arrive after its sender has read the partition again. */
  readonly #committers = new WeakMap<Commit, { readonly node: string; readonly load: Load | undefined }>();
  /** By batch: who reserved it. */
  readonly #plannedBy = new Map<string, string>();
  readonly #order: Order;
  readonly #rates: Rates;
  readonly #starvation: Starvation;
  readonly #turns: Turns | undefined;
  readonly #chronicle = new Chronicle((what) => this.#violated('historyTold', what));
  #store: MemoryJobStore | undefined;
  #steps = 0;
  #sweepAtStep = SWEEP_STEPS;
  #openedAtMs = 0;
  /** By partition and letter: when it was seen first, while nobody was at work. */
  #lettersSeenAtMs: ReadonlyMap<string, number> = new Map();
  /** Workers' processes that have ended. */
  readonly #gone = new Set<string>();

  constructor(options: InvariantsOptions) {
    this.#options = options;
    const { configuration, orderBounds, nowMs, skewMaxMs, partitions } = options;
    this.versions = new Versions(configuration);
    this.#rates = new Rates({
      versions: this.versions,
      nowMs,
      violated: (what) => this.#violated('caps', what),
    });
    this.#starvation = new Starvation({
      configurations: () => this.versions.since(undefined),
      nowMs,
      ...options.starvation,
    });
    const { turnSlackMs } = options;
    this.#turns = turnSlackMs === undefined ? undefined : new Turns(configuration, turnSlackMs);
    this.#order = new Order({
      configuration,
      isDivided: partitions.length > 1,
      bounds: orderBounds,
      nowMs,
      skewMaxMs,
      isParked: (id) => this.#store?.inspectLine(id)?.startsWith(BLOCKED_PREFIX) === true,
      conflictKeyOf: (job) => this.versions.conflictKey(this.versions.newest, job),
    });
  }

  /** There is more than one partition, or will be. */
  get #isDivided(): boolean {
    return this.#options.partitions.length > 1;
  }

  watch(store: MemoryJobStore): void {
    this.#store = store;
  }

  get accepted(): ReadonlySet<string> {
    return this.#accepted;
  }

  /** Jobs that somebody asked for, other tries of dead letters not counted. */
  get asked(): number {
    return this.#standing.size + [...this.#dropped].filter((id) => !this.#standing.has(id)).length;
  }

  get ended(): ReadonlySet<string> {
    return this.#ended;
  }

  waits(id: string): boolean {
    const state = this.#store?.inspectJob(id)?.state;
    return state !== undefined && isWaiting(state);
  }

  readonly onStore = (event: StoreEvent<Job>): void => {
    if (event.kind === 'job') this.#onJob(event.verb, event.input, event.oldJob, event.newJob);
    else if (event.kind === 'committed') this.#onCommit(event);
    else if (event.kind === 'unparked') {
      this.#order.onUnparked(event.jobId);
      if (this.#readySinceMs.has(event.jobId)) this.#readySinceMs.set(event.jobId, this.#options.nowMs());
    }
  };

  begin(execution: Execution): void {
    this.#chronicle.onExecution(execution.job);
    this.#checkTime('the handler', execution.job);
    if (this.#store?.inspectJob(execution.job.id)?.state === 'expired')
      this.#violated('neverExpired', `${execution.job.id} has expired, and its handler begins`);
    const stored = this.#store?.inspectJob(execution.job.id);
    if (stored !== undefined && JSON.stringify(stored.payload) !== JSON.stringify(execution.job.payload))
      this.#violated('dedupeKept', `${execution.job.id} begins with a payload that was replaced`);
    this.#rates.onStart(execution.job);
    this.goOn(execution);
  }

  /** A handler that stood still with its process runs again. */
  goOn(execution: Execution): void {
    if (this.#executions.has(execution)) return;
    this.#executions.add(execution);
    this.#countCaps('real', execution, execution.job, 1);
    for (const other of this.#executions) {
      if (other !== execution && other.job.id === execution.job.id) {
        this.#violated('oneClaim', `${execution.job.id} runs on ${execution.node} and on ${other.node}`);
      }
    }
    for (const other of this.#executions) {
      if (other.job.id === execution.job.id) continue;
      const conflictKey = this.versions.exclude(execution.job, other.job);
      if (conflictKey !== undefined) {
        this.#violated(
          'exclusion',
          `${execution.job.id} on ${execution.node} runs beside ${other.job.id} on ${other.node}, both ${conflictKey}`,
        );
      }
    }
  }

  end(execution: Execution): void {
    if (this.#executions.delete(execution)) this.#countCaps('real', execution, execution.job, -1);
  }

  /** Until then, by the clock of its worker, nobody may have given up what it runs. */
  leaseEndOf({ job }: Execution): number {
    const { worker, claim } = job;
    const present = this.#store?.inspectJob(job.id);
    if (present?.runUntilMs !== undefined && present.claim?.claimId === claim?.claimId)
      return present.runUntilMs;
    const records = this.#options.partitions.flatMap((partition) => {
      const record = this.#view(partition).workers.get(worker?.workerId ?? '');
      return record?.incarnation === worker?.incarnation && record !== undefined ? [record.expiresAtMs] : [];
    });
    return records.length === 0 ? 0 : Math.min(...records);
  }

  /** Something else is declared. */
  onDeclared(version: number, configuration: PoolConfiguration): void {
    this.versions.add(configuration, this.#options.nowMs());
    this.#order.redeclare(version, configuration);
  }

  /** A deployment has told every partition of what it declared. */
  requireToldOf(version: number): void {
    for (let partition = 0; partition < this.versions.partitionsEver(version); partition += 1) {
      const { declared = 0 } = this.#view(partition);
      if (declared < version)
        this.#violated(
          'declarations',
          `version ${version} was declared, and partition ${partition} knows of ${declared}`,
        );
    }
  }

  /** Somebody was told that nobody knows this type, or that no limit of it counts such units. */
  requireRefusable(asked: Pick<PlannedJob, 'type' | 'units'>): void {
    const sinceMs = this.versions.acceptedSinceMs(asked);
    const knownMs = sinceMs === undefined ? 0 : this.#options.nowMs() - sinceMs;
    if (knownMs > OUTDATED_MAX_MS)
      this.#violated('declarations', `${asked.type} was refused, and is declared for ${knownMs} ms`);
  }

  /** Nothing is left that could end as things are declared, and what was parked stands in its ready line again, a few with each round. */
  get isOverAsDeclared(): boolean {
    const isParked = (id: string): boolean => this.#store?.inspectLine(id)?.startsWith('blocked/') === true;
    return (
      this.isAllSettled &&
      this.#left.every(({ id, type }) => !this.versions.isDeclared(type) && !isParked(id))
    );
  }

  /** Jobs of types that are not declared any more. */
  get stranded(): readonly Job[] {
    return this.#left.filter(({ type }) => !this.versions.isDeclared(type));
  }

  get #left(): readonly Job[] {
    const left: Job[] = [];
    for (const id of this.#accepted) {
      const job = this.#ended.has(id) ? undefined : this.#store?.inspectJob(id);
      if (job !== undefined) left.push(job);
    }
    return left;
  }

  violate(invariant: keyof typeof INVARIANTS, what: string): void {
    this.#violated(invariant, what);
  }

  afterStep(): void {
    this.#steps += 1;
    if (this.#steps < this.#sweepAtStep) return;
    this.#sweepAtStep = this.#steps + Math.max(SWEEP_STEPS, this.#accepted.size);
    this.sweep();
  }

  /** Whatever was accepted is there, and a waiting job stands in a line that its key announces. */
  sweep(): void {
    const store = this.#store;
    if (store === undefined) return;
    for (const id of this.#accepted) {
      const job = store.inspectJob(id);
      if (job === undefined) {
        if (!this.#ended.has(id)) this.#violated('nothingLost', `${id} was accepted and is gone`);
        continue;
      }
      if (job.state !== 'pending') continue;
      this.#requireAnnounced(store, job);
      const overdue = this.#turns?.overdue(job, this.#options.nowMs());
      if (overdue !== undefined) this.#violated('noStarvation', overdue);
    }
    if (this.#isDivided) return;
    const starved = this.#starvation.look(this.#order.waiting, this.#order.startableNow(this.#view(0)));
    if (starved !== undefined) this.#violated('noStarvation', starved);
  }

  /**
   * Nothing has failed for a while, and nobody is at work: then no job waits that could start now. Whoever misses a
   * wake leaves one behind, until a tick comes.
   */
  requireNothingLeftBehind(sinceMs: number): void {
    const store = this.#store;
    // Whoever has just opened a way is about to tell.
    if (store === undefined || this.#openedAtMs >= sinceMs) return;
    for (const id of this.#accepted) {
      const job = store.inspectJob(id);
      if (job?.state !== 'pending' || this.#toldAtMs(job) !== undefined) continue;
      if (this.#couldStart(store, job)) {
        this.#violated('noStarvation', `${id} could start, and nobody is on the way to see it`);
      }
    }
  }

  /** What a user is told: no latest start where on-demand jobs may hold the job back for as long as they come. */
  requireHonest(job: MovingJob, latestStartAtMs: number | undefined): void {
    if (job.state === 'pending' && latestStartAtMs !== undefined && this.#turns?.isHeldBack(job) === true)
      this.#violated('noStarvation', `${job.id} is promised a start, and its key is sent on-demand jobs`);
  }

  isScheduled(id: string, version: number): boolean {
    const job = this.#store?.inspectJob(id);
    return job?.state === 'scheduled' && job.version === version;
  }

  /** A job's time has come a while ago, and nobody is at work: somebody has seen it. */
  requireNotDue(id: string, version: number): void {
    const job = this.#store?.inspectJob(id);
    if (job !== undefined && this.isScheduled(id, version))
      this.#violated(
        'noStarvation',
        `${id} is due since ${this.#options.nowMs() - job.runAtMs} ms, and nobody sees it`,
      );
  }

  /** Whoever reads a partition may do so for another one's sake, while partitions hand over. */
  get #looksElsewhere(): boolean {
    return this.#options.isRedeployed && this.versions.partitionsEver(this.versions.newest) > 1;
  }

  /** A dispatcher that runs on has ended because another life of its name has begun. */
  onSuperseded(node: string, hasLaterLife: boolean): void {
    if (!hasLaterLife)
      this.#violated('fencing', `${node} was superseded, and no later life of its name had begun`);
  }

  /** A node sends a request, which may arrive much later. */
  onSent(verb: string, node: string, parameters: readonly unknown[]): void {
    if (verb !== 'commit') return;
    const { partition, commit } = parameters[0] as RequestOf<'commit'>;
    this.#committers.set(commit, { node, load: this.#loads.get(`${node}/${partition}`) });
  }

  /** A node's request has reached its service. */
  onVerb(verb: string, node: string, parameters: readonly unknown[]): void {
    if (OPENING.has(verb)) this.#openedAtMs = this.#options.nowMs();
    switch (verb) {
      case 'loadPartition': {
        const asked = parameters[0] as RequestOf<'loadPartition'>;
        // A dispatcher that only looks, as where it counts what waits, reads no ledgers.
        if (asked.withoutLedgers === true) break;
        const { partition } = asked;
        const view = this.#view(partition);
        this.#loads.set(`${node}/${partition}`, {
          atMs: this.#options.nowMs(),
          told: view.declared ?? 0,
          controls: new Map(view.controls),
          loaded: this.#order.loaded(view),
        });
        break;
      }
      case 'changeControl': {
        const { scope, change } = parameters[0] as RequestOf<'changeControl'>;
        this.#onControl(scope, change);
        break;
      }
      case 'endUnfinished':
        this.#onLoss(node, (parameters[0] as RequestOf<'endUnfinished'>).job);
        break;
      case 'retimeJob': {
        const { job, runAtMs } = parameters[0] as RequestOf<'retimeJob'>;
        this.#movesAsked.add(moveName(job.id, job.version, runAtMs));
        break;
      }
    }
  }

  /** A dispatcher was shown these jobs, and its run of passes ended well. */
  onTold(jobs: Iterable<Pick<Job, 'id' | 'version'>>): void {
    this.#order.onTold(jobs);
  }

  /** A dispatcher has nothing more to do for now: nothing may start that it knows of. */
  onDone(node: string, partition: number): void {
    const loaded = this.#loads.get(`${node}/${partition}`)?.loaded;
    const view = this.#view(partition);
    // Another one may be at work by now.
    if (loaded === undefined || view.summary.version !== loaded.version) return;
    // What letters tell is for the next leader (`requireLettersRead`).
    if (view.letters.size > 0) return;
    const left = this.#order.leftBehind(view, loaded);
    if (left !== undefined) this.#violated('noStarvation', left);
  }

  /** A job that was parked runs again: it has the state that it left. */
  onParkedState(id: string, state: unknown, left: unknown): void {
    if (JSON.stringify(state) !== JSON.stringify(left))
      this.#violated(
        'nothingLost',
        `${id} was parked with ${JSON.stringify(left)}, and has ${JSON.stringify(state)}`,
      );
  }

  /** A process has begun an attempt: it holds it until it ends, or the attempt is taken away. */
  hold(claimId: string, node: string): void {
    this.#holders.set(claimId, node);
  }

  /** What a process runs. */
  heldBy(node: string): readonly { readonly claimId: string; readonly jobId: string }[] {
    return [...this.#executions].flatMap(({ job, node: other }) =>
      other === node && job.claim !== undefined ? [{ claimId: job.claim.claimId, jobId: job.id }] : [],
    );
  }

  /** Whether any other job is being run. */
  runsBeside(id: string): boolean {
    return [...this.#executions].some(({ job }) => job.id !== id);
  }

  /** A job was taken from a process that is gone, and sent again: another one has begun it soon. */
  requireStarted(id: string, node: string): void {
    const job = this.#store?.inspectJob(id);
    const toldAtMs = job === undefined ? undefined : this.#toldAtMs(job);
    if (toldAtMs === undefined) return;
    const sinceMs = this.#options.nowMs() - toldAtMs;
    if (sinceMs < AFTER_LEASE_MS) return;
    this.#violated(
      'noStarvation',
      `${id} was taken from ${node}, sent ${sinceMs} ms ago, and nobody has started it`,
    );
  }

  /** Places of a partition whose jobs nobody has started, nor claimed. */
  #placesToStart(partition: number): readonly { readonly job: Job; readonly fleet: string }[] {
    const places = [...this.#view(partition).reservations.values()];
    return places.flatMap(({ jobs }) =>
      [...jobs.values()].flatMap(({ id, version, fleet }) => {
        const job = this.#store?.inspectJob(id);
        return job?.state === 'pending' && job.version === version ? [{ job, fleet }] : [];
      }),
    );
  }

  /** When the place of a job was reserved that nobody has started; undefined: it has none, or has started. */
  #toldAtMs({ id, state, version, claim, partition }: Job): number | undefined {
    if (state === 'claimed') return claim?.claimedAtMs;
    if (state !== 'pending') return undefined;
    for (const { reservedAtMs, jobs } of this.#view(partition).reservations.values())
      for (const entry of jobs.values())
        if (entry.id === id && entry.version === version) return reservedAtMs;
    return undefined;
  }

  /** A process is gone for so long that somebody has noticed: nothing counts as running there any more. */
  requireTaken(claimId: string, node: string, goneAtMs: number): void {
    const store = this.#store;
    if (store === undefined) return;
    for (const id of this.#accepted) {
      const job = store.inspectJob(id);
      if (job?.state !== 'running' || job.claim?.claimId !== claimId) continue;
      // Another life of its name has ended, too: of several former lives, the one that may run longest counts.
      const record = this.#view(job.partition).workers.get(job.worker?.workerId ?? '');
      if ((record?.formerUntilMs ?? 0) > this.#options.nowMs() - AFTER_LEASE_MS) continue;
      const sinceMs = this.#options.nowMs() - goneAtMs;
      this.#violated(
        'noStarvation',
        `${id} ran on ${node}, which is gone for ${sinceMs} ms, and still counts as running`,
      );
    }
  }

  /** A worker's process is gone, with all it held, and with the slots for which it has left word, or leaves it still. */
  release(node: string): void {
    this.#gone.add(node);
    for (const [claimId, holder] of this.#holders) if (holder === node) this.#holders.delete(claimId);
  }

  onOutage(fromMs: number, untilMs: number): void {
    const isSame = fromMs <= this.#outage.untilMs;
    this.#outage = {
      fromMs: isSame ? this.#outage.fromMs : fromMs,
      untilMs: isSame ? Math.max(untilMs, this.#outage.untilMs) : untilMs,
    };
  }

  /** After an outage of a lease, a worker has a lease to say that it lives, or what it has done. */
  #onLoss(node: string, seen: MovingJob): void {
    const claimId = seen.claim?.claimId ?? '';
    const holder = this.#holders.get(claimId);
    const job = this.#store?.inspectJob(seen.id);
    if (holder === undefined || holder === node || job?.state !== 'running' || job.claim?.claimId !== claimId)
      return;
    // Outage upon outage: what was held back for so long is given up, and what a later outage cuts off with it.
    const heldBackSinceMs = this.#heldBackSinceMs.get(job.partition) ?? Infinity;
    if (this.#options.nowMs() - heldBackSinceMs >= HELD_BACK_MAX_MS - CLOCK_SKEW_MAX_MS) return;
    const { fromMs, untilMs } = this.#outage;
    const sinceMs = (this.#loads.get(`${node}/${job.partition}`)?.atMs ?? 0) - untilMs;
    if (untilMs - fromMs >= WORKER_LEASE_MS && sinceMs >= 0 && sinceMs < WORKER_LEASE_MS) {
      this.#violated(
        'nothingLost',
        `${node} took ${seen.id} from ${holder}, which lives, as it was ${sinceMs} ms after an outage of ${untilMs - fromMs} ms`,
      );
    }
  }

  /** Nobody is at work: every letter was read that has been there for two ticks. Its writer may have made the pass itself. */
  requireLettersRead(): void {
    const nowMs = this.#options.nowMs();
    const present = new Map<string, number>();
    for (const partition of this.#options.partitions)
      for (const letterId of this.#view(partition).letters.keys()) {
        const name = `${partition}/${letterId}`;
        const seenAtMs = this.#lettersSeenAtMs.get(name) ?? nowMs;
        present.set(name, seenAtMs);
        if (nowMs - seenAtMs > LETTER_READ_MS)
          this.#violated('noStarvation', `letter ${letterId} to partition ${partition} is unread`);
      }
    this.#lettersSeenAtMs = present;
  }

  onOutcome(jobId: string): void {
    this.#told.add(jobId);
  }

  get isAllTold(): boolean {
    return this.#untold.length === 0;
  }

  /** Nothing holds capacity. */
  get isAllSettled(): boolean {
    return this.#options.partitions.every((partition) => this.#view(partition).reservations.size === 0);
  }

  get #untold(): readonly string[] {
    const isCertain = this.#options.streamIsWhole && this.#isToldForCertain;
    return isCertain ? [...this.#ended].filter((id) => !this.#told.has(id)) : [];
  }

  giveUpOutcomes(): void {
    this.#isToldForCertain = false;
  }

  /** Nobody holds capacity in this scope. */
  requireDrained(scope: Scope): void {
    const name = printScope(scope);
    for (const partition of this.#options.partitions) {
      const { controls, reservations } = this.#view(partition);
      if (controls.get(name)?.paused !== true) continue;
      const held = [...reservations.values()].flatMap(({ jobs }) => [...jobs.values()]);
      const count = held.filter((entry) => isInScope(scope, entry, this.versions.configuration)).length;
      if (count > 0) this.#violated('caps', `${name} was drained, and ${count} of its jobs hold capacity`);
    }
  }

  /** A user was told that a job is moved: it is, or somebody has moved it since. */
  requireMoved({ id, version, runAtMs }: Job, askedMs: number): void {
    const last = this.#moved.get(id);
    const isLast = last?.version === version && last.runAtMs === askedMs && runAtMs === askedMs;
    if (!isLast && (last === undefined || last.version <= version)) {
      this.#violated('neverEarly', `${id} was said to be moved to ${askedMs}, and is at ${last?.runAtMs}`);
    }
  }

  /** Every record of a terminal job is gone, collected or not. */
  requireExpired(): void {
    for (const id of this.#ended) {
      if (this.#store?.inspectJob(id) !== undefined) {
        this.#violated('nothingLost', `the record of ${id} has expired, and is there`);
      }
    }
  }

  #view(partition: number): PartitionView {
    if (this.#store === undefined) throw new Error('no store is watched');
    return this.#store.inspect(partition);
  }

  #onControl(scope: string, { maxConcurrency, weight }: ControlChange): void {
    if (typeof maxConcurrency === 'number') {
      this.#loosestCaps.set(scope, Math.max(maxConcurrency, this.#loosestCaps.get(scope) ?? 0));
    }
    if (typeof weight === 'number') this.#weights.set(scope, [...(this.#weights.get(scope) ?? []), weight]);
  }

  /** What was in force when a pass loaded its partition, and is still, was known to it. */
  #requireObeyed(partition: number, load: Load, reserve: readonly Reservation[]): void {
    if (reserve.length === 0) return;
    const { controls, reservations } = this.#view(partition);
    // By the clock of the pass, which may be ahead, a change that has an end was still in force when it loaded the partition.
    const certainlyMs = load.atMs + this.#options.skewMaxMs;
    for (const [name, stored] of controls) {
      // The same object: nothing has changed it meanwhile.
      if (load.controls.get(name) !== stored) continue;
      const control = controlAt(stored, certainlyMs);
      const countOf = (list: Iterable<Reservation>): number =>
        [...list].flatMap(({ jobs }) => [...jobs.values()]).filter((entry) => isNamed(name, entry)).length;
      const added = countOf(reserve);
      if (added === 0) continue;
      if (control.restsUntilMs !== undefined)
        this.#violated(
          'caps',
          `${added} jobs were admitted while ${name} rests until ${control.restsUntilMs}`,
        );
      if (control.paused) this.#violated('caps', `${added} jobs were admitted while ${name} is paused`);
      const held = countOf(reservations.values());
      if (control.maxConcurrency !== undefined && held > control.maxConcurrency) {
        this.#violated('caps', `${name} holds ${held} of ${control.maxConcurrency}, as an operator set it`);
      }
    }
  }

  #couldStart(store: MemoryJobStore, job: Job): boolean {
    const { controls, loans, summary } = store.inspect(job.partition);
    const mayRestMs = this.#options.nowMs() - this.#options.skewMaxMs;
    const isHeld = (stored: Control): boolean => {
      const control = controlAt(stored, mayRestMs);
      return isClosed(control) || control.maxConcurrency !== undefined || control.weight !== undefined;
    };
    if ([...controls.values()].some(isHeld)) return false;
    const { configuration } = this.versions;
    // While partitions hand over, one looks at the others from time to time.
    const { carried } = summary;
    // A job under a rate or a budget may have to wait for a window's end.
    const { limits = [] } = configuration.types.find(({ type }) => type === job.type) ?? {};
    if (
      configuration.limits?.some(
        ({ limit, rate, budget }) => limits.includes(limit) && (rate ?? budget) !== undefined,
      )
    )
      return false;
    const isHandedOver = carried?.isHandedOver === true && carried.version === this.versions.newest;
    if (this.versions.partitionsEver(this.versions.newest) > 1 && (!isHandedOver || loans.size > 0))
      return false;
    // Of several partitions each has a share, and takes its turn.
    if (configuration.partitions > 1 || !this.versions.isDeclared(job.type)) return false;
    // What a fleet was told of holds what it starts with.
    const told = this.#placesToStart(job.partition).map((place) => ({
      ...place,
      scopes: [...this.#scopesOf(place.job, configuration), ['fleet', place.fleet]],
    }));
    const toldIn = (scope: string, name: string): number =>
      told.filter(({ scopes }) => scopes.some(([of, its]) => of === scope && its === name)).length;
    const isFree = (scope: string, name: string, cap: number | null | undefined): boolean =>
      cap === null ||
      cap === undefined ||
      (this.#held.item.get(scope)?.get(name) ?? 0) + toldIn(scope, name) < cap;
    return (
      [...this.#active.values()].every((other) => this.versions.exclude(job, other) === undefined) &&
      told.every((other) => this.versions.exclude(job, other.job) === undefined) &&
      this.#scopesOf(job, configuration).every(([scope, name]) =>
        isFree(scope, name, capOf(configuration, scope, name)),
      ) &&
      configuration.fleets.some(
        ({ fleet, types, slots }) =>
          types.includes(job.type) &&
          isFree('fleet', fleet, slots ?? this.#registeredSlots(store, job, fleet)),
      )
    );
  }

  #registeredSlots(store: MemoryJobStore, job: Job, fleet: string): number {
    const nowMs = this.#options.nowMs() + this.#options.skewMaxMs;
    return [...store.inspect(job.partition).workers.values()]
      .filter((worker) => worker.fleet === fleet && worker.expiresAtMs > nowMs)
      .reduce((total, worker) => total + worker.slots, 0);
  }

  /** When everything has had its time. */
  atEnd(): void {
    const store = this.#store;
    if (store === undefined) return;
    this.sweep();
    for (const id of this.#accepted) {
      const job = store.inspectJob(id);
      if (job !== undefined) this.#chronicle.compare(job);
      if (job === undefined || isTerminal(job.state)) continue;
      this.#violated(
        'noStarvation',
        `${id} is still ${job.state} (version ${job.version}, claim ${job.claim?.claimId ?? 'none'})`,
      );
    }
    for (const id of this.#untold) this.#violated('nothingLost', `nobody was told of the end of ${id}`);
    for (const partition of this.#options.partitions) {
      for (const reservation of store.inspect(partition).reservations.values()) {
        this.#violated(
          'nothingLost',
          `reservation ${reservation.batchId} still holds ${reservation.jobs.size} places`,
        );
      }
    }
  }

  #violated(invariant: keyof typeof INVARIANTS, what: string): void {
    this.violations.push({ invariant: INVARIANTS[invariant], atMs: this.#options.nowMs(), what });
  }

  #onJob(verb: string, input: unknown, before: Job | undefined, after: Job): void {
    const { id } = after;
    this.#order.onJob(after);
    this.#chronicle.onJob(verb, before, after);
    this.#noteReady(before, after);
    if (before === undefined) {
      if (verb !== 'createJobs' && verb !== 'createDeduped' && verb !== 'redrive')
        this.#violated('oneEnd', `${verb} made ${id} out of nothing`);
      // Its record may have expired: then it is another job.
      const isExpired = this.#ended.delete(id) && this.#options.recordsExpire;
      if (this.#accepted.has(id) && !isExpired)
        this.#violated('oneEnd', `${id} was made again after its end`);
      this.#moved.delete(id);
      this.#begun.delete(id);
      this.#ran.delete(id);
      if (after.redriveOf === undefined) this.#onAsked(after);
      if (verb === 'createJobs') this.#checkBounds(after);
      this.#accepted.add(id);
      this.#turns?.onAccepted(after);
      if (after.redriveOf !== undefined) {
        if (this.#redriven.has(after.redriveOf))
          this.#violated('oneEnd', `a second job was made of the dead letter ${after.redriveOf}`);
        this.#redriven.add(after.redriveOf);
      }
      return;
    }
    if (verb === 'saveCheckpoint') this.#checkCheckpoint(after);
    if (isActive(after)) this.#begun.add(id);
    if (after.state === 'running') this.#ran.add(id);
    if (verb === 'mergeJob') this.#checkMerge(before, after);
    this.#checkSteps(verb, before, after);
    if (NOTES.has(verb) && after.state === before.state && after.version === before.version) return;
    if (isTerminal(before.state))
      this.#violated('oneEnd', `${verb} changed ${id} after its end (${before.state})`);
    // A start that claims takes two steps at once.
    const isTwoSteps = verb === 'startJob' && before.state === 'pending' && after.state === 'running';
    if (!isTwoSteps && !isLegal(before.state, after.state)) {
      this.#violated('oneEnd', `${verb} took ${id} from ${before.state} to ${after.state}`);
    }
    if (after.version !== before.version + (isTwoSteps ? 2 : 1)) {
      this.#violated('oneEnd', `${verb} took ${id} from version ${before.version} to ${after.version}`);
    }
    this.#checkFence(verb, input, before, after);
    if (after.runAtMs !== before.runAtMs && !TIMING.has(verb))
      this.#violated('neverEarly', `${verb} took ${id} from its time ${before.runAtMs} to ${after.runAtMs}`);
    if (verb === 'retimeJob' || verb === 'mergeJob') this.#moved.set(id, after);
    if (before.state === 'pending' && isActive(after)) this.#onClaim(after);
    // What is pending may start at once.
    if (after.state === 'pending' || isActive(after)) this.#checkTime(verb, after);
    if (before.state === 'running' && after.state !== 'running') {
      const usedMs = Math.max(0, (after.finishedAtMs ?? 0) - (before.startedAtMs ?? 0));
      if (before.claim !== undefined) this.#usedMs.set(before.claim.claimId, usedMs);
      this.#checkCounts(verb, before, after);
    }
    this.#checkPolicy(verb, before, after);
    const held = this.#active.get(id);
    if (isActive(after)) this.#active.set(id, held ?? after);
    else this.#active.delete(id);
    if (isActive(after) && held === undefined) {
      this.#countCaps('item', after, after, 1);
      this.#requireExclusive(after);
      this.#requireOneOfKey(after);
    }
    if (!isActive(after) && held !== undefined) this.#countCaps('item', held, held, -1);
    if (isActive(after)) this.#requireCounted(verb, after);
    if (isTerminal(after.state)) this.#ended.add(id);
  }

  /** A client was told that its request was dropped: a job of its key has begun, and has not ended. */
  requireDropped(id: string, { deduplicated, job }: SubmitResult): void {
    if (deduplicated !== 'dropped') return;
    this.#dropped.add(id);
    const planned = this.#options.requests.get(id);
    const wrong = (what: string): void => this.#violated('dedupeKept', `${id} was dropped, and ${what}`);
    if (this.#standing.has(id) && !this.#options.recordsExpire) wrong('a job stands for it');
    if (planned === undefined || !isSameWork(planned, job)) wrong(`${job.id} is other work`);
    if (!this.#begun.has(job.id) || isTerminal(job.state)) wrong(`${job.id} is ${job.state}`);
  }

  /** A request of a type without a bound is not refused. */
  requireBounded(type: string): void {
    const declared = this.#options.configuration.types.find((each) => each.type === type);
    if (declared?.maxWaiting === undefined && declared?.maxWaitingPerKey === undefined)
      this.#violated('boundsKept', `a request of ${type} was refused`);
  }

  #noteReady(before: Job | undefined, { id, state, partition }: Job): void {
    if (state !== 'pending') this.#readySinceMs.delete(id);
    else if (before?.state !== 'pending' || before.partition !== partition)
      this.#readySinceMs.set(id, this.#options.nowMs());
  }

  /** A job is let in if fewer wait than its bounds say, of those that a count may show. */
  #checkBounds({ id, type, state, fairnessKey }: Job): void {
    const { countedWithinMs, configuration, nowMs } = this.#options;
    const { maxWaiting, maxWaitingPerKey } = configuration.types.find((each) => each.type === type) ?? {};
    if (
      countedWithinMs === undefined ||
      state !== 'pending' ||
      (maxWaiting ?? maxWaitingPerKey) === undefined
    )
      return;
    const shown = [...this.#readySinceMs].flatMap(([other, sinceMs]) => {
      const isShown = other !== id && sinceMs <= nowMs() - countedWithinMs;
      const isReady = isShown && this.#store?.inspectLine(other)?.startsWith(BLOCKED_PREFIX) !== true;
      const job = isReady ? this.#store?.inspectJob(other) : undefined;
      return job?.type === type ? [job] : [];
    });
    const ofKey = shown.filter((job) => job.fairnessKey === fairnessKey);
    if (shown.length >= (maxWaiting ?? Infinity) || ofKey.length >= (maxWaitingPerKey ?? Infinity))
      this.#violated(
        'boundsKept',
        `${id} was let in where ${shown.length} waited, ${ofKey.length} of its key`,
      );
  }

  /** A request changes the job of its key that waits, once, and moves it no further than the first one said. */
  #checkMerge(before: Job, after: Job): void {
    const { id } = before;
    const wrong = (what: string): void => this.#violated('dedupeKept', `a request ${what} ${id}`);
    if (!isWaiting(before.state) || this.#ran.has(id))
      wrong(`changed what a worker has had, ${before.state}`);
    const [request = ''] = (after.merged?.at(-1) ?? '').split(':');
    if (this.#standing.has(request) && !this.#options.recordsExpire) wrong(`that was stored before changed`);
    this.#standing.add(request);
    this.#checkRequest(request, before, after, wrong);
    const latestMs = before.submittedAtMs + (before.dedupe?.atMostMs ?? Infinity);
    if (after.runAtMs > Math.max(latestMs, before.runAtMs)) wrong(`moved to ${after.runAtMs}`);
  }

  /** The job has of a request what that says, and stands for no other work. */
  #checkRequest(id: string, before: Job, after: Job, wrong: (what: string) => void): void {
    const planned = this.#options.requests.get(id);
    if (planned === undefined) return;
    if (!isSameWork(planned, before)) wrong('of other work changed');
    const isLast = planned.dedupe?.keep === 'last';
    const { payload, priority, mode } = isLast ? planned : before;
    if (JSON.stringify(after.payload) !== JSON.stringify(payload)) wrong('left another payload for');
    if (after.priority !== priority || after.mode !== mode) wrong('left another priority or mode for');
    const { units = {} } = isLast ? planned : before;
    if (JSON.stringify(after.units ?? {}) !== JSON.stringify(units)) wrong('left other units for');
    const expires = isLast ? planned.expireAfterMs : before.expireAtMs;
    if ((after.expireAtMs === undefined) !== (expires === undefined)) wrong('left another expiry for');
  }

  /**
   * Of the jobs of a key, one waits that no worker has had, and whose time to start is not over by any clock. A request that is
   * dropped beside a job that has begun looks at the one that was made last.
   */
  #checkDeduped(made: Job): void {
    const { id, dedupe } = made;
    if (dedupe === undefined) return;
    let last: string | undefined;
    for (const other of this.#accepted) {
      const job = this.#store?.inspectJob(other);
      if (job === undefined || job.dedupe?.key !== dedupe.key || other === id || !isSameWork(job, made))
        continue;
      const isOver = (job.expireAtMs ?? Infinity) <= this.#options.nowMs() + this.#options.skewMaxMs;
      last = other;
      if (isWaiting(job.state) && !isOver && !this.#begun.has(other))
        this.#violated('dedupeKept', `${id} was made beside ${other}, which waits with the same key`);
    }
    const state = last === undefined ? undefined : this.#store?.inspectJob(last)?.state;
    if (dedupe.whileRunning !== 'drop' || last === undefined || state === undefined) return;
    if (!isTerminal(state) && this.#begun.has(last))
      this.#violated('dedupeKept', `${id} was made beside ${last}, which is ${state}`);
  }

  /** One request, one job, however often it comes. */
  #onAsked(job: Job): void {
    const { id, payload } = job;
    if (this.#standing.has(id) && !this.#asked.has(JSON.stringify(payload)) && !this.#options.recordsExpire)
      this.#violated('dedupeKept', `${id} was made for a request for which another job stands`);
    this.#standing.add(id);
    this.#checkDeduped(job);
    const request = JSON.stringify(payload);
    const known = this.#asked.get(request);
    if (known !== undefined && known !== id)
      this.#violated('oneEnd', `${id} was made for ${request}, for which there was ${known}`);
    this.#asked.set(request, id);
  }

  /** What was stored of a step stays as it is, whatever becomes of its attempt. */
  #checkSteps(verb: string, { id, steps = {} }: Job, after: Job): void {
    for (const [name, step] of Object.entries(steps))
      if (JSON.stringify(after.steps?.[name]) !== JSON.stringify(step))
        this.#violated('stepsOnce', `${verb} lost or changed the done step ${name} of ${id}`);
  }

  /** A handler begins a step. */
  onStep(id: string, name: string): void {
    if (this.#store?.inspectJob(id)?.steps?.[name] !== undefined)
      this.#violated('stepsOnce', `the done step ${name} of ${id} runs again`);
  }

  /** A handler was given the value of a step. */
  onStepValue(id: string, name: string, value: unknown): void {
    const stored = this.#store?.inspectJob(id)?.steps?.[name];
    // The record may have expired meanwhile.
    if (stored !== undefined && JSON.stringify(stored.value) !== JSON.stringify(value))
      this.#violated(
        'stepsOnce',
        `step ${name} of ${id} gave ${JSON.stringify(value)}, and stored is another`,
      );
  }

  /** Handlers of the simulation sign what they keep, too. */
  #checkCheckpoint({ id, version, checkpoint }: Job): void {
    const by =
      typeof checkpoint === 'object' && checkpoint !== null && 'by' in checkpoint ? checkpoint.by : '';
    if (by !== version)
      this.#violated('fencing', `attempt ${String(by)} kept a checkpoint of ${id}, of which ${version} runs`);
  }

  #checkFence(verb: string, input: unknown, before: Job, after: Job): void {
    const by = verb === 'finishJob' ? signedBy((input as FinishRequest).verdict) : undefined;
    if (by !== undefined && by !== String(before.version)) {
      this.#violated(
        'fencing',
        `what attempt ${by} did ended ${before.id}, of which attempt ${before.version} runs`,
      );
    }
    const wrong = (who: string): void =>
      this.#violated(
        'fencing',
        `${verb} by ${who} changed ${before.id}, which ${before.claim?.claimId ?? 'nobody'} holds`,
      );
    switch (verb) {
      case 'claim': {
        const request = input as ClaimRequest;
        if (request.version !== before.version || before.state !== 'pending') wrong(request.claimId);
        break;
      }
      case 'startJob': {
        const { claimId, toClaim } = input as StartRequest;
        const isClaimed = before.state === 'claimed' && before.claim?.claimId === claimId;
        const isPlanned = before.state === 'pending' && before.version === toClaim?.version;
        if (!isClaimed && !isPlanned) wrong(claimId);
        if ((after.startedAtMs ?? 0) >= (before.expireAtMs ?? Infinity))
          this.#violated(
            'neverExpired',
            `${before.id} starts at ${after.startedAtMs}, after ${before.expireAtMs}`,
          );
        break;
      }
      case 'finishJob': {
        const { job, workerId, incarnation } = input as FinishRequest;
        const isHolder =
          job.claim?.claimId === before.claim?.claimId &&
          workerId === before.worker?.workerId &&
          incarnation === before.worker?.incarnation;
        if (!isHolder) wrong(`${workerId}/${incarnation} under ${job.claim?.claimId}`);
        break;
      }
      case 'endUnfinished': {
        const seen = input as Job;
        if (seen.claim?.claimId !== before.claim?.claimId) wrong(`the loss of ${seen.claim?.claimId}`);
        for (const { job, node } of this.#executions) {
          if (job.id === before.id && job.claim?.claimId === before.claim?.claimId)
            wrong(`who took ${node} for lost`);
        }
        break;
      }
      case 'retimeJob':
        if (!this.#movesAsked.has(moveName(before.id, before.version, after.runAtMs)))
          wrong(`a move to ${after.runAtMs}, asked for at another version`);
        break;
      case 'expireJobs':
        if ((after.finishedAtMs ?? 0) < (before.expireAtMs ?? Infinity))
          this.#violated(
            'neverExpired',
            `${before.id} had time until ${before.expireAtMs}, and expired before`,
          );
        break;
      case 'rehome':
        this.#checkMove(before, after);
        break;
      case 'raiseVersion':
        if (input !== before.version) wrong(`version ${String(input)}`);
        break;
    }
    if (after.id !== before.id) wrong('another job');
  }

  /** A job goes to where its key lives, or has lived, once what its last attempt used is known. */
  #checkMove(before: Job, after: Job): void {
    const { id, fairnessKey, claim } = before;
    const homes = this.versions.since(1).map(({ partitions }) => partitionOf(fairnessKey, partitions));
    if (!homes.includes(after.partition))
      this.#violated('nothingLost', `${id} was moved to ${after.partition}, where its key has never lived`);
    const { reservations } = this.#view(before.partition);
    const place = Number(claim?.claimId.split('.').at(-1));
    if (reservations.get(claim?.batchId ?? '')?.jobs.get(place)?.id === id)
      this.#violated('costConserved', `${id} was moved while ${claim?.claimId} was not settled`);
  }

  /** By what both were claimed under, and by what the earlier one's type has become. */
  #requireExclusive(job: Job): void {
    for (const other of this.#active.values()) {
      const conflictKey = other.id === job.id ? undefined : this.versions.exclude(job, other);
      if (conflictKey !== undefined)
        this.#violated('exclusion', `${job.id} was claimed beside ${other.id}, both ${conflictKey}`);
    }
  }

  /** Of the jobs of a key that wait for each other, one runs. */
  #requireOneOfKey(job: Job): void {
    if (job.dedupe?.whileRunning !== 'oneWaits') return;
    for (const other of this.#active.values())
      if (other.id !== job.id && other.dedupe?.key === job.dedupe.key && isSameWork(job, other))
        this.#violated('dedupeKept', `${job.id} was claimed beside ${other.id}, for whose end it waits`);
  }

  /** What runs keeps the terms that it was claimed under. */
  #checkPolicy(verb: string, before: Job, after: Job): void {
    if (before.state !== 'running' || before.claim?.declared === undefined || after.state === 'cancelled')
      return;
    const type = this.versions.typeUnder(before.claim.declared, before.type);
    if (type === undefined || (verb !== 'finishJob' && verb !== 'endUnfinished')) return;
    const { maxAttempts, maxWorkersLost } = type.retry;
    const as = countedAs(verb, before, after);
    if (as === 'released' || as === 'rested' || as === 'parked') return;
    const [done, most] =
      as === 'failed'
        ? [before.attempt, maxAttempts]
        : [before.workersLost + 1, type.onWorkerLost === 'fail' ? 0 : maxWorkersLost + 1];
    const broken = (what: string): void =>
      this.#violated(
        'declarations',
        `${verb} ${what} ${before.id} after ${done} of ${most} tries, as it was claimed under version ${before.claim?.declared}`,
      );
    if (after.error?.name === 'MissingHandler' && releasesOf(before) < RELEASES_MIN)
      broken('missed a handler and failed');
    else if (after.state === 'failed' && after.error?.name !== 'MissingHandler' && done < most)
      broken('gave up');
    else if (after.state === 'scheduled' && done >= most && type.onWorkerLost !== 'fail')
      broken('tried again');
  }

  /** Whoever plans knows what its partition was told, and what was planned there before; and workers have the terms. */
  #checkDeclared(job: Job): void {
    if (!this.#options.isRedeployed) return;
    const { declared, fleet = '', batchId = '' } = job.claim ?? {};
    const version = declared ?? 0;
    const wrong = (what: string): void =>
      this.#violated('declarations', `${job.id} was claimed under version ${version} ${what}`);
    if (declared === undefined) {
      wrong('of nothing');
      return;
    }
    const takes = this.versions.under(version).fleets.find((each) => each.fleet === fleet)?.types;
    if (takes?.includes(job.type) !== true) wrong(`for ${fleet}, which does not take ${job.type}`);
    const home = partitionOf(job.fairnessKey, this.versions.under(version).partitions);
    if (home !== job.partition) wrong(`in partition ${job.partition}, and its key lives in ${home}`);
    const follows = versionOfBatch(batchId);
    const node = this.#plannedBy.get(batchId);
    const told = this.#toldBefore.get(batchId) ?? 0;
    if (told > version) wrong(`by ${node}, when its partition knew of ${told}`);
    const last = this.#planned.get(job.partition);
    const isLater = last === undefined || follows >= last.follows;
    if (last !== undefined && isLater && last.declared > version) wrong(`after version ${last.declared}`);
    if (isLater) this.#planned.set(job.partition, { follows, declared: version });
  }

  #onClaim(job: Job): void {
    this.#checkDeclared(job);
    const { batchId = '', claimId = '' } = job.claim ?? {};
    const follows = versionOfBatch(batchId);
    // Each partition counts versions of its own, and a job may come to one that counted less.
    const name = `${job.partition}/${job.id}`;
    const last = this.#claims.get(name) ?? -1;
    if (this.#claimIds.has(claimId)) this.#violated('oneClaim', `${job.id} was claimed by ${claimId} again`);
    this.#claimIds.add(claimId);
    if (follows <= last)
      this.#violated('oneClaim', `${job.id} was claimed behind version ${follows} after ${last}`);
    this.#claims.set(name, follows);
  }

  #checkTime(verb: string, job: Job): void {
    const nowMs = this.#options.nowMs();
    const notBeforeMs = Math.max(job.runAtMs, this.#moved.get(job.id)?.runAtMs ?? 0);
    if (nowMs < notBeforeMs - this.#options.skewMaxMs) {
      this.#violated('neverEarly', `${verb} of ${job.id} ${notBeforeMs - nowMs} ms before its time`);
    }
  }

  #checkCounts(verb: string, before: Job, after: Job): void {
    if (after.state !== 'scheduled') return;
    const attempts = after.attempt - before.attempt;
    const losses = after.workersLost - before.workersLost;
    const as = countedAs(verb, before, after);
    const expected = as === 'failed' ? [1, 0] : as === 'lost' ? [0, 1] : [0, 0];
    if (attempts !== expected[0] || losses !== expected[1]) {
      this.#violated(
        'oneEnd',
        `${verb} of ${after.id} counted ${attempts} attempts and ${losses} lost workers`,
      );
    }
    if (attempts === 0 && after.readyAtMs !== before.readyAtMs)
      this.#violated('oneEnd', `${verb} made ${after.id} ${after.readyAtMs - before.readyAtMs} ms younger`);
  }

  /** Whoever is claimed or runs is counted by a reservation, at its very place. */
  #requireCounted(verb: string, job: Job): void {
    const { claim } = job;
    const reservation = this.#store?.inspect(job.partition).reservations.get(claim?.batchId ?? '');
    const place = Number(claim?.claimId.split('.').at(-1));
    if (reservation?.jobs.get(place)?.id !== job.id) {
      this.#violated(
        'caps',
        `${job.id} holds capacity by ${claim?.claimId} that nobody counts, after ${verb}`,
      );
    }
  }

  #requireAnnounced(store: MemoryJobStore, job: Job): void {
    if (store.inspectLine(job.id)?.startsWith(BLOCKED_PREFIX) === true) {
      const { parked, parks } = store.inspect(job.partition);
      const line = store.inspectLine(job.id);
      const isMarked = [...parked.keys()].some((key) => blockedLineName(job.partition, key) === line);
      if (!parks || !isMarked)
        this.#violated('nothingLost', `${job.id} is parked in ${line}, which has no mark`);
      return;
    }
    const { type, fairnessKey } = job;
    const backlog = store.inspect(job.partition).backlogs.get(fairnessKey)?.get(type)?.value;
    const own = store.inspectLine(job.id);
    const isAnnounced = backlog?.lines.some(
      ({ mode }) => readyLineName(job.partition, { type, mode, fairnessKey }) === own,
    );
    if (isAnnounced !== true) {
      this.#violated(
        'nothingLost',
        `${job.id} waits in a line that its key ${job.fairnessKey} does not announce`,
      );
    }
  }

  /** Once a partition's jobs are carried over, none is parked behind a conflict key that its type has no more. */
  requireCarriedOver(): void {
    const { newest } = this.versions;
    if (!this.#options.readsAreWhole || this.#store === undefined) return;
    for (const job of this.#left) {
      const { carried } = this.#view(job.partition).summary;
      const line = this.#store.inspectLine(job.id);
      if (carried?.version !== newest || !carried.isDone || line?.startsWith(BLOCKED_PREFIX) !== true)
        continue;
      const isIts = parkingKeysFor(this.versions.under(newest), job).some(
        (key) => line === blockedLineName(job.partition, key),
      );
      if (!isIts && this.versions.isDeclared(job.type))
        this.#violated('declarations', `${job.id} was not carried over: it is parked in ${line} still`);
    }
  }

  #onCommit({ partition, commit }: Extract<StoreEvent<Job>, { kind: 'committed' }>): void {
    const load = this.#loadFor(commit);
    const told = load?.told ?? 0;
    for (const { batchId } of commit.reserve) {
      this.#plannedBy.set(batchId, `${this.#committers.get(commit)?.node}`);
      this.#toldBefore.set(batchId, told);
    }
    this.#rates.onCommit(partition, commit, told);
    const { version } = this.#view(partition).summary;
    if (version !== commit.version + 1)
      this.#violated(
        'fencing',
        `a commit that follows version ${commit.version} of partition ${partition} made version ${version}`,
      );
    const chargedMs = new Map<string, number>();
    /** Keys of jobs whose records expired before they were settled: what they used is known to nobody. */
    const unknown = new Set<string>();
    for (const { reservation, positions } of commit.drop) {
      for (const position of positions) {
        const entry = reservation.jobs.get(position);
        if (entry === undefined) continue;
        const claimId = `${reservation.batchId}.${position}`;
        this.#onDrop(claimId, entry);
        if (this.#store?.inspectJob(entry.id) === undefined) unknown.add(entry.fairnessKey);
        const before = chargedMs.get(entry.fairnessKey) ?? 0;
        chargedMs.set(entry.fairnessKey, before + this.#chargeOf(claimId, entry));
      }
    }
    // A key may be lifted up to one that the same commit has lifted before: the lower share first.
    let mostShareMs = this.#mostShareMs(partition, commit, chargedMs);
    const shareOf = ({ fairnessKey, settledCostMs }: Ledger): number =>
      settledCostMs / Math.min(...this.#weightsOf(fairnessKey));
    for (const ledger of [...commit.ledgers].sort((one, other) => shareOf(one) - shareOf(other))) {
      const { fairnessKey } = ledger;
      const isLifted =
        !unknown.has(fairnessKey) &&
        this.#isLifted(partition, mostShareMs, ledger, chargedMs.get(fairnessKey) ?? 0);
      this.#ledgersOf(partition).set(fairnessKey, ledger);
      chargedMs.delete(fairnessKey);
      if (isLifted) mostShareMs = Math.max(mostShareMs, this.#mostShareMs(partition, commit, chargedMs));
    }
    for (const [fairnessKey, charge] of chargedMs) {
      if (charge > COST_TOLERANCE_MS && !unknown.has(fairnessKey)) {
        this.#violated('costConserved', `${fairnessKey} was not charged ${charge} ms that its attempts used`);
      }
    }
    for (const { loanId, from, to } of [
      ...(commit.lend ?? []),
      ...(commit.giveBack ?? []).map(({ loan }) => loan),
    ]) {
      const [lent, borrowed] = [from, to].map((each) => this.#view(each).loans.get(loanId)?.units);
      if (lent !== borrowed)
        this.#violated('caps', `of loan ${loanId}, ${from} says ${lent} units and ${to} ${borrowed}`);
    }
    if (commit.observation !== undefined)
      this.#heldBackSinceMs.set(partition, commit.observation.heldBackSinceMs ?? Infinity);
    if (load !== undefined) this.#requireObeyed(partition, load, commit.reserve);
    this.#requireInOrder(partition, commit, load?.loaded);
  }

  /**
   * What the pass of a commit has loaded: a later commit of one pass follows the version that an earlier one has made. While partitions hand
   * over, another pass of the same node may have read the partition in between.
   */
  #loadFor(commit: Commit): Load | undefined {
    const load = this.#committers.get(commit)?.load;
    if (load === undefined || load.loaded.version > commit.version) return undefined;
    return this.#looksElsewhere && load.loaded.version !== commit.version ? undefined : load;
  }

  #requireInOrder(partition: number, commit: Commit, loaded: Loaded | undefined): void {
    const broken = this.#order.onCommit(this.#view(partition), commit, loaded);
    if (broken !== undefined) this.#violated('policyOrder', broken);
    if (!this.#isDivided && this.#starvation.suspects > 0)
      this.#starvation.lookAgain(this.#order.startableNow(this.#view(partition)));
  }

  /** A place may only be given up when its claim is over, or cannot come any more. */
  #onDrop(claimId: string, entry: ReservedJob): void {
    const job = this.#store?.inspectJob(entry.id);
    if (job === undefined) return;
    if (isActive(job) && job.claim?.claimId === claimId) {
      this.#violated('caps', `${claimId} was given up while ${entry.id} is ${job.state}: nobody counts it`);
    }
    if (job.state === 'pending' && job.version === entry.version) {
      this.#violated('caps', `${claimId} was given up while its claim of ${entry.id} may still come`);
    }
  }

  #chargeOf(claimId: string, entry: ReservedJob): number {
    const { fairness } = this.#options.configuration;
    const charged = entry.estimatedCostMs;
    return charged + correctionMs(charged, this.#usedMs.get(claimId), fairness);
  }

  /**
   * No key is lifted above all others: the most that any was charged, what is in flight included. Of an attempt that has ended,
   * the pass may know already what it used, though a later commit settles it.
   */
  #mostShareMs(partition: number, commit: Commit, chargedMs: ReadonlyMap<string, number>): number {
    const inFlight = new Map<string, number>();
    const count = ({ fairnessKey }: ReservedJob, costMs: number): void => {
      inFlight.set(fairnessKey, (inFlight.get(fairnessKey) ?? 0) + costMs);
    };
    for (const { reservation, positions } of commit.drop)
      for (const position of positions) {
        const entry = reservation.jobs.get(position);
        if (entry !== undefined) count(entry, entry.estimatedCostMs);
      }
    for (const { batchId, jobs } of this.#view(partition).reservations.values())
      for (const [position, entry] of jobs)
        count(entry, Math.max(entry.estimatedCostMs, this.#chargeOf(`${batchId}.${position}`, entry)));
    const ledgers = this.#ledgersOf(partition);
    const shares = [...new Set([...ledgers.keys(), ...inFlight.keys()])].map((fairnessKey) => {
      const settledCostMs =
        (ledgers.get(fairnessKey)?.settledCostMs ?? 0) + Math.max(0, chargedMs.get(fairnessKey) ?? 0);
      const weight = Math.min(...this.#weightsOf(fairnessKey));
      return (settledCostMs + (inFlight.get(fairnessKey) ?? 0)) / weight;
    });
    return Math.max(0, ...shares);
  }

  #weightsOf(fairnessKey: string): readonly number[] {
    const configured = this.versions
      .since(undefined)
      .map(({ fairness }) => weightOf(fairness.weights, fairness.defaultWeight, fairnessKey));
    return [...configured, ...(this.#weights.get(`key/${fairnessKey}`) ?? [])];
  }

  #ledgersOf(partition: number): Map<string, Ledger> {
    const known = this.#ledgers.get(partition);
    if (known !== undefined) return known;
    const ledgers = new Map<string, Ledger>();
    this.#ledgers.set(partition, ledgers);
    return ledgers;
  }

  /** Whether a ledger grew by more than its key has used, which only a lift may do. */
  #isLifted(partition: number, mostShareMs: number, ledger: Ledger, chargedMs: number): boolean {
    const { fairness } = this.#options.configuration;
    const known = this.#ledgersOf(partition).get(ledger.fairnessKey);
    const isForgotten =
      known !== undefined &&
      fairness.keyTtlMs !== null &&
      ledger.lastSeenMs - known.lastSeenMs > fairness.keyTtlMs;
    const before = isForgotten ? 0 : (known?.settledCostMs ?? 0);
    const surplusMs = ledger.settledCostMs - before - chargedMs;
    if (Math.abs(surplusMs) <= COST_TOLERANCE_MS) return false;
    const liftedMs = mostShareMs * Math.max(...this.#weightsOf(ledger.fairnessKey)) - before;
    // A lift may happen before or after the charge of the same commit.
    const isLift = surplusMs > 0 && surplusMs <= Math.max(liftedMs, 0) + COST_TOLERANCE_MS;
    if (!isLift) {
      this.#violated(
        'costConserved',
        `${ledger.fairnessKey} went from ${before} to ${ledger.settledCostMs} ms for ${chargedMs} ms used (most share ${mostShareMs})`,
      );
    }
    return isLift;
  }

  /** What a job counts in, wherever it runs, as a configuration has it. */
  #scopesOf(job: Job, { types, tiers, limits = [] }: PoolConfiguration): Scopes {
    const tier = types.find((each) => each.type === job.type)?.tier ?? tiers[0]?.tier ?? '';
    return [
      ['pool', ''],
      ['type', job.type],
      ['tier', tier],
      ['key', job.fairnessKey],
      ...(types.find((each) => each.type === job.type)?.limits ?? []).flatMap(
        (limit) =>
          [
            ['limit', limit],
            [
              'limitOfKey',
              JSON.stringify([limit, keyOf(job, limits.find((each) => each.limit === limit)?.keyedBy)]),
            ],
          ] as const,
      ),
      ...(job.resourceId === undefined
        ? []
        : [['resource', JSON.stringify([job.type, job.resourceId])] as const]),
    ];
  }

  /**
   * The most that there may be in all partitions together, for whoever was claimed under a version: of what it says, and what was
   * declared since. What was claimed under a former cap goes on, and nothing comes to it.
   */
  #mostOf(scope: string, name: string, version: number | undefined): number {
    const caps = this.versions
      .since(version)
      .map((configuration) => capOf(configuration, scope, name) ?? Infinity);
    return this.#loosestCap(scope, name, Math.max(...caps));
  }

  /** What an operator has put over a configured cap may be greater; of a fleet's slots there are no more. */
  #loosestCap(scope: string, name: string, cap: number): number {
    if (scope === 'fleet') return cap;
    return Math.max(cap, this.#loosestCaps.get(scope === 'pool' ? 'pool' : `${scope}/${name}`) ?? 0);
  }

  /** `item`: what claims say; `real`: what really runs. Neither may ever be above a cap. */
  #countCaps(kind: 'item' | 'real', counted: Job | Execution, job: Job, by: 1 | -1): void {
    const { fleet = '', declared } = job.claim ?? {};
    // What runs keeps the tier that it was claimed in.
    const scopes: Scopes = this.#countedIn.get(counted) ?? [
      ...this.#scopesOf(job, this.versions.under(declared)),
      ['fleet', fleet],
    ];
    if (by > 0) this.#countedIn.set(counted, scopes);
    else this.#countedIn.delete(counted);
    for (const [scope, name] of scopes) {
      const counts = this.#held[kind].get(scope) ?? new Map<string, number>();
      this.#held[kind].set(scope, counts);
      const count = (counts.get(name) ?? 0) + by;
      counts.set(name, count);
      const cap = by > 0 ? this.#mostOf(scope, name, declared) : Infinity;
      if (count > cap) {
        this.#violated(
          'caps',
          `${scope} ${name} ${kind === 'item' ? 'holds' : 'really runs'} ${count} of ${cap} with ${job.id}`,
        );
      }
    }
  }
}

/** The version that a batch follows. */
const versionOfBatch = (batchId: string): number => Number.parseInt(batchId, 10);

/** A cap as it is declared; null: there is none. */
function capOf(configuration: PoolConfiguration, scope: string, name: string): number | null {
  switch (scope) {
    case 'pool':
      return configuration.maxConcurrency;
    case 'type':
      return configuration.types.find(({ type }) => type === name)?.maxConcurrency ?? null;
    case 'tier':
      return configuration.tiers.find(({ tier }) => tier === name)?.maxConcurrency ?? null;
    case 'key':
      return configuration.fairness.maxConcurrencyPerKey;
    case 'limit':
      return configuration.limits?.find(({ limit }) => limit === name)?.total ?? null;
    case 'limitOfKey': {
      const [ofLimit] = JSON.parse(name) as readonly [string, string];
      return configuration.limits?.find(({ limit }) => limit === ofLimit)?.perKey ?? null;
    }
    case 'resource': {
      const [ofType] = JSON.parse(name) as readonly [string, string];
      return configuration.types.find(({ type }) => type === ofType)?.maxConcurrencyPerResource ?? null;
    }
    default:
      return configuration.fleets.find(({ fleet }) => fleet === name)?.slots ?? null;
  }
}
