/** A declaration of another version, read without the fields that this one does not know. */
import { expect, it } from 'vitest';
import { withoutUnknownFields } from '../../lib/core/unknown-fields.ts';

it('passes over the fields of all parts that are not known', () => {
  const declared = {
    name: 'main',
    later: 1,
    types: {
      render: { maxConcurrency: 2, later: 1, retry: { later: 1, errors: [{ error: 'Busy', later: 1 }] } },
    },
    fleets: { images: { types: ['render'], later: 1 } },
    score: { later: 1 },
    fairness: { creditMs: 5, later: 1 },
    lending: { batch: 3, later: 1 },
  };
  expect(JSON.stringify(withoutUnknownFields(declared))).not.toContain('later');
  expect(withoutUnknownFields(declared)).toMatchObject({
    types: { render: { maxConcurrency: 2 } },
    fairness: { creditMs: 5 },
    lending: { batch: 3 },
  });
});

it.each<readonly [string, unknown]>([
  ['a text', 'main'],
  ['nothing', null],
  ['a list', [1]],
  [
    'parts of another kind',
    { types: 'all', fleets: ['images'], tiers: { low: 1 }, score: null, fairness: 7 },
  ],
  ['a type that is a text', { types: { render: 'fast' } }],
  ['rules that are no list', { types: { render: { retry: { errors: 'none' } } } }],
])('leaves %s to the schema, which refuses it', (_, written) => {
  expect(withoutUnknownFields(written)).toEqual(written);
});
