/** A few scripts of verbs; `one-life-cycle.long.test.ts` has more. */
import { testOneLifeCycle } from './one-life-cycle.ts';

testOneLifeCycle(0, 6);
