/**
 * Items ⇄ domain, in one place: nothing else knows how an attribute is called or what a cell holds.
 * Reading rejects a malformed item by name; a job that cannot be read is not guessed at.
 */
import {
  type Claim,
  type History,
  type HistoryEntry,
  JOB_MODES,
  type Job,
  type JobError,
  type JobMode,
  type JobState,
  type Json,
  type ReservedJob,
} from '../../core/job.ts';
import type { LentScope, Loan, LoanRequest, Want } from '../../core/lending.ts';
import type {
  Attendance,
  Carried,
  Control,
  DispatcherLoad,
  DispatcherRecord,
  EstimateRecord,
  JobHead,
  KeyBacklog,
  LaterJob,
  Ledger,
  Lock,
  Lookout,
  ParkedLine,
  ParkedMark,
  Rejection,
  Reservation,
  UnreadableItem,
  WorkerRecord,
} from '../contract.ts';
import { MalformedItemError } from '../errors.ts';
import type { Page } from '../page.ts';
import {
  type AnnouncedLine,
  CONTROL_PREFIX,
  costOfRank,
  declarationTextKey,
  dispatcherKey,
  dueKey,
  type ItemKey,
  jobKey,
  LOAN_PREFIX,
  leaseKey,
  loanKey,
  lookoutKey,
  PARTITION_PREFIX,
  pageKey,
  parkedKey,
  RESERVATION_PREFIX,
  rejectionKey,
  requestKey,
  reservationKey,
  TABLE,
  unreadableKey,
  WORKER_PREFIX,
  workerKey,
} from '../schema.ts';

/** An item as plain values: text, numbers, booleans, arrays, objects, and sets of text. */
export type Item = Readonly<Record<string, unknown>>;

/** Attributes by the names that expressions call them: `#state` stands for `ATTRIBUTE.state`. */
export const ATTRIBUTE = {
  pk: TABLE.partitionKey,
  sk: TABLE.sortKey,
  ttl: TABLE.ttl,
  line: TABLE.line,
  rank: TABLE.rank,
  // Jobs.
  state: TABLE.state,
  version: 'version',
  type: 'type',
  priority: 'priority',
  mode: 'mode',
  fairnessKey: 'fairnessKey',
  resourceId: 'resourceId',
  readyAtMs: 'readyAtMs',
  firstReadyAtMs: 'firstReadyAtMs',
  attempt: 'attempt',
  partition: 'partition',
  payload: 'payload',
  contentHash: 'contentHash',
  runAtMs: 'runAtMs',
  submittedAtMs: 'submittedAtMs',
  workersLost: 'workersLost',
  claim: 'claim',
  claimId: 'claimId',
  epoch: 'epoch',
  batchId: 'batchId',
  fleet: 'fleet',
  claimedAtMs: 'claimedAtMs',
  worker: 'worker',
  workerId: 'workerId',
  incarnation: 'incarnation',
  dispatcherId: 'dispatcherId',
  leads: 'leads',
  load: 'load',
  startedAtMs: 'startedAtMs',
  runUntilMs: 'runUntilMs',
  finishedAtMs: 'finishedAtMs',
  result: 'result',
  error: 'error',
  checkpoint: 'checkpoint',
  cancelRequestedAtMs: 'cancelRequestedAtMs',
  cancelRequestedBy: 'cancelRequestedBy',
  cancelRequestedIn: 'cancelRequestedIn',
  redriveOf: 'redriveOf',
  redriveBy: 'redriveBy',
  redrivenAs: 'redrivenAs',
  redrivenAtMs: 'redrivenAtMs',
  redrivenBy: 'redrivenBy',
  history: 'history',
  // Leases and wakes.
  holder: 'holder',
  lastHolder: 'lastHolder',
  takenAtMs: 'takenAtMs',
  expiresAtMs: 'expiresAtMs',
  /** Names one call, where nothing else tells its own repetition from another caller's success. */
  callId: 'callId',
  wakes: 'wakes',
  wakesSeen: 'wakesSeen',
  /** The newest declaration that the partition was told of. */
  declared: 'declared',
  /** How far jobs were moved to where it wants them. */
  carried: 'carried',
  sinceEpoch: 'sinceEpoch',
  isHandedOver: 'isHandedOver',
  moved: 'moved',
  isDone: 'isDone',
  after: 'after',
  // Declarations.
  hash: 'hash',
  text: 'text',
  parts: 'parts',
  declaredAtMs: 'declaredAtMs',
  // Reservations and the page: read whole by every pass, so short.
  reservedJobs: 'j',
  checkAtMs: 'c',
  reservationEpoch: 'e',
  reservedAtMs: 'r',
  turn: 'n',
  dueShards: 'dueShards',
  ledgers: 'k',
  estimates: 't',
  batches: 'b',
  parks: 'x',
  attendance: 'a',
  liftedAtMs: 'l',
  isLifted: 'f',
  // Ledgers, backlogs, estimates.
  tier: 'tier',
  settledCostMs: 'settledCostMs',
  lastSeenMs: 'lastSeenMs',
  presentUntilMs: 'presentUntilMs',
  later: 'later',
  isUndecided: 'isUndecided',
  lines: 'lines',
  announcedAtMs: 'announcedAtMs',
  meanMs: 'meanMs',
  varianceMs2: 'varianceMs2',
  samples: 'samples',
  // Workers and controls.
  slots: 'slots',
  formerUntilMs: 'formerUntilMs',
  heardAtMs: 'heardAtMs',
  lagMs: 'lagMs',
  memoryMb: 'memoryMb',
  isEnding: 'isEnding',
  occupants: 'occupants',
  jobId: 'jobId',
  progress: 'progress',
  scope: 'scope',
  paused: 'paused',
  maxConcurrency: 'maxConcurrency',
  pausedRevision: 'pausedRevision',
  maxConcurrencyRevision: 'maxConcurrencyRevision',
  weightRevision: 'weightRevision',
  weight: 'weight',
  // What was seen of the workers: read by every pass.
  sinceMs: 'sinceMs',
  atMs: 'atMs',
  nextAtMs: 'nextAtMs',
  judgedUntilMs: 'judgedUntilMs',
  // Loans between partitions, and requests for them: read by every pass.
  loanId: 'loanId',
  lender: 'lender',
  borrower: 'borrower',
  units: 'units',
  scopes: 'scopes',
  wants: 'wants',
  askedAtMs: 'askedAtMs',
  // Parked conflict keys.
  parkedAtMs: 'parkedAtMs',
  // Locks.
  conflictKey: 'conflictKey',
  turnOf: 'turnOf',
  untilMs: 'untilMs',
  waiting: 'waiting',
  // Rejections.
  sourceId: 'sourceId',
  position: 'position',
  field: 'field',
  reason: 'reason',
  detail: 'detail',
  rejectedAtMs: 'rejectedAtMs',
  name: 'name',
  message: 'message',
  // Notes of items that cannot be read.
  itemPk: 'itemPk',
  itemSk: 'itemSk',
  formerLine: 'formerLine',
  formerRank: 'formerRank',
  seenAtMs: 'seenAtMs',
} as const;

const A = ATTRIBUTE;

const isAttribute = (name: string): name is keyof typeof ATTRIBUTE => Object.hasOwn(ATTRIBUTE, name);

/** The names that expressions use: `#state` → the attribute's name. DynamoDB refuses names that none uses. */
export function namesIn(...expressions: readonly (string | undefined)[]): Record<string, string> {
  const names: Record<string, string> = {};
  for (const expression of expressions) {
    for (const [placeholder, name = ''] of expression?.matchAll(/#([A-Za-z]\w*)/g) ?? []) {
      if (!isAttribute(name))
        throw new TypeError(`expression names an unknown attribute ${placeholder}: ${expression}`);
      names[placeholder] = ATTRIBUTE[name];
    }
  }
  return names;
}

const isRecord = (value: unknown): value is Item =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Set);

