/** Stores jobs that have a dedupe key: each becomes a job of its own, or changes the one that waits. See `core/dedupe.ts`. */
import { isBegun, mergedBefore, mergedInto, withMerged } from '../core/dedupe.ts';
import { ThrottledError } from '../core/errors.ts';
import { isTerminal, type Job } from '../core/job.ts';
import { hashText } from '../core/partition.ts';
import { backoffMs } from '../core/retry.ts';
import { RING_SPACE } from '../core/ring.ts';
import { type LargeContext, withPayloadKept } from '../objects/large-values.ts';
import type { Clock } from '../runtime/contract.ts';
import type { CreateOutcome } from '../store/contract/requests.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';

/** Each lost race is another request or a start that was stored. More than these would be a storm on one key. */
const TRIES_MAX = 20;
/** Before each try after a lost race: without it, as many lose again as there are requests, less one. */
const BACKOFF = { backoff: 'exponential', delayMs: 40, maxDelayMs: 1_000, jitter: 'full' } as const;
/** How long a key names its job after the job's time. A job that waits longer may get a second one beside it. */
const NAMED_FOR_MS = 90 * 86_400_000;

/** A request that made no job. */
export interface Deduplicated {
  /**
   * `kept`: the waiting job stands for the request, with its own payload. `replaced`: with the payload of the request. `dropped`: a job
   * of the key has begun, and nothing was stored.
   */
  readonly kind: 'kept' | 'replaced' | 'dropped';
  readonly job: Job;
}

export interface DedupeContext extends LargeContext {
  readonly store: Pick<SubmitStore, 'readDedupe' | 'createDeduped' | 'mergeJob' | 'getJobs'>;
  readonly nowMs: () => number;
  readonly clock: Pick<Clock, 'sleep'>;
}

/**
 * Stores one job that has a dedupe key.
 *
 * @throws ThrottledError - other requests of the key came first, each time
 */
export async function storeDeduped(context: DedupeContext, job: Job): Promise<CreateOutcome | Deduplicated> {
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    const seen = await readKey(context, job);
    const known = standsFor(job, seen) ?? (await merge(context, job, seen));
    if (known !== undefined && known !== 'superseded') return known;
    if (known === undefined) {
      const { named, namedId } = seen;
      const own = await withPayloadKept(context, job, job.id);
      const outcome = await context.store.createDeduped({
        job: named === undefined ? own : { ...own, merged: withMerged(named.merged, named) },
        after: namedId,
        expiresAtMs: Math.max(context.nowMs(), job.runAtMs) + NAMED_FOR_MS,
      });
      if (outcome.kind !== 'superseded') return outcome;
    }
    // planted: races-at-once
    await backOff(context, job, tries);
  }
  throw new ThrottledError(
    `${TRIES_MAX} other requests with the dedupe key ${JSON.stringify(job.dedupe?.key)} came first, nothing was changed; try again`,
  );
}

/** The outcome of a job that may not be created: undefined unless a job that exists stands for it, or may be changed. */
export async function mergeOnly(context: DedupeContext, job: Job): Promise<SubmittedBefore | undefined> {
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    const seen = await readKey(context, job);
    const known = standsFor(job, seen) ?? (await merge(context, job, seen));
    if (known !== 'superseded') return known;
    await backOff(context, job, tries);
  }
  return undefined;
}

/** The id of the request spreads the tries, as a random number would. */
const backOff = ({ clock }: DedupeContext, { id }: Job, tries: number): Promise<void> =>
  clock.sleep(backoffMs(BACKOFF, tries, hashText(`${id}/${tries}`) / RING_SPACE));

type SubmittedBefore = CreateOutcome | Deduplicated;

interface SeenKey {
  /** The job with the id of the request, if there is one. */
  readonly own: Job | undefined;
  readonly namedId: string | undefined;
  readonly named: Job | undefined;
}

async function readKey({ store }: DedupeContext, job: Job): Promise<SeenKey> {
  const namedId = await store.readDedupe(job);
  const [own, named] = await store.getJobs({ ids: namedId === undefined ? [job.id] : [job.id, namedId] });
  return { own, namedId, named };
}

/** The outcome if nothing is to be stored: the request is a repetition, or a job of its key has begun and it asks for no other. */
function standsFor(job: Job, { own, named }: SeenKey): SubmittedBefore | undefined {
  if (own !== undefined)
    return { kind: own.contentHash === job.contentHash ? 'repeated' : 'conflict', job: own };
  if (named === undefined) return undefined;
  const kind = mergedBefore(named, job);
  // planted: merged-again
  if (kind !== undefined) return { kind, job: named };
  // planted: drops-nothing
  const isDropped = job.dedupe?.whileRunning === 'drop' && isBegun(named) && !isTerminal(named.state);
  return isDropped ? { kind: 'dropped', job: named } : undefined;
}

/** Lets the job that waits stand for the request; undefined if none waits. */
async function merge(
  context: DedupeContext,
  job: Job,
  { named }: SeenKey,
): Promise<Deduplicated | 'superseded' | undefined> {
  if (named === undefined || isTerminal(named.state) || isBegun(named)) return undefined;
  // A job that is to expire never starts, and stands for no request.
  if (named.expireAtMs !== undefined && named.expireAtMs <= context.nowMs()) return undefined;
  const { store, nowMs } = context;
  // The object of the payload that stays belongs to the job that waits.
  const own = job.dedupe?.keep === 'last' ? await withPayloadKept(context, job, named.id) : job;
  const outcome = await store.mergeJob({ job: named, next: mergedInto(named, own, nowMs()) });
  if (outcome.kind === 'superseded') return 'superseded';
  return { kind: job.dedupe?.keep === 'last' ? 'replaced' : 'kept', job: outcome.job };
}
