/** Scenarios of `fairlead simulate` in which rounding, or a detour through another state, once decided what starts. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Control } from '../../lib/core/capacity.ts';
import { type PoolInput, resolveConfiguration } from '../../lib/core/defaults.ts';
import type { WaitingJob } from '../../lib/core/job.ts';
import { Scheduler } from '../../lib/core/scheduler.ts';

interface Scenario {
  readonly untilMs: number;
  readonly configuration: PoolInput;
  readonly jobs: readonly {
    readonly id: string;
    readonly type: string;
    readonly atMs: number;
    readonly durationMs: number;
    readonly fairnessKey: string;
    readonly priority?: number;
  }[];
  readonly events?: readonly (
    | ({ readonly op: 'override'; readonly atMs: number } & Pick<Control, 'scope'> & Partial<Control>)
    | { readonly op: 'retime'; readonly atMs: number; readonly id: string; readonly runAtMs: number }
  )[];
}

function read(file: string): Scenario {
  const text = readFileSync(new URL(`../fixtures/scenarios/${file}`, import.meta.url), 'utf8');
  return (JSON.parse(text) as { scenarios: [Scenario] }).scenarios[0];
}

/** Every start, `[atMs, id]`. At one instant jobs come first, then what operators do, then ends. */
function startsOf({ untilMs, configuration, jobs, events = [] }: Scenario): [number, string][] {
  const scheduler = new Scheduler(resolveConfiguration(configuration), { explains: false });
  const waiting = new Map<string, { readonly job: WaitingJob; readonly number: number }>();
  let running: { readonly id: string; readonly endMs: number; readonly usedMs: number }[] = [];
  const starts: [number, string][] = [];
  const instants = [...jobs, ...events].map(({ atMs }) => atMs);
  for (let nowMs = 0; nowMs <= untilMs; ) {
    for (const { atMs, durationMs: _, ...told } of jobs) {
      if (atMs !== nowMs) continue;
      const job = { priority: 0, ...told, mode: 'queued', readyAtMs: nowMs, version: 1, attempt: 1 } as const;
      waiting.set(job.id, { job, number: scheduler.arrive(job, nowMs) ?? -1 });
    }
    for (const event of events) {
      if (event.atMs !== nowMs) continue;
      if (event.op === 'override') {
        scheduler.override({ paused: false, ...event });
        continue;
      }
      const known = waiting.get(event.id);
      if (known === undefined || event.runAtMs > nowMs) throw new Error('only what waits moves, to now');
      const job = { ...known.job, readyAtMs: nowMs, version: known.job.version + 1 };
      waiting.set(job.id, { job, number: scheduler.replace(known.number, job, nowMs) ?? -1 });
    }
    for (const { id, endMs, usedMs } of running) {
      if (endMs === nowMs) scheduler.settle(id, { nowMs, usedMs, succeeded: true });
    }
    running = running.filter(({ endMs }) => endMs > nowMs);
    scheduler.beginPass(nowMs);
    for (let decision = scheduler.next(); decision !== undefined; decision = scheduler.next()) {
      const { id } = decision.reserved;
      const usedMs = jobs.find((job) => job.id === id)?.durationMs ?? 0;
      starts.push([nowMs, id]);
      running.push({ id, endMs: nowMs + usedMs, usedMs });
      waiting.delete(id);
    }
    const later = [...instants, ...running.map(({ endMs }) => endMs)].filter((atMs) => atMs > nowMs);
    nowMs = Math.min(...later, untilMs + 1);
  }
  return starts;
}

describe('what starts next', () => {
  it('is the better job of two keys whose costs are equal on paper, though charges were learned fractions', () => {
    const ties = read('ties.json');
    // At 3,500 the key of `urgent` would be lifted: what the other has in flight was charged more than it turns out to use.
    const unlifted = { ...ties.configuration, fairness: { idlePolicy: 'none' } } as const;
    const starts = startsOf({ ...ties, configuration: unlifted });
    expect(starts.find(([atMs]) => atMs === 4_000)).toEqual([4_000, 'urgent']);
    expect(starts.length).toBe(6);
    // Nothing is lifted either where the job comes before the last of its key has ended.
    const jobs = ties.jobs.map((job) => (job.id === 'urgent' ? { ...job, atMs: 2_500 } : job));
    expect(startsOf({ ...ties, jobs }).find(([atMs]) => atMs === 4_000)).toEqual([4_000, 'urgent']);
  });

  it('is the job of the cheaper key, also when it was moved to now while it waited', () => {
    const starts = startsOf(read('moved-to-now.json'));
    expect(starts.find(([atMs]) => atMs === 30_000)).toEqual([30_000, 'a1']);
    expect(starts.length).toBe(5);
  });
});
