/** `docs/cost-and-speed.md` and its picture, from the figures that are kept beside them. */
import { readFile, writeFile } from 'node:fs/promises';
import { MORE_PRICES, PRICES } from '../metering/prices.ts';
import { MODEL } from './assumptions.ts';
import { BILL_LINES, totalOf } from './bill.ts';
import { otherPollers } from './idle.ts';
import type { Row } from './measure.ts';
import { billCells, billHead, LINE_NAMES, ROW_HEAD, rowCells } from './print.ts';
import { formatResult, parseResult, type Result } from './result.ts';
import { nameOf } from './rows.ts';
import { dollars, figure, markdownTable } from './text.ts';
import { TABLES } from './throttle.ts';

const place = (file: string): URL => new URL(`../../docs/${file}`, import.meta.url);
export const RESULT_FILE = place('cost-and-speed.json');
export const DOCUMENT_FILE = place('cost-and-speed.md');
export const PICTURE_FILE = place('cost-and-speed.svg');

/** The figures that are kept; undefined where there are none yet. */
export async function readResult(): Promise<Result | undefined> {
  let text: string;
  try {
    text = await readFile(RESULT_FILE, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  return parseResult(text);
}

export const saveResult = (result: Result): Promise<void> => writeFile(RESULT_FILE, formatResult(result));

/** Writes the document and its picture from the figures that are kept. */
export async function writeDocuments(): Promise<void> {
  const result = await readResult();
  if (result === undefined) throw new Error('nothing was measured yet: npm run bench:cloud -- --save');
  await writeFile(DOCUMENT_FILE, documentOf(result));
  await writeFile(PICTURE_FILE, pictureOf(result));
}

const newTableRate = (row: Row): string => figure(TABLES.new.writeUnits / row.writeUnitsPerJob);

const KB = 1_024;
const GB = KB ** 3;
const SIZES_KB = [4, 16, 64, 256, 1_024, 4_096];
/** What an item can hold, beside everything else that a job keeps. */
const ITEM_KB_MAX = 256;
/** How long the payload of a job that ends soon is kept: its record for a week, and its object some days longer. */
const KEPT_MONTHS = { item: 7 / 30, object: 11 / 30 } as const;

/** Dollars for a million payloads of an item of their own: put, `ttl` set, read at the start, and kept. */
const inTable = (kb: number): number =>
  2 * Math.ceil(kb) * PRICES.writeUnits +
  (Math.ceil(kb / 4) / 2) * PRICES.readUnits +
  ((1e6 * kb * KB) / GB) * (MORE_PRICES.tableGbMonth + MORE_PRICES.recoveryGbMonth) * KEPT_MONTHS.item;

/** Dollars for a million objects: put, read once, looked at by the collection, and kept. */
const inBucket = (kb: number): number =>
  1e6 * (MORE_PRICES.objectPut + MORE_PRICES.objectGet) +
  MORE_PRICES.objectPut * 1e3 +
  PRICES.readUnits +
  ((1e6 * kb * KB) / GB) * MORE_PRICES.objectGbMonth * KEPT_MONTHS.object;

/** The smallest size, in whole KB, from which an object is cheaper than an item. */
export const objectPaysFromKb = (): number => {
  let kb = 1;
  while (inBucket(kb) >= inTable(kb)) kb += 1;
  return kb;
};

function objectsSection(): string {
  const rows = SIZES_KB.map((kb) => [
    kb < KB ? `${kb} KB` : `${kb / KB} MB`,
    kb > ITEM_KB_MAX ? 'too large' : dollars(inTable(kb)),
    dollars(inBucket(kb)),
  ]);
  return `## Values over 64 KB

With \`largePayloads\` a payload, a result, a checkpoint or the state of a parked job over 64 KB is an object in S3. These are dollars for a million payloads
that gzip cannot compress, on top of their jobs, at list prices and without data transfer. A result and each checkpoint cost as much again.

${markdownTable([['size', 'in the table', 'in S3'], ...rows])}

An object is cheaper from ${objectPaysFromKb()} KB on; of a compressed payload, the compressed size counts. Up to 64 KB values stay in the table all the same: it answers
within milliseconds, an object takes some tens of them at each end, and JSON mostly compresses to a quarter or a sixth. A producer whose
payloads are smaller and hardly compress, such as images as base64, saves more by storing them itself and sending a key. A checkpoint over 64 KB costs
${dollars(1e6 * MORE_PRICES.objectPut)} a million, so call \`checkpoint\` every minute and not every second. Without \`largePayloads\` nothing of this is deployed or billed.
`;
}

export function documentOf(result: Result): string {
  const { rows, idle } = result;
  const [usual] = rows;
  const other = otherPollers(idle);
  const rate =
    usual === undefined
      ? ''
      : `A new on-demand table takes ${figure(TABLES.new.writeUnits)} write units a second: at ${figure(usual.writeUnitsPerJob)} a job, as in the first row, ${newTableRate(usual)} jobs a second. The default quota of a table is ${figure(TABLES.quota.writeUnits)}.`;
  return `# Cost and speed

<!-- Written by \`npm run docs:cost\` from cost-and-speed.json; measured by \`npm run bench:cloud -- --save\`. -->

This page shows what a million jobs cost and how soon they start. The figures come from a model of the cloud around the real code of every role, with the
defaults, at list prices, and without your handlers. Nothing here was measured in an account.

![What a million jobs cost, by line of the bill](cost-and-speed.svg)

${markdownTable([ROW_HEAD, ...rows.map(rowCells)])}

Write and read units are for each job. *Start* is the time from the request to the first line of the handler. In a saturated pool it is the wait in the
backlog, so compare it in rows with free slots. Rows with an option say what it adds to the row of the same load without it: a tag that is searchable, a
job that is listed when it has finished, and a step that is done are one write unit each, \`expireAfter\` is two. A job with a dedupe key that no other has costs three
write units and two read units. A rate of all jobs, of starts or of units, costs less than a tenth of a write unit, and a rate of each key 0.3.
A tag alone, and schemas, cost nothing. Statistics are one write
unit a partition and minute ($0.03 a month if something happens in each minute), and make what each commit writes some 100 bytes longer.
${rate}

## The bill

Dollars for a million jobs. These are means: a job that is retried, parked or moved costs more than others.

${markdownTable([billHead('load'), ...rows.map((row) => billCells(nameOf(row), row.bill))])}

The columns are: ${BILL_LINES.map((line) => LINE_NAMES[line]).join('; ')}. Reads of the stream by Lambda are free.
Metrics are billed by the hour in which they are written, for any number of jobs, so their share is large if jobs are few.
\`POWERTOOLS_METRICS_DISABLED\` turns them off ([metrics](metrics.md)).

## An idle month

Ten types, three fleets, nothing to do: ${dollars(idle.dollarsPerMonth)}. Most of it pays for the requests of Lambda's pollers to
empty queues. ${other.name[0]?.toUpperCase()}${other.name.slice(1)}, it is ${dollars(other.dollarsPerMonth)}.

${markdownTable([billHead('month'), billCells('idle', idle.bill)])}

${objectsSection()}
## What the model assumes

${markdownTable([
  ['subject', 'assumption', 'source'],
  ...MODEL.map(({ what, is, source }) => [what, is, source] as const),
]).replace('| --- | --: | --: |', '| --- | --- | --- |')}

The prices are in \`bench/metering/prices.ts\`. The figures exclude free tiers, taxes, data transfer and your own alarms.

## Measure it yourself

\`\`\`sh
npm run bench:cloud -- --only load=1/s,keys=50      # some rows
npm run bench:cloud -- --only load=half,keys=10000  # any row of the matrix
npm run bench:cloud -- --batch 1                    # functions with one job per invocation
npm run bench:cloud -- --only load=20/s,shards=4 --rate 30 --producers 100  # another load, from a number of processes
npm run bench:cloud -- --json                       # for machines
npm run bench:cloud -- --save                       # all rows; writes this page again
\`\`\`

Runs are seeded: the same code gives the same figures. A row takes from some seconds to a minute of processor time.
`;
}

const COLORS = [
  '#2563eb',
  '#60a5fa',
  '#94a3b8',
  '#cbd5e1',
  '#d97706',
  '#fbbf24',
  '#059669',
  '#9333ea',
  '#f472b6',
  '#be123c',
  '#78716c',
];
const LABEL_WIDTH = 330;
const BAR_WIDTH = 520;
const LINE_HEIGHT = 24;
const LEGEND_COLUMNS = 4;
/** Bars above this are cut, and say so: one row is far from all others. */
const DOLLARS_MAX = 50;

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** One bar a row, in parts by line of the bill. */
export function pictureOf({ rows }: Result): string {
  const lines = BILL_LINES.filter((line) => rows.some(({ bill }) => bill[line] >= 0.005));
  const most = Math.min(DOLLARS_MAX, Math.max(1, ...rows.map(({ bill }) => totalOf(bill))));
  const legendHeight = Math.ceil(lines.length / LEGEND_COLUMNS) * LINE_HEIGHT;
  const top = legendHeight + 16;
  const width = LABEL_WIDTH + BAR_WIDTH + 90;
  const height = top + rows.length * LINE_HEIGHT + 8;
  const colorOf = (line: (typeof BILL_LINES)[number]): string => COLORS[BILL_LINES.indexOf(line)] ?? '#000';
  const legend = lines.map((line, at) => {
    const x = 12 + (at % LEGEND_COLUMNS) * ((width - 24) / LEGEND_COLUMNS);
    const y = 8 + Math.floor(at / LEGEND_COLUMNS) * LINE_HEIGHT;
    return `<rect x="${x}" y="${y}" width="12" height="12" fill="${colorOf(line)}"/><text x="${x + 18}" y="${y + 11}">${escaped(LINE_NAMES[line])}</text>`;
  });
  const bars = rows.map((row, at) => {
    const y = top + at * LINE_HEIGHT;
    let x = LABEL_WIDTH;
    const parts = lines.map((line) => {
      const left = LABEL_WIDTH + BAR_WIDTH - x;
      const length = Math.min(left, (row.bill[line] / most) * BAR_WIDTH);
      const part = `<rect x="${x.toFixed(1)}" y="${y}" width="${length.toFixed(1)}" height="16" fill="${colorOf(line)}"/>`;
      x += length;
      return length > 0 ? part : '';
    });
    const total = totalOf(row.bill);
    const cut = total > most ? ' →' : '';
    return `<text x="${LABEL_WIDTH - 8}" y="${y + 12}" text-anchor="end">${escaped(nameOf(row))}</text>${parts.join('')}<text x="${(x + 6).toFixed(1)}" y="${y + 12}">${escaped(dollars(total))}${cut}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="Dollars for a million jobs, by line of the bill">
<rect width="100%" height="100%" fill="#fff"/>
${[...legend, ...bars].join('\n')}
</svg>
`;
}
