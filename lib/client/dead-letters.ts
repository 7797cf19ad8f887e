/** Dead letters, which are failed jobs that were not dealt with yet, and their redrive. */
import type { Tags } from '../core/job.ts';
import { type ListPlace, pagesBehind, placed } from '../operate/places.ts';
import { redriveJob } from '../operate/redrive.ts';
import type { OperateStore } from '../store/contract/operate.ts';
import type { Rejection } from '../store/contract/records.ts';
import { checked, SHAPES } from './arguments.ts';
import { type BulkEntry, type BulkRun, changeEach, EXPIRED } from './bulk.ts';
import type { ClientContexts } from './contexts.ts';
import type { ClientJob } from './job.ts';

export interface DeadLetterFilter {
  readonly type?: string | undefined;
  readonly fairnessKey?: string | undefined;
  /** Only jobs that have all these tags. */
  readonly tags?: Tags | undefined;
  /** The name of the error that ended the last attempt. */
  readonly errorName?: string | undefined;
  /** Only jobs that failed at this instant or later: ISO 8601 with a zone. */
  readonly failedAfter?: string | undefined;
  /** Only jobs that failed before this instant: ISO 8601 with a zone. */
  readonly failedBefore?: string | undefined;
}

export interface RetryResult {
  /** The id of the new job. */
  readonly jobId: string;
  /** Whether an earlier call made the new job. */
  readonly repeated: boolean;
}

/** The outcome for one dead letter. It is skipped if it is none any more, or if no worker runs its type. */
export type RedriveEntry = BulkEntry<
  { readonly kind: 'redriven' } & RetryResult,
  { readonly deadLetterId: string }
>;

/** Yields the failed jobs that match the filter. @throws ValidationError for the filter */
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

/** Tries dead letters again, each as a new job. */
export const redriveEach = (
  contexts: ClientContexts,
  deadLetters: AsyncIterable<ClientJob>,
  run: BulkRun,
  actor: string | undefined,
): AsyncGenerator<RedriveEntry> =>
  changeEach(
    deadLetters,
    run,
    (deadLetterId) => ({ deadLetterId }),
    async (id) => {
      const outcome = await redriveJob(await contexts.latest(), id, actor);
      switch (outcome.kind) {
        case 'redriven':
        case 'repeated':
          return { kind: 'redriven', jobId: outcome.jobId, repeated: outcome.kind === 'repeated' };
        case 'missing':
          return EXPIRED;
        case 'notFailed':
          return { kind: 'skipped', reason: `it is ${outcome.job.state}` };
        case 'unreadable':
          return { kind: 'skipped', reason: `its record cannot be read: ${outcome.job.unreadable}` };
        case 'unknownType':
          return { kind: 'skipped', reason: 'no worker runs its type any more' };
        case 'misfit':
          return {
            kind: 'skipped',
            reason: `${outcome.misfit.field.join('.')} ${outcome.misfit.reason}`,
          };
      }
    },
  );

async function* matching<Value>(
  values: AsyncIterable<Value>,
  matches: (value: Value) => boolean,
): AsyncGenerator<Value> {
  for await (const value of values) if (matches(value)) yield value;
}

const REJECTIONS_PAGE = 100;

/** Yields the refused entries of one event, or of all events, that follow a place (`places.ts`). */
export async function* rejectionsIn(
  store: Pick<OperateStore, 'listRejections' | 'readRejections'>,
  eventId: string | undefined,
  from: ListPlace | undefined,
): AsyncGenerator<Rejection> {
  if (eventId !== undefined) return yield* await store.listRejections(eventId);
  const idOf = ({ sourceId, position }: Rejection): string => `${sourceId}/${position}`;
  for await (const { entries, after } of pagesBehind(from, idOf, async (cursor) => {
    const { rejections, next } = await store.readRejections({ limit: REJECTIONS_PAGE, after: cursor });
    return { entries: rejections, next };
  }))
    for (const each of entries) yield placed(each, { partition: 0, after, id: idOf(each) });
}
