/** An adapter as one node reaches it: over a network that delays, loses and repeats, from a process that may die. */

import { ThrottledError, UnavailableError } from '../../lib/core/errors.ts';
import { OBSERVED_MS } from '../../lib/dispatch/recovery/silence.ts';
import type { EventBus } from '../../lib/events/contract.ts';
import type { VirtualTime } from '../../lib/local/virtual-time.ts';
import type { JobQueue } from '../../lib/queue/contract.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import type { Faults } from './faults.ts';
import type { Caller } from './node.ts';
import type { SimulationPlan } from './plan.ts';

export interface Network {
  readonly plan: SimulationPlan;
  readonly time: VirtualTime;
  readonly faults: Faults;
  /** The store answers nobody until then. */
  readonly outageUntilMs: () => number;
  readonly trace: (line: string) => void;
  readonly onCall: (name: string, verb: string, node: Caller, parameters: readonly unknown[]) => void;
  /** A call as this process makes it now: what is applied later is what it asked for. */
  readonly as: (node: Caller, apply: Verb) => Verb;
  /** A request has reached its service, for the first time. */
  readonly onApplied: (verb: string, node: Caller, parameters: readonly unknown[]) => void;
  /** A service has answered a request, and the node has heard it. */
  readonly onAnswered: (verb: string, node: Caller, parameters: readonly unknown[], answer: unknown) => void;
}

type Service = 'store' | 'queue' | 'bus';
export type Verb = (...parameters: readonly unknown[]) => Promise<unknown>;

/** Where a verb's batch stands: which parameter, or which field of the request. What such a call does, it can do by half. */
const BATCHES: Readonly<Record<string, number | string>> = {
  createJobs: 0,
  announceLines: 'lines',
  recordRejections: 0,
  recordTags: 0,
  promote: 'jobs',
  claim: 0,
  send: 1,
  publish: 0,
};

/** A call's batch; none if the verb takes none. */
function batchOf(verb: string, parameters: readonly unknown[]): readonly unknown[] {
  const at = BATCHES[verb];
  if (at === undefined) return [];
  const batch = typeof at === 'number' ? parameters[at] : (parameters[0] as Record<string, unknown>)[at];
  return batch as readonly unknown[];
}

/** The same call with another batch. */
const withBatch = (
  verb: string,
  parameters: readonly unknown[],
  batch: readonly unknown[],
): readonly unknown[] => {
  const at = BATCHES[verb];
  if (at === undefined) return parameters;
  if (typeof at === 'string') return [{ ...(parameters[0] as object), [at]: batch }];
  return parameters.map((parameter, position) => (position === at ? batch : parameter));
};

const TRANSACTIONS: ReadonlySet<string> = new Set(['commit', 'redrive']);

/** What a worker says of one attempt must not reach the next one: late more often than others. */
const OF_ATTEMPTS: ReadonlySet<string> = new Set([
  'startJob',
  'finishJob',
  'saveCheckpoint',
  'saveSteps',
  'saveProgress',
  'saveHung',
]);

const TIMEOUT_MIN_MS = 500;
const TIMEOUT_MAX_MS = 8_000;

/** As the adapters answer a call that failed: some verbs make a value of it. */
function failed(service: Service, verb: string, parameters: readonly unknown[], error: Error): unknown {
  if (verb === 'claim') return (parameters[0] as readonly unknown[]).map(() => 'unknown');
  if (verb === 'send') return parameters[1];
  if (service === 'bus') return parameters[0];
  throw error;
}

function unavailable(service: Service, verb: string): Error {
  return service === 'store'
    ? new UnavailableError(`${verb}: no answer`)
    : new UnavailableError(`${verb}: no answer`);
}