/** Reads cells of one item, or of a map inside it, and names what is wrong. */
class Cells {
  readonly #values: Item;
  readonly #key: string;
  readonly #path: string;

  constructor(values: Item, key: string, path: string) {
    this.#values = values;
    this.#key = key;
    this.#path = path;
  }

  malformed(name: string, expected: string, options?: ErrorOptions): MalformedItemError {
    const value = this.#values[name];
    const found = value === undefined ? 'is missing' : `is ${shown(value)}`;
    const problem = `${found}, not ${expected}`;
    return new MalformedItemError(this.#key, `${this.#path}${name}`, problem, wayOutOf(this.#key), options);
  }

  has(name: string): boolean {
    return this.#values[name] !== undefined;
  }

  text(name: string): string {
    const value = this.#values[name];
    if (typeof value !== 'string') throw this.malformed(name, 'text');
    return value;
  }

  number(name: string): number {
    const value = this.#values[name];
    if (typeof value !== 'number' || !Number.isFinite(value)) throw this.malformed(name, 'a number');
    return value;
  }

  count(name: string): number {
    const value = this.number(name);
    if (!Number.isSafeInteger(value) || value < 0) throw this.malformed(name, 'a whole number from 0 up');
    return value;
  }

  flag(name: string): boolean {
    const value = this.#values[name];
    if (typeof value !== 'boolean') throw this.malformed(name, 'true or false');
    return value;
  }

  oneOf<T extends string>(name: string, choices: readonly T[]): T {
    const value = this.#values[name];
    const found = choices.find((choice) => choice === value);
    if (found === undefined) throw this.malformed(name, `one of ${choices.join(', ')}`);
    return found;
  }

  json(name: string, loosen = (text: string): string => text): Json {
    const text = this.text(name);
    try {
      return JSON.parse(loosen(text)) as Json;
    } catch (cause) {
      throw this.malformed(name, 'JSON', { cause });
    }
  }

  /** JSON of a shape of its own; `unpack` throws at whatever is wrong with it. */
  packed<T>(name: string, unpack: (json: unknown) => T, loosen?: (text: string) => string): T {
    const json = this.json(name, loosen);
    try {
      return unpack(json);
    } catch (cause) {
      throw this.malformed(name, 'what was packed there', { cause });
    }
  }

  texts(name: string): readonly string[] {
    const value = this.#values[name];
    if (!(value instanceof Set)) throw this.malformed(name, 'a set of text');
    return Array.from(value as ReadonlySet<unknown>, (each) => {
      if (typeof each !== 'string') throw this.malformed(name, 'a set of text');
      return each;
    });
  }

  map(name: string): Cells {
    const value = this.#values[name];
    if (!isRecord(value)) throw this.malformed(name, 'a map');
    return new Cells(value, this.#key, `${this.#path}${name}.`);
  }

  entries(name: string): readonly (readonly [string, Cells])[] {
    const value = this.#values[name];
    if (!isRecord(value)) throw this.malformed(name, 'a map');
    const within = this.map(name);
    return Object.keys(value).map((entry) => [entry, within.map(entry)] as const);
  }

  list(name: string): readonly Cells[] {
    const value = this.#values[name];
    if (!Array.isArray(value)) throw this.malformed(name, 'a list');
    return value.map((each: unknown, index) => {
      if (!isRecord(each)) throw this.malformed(name, 'a list of maps');
      return new Cells(each, this.#key, `${this.#path}${name}[${index}].`);
    });
  }
}

function shown(value: unknown): string {
  const text = value instanceof Set ? 'a set' : (JSON.stringify(value) ?? String(value));
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** What to do about an item that must not be guessed at, nor simply deleted. By the kind that its sort key names. */
const WAYS_OUT: readonly (readonly [string, string])[] = [
  [
    leaseKey(0).sk,
    'set epoch above all that were ever used; without it, whoever was superseded could write again',
  ],
  [
    pageKey(0).sk,
    'correct it; deleting it forgets what active keys were charged, and settled places count again',
  ],
  [dueKey(0).sk, 'set it to the most parts that lines of a type ever had'],
  [
    RESERVATION_PREFIX,
    'correct it, or delete it once none of its jobs can be running: it holds their capacity',
  ],
  [
    LOAN_PREFIX,
    'correct it as the copy of the other partition says, or delete both once nothing lent is in use',
  ],
];

function wayOutOf(key: string): string | undefined {
  const [pk = '', sk = ''] = key.split(' ');
  if (!pk.startsWith(PARTITION_PREFIX)) return undefined;
  return WAYS_OUT.find(([name]) => (name.endsWith('/') ? sk.startsWith(name) : sk === name))?.[1];
}

function cellsOf(item: Item): Cells {
  return new Cells(item, `${String(item[A.pk])} ${String(item[A.sk])}`, '');
}

/** DynamoDB's numbers end at 1e-130; a variance may fall below. */
const storable = (value: number): number => (Math.abs(value) < 1e-100 ? 0 : value);

/** `ttl` counts seconds; rounded up, so that an item is never collected early. */
export const ttlSec = (expiresAtMs: number): number => Math.ceil(expiresAtMs / 1000);

// Jobs

const STATES = [
  'scheduled',
  'pending',
  'claimed',
  'running',
  'succeeded',
  'failed',
  'cancelled',
] as const satisfies readonly JobState[];
const JOB_PREFIX = jobKey('').pk;

export const encodeClaim = (claim: Claim): Item => ({
  [A.claimId]: claim.claimId,
  [A.epoch]: claim.epoch,
  [A.batchId]: claim.batchId,
  [A.fleet]: claim.fleet,
  [A.claimedAtMs]: claim.claimedAtMs,
  [A.declared]: claim.declared,
});

export const encodeWorker = (worker: { readonly workerId: string; readonly incarnation: string }): Item => ({
  [A.workerId]: worker.workerId,
  [A.incarnation]: worker.incarnation,
});

export const encodeError = (error: JobError): Item => ({ [A.name]: error.name, [A.message]: error.message });

/** As text, so that whatever names the JSON holds are only text to the table. */
export const encodeJson = (value: Json): string => JSON.stringify(value);

/** Where a waiting job stands. */
export interface Standing {
  readonly line: string;
  readonly rank: string;
}

/** Absent optional fields become undefined attributes, which are not written. */
export function encodeJob(job: Job, standing: Standing | undefined): Item {
  return {
    ...jobKey(job.id),
    [A.state]: job.state,
    [A.version]: job.version,
    [A.type]: job.type,
    [A.priority]: job.priority,
    [A.mode]: job.mode,
    [A.fairnessKey]: job.fairnessKey,
    [A.resourceId]: job.resourceId,
    [A.readyAtMs]: job.readyAtMs,
    [A.firstReadyAtMs]: job.firstReadyAtMs,
    [A.attempt]: job.attempt,
    [A.partition]: job.partition,
    [A.payload]: encodeJson(job.payload),
    [A.contentHash]: job.contentHash,
    [A.runAtMs]: job.runAtMs,
    [A.submittedAtMs]: job.submittedAtMs,
    [A.workersLost]: job.workersLost,
    [A.claim]: job.claim && encodeClaim(job.claim),
    [A.worker]: job.worker && encodeWorker(job.worker),
    [A.startedAtMs]: job.startedAtMs,
    [A.runUntilMs]: job.runUntilMs,
    [A.finishedAtMs]: job.finishedAtMs,
    [A.result]: job.result === undefined ? undefined : encodeJson(job.result),
    [A.error]: job.error && encodeError(job.error),
    [A.checkpoint]: job.checkpoint === undefined ? undefined : encodeJson(job.checkpoint),
    [A.progress]: job.progress === undefined ? undefined : encodeJson(job.progress),
    [A.cancelRequestedAtMs]: job.cancelRequestedAtMs,
    [A.cancelRequestedBy]: job.cancelRequestedBy,
    [A.cancelRequestedIn]: job.cancelRequestedIn,
    [A.redriveOf]: job.redriveOf,
    [A.redriveBy]: job.redriveBy,
    [A.redrivenAs]: job.redrivenAs,
    [A.redrivenAtMs]: job.redrivenAtMs,
    [A.redrivenBy]: job.redrivenBy,
    [A.history]: job.history && encodeHistory(job.history),
    [A.line]: standing?.line,
    [A.rank]: standing?.rank,
  };
}

/** Absent, not undefined. */
function present<T extends Item>(fields: T): { readonly [Name in keyof T]?: Exclude<T[Name], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { readonly [Name in keyof T]?: Exclude<T[Name], undefined> };
}

/** Number, claim, fleet, when claimed, worker, when started, when ended, whether lost; then why, and what next, or 0. */
type AttemptRow = readonly [
  'a',
  number,
  string,
  string,
  number,
  string,
  number,
  number,
  0 | 1,
  readonly [string, string] | 0,
  readonly [number, 0 | 1] | 0,
];
/** When, from when, to when, by whom. */
type MovedRow = readonly ['m', number, number, number, string?];
/** When, which claim. */
type NotClaimedRow = readonly ['n', number, string];
/** When, which claim, for which fleet. */
type GivenBackRow = readonly ['g', number, string, string];
type HistoryRow = AttemptRow | MovedRow | NotClaimedRow | GivenBackRow;

function rowOf(entry: HistoryEntry): HistoryRow {
  switch (entry.kind) {
    case 'attempt': {
      const { attempt, claimId, fleet, claimedAtMs, workerId, startedAtMs, endedAtMs, error, next } = entry;
      const lost = entry.outcome === 'lost' ? 1 : 0;
      const why = error === undefined ? 0 : ([error.name, error.message] as const);
      const then = next === undefined ? 0 : ([next.runAtMs, next.isFromStart ? 1 : 0] as const);
      return ['a', attempt, claimId, fleet, claimedAtMs, workerId, startedAtMs, endedAtMs, lost, why, then];
    }
    case 'moved': {
      const { atMs, fromMs, toMs, by } = entry;
      return by === undefined ? ['m', atMs, fromMs, toMs] : ['m', atMs, fromMs, toMs, by];
    }
    case 'notClaimed':
      return ['n', entry.atMs, entry.claimId];
    case 'givenBack':
      return ['g', entry.atMs, entry.claimId, entry.fleet];
  }
}

/** As text, some 150 bytes for each attempt: what is dropped, the last claim or 0, then a row for each entry. */
export const encodeHistory = ({ entries, lastClaimId, dropped }: History): string =>
  JSON.stringify([
    [dropped.attempts, dropped.losses, dropped.others],
    lastClaimId ?? 0,
    ...entries.map(rowOf),
  ]);

/** Throws whatever is thrown on the way: the caller names the attribute. */
function unpackHistory(packed: unknown): History {
  const [dropped, lastClaimId, ...rows] = packed as readonly [
    readonly [number, number, number],
    string | 0,
    ...HistoryRow[],
  ];
  const [attempts, losses, others] = dropped;
  if (![attempts, losses, others].every(Number.isSafeInteger)) throw new TypeError('what was dropped');
  return {
    entries: rows.map(entryOfRow),
    ...(lastClaimId === 0 ? {} : { lastClaimId: textIn(lastClaimId) }),
    dropped: { attempts, losses, others },
  };
}

function entryOfRow(row: HistoryRow): HistoryEntry {
  switch (row[0]) {
    case 'a': {
      const [, attempt, claimId, fleet, claimedAtMs, workerId, startedAtMs, endedAtMs, lost, why, then] = row;
      return {
        kind: 'attempt',
        attempt: numberIn(attempt),
        claimId: textIn(claimId),
        fleet: textIn(fleet),
        claimedAtMs: numberIn(claimedAtMs),
        workerId: textIn(workerId),
        startedAtMs: numberIn(startedAtMs),
        endedAtMs: numberIn(endedAtMs),
        outcome: lost === 1 ? 'lost' : 'failed',
        ...(why === 0 ? {} : { error: { name: textIn(why[0]), message: textIn(why[1]) } }),
        ...(then === 0 ? {} : { next: { runAtMs: numberIn(then[0]), isFromStart: then[1] === 1 } }),
      };
    }
    case 'm': {
      const [, atMs, fromMs, toMs, by] = row;
      const times = { atMs: numberIn(atMs), fromMs: numberIn(fromMs), toMs: numberIn(toMs) };
      return { kind: 'moved', ...times, ...(by === undefined ? {} : { by: textIn(by) }) };
    }
    case 'n':
      return { kind: 'notClaimed', atMs: numberIn(row[1]), claimId: textIn(row[2]) };
    case 'g': {
      const [, atMs, claimId, fleet] = row;
      return {
        kind: 'givenBack',
        atMs: numberIn(atMs),
        claimId: textIn(claimId),
        fleet: textIn(fleet),
      };
    }
    default:
      throw new TypeError(`a row of the kind ${String(row[0])}`);
  }
}

function textIn(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError(`${String(value)} is no text`);
  return value;
}

function numberIn(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value))
    throw new TypeError(`${String(value)} is no number`);
  return value;
}

function decodeClaim(cells: Cells): Claim {
  return {
    claimId: cells.text(A.claimId),
    epoch: cells.count(A.epoch),
    batchId: cells.text(A.batchId),
    fleet: cells.text(A.fleet),
    claimedAtMs: cells.number(A.claimedAtMs),
    ...(cells.has(A.declared) ? { declared: cells.count(A.declared) } : {}),
  };
}

/** Whether an item is a job. */
export const isJobItem = (item: Item): boolean =>
  String(item[A.pk]).startsWith(JOB_PREFIX) && item[A.sk] === jobKey('').sk;

/**
 * Reads a job item, as the table, its index and its stream hold it. What a line shows of it, and who runs it, must be
 * right; of the rest, what is wrong is left out, and `unreadable` says so.
 *
 * @param item - with plain values: a stream record's image has to be unmarshalled first
 * @throws MalformedItemError - it names the item's key and the attribute
 */
export function decodeJob(item: Item): Job {
  const cells = cellsOf(item);
  const head = decodeJobHead(item);
  const worker = cells.has(A.worker) ? decodeWorkerIdentity(cells.map(A.worker)) : undefined;
  let unreadable: string | undefined;
  const read = <T>(decode: () => T, otherwise: T): T => {
    try {
      return decode();
    } catch (error) {
      if (!(error instanceof MalformedItemError)) throw error;
      unreadable ??= error.message;
      return otherwise;
    }
  };
  const optional = <T>(name: string, decode: () => T): T | undefined =>
    cells.has(name) ? read(decode, undefined) : undefined;
  const rest = {
    payload: read(() => cells.json(A.payload), null),
    contentHash: read(() => cells.text(A.contentHash), ''),
    submittedAtMs: read(() => cells.number(A.submittedAtMs), head.readyAtMs),
    workersLost: read(() => cells.count(A.workersLost), 0),
  };
  const result = optional(A.result, () => cells.json(A.result));
  const error = optional(A.error, () => decodeError(cells.map(A.error)));
  const checkpoint = optional(A.checkpoint, () => cells.json(A.checkpoint));
  const progress = optional(A.progress, () => cells.json(A.progress));
  // Whatever it says, somebody asked.
  const cancelRequestedAtMs = cells.has(A.cancelRequestedAtMs)
    ? read(() => cells.number(A.cancelRequestedAtMs), 0)
    : undefined;
  const redriveOf = optional(A.redriveOf, () => cells.text(A.redriveOf));
  const redrivenAs = optional(A.redrivenAs, () => cells.text(A.redrivenAs));
  const told = {
    cancelRequestedBy: optional(A.cancelRequestedBy, () => cells.text(A.cancelRequestedBy)),
    cancelRequestedIn: optional(A.cancelRequestedIn, () => cells.oneOf(A.cancelRequestedIn, STATES)),
    redriveBy: optional(A.redriveBy, () => cells.text(A.redriveBy)),
    redrivenAtMs: optional(A.redrivenAtMs, () => cells.number(A.redrivenAtMs)),
    redrivenBy: optional(A.redrivenBy, () => cells.text(A.redrivenBy)),
    history: optional(A.history, () => cells.packed(A.history, unpackHistory)),
  };
  return {
    ...head,
    ...rest,
    ...(worker === undefined ? {} : { worker }),
    ...(cells.has(A.runUntilMs) ? { runUntilMs: cells.number(A.runUntilMs) } : {}),
    ...(result === undefined ? {} : { result }),
    ...(error === undefined ? {} : { error }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
    ...(progress === undefined ? {} : { progress }),
    ...(cancelRequestedAtMs === undefined ? {} : { cancelRequestedAtMs }),
    ...(redriveOf === undefined ? {} : { redriveOf }),
    ...(redrivenAs === undefined ? {} : { redrivenAs }),
    ...present(told),
    ...(unreadable === undefined ? {} : { unreadable }),
  };
}

/**
 * Reads what the index shows of a job.
 *
 * @throws MalformedItemError - it names the item's key and the attribute
 */
export function decodeJobHead(item: Item): JobHead {
  const cells = cellsOf(item);
  if (!isJobItem(item)) throw cells.malformed(A.pk, 'the key of a job');
  return {
    id: cells.text(A.pk).slice(JOB_PREFIX.length),
    type: cells.text(A.type),
    priority: cells.number(A.priority),
    mode: cells.oneOf(A.mode, JOB_MODES),
    fairnessKey: cells.text(A.fairnessKey),
    ...(cells.has(A.resourceId) ? { resourceId: cells.text(A.resourceId) } : {}),
    readyAtMs: cells.number(A.readyAtMs),
    ...(cells.has(A.firstReadyAtMs) ? { firstReadyAtMs: cells.number(A.firstReadyAtMs) } : {}),
    version: cells.count(A.version),
    attempt: cells.count(A.attempt),
    partition: cells.count(A.partition),
    state: cells.oneOf(A.state, STATES),
    runAtMs: cells.number(A.runAtMs),
    ...(cells.has(A.claim) ? { claim: decodeClaim(cells.map(A.claim)) } : {}),
    ...(cells.has(A.startedAtMs) ? { startedAtMs: cells.number(A.startedAtMs) } : {}),
    ...(cells.has(A.finishedAtMs) ? { finishedAtMs: cells.number(A.finishedAtMs) } : {}),
  };
}

const decodeWorkerIdentity = (cells: Cells): { readonly workerId: string; readonly incarnation: string } => ({
  workerId: cells.text(A.workerId),
  incarnation: cells.text(A.incarnation),
});

const decodeError = (cells: Cells): JobError => ({
  name: cells.text(A.name),
  message: cells.text(A.message),
});

// Leases and wakes

export interface LeaseItem {
  readonly epoch: number;
  readonly holder: string | undefined;
  readonly expiresAtMs: number;
  readonly callId: string | undefined;
  readonly wakesSeen: number | undefined;
  readonly lastHolder: string | undefined;
  readonly takenAtMs: number | undefined;
  readonly declared: number | undefined;
  readonly carried: Carried | undefined;
}

export const encodeCarried = (carried: Carried): Item => ({
  [A.version]: carried.version,
  [A.moved]: carried.moved,
  [A.isDone]: carried.isDone,
  [A.after]: carried.after,
  [A.sinceEpoch]: carried.sinceEpoch,
  [A.isHandedOver]: carried.isHandedOver,
});

const decodeCarried = (cells: Cells): Carried => ({
  version: cells.count(A.version),
  moved: cells.count(A.moved),
  isDone: cells.flag(A.isDone),
  ...(cells.has(A.after) ? { after: cells.text(A.after) } : {}),
  ...(cells.has(A.sinceEpoch) ? { sinceEpoch: cells.count(A.sinceEpoch) } : {}),
  ...(cells.has(A.isHandedOver) ? { isHandedOver: cells.flag(A.isHandedOver) } : {}),
});

export function decodeLease(item: Item): LeaseItem {
  const cells = cellsOf(item);
  return {
    epoch: cells.count(A.epoch),
    holder: cells.has(A.holder) ? cells.text(A.holder) : undefined,
    expiresAtMs: cells.number(A.expiresAtMs),
    callId: cells.has(A.callId) ? cells.text(A.callId) : undefined,
    wakesSeen: cells.has(A.wakesSeen) ? cells.count(A.wakesSeen) : undefined,
    lastHolder: cells.has(A.lastHolder) ? cells.text(A.lastHolder) : undefined,
    takenAtMs: cells.has(A.takenAtMs) ? cells.number(A.takenAtMs) : undefined,
    declared: cells.has(A.declared) ? cells.count(A.declared) : undefined,
    carried: cells.has(A.carried) ? decodeCarried(cells.map(A.carried)) : undefined,
  };
}

export const decodeDueShards = (item: Item): number => cellsOf(item).count(A.dueShards);

export const decodeWakes = (item: Item): number => cellsOf(item).count(A.wakes);

export const encodeLookout = (partition: number, lookout: Lookout, callId: string): Item => ({
  ...lookoutKey(partition),
  [A.sinceMs]: lookout.sinceMs,
  [A.atMs]: lookout.atMs,
  [A.nextAtMs]: lookout.nextAtMs,
  [A.judgedUntilMs]: lookout.judgedUntilMs,
  [A.callId]: callId,
});

export function decodeLookout(item: Item): Lookout {
  const cells = cellsOf(item);
  return {
    sinceMs: cells.number(A.sinceMs),
    atMs: cells.number(A.atMs),
    nextAtMs: cells.number(A.nextAtMs),
    judgedUntilMs: cells.number(A.judgedUntilMs),
  };
}

// Declarations

/** A version, and which text it means, in how many parts. */
export interface DeclarationItem {
  readonly version: number;
  readonly hash: string;
  readonly parts: number;
  readonly declaredAtMs: number;
}

export const encodeDeclaration = (key: ItemKey, declaration: DeclarationItem): Item => ({
  ...key,
  [A.version]: declaration.version,
  [A.hash]: declaration.hash,
  [A.parts]: declaration.parts,
  [A.declaredAtMs]: declaration.declaredAtMs,
});

export function decodeDeclaration(item: Item): DeclarationItem {
  const cells = cellsOf(item);
  return {
    version: cells.count(A.version),
    hash: cells.text(A.hash),
    parts: cells.count(A.parts),
    declaredAtMs: cells.number(A.declaredAtMs),
  };
}

export const encodeDeclarationText = (hash: string, at: number, text: string): Item => ({
  ...declarationTextKey(hash, at),
  [A.text]: text,
});

export const decodeDeclarationText = (item: Item): string => cellsOf(item).text(A.text);

// Reservations

/** Ids of jobs are mostly 32 hexadecimal digits: those are kept as 22 characters behind a tilde, others behind an equals sign. */
const HEX_ID = /^[0-9a-f]{32}$/;

const packId = (id: string): string =>
  HEX_ID.test(id) ? `~${Buffer.from(id, 'hex').toString('base64url')}` : `=${id}`;

const unpackId = (packed: string): string =>
  packed.startsWith('~') ? Buffer.from(packed.slice(1), 'base64url').toString('hex') : packed.slice(1);

/**
 * What the jobs of a batch share, and so is written once: type, tier, fleet, estimated cost, conflict key; of a job that has
 * a resource but no conflict key: null, and the resource.
 */
type Shape = readonly [string, string, string, number, (string | null)?, string?];
/** Packed id, number of the shape, number of the fairness key; then, where they are not 1, 1 and its own index: version, attempt, position. */
type Row = readonly [string, number, number, number?, number?, number?];

/** The jobs of a reservation as text: some 35 bytes for each. */
function packJobs(jobs: ReadonlyMap<number, ReservedJob>): string {
  const shapes = new Map<string, number>();
  const keys = new Map<string, number>();
  const numberOf = (numbers: Map<string, number>, name: string): number => {
    const known = numbers.get(name);
    if (known !== undefined) return known;
    numbers.set(name, numbers.size);
    return numbers.size - 1;
  };
  const rows = [...jobs].map(([position, job], at): Row => {
    const { type, tier, fleet, estimatedCostMs, conflictKey, resourceId } = job;
    const held = [type, tier, fleet, storable(estimatedCostMs)] as const;
    const free: Shape = resourceId === undefined ? held : [...held, null, resourceId];
    const shape: Shape = conflictKey === undefined ? free : [...held, conflictKey];
    const common = [
      packId(job.id),
      numberOf(shapes, JSON.stringify(shape)),
      numberOf(keys, job.fairnessKey),
    ] as const;
    if (position !== at) return [...common, job.version, job.attempt, position];
    return job.version === 1 && job.attempt === 1 ? common : [...common, job.version, job.attempt];
  });
  return tightened(
    `[[${[...shapes.keys()].join(',')}],${JSON.stringify([...keys.keys()])},${JSON.stringify(rows)}]`,
  );
}

/** Where JSON takes six bytes for a control character, its picture takes three; pictures themselves take six. */
const PICTURES = 0x2400;
const PICTURE = /[\u2400-\u241f]/g;
const TIGHTENED = /[\\\u2400-\u241f]/;

function tightened(json: string): string {
  if (!TIGHTENED.test(json)) return json;
  return json
    .replace(PICTURE, (picture) => `\\u${picture.charCodeAt(0).toString(16)}`)
    .replace(/\\(?:u00([01][0-9a-f])|.)/gs, (escaped, code: string | undefined) =>
      code === undefined ? escaped : String.fromCharCode(PICTURES + Number.parseInt(code, 16)),
    );
}

const loosened = (text: string): string =>
  text.replace(
    PICTURE,
    (picture) => `\\u${(picture.charCodeAt(0) - PICTURES).toString(16).padStart(4, '0')}`,
  );

/** Throws whatever is thrown on the way: the caller names the attribute. */
function unpackJobs(packed: unknown): ReadonlyMap<number, ReservedJob> {
  const [shapes, keys, rows] = packed as readonly [readonly Shape[], readonly string[], readonly Row[]];
  const jobs = rows.map(([id, shapeAt, keyAt, version = 1, attempt = 1, position], at) => {
    const shape = shapes[shapeAt];
    const fairnessKey = keys[keyAt];
    if (shape === undefined || typeof fairnessKey !== 'string' || typeof id !== 'string') {
      throw new TypeError(`row ${at} names what is not there`);
    }
    const [type, tier, fleet, estimatedCostMs, conflictKey, resourceId] = shape;
    if (![type, tier, fleet].every((each) => typeof each === 'string'))
      throw new TypeError(`shape ${shapeAt}`);
    if (![version, attempt, position ?? at, estimatedCostMs].every(Number.isFinite))
      throw new TypeError(`row ${at}`);
    const common = { id: unpackId(id), version, attempt, type, tier, fairnessKey, fleet, estimatedCostMs };
    const free: ReservedJob = resourceId === undefined ? common : { ...common, resourceId };
    const job: ReservedJob = typeof conflictKey === 'string' ? { ...common, conflictKey } : free;
    return [position ?? at, job] as const;
  });
  return new Map(jobs.sort(([a], [b]) => a - b));
}

export function encodeReservation(partition: number, reservation: Reservation): Item {
  return {
    ...reservationKey(partition, reservation.batchId),
    [A.reservationEpoch]: reservation.epoch,
    [A.checkAtMs]: reservation.checkAtMs,
    [A.reservedAtMs]: reservation.reservedAtMs,
    [A.reservedJobs]: packJobs(reservation.jobs),
  };
}

export function decodeReservation(item: Item): Reservation {
  const cells = cellsOf(item);
  return {
    batchId: cells.text(A.sk).slice(RESERVATION_PREFIX.length),
    epoch: cells.count(A.reservationEpoch),
    checkAtMs: cells.number(A.checkAtMs),
    reservedAtMs: cells.number(A.reservedAtMs),
    jobs: cells.packed(A.reservedJobs, unpackJobs, loosened),
  };
}

// The page

/** A set of places as one number in base 36: a bit for each. */
function packPlaces(places: ReadonlySet<number>): string {
  let bits = 0n;
  for (const place of places) bits |= 1n << BigInt(place);
  return bits.toString(36);
}

function unpackPlaces(packed: string): ReadonlySet<number> {
  let bits = 0n;
  for (const digit of packed) bits = bits * 36n + BigInt(Number.parseInt(digit, 36));
  const places = new Set<number>();
  for (let place = 0; bits > 0n; place += 1, bits >>= 1n) if ((bits & 1n) === 1n) places.add(place);
  return places;
}

/**
 * Flat: the instant from which the others count, then fairness key, settled cost and last seen for each. Where there is more
 * to say, a list in place of the last: last seen, present until, whether undecided, and a hash and an instant for each later job.
 */
function packLedgers(ledgers: ReadonlyMap<string, Ledger>): string {
  const sinceMs = Math.min(...[...ledgers.values()].map(({ lastSeenMs }) => lastSeenMs));
  const flat = [...ledgers.values()].flatMap((ledger) => {
    const { fairnessKey, settledCostMs, lastSeenMs, presentUntilMs, isUndecided, later = [] } = ledger;
    const seen = lastSeenMs - sinceMs;
    const until = presentUntilMs === undefined ? [] : [presentUntilMs - sinceMs];
    const isMore = isUndecided === true || later.length > 0;
    const more = isMore
      ? [until[0] ?? null, Number(isUndecided === true), ...packLater(later, sinceMs)]
      : until;
    return [fairnessKey, storable(settledCostMs), more.length === 0 ? seen : [seen, ...more]];
  });
  return JSON.stringify(ledgers.size === 0 ? [] : [sinceMs, ...flat]);
}

function unpackLedgers(packed: unknown): ReadonlyMap<string, Ledger> {
  const [sinceMs, ...flat] = packed as readonly [number, ...(string | number | readonly number[])[]];
  const ledgers = new Map<string, Ledger>();
  for (let at = 0; at < flat.length; at += 3) {
    const fairnessKey = flat[at];
    const settledCostMs = Number(flat[at + 1]);
    const seen = flat[at + 2];
    const [last, until, undecided = 0, ...pairs] = (Array.isArray(seen) ? seen : [seen]) as unknown as Packed;
    const numbers = [settledCostMs, last, until ?? 0, undecided, ...pairs];
    const isSound = numbers.every((each) => Number.isFinite(each)) && pairs.length % 2 === 0;
    if (typeof fairnessKey !== 'string' || !isSound) throw new TypeError(`entry ${at}`);
    ledgers.set(fairnessKey, {
      fairnessKey,
      settledCostMs,
      lastSeenMs: sinceMs + last,
      ...(typeof until === 'number' ? { presentUntilMs: sinceMs + until } : {}),
      ...(undecided === 1 ? { isUndecided: true } : {}),
      ...(pairs.length > 0 ? { later: unpackLater(pairs, sinceMs) } : {}),
    });
  }
  return ledgers;
}

type Packed = readonly [last: number, until?: number | null, undecided?: number, ...pairs: number[]];

const packLater = (later: readonly LaterJob[], sinceMs: number): readonly number[] =>
  later.flatMap(({ hash, untilMs }) => [hash, untilMs - sinceMs]);

/** @param pairs - hash and instant of each, in turn */
function unpackLater(pairs: readonly number[], sinceMs: number): readonly LaterJob[] {
  return pairs.flatMap((hash, at) =>
    at % 2 === 0 ? [{ hash, untilMs: sinceMs + (pairs[at + 1] ?? Number.NaN) }] : [],
  );
}

const decodeLater = (packed: unknown): readonly LaterJob[] => {
  const pairs = packed as readonly number[];
  if (!pairs.every((each) => Number.isFinite(each)) || pairs.length % 2 !== 0) throw new TypeError('pairs');
  return unpackLater(pairs, 0);
};

const packEstimates = (estimates: ReadonlyMap<string, EstimateRecord>): string =>
  JSON.stringify(
    [...estimates.values()].map(({ type, meanMs, varianceMs2, samples, lastSeenMs }) => [
      type,
      storable(meanMs),
      storable(varianceMs2),
      samples,
      lastSeenMs,
    ]),
  );

function unpackEstimates(packed: unknown): ReadonlyMap<string, EstimateRecord> {
  const rows = packed as readonly (readonly [string, number, number, number, number])[];
  return new Map(
    rows.map(([type, meanMs, varianceMs2, samples, lastSeenMs]) => {
      if (typeof type !== 'string' || ![meanMs, varianceMs2, samples, lastSeenMs].every(Number.isFinite)) {
        throw new TypeError(`estimate ${String(type)}`);
      }
      return [type, { type, resourceId: '', meanMs, varianceMs2, samples, lastSeenMs }] as const;
    }),
  );
}

const packBatches = (batches: Page['batches']): string =>
  JSON.stringify(
    [...batches].map(([batchId, { settled, checkAtMs }]) => [
      batchId,
      packPlaces(settled),
      ...(checkAtMs === undefined ? [] : [checkAtMs]),
    ]),
  );

function unpackBatches(packed: unknown): Page['batches'] {
  const rows = packed as readonly (readonly [string, string, number?])[];
  return new Map(
    rows.map(([batchId, places, checkAtMs]) => {
      if (typeof batchId !== 'string' || !/^[0-9a-z]+$/.test(places)) throw new TypeError(`batch ${batchId}`);
      return [
        batchId,
        { settled: unpackPlaces(places), ...(checkAtMs === undefined ? {} : { checkAtMs }) },
      ] as const;
    }),
  );
}

const packAttendance = ({ sinceMs, atMs, heldBackSinceMs }: Attendance): string =>
  JSON.stringify([sinceMs, atMs, ...(heldBackSinceMs === undefined ? [] : [heldBackSinceMs])]);

function unpackAttendance(packed: unknown): Attendance {
  const [sinceMs, atMs, heldBackSinceMs] = packed as readonly [number, number, number?];
  if (![sinceMs, atMs, heldBackSinceMs ?? 0].every(Number.isFinite)) throw new TypeError('instants');
  return { sinceMs, atMs, ...(heldBackSinceMs === undefined ? {} : { heldBackSinceMs }) };
}

export function encodePage(partition: number, page: Page): Item {
  return {
    ...pageKey(partition),
    [A.turn]: page.turn,
    [A.ledgers]: packLedgers(page.ledgers),
    [A.estimates]: packEstimates(page.estimates),
    [A.batches]: packBatches(page.batches),
    [A.parks]: page.parks ? true : undefined,
    [A.attendance]: page.attendance === undefined ? undefined : packAttendance(page.attendance),
    [A.liftedAtMs]: page.liftedAtMs,
    [A.isLifted]: page.isLifted === true ? true : undefined,
  };
}

export function decodePage(item: Item): Page {
  const cells = cellsOf(item);
  return {
    turn: cells.count(A.turn),
    ledgers: cells.packed(A.ledgers, unpackLedgers),
    estimates: cells.packed(A.estimates, unpackEstimates),
    batches: cells.packed(A.batches, unpackBatches),
    parks: cells.has(A.parks),
    ...(cells.has(A.attendance) ? { attendance: cells.packed(A.attendance, unpackAttendance) } : {}),
    ...(cells.has(A.liftedAtMs) ? { liftedAtMs: cells.number(A.liftedAtMs) } : {}),
    ...(cells.has(A.isLifted) ? { isLifted: true } : {}),
  };
}

export const encodeParkedMark = (partition: number, { conflictKey, parkedAtMs }: ParkedMark): Item => ({
  ...parkedKey(partition, conflictKey),
  [A.conflictKey]: conflictKey,
  [A.parkedAtMs]: parkedAtMs,
});

export function decodeParkedMark(item: Item): ParkedMark {
  const cells = cellsOf(item);
  return { conflictKey: cells.text(A.conflictKey), parkedAtMs: cells.number(A.parkedAtMs) };
}

// Workers and controls

export function encodeWorkerRecord(partition: number, worker: WorkerRecord): Item {
  return {
    ...workerKey(partition, worker.workerId),
    ...encodeWorker(worker),
    [A.fleet]: worker.fleet,
    [A.slots]: worker.slots,
    [A.expiresAtMs]: worker.expiresAtMs,
    [A.ttl]: workerTtlSec(worker),
    [A.formerUntilMs]: worker.formerUntilMs,
    [A.heardAtMs]: worker.heardAtMs,
    [A.lagMs]: worker.load?.lagMs,
    [A.memoryMb]: worker.load?.memoryMb,
    [A.isEnding]: worker.isEnding === true,
    [A.occupants]: encodeOccupants(worker),
  };
}

/** Long after its end: a former life of its name may have had the longer lease. */
export const workerTtlSec = ({ expiresAtMs }: Pick<WorkerRecord, 'expiresAtMs'>): number =>
  ttlSec(expiresAtMs + WORKER_KEPT_MS);
const WORKER_KEPT_MS = 3_600_000;

export const encodeOccupants = ({ occupants }: Pick<WorkerRecord, 'occupants'>): readonly Item[] =>
  occupants.map(({ claimId, jobId, progress }) => ({
    [A.claimId]: claimId,
    [A.jobId]: jobId,
    [A.progress]: progress === undefined ? undefined : encodeJson(progress),
  }));

export function decodeWorkerRecord(item: Item): WorkerRecord {
  const cells = cellsOf(item);
  return {
    ...decodeWorkerIdentity(cells),
    fleet: cells.text(A.fleet),
    slots: cells.count(A.slots),
    expiresAtMs: cells.number(A.expiresAtMs),
    ...(cells.has(A.formerUntilMs) ? { formerUntilMs: cells.number(A.formerUntilMs) } : {}),
    ...(cells.has(A.lagMs) && cells.has(A.memoryMb)
      ? { load: { lagMs: cells.number(A.lagMs), memoryMb: cells.number(A.memoryMb) } }
      : {}),
    ...(cells.has(A.heardAtMs) ? { heardAtMs: cells.number(A.heardAtMs) } : {}),
    ...(cells.has(A.isEnding) && cells.flag(A.isEnding) ? { isEnding: true } : {}),
    occupants: cells.list(A.occupants).map((occupant) => ({
      claimId: occupant.text(A.claimId),
      jobId: occupant.text(A.jobId),
      ...(occupant.has(A.progress) ? { progress: occupant.json(A.progress) } : {}),
    })),
  };
}

/**
 * What stands for a worker's record that cannot be read: a life without a slot that lasts until the record is collected or
 * corrected, because its jobs may be running. Undefined once it has long been over.
 *
 * @throws MalformedItemError - `cause`: nothing in the item says whose record it is
 */
export function unreadableWorker(
  partition: number,
  item: Item,
  nowMs: number,
  cause: MalformedItemError,
): WorkerRecord | undefined {
  const ttl = item[A.ttl];
  if (typeof ttl === 'number' && ttl * 1000 <= nowMs) return undefined;
  const sk = String(item[A.sk]);
  const workerId = [item[A.workerId], namedBy(sk.slice(WORKER_PREFIX.length))].find(
    (name): name is string => typeof name === 'string' && workerKey(partition, name).sk === sk,
  );
  if (workerId === undefined) throw cause;
  const forEver = Number.MAX_SAFE_INTEGER;
  const life = { workerId, incarnation: '', fleet: '', slots: 0, isEnding: true, occupants: [] };
  return { ...life, expiresAtMs: forEver, formerUntilMs: forEver };
}

/** Nobody knows what it says: its scope is paused. */
export const unreadableControl = (item: Item): Control => ({
  scope: String(item[A.sk]).slice(CONTROL_PREFIX.length),
  paused: true,
});

function namedBy(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

export function decodeControl(item: Item): Control {
  const cells = cellsOf(item);
  return {
    scope: cells.text(A.scope),
    paused: cells.flag(A.paused),
    ...(cells.has(A.maxConcurrency) ? { maxConcurrency: cells.count(A.maxConcurrency) } : {}),
    ...(cells.has(A.weight) ? { weight: cells.number(A.weight) } : {}),
  };
}

// Loans

export const encodeLoan = (partition: number, loan: Loan): Item => ({
  ...loanKey(partition, loan.loanId),
  [A.loanId]: loan.loanId,
  [A.lender]: loan.from,
  [A.borrower]: loan.to,
  [A.units]: loan.units,
  [A.scopes]: JSON.stringify(
    loan.scopes.map(({ scope, under, fleet }) =>
      fleet === undefined ? [scope, under] : [scope, under, fleet],
    ),
  ),
  [A.expiresAtMs]: loan.expiresAtMs,
});

export function decodeLoan(item: Item): Loan {
  const cells = cellsOf(item);
  return {
    loanId: cells.text(A.loanId),
    from: cells.count(A.lender),
    to: cells.count(A.borrower),
    units: cells.count(A.units),
    scopes: cells.packed(A.scopes, unpackScopes),
    expiresAtMs: cells.number(A.expiresAtMs),
  };
}

const textOf = (value: unknown): string => {
  if (typeof value !== 'string') throw new TypeError(`${JSON.stringify(value)} is not text`);
  return value;
};

const unpackScopes = (packed: unknown): readonly LentScope[] =>
  (packed as readonly (readonly unknown[])[]).map(([scope, under, fleet]) => ({
    scope: textOf(scope),
    under: textOf(under),
    ...(fleet === undefined ? {} : { fleet: textOf(fleet) }),
  }));

/** One that nobody can grant any more may be collected. */
export const encodeRequest = (partition: number, request: LoanRequest): Item => ({
  ...requestKey(partition, request.partition),
  [A.borrower]: request.partition,
  [A.wants]: JSON.stringify(request.wants.map(({ units, scopes, fleets }) => [units, scopes, fleets])),
  [A.askedAtMs]: request.askedAtMs,
  [A.untilMs]: request.untilMs,
  [A.ttl]: ttlSec(request.untilMs),
});

export function decodeRequest(item: Item): LoanRequest {
  const cells = cellsOf(item);
  return {
    partition: cells.count(A.borrower),
    wants: cells.packed(A.wants, unpackWants),
    askedAtMs: cells.number(A.askedAtMs),
    untilMs: cells.number(A.untilMs),
  };
}

const unpackWants = (packed: unknown): readonly Want[] =>
  (packed as readonly (readonly [unknown, readonly unknown[], readonly unknown[]])[]).map(
    ([units, scopes, fleets]) => {
      if (!Number.isSafeInteger(units)) throw new TypeError(`${JSON.stringify(units)} is not a whole number`);
      return { units: Number(units), scopes: scopes.map(textOf), fleets: fleets.map(textOf) };
    },
  );

// Dispatchers

/** How much of the time it makes passes; then jobs that wait, whether there are more, how long, lag and memory, null where unknown. */
const packLoad = ({ waiting, waitedMs, busy, eventLoopLagMs, memoryBytes }: DispatcherLoad): string =>
  JSON.stringify([
    busy,
    waiting?.jobs ?? null,
    waiting?.isLeast ?? null,
    waitedMs ?? null,
    eventLoopLagMs ?? null,
    memoryBytes ?? null,
  ]);

/** Throws whatever is thrown on the way: the caller names the attribute. */
function unpackLoad(packed: unknown): DispatcherLoad {
  const [busy, jobs, isLeast, waitedMs, eventLoopLagMs, memoryBytes] = packed as readonly unknown[];
  const known = (value: unknown): number | undefined => (value === null ? undefined : numberIn(value));
  return {
    ...(jobs === null ? {} : { waiting: { jobs: numberIn(jobs), isLeast: isLeast === true } }),
    ...present({ waitedMs: known(waitedMs) }),
    busy: numberIn(busy),
    ...present({ eventLoopLagMs: known(eventLoopLagMs), memoryBytes: known(memoryBytes) }),
  };
}

export function encodeDispatcher(record: DispatcherRecord, collectedAtSec: number): Item {
  const { dispatcherId, incarnation, leads, load, expiresAtMs } = record;
  return {
    ...dispatcherKey(dispatcherId),
    [A.dispatcherId]: dispatcherId,
    [A.incarnation]: incarnation,
    [A.leads]: leads.length === 0 ? undefined : new Set(leads.map(encodePartition)),
    [A.load]: load && packLoad(load),
    [A.expiresAtMs]: expiresAtMs,
    [A.ttl]: collectedAtSec,
  };
}

export function decodeDispatcher(item: Item): DispatcherRecord {
  const cells = cellsOf(item);
  return {
    dispatcherId: cells.text(A.dispatcherId),
    incarnation: cells.text(A.incarnation),
    leads: decodePartitions(cells, A.leads),
    ...(cells.has(A.load) ? { load: cells.packed(A.load, unpackLoad) } : {}),
    expiresAtMs: cells.number(A.expiresAtMs),
  };
}

// Locks

/** A partition inside a set. */
export const encodePartition = (partition: number): string => String(partition);

/** Ascending. */
function decodePartitions(cells: Cells, name: string): readonly number[] {
  const texts = cells.has(name) ? cells.texts(name) : [];
  return texts
    .map((text) => {
      if (!/^\d{1,6}$/.test(text)) throw cells.malformed(name, 'a set of partitions');
      return Number(text);
    })
    .sort((one, other) => one - other);
}

export function decodeLock(item: Item): Lock {
  const cells = cellsOf(item);
  return {
    conflictKey: cells.text(A.conflictKey),
    ...(cells.has(A.claimId)
      ? {
          holder: {
            partition: cells.count(A.partition),
            claimId: cells.text(A.claimId),
            jobId: cells.text(A.jobId),
          },
        }
      : {}),
    ...(cells.has(A.turnOf)
      ? { turn: { partition: cells.count(A.turnOf), untilMs: cells.number(A.untilMs) } }
      : {}),
    waiting: decodePartitions(cells, A.waiting),
  };
}

// Ledgers, backlogs, estimates

export const encodeLedger = (key: ItemKey, ledger: Ledger): Item => ({
  ...key,
  [A.fairnessKey]: ledger.fairnessKey,
  [A.settledCostMs]: storable(ledger.settledCostMs),
  [A.lastSeenMs]: ledger.lastSeenMs,
  [A.presentUntilMs]: ledger.presentUntilMs,
  [A.later]: ledger.later === undefined ? undefined : JSON.stringify(packLater(ledger.later, 0)),
  [A.isUndecided]: ledger.isUndecided === true ? true : undefined,
});

export function decodeLedger(item: Item): Ledger {
  const cells = cellsOf(item);
  return {
    fairnessKey: cells.text(A.fairnessKey),
    settledCostMs: cells.number(A.settledCostMs),
    lastSeenMs: cells.number(A.lastSeenMs),
    ...(cells.has(A.presentUntilMs) ? { presentUntilMs: cells.number(A.presentUntilMs) } : {}),
    ...(cells.has(A.later) ? { later: cells.packed(A.later, decodeLater) } : {}),
    ...(cells.has(A.isUndecided) ? { isUndecided: true } : {}),
  };
}

/** A line inside a backlog's set: its mode, and its part where it is not the first, or the conflict key whose jobs are parked. */
export const encodeBacklogLine = ({
  mode,
  sub = 0,
  parkedIn,
}: Pick<AnnouncedLine, 'mode' | 'sub' | 'parkedIn'>): string =>
  parkedIn === undefined ? `${mode}${sub === 0 ? '' : `.${sub}`}` : `${mode}!${parkedIn}`;

const isMode = (text: string): text is JobMode => JOB_MODES.some((mode) => mode === text);

/** As a backlog's set names its lines. */
export const namesOf = ({ lines, parked = [] }: Pick<KeyBacklog, 'lines' | 'parked'>): readonly string[] => [
  ...lines.map(encodeBacklogLine),
  ...parked.map(({ mode, conflictKey }) => encodeBacklogLine({ mode, parkedIn: conflictKey })),
];

export function decodeBacklog(item: Item): KeyBacklog {
  const cells = cellsOf(item);
  const lines: KeyBacklog['lines'][number][] = [];
  const parked: ParkedLine[] = [];
  for (const text of cells.texts(A.lines).toSorted()) {
    const [, mode = '', sub = '0', conflictKey] = /^(\w+)(?:\.(\d{1,3})|!(.*))?$/s.exec(text) ?? [];
    if (!isMode(mode))
      throw cells.malformed(A.lines, 'a set of <mode>, <mode>.<part> and <mode>!<conflict key>');
    if (conflictKey !== undefined) parked.push({ mode, conflictKey });
    else lines.push(sub === '0' ? { mode } : { mode, sub: Number(sub) });
  }
  return {
    fairnessKey: cells.text(A.fairnessKey),
    lines,
    ...(parked.length === 0 ? {} : { parked }),
    announcedAtMs: cells.number(A.announcedAtMs),
    rankCostMs: costOfRank(cells.text(A.rank)),
  };
}

export const encodeEstimate = (key: ItemKey, estimate: EstimateRecord): Item => ({
  ...key,
  [A.type]: estimate.type,
  [A.resourceId]: estimate.resourceId,
  [A.meanMs]: storable(estimate.meanMs),
  [A.varianceMs2]: storable(estimate.varianceMs2),
  [A.samples]: estimate.samples,
  [A.lastSeenMs]: estimate.lastSeenMs,
});

export function decodeEstimate(item: Item): EstimateRecord {
  const cells = cellsOf(item);
  return {
    type: cells.text(A.type),
    resourceId: cells.text(A.resourceId),
    meanMs: cells.number(A.meanMs),
    varianceMs2: cells.number(A.varianceMs2),
    samples: cells.count(A.samples),
    lastSeenMs: cells.number(A.lastSeenMs),
  };
}

// Items that cannot be read

/** The note of one: it outlives the process that found it. */
export const encodeUnreadable = (partition: number, item: Item, reason: string, seenAtMs: number): Item => {
  const key = { pk: String(item[A.pk]), sk: String(item[A.sk]) };
  return {
    ...unreadableKey(partition, key),
    [A.itemPk]: key.pk,
    [A.itemSk]: key.sk,
    [A.reason]: reason,
    [A.formerLine]: item[A.line],
    [A.formerRank]: item[A.rank],
    [A.seenAtMs]: seenAtMs,
  };
};

export function decodeUnreadable(item: Item): { readonly of: ItemKey; readonly told: UnreadableItem } {
  const cells = cellsOf(item);
  const of = { pk: cells.text(A.itemPk), sk: cells.text(A.itemSk) };
  return {
    of,
    told: {
      key: `${of.pk} ${of.sk}`,
      reason: cells.text(A.reason),
      ...(cells.has(A.formerLine) ? { line: cells.text(A.formerLine) } : {}),
      ...(cells.has(A.formerRank) ? { rank: cells.text(A.formerRank) } : {}),
      seenAtMs: cells.number(A.seenAtMs),
    },
  };
}

/** Whether an item of a kind that is noted can be read. */
export function isReadable(item: Item): boolean {
  const sk = String(item[A.sk]);
  const decode = isJobItem(item)
    ? decodeJob
    : sk.startsWith(WORKER_PREFIX)
      ? decodeWorkerRecord
      : sk.startsWith(CONTROL_PREFIX)
        ? decodeControl
        : decodeBacklog;
  try {
    decode(item);
    return true;
  } catch (error) {
    if (error instanceof MalformedItemError) return false;
    throw error;
  }
}

// Rejections

export const encodeRejection = (rejection: Rejection): Item => ({
  ...rejectionKey(rejection.sourceId, rejection.position),
  [A.sourceId]: rejection.sourceId,
  [A.position]: rejection.position,
  [A.field]: rejection.field,
  [A.reason]: rejection.reason,
  [A.detail]: rejection.detail,
  [A.rejectedAtMs]: rejection.rejectedAtMs,
  [A.expiresAtMs]: rejection.expiresAtMs,
  [A.ttl]: ttlSec(rejection.expiresAtMs),
});

export function decodeRejection(item: Item): Rejection {
  const cells = cellsOf(item);
  return {
    sourceId: cells.text(A.sourceId),
    position: cells.count(A.position),
    field: cells.text(A.field),
    reason: cells.text(A.reason),
    detail: cells.text(A.detail),
    rejectedAtMs: cells.number(A.rejectedAtMs),
    expiresAtMs: cells.number(A.expiresAtMs),
  };
}
