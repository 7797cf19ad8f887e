import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../lib/core/scheduler.ts';
import { score, scoreLine } from '../../lib/core/score.ts';
import { SlotPool } from '../../lib/simulate/model/slot-pool.ts';
import { crossoverSec } from './crossover.ts';
import { idOf, oracleJob, readScoringCases, type ScoringCase, slotsConfiguration } from './oracles.ts';

const COEFFICIENTS = { priority: 1024, ageSec: 16, rarity: 500, onDemand: 4096, onDemandAgeSec: 32 };
const NOW_MS = 1_800_000_000_000;

function answer(oracle: ScoringCase): unknown {
  switch (oracle.kind) {
    case 'score': {
      const { priority, ageMs, onDemand, compatibleFreeSlots } = oracle.input;
      const job = { priority, mode: modeOf(onDemand), readyAtMs: NOW_MS - ageMs };
      return { score: score(job, NOW_MS, compatibleFreeSlots, COEFFICIENTS) };
    }
    case 'crossover': {
      const [a, b] = [oracle.input.a, oracle.input.b].map((side) =>
        scoreLine({ priority: side.priority, mode: modeOf(side.onDemand) }, side.compatible, COEFFICIENTS),
      );
      if (a === undefined || b === undefined) throw new Error('a case has two sides');
      const kind = oracle.input.mode === 'b-fixed' ? 'fixed' : 'together';
      const tieSec = crossoverSec(a, b, kind, oracle.input.b.ageSec ?? 0);
      return {
        tieAtSec: tieSec ?? null,
        firstStrictSec: tieSec === undefined ? null : Math.floor(tieSec) + 1,
      };
    }
    case 'slot': {
      const pool = new SlotPool();
      pool.register(
        'all',
        oracle.input.slots.map((slot) => ({ id: slot.id, types: slot.types.map(String) })),
      );
      // A busy slot is one that was taken: take all, give the free ones back.
      for (const slot of oracle.input.slots) {
        if (oracle.input.busy.includes(slot.id)) while (pool.acquire(String(slot.types[0])) !== undefined);
      }
      for (const slot of oracle.input.slots) if (!oracle.input.busy.includes(slot.id)) pool.release(slot.id);
      const type = String(oracle.input.type);
      return { slot: pool.choose(type) ?? null, compatible: pool.capacity(type) };
    }
    case 'pool':
      return { after: afterEach(oracle.input.ops) };
    case 'pass':
      return pass(oracle.input);
  }
}

function modeOf(onDemand: boolean): 'onDemand' | 'queued' {
  return onDemand ? 'onDemand' : 'queued';
}

type Operations = Extract<ScoringCase, { kind: 'pool' }>['input']['ops'];

function afterEach(operations: Operations): readonly unknown[] {
  const pool = new SlotPool();
  return operations.map((operation) => {
    const result = perform(pool, operation);
    return {
      ...result,
      freeByType: Object.fromEntries(pool.freeByType()),
      freeSlots: pool.freeSlots(),
      totalSlots: pool.size,
    };
  });
}

function perform(pool: SlotPool, operation: Operations[number]): object {
  switch (operation.op) {
    case 'register':
      pool.register(
        operation.worker ?? '',
        (operation.slots ?? []).map((slot) => ({ id: slot.id, types: slot.types.map(String) })),
      );
      return {};
    case 'unregister':
      pool.unregister(operation.worker ?? '');
      return {};
    case 'acquire':
      return { slot: pool.acquire(String(operation.type)) ?? null };
    case 'release':
      return { changed: pool.release(operation.slot ?? -1) };
  }
}

function pass(input: Extract<ScoringCase, { kind: 'pass' }>['input']): unknown {
  const scheduler = new Scheduler(slotsConfiguration(input.slots));
  for (const job of input.queued) scheduler.arrive(oracleJob(job, 'queued'), input.now);
  for (const job of input.onDemand) scheduler.arrive(oracleJob(job, 'onDemand'), input.now);
  const lost = new Set(input.lostClaims.map(idOf));
  const assignments: [number, number][] = [];
  scheduler.beginPass(input.now);
  for (let decision = scheduler.next(); decision !== undefined; decision = scheduler.next()) {
    const { id, fleet } = decision.reserved;
    if (decision.mode === 'queued' && lost.has(id)) {
      scheduler.dropped(id);
      continue;
    }
    if (decision.mode === 'queued') scheduler.kept();
    assignments.push([Number(id), Number(fleet)]);
  }
  const taken = new Set(assignments.map(([, slot]) => slot));
  const free = input.slots.filter((slot) => !taken.has(slot.id));
  const freeByType: Record<string, number> = {};
  for (const slot of free) for (const type of slot.types) freeByType[type] = (freeByType[type] ?? 0) + 1;
  const waiting = new Set(assignments.map(([id]) => id));
  return {
    assignments,
    freeSlots: free.map((slot) => slot.id),
    freeByType,
    onDemandWaiting: input.onDemand.map((job) => job.id).filter((id) => !waiting.has(id)),
  };
}

describe('the cases of affinity-scoring', () => {
  for (const oracle of readScoringCases()) {
    it(`${oracle.id} (${oracle.kind})`, () => {
      expect(answer(oracle)).toEqual(oracle.expected);
    });
  }
});
