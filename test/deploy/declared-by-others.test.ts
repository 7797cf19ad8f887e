/**
 * Declarations of other versions: what the last release has declared is read by this one, and what this one will have been followed by is
 * read as far as it may be, so that a deployment can be rolled back and clients of other teams go on.
 */
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { brotliCompressSync, brotliDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import {
  type DeclaredPool,
  encodeConfiguration,
  packDeclaration,
  unpackDeclaration,
} from '../../lib/declaration/codec.ts';
import { declare } from '../../lib/deploy/declare.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { queueUrlsFor } from '../fixtures/declared.ts';
import { stage } from '../stage/stage.ts';

/** With each field that may be left out. The compiler refuses it when a field is added that it has not. */
type Filled<Given> = Given extends readonly (infer Entry)[]
  ? readonly [Filled<Entry>, ...(readonly Entry[])]
  : Given extends (...given: never) => unknown
    ? Given
    : Given extends object
      ? string extends keyof Given
        ? { readonly filled: Filled<Given[string]> } & Given
        : { readonly [Key in keyof Given]-?: Filled<Exclude<Given[Key], undefined>> }
      : Given;

/** Something of everything that may be declared; a `Duration` is the CDK's. */
const FULL: Filled<PoolInput> = {
  tiers: [{ tier: 'gold', maxConcurrency: 8, guaranteed: 2 }, { tier: 'plain' }],
  types: {
    filled: {
      tier: 'gold',
      // A conflict group lets one job of a resource run, so `train` has one.
      conflictGroup: null,
      maxConcurrency: 4,
      maxConcurrencyPerResource: 2,
      requires: ['resourceId', 'fairnessKey'],
      expireAfter: '1h',
      listFinished: true,
      maxWaiting: 5_000,
      maxWaitingPerKey: 500,
      limits: ['filled', 'pages'],
      defaultCostMs: 1_500,
      timeoutMs: 30_000,
      retry: {
        maxAttempts: 3,
        backoff: 'linear',
        delayMs: 500,
        maxDelayMs: 5_000,
        jitter: 'none',
        errors: [
          { name: 'Busy', retry: true, delayMs: 700, maxAttempts: 2 },
          { name: 'NoSuchFile', retry: false },
        ],
        maxWorkersLost: 2,
      },
      onWorkerLost: 'retry',
    },
    train: { tier: 'plain', conflictGroup: 'album', timeoutMs: 60_000, onWorkerLost: 'resume' },
  },
  fleets: { filled: { types: ['filled'], slots: 6, batchSize: 2 }, gpu: { types: ['train'] } },
  limits: {
    filled: {
      keyedBy: 'org',
      total: 5,
      perKey: 2,
      rate: { starts: 500, units: null, per: '1m', perKey: 60, perJob: null },
      budget: { slotSeconds: 600, per: '1h' },
    },
    pages: { total: 3, rate: { units: 90_000, perKey: 10_000, perJob: 4_000, per: '1m' } },
  },
  maxConcurrency: 10,
  score: { priority: 500, ageSec: 8, rarity: 4, onDemand: 100, onDemandAgeSec: 24 },
  fairness: {
    alpha: 0.3,
    admissionFloorMs: 200,
    weights: { filled: 4 },
    defaultWeight: 2,
    maxConcurrencyPerKey: 7,
    idlePolicy: 'none',
    creditMs: 60_000,
    trueUp: false,
    keyTtlMs: 86_400_000,
    estimateFallback: 'type',
    estimateTtlMs: 172_800_000,
    resetEveryMs: 3_600_000,
  },
  lending: { backlogThreshold: 40, lentShare: 0.5, batch: 3, maxBorrowed: 6, loanMs: 40_000 },
  lostClaimsInARow: 4,
  partitions: 2,
  searchableTags: ['order'],
  statistics: true,
  largePayloads: { maxBytes: 1_048_576 },
};
const configuration = resolveConfiguration(FULL);
const OWN_QUEUE = { queueUrl: 'https://sqs/own', deadLetterQueueUrl: 'https://sqs/own-dead' };
const DECLARED: Required<DeclaredPool> = {
  configuration,
  queueUrls: queueUrlsFor(configuration),
  ownQueues: { ingest: OWN_QUEUE, outcomes: OWN_QUEUE },
  formerTypes: ['former'],
  partitionsEver: 4,
  partitionNumbers: [2, 4],
  sharedSince: 3,
  deployment: 'one',
  bucket: 'large-values',
  payloadSchemas: { filled: { type: 'object', properties: { page: { type: 'number' } } } },
};

const FIXTURES = join(import.meta.dirname, '../fixtures');
const RELEASES = readdirSync(FIXTURES).flatMap((name) => /^declared-(.+)\.txt$/.exec(name)?.[1] ?? []);

type Tree = Record<string, unknown>;
const inflated = (text: string): Tree =>
  JSON.parse(brotliDecompressSync(Buffer.from(text.slice(2), 'base64url')).toString());
const deflated = (value: unknown): string =>
  `1.${brotliCompressSync(Buffer.from(JSON.stringify(value))).toString('base64url')}`;

/** With a field that nobody knows in every object but records of names. */
function withMore(value: unknown, path = ''): unknown {
  if (Array.isArray(value)) return value.map((each) => withMore(each, `${path}[]`));
  if (typeof value !== 'object' || value === null) return value;
  const isRecord = /(queueUrls|ownQueues|weights)$|payloadSchemas/.test(path);
  const fields = Object.entries(value).map(([name, each]) => [name, withMore(each, `${path}.${name}`)]);
  return Object.fromEntries(isRecord ? fields : [...fields, ['brandNew', { of: 'another version' }]]);
}

describe('a declaration of another version', () => {
  it.each(RELEASES)('that version %s has written is read by this one', async (release) => {
    const path = join(FIXTURES, `declared-${release}.txt`);
    const written = (await readFile(path, 'utf8')).trim();
    expect(unpackDeclaration(written)).toMatchObject({ ...DECLARED });
  });

  it('has a text of this version, with something of everything', async () => {
    const path = join(FIXTURES, `declared-${packageJson.version}.txt`);
    const kept = await readFile(path, 'utf8').catch(() => '');
    // Compared as data, because a later Node may compress them to another text.
    const isKept =
      kept !== '' && isDeepStrictEqual(inflated(kept.trim()), inflated(packDeclaration(DECLARED)));
    await expect(isKept ? kept : `${packDeclaration(DECLARED)}\n`).toMatchFileSnapshot(path);
  });

  it('that comes later is read without the fields that this one does not know', () => {
    const later = withMore(inflated(packDeclaration(DECLARED)));
    expect(JSON.stringify(later).match(/brandNew/g)?.length).toBeGreaterThan(12);
    expect(unpackDeclaration(deflated(later))).toEqual(DECLARED);
  });

  it('that comes later and may not be passed over says so in the words of the docs, and where to go', async () => {
    const later = { ...inflated(packDeclaration(DECLARED)), readableBy: 2 };
    const page = await readFile(join(import.meta.dirname, '../../docs/upgrading.md'), 'utf8');
    const [, said] = /`ConfigurationError`, "([^"]+)"/.exec(page) ?? [];
    expect(() => unpackDeclaration(deflated(later))).toThrow(
      new RegExp(`^readableBy: ${said}, .*got 2.*Update fairlead in this process`, 's'),
    );
  });

  it('is as strict as ever where a person writes it', () => {
    expect(() => resolveConfiguration({ ...FULL, brandNew: 1 } as PoolInput)).toThrow(
      /^brandNew: is not a known field/,
    );
  });

  it.each([
    ['that may not be read', { readableBy: 2 }],
    [
      'that has another kind of value',
      { configuration: { types: [{ type: 'other', retry: { jitter: 'new' } }], fleets: [], partitions: 8 } },
    ],
  ])('%s is written over, and what it knows of former types and partitions stays', async (_, changes) => {
    const { store, time, log } = stage({ pool: { types: { render: {} } } });
    const before = deflated({ ...inflated(packDeclaration(DECLARED)), ...changes });
    await store.putDeclaration({
      text: before,
      after: (await store.readDeclaredVersion()) ?? 0,
      nowMs: time.nowMs,
    });
    const only = resolveConfiguration({ types: { render: {} }, partitions: 1 });
    const version = await declare(
      { store: store, queue: { sendWake: async () => {} }, nowMs: () => time.nowMs, log },
      { pool: encodeConfiguration(only), queueUrls: queueUrlsFor(only), deployment: 'two' },
    );
    const { formerTypes, partitionsEver } = unpackDeclaration(
      (await store.readDeclaration(version))?.text ?? '',
    );
    expect(formerTypes).toEqual(
      expect.arrayContaining(['former', 'configuration' in changes ? 'other' : 'train']),
    );
    expect(partitionsEver).toBe('configuration' in changes ? 8 : 4);
  });

  it('that is damaged is written over, too', async () => {
    const { store, time, log } = stage({ pool: { types: { render: {} } } });
    await store.putDeclaration({
      text: '9.damaged',
      after: (await store.readDeclaredVersion()) ?? 0,
      nowMs: time.nowMs,
    });
    const only = resolveConfiguration({ types: { render: {} } });
    const version = await declare(
      { store, queue: { sendWake: async () => {} }, nowMs: () => time.nowMs, log },
      { pool: encodeConfiguration(only), queueUrls: queueUrlsFor(only), deployment: 'two' },
    );
    expect(unpackDeclaration((await store.readDeclaration(version))?.text ?? '').configuration).toEqual(only);
  });
});
