/** From what was used to dollars: every line that a user of a default deployment pays, handlers aside. */
import { MORE_PRICES, PRICES } from '../metering/prices.ts';
import type { Usage } from './usage.ts';

export const BILL_LINES = [
  'tableWrites',
  'tableReads',
  'tableStorage',
  'streamReads',
  'queueRequests',
  'functionRequests',
  'functionSeconds',
  'events',
  'logs',
  'customMetrics',
  'dispatcherMachines',
] as const;

/** Dollars by line. */
export type Bill = Readonly<Record<(typeof BILL_LINES)[number], number>>;

const MILLION = 1_000_000;
const GB = 1_000_000_000;
export const MONTH_HOURS = 730;

/** Where residents run: the smallest container of Fargate. */
export const DISPATCHER_MACHINE = { cpus: 0.25, memoryGb: 0.5 } as const;

export function billOf(usage: Usage): Bill {
  const { cpus, memoryGb } = DISPATCHER_MACHINE;
  return {
    tableWrites: (usage.writeUnits * PRICES.writeUnits) / MILLION,
    tableReads: (usage.readUnits * PRICES.readUnits) / MILLION,
    tableStorage: usage.storedGbMonths * (MORE_PRICES.tableGbMonth + MORE_PRICES.recoveryGbMonth),
    // Lambda reads a table's stream free of charge.
    streamReads: 0,
    queueRequests: (usage.queueRequests * PRICES.queueRequests) / MILLION,
    functionRequests: (usage.invocations * PRICES.invocations) / MILLION,
    functionSeconds: usage.functionGbSeconds * MORE_PRICES.functionGbSecond,
    events: usage.events * MORE_PRICES.event,
    logs: (usage.logBytes / GB) * MORE_PRICES.logsGb,
    customMetrics: (usage.metricHours / MONTH_HOURS) * MORE_PRICES.customMetricMonth,
    dispatcherMachines:
      usage.machineHours * (cpus * MORE_PRICES.containerCpuHour + memoryGb * MORE_PRICES.containerGbHour),
  };
}

export const totalOf = (bill: Bill): number => BILL_LINES.reduce((sum, line) => sum + bill[line], 0);
