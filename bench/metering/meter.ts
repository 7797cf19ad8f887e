/**
 * What jobs cost, counted call by call: units and requests by verb and phase, and dollars by list price.
 * The same meter hears a table's own figures and what the store in memory says a table would bill.
 */
import type { JobQueue } from '../../lib/queue/contract.ts';
import type { Meter, Usage } from '../../lib/store/table/metering.ts';
import { PRICES } from './prices.ts';

/** Where in a job's life a call belongs. */
export const PHASES = ['submit', 'dispatch', 'start', 'finish', 'settle'] as const;
export type Phase = (typeof PHASES)[number];

/** A commit reserves and settles in one transaction: it counts as dispatch. */
const PHASE_OF: Readonly<Record<string, Phase>> = {
  createJobs: 'submit',
  announceLines: 'submit',
  recordRejections: 'submit',
  recordTags: 'submit',
  startJob: 'start',
  receive: 'start',
  saveCheckpoint: 'start',
  saveSteps: 'start',
  saveProgress: 'start',
  saveHung: 'finish',
  registerWorker: 'start',
  heartbeat: 'start',
  deregisterWorker: 'finish',
  finishJob: 'finish',
  endUnfinished: 'finish',
  delete: 'finish',
  handBack: 'finish',
  getJobs: 'settle',
  getLedgers: 'settle',
  getEstimates: 'settle',
  raiseVersion: 'settle',
  tidy: 'settle',
  retireLine: 'settle',
};

/** A verb that is none of these belongs to the passes. */
const phaseOf = (verb: string): Phase => PHASE_OF[verb] ?? 'dispatch';

export interface Counts {
  readonly writeUnits: number;
  readonly readUnits: number;
  readonly storeRequests: number;
  readonly queueRequests: number;
  readonly invocations: number;
}

const NOTHING: Counts = { writeUnits: 0, readUnits: 0, storeRequests: 0, queueRequests: 0, invocations: 0 };

const plus = (one: Counts, other: Partial<Counts>): Counts => ({
  writeUnits: one.writeUnits + (other.writeUnits ?? 0),
  readUnits: one.readUnits + (other.readUnits ?? 0),
  storeRequests: one.storeRequests + (other.storeRequests ?? 0),
  queueRequests: one.queueRequests + (other.queueRequests ?? 0),
  invocations: one.invocations + (other.invocations ?? 0),
});

const over = (counts: Counts, jobs: number): Counts => ({
  writeUnits: counts.writeUnits / jobs,
  readUnits: counts.readUnits / jobs,
  storeRequests: counts.storeRequests / jobs,
  queueRequests: counts.queueRequests / jobs,
  invocations: counts.invocations / jobs,
});

/** Dollars for a million jobs of such counts each. Handlers' own seconds, which are the user's, are not in it. */
export const dollarsPerMillion = (perJob: Counts): number =>
  perJob.writeUnits * PRICES.writeUnits +
  perJob.readUnits * PRICES.readUnits +
  perJob.queueRequests * PRICES.queueRequests +
  perJob.invocations * PRICES.invocations;

/** Per job. */
export interface CostReport {
  readonly jobs: number;
  readonly writeUnitsPerJob: number;
  readonly readUnitsPerJob: number;
  readonly queueRequestsPerJob: number;
  readonly invocationsPerJob: number;
  readonly dollarsPerMillionJobs: number;
  readonly byPhase: Readonly<Record<Phase, Counts>>;
  readonly byVerb: Readonly<Record<string, Counts>>;
}

export interface CostMeter {
  /** To be given to a store. */
  readonly store: Meter;
  readonly queue: (verb: string, requests: number) => void;
  /** A function was invoked. */
  readonly invoked: (phase: Phase) => void;
  /** What was counted, for each of so many jobs. */
  readonly report: (jobs: number) => CostReport;
  readonly counts: (verb: string) => Counts;
}

export function createCostMeter(): CostMeter {
  const byVerb = new Map<string, Counts>();
  const byPhase = new Map<Phase, Counts>();
  const count = (verb: string, phase: Phase, counts: Partial<Counts>): void => {
    byVerb.set(verb, plus(byVerb.get(verb) ?? NOTHING, counts));
    byPhase.set(phase, plus(byPhase.get(phase) ?? NOTHING, counts));
  };
  return {
    store: (verb, { readUnits, writeUnits, requests }: Usage) =>
      count(verb, phaseOf(verb), { readUnits, writeUnits, storeRequests: requests }),
    queue: (verb, requests) => count(verb, phaseOf(verb), { queueRequests: requests }),
    invoked: (phase) => count(`invoke ${phase}`, phase, { invocations: 1 }),
    counts: (verb) => byVerb.get(verb) ?? NOTHING,
    report: (jobs) => {
      const all = [...byPhase.values()].reduce(plus, NOTHING);
      const perJob = over(all, jobs);
      return {
        jobs,
        writeUnitsPerJob: perJob.writeUnits,
        readUnitsPerJob: perJob.readUnits,
        queueRequestsPerJob: perJob.queueRequests,
        invocationsPerJob: perJob.invocations,
        dollarsPerMillionJobs: dollarsPerMillion(perJob),
        byPhase: Object.fromEntries(
          PHASES.map((phase) => [phase, over(byPhase.get(phase) ?? NOTHING, jobs)]),
        ) as Record<Phase, Counts>,
        byVerb: Object.fromEntries([...byVerb].map(([verb, counts]) => [verb, over(counts, jobs)])),
      };
    },
  };
}

/** Messages of one request, as SQS has it; ours are far below its 64 KB. */
const BATCH_MAX = 10;

/** A queue whose requests are counted: the same for every implementation. */
export function meteredQueue(queue: JobQueue, meter: CostMeter): JobQueue {
  const batches = (messages: readonly unknown[]): number => Math.ceil(messages.length / BATCH_MAX);
  return {
    send: (fleet, jobs, together = 1) => {
      meter.queue('send', Math.ceil(jobs.length / together / BATCH_MAX));
      return queue.send(fleet, jobs, together);
    },
    receive: (fleet, max, waitMs, hideMs) => {
      meter.queue('receive', 1);
      return queue.receive(fleet, max, waitMs, hideMs);
    },
    handBack: (fleet, receipts) => {
      meter.queue('handBack', batches(receipts));
      return queue.handBack(fleet, receipts);
    },
    delete: (fleet, receipts) => {
      meter.queue('delete', batches(receipts));
      return queue.delete(fleet, receipts);
    },
    sendWake: (wake) => {
      meter.queue('sendWake', 1);
      return queue.sendWake(wake);
    },
    sendLook: (partition, delayMs, atMs) => {
      meter.queue('sendLook', 1);
      return queue.sendLook(partition, delayMs, atMs);
    },
  };
}
