/** Runs the real planner in both of its forms on a state, the way their callers do. */
import type { JobMode, ReservedJob, WaitingJob } from '../../lib/core/job.ts';
import { createPlanner, type LineName, type Planner, type Step } from '../../lib/core/planner.ts';
import { type Decision, Scheduler } from '../../lib/core/scheduler.ts';
import { compareRanked, weightOf } from '../../lib/core/score.ts';
import type { PassState, Planned } from './reference-planner.ts';

/** A scheduler that holds the whole state. */
export function schedulerOf(state: PassState): Scheduler {
  const scheduler = new Scheduler(state.configuration, { overrides: state.overrides, costMs: state.costMs });
  for (const [fairnessKey, costMs] of state.settledCostMs) {
    scheduler.ledgers.setCost(scheduler.openKey(fairnessKey, state.nowMs), costMs);
  }
  scheduler.limits.setUses(state.uses ?? new Map());
  for (const [fairnessKey, uses] of state.usesOfKeys ?? []) scheduler.limits.setUsesOfKey(fairnessKey, uses);
  for (const reserved of state.inFlight) scheduler.hold(reserved, state.nowMs);
  for (const { fleet } of state.configuration.fleets) {
    const busy = state.inFlight.filter((reserved) => reserved.fleet === fleet).length;
    scheduler.setSlots(fleet, busy + (state.freeSlotsByFleet.get(fleet) ?? 0));
  }
  for (const job of state.waiting) scheduler.arrive(job, state.nowMs);
  scheduler.beginPass(state.nowMs);
  return scheduler;
}

/** All decisions that it makes, without anything ending in between. */
export function drain(scheduler: Scheduler): readonly Decision[] {
  const decisions: Decision[] = [];
  for (let next = scheduler.next(); next !== undefined; next = scheduler.next()) decisions.push(next);
  return decisions;
}

export function planned({ reserved }: { readonly reserved: ReservedJob }): Planned {
  return { id: reserved.id, fleet: reserved.fleet, chargedMs: reserved.estimatedCostMs };
}

/** An index of the waiting jobs, as the store keeps it. */
export class Index {
  readonly #state: PassState;
  readonly #lines = new Map<string, readonly WaitingJob[]>();
  readonly #keysRead = new Map<string, number>();
  readonly #jobsRead = new Map<string, number>();

  constructor(state: PassState) {
    this.#state = state;
    const lines = Map.groupBy(state.waiting, (job) => JSON.stringify(this.#lineOf(job)));
    for (const [line, jobs] of lines) {
      this.#lines.set(
        line,
        jobs.sort((a, b) => compareRanked(a, b, state.configuration.score)),
      );
    }
  }

  /** What a planner asks for. Keys of equal share come on one page. */
  serve(planner: Planner, need: Extract<Step, { kind: 'need' }>): void {
    for (const { type, count } of need.keys) {
      const keys = this.#keysOf(type);
      const from = this.#keysRead.get(type) ?? 0;
      let to = Math.min(from + count, keys.length);
      while (to > from && to < keys.length && keys[to]?.share === keys[to - 1]?.share) to += 1;
      this.#keysRead.set(type, to);
      planner.offerKeys(type, keys.slice(from, to), to < keys.length);
    }
    for (const { line, count } of need.lines) {
      const name = JSON.stringify(line);
      const jobs = this.#lines.get(name) ?? [];
      const from = this.#jobsRead.get(name) ?? 0;
      this.#jobsRead.set(name, from + count);
      planner.offerHeads(line, jobs.slice(from, from + count), from + count < jobs.length);
    }
  }

  /** Reads start again at the heads. */
  rewind(): void {
    this.#jobsRead.clear();
  }

  #keysOf(
    type: string,
  ): readonly { fairnessKey: string; settledCostMs: number; share: number; modes: JobMode[] }[] {
    const lines = [...this.#lines.keys()]
      .map((line): LineName => JSON.parse(line))
      .filter((line) => line.type === type);
    return [...Map.groupBy(lines, (line) => line.fairnessKey)]
      .map(([fairnessKey, own]) => {
        const settledCostMs = this.#state.settledCostMs.get(fairnessKey) ?? 0;
        return {
          fairnessKey,
          settledCostMs,
          uses: this.#state.usesOfKeys?.get(fairnessKey),
          share: settledCostMs / this.#weight(fairnessKey),
          modes: own.map(({ mode }) => mode),
        };
      })
      .sort((a, b) => a.share - b.share);
  }

  #weight(fairnessKey: string): number {
    const { weights, defaultWeight } = this.#state.configuration.fairness;
    const override = this.#state.overrides.findLast((other) => other.scope === `key/${fairnessKey}`);
    return override?.weight ?? weightOf(weights, defaultWeight, fairnessKey);
  }

  #lineOf(job: WaitingJob): LineName {
    return { type: job.type, mode: job.mode, fairnessKey: job.fairnessKey };
  }
}

/** A planner for a state. */
export function plannerOf(state: PassState): Planner {
  const planner = createPlanner(state.configuration, {
    nowMs: state.nowMs,
    inFlight: state.inFlight,
    freeSlotsByFleet: state.freeSlotsByFleet,
    costMs: state.costMs,
    overrides: state.overrides,
    uses: state.uses,
  });
  // Those of fairness keys come with their ledgers.
  for (const [ledger, uses] of state.usesOfKeys ?? [])
    if (ledger.startsWith('\u0000')) planner.offerUses(ledger, uses);
  return planner;
}

/** Steps after which a plan of these tests has no end. */
const STEPS_MAX = 5_000;

/** Asks a planner for one step after the other: it comes to an end. */
export function stepsOf(planner: Planner): () => Step {
  let left = STEPS_MAX;
  return () => {
    left -= 1;
    if (left < 0) throw new Error(`the plan has no end after ${STEPS_MAX} steps`);
    return planner.next();
  };
}

/** A whole pass: what it decides, what it read and how it ended. */
export function runPass(state: PassState): {
  readonly decisions: readonly Decision[];
  readonly planner: Planner;
  readonly linesAsked: number;
  /** With the decisions that were made before each. */
  readonly needs: readonly (Extract<Step, { kind: 'need' }> & { readonly after: number })[];
  readonly done: Extract<Step, { kind: 'done' }>;
} {
  const planner = plannerOf(state);
  const index = new Index(state);
  const decisions: Decision[] = [];
  const lines = new Set<string>();
  const needs: (Extract<Step, { kind: 'need' }> & { readonly after: number })[] = [];
  const next = stepsOf(planner);
  for (;;) {
    const step = next();
    if (step.kind === 'done') return { decisions, planner, linesAsked: lines.size, needs, done: step };
    if (step.kind === 'need') {
      needs.push({ ...step, after: decisions.length });
      for (const { line } of step.lines) lines.add(JSON.stringify(line));
      index.serve(planner, step);
    } else {
      decisions.push(step.decision);
    }
  }
}
