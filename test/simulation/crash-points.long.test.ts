/** Every call of some small runs, with what else can happen to a call. */
import { isSampled } from '../sample.ts';
import { type CrashPoint, testCrashPoints } from './crash-points.ts';

/** What a sample leaves out: a death before a call is one after the call before, and each verb is throttled in the meddled contract. */
const SHOWN_ELSEWHERE: readonly CrashPoint[] = [
  ['the caller dies before it', 'crashBeforeCall'],
  ['it is throttled', 'throttled'],
];

testCrashPoints([
  ...(isSampled ? [] : SHOWN_ELSEWHERE),
  ['it is applied, and not answered', 'answerLostThoughApplied'],
  ['it is not applied, and not answered', 'notAppliedAndNoAnswer'],
  ['it is delayed past the lease', 'frozenBeforeCall'],
  ['the caller dies after it', 'crashAfterCall'],
]);
