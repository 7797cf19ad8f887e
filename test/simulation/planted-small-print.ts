/** Bugs about DynamoDB's small print, planted as changes of the sources: only a client that meddles shows them. */
import type { Planted } from './planted-bug.ts';

const CONNECTION = 'lib/store/dynamodb/connection.ts';
const found = (name: string): Planted['foundBy'] => ({
  test: 'test/integration/meddled-verbs.test.ts',
  name,
  onEmulator: true,
});

export const SMALL_PRINT_CHANGES: Readonly<Record<string, Planted>> = {
  'left-over-for-good': {
    removes: 'what is said of keys that a batch leaves over again and again: their items count as gone',
    foundBy: found('are said to be, and never taken for keys without items'),
    changes: [
      {
        file: CONNECTION,
        from: `if (tries === TRIES_MAX) {
          throw new StoreThrottled(
            \`\${verb}: \${left.length}`,
        to: `if (tries === TRIES_MAX) return items;
        if (tries > TRIES_MAX) {
          throw new StoreThrottled(
            \`\${verb}: \${left.length}`,
      },
    ],
  },
  'unprocessed-keys': {
    removes: 'the keys of a batch that were not read: their items count as gone',
    foundBy: found('getJobs.* is right, whatever passes meanwhile'),
    changes: [
      {
        file: CONNECTION,
        from: 'left = output.UnprocessedKeys?.[this.#table]?.Keys ?? [];',
        to: 'left = [];',
      },
    ],
  },
  'weak-batches': {
    removes: 'the strong consistency of items that are read together',
    foundBy: found('getJobs.* is right, whatever passes meanwhile'),
    changes: [
      {
        file: CONNECTION,
        from: 'Keys: left, ConsistentRead: true }',
        to: 'Keys: left, ConsistentRead: false }',
      },
    ],
  },
  'first-page-of-a-query': {
    removes: 'what is behind the first page of a query, such as the first megabyte of a partition',
    foundBy: found('loadPartition.* is right, whatever passes meanwhile'),
    changes: [
      { file: 'lib/store/dynamodb/items.ts', from: 'after = answer.next;', to: 'after = undefined;' },
    ],
  },
  'empty-page-ends': {
    removes: 'what is behind a page without items',
    foundBy: found('readLine.* is right, whatever passes meanwhile'),
    changes: [
      {
        file: 'lib/store/dynamodb/items.ts',
        from: 'if (after === undefined || (most',
        to: 'if (after === undefined || answer.items.length === 0 || (most',
      },
    ],
  },
  'first-page-of-a-scan': {
    removes: 'what is behind the first page of a scan',
    foundBy: found('though the pages of a scan hold few of them'),
    changes: [{ file: 'lib/store/dynamodb/ended.ts', from: 'after = next;', to: 'after = undefined;' }],
  },
  'conflicts-of-single-writes': {
    removes: 'another try of a single write that meets a transaction',
    foundBy: found('wake.* is right, whatever passes meanwhile'),
    changes: [{ file: CONNECTION, from: "  'TransactionConflictException',\n", to: '' }],
  },
  'throttled-for-good': {
    removes: 'throttling of the table from what passes: it is taken for a request that is wrong',
    foundBy: found('wake.* says what does not pass'),
    changes: [
      {
        file: CONNECTION,
        from: "  'LimitExceededException',\n  'ProvisionedThroughputExceededException',\n",
        to: "  'LimitExceededException',\n",
      },
    ],
  },
  'conflicts-refused': {
    removes: 'what tells a transaction in the way from a condition that failed',
    foundBy: found('tells the reasons of a cancelled transaction apart'),
    changes: [
      {
        file: CONNECTION,
        from: "code === 'ConditionalCheckFailed' ? [index] : []",
        to: "code === 'ConditionalCheckFailed' || code === 'TransactionConflict' ? [index] : []",
      },
    ],
  },
  'conflicts-for-good': {
    removes: 'another try of a transaction that another one was in the way of',
    foundBy: found('tells the reasons of a cancelled transaction apart'),
    changes: [
      {
        file: CONNECTION,
        from: "Set([\n  'TransactionConflict',\n  'ProvisionedThroughputExceeded',",
        to: "Set([\n  'ProvisionedThroughputExceeded',",
      },
    ],
  },
  'reasons-displaced': {
    removes: 'the position of the part whose condition failed: the one behind it is taken for it',
    foundBy: found('tells the reasons of a cancelled transaction apart'),
    changes: [
      {
        file: CONNECTION,
        from: "code === 'ConditionalCheckFailed' ? [index] : []",
        to: "code === 'ConditionalCheckFailed' ? [index + 1] : []",
      },
    ],
  },
  'ids-a-second-early': {
    removes: 'the last second of a job that has ended: its id is free before it expires',
    foundBy: {
      test: 'test/contract/aws.test.ts',
      name: 'keeps its id until it expires',
      onEmulator: true,
    },
    changes: [
      {
        file: 'lib/store/dynamodb/submit.ts',
        from: 'Math.floor(this.#items.nowMs() / 1000)',
        to: 'Math.ceil(this.#items.nowMs() / 1000)',
      },
    ],
  },
  'collected-a-second-early': {
    removes: 'the second in which an item expires from its life',
    foundBy: {
      test: 'test/contract/aws.test.ts',
      name: 'keeps its id until it expires',
      onEmulator: true,
    },
    changes: [
      {
        file: 'lib/store/dynamodb/codec/cells.ts',
        from: 'Math.ceil(expiresAtMs / 1000)',
        to: 'Math.floor(expiresAtMs / 1000)',
      },
    ],
  },
};
