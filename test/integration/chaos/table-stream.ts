/** A table's stream, read as its pollers do. By hand: the SDK's client for it is nothing that the project ships with. */
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { Item } from '../../../lib/store/table/codec/attributes.ts';

interface StreamSource {
  readonly endpoint: string;
  readonly region: string;
  readonly table: string;
  /** `TRIM_HORIZON`: all that was ever told. `LATEST`: what is told from now on. */
  readonly from: 'TRIM_HORIZON' | 'LATEST';
}

interface Page {
  readonly Records: readonly {
    readonly dynamodb: { readonly NewImage?: Parameters<typeof unmarshall>[0] };
  }[];
  readonly NextShardIterator?: string | undefined;
}

/** The items as the changes left them, since the last read; those of one item in their order. */
export type ReadChanges = () => Promise<readonly Item[]>;

export async function readStream({ endpoint, region, table, from }: StreamSource): Promise<ReadChanges> {
  const ask = async <Answer>(verb: string, question: object): Promise<Answer> => {
    const response = await fetch(endpoint, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-amz-json-1.0',
        'x-amz-target': `DynamoDBStreams_20120810.${verb}`,
        authorization: `AWS4-HMAC-SHA256 Credential=test/20270101/${region}/dynamodb/aws4_request, SignedHeaders=host, Signature=none`,
      },
      body: JSON.stringify(question),
    });
    if (!response.ok) throw new Error(`${verb}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Answer;
  };
  const { Streams } = await ask<{ readonly Streams: readonly { readonly StreamArn: string }[] }>(
    'ListStreams',
    { TableName: table },
  );
  const [stream] = Streams;
  if (stream === undefined) throw new Error(`table ${table} has no stream`);
  const { StreamArn } = stream;
  const { StreamDescription } = await ask<{
    readonly StreamDescription: { readonly Shards: readonly { readonly ShardId: string }[] };
  }>('DescribeStream', { StreamArn });
  const iterators: (string | undefined)[] = [];
  for (const { ShardId } of StreamDescription.Shards) {
    const question = { StreamArn, ShardId, ShardIteratorType: from };
    const { ShardIterator } = await ask<{ readonly ShardIterator: string }>('GetShardIterator', question);
    iterators.push(ShardIterator);
  }
  return async () => {
    const items: Item[] = [];
    for (const [shard, ShardIterator] of iterators.entries()) {
      if (ShardIterator === undefined) continue;
      const page = await ask<Page>('GetRecords', { ShardIterator });
      iterators[shard] = page.NextShardIterator;
      for (const { dynamodb } of page.Records) {
        if (dynamodb.NewImage !== undefined) items.push(unmarshall(dynamodb.NewImage));
      }
    }
    return items;
  };
}
