/** What items are called inside: nothing else knows the name of an attribute. */
import {
  APART_FIELDS,
  type ApartField,
  HEAD_FIELDS,
  type HeadField,
  ITEM_FIELDS,
  type ItemField,
} from '../../contract/job-fields.ts';
import { TABLE } from '../schema.ts';

/** An item as plain values: text, numbers, booleans, arrays, objects, and sets of text. */
export type Item = Readonly<Record<string, unknown>>;

/** Each field of a job is an attribute of its own name. */
const JOB_ATTRIBUTE = Object.fromEntries(
  [...HEAD_FIELDS, ...ITEM_FIELDS, ...APART_FIELDS].map((name) => [name, name]),
) as {
  readonly [Field in HeadField | ItemField | ApartField]: Field;
};

/** Attributes by the names that expressions call them: `#state` stands for `ATTRIBUTE.state`. */
export const ATTRIBUTE = {
  pk: TABLE.partitionKey,
  sk: TABLE.sortKey,
  ttl: TABLE.ttl,
  line: TABLE.line,
  rank: TABLE.rank,
  // Jobs.
  ...JOB_ATTRIBUTE,
  /** Names the item that the payload stands in, where it stands apart. */
  payloadId: 'payloadId',
  claimId: 'claimId',
  batchId: 'batchId',
  fleet: 'fleet',
  claimedAtMs: 'claimedAtMs',
  workerId: 'workerId',
  incarnation: 'incarnation',
  dispatcherId: 'dispatcherId',
  leads: 'leads',
  load: 'load',
  // Leaders and letters.
  holder: 'holder',
  wantsLetters: 'wantsLetters',
  letter: 'letter',
  expiresAtMs: 'expiresAtMs',
  /** Names one call, where nothing else tells its own repetition from another caller's success. */
  callId: 'callId',
  /** The newest declaration that the partition was told of. */
  declared: 'declared',
  // Declarations.
  hash: 'hash',
  text: 'text',
  revision: 'revision',
  parts: 'parts',
  declaredAtMs: 'declaredAtMs',
  // Reservations and the page: read whole by every pass, so short.
  reservations: 'j',
  /** The version that the reservation follows, where its item was put again behind a later one. */
  ledgers: 'k',
  estimates: 't',
  batches: 'b',
  inline: 'h',
  texts: 'z',
  commitId: 'i',
  namedBatches: 'y',
  parks: 'x',
  attendance: 'a',
  quiet: 'q',
  unseenUntilMs: 'u',
  /** How far jobs were moved to where the declaration wants them. */
  carried: 'd',
  chargedMean: 'm',
  baseVersion: 'o',
  ledgersSince: 's',
  goneSince: 'v',
  // Ledgers, backlogs, estimates.
  tier: 'tier',
  settledCostMs: 'settledCostMs',
  lastSeenMs: 'lastSeenMs',
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
  stack: 'stack',
  hung: 'hung',
  // Notes of items that cannot be read.
  itemPk: 'itemPk',
  itemSk: 'itemSk',
  formerLine: 'formerLine',
  formerRank: 'formerRank',
  seenAtMs: 'seenAtMs',
} as const;

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
