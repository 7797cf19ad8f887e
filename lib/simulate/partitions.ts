/** Runs the cases of the format `partitions` on the core's ring, leases and lending. */

import { ValidationError } from '../core/errors.ts';
import { hashText } from '../core/partition.ts';
import { buildRing, ownerOf, type Ring, ringOf, VIRTUAL_NODES } from '../core/ring.ts';
import {
  beat,
  complete,
  dueWindow,
  expire,
  FREE_LEASE,
  firstScanFrom,
  isExpired,
  type Lease,
  type Leave,
  startBounds,
  takeLease,
} from './model/lease.ts';
import { movedBetween, without } from './model/ring-changes.ts';
import { type NodeLoad, planSteal } from './model/steal.ts';
import type { PartitionsCase } from './reference-scenarios.ts';

type Input<Kind extends PartitionsCase['kind']> = Extract<PartitionsCase, { kind: Kind }>['input'];

/**
 * Runs a case.
 * @throws ValidationError with a path that begins with `path`, the case's, for errors that the schemas cannot find.
 */
export function simulatePartitions(
  scenario: PartitionsCase,
  path: string,
): Readonly<Record<string, unknown>> {
  switch (scenario.kind) {
    case 'ring-lookup':
      return ringLookup(scenario.input);
    case 'ring-change':
      return ringChange(scenario.input);
    case 'membership-property':
      return membership(scenario.input);
    case 'lease':
      return leases(scenario.input, path);
    case 'steal-decision':
      return stealDecision(scenario.input, path);
    case 'steal-run':
      return stealRun(scenario.input, path);
    case 'due-window':
      return due(scenario.input);
    case 'leave':
      return leave(scenario.input);
    case 'fence':
      return fence(scenario.input);
  }
}

function ringLookup(input: Input<'ring-lookup'>): { readonly owners: readonly (string | null)[] } {
  const ring = ringOf(new Map(Object.entries(input.positions)), input.space);
  return { owners: input.hashes.map((hash) => ownerOf(ring, hash) ?? null) };
}

function ringChange(input: Input<'ring-change'>): {
  readonly moved: readonly unknown[];
  readonly unmoved: number;
} {
  const positions = new Map(Object.entries(input.positions));
  const before = ringOf(positions, input.space);
  const changed = new Map([...positions, ...Object.entries(input.add)]);
  for (const node of input.remove) changed.delete(node);
  const moved = movedBetween(before, ringOf(changed, input.space), input.hashes);
  return {
    moved: moved.map(({ hash, from, to }) => ({ hash, from: from ?? null, to: to ?? null })),
    unmoved: input.hashes.length - moved.length,
  };
}

/** Measures how a change of members moves many keys between two rings of the product's own hash. */
function membership(input: Input<'membership-property'>): Readonly<Record<string, unknown>> {
  const virtualNodes = input.virtualNodes ?? VIRTUAL_NODES;
  const removed = new Set(input.remove);
  const before = buildRing(input.nodes, virtualNodes);
  const members = [...input.nodes, ...input.add].filter((node) => !removed.has(node));
  const after = buildRing(members, virtualNodes);
  const hashes = Array.from({ length: input.keys }, (_, index) =>
    hashText(input.keyTemplate.replaceAll('{i}', String(index))),
  );
  const owned = new Map<string | undefined, number>();
  for (const hash of hashes) {
    const owner = ownerOf(after, hash);
    owned.set(owner, (owned.get(owner) ?? 0) + 1);
  }
  const moved = movedBetween(before, after, hashes);
  const changed = new Set([...input.add, ...input.remove]);
  const mean = input.keys / Math.max(1, after.nodes.length);
  const counts = after.nodes.map((node) => owned.get(node) ?? 0);
  return {
    virtualNodes,
    owned: Object.fromEntries(after.nodes.map((node) => [node, owned.get(node) ?? 0])),
    everyKeyHasExactlyOneOwner: after.nodes.length > 0 && !owned.has(undefined),
    everyMoveTouchesAChangedNode: moved.every(
      ({ from, to }) => (from !== undefined && changed.has(from)) || (to !== undefined && changed.has(to)),
    ),
    movedFraction: moved.length / input.keys,
    maxOverMean: Math.max(0, ...counts) / mean,
    minOverMean: counts.length === 0 ? 0 : Math.min(...counts) / mean,
  };
}

