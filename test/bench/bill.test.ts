import { describe, expect, it } from 'vitest';
import { billOf, totalOf } from '../../bench/cloud/bill.ts';
import { between, NOTHING, times, type Usage, UsageMeter } from '../../bench/cloud/usage.ts';
import { createCostMeter } from '../../bench/metering/meter.ts';

const bill = (usage: Partial<Usage>) => billOf({ ...NOTHING, ...usage });

describe('the bill', () => {
  it.each([
    ['tableWrites', { writeUnits: 1_000_000 }, 0.625],
    ['tableReads', { readUnits: 2_000_000 }, 0.25],
    // A GB for a month, and its recovery.
    ['tableStorage', { storedGbMonths: 2 }, 0.9],
    ['queueRequests', { queueRequests: 500_000 }, 0.2],
    ['functionRequests', { invocations: 3_000_000 }, 0.6],
    ['functionSeconds', { functionGbSeconds: 100_000 }, 1.333_34],
    ['events', { events: 1_000_000 }, 1],
    ['logs', { logBytes: 3_000_000_000 }, 1.5],
    // Twenty metrics, in each hour of a month.
    ['customMetrics', { metricHours: 20 * 730 }, 6],
    // A quarter of a vCPU and half a GB for 100 hours.
    ['dispatcherMachines', { machineHours: 100 }, 0.25 * 3.238 + 0.5 * 0.356],
  ] as const)('has %s at its price, and nothing else', (line, usage, dollars) => {
    const lines = bill(usage);
    expect(lines[line]).toBeCloseTo(dollars, 10);
    expect(totalOf(lines)).toBeCloseTo(dollars, 10);
  });

  it('of a whole deployment is the sum of its lines', () => {
    // A job that writes 7 units, reads 2, makes 2 requests and 1 invocation of 30 ms at 1 GB, and tells its end.
    const usage = {
      writeUnits: 7,
      readUnits: 2,
      queueRequests: 2,
      invocations: 1,
      functionGbSeconds: 0.03,
      events: 1,
    };
    const million = times({ ...NOTHING, ...usage }, 1_000_000);
    expect(totalOf(billOf(million))).toBeCloseTo(4.375 + 0.25 + 0.8 + 0.2 + 0.400_002 + 1, 9);
  });

  it('counts a refused request as time, not as money', () => {
    expect(totalOf(bill({ throttled: 1_000, coldStarts: 10 }))).toBe(0);
  });

  it('has the prices of the cost meter', () => {
    const meter = createCostMeter();
    meter.store('startJob', { readUnits: 3, writeUnits: 5, requests: 1 });
    meter.queue('send', 2);
    meter.invoked('start');
    const usage = { writeUnits: 5, readUnits: 3, queueRequests: 2, invocations: 1 };
    expect(totalOf(billOf(times({ ...NOTHING, ...usage }, 1_000_000)))).toBeCloseTo(
      meter.report(1).dollarsPerMillionJobs,
      10,
    );
  });
});

describe('the meter', () => {
  it('answers what was used between two moments', () => {
    const meter = new UsageMeter();
    meter.add('writeUnits', 5);
    const from = meter.now();
    meter.add('writeUnits', 2);
    meter.add('events', 1);
    expect(between(from, meter.now())).toEqual({ ...NOTHING, writeUnits: 2, events: 1 });
  });
});
