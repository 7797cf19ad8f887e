/** Dead letters, which are failed jobs that were not dealt with yet, and their redrive. */
import type { Tags } from '../core/job.ts';
import { redriveJob } from '../operate/redrive.ts';
import { checked, SHAPES } from './arguments.ts';
import type { ClientContexts } from './contexts.ts';
import type { ClientJob } from './job.ts';

export interface DeadLetterFilter {
  readonly type?: string | undefined;
  readonly fairnessKey?: string | undefined;
  /** Only jobs that have all these tags. */
  readonly tags?: Tags | undefined;
  /** The name of the error that ended the last attempt. */
  readonly errorName?: string | undefined;
  /** ISO 8601 with a zone; the instant itself is included. */
  readonly failedAfter?: string | undefined;
  /** ISO 8601 with a zone; the instant itself is not included. */
  readonly failedBefore?: string | undefined;
}

export interface RetryResult {
  /** The id of the new job. */
  readonly jobId: string;
  /** Whether an earlier call made the new job. */
  readonly repeated: boolean;
}

/** The outcome for one dead letter. */
export type RedriveEntry = {
  readonly deadLetterId: string;
  readonly type: string;
} & (
  | ({ readonly kind: 'redriven' } & RetryResult)
  /** A dry run found the dead letter. */
  | { readonly kind: 'matches' }
  /** The job is not a dead letter any more, or no worker runs its type. */
  | { readonly kind: 'skipped'; readonly reason: string }
);

/** The failed jobs that match the filter. @throws ValidationError for the filter */
export function deadLettersOf(
  filter: DeadLetterFilter,
  failedJobs: (filter: Pick<DeadLetterFilter, 'type' | 'fairnessKey' | 'tags'>) => AsyncIterable<ClientJob>,
): AsyncGenerator<ClientJob> {
  const { errorName, failedAfter, failedBefore, ...rest } = checked(
    SHAPES.deadLetterFilter,
    filter,
    'filter',
  );
  const fromMs = failedAfter === undefined ? Number.NEGATIVE_INFINITY : Date.parse(failedAfter);
  const untilMs = failedBefore === undefined ? Number.POSITIVE_INFINITY : Date.parse(failedBefore);
  return matching(failedJobs(rest), (job) => {
    const failedAtMs = job.finishedAtMs ?? 0;
    const isInTime = failedAtMs >= fromMs && failedAtMs < untilMs;
    return isInTime && (errorName === undefined || job.error?.name === errorName);
  });
}

/** Tries dead letters again, each as a new job; at most `limit` of them. */
export async function* redriveEach(
  contexts: ClientContexts,
  deadLetters: AsyncIterable<ClientJob>,
  {
    limit,
    dryRun,
    actor,
  }: { readonly limit: number; readonly dryRun: boolean; readonly actor: string | undefined },
): AsyncGenerator<RedriveEntry> {
  let left = limit;
  for await (const { id, type } of deadLetters) {
    const named = { deadLetterId: id, type };
    const outcome = dryRun
      ? ({ kind: 'matches' } as const)
      : await redriveJob(await contexts.latest(), id, actor);
    switch (outcome.kind) {
      case 'matches':
        yield { ...named, kind: 'matches' };
        break;
      case 'redriven':
      case 'repeated':
        yield { ...named, kind: 'redriven', jobId: outcome.jobId, repeated: outcome.kind === 'repeated' };
        break;
      case 'missing':
        yield { ...named, kind: 'skipped', reason: 'its record has expired' };
        break;
      case 'notFailed':
        yield { ...named, kind: 'skipped', reason: `it is ${outcome.job.state}` };
        break;
      case 'unreadable':
        yield { ...named, kind: 'skipped', reason: `its record cannot be read: ${outcome.job.unreadable}` };
        break;
      case 'unknownType':
        yield { ...named, kind: 'skipped', reason: 'no worker runs its type any more' };
        break;
    }
    left -= 1;
    if (left === 0) return;
  }
}

async function* matching<Value>(
  values: AsyncIterable<Value>,
  matches: (value: Value) => boolean,
): AsyncGenerator<Value> {
  for await (const value of values) if (matches(value)) yield value;
}
