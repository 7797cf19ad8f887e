/** Results as a person reads them: tables, and a line of text for each group over time. */
import Table from 'cli-table3';
import type { Run } from '../simulate/fairness.ts';

const BARS = '▁▂▃▄▅▆▇█';
const CHART_WIDTH = 60;
const MOST_ROWS = 40;

/** A table with a header. Long ones are cut, and say so. */
export function table(
  head: readonly string[],
  rows: readonly (readonly unknown[])[],
  mostRows = MOST_ROWS,
): string {
  const drawn = new Table({
    head: [...head],
    style: { head: [], border: [], compact: true },
    colAligns: head.map((_, index) => (index === 0 ? 'left' : 'right')),
  });
  for (const row of rows.slice(0, mostRows)) drawn.push(row.map(cell));
  const cut = rows.length - mostRows;
  return cut > 0 ? `${drawn.toString()}\n… and ${cut} more (--json shows all)` : drawn.toString();
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
export function chart(runs: readonly Run[], untilMs: number): string {
  const horizonMs = horizonOf(runs, untilMs);
  const groups = new Map<string, Run[]>();
  for (const run of runs) {
    const group = groups.get(run.group);
    if (group === undefined) groups.set(run.group, [run]);
    else group.push(run);
  }
  const names = [...groups.keys()].sort();
  const shown = names.slice(0, MOST_ROWS);
  const lines = shown.map((name) => ({ name, ...sample(groups.get(name) ?? [], horizonMs) }));
  const most = Math.max(1, ...lines.flatMap(({ running }) => running));
  const width = Math.max(0, ...lines.map(({ name }) => printable(name).length));
  const drawn = lines.map(({ name, running, waits }) => {
    const cells = running.map((level, index) =>
      level > 0 ? bar(level, most) : waits[index] === true ? '·' : ' ',
    );
    return `${printable(name).padEnd(width)} │${cells.join('')}│ most ${number(round(Math.max(0, ...running)))}`;
  });
  const rest = names.length > shown.length ? [`… and ${names.length - shown.length} more`] : [];
  return [
    ...drawn,
    ...rest,
    `${''.padEnd(width)}  0${duration(horizonMs).padStart(CHART_WIDTH - 1)}   (bars: jobs that run; dots: jobs that wait)`,
  ].join('\n');
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
): { readonly running: readonly number[]; readonly waits: readonly boolean[] } {
  const columnMs = horizonMs / CHART_WIDTH;
  const running = new Array<number>(CHART_WIDTH).fill(0);
  const waits = new Array<boolean>(CHART_WIDTH).fill(false);
  const column = (atMs: number): number =>
    Math.min(CHART_WIDTH - 1, Math.max(0, Math.floor(atMs / columnMs)));
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
