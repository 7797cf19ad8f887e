/** The composition root of the commands that talk to a deployed scheduler. */
import type { StoreClient } from '../client/client.ts';
import { ClientEnvironmentError } from '../client/errors.ts';
import type { ResidentOptions } from '../dispatch/resident.ts';
import type { UnreadableItem } from '../store/contract.ts';
import { UsageError } from './usage.ts';

/** A client, and how to close it. */
export interface Connection {
  readonly client: StoreClient;
  readonly close: () => void;
}

/** What a dispatcher works with, and how to close it. */
export interface DispatcherConnection {
  readonly parts: Pick<
    ResidentOptions,
    'store' | 'queue' | 'configuration' | 'deployed' | 'place' | 'clock' | 'random'
  >;
  readonly close: () => void;
}

/** `unreadable` hears of items that cannot be read. */
export type ConnectDispatcher = (
  envFile: string | undefined,
  unreadable: (item: UnreadableItem) => void,
) => Promise<DispatcherConnection>;

/** Reaches the scheduler that the environment names. What the environment sets already wins over the file, as in Node. */
export async function connect(envFile: string | undefined): Promise<Connection> {
  loadEnvironment(envFile);
  // Here, not above: the SDK takes longer to load than most other commands take.
  const { SchedulerClient } = await import('../client/aws.ts');
  const client = SchedulerClient.fromEnvironment();
  return { client, close: () => client.destroy() };
}

/** A lease lasts 20 s: a request that hangs is given up, and tried again, while there is time for another one. */
const REQUESTS = {
  maxAttempts: 3,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 2_500, throwOnRequestTimeout: true },
} as const;

/** The same, for whoever makes passes: the environment that `schedulerEnvironment()` of the construct answers. */
export const connectDispatcher: ConnectDispatcher = async (envFile, unreadable) => {
  loadEnvironment(envFile);
  const required = (name: string): string => {
    const value = process.env[name];
    if (value !== undefined && value !== '') return value;
    throw new ClientEnvironmentError(
      `${name} is not set: give the process what schedulerEnvironment() of the Scheduler construct answers`,
    );
  };
  const table = required('FAIRLEAD_TABLE');
  const wakeQueueUrl = required('FAIRLEAD_WAKE_QUEUE');
  const [{ DynamoDBClient }, { SQSClient }, { Declarations, deployedParts }] = await Promise.all([
    import('@aws-sdk/client-dynamodb'),
    import('@aws-sdk/client-sqs'),
    import('../dispatch/declaration.ts'),
  ]);
  const [{ DynamoJobStore }, { SqsJobQueue }, { systemClock }] = await Promise.all([
    import('../store/dynamodb/store.ts'),
    import('../queue/sqs/queue.ts'),
    import('../runtime/system.ts'),
  ]);
  const dynamodb = new DynamoDBClient(REQUESTS);
  const sqs = new SQSClient(REQUESTS);
  const close = (): void => {
    dynamodb.destroy();
    sqs.destroy();
  };
  const store = new DynamoJobStore({
    client: dynamodb,
    table,
    place: (job) => declarations.place(job),
    unreadable,
  });
  const declarations = new Declarations({ store, clock: systemClock });
  try {
    const declared = await declarations.current();
    const parts = deployedParts(
      declarations,
      declared,
      (queueUrls) => new SqsJobQueue({ client: sqs, queueUrls, wakeQueueUrl }),
    );
    return { parts: { ...parts, store, clock: systemClock, random: Math.random }, close };
  } catch (error) {
    close();
    throw error;
  }
};

function loadEnvironment(envFile: string | undefined): void {
  if (envFile === undefined) return;
  try {
    process.loadEnvFile(envFile);
  } catch (cause) {
    throw new UsageError(`--env-file: ${envFile} cannot be read (${String(cause)})`, { cause });
  }
}
