/** What a planted bug is, and what may find it. */
import type { Kind } from '../differential/scenarios.ts';
import type { Mutation } from './mutation.ts';
import type { Sabotage } from './world.ts';

/** What finds it, and where it did when that was written. */
export type FoundBy =
  /** A seed of the simulation. */
  | { readonly simulation: number }
  /** A seed of the simulation's big worlds. */
  | { readonly bigWorld: number }
  /** A seed of the worlds in which nothing fails but processes. */
  | { readonly crashWorld: number }
  /** A seed of a kind of the differential test's scenarios. */
  | { readonly differential: number; readonly kind: Kind }
  /** A run in `small-runs.ts`, with nothing forced upon it but what it always meets. */
  | { readonly smallRun: string }
  /** A test, by its file and a part of its name. On an emulator: `test/integration/planted.long.test.ts` runs it. */
  | { readonly test: string; readonly name: string; readonly onEmulator?: boolean };

export interface Planted extends Sabotage {
  readonly removes: string;
  readonly changes?: readonly Mutation[];
  readonly foundBy: FoundBy;
}

/** A test, by its file and what its name has in it, or begins with. */
export const byTest = (file: string, name: string): FoundBy => ({ test: `test/${file}.test.ts`, name });
