/** Results as a person reads them: tables, and a line of text for each group over time. */
import Table from 'cli-table3';
import stringWidth from 'string-width';
import type { Run } from '../simulate/fairness.ts';

const BARS = '▁▂▃▄▅▆▇█';
const CHART_WIDTH = 60;
const CHART_NAME_MAX = 24;
/** What stands beside names and bars: a blank, two borders, and how many ran at most. */
const CHART_FRAME = 16;
/** Of a simulation's tables, and of its chart. */
export const MOST_ROWS = 40;

/** How wide a terminal is that does not say. */
export const WIDTH = 80;

/** A column, and what becomes of it where the terminal has no room. */
export interface Column {
  readonly name: string;
  /** The lower, the sooner it gets room; 0 always does. */
  readonly rank: number;
  /** Numbers, durations and the like stand at the right, and are never cut. */
  readonly isNumber?: boolean;
  /** A text is cut to this before a column is left out: an id is of use as a whole only. */
  readonly least: number;
}

/** A text is cut to this, unless its column says otherwise; and anything to the least, where nothing can be left out. */
const CUT_TO = 12;
const CUT_TO_LEAST = 4;

export const words = (name: string, rank = 0, least = CUT_TO): Column => ({ name, rank, least });
export const whole = (name: string, rank = 0): Column => words(name, rank, Number.POSITIVE_INFINITY);
export const amount = (name: string, rank = 0): Column => ({
  ...whole(name, rank),
  isNumber: true,
});

/** What the frame takes of a line: a border and two blanks for each column, and the last border. */
const FRAME = 3;
/** A table with a header that is no wider than the terminal. What is cut ends with …, and what is left out is named. */
export function table(
  columns: readonly Column[],
  rows: readonly (readonly unknown[])[],
  width: number,
  mostRows = Number.POSITIVE_INFINITY,
): string {
  const shownRows = width === Number.POSITIVE_INFINITY ? rows : rows.slice(0, mostRows);
  const cells = shownRows.map((row) => columns.map((_, at) => cell(row[at])));
  const natural = columns.map(({ name }, at) =>
    cells.reduce((most, row) => Math.max(most, stringWidth(row[at] ?? '')), stringWidth(name)),
  );
  const { shown, widths } = layout(columns, natural, width);
  const drawn = new Table({
    head: shown.map((at) => columns[at]?.name ?? ''),
    style: { head: [], border: [], compact: true },
    colAligns: shown.map((at) => (columns[at]?.isNumber === true ? 'right' : 'left')),
    colWidths: widths.map((own) => own + FRAME - 1),
  });
  // What is cut anyway need not be measured as a whole.
  for (const row of cells)
    drawn.push(shown.map((at, place) => (row[at] ?? '').slice(0, 8 * ((widths[place] ?? 0) + 1))));
  const hidden = columns.filter((_, at) => !shown.includes(at)).map(({ name }) => name);
  return [
    drawn.toString(),
    ...(rows.length > shownRows.length
      ? [`… and ${rows.length - shownRows.length} more (--wide and --json show all)`]
      : []),
    ...(hidden.length > 0 ? [`no room for: ${hidden.join(', ')} (see --wide)`] : []),
  ].join('\n');
}

/** Which columns there is room for, by their places, and how wide each is. */
function layout(
  columns: readonly Column[],
  natural: readonly number[],
  width: number,
): { readonly shown: readonly number[]; readonly widths: readonly number[] } {
  const rankAt = (at: number): number => columns[at]?.rank ?? 0;
  const least = (at: number): number => Math.min(natural[at] ?? 0, columns[at]?.least ?? CUT_TO);
  const byRank = columns.map((_, at) => at).sort((one, other) => rankAt(one) - rankAt(other));
  const shown: number[] = [];
  let spare = width - 1;
  for (const at of byRank) {
    const taken = least(at) + FRAME;
    if (rankAt(at) > 0 && taken > spare) continue;
    shown.push(at);
    spare -= taken;
  }
  shown.sort((one, other) => one - other);
  const widths = shown.map(least);
  while (spare > 0) {
    const growing = shown.flatMap((at, place) => ((widths[place] ?? 0) < (natural[at] ?? 0) ? [place] : []));
    const [first, ...others] = growing;
    if (first === undefined) break;
    // Unbounded, each is as wide as its longest cell.
    if (spare === Number.POSITIVE_INFINITY) return { shown, widths: shown.map((at) => natural[at] ?? 0) };
    const narrowest = others.reduce(
      (best, place) => ((widths[place] ?? 0) < (widths[best] ?? 0) ? place : best),
      first,
    );
    widths[narrowest] = (widths[narrowest] ?? 0) + 1;
    spare -= 1;
  }
  // Nothing more can be left out: the widest is cut, whatever it is.
  while (spare < 0) {
    const widest = widths.indexOf(Math.max(...widths));
    if ((widths[widest] ?? 0) <= CUT_TO_LEAST) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
    spare += 1;
  }
  return { shown, widths };
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (typeof value === 'number') return number(value);
  return typeof value === 'string' ? printable(value) : JSON.stringify(value);
}

