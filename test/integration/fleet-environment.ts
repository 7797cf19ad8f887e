/** What a process needs to serve a fleet on the emulator: what the construct gives one in the cloud. */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { encodeConfiguration } from '../../lib/dispatch/configuration-codec.ts';
import { clientConfiguration } from '../contract/aws.ts';

export interface FleetPlaces {
  readonly configuration: PoolConfiguration;
  readonly fleet: string;
  readonly table: string;
  readonly fleetQueueUrl: string;
  readonly wakeQueueUrl: string;
}

export function fleetEnvironment(places: FleetPlaces): NodeJS.ProcessEnv {
  const { endpoint, region, credentials } = clientConfiguration;
  return {
    ...process.env,
    AWS_ENDPOINT_URL: endpoint,
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    FAIRLEAD_POOL: encodeConfiguration(places.configuration),
    FAIRLEAD_FLEET: places.fleet,
    FAIRLEAD_TABLE: places.table,
    FAIRLEAD_QUEUES: JSON.stringify({ [places.fleet]: places.fleetQueueUrl }),
    FAIRLEAD_WAKE_QUEUE: places.wakeQueueUrl,
  };
}
