/** The cases of test/fixtures/oracles, and the configurations that they mean. */
import { readFileSync } from 'node:fs';
import type { JobTypeConfiguration, PoolConfiguration } from '../../lib/core/configuration.ts';
import type { WaitingJob } from '../../lib/core/job.ts';

export interface FairnessScenario {
  readonly id: string;
  readonly title: string;
  readonly config: {
    readonly globalMax: number | null;
    readonly alpha: number;
    readonly types: readonly {
      readonly type: string;
      readonly priority: number;
      readonly maxConcurrency: number;
      readonly conflictGroup: string;
      readonly defaultCost: number;
    }[];
    readonly initialEstimates: readonly {
      readonly type: string;
      readonly jobId: string;
      readonly cost: number;
    }[];
    readonly keyTtlMs: number | null;
    readonly estimateTtlMs: number | null;
    readonly idlePolicy: 'none' | 'advance';
    readonly resetEveryMs: number | null;
  };
  readonly untilMs: number;
  readonly arrivals: readonly {
    readonly atMs: number;
    readonly id: number;
    readonly type: string;
    readonly jobId: string;
    readonly fairnessKey: string;
    readonly durationMs: number;
  }[];
  readonly expected: {
    readonly dispatch: readonly {
      readonly atMs: number;
      readonly id: number;
      readonly estimate: number;
      readonly accAfter: number;
    }[];
    readonly perKey: Readonly<Record<string, { readonly accumulatedCost: number }>>;
    readonly estimates: readonly { readonly type: string; readonly jobId: string; readonly cost: number }[];
  };
}

export type ScoringCase =
  | {
      readonly id: string;
      readonly kind: 'score';
      readonly input: {
        readonly priority: number;
        readonly ageMs: number;
        readonly onDemand: boolean;
        readonly compatibleFreeSlots: number;
      };
      readonly expected: { readonly score: number };
    }
  | {
      readonly id: string;
      readonly kind: 'crossover';
      readonly input: {
        readonly a: CrossoverSide;
        readonly b: CrossoverSide;
        readonly mode: 'b-fixed' | 'together';
      };
      readonly expected: { readonly tieAtSec: number | null; readonly firstStrictSec: number | null };
    }
  | {
      readonly id: string;
      readonly kind: 'slot';
      readonly input: {
        readonly slots: readonly OracleSlot[];
        readonly busy: readonly number[];
        readonly type: number;
      };
      readonly expected: { readonly slot: number | null; readonly compatible: number };
    }
  | {
      readonly id: string;
      readonly kind: 'pool';
      readonly input: {
        readonly ops: readonly {
          readonly op: 'register' | 'unregister' | 'acquire' | 'release';
          readonly worker?: string;
          readonly slots?: readonly OracleSlot[];
          readonly type?: number;
          readonly slot?: number;
        }[];
      };
      readonly expected: { readonly after: readonly unknown[] };
    }
  | {
      readonly id: string;
      readonly kind: 'pass';
      readonly input: {
        readonly now: number;
        readonly slots: readonly OracleSlot[];
        readonly queued: readonly OracleJob[];
        readonly onDemand: readonly OracleJob[];
        readonly lostClaims: readonly number[];
      };
      readonly expected: {
        readonly assignments: readonly [number, number][];
        readonly freeSlots: readonly number[];
      };
    };

interface CrossoverSide {
  readonly priority: number;
  readonly onDemand: boolean;
  readonly compatible: number;
  readonly ageSec?: number;
}

interface OracleSlot {
  readonly id: number;
  readonly types: readonly number[];
}

interface OracleJob {
  readonly id: number;
  readonly type: number;
  readonly priority: number;
  readonly createdAt: number;
}

export function readScenarios(): readonly FairnessScenario[] {
  return read('fairness.json').scenarios as readonly FairnessScenario[];
}

export function readScoringCases(): readonly ScoringCase[] {
  return read('scoring.json').cases as readonly ScoringCase[];
}

