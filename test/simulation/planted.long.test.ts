/** Bugs that are planted on purpose: the simulation, and the other tests of what it promises, are worth what they find. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { differenceOf } from '../differential/difference.ts';
import { scenarioOf } from '../differential/scenarios.ts';
import { find } from './finders.ts';
import { PLANTED } from './planted.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const FIND_MS = 600_000;
const PROGRAM = fileURLToPath(new URL('./find.ts', import.meta.url));

/** Looks for it in a process of its own, which loads the sources changed. Answers its exit status, and what it said. */
async function findElsewhere(
  name: string,
): Promise<{ readonly status: number | null; readonly said: string }> {
  const child = spawn(process.execPath, [PROGRAM, name], { stdio: 'pipe' });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      said += chunk.toString();
    });
  const status = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { status, said };
}

const isOnEmulator = (name: string): boolean => {
  const foundBy = PLANTED[name]?.foundBy;
  return foundBy !== undefined && 'test' in foundBy && foundBy.onEmulator === true;
};

describe('a protection that is taken away is missed', () => {
  it.each(Object.entries(PLANTED).filter(([name]) => !isOnEmulator(name)))(
    '%s',
    { timeout: FIND_MS },
    async (name, planted) => {
      if (planted.changes === undefined) {
        expect(await find(name, planted)).toBeDefined();
        return;
      }
      const { status, said } = await findElsewhere(name);
      expect(said).not.toBe('');
      expect(status).toBe(0);
      if (!('differential' in planted.foundBy)) return;
      // What differs without the bug, too, shows nothing.
      const seed = Number(/^seed (\d+):/.exec(said)?.[1]);
      expect(await differenceOf(scenarioOf(seed, planted.foundBy.kind))).toBeUndefined();
    },
  );
});
