/**
 * Watches what runs, and what fleets were told of, at every change of an item and at every commit: no cap is exceeded, no conflict
 * overlaps, nothing starts without a place, and no job is claimed twice.
 */
import { expect } from 'vitest';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { Job, ReservedJob } from '../../lib/core/job.ts';
import type { Commit } from '../../lib/store/contract/requests.ts';
import type { StoreEvent } from '../../lib/store/memory/imitation/imitation.ts';

const isActive = (job: Job | undefined): boolean => job?.state === 'claimed' || job?.state === 'running';

/** What jobs count against, by name, and what the configuration allows. */
function scopesOf(
  configuration: PoolConfiguration,
  job: Job,
  ofFleet: string | undefined,
): readonly (readonly [scope: string, cap: number])[] {
  const type = configuration.types.find((each) => each.type === job.type);
  const tier = configuration.tiers.find((each) => each.tier === type?.tier);
  const fleet = configuration.fleets.find((each) => each.fleet === ofFleet);
  const capped: readonly (readonly [string, number | null | undefined])[] = [
    ['pool', configuration.maxConcurrency],
    [`type ${job.type}`, type?.maxConcurrency],
    [`tier ${tier?.tier}`, tier?.maxConcurrency],
    [`key ${job.fairnessKey}`, configuration.fairness.maxConcurrencyPerKey],
    [`fleet ${fleet?.fleet}`, fleet?.slots],
    ...(job.resourceId === undefined
      ? []
      : ([
          [`resource ${job.type} ${job.resourceId}`, type?.maxConcurrencyPerResource],
          ...((type?.conflictGroup ?? null) === null
            ? []
            : [[`conflict ${type?.conflictGroup} ${job.resourceId}`, 1] as const]),
        ] as const)),
  ];
  return capped.map(([scope, cap]) => [scope, cap ?? Number.POSITIVE_INFINITY]);
}

/** A start that claims its job takes both steps at once. */
const stepsOf = (before: Job, after: Job): number =>
  before.state === 'pending' && after.state === 'running' ? 2 : 1;

export function watch(configuration: () => PoolConfiguration) {
  /** What counts, by job: it is claimed, runs, or has a place as it is, so that it may start any time. */
  const active = new Map<string, readonly (readonly [string, number])[]>();
  const latest = new Map<string, Job>();
  /** Jobs that have a place, by the version that it was planned for. */
  const places = new Map<string, number>();
  const running = new Map<string, number>();
  const claims = new Map<string, number>();
  const most = new Map<string, number>();
  const wrong: string[] = [];
  const count = (scopes: readonly (readonly [string, number])[], step: number): void => {
    for (const [scope, cap] of scopes) {
      const now = (running.get(scope) ?? 0) + step;
      running.set(scope, now);
      most.set(scope, Math.max(most.get(scope) ?? 0, now));
      if (now > cap) wrong.push(`${scope} has ${now}, at most ${cap} are allowed`);
    }
  };
  const activate = (job: Job, fleet: string | undefined): void => {
    if (active.has(job.id)) return;
    const scopes = scopesOf(configuration(), job, fleet);
    active.set(job.id, scopes);
    count(scopes, 1);
  };
  const deactivate = (id: string): void => {
    count(active.get(id) ?? [], -1);
    active.delete(id);
  };
  const mayStart = ({ id, version }: Pick<ReservedJob, 'id' | 'version'>): Job | undefined => {
    const job = latest.get(id);
    return job?.state === 'pending' && job.version === version ? job : undefined;
  };
  const onCommit = ({ drop, reserve }: Commit): void => {
    for (const { reservation, positions } of drop) {
      for (const position of positions) {
        const entry = reservation.jobs.get(position);
        if (entry === undefined) continue;
        if (mayStart(entry) !== undefined) wrong.push(`${entry.id} lost its place, and may start still`);
        if (places.get(entry.id) === entry.version) places.delete(entry.id);
      }
    }
    for (const entry of reserve.flatMap(({ jobs }) => [...jobs.values()])) {
      if (places.get(entry.id) === entry.version) wrong.push(`${entry.id} has two places`);
      places.set(entry.id, entry.version);
      const job = mayStart(entry);
      if (job !== undefined) activate(job, entry.fleet);
    }
  };
  const onJob = (before: Job | undefined, after: Job): void => {
    latest.set(after.id, after);
    if (before !== undefined && after.version !== before.version + stepsOf(before, after))
      wrong.push(`${after.id} skipped a version`);
    if (isActive(after) && !isActive(before)) {
      claims.set(after.id, (claims.get(after.id) ?? 0) + 1);
      if (before === undefined || places.get(after.id) !== before.version)
        wrong.push(`${after.id} began without a place`);
      activate(after, after.claim?.fleet);
    }
    // A place for a job as it was before lets nothing start.
    if (!isActive(after) && after.version !== before?.version) deactivate(after.id);
  };
  const observe = (event: StoreEvent<Job>): void => {
    if (event.kind === 'committed') onCommit(event.commit);
    if (event.kind === 'job') onJob(event.oldJob, event.newJob);
  };
  return {
    observe,
    /** How often each job was claimed. */
    claims,
    /** The most that ran at once, or that fleets were told of, by scope. */
    most,
    expectNothingWrong: (): void => expect(wrong).toEqual([]),
  };
}
