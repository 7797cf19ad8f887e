/** Beyond the first ones, which `one-life-cycle.test.ts` has. */
import { testOneLifeCycle } from './one-life-cycle.ts';

testOneLifeCycle(6, 60);
