/**
 * The store on one DynamoDB table, put together from a file for each caller or capability.
 *
 * The SDK sends a request whose answer got lost again, and the repetition meets its own success. So every condition that fails looks
 * at the item that stood in the way: if the item is what this very request makes of it, the request was applied.
 */
import { ComposedStore, composeStore } from '../contract/compose.ts';
import { DynamoClaimStore } from './claims.ts';
import { DynamoDeclareStore } from './declaring.ts';
import { type DynamoJobStoreOptions, TableItems } from './items.ts';
import { DynamoLeadStore } from './leading.ts';
import { DynamoLineStore } from './lines.ts';
import { DynamoMembershipStore } from './membership.ts';
import { DynamoOperateStore } from './operate.ts';
import { DynamoParkingStore } from './parking.ts';
import { DynamoPartitionStore } from './partition.ts';
import { DynamoScheduleStore } from './schedules.ts';
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
        new DynamoMembershipStore(items),
        new DynamoDeclareStore(items),
        new DynamoOperateStore(items, submit),
        new DynamoScheduleStore(items),
      ),
    );
  }
}
