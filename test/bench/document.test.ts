import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import {
  DOCUMENT_FILE,
  documentOf,
  PICTURE_FILE,
  pictureOf,
  RESULT_FILE,
} from '../../bench/cloud/document.ts';
import { formatResult, merged, parseResult, ResultError } from '../../bench/cloud/result.ts';
import { DEFAULT_ROWS, isSame } from '../../bench/cloud/rows.ts';

const text = await readFile(RESULT_FILE, 'utf8');
const result = parseResult(text);

describe('docs/cost-and-speed', () => {
  it('.json has every row of the default list, in its order, as --json prints it', () => {
    expect(formatResult(result)).toBe(text);
    expect(
      DEFAULT_ROWS.every((spec, at) => result.rows[at] !== undefined && isSame(result.rows[at], spec)),
    ).toBe(true);
  });

  it('.md was written from it', async () => {
    expect(await readFile(DOCUMENT_FILE, 'utf8')).toBe(documentOf(result));
  });

  it('.svg was written from it', async () => {
    expect(await readFile(PICTURE_FILE, 'utf8')).toBe(pictureOf(result));
  });
});

describe('a kept result', () => {
  it('takes new rows in the place of theirs, and keeps the others', () => {
    const [first, second] = result.rows;
    if (first === undefined || second === undefined) throw new Error('there are rows');
    const newer = { ...second, jobsPerSecond: 1 };
    const idle = { ...result.idle, dollarsPerMonth: 2 };
    const { rows, idle: idleNow } = merged(result, { rows: [newer], idle });
    expect(rows).toHaveLength(result.rows.length);
    expect(rows.slice(0, 2)).toEqual([first, newer]);
    expect(idleNow).toBe(idle);
  });

  it.each([['{}'], ['{"rows":[{}],"idle":{"dollarsPerMonth":1,"bill":{}}}'], ['[]']])(
    'is not %s',
    (wrong) => {
      expect(() => parseResult(wrong)).toThrow(ResultError);
    },
  );
});
