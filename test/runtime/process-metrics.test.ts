import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import { askedMetricsOf } from '../../lib/runtime/emf.ts';
import { processMetrics } from '../../lib/runtime/process-metrics.ts';

const MINUTE_MS = 60_000;

function scene() {
  const time = new VirtualTime(0);
  const lines: { readonly atMs: number; readonly started: unknown }[] = [];
  const told = processMetrics('orders-jobs', time, (line) => {
    const { Scheduler, JobsStarted } = JSON.parse(line) as Record<string, unknown>;
    expect(Scheduler).toBe('orders-jobs');
    lines.push({ atMs: time.nowMs, started: JobsStarted });
  });
  const ended = new AbortController();
  return { time, lines, told, ended };
}

describe('metrics of a process', () => {
  it('are written once a minute, and what is left at the end', async () => {
    const { time, lines, told, ended } = scene();
    const telling = told.tellUntil(ended.signal);
    for (let job = 0; job < 3; job += 1) told.metrics.add('started', 1, { type: 'pdf' });
    await time.run({ untilMs: MINUTE_MS + 1_000 });
    told.metrics.add('started', 1, { type: 'pdf' });
    ended.abort();
    await time.run({ untilMs: MINUTE_MS + 2_000 });
    await telling;
    expect(lines).toEqual([
      { atMs: MINUTE_MS, started: 3 },
      { atMs: MINUTE_MS + 1_000, started: 1 },
    ]);
  });

  it('are no line of a minute in which nothing happened', async () => {
    const { time, lines, told, ended } = scene();
    void told.tellUntil(ended.signal);
    await time.run({ untilMs: 10 * MINUTE_MS });
    expect(lines).toEqual([]);
    ended.abort();
  });

  it('are written at once before the process is ended', () => {
    const { lines, told } = scene();
    told.metrics.add('started', 1, { type: 'pdf' });
    told.flush();
    expect(lines).toEqual([{ atMs: 0, started: 1 }]);
  });

  it('are of those on request what its environment names', () => {
    const toldIn = (environment: Readonly<Record<string, string>>): readonly unknown[] => {
      const lines: unknown[] = [];
      const write = (line: string): void => void lines.push(JSON.parse(line));
      const told = processMetrics('orders-jobs', new VirtualTime(0), write, askedMetricsOf(environment));
      told.metrics.add('running', 4);
      told.metrics.add('running', 2, { fleet: 'images' });
      told.metrics.add('freeSlots', 3);
      told.flush();
      return lines;
    };
    expect(toldIn({})).toEqual([]);
    expect(toldIn({ FAIRLEAD_METRICS_BY: 'fleet' })).toEqual([]);
    expect(toldIn({ FAIRLEAD_METRICS: 'running' })).toMatchObject([{ JobsRunning: 4 }]);
    expect(toldIn({ FAIRLEAD_METRICS: 'freeSlots, running', FAIRLEAD_METRICS_BY: 'fleet' })).toMatchObject([
      { JobsRunning: 4, FreeSlots: 3 },
      { Fleet: 'images', JobsRunning: 2 },
    ]);
  });
});
