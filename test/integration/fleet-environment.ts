/** What a process needs to serve a fleet on the emulator: what the construct gives one in the cloud, and declares. */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { clientConfiguration } from '../contract/aws.ts';
import { declareIn } from '../fixtures/declared.ts';

export interface FleetPlaces {
  readonly configuration: PoolConfiguration;
  readonly fleet: string;
  readonly table: string;
  /** Of that table. */
  readonly store: JobStore;
  readonly fleetQueueUrl: string;
  readonly wakeQueueUrl: string;
}

export async function fleetEnvironment(places: FleetPlaces): Promise<NodeJS.ProcessEnv> {
  const { endpoint, region, credentials } = clientConfiguration;
  const queueUrls = { [places.fleet]: places.fleetQueueUrl };
  await declareIn(places.store, places.configuration, { queueUrls });
  return {
    ...process.env,
    AWS_ENDPOINT_URL: endpoint,
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    FAIRLEAD_FLEET: places.fleet,
    FAIRLEAD_TABLE: places.table,
    FAIRLEAD_QUEUES: JSON.stringify(queueUrls),
    FAIRLEAD_WAKE_QUEUE: places.wakeQueueUrl,
  };
}
