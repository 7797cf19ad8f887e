/** Ids of a worker's incarnations. They sort by start time, so a later incarnation supersedes an earlier one. */

const INSTANT_DIGITS = 15;
const TAIL_DIGITS = 8;

/**
 * @param startedAtMs - epoch milliseconds
 * @param random - evenly drawn from [0, 1); distinguishes two incarnations that started in the same millisecond
 */
export function incarnationOf(startedAtMs: number, random: number): string {
  const instant = String(Math.max(0, Math.floor(startedAtMs))).padStart(INSTANT_DIGITS, '0');
  const tail = Math.floor(random * 16 ** TAIL_DIGITS)
    .toString(16)
    .padStart(TAIL_DIGITS, '0');
  return `${instant}-${tail}`;
}
