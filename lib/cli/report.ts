/** Output for people: tables, and a chart with one line of text for each group. */
import Table from 'cli-table3';
import stringWidth from 'string-width';
import type { Run } from '../simulate/fairness.ts';

const BARS = '▁▂▃▄▅▆▇█';
const CHART_WIDTH = 60;
const CHART_NAME_MAX = 24;
/** The columns that a chart's line takes besides names and bars: a blank, two borders, and the maximum. */
const CHART_FRAME = 16;
/** The most rows of a simulation's tables and of its chart. */
export const MOST_ROWS = 40;

/** The width of a terminal whose width is not known. */
export const WIDTH = 80;

/** A column of a table, and how it gives way if the terminal is too narrow. */
export interface Column {
  readonly name: string;
  /** Columns of a lower rank are kept first; columns of rank 0 are always shown. */
  readonly rank: number;
  /** Whether it is aligned right and never cut, as numbers and durations are. */
  readonly isNumber?: boolean;
  /**
   * The least width to which text is cut before the column is left out. Infinite for ids, which are of no use when
   * cut.
   */
  readonly least: number;
}

/** The least width of a text column by default. */
const TEXT_WIDTH_LEAST = 12;
/** The least width of any column, if none can be left out. */
const CELL_WIDTH_LEAST = 4;

export const textColumn = (name: string, rank = 0, least = TEXT_WIDTH_LEAST): Column => ({
  name,
  rank,
  least,
});
export const uncutColumn = (name: string, rank = 0): Column =>
  textColumn(name, rank, Number.POSITIVE_INFINITY);
export const numberColumn = (name: string, rank = 0): Column => ({
  ...uncutColumn(name, rank),
  isNumber: true,
});

/** Characters of the frame for each column of a table: a border and two blanks. One more border ends the line. */
const FRAME_WIDTH = 3;
/**
 * Returns a table that is no wider than the terminal. Cut texts end with …, and columns that are left out are named
 * below it.
 */
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
    colWidths: widths.map((own) => own + FRAME_WIDTH - 1),
  });
  // A text that will be cut need not be measured as a whole.
  for (const row of cells)
    drawn.push(shown.map((at, index) => (row[at] ?? '').slice(0, 8 * ((widths[index] ?? 0) + 1))));
  const hidden = columns.filter((_, at) => !shown.includes(at)).map(({ name }) => name);
  return [
    drawn.toString(),
    ...(rows.length > shownRows.length
      ? [`… and ${rows.length - shownRows.length} more (--wide and --json show all)`]
      : []),
    ...(hidden.length > 0 ? [`no room for: ${hidden.join(', ')} (see --wide)`] : []),
  ].join('\n');
}

/** Returns the indexes of the columns that fit, and their widths. */
function layout(
  columns: readonly Column[],
  natural: readonly number[],
  width: number,
): { readonly shown: readonly number[]; readonly widths: readonly number[] } {
  const rankAt = (at: number): number => columns[at]?.rank ?? 0;
  const least = (at: number): number => Math.min(natural[at] ?? 0, columns[at]?.least ?? TEXT_WIDTH_LEAST);
  const byRank = columns.map((_, at) => at).sort((one, other) => rankAt(one) - rankAt(other));
  const shown: number[] = [];
  let spare = width - 1;
  for (const at of byRank) {
    const taken = least(at) + FRAME_WIDTH;
    if (rankAt(at) > 0 && taken > spare) continue;
    shown.push(at);
    spare -= taken;
  }
  shown.sort((one, other) => one - other);
  const widths = shown.map(least);
  while (spare > 0) {
    const growing = shown.flatMap((at, index) => ((widths[index] ?? 0) < (natural[at] ?? 0) ? [index] : []));
    const [first, ...others] = growing;
    if (first === undefined) break;
    // Without a limit, each column is as wide as its longest cell.
    if (spare === Number.POSITIVE_INFINITY) return { shown, widths: shown.map((at) => natural[at] ?? 0) };
    const narrowest = others.reduce(
      (best, index) => ((widths[index] ?? 0) < (widths[best] ?? 0) ? index : best),
      first,
    );
    widths[narrowest] = (widths[narrowest] ?? 0) + 1;
    spare -= 1;
  }
  // No other column can be left out: the widest one is cut, numbers included.
  while (spare < 0) {
    const widest = widths.indexOf(Math.max(...widths));
    if ((widths[widest] ?? 0) <= CELL_WIDTH_LEAST) break;
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

/** Returns a number in at most nine digits. */
export function number(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(9)));
}

/**
 * Returns a text without control characters, which come from users and could steer a terminal: their codes are shown
 * instead.
 */
export function printable(text: string): string {
  if (text === '') return '(empty)';
  return text.replace(/\p{Cc}|\p{Cf}/gu, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`);
}

/** Returns one line for each name and value. */
export function fieldLines(rows: readonly (readonly [name: string, value: unknown])[]): readonly string[] {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${printable(String(value ?? '-'))}`);
}

/** Returns an instant with milliseconds. */
export const instant = (atMs: number | undefined): string =>
  atMs === undefined ? '-' : new Date(atMs).toISOString();

/** Returns an instant without milliseconds, for tables. */
export const instantWithoutMs = (atMs: number | undefined): string => instant(atMs).replace(/\.\d{3}Z$/, 'Z');

/** Milliseconds in a unit that people read. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${number(Math.round(ms))} ms`;
  if (ms < 60_000) return `${number(Math.round(ms / 10) / 100)} s`;
  if (ms < 3_600_000) return `${number(Math.round(ms / 600) / 100)} min`;
  return `${number(Math.round(ms / 36_000) / 100)} h`;
}

/**
 * Returns one line for each group: bars show how many of its jobs run, all on one scale; a dot shows that jobs only
 * wait.
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
    return `${fitTo(printable(name), nameWidth)} │${cells.join('')}│ most ${number(round(Math.max(0, ...running)))}`;
  });
  const rest = names.length > shown.length ? [`… and ${names.length - shown.length} more`] : [];
  return [
    ...drawn,
    ...rest,
    `${''.padEnd(nameWidth)}  0${duration(horizonMs).padStart(columns - 1)}`,
    'bars: running jobs; dots: waiting jobs',
  ].join('\n');
}

/** Text padded or cut to a width. */
function fitTo(text: string, width: number): string {
  if (stringWidth(text) <= width) return text + ' '.repeat(width - stringWidth(text));
  let cut = text.slice(0, width);
  while (stringWidth(cut) > width - 1) cut = cut.slice(0, -1);
  return fitTo(`${cut}…`, width);
}

/** Returns the end of the last run, or of the scenario if that is earlier. */
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

/** Returns, for each column, how many jobs run on average, and whether any waits. */
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
