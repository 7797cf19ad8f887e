/** From a folder to what is to be submitted: one job for each of its files. */
import { createHash } from 'node:crypto';
import { jobIdOf } from '../../lib/submit/request.ts';
import { runCommand } from '../../lib/testing/command.ts';
import { classify } from './classify.ts';
import { topDirectory } from './names.ts';
import { type Skipped, type Walked, walk } from './walk.ts';
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

/** Some of what is installed: packages of a handful of files, and real images. What is not there is left out. */
const DEPENDENCIES = [
  ...['sharp', 'constructs', 'commander', 'croner', 'cli-table3', 'semver', 'retry'],
  '@img',
  ...['aws-cdk-lib/aws-synthetics/images', 'aws-cdk-lib/cloudformation-include/doc-images'],
  '@vitest/istanbul-lib-report/dist/reports/html-spa/assets',
].map((name) => `node_modules/${name}`);

/** What a checkout holds beside its sources. */
const NOT_SOURCES = [
  '.git',
  'node_modules',
  '.fairlead',
  '.localstack',
  'dist',
  'cdk.out',
  'coverage',
  'reports',
];

/** The files under version control; all that look like sources where there is no git. */
async function walkProject(project: string, signal: AbortSignal): Promise<Walked> {
  const git = await runCommand('git', ['ls-files', '-z'], { cwd: project, env: process.env, signal });
  const tracked = git.code === 0 ? git.output.split('\0').filter((path) => path !== '') : [];
  const sources =
    tracked.length > 0
      ? await walk(project, { from: tracked.sort() })
      : await walk(project, { excludeNames: NOT_SOURCES });
  const dependencies = await walk(project, { from: DEPENDENCIES });
  return {
    files: [...sources.files, ...dependencies.files],
    skipped: [...sources.skipped, ...dependencies.skipped],
  };
}

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
  /** Undefined: the project. */
  readonly input?: string | undefined;
  readonly project: string;
  /** What this program keeps for itself; never input. */
  readonly dataDir: string;
  readonly out: string;
  /** Different for every run: a run's jobs are its own, also where an earlier run's are kept. */
  readonly run: string;
  readonly signal: AbortSignal;
}

export async function plan(options: PlanOptions): Promise<Plan> {
  const { input, project, dataDir, out, run, signal } = options;
  const { files, skipped } =
    input === undefined
      ? await walkProject(project, signal)
      : // What this very run writes is not its input.
        await walk(input, { exclude: [out, dataDir] });
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