/** Short, without a false precision. */
export function number(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(9)));
}

/** Names come from files: what could steer a terminal is shown, not sent. */
export function printable(text: string): string {
  if (text === '') return '(empty)';
  return text.replace(/\p{Cc}|\p{Cf}/gu, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`);
}

/** Names with what they stand for, a line each. */
export function fields(rows: readonly (readonly [name: string, value: unknown])[]): readonly string[] {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${printable(String(value ?? '-'))}`);
}

/** An instant of which nothing is lost. */
export const instant = (atMs: number | undefined): string =>
  atMs === undefined ? '-' : new Date(atMs).toISOString();

/** For a table: without the milliseconds. */
export const shortly = (atMs: number | undefined): string => instant(atMs).replace(/\.\d{3}Z$/, 'Z');

/** Milliseconds as a person says them. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${number(Math.round(ms))} ms`;
  if (ms < 60_000) return `${number(Math.round(ms / 10) / 100)} s`;
  if (ms < 3_600_000) return `${number(Math.round(ms / 600) / 100)} min`;
  return `${number(Math.round(ms / 36_000) / 100)} h`;
}

/**
 * One line of text per group: how many of its jobs run, as bars, all groups on one scale; a dot where jobs only wait.
 */
export function chart(runs: readonly Run[], untilMs: number, width: number): string {
  const horizonMs = horizonOf(runs, untilMs);
  const groups = new Map<string, Run[]>();
  for (const run of runs) {
    const group = groups.get(run.group);
    if (group === undefined) groups.set(run.group, [run]);
    else group.push(run);
  }
  const names = [...groups.keys()].sort();
  const shown = names.slice(0, MOST_ROWS);
  const longest = Math.max(0, ...shown.map((name) => stringWidth(printable(name))));
  const nameWidth = width === Number.POSITIVE_INFINITY ? longest : Math.min(longest, CHART_NAME_MAX);
  const columns = Math.max(1, Math.min(CHART_WIDTH, width - nameWidth - CHART_FRAME));
  const lines = shown.map((name) => ({ name, ...sample(groups.get(name) ?? [], horizonMs, columns) }));
  const most = Math.max(1, ...lines.flatMap(({ running }) => running));
  const drawn = lines.map(({ name, running, waits }) => {
    const cells = running.map((level, index) =>
      level > 0 ? bar(level, most) : waits[index] === true ? '·' : ' ',
    );
    return `${padded(printable(name), nameWidth)} │${cells.join('')}│ most ${number(round(Math.max(0, ...running)))}`;
  });
  const rest = names.length > shown.length ? [`… and ${names.length - shown.length} more`] : [];
  return [
    ...drawn,
    ...rest,
    `${''.padEnd(nameWidth)}  0${duration(horizonMs).padStart(columns - 1)}`,
    'bars: jobs that run; dots: jobs that wait',
  ].join('\n');
}

/** As wide as told: shorter with blanks, longer cut. */
function padded(text: string, width: number): string {
  if (stringWidth(text) <= width) return text + ' '.repeat(width - stringWidth(text));
  let cut = text.slice(0, width);
  while (stringWidth(cut) > width - 1) cut = cut.slice(0, -1);
  return padded(`${cut}…`, width);
}

/** Up to the end of the last run, but not beyond the scenario's. */
function horizonOf(runs: readonly Run[], untilMs: number): number {
  let lastMs = 1;
  for (const { readyAtMs, startMs, endMs } of runs) {
    lastMs = Math.max(lastMs, startMs === undefined ? readyAtMs : (endMs ?? untilMs));
  }
  return Math.min(lastMs, Math.max(1, untilMs));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function bar(level: number, most: number): string {
  return BARS.charAt(Math.min(BARS.length - 1, Math.ceil((level / most) * BARS.length) - 1));
}

/** How many run on average in each column, and whether any waits in it. */
function sample(
  runs: readonly Run[],
  horizonMs: number,
  columns: number,
): { readonly running: readonly number[]; readonly waits: readonly boolean[] } {
  const columnMs = horizonMs / columns;
  const running = new Array<number>(columns).fill(0);
  const waits = new Array<boolean>(columns).fill(false);
  const column = (atMs: number): number => Math.min(columns - 1, Math.max(0, Math.floor(atMs / columnMs)));
  for (const { readyAtMs, startMs, endMs } of runs) {
    const startsMs = startMs ?? horizonMs;
    if (startsMs > readyAtMs && readyAtMs < horizonMs) {
      waits.fill(true, column(readyAtMs), column(Math.max(readyAtMs, startsMs - columnMs / 2)) + 1);
    }
    if (startMs === undefined) continue;
    const endsMs = Math.min(horizonMs, endMs ?? horizonMs);
    for (let index = column(startMs); index <= column(endsMs) && startMs < endsMs; index += 1) {
      const from = Math.max(startMs, index * columnMs);
      const to = Math.min(endsMs, (index + 1) * columnMs);
      running[index] = (running[index] ?? 0) + Math.max(0, to - from) / columnMs;
    }
  }
  return { running, waits };
}
