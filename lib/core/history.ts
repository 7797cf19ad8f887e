/**
 * The history of a job, in order: its attempts with their workers and outcomes, its changes of time and priority, claims
 * that were never made or were given back, and the actions of operators.
 *
 * The job's own fields record most of it: when it was submitted, its present or last attempt, who cancelled it and how
 * it ended. `Job.history` keeps only what the next transition would overwrite: attempts that are followed by another
 * one, lost workers, changes of time and priority, and claims that were never made or were given back. So a job that
 * runs once has no history to pay for.
 *
 * A transition and its entry are one conditional write, so neither exists without the other, and a repeated transition
 * that is refused adds nothing.
 */
import {
  type AttemptEntry,
  type DroppedEntries,
  ERROR_STACK_BYTES_MAX,
  type GivenBackEntry,
  type History,
  type HistoryEntry,
  type JobError,
  type JobState,
  type MovedEntry,
  type MovingJob,
  type NotClaimedEntry,
  type PriorityEntry,
  waitsSinceMs,
  withoutStack,
} from './job.ts';

/** The most entries kept for one job. The oldest are dropped and counted. */
export const HISTORY_ENTRIES_MAX = 20;
/**
 * The most bytes of the entries as JSON in UTF-8, without their stacks. Every later transition of the job is billed for
 * them.
 */
export const HISTORY_BYTES_MAX = 4_000;
/**
 * The most bytes of the stacks of failed attempts, in addition: three of the largest, or about ten ordinary ones; the
 * oldest are dropped. Every later transition is billed for them too. Half as many would make a job that keeps failing
 * cheaper and its history poorer.
 */
export const HISTORY_STACKS_BYTES_MAX = 12_300;
/** The longest name of an operator, as a tool gives it, in UTF-8 bytes. */
export const ACTOR_BYTES_MAX = 128;

/** The most bytes of JSON kept of each text. With them the largest entry fits into `HISTORY_BYTES_MAX`. */
const TEXT_BYTES_MAX = {
  workerId: 512,
  fleet: 256,
  claimId: 64,
  errorName: 128,
  errorMessage: 384,
  actor: 256,
} as const;
/** The most bytes of an entry's JSON besides its values. */
const ENTRY_OVERHEAD_BYTES = 48;
/** The most bytes of a stack's JSON besides its text: a comma and two quotes. */
const STACK_OVERHEAD_BYTES = 3;
/** The most bytes of a history's JSON besides its entries: the counts of dropped ones, and the last claim. */
const HISTORY_OVERHEAD_BYTES = 160;

export const NOTHING_DROPPED: DroppedEntries = { attempts: 0, losses: 0, others: 0 };

/** An event in a job's history. Instants are epoch milliseconds, each by the clock of the process that acted. */
export type JobEvent =
  | {
      readonly kind: 'submitted';
      readonly atMs: number;
      /** The dead letter that this job retries. */
      readonly redriveOf?: string | undefined;
      readonly by?: string | undefined;
    }
  | JobAttempt
  | MovedEntry
  | PriorityEntry
  | NotClaimedEntry
  | GivenBackEntry
  | {
      readonly kind: 'cancelled';
      readonly atMs: number;
      readonly by?: string | undefined;
      /** The state of the job at that time; absent: unknown. A running job is only asked to stop. */
      readonly from?: JobState | undefined;
    }
  | { readonly kind: 'expired'; readonly atMs: number }
  | {
      readonly kind: 'redriven';
      readonly atMs?: number | undefined;
      readonly by?: string | undefined;
      /** The id of the new job. */
      readonly as: string;
    };

/** One attempt, finished or not. */
export interface JobAttempt extends Omit<AttemptEntry, 'outcome' | 'workerId' | 'startedAtMs' | 'endedAtMs'> {
  /** Absent: no worker has started it. */
  readonly workerId?: string | undefined;
  readonly startedAtMs?: number | undefined;
  readonly endedAtMs?: number | undefined;
  /** `claimed`, `running`: the attempt is not over. `notStarted`: its job was cancelled, or expired, before it started. */
  readonly outcome:
    | AttemptEntry['outcome']
    | 'claimed'
    | 'running'
    | 'notStarted'
    | 'succeeded'
    | 'cancelled';
}

/** A job's history. */
export interface JobHistory {
  readonly jobId: string;
  readonly state: JobState;
  /** In the order in which they happened. */
  readonly events: readonly JobEvent[];
  /** The number of oldest events that are not kept any more. */
  readonly dropped: DroppedEntries;
}

/**
 * Returns the history entry of the attempt that a job's own fields describe, written when the next transition
 * overwrites them.
 */
