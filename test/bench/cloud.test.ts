import { describe, expect, it } from 'vitest';
import { billOf, totalOf } from '../../bench/cloud/bill.ts';
import { idlePollingDollars } from '../../bench/cloud/idle.ts';
import { type MeasureOptions, measureIdle, measureRow } from '../../bench/cloud/measure.ts';
import { type RowSpec, USUAL } from '../../bench/cloud/rows.ts';
import { TABLES } from '../../bench/cloud/throttle.ts';
import { times } from '../../bench/cloud/usage.ts';

const SMALL = { slots: 20, backlog: 60, warmUpMs: 2_000, windowMs: 4_000 } as const;

const measure = (spec: Partial<RowSpec> = {}, options: Partial<MeasureOptions> = {}) =>
  measureRow({ ...USUAL, ...spec }, { seed: 1, pollers: 'documented', scale: SMALL, ...options });

describe('a row', () => {
  it('is the same each time, and another one with another seed', async () => {
    const [one, again, other] = [await measure(), await measure(), await measure({}, { seed: 2 })];
    expect(JSON.stringify(again.row)).toBe(JSON.stringify(one.row));
    expect(JSON.stringify(other.row)).not.toBe(JSON.stringify(one.row));
  });

  it('has just the fields of its conditions and its figures', async () => {
    const { row, usage, jobs, failures } = await measure();
    expect(Object.keys(row)).toEqual([
      ...['load', 'keys', 'payloadBytes', 'path', 'shards', 'partitions', 'dispatchers', 'adds'],
      ...['jobsPerSecond', 'dollarsPerMillionJobs', 'bill', 'writeUnitsPerJob', 'readUnitsPerJob', 'startMs'],
    ]);
    expect(row.jobsPerSecond).toBeCloseTo(jobs / 4, 2);
    const rounded = (value: number): number => Number(value.toFixed(3));
    expect(row.writeUnitsPerJob).toBe(rounded(usage.writeUnits / jobs));
    expect(row.dollarsPerMillionJobs).toBe(rounded(totalOf(billOf(times(usage, 1e6 / jobs)))));
    expect(failures.size).toBe(0);
  });

  it.each([
    [{ path: 'bus' }],
    [{ path: 'bus10' }],
    [{ dispatchers: 'residents' }],
    [{ partitions: 4, shards: 4 }],
    [{ load: '100/s' }],
  ] as const)('works with %j', async (spec) => {
    const { row, jobs } = await measure(spec);
    expect(jobs).toBeGreaterThan(20);
    expect(row.bill.tableWrites).toBeGreaterThan(3);
    // Each job's end is told; by the bus, each comes by an event of its own or of ten.
    const byBus = { client: 0, bus: 1, bus10: 0.1 }[row.path];
    // A window of a few seconds cuts some of them off.
    expect(row.bill.events).toBeGreaterThan(0.5 * (1 + byBus));
    expect(row.bill.events).toBeLessThan(1.5 * (1 + byBus));
    expect(row.bill.dispatcherMachines > 0).toBe(row.dispatchers === 'residents');
  });

  it('is dearer with functions that take one job at a time', async () => {
    const [one, ten] = [await measure({}, { batchSize: 1 }), await measure()];
    expect(ten.usage.invocations / ten.jobs).toBeLessThan(one.usage.invocations / one.jobs - 0.5);
    expect(ten.row.bill.queueRequests).toBeLessThan(one.row.bill.queueRequests - 0.3);
    expect(ten.failures.size).toBe(0);
  });

  it('works with worker processes, which no function is invoked for', async () => {
    const functions = await measure({}, { batchSize: 1 });
    const processes = await measure({}, { workers: 'processes' });
    expect(processes.jobs).toBeGreaterThan(20);
    expect(processes.usage.invocations / processes.jobs).toBeLessThan(
      functions.usage.invocations / functions.jobs - 0.8,
    );
    expect(processes.failures.size).toBe(0);
  });

  it('is billed for its payload', async () => {
    const small = await measure();
    const large = await measure({ payloadBytes: 65_536 });
    // Compressed, it is put, and marked for its collection.
    expect(large.row.writeUnitsPerJob).toBeGreaterThan(small.row.writeUnitsPerJob + 2 * 8);
  });

  it('is slower where the table throttles, and no job is lost by it', async () => {
    const limits = { ...TABLES.new, writeUnits: 60 };
    const free = await measure();
    const throttled = await measure({}, { scale: { ...SMALL, limits } });
    expect(free.usage.throttled).toBe(0);
    expect(throttled.usage.throttled).toBeGreaterThan(10);
    expect(throttled.row.jobsPerSecond).toBeLessThan(0.8 * free.row.jobsPerSecond);
    expect(throttled.jobs).toBeGreaterThan(0);
  });
});

describe('the idle month', () => {
  it('is mostly what pollers ask, and dearer where there are five at each queue', async () => {
    const documented = await measureIdle({ seed: 1, pollers: 'documented' });
    const five = await measureIdle({ seed: 1, pollers: 'five' });
    // Ticks write and read whatever happens.
    expect(documented.bill.tableWrites).toBeGreaterThan(0.03);
    expect(documented.bill.queueRequests).toBeCloseTo(idlePollingDollars('documented'), 2);
    expect(five.dollarsPerMonth - documented.dollarsPerMonth).toBeCloseTo(
      idlePollingDollars('five') - idlePollingDollars('documented'),
      2,
    );
  });
});