type LeaseInput = Input<'lease'>;

function leases(input: LeaseInput, path: string): { readonly jobs: readonly unknown[] } {
  const ring = ringOf(new Map(Object.entries(input.positions)), input.space);
  refuseUnknownNodes(ring, input.claims, `${path}.input.claims`);
  refuseUnknownNodes(ring, input.events, `${path}.input.events`);
  const histories = new Map<string, LeaseEvent[]>(ring.nodes.map((node) => [node, []]));
  for (const event of input.events.toSorted((one, other) => one.atMs - other.atMs)) {
    histories.get(event.node)?.push(event);
  }
  return {
    jobs: input.claims.map((claim) => ({ job: claim.job, ...followLease(input, ring, histories, claim) })),
  };
}

function refuseUnknownNodes(ring: Ring, entries: readonly { readonly node: string }[], path: string): void {
  const nodes = new Set(ring.nodes);
  entries.forEach(({ node }, index) => {
    if (!nodes.has(node)) throw new ValidationError(`${path}[${index}].node`, `${node} is not in positions`);
  });
}

type LeaseEvent = LeaseInput['events'][number];
type Histories = ReadonlyMap<string, readonly LeaseEvent[]>;
type NodeState = 'alive' | 'paused' | 'crashed';

function stateAfter(state: NodeState, op: LeaseEvent['op']): NodeState {
  // Resuming does not bring back a crashed process.
  if (state === 'crashed') return state;
  return op === 'resume' ? 'alive' : op === 'pause' ? 'paused' : 'crashed';
}

/**
 * Follows one job under its first holder. While the node is alive, heartbeats come `heartbeatMs` apart from the claim
 * on, and one more when the node resumes. An uninterrupted period is computed in one step, so long scenarios cost
 * little.
 */
function followLease(
  input: LeaseInput,
  ring: Ring,
  histories: Histories,
  claim: LeaseInput['claims'][number],
): Readonly<Record<string, unknown>> {
  const history = histories.get(claim.node) ?? [];
  let { lease } = takeLease(FREE_LEASE, claim.node, claim.atMs, input.leaseMs);
  const { token } = lease;
  let state = stateAt(history, claim.atMs);
  let nowMs = claim.atMs;
  let remainingMs = claim.runsMs;
  for (const event of [...history.filter(({ atMs }) => atMs > claim.atMs), undefined]) {
    const untilMs = event?.atMs ?? Infinity;
    if (state === 'alive') {
      const doneMs = nowMs + remainingMs;
      lease = beatUntil(lease, claim, token, nowMs, Math.min(untilMs, doneMs), input);
      // A job that would end at the instant of a crash has not ended.
      if (doneMs < untilMs && complete(lease, claim.node, token, doneMs).ok) return { recovered: false };
      remainingMs = Math.max(0, doneMs - untilMs);
    }
    if (event === undefined || isExpired(lease, event.atMs)) break;
    const wakes = state === 'paused' && event.op === 'resume';
    state = stateAfter(state, event.op);
    nowMs = event.atMs;
    if (wakes) ({ lease } = beat(lease, claim.node, token, nowMs, input.leaseMs));
  }
  const recoverAtScanMs = firstScanFrom(lease.endsAtMs, input.firstScanMs, input.scanMs);
  const gone = new Set(
    ring.nodes.filter((node) => stateAt(histories.get(node) ?? [], recoverAtScanMs) !== 'alive'),
  );
  return {
    recovered: true,
    recoverAtScanMs,
    newOwner: ownerOf(without(ring, gone), claim.hash) ?? null,
  };
}

/** Returns the lease after all heartbeats of an uninterrupted period, the last of them strictly before its end. */
function beatUntil(
  lease: Lease,
  claim: LeaseInput['claims'][number],
  token: number,
  fromMs: number,
  untilMs: number,
  { leaseMs, heartbeatMs }: LeaseInput,
): Lease {
  const beatFrom = (instantMs: number): number =>
    claim.atMs + Math.ceil((instantMs - claim.atMs) / heartbeatMs) * heartbeatMs;
  const firstMs = beatFrom(fromMs);
  if (firstMs >= untilMs) return lease;
  const answer = beat(lease, claim.node, token, firstMs, leaseMs);
  // If heartbeats are at least a lease apart, all after the first come too late.
  if (!answer.ok || heartbeatMs >= leaseMs) return answer.lease;
  return { ...answer.lease, endsAtMs: beatFrom(untilMs) - heartbeatMs + leaseMs };
}

