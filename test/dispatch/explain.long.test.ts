/** The worlds that `explain.test.ts` leaves. */
import { testWorlds } from './explain-worlds.ts';

testWorlds(60, 199);
