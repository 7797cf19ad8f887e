/**
 * The store on one DynamoDB table, composed from one class for each caller or capability.
 *
 * If the answer to a request gets lost, the SDK sends it again, and the repetition may fail because of the first try's success. So after a
 * failed condition each verb looks at the present item: if it is exactly what this request writes, the request was applied.
 */
import { ComposedStore, composeStore } from '../contract/compose.ts';
import { DynamoClaimStore } from './claims.ts';
import { DynamoDeclareStore } from './declaring.ts';
import { DynamoDedupeStore } from './deduping.ts';
import { DynamoExpiringStore } from './expiring.ts';
import { type DynamoJobStoreOptions, TableItems } from './items.ts';
import { DynamoLeadStore } from './leading.ts';
import { DynamoLineStore } from './lines.ts';
import { DynamoMembershipStore } from './membership.ts';
import { DynamoOperateStore } from './operate.ts';
import { DynamoParkingStore } from './parking.ts';
import { DynamoPartitionStore } from './partition.ts';
import { DynamoScheduleStore } from './schedules.ts';
import { DynamoStatisticsStore } from './statistics.ts';
import { DynamoSubmitStore } from './submit.ts';
import { DynamoWorkerStore } from './worker.ts';

export class DynamoJobStore extends ComposedStore {
  constructor(options: DynamoJobStoreOptions) {
    const items = new TableItems(options);
    const lines = new DynamoLineStore(items);
    const submit = new DynamoSubmitStore(items, lines);
    const partitions = new DynamoPartitionStore(items);
    super(
      composeStore(
        submit,
        lines,
        partitions,
        new DynamoClaimStore(items, submit),
        new DynamoWorkerStore(items),
        new DynamoParkingStore(items, partitions),
        new DynamoLeadStore(items),
        new DynamoExpiringStore(items),
        new DynamoDedupeStore(items),
        new DynamoMembershipStore(items),
        new DynamoDeclareStore(items),
        new DynamoOperateStore(items, submit),
        new DynamoScheduleStore(items),
        new DynamoStatisticsStore(items),
      ),
    );
  }
}
