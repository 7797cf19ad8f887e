/** The composition root of the commands that talk to a deployed scheduler. */
import type { StoreClient } from '../client/client.ts';
import { UsageError } from './usage.ts';

/** A client, and how to close it. */
export interface Connection {
  readonly client: StoreClient;
  readonly close: () => void;
}

/** Reaches the scheduler that the environment names. What the environment sets already wins over the file, as in Node. */
export async function connect(envFile: string | undefined): Promise<Connection> {
  if (envFile !== undefined) {
    try {
      process.loadEnvFile(envFile);
    } catch (cause) {
      throw new UsageError(`--env-file: ${envFile} cannot be read (${String(cause)})`, { cause });
    }
  }
  // Here, not above: the SDK takes longer to load than most other commands take.
  const { SchedulerClient } = await import('../client/aws.ts');
  const client = SchedulerClient.fromEnvironment();
  return { client, close: () => client.destroy() };
}