function stateAt(history: readonly LeaseEvent[], atMs: number): NodeState {
  let state: NodeState = 'alive';
  for (const event of history) {
    if (event.atMs > atMs) break;
    state = stateAfter(state, event.op);
  }
  return state;
}

type StealInput = Input<'steal-run'>;

function loadsOf(input: StealInput, path: string): NodeLoad[] {
  const value = (field: 'freeCapacity' | 'movable', node: string): number => {
    const record = input[field];
    const found = Object.hasOwn(record, node) ? record[node] : undefined;
    if (found === undefined)
      throw new ValidationError(`${path}.input.${field}.${node}`, 'expected a whole number');
    return found;
  };
  return Object.entries(input.load).map(([node, load]) => ({
    node,
    load,
    movable: value('movable', node),
    freeCapacity: value('freeCapacity', node),
  }));
}

function stealDecision(input: Input<'steal-decision'>, path: string): Readonly<Record<string, unknown>> {
  if (!Object.hasOwn(input.load, input.thief)) {
    throw new ValidationError(`${path}.input.thief`, `${input.thief} has no load`);
  }
  const plan = planSteal(loadsOf(input, path), input, input.thief);
  return plan.kind === 'steal' ? { allowed: true, from: plan.from, moved: plan.moved } : { allowed: false };
}

/**
 * The most steals of a run, which are decided one by one. A run that still moves jobs after these is reported as it is.
 */
const MOST_TRANSFERS = 100_000;

function stealRun(input: StealInput, path: string): Readonly<Record<string, unknown>> {
  const nodes = new Map(loadsOf(input, path).map((node) => [node.node, node]));
  let rounds = 0;
  let transfers = 0;
  let settled = false;
  while (!settled && transfers < MOST_TRANSFERS) {
    settled = true;
    rounds += 1;
    for (const thief of nodes.keys()) {
      const plan = planSteal([...nodes.values()], input, thief);
      if (plan.kind !== 'steal') continue;
      shift(nodes, plan.from, -plan.moved);
      shift(nodes, thief, plan.moved);
      transfers += 1;
      settled = false;
    }
  }
  return {
    terminates: settled,
    // The last round only confirms that nothing is left to move.
    rounds,
    transfers,
    finalLoad: Object.fromEntries([...nodes.values()].map(({ node, load }) => [node, load])),
  };
}

function shift(nodes: Map<string, NodeLoad>, name: string, jobs: number): void {
  const node = nodes.get(name);
  if (node === undefined) return;
  nodes.set(name, {
    ...node,
    load: node.load + jobs,
    movable: node.movable + jobs,
    freeCapacity: node.freeCapacity - jobs,
  });
}

function due(input: Input<'due-window'>): { readonly selected: readonly string[] } {
  const { jobs, inclusiveRanges, nowMs, horizonMs } = input;
  return { selected: dueWindow(jobs, inclusiveRanges, nowMs, horizonMs).map(({ id }) => id) };
}

function leave(input: Input<'leave'>): { readonly jobs: readonly unknown[] } {
  const ring = ringOf(new Map(Object.entries(input.positions)), input.space);
  const way: Leave = input;
  return {
    jobs: input.jobs.map(({ id, hash, dueMs }) => {
      const { owner, ...bounds } = startBounds(ring, way, hash, dueMs);
      return { id, owner: owner ?? null, ...bounds };
    }),
  };
}

function fence(input: Input<'fence'>): {
  readonly results: readonly unknown[];
  readonly completions: number;
} {
  let lease = FREE_LEASE;
  let completions = 0;
  // The script has no clock: a lease ends only by its `expire` step.
  const nowMs = 0;
  const results = input.steps.map((step) => {
    const answer =
      step.op === 'claim'
        ? takeLease(lease, step.node, nowMs, Infinity)
        : step.op === 'beat'
          ? beat(lease, step.node, step.token, nowMs, Infinity)
          : step.op === 'complete'
            ? complete(lease, step.node, step.token, nowMs)
            : expire(lease);
    lease = answer.lease;
    if (step.op === 'complete' && answer.ok) completions += 1;
    return step.op === 'claim' ? { ok: answer.ok, token: answer.ok ? lease.token : null } : { ok: answer.ok };
  });
  return { results, completions };
}
