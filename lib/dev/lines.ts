/** The output of the development server: a line for each job when it ends or waits, and its reason. */
import { waitsForText } from '../cli/explanation.ts';
import { duration, printable } from '../cli/report.ts';
import { isTerminal, type Job } from '../core/job.ts';
import type { LiveExplanation } from '../operate/explain.ts';
import type { StoreEvent } from '../store/memory/imitation/imitation.ts';

const ID_CHARS = 8;
/** The most lines a second; more are counted instead. */
const LINES_PER_SECOND = 30;
/** Milliseconds after which a waiting job gets a line. */
const WAITED_MS = 1_000;

export interface LinesOptions {
  readonly write: (line: string) => void;
  readonly columns: () => number;
  readonly nowMs: () => number;
  readonly explain: (jobId: string) => Promise<LiveExplanation | undefined>;
}

export class Lines {
  readonly #options: LinesOptions;
  readonly #waiting = new Map<string, number>();
  readonly #told = new Set<string>();
  #second = 0;
  #written = 0;
  #leftOut = 0;
  readonly #timer: NodeJS.Timeout;

  constructor(options: LinesOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#tellWaiting(), 500);
    this.#timer.unref();
  }

  readonly observe = (event: StoreEvent<Job>): void => {
    if (event.kind !== 'job') return;
    const { newJob: job, oldJob } = event;
    if (job.state === oldJob?.state) {
      if (job.hung !== undefined && oldJob.hung === undefined)
        this.#job('!', job, 'ignores its signal, and holds its slot');
      return;
    }
    this.#waiting.delete(job.id);
    if (job.state === 'pending') this.#waiting.set(job.id, performance.now());
    if (oldJob?.state === 'running' && job.state === 'scheduled')
      this.#job('↻', job, againText(job, this.#options.nowMs()));
    if (!isTerminal(job.state)) return;
    this.#told.delete(job.id);
    const took =
      job.startedAtMs === undefined ? '' : ` in ${duration((job.finishedAtMs ?? 0) - job.startedAtMs)}`;
    if (job.state === 'succeeded') this.#job('✓', job, `succeeded${took}`);
    else this.#job('✗', job, `${job.state}${job.error === undefined ? '' : `: ${errorOf(job)}`}`);
  };

  say(text: string): void {
    this.#options.write(text);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #tellWaiting(): Promise<void> {
    const before = performance.now() - WAITED_MS;
    const late = [...this.#waiting]
      .filter(([id, sinceMs]) => sinceMs < before && !this.#told.has(id))
      .slice(0, 5);
    for (const [id] of late) {
      this.#told.add(id);
      const explanation = await this.#options.explain(id);
      const [first] = explanation?.waitsFor ?? [];
      if (explanation !== undefined && first !== undefined)
        this.#job('·', explanation.job, `waits for ${waitsForText(first, explanation)}`);
    }
  }

  #job(mark: string, { id, type, attempt }: Pick<Job, 'id' | 'type' | 'attempt'>, text: string): void {
    const second = Math.floor(performance.now() / 1_000);
    if (second !== this.#second) {
      if (this.#leftOut > 0) this.#options.write(`  … and ${this.#leftOut} more lines`);
      this.#second = second;
      this.#written = 0;
      this.#leftOut = 0;
    }
    this.#written += 1;
    if (this.#written > LINES_PER_SECOND) {
      this.#leftOut += 1;
      return;
    }
    const at = new Date(this.#options.nowMs()).toISOString().slice(11, 19);
    const again = attempt > 1 ? ` (attempt ${attempt})` : '';
    this.#options.write(
      cut(
        `${at} ${mark} ${printable(type)} ${id.slice(0, ID_CHARS)} ${text}${again}`,
        this.#options.columns(),
      ),
    );
  }
}

const againText = (job: Job, nowMs: number): string =>
  job.error?.name === 'WorkerStopped'
    ? 'given back by its worker'
    : `tried again in ${duration(Math.max(0, job.runAtMs - nowMs))}: ${errorOf(job)}`;

const errorOf = ({ error }: Pick<Job, 'error'>): string =>
  error === undefined ? 'unknown' : printable(`${error.name}: ${error.message}`).replaceAll('\n', ' ');

const cut = (line: string, columns: number): string =>
  line.length <= columns ? line : `${line.slice(0, columns - 1)}…`;