export function attemptEntry(
  job: MovingJob,
  end: Pick<AttemptEntry, 'outcome' | 'error' | 'endedAtMs' | 'next'>,
): AttemptEntry {
  const { claim, worker } = job;
  const { error, next } = end;
  return {
    kind: 'attempt',
    attempt: job.attempt,
    claimId: cutToBytes(claim?.claimId ?? '', TEXT_BYTES_MAX.claimId),
    fleet: cutToBytes(claim?.fleet ?? '', TEXT_BYTES_MAX.fleet),
    claimedAtMs: claim?.claimedAtMs ?? 0,
    workerId: cutToBytes(worker?.workerId ?? '', TEXT_BYTES_MAX.workerId),
    startedAtMs: job.startedAtMs ?? 0,
    endedAtMs: end.endedAtMs,
    outcome: end.outcome,
    ...(error === undefined ? {} : { error: cutError(error) }),
    ...(next === undefined ? {} : { next }),
  };
}

const cutError = ({ name, message, stack }: JobError): JobError => ({
  name: cutToBytes(name, TEXT_BYTES_MAX.errorName),
  message: cutToBytes(message, TEXT_BYTES_MAX.errorMessage),
  ...(stack === undefined ? {} : { stack: cutToBytes(stack, ERROR_STACK_BYTES_MAX) }),
});

/** Returns the history entry of a change of the job's time. */
export const movedEntry = (atMs: number, fromMs: number, toMs: number, by?: string): MovedEntry => ({
  kind: 'moved',
  atMs,
  ...(by === undefined ? {} : { by: cutToBytes(by, TEXT_BYTES_MAX.actor) }),
  fromMs,
  toMs,
});

/** Returns the history entry of a change of the job's priority. */
export const priorityEntry = (atMs: number, from: number, to: number, by?: string): PriorityEntry => ({
  kind: 'priority',
  atMs,
  ...(by === undefined ? {} : { by: cutToBytes(by, TEXT_BYTES_MAX.actor) }),
  from,
  to,
});

/** Returns the history entry of a reserved job that was given up without a claim. */
export const notClaimedEntry = (atMs: number, claimId: string): NotClaimedEntry => ({
  kind: 'notClaimed',
  atMs,
  claimId: cutToBytes(claimId, TEXT_BYTES_MAX.claimId),
});

/** Returns the history entry of a claim that was given back. */
export const givenBackEntry = (atMs: number, claimId: string, fleet: string): GivenBackEntry => ({
  kind: 'givenBack',
  atMs,
  claimId: cutToBytes(claimId, TEXT_BYTES_MAX.claimId),
  fleet: cutToBytes(fleet, TEXT_BYTES_MAX.fleet),
});

/** Returns the history with one more entry, cut to its bounds by dropping the oldest. */
export function withEntry(history: History | undefined, entry: HistoryEntry): History {
  const entries = [...(history?.entries ?? []), entry];
  let { attempts, losses, others } = history?.dropped ?? NOTHING_DROPPED;
  let bytes = entries.reduce((sum, each) => sum + entryBytes(each), HISTORY_OVERHEAD_BYTES);
  while (entries.length > HISTORY_ENTRIES_MAX || (bytes > HISTORY_BYTES_MAX && entries.length > 1)) {
    const oldest = entries.shift();
    if (oldest === undefined) break;
    bytes -= entryBytes(oldest);
    attempts += oldest.kind === 'attempt' ? 1 : 0;
    losses += oldest.kind === 'attempt' && oldest.outcome === 'lost' ? 1 : 0;
    others += oldest.kind === 'attempt' ? 0 : 1;
  }
  const lastClaimId = entry.kind === 'attempt' ? entry.claimId : history?.lastClaimId;
  return {
    entries: cutStacks(entries),
    ...(lastClaimId === undefined ? {} : { lastClaimId }),
    dropped: { attempts, losses, others },
  };
}

/** Returns the entries with their stacks cut to the bound; the newest keep theirs. */
function cutStacks(entries: readonly HistoryEntry[]): readonly HistoryEntry[] {
  let left = HISTORY_STACKS_BYTES_MAX;
  return entries
    .toReversed()
    .map((entry) => {
      if (entry.kind !== 'attempt' || entry.error?.stack === undefined) return entry;
      left -= jsonBytes(entry.error.stack) + STACK_OVERHEAD_BYTES;
      return left >= 0 ? entry : { ...entry, error: withoutStack(entry.error) };
    })
    .toReversed();
}

/** Since when a job had waited when its present attempt started, epoch ms. A start clears `finishedAtMs`. */
export const waitedSinceMs = (job: MovingJob): number =>
  waitsSinceMs({
    ...job,
    finishedAtMs: job.history?.entries.findLast((entry) => entry.kind === 'attempt')?.endedAtMs,
  });

