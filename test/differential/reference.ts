/**
 * What should start, by a scheduler that knows everything and sorts everything: at each instant it applies what happens,
 * then looks at every waiting job, sorts them all, and takes the first that may start, again and again.
 *
 * Written from the texts and the rulings, to be read and not to be fast. It shares no code with the schedulers it is held
 * against: of the product it imports types, and the configuration with its defaults.
 *
 * What it takes for the policy, where the texts leave it open:
 *  - A key is touched by a start, by the end of an attempt, and when its share is raised. It arrives if nothing of it is in
 *    flight and all of its jobs that may start became ready after it was touched. A ledger that was not touched for the time
 *    to live, with nothing in flight, is forgotten.
 *  - Shares are raised when a tier is first looked at, before anything of it starts: see `#raise`.
 *  - What ends at one instant is settled in the order in which it started.
 *  - A reset forgives what was charged before it, in flight or settled.
 *  - Costs are whole multiples of 2^-16 ms, so their sums are exact.
 *  - A start counts in a rate for its window, a margin for clocks, and the time that its message may have taken: until its end is
 *    settled that is a tenth of the window, and then no more than the attempt took. Settled starts cease to count at twentieths of
 *    the window. It counts as one, or as the units of its job; no job starts that might have more units than are left.
 */
import type {
  JobTypeConfiguration,
  PoolConfiguration,
  RateConfiguration,
} from '../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import {
  delayMs,
  EPOCH_MS,
  type Happening,
  type Player,
  type Scenario,
  type ScenarioJob,
  type Start,
} from './play.ts';

const UNITS_PER_MS = 65_536;

const exact = (costMs: number): number => Math.round(costMs * UNITS_PER_MS) / UNITS_PER_MS;

interface RefJob
  extends Pick<ScenarioJob, 'id' | 'priority' | 'mode' | 'fairnessKey' | 'resourceId' | 'keys' | 'units'> {
  readonly type: JobTypeConfiguration;
  state: 'scheduled' | 'pending' | 'running';
  runAtMs: number;
  readyAtMs: number;
  attempt: number;
  workersLost: number;
  isCancelled: boolean;
  startedAtMs: number;
  chargedMs: number;
  fleet: string;
}

/** A start, as rates count it. */
interface RefStart {
  readonly job: RefJob;
  /** Its message takes no longer than any rate of its type allows. */
  readonly begunByMs: number;
  endedAtMs?: number;
}

interface RefLedger {
  settledMs: number;
  /** When the settled cost changed last. */
  chargedAtMs: number;
  /** The last start, end or raise. */
  touchedAtMs: number;
}

/** What was learned of a type on a resource; the empty resource is the type's own average. */
export interface Learned {
  readonly type: string;
  readonly resourceId: string;
  readonly meanMs: number;
}

type Counted = 'pool' | 'tier' | 'type' | 'key' | 'fleet' | 'conflict' | 'resource' | 'limit' | 'limitOfKey';

interface Room {
  running(of: Counted, name: string): number;
  /** What a key was charged for its running jobs. */
  chargedMs(key: string): number;
}

interface RefControl {
  paused: boolean;
  maxConcurrency: number | null;
  weight: number | null;
}

export class Reference implements Player {
  readonly #configuration: PoolConfiguration;
  /** Jobs that are not over. */
  readonly #jobs = new Map<string, RefJob>();
  readonly #ledgers = new Map<string, RefLedger>();
  readonly #means = new Map<string, number>();
  readonly #controls = new Map<string, RefControl>();
  readonly #slots: Map<string, number>;
  readonly #starts: RefStart[] = [];
  #wakeAt: (atMs: number) => void = () => undefined;
  #atMs = 0;

  constructor({ pool }: Pick<Scenario, 'pool'>, learned: readonly Learned[] = []) {
    this.#configuration = resolveConfiguration(pool);
    for (const { type, resourceId, meanMs } of learned) this.#means.set(nameOf(type, resourceId), meanMs);
    this.#slots = new Map(this.#configuration.fleets.map(({ fleet, slots }) => [fleet, slots ?? 0]));
  }

