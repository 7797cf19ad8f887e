/** Watches what runs, at every change of an item: no cap is exceeded, no conflict overlaps, no job is claimed twice. */
import { expect } from 'vitest';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { Job } from '../../lib/core/job.ts';
import type { StoreEvent } from '../../lib/store/memory/imitation.ts';

const isActive = (job: Job | undefined): boolean => job?.state === 'claimed' || job?.state === 'running';

/** What jobs count against, by name, and what the configuration allows. */
function scopesOf(
  configuration: PoolConfiguration,
  job: Job,
): readonly (readonly [scope: string, cap: number])[] {
  const type = configuration.types.find((each) => each.type === job.type);
  const tier = configuration.tiers.find((each) => each.tier === type?.tier);
  const fleet = configuration.fleets.find((each) => each.fleet === job.claim?.fleet);
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

export function watch(configuration: () => PoolConfiguration) {
  const active = new Map<string, readonly (readonly [string, number])[]>();
  const running = new Map<string, number>();
  const claims = new Map<string, number>();
  const most = new Map<string, number>();
  const wrong: string[] = [];
  let epoch = 0;
  const count = (scopes: readonly (readonly [string, number])[], step: number): void => {
    for (const [scope, cap] of scopes) {
      const now = (running.get(scope) ?? 0) + step;
      running.set(scope, now);
      most.set(scope, Math.max(most.get(scope) ?? 0, now));
      if (now > cap) wrong.push(`${scope} has ${now}, at most ${cap} are allowed`);
    }
  };
  const observe = (event: StoreEvent<Job>): void => {
    if (event.kind === 'lease' && event.verb === 'acquireLease') {
      if (event.epoch <= epoch) wrong.push(`epoch ${event.epoch} follows ${epoch}`);
      epoch = event.epoch;
    }
    if (event.kind !== 'job') return;
    const { oldJob, newJob } = event;
    if (oldJob !== undefined && newJob.version !== oldJob.version + 1)
      wrong.push(`${newJob.id} skipped a version`);
    if (isActive(newJob) && !isActive(oldJob)) {
      claims.set(newJob.id, (claims.get(newJob.id) ?? 0) + 1);
      const scopes = scopesOf(configuration(), newJob);
      active.set(newJob.id, scopes);
      count(scopes, 1);
    }
    if (!isActive(newJob) && isActive(oldJob)) {
      count(active.get(newJob.id) ?? [], -1);
      active.delete(newJob.id);
    }
  };
  return {
    observe,
    /** How often each job was claimed. */
    claims,
    /** The most that ran at once, by scope. */
    most,
    expectNothingWrong: (): void => expect(wrong).toEqual([]),
  };
}
