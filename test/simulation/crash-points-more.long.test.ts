/** The other half of what `crash-points.long.test.ts` tries. */
import { isSampled } from '../sample.ts';
import { testCrashPoints } from './crash-points.ts';

testCrashPoints([
  ['it is delayed past the lease', 'frozenBeforeCall'],
  ['the caller dies after it', 'crashAfterCall'],
]);

// A sample leaves it out: the meddled contract throttles each verb.
if (!isSampled) testCrashPoints([['it is throttled', 'throttled']]);
