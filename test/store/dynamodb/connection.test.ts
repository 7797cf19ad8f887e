/** However much a pass asks at once, no request waits for a socket: what it waited would count as no connection. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { expect, it } from 'vitest';
import { DynamoConnection } from '../../../lib/store/dynamodb/connection.ts';
import { leaderKey } from '../../../lib/store/table/schema.ts';

const ASKED = 1_000;
/** The sockets that the SDK opens unless told otherwise. */
const SOCKETS = 50;

/** One whose requests fail when they are let go. */
function held() {
  const waiting: (() => void)[] = [];
  let atOnce = 0;
  let most = 0;
  const client = new DynamoDBClient({
    region: 'eu-central-1',
    credentials: { accessKeyId: 'none', secretAccessKey: 'none' },
    maxAttempts: 1,
    requestHandler: {
      handle: async () => {
        atOnce += 1;
        most = Math.max(most, atOnce);
        await new Promise<void>((resolve) => waiting.push(resolve));
        atOnce -= 1;
        throw new Error('no such host');
      },
    },
  });
  return {
    client,
    most: () => most,
    letGo: (): void => {
      for (const each of waiting.splice(0)) each();
    },
  };
}

it('has no more requests under way than the SDK has sockets, and sends every one of a thousand, though all fail', async () => {
  const network = held();
  const connection = new DynamoConnection({ client: network.client, table: 'jobs' });
  let ended = 0;
  const all = Promise.allSettled(
    Array.from({ length: ASKED }, (_, partition) =>
      connection.get('readLeader', leaderKey(partition)).finally(() => {
        ended += 1;
      }),
    ),
  );
  const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  while (ended < ASKED) {
    network.letGo();
    await tick();
  }
  expect((await all).filter(({ status }) => status === 'rejected')).toHaveLength(ASKED);
  expect(network.most()).toBe(SOCKETS);
});
