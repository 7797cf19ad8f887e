/** The worlds that `explain.test.ts` leaves. */
import { seedsOf } from '../sample.ts';
import { testWorlds } from './explain-worlds.ts';

testWorlds(...seedsOf('explain', [30, 199], 15));
