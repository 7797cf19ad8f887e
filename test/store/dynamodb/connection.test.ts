/** What a connection makes of a network that fails, and of more requests than there are sockets: what one waits for a socket would count as no connection. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { expect, it } from 'vitest';
import { DynamoConnection } from '../../../lib/store/dynamodb/connection.ts';
import { leaderKey } from '../../../lib/store/table/schema.ts';

const ASKED = 1_000;
/** The sockets that the SDK opens unless told otherwise. */
const SOCKETS = 50;

/** One whose requests fail when they are let go. */
function held(error: Error = Object.assign(new Error('no such host'), { code: 'ENOTFOUND' })) {
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
        throw error;
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

it('says of writes without an answer that they may have been applied, and never of reads', async () => {
  const network = held();
  const connection = new DynamoConnection({ client: network.client, table: 'jobs' });
  const key = leaderKey(0);
  const query = { condition: '#pk = :pk', values: { ':pk': key.pk } };
  const scan = { filter: '#pk = :pk', values: { ':pk': key.pk } };
  const said = async (work: Promise<unknown>): Promise<string> => {
    const ended = work.then(
      () => 'answered',
      (error: Error) => error.message,
    );
    await new Promise<void>((resolve) => setImmediate(resolve));
    network.letGo();
    return ended;
  };
  for (const read of [
    () => connection.get('v', key),
    () => connection.getLagging('v', key),
    () => connection.getAll('v', [key]),
    () => connection.query('v', query),
    () => connection.scan('v', scan),
  ])
    expect(await said(read())).toMatch(/no answer from table jobs \(.*\); try again$/);
  for (const write of [
    () => connection.put('v', { item: { ...key } }),
    () => connection.update('v', { key, update: 'SET #pk = :pk', values: { ':pk': 1 } }),
    () => connection.delete('v', key),
    () => connection.transact('v', 'token', [connection.deletePart(key)]),
  ])
    expect(await said(write())).toMatch(/the request may have been applied: repeat it$/);
});

it('names the variable that is missing where the client knows no Region', async () => {
  const client = new DynamoDBClient({
    region: (): Promise<string> => Promise.reject(new Error('Region is missing')),
    credentials: { accessKeyId: 'none', secretAccessKey: 'none' },
  });
  const connection = new DynamoConnection({ client, table: 'jobs' });
  await expect(connection.get('getJobs', leaderKey(0))).rejects.toMatchObject({
    name: 'EnvironmentError',
    setting: 'AWS_REGION',
    message: expect.stringContaining('AWS_REGION is not set'),
  });
});

it('says why a table gave no answer that has several addresses, of which each refused', async () => {
  const refusals = ['10.0.0.7', '10.0.0.8'].map((host) => new Error(`connect ECONNREFUSED ${host}:443`));
  const network = held(new AggregateError(refusals));
  const connection = new DynamoConnection({ client: network.client, table: 'jobs' });
  const read = connection.get('v', leaderKey(0));
  const refused = expect(read).rejects.toThrow(
    'connect ECONNREFUSED 10.0.0.7:443; connect ECONNREFUSED 10.0.0.8:443',
  );
  await new Promise<void>((resolve) => setImmediate(resolve));
  network.letGo();
  await refused;
});
