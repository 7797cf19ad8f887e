/** Every call of some small runs, with what can happen to a call: this half and `crash-points-more.long.test.ts` take a processor each. */
import { isSampled } from '../sample.ts';
import { testCrashPoints } from './crash-points.ts';

testCrashPoints([
  ['it is applied, and not answered', 'answerLostThoughApplied'],
  ['it is not applied, and not answered', 'notAppliedAndNoAnswer'],
]);

// A sample leaves it out: a death before a call is one after the call before it.
if (!isSampled) testCrashPoints([['the caller dies before it', 'crashBeforeCall']]);
