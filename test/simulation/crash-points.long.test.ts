/** Every call of some small runs, with what else can happen to a call. */
import { NOT_QUICK, testCrashPoints } from './crash-points.ts';

testCrashPoints([
  ['the caller dies before it', 'crashBeforeCall'],
  ['it is applied, and not answered', 'answerLostThoughApplied'],
  ['it is not applied, and not answered', 'notAppliedAndNoAnswer'],
  ['it is throttled', 'throttled'],
  ['it is delayed past the lease', 'frozenBeforeCall'],
]);

testCrashPoints([['the caller dies after it', 'crashAfterCall']], NOT_QUICK);
