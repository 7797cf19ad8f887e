/** How figures are written in tables. */

/** Three digits that say something, thousands apart. */
export function figure(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en-US');
  if (value >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

export const dollars = (value: number): string => `$${value >= 1_000 ? figure(value) : value.toFixed(2)}`;

/** Columns side by side, the first to the left, the others to the right. */
export function table(lines: readonly (readonly string[])[]): string {
  const widths = (lines[0] ?? []).map((_, column) =>
    Math.max(...lines.map((line) => (line[column] ?? '').length)),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) =>
          column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export const markdownTable = (lines: readonly (readonly string[])[]): string => {
  const [head = [], ...body] = lines;
  const rule = head.map((_, column) => (column === 0 ? '---' : '--:'));
  return [head, rule, ...body].map((line) => `| ${line.join(' | ')} |`).join('\n');
};