/** Returns the history of a job, from its own fields and its kept entries. */
export function historyOf(job: MovingJob): JobHistory {
  const { history, redriveOf, redrivenBy, redrivenAs, redrivenAtMs, cancelRequestedAtMs } = job;
  const events: JobEvent[] = [
    {
      kind: 'submitted',
      atMs: job.submittedAtMs,
      ...(redriveOf === undefined
        ? {}
        : { redriveOf, ...(job.redriveBy === undefined ? {} : { by: job.redriveBy }) }),
    },
    ...(history?.entries ?? []),
  ];
  const attempt = latestAttempt(job);
  if (attempt !== undefined) events.push(attempt);
  if (cancelRequestedAtMs !== undefined) {
    events.push({
      kind: 'cancelled',
      atMs: cancelRequestedAtMs,
      ...(job.cancelRequestedBy === undefined ? {} : { by: job.cancelRequestedBy }),
      ...(job.cancelRequestedIn === undefined ? {} : { from: job.cancelRequestedIn }),
    });
  }
  if (job.state === 'expired') events.push({ kind: 'expired', atMs: job.finishedAtMs ?? job.readyAtMs });
  if (redrivenAs !== undefined) {
    events.push({
      kind: 'redriven',
      ...(redrivenAtMs === undefined ? {} : { atMs: redrivenAtMs }),
      ...(redrivenBy === undefined ? {} : { by: redrivenBy }),
      as: redrivenAs,
    });
  }
  return { jobId: job.id, state: job.state, events, dropped: history?.dropped ?? NOTHING_DROPPED };
}

/** Returns the attempt that the job's own fields describe, unless the history has it already. */
function latestAttempt(job: MovingJob): JobAttempt | undefined {
  const { claim, worker, history, startedAtMs, finishedAtMs, error, state } = job;
  if (claim === undefined || cutToBytes(claim.claimId, TEXT_BYTES_MAX.claimId) === history?.lastClaimId)
    return undefined;
  const common = {
    kind: 'attempt',
    attempt: job.attempt,
    claimId: claim.claimId,
    fleet: claim.fleet,
    claimedAtMs: claim.claimedAtMs,
  } as const;
  if (worker === undefined || startedAtMs === undefined)
    return { ...common, outcome: state === 'claimed' ? 'claimed' : 'notStarted' };
  const ran = { ...common, workerId: worker.workerId, startedAtMs };
  if (state === 'running')
    return { ...ran, outcome: 'running', ...(job.hung === undefined ? {} : { error: job.hung }) };
  const ended = { ...ran, ...(finishedAtMs === undefined ? {} : { endedAtMs: finishedAtMs }) };
  switch (state) {
    case 'succeeded':
    case 'cancelled':
      return { ...ended, outcome: state };
    default:
      return { ...ended, outcome: 'failed', ...(error === undefined ? {} : { error }) };
  }
}

/** Returns an upper bound for an entry's bytes as JSON, without its stack. */
function entryBytes(entry: HistoryEntry): number {
  const values = valuesOf(entry);
  return values.reduce<number>(
    (sum, value) => sum + (typeof value === 'number' ? String(value).length : jsonBytes(value)),
    ENTRY_OVERHEAD_BYTES,
  );
}

function valuesOf(entry: HistoryEntry): readonly (string | number)[] {
  switch (entry.kind) {
    case 'attempt': {
      const { attempt, claimId, fleet, claimedAtMs, workerId, startedAtMs, endedAtMs, error, next } = entry;
      const times = [attempt, claimedAtMs, startedAtMs, endedAtMs, next?.runAtMs ?? 0];
      return [...times, claimId, fleet, workerId, error?.name ?? '', error?.message ?? ''];
    }
    case 'moved':
      return [entry.atMs, entry.fromMs, entry.toMs, entry.by ?? ''];
    case 'priority':
      return [entry.atMs, entry.from, entry.to, entry.by ?? ''];
    case 'notClaimed':
      return [entry.atMs, entry.claimId];
    case 'givenBack':
      return [entry.atMs, entry.claimId, entry.fleet];
  }
}

/** Returns the bytes of a text between its quotes in JSON, in UTF-8. */
function jsonBytes(text: string): number {
  let bytes = 0;
  for (const character of text) bytes += characterBytes(character);
  return bytes;
}

/** Characters that JSON writes as two. */
const SHORT_ESCAPES = new Set(['"', '\\', '\n', '\t']);

function characterBytes(character: string): number {
  const code = character.codePointAt(0) ?? 0;
  const isEscaped = code < 0x20 || (code >= 0xd800 && code < 0xe000);
  if (SHORT_ESCAPES.has(character)) return 2;
  if (isEscaped) return 6;
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  return code < 0x10000 ? 3 : 4;
}

const ELLIPSIS = '…';

/** Returns the text, cut to fit into `bytesMax` bytes of JSON. */
export function cutToBytes(text: string, bytesMax: number): string {
  // Most names are short and need no count of their bytes.
  if (text.length * 6 <= bytesMax || jsonBytes(text) <= bytesMax) return text;
  let bytes = jsonBytes(ELLIPSIS);
  let end = 0;
  for (const character of text) {
    bytes += characterBytes(character);
    if (bytes > bytesMax) break;
    end += character.length;
  }
  return `${text.slice(0, end)}${ELLIPSIS}`;
}
