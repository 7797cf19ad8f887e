/** What a run came to, for people and for programs. */
import Table from 'cli-table3';
import type { Manifest, ManifestJob } from './manifest.ts';
import type { Skipped } from './walk.ts';

/** Milliseconds. */
export interface Spread {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

export interface Failure {
  readonly path: string;
  readonly type: string;
  readonly attempts: number;
  readonly error: string;
}

export interface Summary {
  readonly files: number;
  readonly jobs: {
    readonly total: number;
    readonly byState: Readonly<Record<string, number>>;
    readonly byType: Readonly<Record<string, number>>;
    readonly byFleet: Readonly<Record<string, number>>;
  };
  /** From putting the first event to the end of the last job. */
  readonly durationMs: number;
  readonly jobsPerSec: number;
  /** From submit to start. */
  readonly waitingMs: Spread;
  /** From start to finish. */
  readonly runMs: Spread;
  readonly failed: readonly Failure[];
  readonly skipped: readonly Skipped[];
  readonly out: string;
  readonly manifest: string;
}

/** The nearest-rank percentile of sorted values; 0 of none. */
function percentile(sorted: readonly number[], fraction: number): number {
  return sorted[Math.max(0, Math.ceil(fraction * sorted.length) - 1)] ?? 0;
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1].map((fraction) => percentile(sorted, fraction));
  return { p50: p50 ?? 0, p90: p90 ?? 0, p99: p99 ?? 0, max: max ?? 0 };
}

function countBy(jobs: readonly ManifestJob[], nameOf: (job: ManifestJob) => string): Record<string, number> {
  const counts = [...Map.groupBy(jobs, nameOf)].map(([name, { length }]) => [name, length] as const);
  return Object.fromEntries(counts.sort(([a], [b]) => (a < b ? -1 : 1)));
}

const between = (from: string | null, to: string | null): readonly number[] =>
  from === null || to === null ? [] : [Date.parse(to) - Date.parse(from)];

export function summaryOf(
  { files, skipped }: Manifest,
  where: { readonly out: string; readonly manifest: string },
  durationMs: number,
): Summary {
  const jobs = files.flatMap((file) => file.jobs);
  return {
    files: files.length,
    jobs: {
      total: jobs.length,
      byState: countBy(jobs, (job) => job.state),
      byType: countBy(jobs, (job) => job.type),
      byFleet: countBy(jobs, (job) => job.fleet ?? 'none'),
    },
    durationMs: Math.round(durationMs),
    jobsPerSec: durationMs > 0 ? Math.round((jobs.length / durationMs) * 10_000) / 10 : 0,
    waitingMs: spreadOf(jobs.flatMap((job) => between(job.submittedAt, job.startedAt))),
    runMs: spreadOf(jobs.flatMap((job) => between(job.startedAt, job.finishedAt))),
    failed: files.flatMap(({ path, jobs: own }) =>
      own
        .filter((job) => job.state !== 'succeeded')
        .map(({ type, attempts, error = '', state }) => ({ path, type, attempts, error: error || state })),
    ),
    skipped,
    ...where,
  };
}

const LISTED_MAX = 20;

const seconds = (ms: number): string =>
  ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;

/** Line ends and control characters of a file's name would break the list. */
const printable = (text: string): string => JSON.stringify(text).slice(1, -1);

const inWords = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ');

const spreadInWords = ({ p50, p90, p99, max }: Spread): string =>
  `half within ${seconds(p50)}, 90 % ${seconds(p90)}, 99 % ${seconds(p99)}, all ${seconds(max)}`;

function list(title: string, lines: readonly string[]): string {
  if (lines.length === 0) return '';
  const more = lines.length > LISTED_MAX ? [`  and ${lines.length - LISTED_MAX} more in manifest.json`] : [];
  return `\n${[title, ...lines.slice(0, LISTED_MAX).map((line) => `  ${line}`), ...more].join('\n')}\n`;
}

/** For a terminal. */
export function formatSummary(summary: Summary): string {
  const { jobs, failed, skipped } = summary;
  const table = new Table({
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
    style: { head: [], border: [] },
  });
  table.push(
    ['files', `${summary.files}${skipped.length === 0 ? '' : ` (${skipped.length} other entries skipped)`}`],
    ['jobs', inWords(jobs.byState)],
    ['types', inWords(jobs.byType)],
    ['fleets', inWords(jobs.byFleet)],
    ['took', `${seconds(summary.durationMs)}, ${summary.jobsPerSec} jobs a second`],
    ['waiting', spreadInWords(summary.waitingMs)],
    ['running', spreadInWords(summary.runMs)],
    ['results', printable(summary.out)],
  );
  return [
    table.toString(),
    list(
      'Failed:',
      failed.map(({ path, error }) => `${printable(path)}: ${printable(error)}`),
    ),
    list(
      'Skipped:',
      skipped.map(({ path, reason }) => `${printable(path)}: ${printable(reason)}`),
    ),
  ].join('\n');
}
