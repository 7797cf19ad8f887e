/** Starts the embedded emulator once for all integration tests, unless the run brings an endpoint of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startEmulator } from '../lib/testing/emulator.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Of the emulator under test, such as `http://127.0.0.1:40123`. */
    readonly endpoint: string;
    /** An empty folder of this run: whoever makes something in it first does what the others need not do again. */
    readonly runDir: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const runDir = await mkdtemp(join(tmpdir(), 'fairlead-run-'));
  project.provide('runDir', runDir);
  const tidy = (): Promise<void> => rm(runDir, { recursive: true, force: true });
  const given = process.env.FAIRLEAD_TEST_ENDPOINT;
  if (given !== undefined && given !== '') {
    project.provide('endpoint', given);
    return tidy;
  }
  const emulator = await startEmulator({ log: (line) => process.stderr.write(`fairlead: ${line}\n`) });
  project.provide('endpoint', emulator.endpoint);
  return async () => {
    await Promise.all([emulator.stop(), tidy()]);
  };
}
