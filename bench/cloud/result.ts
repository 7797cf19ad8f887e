/** What `--json` prints, and what is committed as the figures that the document shows. */
import { BILL_LINES, type Bill } from './bill.ts';
import type { Idle, Row } from './measure.ts';
import { AXES, type Axis, DEFAULT_ROWS, isSame } from './rows.ts';

export interface Result {
  readonly rows: readonly Row[];
  readonly idle: Idle;
}

/** Thrown for a file that holds no result of this benchmark. */
export class ResultError extends Error {
  override readonly name = 'ResultError';
}

function isBill(value: unknown): value is Bill {
  if (typeof value !== 'object' || value === null) return false;
  const lines = new Map(Object.entries(value));
  return BILL_LINES.every((line) => Number.isFinite(lines.get(line)));
}

function isRow(value: unknown): value is Row {
  if (typeof value !== 'object' || value === null) return false;
  const fields = new Map<string, unknown>(Object.entries(value));
  const isSpecified = (Object.keys(AXES) as Axis[]).every((axis) =>
    (AXES[axis] as readonly unknown[]).includes(fields.get(axis)),
  );
  const areNumbers = ['jobsPerSecond', 'dollarsPerMillionJobs', 'writeUnitsPerJob', 'readUnitsPerJob'].every(
    (name) => Number.isFinite(fields.get(name)),
  );
  const start = fields.get('startMs');
  const hasStart = typeof start === 'object' && start !== null && 'p50' in start && 'p99' in start;
  return isSpecified && areNumbers && hasStart && isBill(fields.get('bill'));
}

/** @throws ResultError */
export function parseResult(text: string): Result {
  const value: unknown = JSON.parse(text);
  if (typeof value === 'object' && value !== null && 'rows' in value && 'idle' in value) {
    const { rows, idle } = value;
    const isIdle =
      typeof idle === 'object' &&
      idle !== null &&
      'dollarsPerMonth' in idle &&
      'bill' in idle &&
      isBill(idle.bill);
    if (Array.isArray(rows) && rows.every(isRow) && isIdle) return { rows, idle: idle as Idle };
  }
  throw new ResultError('this is no result of bench:cloud; measure again with npm run bench:cloud -- --save');
}

/** One line a row, so that a difference between two results can be read. */
export function formatResult({ rows, idle }: Result): string {
  const lines = rows.map((row) => `    ${JSON.stringify(row)}`).join(',\n');
  return `{\n  "rows": [\n${lines}\n  ],\n  "idle": ${JSON.stringify(idle)}\n}\n`;
}

/** The former result with the new one's rows in the place of theirs, in the order of the default list. */
export function merged(former: Result | undefined, { rows, idle }: Result): Result {
  const kept = (former?.rows ?? []).filter((row) => !rows.some((each) => isSame(each, row)));
  const all = [...kept, ...rows];
  const listed = DEFAULT_ROWS.flatMap((spec) => all.filter((row) => isSame(row, spec)));
  const others = all.filter((row) => !listed.includes(row));
  return { rows: [...listed, ...others], idle };
}
