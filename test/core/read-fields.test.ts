/** Checks of single fields: what each accepts, and what it says of the rest. */
import { expect, it } from 'vitest';
import * as checks from '../../lib/core/read-fields.ts';

const { isBoolean, isFunction, numberWithin, objectOf, textWithin, wholeWithin } = checks;

it.each<readonly [string, checks.Check, unknown, RegExp]>([
  ['a text', isBoolean, 'yes', /^x: must be/],
  ['a number', isFunction, 1, /^x: must be/],
  [
    'a number above its bounds',
    numberWithin(1, 2, 'Leave it out.'),
    3,
    /from 1 to 2, got 3\. Leave it out\./,
  ],
  ['a fraction', wholeWithin(1, 9, 'Leave it out.'), 1.5, /whole number from 1 to 9, got 1\.5/],
  ['an empty text', textWithin(4, 'Leave it out.'), '', /^x: /],
  ['a text of too many bytes', textWithin(4, 'Leave it out.'), '字字', /^x: /],
  ['a field that is not known', objectOf({ slots: isBoolean }), { slts: true }, /Did you mean "slots"/],
  ['an array for an object', objectOf({ slots: isBoolean }), [], /^x: must be/],
])('%s is refused by the name of its field', (_, check, value, message) => {
  expect(() => check('x', value)).toThrow(message);
});

it.each<readonly [checks.Check, unknown]>([
  [isBoolean, false],
  [isFunction, () => 1],
  [numberWithin(1, 2, ''), 1.5],
  [wholeWithin(1, 9, ''), 9],
  [textWithin(4, ''), 'four'],
  [objectOf({ slots: isBoolean }), { slots: true }],
])('a value within its bounds passes', (check, value) => {
  expect(() => check('x', value)).not.toThrow();
});
