/** What stands in letters of what was put there, and letters that cannot be read. */

import { Readable } from 'node:stream';
import { deflateRawSync } from 'node:zlib';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { LETTERS_KEPT_MS } from '../../../lib/store/contract/bounds.ts';
import { MalformedItemError } from '../../../lib/store/contract/errors.ts';
import { hintOf } from '../../../lib/store/contract/job-fields.ts';
import { TableItems } from '../../../lib/store/dynamodb/items.ts';
import { ATTRIBUTE as A, type Item } from '../../../lib/store/table/codec/attributes.ts';
import { ttlSec } from '../../../lib/store/table/codec/cells.ts';
import { decodeJobHead, encodeJobHead } from '../../../lib/store/table/codec/job.ts';
import { decodeLetter, encodeLetter } from '../../../lib/store/table/codec/letter.ts';
import { jobKey, letterKey } from '../../../lib/store/table/schema.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { largestJob } from '../../fixtures/largest.ts';

const encode = (jobs: readonly Job[]): readonly Item[] =>
  encodeLetter(3, { hints: jobs }, { newId: () => 'abc', nowMs: NOW_MS });

describe('letters', () => {
  it.each([
    ['a job with every field', largestJob()],
    ['a job that waits', aJob()],
  ])('keep of %s what the store in memory keeps of it', (_title, job) => {
    expect(encode([job]).flatMap((item) => decodeLetter(item).hints)).toEqual([hintOf(job)]);
  });

  it('may be collected a day after they were put', () => {
    expect(encode([aJob()]).map((item) => item[A.ttl])).toEqual([ttlSec(NOW_MS + LETTERS_KEPT_MS)]);
    expect(LETTERS_KEPT_MS).toBe(86_400_000);
  });
});

describe('letters that cannot be read', () => {
  const itemOf = (json: unknown): Item => ({
    ...letterKey(3, NOW_MS, 'abc'),
    [A.letter]: deflateRawSync(JSON.stringify([json, [], 0])),
    [A.ttl]: ttlSec(NOW_MS),
  });
  const hint = encodeJobHead(aJob({ id: 'healthy' }));

  it.each([
    ['null', null],
    ['a text', 'x'],
    ['a map', {}],
    ['nothing for a head', [null]],
    ['a number for a head', [1]],
    ['a list for a head', [[]]],
    ['an empty head', [{}]],
    ['a head without its state', [{ ...hint, state: undefined }]],
    ['an instant that is none', [{ ...hint, [A.finishedAtMs]: 'soon' }]],
    ['a state of a later version', [{ ...hint, state: 'parked' }]],
    ['a head of no job', [{ ...hint, pk: 'partition/0', sk: 'page' }]],
  ])('are malformed by the name of the item that they stand in: %s', (_title, json) => {
    let error: unknown;
    try {
      decodeLetter(itemOf(json));
    } catch (caught) {
      error = caught;
    }
    expect(error).toBeInstanceOf(MalformedItemError);
    const { pk, sk } = letterKey(3, NOW_MS, 'abc');
    expect(error).toMatchObject({ key: `${pk} ${sk}`, attribute: 'letter' });
  });
});

describe('a job that cannot be read', () => {
  interface Update {
    readonly Key: { readonly pk: { readonly S: string } };
    readonly UpdateExpression: string;
  }

  function opened() {
    const sent: Update[] = [];
    const client = new DynamoDBClient({
      region: 'eu-central-1',
      credentials: { accessKeyId: 'none', secretAccessKey: 'none' },
      requestHandler: {
        handle: async (request: { readonly body?: unknown }) => {
          sent.push(JSON.parse(String(request.body)) as Update);
          const headers = { 'content-type': 'application/x-amz-json-1.0' };
          return { response: { statusCode: 200, headers, body: Readable.from(['{}']) } };
        },
      },
    });
    const told: string[] = [];
    const items = new TableItems({
      client,
      table: 'jobs',
      place: () => ({ line: '', rank: '' }),
      unreadable: ({ key }) => told.push(key),
    });
    return { items, sent, told };
  }

  const job: Item = { ...jobKey('a'), version: 1 };

  it('is noted before it is taken out of its line, also where a letter that says the same was met before', async () => {
    const { items, sent, told } = opened();
    const key = letterKey(0, NOW_MS, 'x');
    const letter = { ...key, [A.letter]: deflateRawSync(JSON.stringify([[job], [], 0])) };
    await items.readableEach(0, [letter], decodeLetter);
    sent.length = 0;
    await items.readableEach(0, [{ ...job, [A.line]: 'ready/0/line', [A.rank]: '1' }], decodeJobHead);
    expect(sent.map(({ UpdateExpression }) => UpdateExpression.split(' ')[0])).toEqual(['SET', 'REMOVE']);
    expect(sent[1]?.Key.pk.S).toBe('job/a');
    expect(told).toEqual([`${key.pk} ${key.sk}`, 'job/a job']);
  });
});