async function call(
  network: Network,
  node: Caller,
  service: Service,
  verb: string,
  parameters: readonly unknown[],
  apply: Verb,
): Promise<unknown> {
  const { plan, time, faults, trace } = network;
  const name = node.nameCall(verb);
  network.onCall(name, verb, node, parameters);
  const random = faults.randomOf(name);
  const batch = batchOf(verb, parameters);
  const fault = faults.draw(
    name,
    (each) => {
      if (each === 'transactionConflict') return verb === 'commit';
      if (each === 'crashMidCall' || each === 'partialBatchFailure') return batch.length > 1;
      // A request that comes late or twice only matters if it changes something; a transaction's token lets it in once.
      if (each === 'appliedLate') return service === 'store' && !isRead(verb);
      if (each === 'requestRepeated') return service === 'store' && !isRead(verb) && !TRANSACTIONS.has(verb);
      return true;
    },
    random,
    (each) => (OF_ATTEMPTS.has(verb) && (each === 'appliedLate' || each === 'requestRepeated') ? 10 : 1),
  );
  const latencyMs = random() * plan.latencyMaxMs;
  const timeoutMs = TIMEOUT_MIN_MS + random() * (TIMEOUT_MAX_MS - TIMEOUT_MIN_MS);
  // Past its lead, or past the time at which others look what became of it.
  const drawnMs = random() * 2 * Math.max(plan.budget.leadMs, random() < 0.3 ? plan.budget.checkAfterMs : 0);
  const freezeMs = faults.isForced(name) ? Math.max(plan.budget.leadMs, OBSERVED_MS) + 1_000 : drawnMs;
  const part = batch.slice(0, 1 + Math.floor(random() * Math.max(0, batch.length - 1)));
  const withPart = withBatch(verb, parameters, part);
  const answer = async (given: Promise<unknown>): Promise<unknown> => {
    const outcome = await given.then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    await node.gate();
    trace(
      `${time.nowMs} ${name} ${fault ?? ''} ${'error' in outcome ? String(outcome.error) : brief(outcome.value)}`,
    );
    if ('error' in outcome) throw outcome.error;
    network.onAnswered(verb, node, parameters, outcome.value);
    return outcome.value;
  };
  const fail = async (error: Error): Promise<unknown> => {
    await node.gate();
    trace(`${time.nowMs} ${name} ${fault ?? ''} ${error.name}`);
    return failed(service, verb, parameters, error);
  };

  await node.gate();
  if (fault === 'crashBeforeCall') node.kill();
  if (fault === 'frozenBeforeCall') node.freeze(freezeMs);
  await node.gate();
  await time.sleep(latencyMs);
  if (service === 'store' && network.outageUntilMs() > time.nowMs) {
    await time.sleep(timeoutMs);
    return fail(unavailable(service, verb));
  }
  network.onApplied(verb, node, parameters);
  switch (fault) {
    case 'throttled':
    case 'transactionConflict':
      return fail(
        service === 'store' ? new ThrottledError(`${verb}: try again`) : unavailable(service, verb),
      );
    case 'notAppliedAndNoAnswer':
      await time.sleep(timeoutMs);
      return fail(unavailable(service, verb));
    case 'answerLostThoughApplied':
      await apply(...parameters).catch(() => {});
      await time.sleep(timeoutMs);
      return fail(unavailable(service, verb));
    case 'appliedLate':
      time.after(freezeMs, () => void apply(...parameters).catch(() => {}));
      await time.sleep(timeoutMs);
      return fail(unavailable(service, verb));
    case 'requestRepeated':
      // Soon, when the next attempt may be under way, or late.
      time.after(
        random() < 0.5 ? freezeMs : random() * 5_000,
        () => void apply(...parameters).catch(() => {}),
      );
      return answer(apply(...parameters));
    case 'crashMidCall':
      await apply(...withPart).catch(() => {});
      node.kill();
      return node.gate();
    case 'partialBatchFailure': {
      const given = await apply(...withPart);
      const rest = batch.slice(part.length);
      if (verb === 'claim') {
        return answer(Promise.resolve([...(given as unknown[]), ...rest.map(() => 'unknown')]));
      }
      if (verb === 'send') return answer(Promise.resolve([...(given as unknown[]), ...rest]));
      if (verb === 'publish')
        return answer(Promise.resolve([...(given as unknown[]), ...rest.map((event) => ({ event }))]));
      return fail(unavailable(service, verb));
    }
    case 'crashAfterCall':
      await apply(...parameters).catch(() => {});
      node.kill();
      return node.gate();
    case 'frozenAfterCall': {
      const given = apply(...parameters);
      await given.catch(() => {});
      node.freeze(freezeMs);
      return answer(given);
    }
    default:
      return answer(apply(...parameters));
  }
}

const isRead = (verb: string): boolean => /^(get|read|load|list|receive)/.test(verb);

function brief(given: unknown): string {
  if (given === undefined) return '-';
  if (typeof given === 'string' || typeof given === 'number') return String(given);
  if (Array.isArray(given))
    return `[${given.length}]${given.every((each) => typeof each === 'string') ? given.join() : ''}`;
  return typeof given === 'object' && given !== null && 'kind' in given ? String(given.kind) : 'ok';
}

/** The same interface, every call of it at the network's mercy. */
function faulty<T extends object>(network: Network, node: Caller, service: Service, target: T): T {
  const verbs = new Map<string | symbol, Verb>();
  return new Proxy(target, {
    get: (_, name) => {
      const known = verbs.get(name);
      if (known !== undefined) return known;
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== 'function') return method;
      const apply: Verb = (...parameters) => Promise.resolve(method.apply(target, parameters));
      const verb: Verb = (...parameters) =>
        call(
          network,
          node,
          service,
          String(name),
          parameters,
          service === 'store' ? network.as(node, apply) : apply,
        );
      verbs.set(name, verb);
      return verb;
    },
  });
}

export const faultyStore = (network: Network, node: Caller, store: JobStore): JobStore =>
  faulty(network, node, 'store', store);
export const faultyQueue = (network: Network, node: Caller, queue: JobQueue): JobQueue =>
  faulty(network, node, 'queue', queue);
export const faultyBus = (network: Network, node: Caller, bus: EventBus): EventBus =>
  faulty(network, node, 'bus', bus);
