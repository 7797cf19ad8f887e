/**
 * Declarations of other versions: what the last release has declared is read by this one, and what this one will have been followed by is
 * read as far as it may be, so that a deployment can be rolled back and clients of other teams go on.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { encodeConfiguration, packDeclaration, unpackDeclaration } from '../../lib/declaration/codec.ts';
import { declare } from '../../lib/deploy/declare.ts';
import { queueUrlsFor } from '../fixtures/declared.ts';
import { stage } from '../stage/stage.ts';

/** Something of everything that may be declared. */
const FULL: PoolInput = {
  tiers: [{ tier: 'gold', maxConcurrency: 8, guaranteed: 2 }, { tier: 'plain' }],
  types: {
    render: {
      tier: 'gold',
      conflictGroup: 'album',
      maxConcurrency: 4,
      retry: { maxAttempts: 3, delayMs: 500, errors: [{ name: 'NoSuchFile', retry: false }] },
    },
    train: { tier: 'plain', timeoutMs: 60_000, onWorkerLost: 'resume' },
  },
  fleets: { images: { types: ['render'], slots: 6 }, gpu: { types: ['train'] } },
  maxConcurrency: 10,
  score: { priority: 500 },
  fairness: { weights: { big: 4 }, creditMs: 60_000 },
  lending: { lentShare: 0.5 },
  partitions: 2,
};
const configuration = resolveConfiguration(FULL);
const DECLARED = {
  configuration,
  queueUrls: queueUrlsFor(configuration),
  ownQueues: {},
  formerTypes: ['former'],
  partitionsEver: 4,
  partitionNumbers: [2, 4],
  sharedSince: 3,
  deployment: 'one',
} as const;

type Tree = Record<string, unknown>;
const inflated = (text: string): Tree =>
  JSON.parse(brotliDecompressSync(Buffer.from(text.slice(2), 'base64url')).toString());
const deflated = (value: unknown): string =>
  `1.${brotliCompressSync(Buffer.from(JSON.stringify(value))).toString('base64url')}`;

/** With a field that nobody knows in every object but records of names. */
function withMore(value: unknown, path = ''): unknown {
  if (Array.isArray(value)) return value.map((each) => withMore(each, `${path}[]`));
  if (typeof value !== 'object' || value === null) return value;
  const isRecord = /queueUrls|ownQueues|weights/.test(path);
  const fields = Object.entries(value).map(([name, each]) => [name, withMore(each, `${path}.${name}`)]);
  return Object.fromEntries(isRecord ? fields : [...fields, ['brandNew', { of: 'another version' }]]);
}

describe('a declaration of another version', () => {
  it('that was released before is read by this one', () => {
    const released = readFileSync(join(import.meta.dirname, '../fixtures/declared-0.1.0.txt'), 'utf8').trim();
    expect(unpackDeclaration(released)).toMatchObject({ ...DECLARED });
  });

  it('that comes later is read without the fields that this one does not know', () => {
    const later = withMore(inflated(packDeclaration(DECLARED)));
    expect(JSON.stringify(later).match(/brandNew/g)?.length).toBeGreaterThan(12);
    expect(unpackDeclaration(deflated(later))).toEqual(DECLARED);
  });

  it('that comes later and may not be passed over says so, and where to go', () => {
    const later = { ...inflated(packDeclaration(DECLARED)), readableBy: 2 };
    expect(() => unpackDeclaration(deflated(later))).toThrow(
      /readableBy: was set by a later version of fairlead.*got 2.*Update fairlead in this process/s,
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