  /** Rates open by themselves. */
  wakeBy(wakeAt: (atMs: number) => void): void {
    const asked = new Set<number>();
    this.#wakeAt = (atMs) => {
      if (!asked.has(atMs)) wakeAt(atMs);
      asked.add(atMs);
    };
  }

  instant(atMs: number, happenings: readonly Happening[]): readonly Start[] {
    this.#happen(atMs, happenings);
    const starts = this.#choose();
    for (const { limit, rate } of this.#configuration.limits ?? [])
      for (const start of this.#starts)
        if (rate !== undefined && start.job.type.limits?.includes(limit))
          this.#wakeAt(countsUntilMs(start, rate));
    return starts;
  }

  /**
   * Somebody else chose what starts at an instant. Answers which of these starts break a rule: what is not ready, what a
   * cap, a pause, a full fleet or a held conflict key stops.
   */
  follow(atMs: number, happenings: readonly Happening[], starts: readonly Start[]): readonly Start[] {
    this.#happen(atMs, happenings);
    return starts.filter(({ id, fleet }) => {
      const job = this.#jobs.get(id);
      const room = this.#room();
      if (job === undefined || job.state === 'running') return true;
      const isBreach = !this.#mayStart(job, room) || this.#roomOf(fleet, room) === 0;
      this.#start(job, fleet);
      return isBreach;
    });
  }

  /** What may start now, whoever's turn it is. */
  able(): readonly string[] {
    const room = this.#room();
    return [...this.#jobs.values()].filter((job) => this.#mayStart(job, room)).map(({ id }) => id);
  }

  #happen(atMs: number, happenings: readonly Happening[]): void {
    this.#atMs = atMs;
    this.#forget();
    for (const happening of happenings) this.#apply(happening);
    for (const job of this.#jobs.values()) {
      if (job.state === 'scheduled' && job.runAtMs <= atMs) job.state = 'pending';
    }
  }

  /** Each key's charge, settled and in flight. */
  costs(): ReadonlyMap<string, number> {
    const room = this.#room();
    return new Map([...this.#ledgers.keys()].map((key) => [key, this.#settledMs(key) + room.chargedMs(key)]));
  }

  /** What was learned. */
  learned(): readonly Learned[] {
    return [...this.#means]
      .map(([name, meanMs]): Learned => {
        const [type, resourceId] = JSON.parse(name) as [string, string];
        return { type, resourceId, meanMs };
      })
      .sort((one, other) =>
        nameOf(one.type, one.resourceId) < nameOf(other.type, other.resourceId) ? -1 : 1,
      );
  }

  /** What an attempt of a type is expected to cost on a resource. */
  #expectedMs(type: JobTypeConfiguration, resourceId: string | undefined): number {
    const ofType = this.#means.get(nameOf(type.type, ''));
    const { estimateFallback } = this.#configuration.fairness;
    if (resourceId === undefined) return ofType ?? type.defaultCostMs;
    const fallback = estimateFallback === 'default' ? undefined : ofType;
    return this.#means.get(nameOf(type.type, resourceId)) ?? fallback ?? type.defaultCostMs;
  }

  #apply(happening: Happening): void {
    const { atMs } = happening;
    switch (happening.op) {
      case 'submit': {
        const { job } = happening;
        const type = this.#configuration.types.find((each) => each.type === job.type);
        if (type === undefined) throw new Error(`no type ${job.type}`);
        const runAtMs = Math.max(job.runAtMs ?? atMs, atMs);
        this.#jobs.set(job.id, {
          ...job,
          type,
          state: 'scheduled',
          runAtMs,
          readyAtMs: runAtMs,
          attempt: 1,
          workersLost: 0,
          isCancelled: false,
          startedAtMs: 0,
          chargedMs: 0,
          fleet: '',
        });
        return;
      }
      case 'cancel': {
        const job = this.#jobs.get(happening.id);
        if (job === undefined) return;
        // What runs is asked to end, and is not tried again.
        if (job.state === 'running') job.isCancelled = true;
        else this.#jobs.delete(job.id);
        return;
      }
      case 'retime': {
        const job = this.#jobs.get(happening.id);
        if (job === undefined || job.state === 'running') return;
        const { runAtMs } = happening;
        if (runAtMs > atMs) {
          job.state = 'scheduled';
          job.readyAtMs = runAtMs;
        } else if (job.state === 'scheduled') {
          job.readyAtMs = Math.min(job.runAtMs, atMs);
          job.state = 'pending';
        }
        job.runAtMs = runAtMs;
        return;
      }
      case 'control': {
        const { scope, paused, maxConcurrency, weight } = happening;
        const control = this.#controls.get(scope) ?? { paused: false, maxConcurrency: null, weight: null };
        if (paused !== undefined) control.paused = paused;
        if (maxConcurrency !== undefined) control.maxConcurrency = maxConcurrency;
        if (weight !== undefined) control.weight = weight;
        this.#controls.set(scope, control);
        return;
      }
      case 'slots':
        this.#slots.set(happening.fleet, happening.slots);
        return;
      case 'end': {
        const job = this.#jobs.get(happening.start.id);
        if (job?.state !== 'running') throw new Error(`${happening.start.id} ended, and did not run`);
        this.#end(job, happening.outcome);
        return;
      }
      case 'due':
      case 'tick':
      case 'wake':
        return;
    }
  }

  #end(job: RefJob, outcome: 'succeeded' | 'failed' | 'lost'): void {
    const { fairness } = this.#configuration;
    const usedMs = this.#atMs - job.startedAtMs;
    const last = this.#starts.findLast((start) => start.job === job);
    if (last !== undefined) last.endedAtMs = this.#atMs;
    const ledger = this.#ledgerOf(job.fairnessKey);
    const settledMs = fairness.trueUp ? exact(Math.max(usedMs, fairness.admissionFloorMs)) : job.chargedMs;
    ledger.settledMs = this.#settledMs(job.fairnessKey) + (this.#isForgiven(job.startedAtMs) ? 0 : settledMs);
    ledger.chargedAtMs = this.#atMs;
    ledger.touchedAtMs = this.#atMs;
    const { retry, onWorkerLost } = job.type;
    switch (outcome) {
      case 'succeeded':
        this.#learn(job, usedMs);
        this.#jobs.delete(job.id);
        return;
      case 'failed':
        if (job.isCancelled || job.attempt >= retry.maxAttempts) {
          this.#jobs.delete(job.id);
          return;
        }
        job.runAtMs = this.#atMs + delayMs(retry, job.attempt);
        job.readyAtMs = job.runAtMs;
        job.attempt += 1;
        job.state = 'scheduled';
        return;
      case 'lost':
        job.workersLost += 1;
        if (job.isCancelled || onWorkerLost === 'fail' || job.workersLost > retry.maxWorkersLost) {
          this.#jobs.delete(job.id);
          return;
        }
        // Its age is what it was: it is not punished for its worker.
        job.runAtMs = this.#atMs;
        job.state = 'scheduled';
        return;
    }
  }

  #learn({ type, resourceId = '' }: RefJob, usedMs: number): void {
    const { alpha, estimateFallback } = this.#configuration.fairness;
    const learn = (resource: string, startMs: number): void => {
      const name = nameOf(type.type, resource);
      this.#means.set(name, alpha * usedMs + (1 - alpha) * (this.#means.get(name) ?? startMs));
    };
    if (resourceId === '') learn('', type.defaultCostMs);
    else if (estimateFallback === 'default') learn(resourceId, type.defaultCostMs);
    else {
      learn(resourceId, this.#expectedMs(type, undefined));
      learn('', type.defaultCostMs);
    }
  }

  /** Ledgers of keys that nothing touched for the time to live. */
  #forget(): void {
    const { keyTtlMs } = this.#configuration.fairness;
    if (keyTtlMs === null) return;
    const inFlight = this.#keysInFlight();
    for (const [key, { touchedAtMs }] of this.#ledgers)
      if (!inFlight.has(key) && this.#atMs - touchedAtMs >= keyTtlMs) this.#ledgers.delete(key);
  }

  #keysInFlight(): ReadonlySet<string> {
    const running = [...this.#jobs.values()].filter(({ state }) => state === 'running');
    return new Set(running.map(({ fairnessKey }) => fairnessKey));
  }

  /**
   * Keys that arrive start level with the others, and nobody keeps more than a credit. The others of a key are those in flight
   * and those with one of these jobs, but for keys that arrive. The first that does not arrive is raised to `creditMs` below the least
   * share of its others; then those that arrive, as far as they would come before, to just behind the least share. Those that come
   * before whoever is there have arrived, raised or not.
   *
   * @param able - jobs of a tier that may start, in their order
   */
  #raise(able: readonly RefJob[], inFlight: ReadonlySet<string>, room: Room): void {
    const { idlePolicy, creditMs } = this.#configuration.fairness;
    if (idlePolicy === 'none') return;
    const readyMs = new Map<string, number>();
    for (const { fairnessKey, readyAtMs } of able)
      readyMs.set(fairnessKey, Math.min(readyAtMs, readyMs.get(fairnessKey) ?? Infinity));
    const inTurn = [...readyMs.keys()];
    const arriving = inTurn.filter(
      (key) =>
        !inFlight.has(key) && (readyMs.get(key) ?? 0) > (this.#ledgers.get(key)?.touchedAtMs ?? -Infinity),
    );
    const there = new Set([...inFlight, ...inTurn.filter((key) => !arriving.includes(key))]);
    const leastBut = (left: string | undefined): number =>
      Math.min(...[...there].filter((key) => key !== left).map((key) => this.#shareOf(key, room)));
    const raise = (key: string, costMs: number): void => {
      const ledger = this.#ledgerOf(key);
      ledger.settledMs = costMs - room.chargedMs(key);
      ledger.chargedAtMs = this.#atMs;
      ledger.touchedAtMs = this.#atMs;
    };
    const first = inTurn.find((key) => there.has(key));
    const heldMs = Math.min(...[...inFlight].map((key) => this.#shareOf(key, room)));
    const before = first === undefined ? inTurn : inTurn.slice(0, inTurn.indexOf(first));
    const arrived = before.filter((key) => this.#shareOf(key, room) <= heldMs);
    const leastMs = leastBut(first);
    if (first !== undefined && creditMs !== null && leastMs < Infinity)
      if (this.#shareOf(first, room) < leastMs - creditMs)
        raise(first, exact((leastMs - creditMs) * this.#weightOf(first)));
    const levelMs = leastBut(undefined);
    const isLevel = first !== undefined && this.#shareOf(first, room) === levelMs;
    for (const key of levelMs < Infinity ? arriving : []) {
      const isBefore = isLevel && before.includes(key);
      const shareMs = this.#shareOf(key, room);
      if (shareMs < levelMs || (isBefore && shareMs === levelMs))
        raise(key, exact(levelMs * this.#weightOf(key)) + 1 / UNITS_PER_MS);
    }
    for (const key of arrived) this.#ledgerOf(key).touchedAtMs = this.#atMs;
  }

  #choose(): readonly Start[] {
    const { tiers, types } = this.#configuration;
    const waiting = new Set<RefJob>();
    for (const job of this.#jobs.values()) if (job.state === 'pending') waiting.add(job);
    let room = this.#room();
    const rarity = new Map(types.map(({ type }) => [type, this.#rarityOf(type, room)]));
    const inFlight = this.#keysInFlight();
    const looked = new Set<string>();
    const starts: Start[] = [];
    const ableIn = (tier: string): RefJob[] => {
      const able = [...waiting].filter((job) => job.type.tier === tier && this.#mayStart(job, room));
      const shares = new Map(able.map(({ fairnessKey: key }) => [key, this.#shareOf(key, room)]));
      return able.sort((one, other) => this.#compare(one, other, shares, rarity));
    };
    for (;;) {
      const below = tiers.filter(({ tier, guaranteed }) => room.running('tier', tier) < guaranteed);
      let next: RefJob | undefined;
      for (const { tier } of [...below, ...tiers]) {
        if (next !== undefined) break;
        if (!looked.has(tier)) this.#raise(ableIn(tier), inFlight, room);
        looked.add(tier);
        [next] = ableIn(tier);
      }
      if (next === undefined) return starts;
      waiting.delete(next);
      starts.push(this.#start(next, this.#fleetFor(next.type.type, room) ?? ''));
      room = this.#room();
    }
  }

  #start(job: RefJob, fleet: string): Start {
    const { admissionFloorMs } = this.#configuration.fairness;
    job.state = 'running';
    job.startedAtMs = this.#atMs;
    const messagesMs = (this.#configuration.limits ?? []).flatMap(({ limit, rate }) =>
      rate !== undefined && job.type.limits?.includes(limit) ? [messageMs(rate)] : [],
    );
    this.#starts.push({ job, begunByMs: this.#atMs + Math.min(...messagesMs) });
    job.fleet = fleet;
    job.chargedMs = exact(Math.max(this.#expectedMs(job.type, job.resourceId), admissionFloorMs));
    this.#ledgerOf(job.fairnessKey).touchedAtMs = this.#atMs;
    return { atMs: this.#atMs, id: job.id, fleet: job.fleet, attempt: job.attempt };
  }

  /** Negative if `one` goes first. */
  #compare(
    one: RefJob,
    other: RefJob,
    shares: ReadonlyMap<string, number>,
    rarity: ReadonlyMap<string, number>,
  ): number {
    return (
      (shares.get(one.fairnessKey) ?? 0) - (shares.get(other.fairnessKey) ?? 0) ||
      this.#milliPoints(other, rarity) - this.#milliPoints(one, rarity) ||
      one.readyAtMs - other.readyAtMs ||
      (one.id < other.id ? -1 : 1)
    );
  }

  #milliPoints({ mode, priority, readyAtMs, type }: RefJob, rarity: ReadonlyMap<string, number>): number {
    const { score } = this.#configuration;
    const ageMs = Math.max(0, this.#atMs - readyAtMs);
    const onDemand = mode === 'onDemand' ? score.onDemand * 1000 + ageMs * score.onDemandAgeSec : 0;
    const points = priority * score.priority + (rarity.get(type.type) ?? 0);
    return points * 1000 + ageMs * score.ageSec + onDemand;
  }

  #rarityOf(type: string, room: Room): number {
    const free = this.#fleetsOf(type).reduce((sum, { fleet }) => sum + this.#roomOf(fleet, room), 0);
    return free > 0 ? Math.trunc(this.#configuration.score.rarity / free) : 0;
  }

  #mayStart(job: RefJob, room: Room): boolean {
    if (job.state !== 'pending') return false;
    const { type, tier } = job.type;
    const { maxConcurrency, fairness, tiers } = this.#configuration;
    const ofTier = tiers.find((each) => each.tier === tier)?.maxConcurrency ?? null;
    const conflictKey = conflictKeyOf(job);
    const ofResource = job.type.maxConcurrencyPerResource ?? Infinity;
    return (
      this.#isOpen('pool', maxConcurrency, room.running('pool', '')) &&
      this.#isOpen(`tier/${tier}`, ofTier, room.running('tier', tier)) &&
      this.#isOpen(`type/${type}`, job.type.maxConcurrency, room.running('type', type)) &&
      this.#isOpen(
        `key/${job.fairnessKey}`,
        fairness.maxConcurrencyPerKey,
        room.running('key', job.fairnessKey),
      ) &&
      this.#fleetFor(type, room) !== undefined &&
      (job.type.limits ?? []).every((limit) => this.#hasRoomIn(limit, job, room)) &&
      (conflictKey === undefined || room.running('conflict', conflictKey) === 0) &&
      (job.resourceId === undefined || room.running('resource', nameOf(type, job.resourceId)) < ofResource)
    );
  }

  #hasRoomIn(name: string, job: RefJob, room: Room): boolean {
    const declared = this.#configuration.limits?.find(({ limit }) => limit === name);
    const key = this.#keyIn(name, job);
    const { rate } = declared ?? {};
    return (
      room.running('limit', name) < (declared?.total ?? Infinity) &&
      room.running('limitOfKey', nameOf(name, key)) < (declared?.perKey ?? Infinity) &&
      this.#counted(name) + (rate?.perJob ?? 1) <= (rate?.units ?? rate?.starts ?? Infinity) &&
      this.#counted(name, key) + (rate?.perJob ?? 1) <= (rate?.perKey ?? Infinity)
    );
  }

  /** What counts now in the rate of a limit, of one key or of all. */
  #counted(name: string, key?: string): number {
    const rate = this.#configuration.limits?.find(({ limit }) => limit === name)?.rate;
    if (rate === undefined) return 0;
    let sum = 0;
    for (const start of this.#starts) {
      const { job } = start;
      if (job.type.limits?.includes(name) !== true || countsUntilMs(start, rate) <= this.#atMs) continue;
      if (key !== undefined && this.#keyIn(name, job) !== key) continue;
      sum += rate.perJob === undefined ? 1 : (job.units?.[name] ?? rate.perJob);
    }
    return sum;
  }

  #keyIn(name: string, { fairnessKey, keys }: RefJob): string {
    const keyedBy = this.#configuration.limits?.find(({ limit }) => limit === name)?.keyedBy;
    return keyedBy === undefined ? fairnessKey : (keys?.[keyedBy] ?? '');
  }

  #isOpen(scope: string, configured: number | null, running: number): boolean {
    const control = this.#controls.get(scope);
    const cap = control?.maxConcurrency ?? configured;
    return control?.paused !== true && (cap === null || running < cap);
  }

  #fleetsOf(type: string): PoolConfiguration['fleets'] {
    return this.#configuration.fleets.filter(({ types }) => types.includes(type));
  }

  /** Of the fleets with a free slot, the first of those with the fewest types. */
  #fleetFor(type: string, room: Room): string | undefined {
    const free = this.#fleetsOf(type).filter(({ fleet }) => this.#roomOf(fleet, room) > 0);
    const fewest = Math.min(...free.map(({ types }) => new Set(types).size));
    return free.find(({ types }) => new Set(types).size === fewest)?.fleet;
  }

  #roomOf(fleet: string, room: Room): number {
    const control = this.#controls.get(`fleet/${fleet}`);
    if (control?.paused === true) return 0;
    const slots = Math.min(this.#slots.get(fleet) ?? 0, control?.maxConcurrency ?? Infinity);
    return Math.max(0, slots - room.running('fleet', fleet));
  }

  /** What runs, and what it was charged, counted anew. */
  #room(): Room {
    const counts = new Map<string, number>();
    const chargedMs = new Map<string, number>();
    const count = (of: Counted, name: string): void => {
      counts.set(`${of}/${name}`, (counts.get(`${of}/${name}`) ?? 0) + 1);
    };
    for (const job of this.#jobs.values()) {
      if (job.state !== 'running') continue;
      count('pool', '');
      count('tier', job.type.tier);
      count('type', job.type.type);
      count('key', job.fairnessKey);
      count('fleet', job.fleet);
      count('conflict', conflictKeyOf(job) ?? '');
      for (const limit of job.type.limits ?? []) {
        count('limit', limit);
        count('limitOfKey', nameOf(limit, this.#keyIn(limit, job)));
      }
      if (job.resourceId !== undefined) count('resource', nameOf(job.type.type, job.resourceId));
      const charged = this.#isForgiven(job.startedAtMs) ? 0 : job.chargedMs;
      chargedMs.set(job.fairnessKey, (chargedMs.get(job.fairnessKey) ?? 0) + charged);
    }
    return {
      running: (of, name) => counts.get(`${of}/${name}`) ?? 0,
      chargedMs: (key) => chargedMs.get(key) ?? 0,
    };
  }

  #shareOf(key: string, room: Room): number {
    return (this.#settledMs(key) + room.chargedMs(key)) / this.#weightOf(key);
  }

  #settledMs(key: string): number {
    const ledger = this.#ledgers.get(key);
    return ledger === undefined || this.#isForgiven(ledger.chargedAtMs) ? 0 : ledger.settledMs;
  }

  /** What was charged at an instant: all ledgers were reset since. */
  #isForgiven(chargedAtMs: number): boolean {
    const { resetEveryMs } = this.#configuration.fairness;
    if (resetEveryMs === null) return false;
    const [charged, now] = [chargedAtMs, this.#atMs].map((atMs) =>
      Math.floor((EPOCH_MS + atMs) / resetEveryMs),
    );
    return charged !== now;
  }

  #weightOf(key: string): number {
    const { weights, defaultWeight } = this.#configuration.fairness;
    const configured = Object.hasOwn(weights, key) ? weights[key] : undefined;
    return this.#controls.get(`key/${key}`)?.weight ?? configured ?? defaultWeight;
  }

  #ledgerOf(key: string): RefLedger {
    let ledger = this.#ledgers.get(key);
    if (ledger === undefined) {
      ledger = { settledMs: 0, chargedAtMs: this.#atMs, touchedAtMs: this.#atMs };
      this.#ledgers.set(key, ledger);
    }
    return ledger;
  }
}

const MESSAGE_MS = { least: 2_000, most: 15_000 };
const CLOCKS_MS = 10_000;

/** How long a message may take under a rate. */
const messageMs = ({ perMs }: RateConfiguration): number =>
  Math.min(MESSAGE_MS.most, Math.max(MESSAGE_MS.least, perMs / 10));

function countsUntilMs({ begunByMs, endedAtMs }: RefStart, { perMs }: RateConfiguration): number {
  const countedMs = perMs + Math.min(CLOCKS_MS, perMs / 20);
  if (endedAtMs === undefined) return begunByMs + countedMs;
  const stepMs = perMs / 20;
  const untilMs = EPOCH_MS + Math.min(begunByMs, endedAtMs) + countedMs;
  return Math.ceil(untilMs / stepMs) * stepMs - EPOCH_MS;
}

/** The text without a group, and a job without a resource, exclude nothing. */
const conflictKeyOf = ({ type, resourceId }: RefJob): string | undefined =>
  type.conflictGroup === null || resourceId === undefined
    ? undefined
    : JSON.stringify([type.conflictGroup, resourceId]);

const nameOf = (type: string, resourceId: string): string => JSON.stringify([type, resourceId]);