function read(file: string): Record<string, unknown> {
  return JSON.parse(readFileSync(new URL(`../fixtures/oracles/${file}`, import.meta.url), 'utf8'));
}

/** Ids that sort as text in the order of the numbers. */
export const idOf = (number: number): string => String(number).padStart(12, '0');

/** The product's defaults off where the text knows none. The texts' costs are seconds. */
export function scenarioConfiguration(config: FairnessScenario['config']): PoolConfiguration {
  const tiers = [...new Set(config.types.map((type) => type.priority))].sort((a, b) => b - a);
  return {
    types: config.types.map((type) => ({
      ...PLAIN_TYPE,
      type: type.type,
      tier: String(type.priority),
      maxConcurrency: type.maxConcurrency,
      conflictGroup: type.conflictGroup === '' ? null : type.conflictGroup,
      defaultCostMs: type.defaultCost * 1_000,
    })),
    tiers: tiers.map((priority) => ({ tier: String(priority), maxConcurrency: priority, guaranteed: 0 })),
    fleets: [{ fleet: 'all', types: config.types.map((type) => type.type), slots: Number.MAX_SAFE_INTEGER }],
    maxConcurrency: config.globalMax,
    score: { priority: 1024, ageSec: 16, rarity: 500, onDemand: 4096, onDemandAgeSec: 32 },
    fairness: {
      alpha: config.alpha,
      admissionFloorMs: 0,
      weights: {},
      defaultWeight: 1,
      maxConcurrencyPerKey: null,
      idlePolicy: config.idlePolicy,
      creditMs: null,
      trueUp: false,
      keyTtlMs: config.keyTtlMs,
      estimateFallback: 'default',
      estimateTtlMs: config.estimateTtlMs,
      resetEveryMs: config.resetEveryMs,
    },
    partitions: 1,
  };
}

/** One fleet for each slot, in the order of their ids: `Fleets` then chooses as `SlotPool` does. */
export function slotsConfiguration(slots: readonly OracleSlot[]): PoolConfiguration {
  const types = [...new Set(slots.flatMap((slot) => slot.types))].map(String);
  return {
    types: types.map((type) => ({ ...PLAIN_TYPE, type, tier: 'only' })),
    tiers: [{ tier: 'only', maxConcurrency: null, guaranteed: 0 }],
    fleets: [...slots]
      .sort((a, b) => a.id - b.id)
      .map((slot) => ({ fleet: String(slot.id), types: slot.types.map(String), slots: 1 })),
    maxConcurrency: null,
    score: { priority: 1024, ageSec: 16, rarity: 500, onDemand: 4096, onDemandAgeSec: 32 },
    fairness: {
      alpha: 0.3,
      admissionFloorMs: 0,
      weights: {},
      defaultWeight: 1,
      maxConcurrencyPerKey: null,
      idlePolicy: 'none',
      creditMs: null,
      trueUp: false,
      keyTtlMs: null,
      estimateTtlMs: null,
      resetEveryMs: null,
    },
    partitions: 1,
  };
}

export function oracleJob(job: OracleJob, mode: WaitingJob['mode']): WaitingJob {
  return {
    id: idOf(job.id),
    type: String(job.type),
    priority: job.priority,
    mode,
    fairnessKey: '',
    readyAtMs: job.createdAt,
    version: 1,
    attempt: 1,
  };
}

const PLAIN_TYPE: Omit<JobTypeConfiguration, 'type' | 'tier'> = {
  maxConcurrency: null,
  conflictGroup: null,
  defaultCostMs: 1,
  timeoutMs: 60_000,
  retry: {
    maxAttempts: 1,
    backoff: 'fixed',
    delayMs: 0,
    maxDelayMs: 0,
    jitter: 'none',
    errors: [],
    maxWorkersLost: 0,
  },
  onWorkerLost: 'fail',
};
