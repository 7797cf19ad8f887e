/** What a person reads about a value that a schema refuses. */
import { expect, it } from 'vitest';
import { z } from 'zod';
import { inWords } from '../../lib/core/issues.ts';

it.each<readonly [string, z.ZodType, unknown, string]>([
  ['nothing', z.string(), undefined, 'is missing'],
  ['a number for a text', z.string(), 4, 'must be a string'],
  ['a text for a number', z.number(), 'a', 'must be a number'],
  ['a fraction', z.int(), 1.5, 'must be a whole number'],
  ['a text for a choice', z.boolean(), 'yes', 'must be true or false'],
  ['a text for a list', z.array(z.string()), 'a', 'must be an array'],
  ['a list for an object', z.object({}), [], 'must be an object'],
  ['a list for named values', z.record(z.string(), z.string()), [], 'must be an object'],
  ['a kind without a word of ours', z.bigint(), 'a', 'must be bigint'],
  ['another word', z.enum(['low', 'high']), 'mid', 'must be one of "low", "high"'],
  ['another constant', z.literal('on'), 'off', 'must be "on"'],
  ['too small a number', z.number().min(3), 1, 'must be at least 3'],
  ['a number at an open bound', z.number().gt(3), 3, 'must be more than 3'],
  ['too large a number', z.number().max(3), 4, 'must be at most 3'],
  ['a number at an open upper bound', z.number().lt(3), 3, 'must be less than 3'],
  ['too short a text', z.string().min(2), 'a', 'must have at least 2 characters'],
  ['too long a list', z.array(z.number()).max(1), [1, 2], 'must have at most 1 entries'],
  ['a text that does not match', z.string().regex(/^[a-z]+$/), 'A', 'must match /^[a-z]+$/'],
  ['a field that is not known', z.strictObject({}), { a: 1, b: 2 }, 'has a field that is not known: a, b'],
  ['none of several kinds', z.union([z.string(), z.number()]), true, 'is not of a kind that is accepted'],
])('tells about %s', (_, schema, value, words) => {
  const { error } = schema.safeParse(value, { error: inWords });
  expect(error?.issues.map((issue) => issue.message)).toEqual([words]);
});

it('tells about a format without a pattern, and about choices that the schema does not name', () => {
  expect(inWords({ code: 'invalid_format' })).toBe('is not written as it must be');
  expect(inWords({ code: 'invalid_value' })).toBe('must be one of ');
  expect(inWords({ code: 'unrecognized_keys' })).toBe('has a field that is not known: ');
});

it('keeps the words that a schema brings itself', () => {
  const { error } = z.string({ error: 'must be a name' }).safeParse(1, { error: inWords });
  expect(error?.issues[0]?.message).toBe('must be a name');
});
