/** What a key gains by being there only a little: a credit that is bounded, and no more. */
import { describe, expect, it, vi } from 'vitest';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { ReservedJob, WaitingJob } from '../../lib/core/job.ts';
import { createPlanner, type KeyLedger, type Planner } from '../../lib/core/planner.ts';

vi.setConfig({ testTimeout: 120_000 });

const JOB_MS = 1_000;
const HOARDS_MS = 3_600_000;
const FLOODS_MS = 600_000;
const STEP_MS = 500;
const NINE = Array.from({ length: 9 }, (_, at) => `busy-${at}`);
const ONE = 'hoards';

interface World {
  readonly slots: number;
  readonly creditMs: number | null;
  /** The job that a key submits at an instant; undefined: none. */
  readonly waitingOf: (key: string, nowMs: number, inFlight: number) => readonly WaitingJob[];
}

const configurationOf = ({ slots, creditMs }: Pick<World, 'slots' | 'creditMs'>) =>
  resolveConfiguration({
    types: { work: { defaultCostMs: JOB_MS } },
    fleets: { all: { types: ['work'], slots } },
    fairness: { creditMs, keyTtlMs: null },
  });

let made = 0;
function aJob(fairnessKey: string, readyAtMs: number, priority = 0): WaitingJob {
  made += 1;
  const id = `job-${String(made).padStart(9, '0')}`;
  return { id, type: 'work', mode: 'queued', fairnessKey, priority, readyAtMs, version: 1, attempt: 1 };
}

/** Keeps the books between plans, as passes do. */
class Books {
  readonly #world: World;
  readonly #configuration: PoolConfiguration;
  readonly #ledgers = new Map<string, KeyLedger>();
  readonly flying: { readonly endsAtMs: number; readonly reserved: ReservedJob }[] = [];

  constructor(world: World) {
    this.#world = world;
    this.#configuration = configurationOf(world);
  }

  inFlight(key: string): number {
    return this.flying.filter(({ reserved }) => reserved.fairnessKey === key).length;
  }

  settle(nowMs: number): void {
    for (const each of this.flying.filter(({ endsAtMs }) => endsAtMs <= nowMs)) {
      this.flying.splice(this.flying.indexOf(each), 1);
      const { fairnessKey } = each.reserved;
      const { settledCostMs = 0 } = this.#ledgers.get(fairnessKey) ?? {};
      this.#ledgers.set(fairnessKey, {
        fairnessKey,
        settledCostMs: settledCostMs + JOB_MS,
        touchedAtMs: each.endsAtMs,
      });
    }
  }

  /** Answers what starts. */
  plan(nowMs: number, keys: readonly string[]): readonly string[] {
    const planner = createPlanner(this.#configuration, {
      nowMs,
      inFlight: this.flying.map(({ reserved }) => reserved),
      freeSlotsByFleet: new Map([['all', this.#world.slots - this.flying.length]]),
      ledgers: [...this.#ledgers.values()],
      costMs: () => JOB_MS,
    });
    const waiting = new Map(
      keys.map((key) => [key, this.#world.waitingOf(key, nowMs, this.inFlight(key))] as const),
    );
    const started: string[] = [];
    for (const reserved of admitted(planner, waiting)) {
      started.push(reserved.id);
      this.flying.push({ endsAtMs: nowMs + JOB_MS, reserved });
    }
    for (const ledger of planner.takeRaised()) this.#ledgers.set(ledger.fairnessKey, ledger);
    return started;
  }
}

function* admitted(
  planner: Planner,
  waiting: ReadonlyMap<string, readonly WaitingJob[]>,
): Generator<ReservedJob> {
  for (let step = planner.next(); step.kind !== 'done'; step = planner.next()) {
    if (step.kind === 'admit') {
      yield step.decision.reserved;
      continue;
    }
    const offered = [...waiting].flatMap(([fairnessKey, jobs]) =>
      jobs.length > 0 ? [{ fairnessKey, modes: ['queued' as const] }] : [],
    );
    planner.offerLedgers((step.ledgers ?? []).map((fairnessKey) => ({ fairnessKey, settledCostMs: 0 })));
    for (const { type } of step.keys) planner.offerKeys(type, offered, false);
    for (const { line } of step.lines) planner.offerHeads(line, waiting.get(line.fairnessKey) ?? [], false);
  }
}

/** For how long the nine have less than half of the slots, once the tenth floods. */
function starvedMs(
  world: Pick<World, 'slots' | 'creditMs'>,
  hoards: (nowMs: number, inFlight: number) => boolean,
): number {
  const backlogs = new Map([...NINE, ONE].map((key) => [key, [] as WaitingJob[]]));
  const waitingOf: World['waitingOf'] = (key, nowMs, inFlight) => {
    const jobs = backlogs.get(key) ?? [];
    if (key !== ONE) while (jobs.length < world.slots) jobs.push(aJob(key, 0));
    else if (nowMs >= HOARDS_MS) while (jobs.length < world.slots) jobs.push(aJob(key, HOARDS_MS));
    else if (hoards(nowMs, inFlight)) jobs.push(aJob(key, nowMs));
    return jobs;
  };
  const books = new Books({ ...world, waitingOf });
  let starved = 0;
  for (let nowMs = 0; nowMs < HOARDS_MS + FLOODS_MS; nowMs += STEP_MS) {
    books.settle(nowMs);
    const started = new Set(books.plan(nowMs, [...NINE, ONE]));
    for (const [key, jobs] of backlogs)
      backlogs.set(
        key,
        jobs.filter(({ id }) => !started.has(id)),
      );
    const others = books.flying.length - books.inFlight(ONE);
    if (nowMs >= HOARDS_MS && others < world.slots / 2) starved += STEP_MS;
  }
  return starved;
}

describe('a key that hoards for an hour beside nine busy ones, and then floods', () => {
  it.each([
    ['that runs a job each 25 s', 10, (nowMs: number) => nowMs % 25_000 === 0],
    ['that runs a job each 35 s', 10, (nowMs: number) => nowMs % 35_000 === 0],
    ['that always has one in flight', 30, (_nowMs: number, inFlight: number) => inFlight <= 1],
  ])('starves the others for seconds, if it is one %s', (_title, slots, hoards) => {
    expect(starvedMs({ slots, creditMs: 30_000 }, hoards)).toBeLessThanOrEqual(5_000);
  });
});

describe('keys that keep coming', () => {
  it.each([0, 1])('holds nobody back, also one that is less urgent, beside %i busy slots', (busy) => {
    const patient = aJob('patient', 0);
    let fresh: readonly WaitingJob[] = [];
    const books = new Books({
      slots: 1 + busy,
      creditMs: null,
      waitingOf: (key) => (key === 'patient' ? [patient] : fresh.filter((job) => job.fairnessKey === key)),
    });
    const order: string[] = [];
    for (let at = 0; at < 6; at += 1) {
      const nowMs = at * JOB_MS;
      fresh = Array.from({ length: 3 }, (_, nth) => aJob(`fresh-${at}-${nth}`, nowMs, 10));
      books.settle(nowMs);
      order.push(...books.plan(nowMs, [...fresh.map(({ fairnessKey }) => fairnessKey), 'patient']));
    }
    expect(order.indexOf(patient.id)).toBeLessThanOrEqual(2 + 2 * busy);
    expect(order).toContain(patient.id);
  });
});
