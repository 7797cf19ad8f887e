/** The names of all attributes. They are defined only here. */
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

/** Each field of a job is an attribute of the same name. */
const JOB_ATTRIBUTE = Object.fromEntries(
  [...HEAD_FIELDS, ...ITEM_FIELDS, ...APART_FIELDS].map((name) => [name, name]),
) as {
  readonly [Field in HeadField | ItemField | ApartField]: Field;
};

/** Attributes by the names that expressions use: `#state` stands for `ATTRIBUTE.state`. */
export const ATTRIBUTE = {
  pk: TABLE.partitionKey,
  sk: TABLE.sortKey,
  ttl: TABLE.ttl,
  line: TABLE.line,
  rank: TABLE.rank,
  expiry: TABLE.expiry,
  ...JOB_ATTRIBUTE,
  /** Names the item of the payload, if the payload has its own. */
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
  holder: 'holder',
  wantsLetters: 'wantsLetters',
  letter: 'letter',
  expiresAtMs: 'expiresAtMs',
  /** Names one call, if nothing else distinguishes its repetition from another caller's success. */
  callId: 'callId',
  /** The newest declaration that was written to the partition. */
  declared: 'declared',
  hash: 'hash',
  text: 'text',
  revision: 'revision',
  parts: 'parts',
  declaredAtMs: 'declaredAtMs',
  // Names of reservations and the partition summary are short, because every pass reads these items whole.
  reservations: 'j',
  ledgers: 'k',
  estimates: 't',
  batches: 'b',
  inline: 'h',
  texts: 'z',
  commitId: 'i',
  namedBatches: 'y',
  parks: 'x',
  observation: 'a',
  quiet: 'q',
  unseenUntilMs: 'u',
  uses: 'e',
  /** The progress of moving jobs for a new declaration. */
  carried: 'd',
  chargedMean: 'm',
  /** The counts of a minute. */
  counted: 'n',
  baseVersion: 'o',
  ledgersSince: 's',
  goneSince: 'v',
  tier: 'tier',
  settledCostMs: 'settledCostMs',
  lastSeenMs: 'lastSeenMs',
  lines: 'lines',
  announcedAtMs: 'announcedAtMs',
  meanMs: 'meanMs',
  varianceMs2: 'varianceMs2',
  samples: 'samples',
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
  pausedChanges: 'pausedChanges',
  maxConcurrencyChanges: 'maxConcurrencyChanges',
  weightChanges: 'weightChanges',
  restsUntilMs: 'restsUntilMs',
  weight: 'weight',
  sinceMs: 'sinceMs',
  atMs: 'atMs',
  nextAtMs: 'nextAtMs',
  judgedUntilMs: 'judgedUntilMs',
  loanId: 'loanId',
  lender: 'lender',
  borrower: 'borrower',
  units: 'units',
  scopes: 'scopes',
  wants: 'wants',
  askedAtMs: 'askedAtMs',
  parkedAtMs: 'parkedAtMs',
  conflictKey: 'conflictKey',
  turnOf: 'turnOf',
  untilMs: 'untilMs',
  waiting: 'waiting',
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
  itemPk: 'itemPk',
  itemSk: 'itemSk',
  formerLine: 'formerLine',
  formerRank: 'formerRank',
  seenAtMs: 'seenAtMs',
} as const;

const isAttribute = (name: string): name is keyof typeof ATTRIBUTE => Object.hasOwn(ATTRIBUTE, name);

/**
 * Returns the `ExpressionAttributeNames` of expressions: `#state` → the attribute's name. DynamoDB refuses names that
 * no expression uses.
 */
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
