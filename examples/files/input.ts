/** From a folder to what is to be submitted: one job for each of its files. */
import { createHash } from 'node:crypto';
import { jobIdOf } from '../../lib/submit/request.ts';
import { classify } from './classify.ts';
import { topDirectory } from './names.ts';
import { type Skipped, walk } from './walk.ts';
import type { FileJobType, FilePayload } from './work.ts';

/** A job as the bus takes it: an entry of `jobs` in a `Job Requested` event. */
export interface FileJobRequest {
  readonly type: FileJobType;
  readonly idempotencyKey: string;
  readonly payload: FilePayload;
  readonly fairnessKey: string;
  readonly resourceId: string;
  readonly priority: number;
}

export interface PlannedFile {
  /** Relative to the input folder. */
  readonly path: string;
  readonly jobId: string;
  readonly request: FileJobRequest;
}

export interface Plan {
  readonly files: readonly PlannedFile[];
  readonly skipped: readonly Skipped[];
}

/** Images are looked at first; large things can wait. */
const PRIORITY: Readonly<Record<FileJobType, number>> = { thumbnail: 6, index: 4, compress: 2 };

const FILES_AT_ONCE = 16;

/** The same for each item, a few at once; the answers stand in the order of the items. */
async function mapSome<Item, Answer>(
  items: readonly Item[],
  act: (item: Item) => Promise<Answer>,
): Promise<readonly Answer[]> {
  const answers: Answer[] = new Array(items.length);
  const rest = items.entries();
  const work = async (): Promise<void> => {
    // Taking the next item is one step: no other worker gets it too.
    for (const [at, item] of rest) answers[at] = await act(item);
  };
  await Promise.all(Array.from({ length: FILES_AT_ONCE }, work));
  return answers;
}

export interface PlanOptions {
  readonly input: string;
  /** What this program keeps for itself; never input. */
  readonly dataDir: string;
  readonly out: string;
  /** Different for every run: a run's jobs are its own, also where an earlier run's are kept. */
  readonly run: string;
  readonly signal: AbortSignal;
}

export async function plan(options: PlanOptions): Promise<Plan> {
  const { input, dataDir, out, run, signal } = options;
  // What this very run writes is not its input.
  const { files, skipped } = await walk(input, { exclude: [out, dataDir] });
  const planned = await mapSome(files, async ({ path, file }): Promise<PlannedFile> => {
    signal.throwIfAborted();
    const type = await classify(path, file);
    const directory = topDirectory(path);
    const idempotencyKey = `files/${run}/${createHash('sha256').update(path).digest('hex')}`;
    return {
      path,
      jobId: jobIdOf(idempotencyKey),
      request: {
        type,
        idempotencyKey,
        payload: { path, file, out },
        fairnessKey: directory,
        resourceId: directory,
        priority: PRIORITY[type],
      },
    };
  });
  return { files: planned, skipped };
}
