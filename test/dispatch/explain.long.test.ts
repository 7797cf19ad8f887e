/** The worlds that `explain.test.ts` leaves. */
import { testWorlds } from './explain-worlds.ts';

testWorlds(80, 199);
