/** For what a property compares a hundred thousand times: `expect` takes longer than all that it judges. */
import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';

/** Expects what `toEqual` does, which is asked, and says what differs, only where the two are not plainly the same. */
export function expectSame<Value>(actual: Value, expected: Value): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toEqual(expected);
}
