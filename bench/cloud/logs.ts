/** How many bytes a function's log takes in CloudWatch: the platform's lines of each invocation, and what our code says. */

import type { MetricLine } from '../../lib/metrics/collector.ts';
import { emfText } from '../../lib/runtime/emf.ts';
import { LeanFormatter } from '../../lib/runtime/lambda.ts';

/** CloudWatch counts so much with each event. */
const EVENT_BYTES = 26;

const REQUEST_ID = '8f5c1d2e-3b4a-4c5d-9e6f-7a8b9c0d1e2f';
const INSTANT = '2026-11-22T12:00:00.000Z';

/** As Lambda writes them where the format is JSON and the level is the default; from the level of warnings on, none of what ends well. */
const JSON_LINES = [
  { time: INSTANT, type: 'platform.start', record: { requestId: REQUEST_ID, version: '$LATEST' } },
  {
    time: INSTANT,
    type: 'platform.report',
    record: {
      requestId: REQUEST_ID,
      metrics: {
        durationMs: 100.123,
        billedDurationMs: 101,
        memorySizeMB: 1024,
        maxMemoryUsedMB: 150,
      },
      status: 'success',
    },
  },
].map((line) => JSON.stringify(line));

/** As it writes them where nothing is said of a format: of a worker function, which is the user's. */
const TEXT_LINES = [
  `START RequestId: ${REQUEST_ID} Version: $LATEST\n`,
  `END RequestId: ${REQUEST_ID}\n`,
  `REPORT RequestId: ${REQUEST_ID}\tDuration: 1020.12 ms\tBilled Duration: 1021 ms\tMemory Size: 512 MB\tMax Memory Used: 100 MB\t\n`,
];

const bytesOf = (lines: readonly string[]): number =>
  lines.reduce((sum, line) => sum + Buffer.byteLength(line) + EVENT_BYTES, 0);

const PLATFORM_BYTES = { warnings: 0, json: bytesOf(JSON_LINES), text: bytesOf(TEXT_LINES) } as const;

/** How a function's log is configured. */
export type LogFormat = keyof typeof PLATFORM_BYTES;

/** What the platform says of each invocation. */
export const platformBytes = (format: LogFormat): number => PLATFORM_BYTES[format];

const formatter = new LeanFormatter();
/** Of a function that CloudFormation has named, behind a trace that Lambda began. */
const ENTRY = {
  logLevel: 'INFO',
  timestamp: new Date(INSTANT),
  serviceName: 'fairlead',
  environment: '',
  awsRegion: '',
  sampleRateValue: 0,
  xRayTraceId: '1-5759e988-bd862e3fe1be46a994272793',
  lambdaContext: {
    coldStart: false,
    functionName: 'Production-JobsDispatch7B2C5D1E-1A2B3C4D5E6F',
    awsRequestId: REQUEST_ID,
    invokedFunctionArn: '',
    functionVersion: '$LATEST',
    memoryLimitInMB: '1024',
  },
} as const;

/** A line of our log, which the logger writes by itself: Lambda leaves what is JSON already as it is. */
export function logLineBytes(message: string, fields: object): number {
  const item = formatter.formatAttributes({ ...ENTRY, message }, { ...fields });
  item.prepareForPrint();
  return Buffer.byteLength(JSON.stringify(item.getAttributes())) + EVENT_BYTES;
}

/** A stack's table is named by CloudFormation. */
const textOf = emfText('Production-JobsTable7B2C5D1E-1A2B3C4D5E6F7');

/** What CloudWatch takes a line for: a metric for each value's name and each set of dimensions. */
export const metricsOf = ({ sets, values }: MetricLine): readonly string[] =>
  [...values.keys()].flatMap((metric) => sets.map((set) => JSON.stringify([metric, set])));

/** A line of metrics stands in the log as it is. */
export const metricLineBytes = (line: MetricLine): number => Buffer.byteLength(textOf(line)) + EVENT_BYTES;
