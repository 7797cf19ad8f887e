/** The tables of a result, for a terminal. */

import { MODEL } from './assumptions.ts';
import { BILL_LINES, type Bill, totalOf } from './bill.ts';
import { otherPollers } from './idle.ts';
import type { Result } from './result.ts';
import { nameOf, scaleOf } from './rows.ts';
import { dollars, figure, table } from './text.ts';

/** What a line of the bill is, in words. */
export const LINE_NAMES: Readonly<Record<(typeof BILL_LINES)[number], string>> = {
  tableWrites: 'table writes',
  tableReads: 'table reads',
  tableStorage: 'table storage, recovery',
  streamReads: 'stream reads',
  queueRequests: 'queue requests',
  functionRequests: 'function requests',
  functionSeconds: 'function seconds',
  events: 'events',
  logs: 'logs',
  customMetrics: 'custom metrics',
  dispatcherMachines: 'dispatcher machines',
};

export const ROW_HEAD = [
  'load',
  'jobs/s',
  '$ per million',
  'write units',
  'read units',
  'start p50 ms',
  'p99 ms',
  'jobs counted',
] as const;

export const rowCells = (row: Result['rows'][number]): readonly string[] => [
  nameOf(row),
  figure(row.jobsPerSecond),
  dollars(row.dollarsPerMillionJobs),
  figure(row.writeUnitsPerJob),
  figure(row.readUnitsPerJob),
  figure(row.startMs.p50),
  figure(row.startMs.p99),
  figure((row.jobsPerSecond * scaleOf(row).windowMs) / 1_000),
];

const SHORT: Readonly<Record<(typeof BILL_LINES)[number], string>> = {
  tableWrites: 'writes',
  tableReads: 'reads',
  tableStorage: 'storage',
  streamReads: 'stream',
  queueRequests: 'queues',
  functionRequests: 'calls',
  functionSeconds: 'seconds',
  events: 'events',
  logs: 'logs',
  customMetrics: 'metrics',
  dispatcherMachines: 'machines',
};

export const billHead = (first: string): readonly string[] => [
  first,
  ...BILL_LINES.map((line) => SHORT[line]),
  'all',
];

export const billCells = (name: string, bill: Bill): readonly string[] => [
  name,
  ...BILL_LINES.map((line) => bill[line].toFixed(2)),
  totalOf(bill).toFixed(2),
];

export function printed(result: Result): string {
  const { rows, idle } = result;
  const other = otherPollers(idle);
  return [
    'A model of the cloud around the real code; dollars at list prices of us-east-1, handlers aside.',
    '',
    table([ROW_HEAD, ...rows.map(rowCells)]),
    '',
    'Start: from the request to the first line of the handler; in a saturated pool that is the wait in the backlog.',
    '',
    'The bill, dollars for a million jobs:',
    table([billHead('load'), ...rows.map((row) => billCells(nameOf(row), row.bill))]),
    '',
    `Idle, ten types and three fleets: ${dollars(idle.dollarsPerMonth)} a month` +
      ` (${other.name}: ${dollars(other.dollarsPerMonth)}):`,
    table([billHead('month'), billCells('idle', idle.bill)]),
    '',
    'The model:',
    ...MODEL.map(({ what, is, source }) => `  ${what}: ${is} (${source})`),
  ].join('\n');
}

/** Who used what, for each job, and the metrics that were told. */
export function printedSources(sources: ReadonlyMap<string, number>, metrics: ReadonlySet<string>): string {
  const used = [...sources]
    .filter(([, perJob]) => perJob >= 0.0005)
    .sort(([one], [other]) => (one < other ? -1 : 1));
  return [
    'For each job:',
    ...used.map(([name, perJob]) => `  ${name} ${perJob.toFixed(3)}`),
    `${metrics.size} metrics with their dimensions:`,
    ...[...metrics].sort().map((metric) => `  ${metric}`),
  ].join('\n');
}
