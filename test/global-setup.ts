/** Starts the embedded emulator once for all integration tests, unless the run brings an endpoint of its own. */
import type { TestProject } from 'vitest/node';
import { startEmulator } from '../lib/testing/emulator.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Of the emulator under test, such as `http://127.0.0.1:40123`. */
    readonly endpoint: string;
  }
}

export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env.FAIRLEAD_TEST_ENDPOINT;
  if (given !== undefined && given !== '') {
    project.provide('endpoint', given);
    return undefined;
  }
  const emulator = await startEmulator({ log: (line) => process.stderr.write(`fairlead: ${line}\n`) });
  project.provide('endpoint', emulator.endpoint);
  return emulator.stop;
}
