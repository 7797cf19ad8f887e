/** Bugs about DynamoDB's small print, planted as changes of the sources: only a client that meddles shows them. */
import { at, becomes, change, dropped, never, within } from './mutation.ts';
import type { Planted } from './planted-bug.ts';

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
      change(
        within(
          () => import('../../lib/store/dynamodb/connection.ts'),
          (m) => m.DynamoConnection.prototype.getAll,
        ),
        becomes('return items;'),
        'ThrowStatement',
      ),
    ],
  },
  'unprocessed-keys': {
    removes: 'the keys of a batch that were not read: their items count as gone',
    foundBy: found('getJobs.* is right, whatever passes meanwhile'),
    changes: [change(at('unprocessed-keys'), becomes('[]'), 'LogicalExpression')],
  },
  'weak-batches': {
    removes: 'the strong consistency of items that are read together',
    foundBy: found('getJobs.* is right, whatever passes meanwhile'),
    changes: [change(at('weak-batches'), never, 'Property', 4)],
  },
  'first-page-of-a-query': {
    removes: 'what is behind the first page of a query, such as the first megabyte of a partition',
    foundBy: found('loadPartition.* is right, whatever passes meanwhile'),
    changes: [change(at('first-page-of-a-query'), becomes('undefined'), 'MemberExpression')],
  },
  'empty-page-ends': {
    removes: 'what is behind a page without items',
    foundBy: found('readLine.* is right, whatever passes meanwhile'),
    changes: [change(at('empty-page-ends'), becomes('answer.items.length === 0 || $'), 'LogicalExpression')],
  },
  'first-page-of-a-scan': {
    removes: 'what is behind the first page of a scan',
    foundBy: found('though the pages of a scan hold few of them'),
    changes: [change(at('first-page-of-a-scan'), becomes('undefined'), 'Identifier', 2)],
  },
  'conflicts-of-single-writes': {
    removes: 'another try of a single write that meets a transaction',
    foundBy: found('putLetter.* is right, whatever passes meanwhile'),
    changes: [change(at('conflicts-of-single-writes'), dropped)],
  },
  'throttled-for-good': {
    removes: 'throttling of the table from what passes: it is taken for a request that is wrong',
    foundBy: found('putLetter.* says what does not pass'),
    changes: [change(at('throttled-for-good'), dropped)],
  },
  'conflicts-refused': {
    removes: 'what tells a transaction in the way from a condition that failed',
    foundBy: found('tells the reasons of a cancelled transaction apart'),
    changes: [
      change(at('conflicts-refused'), becomes("$ || $1 === 'TransactionConflict'"), 'ConditionalExpression'),
    ],
  },
  'conflicts-for-good': {
    removes: 'another try of a transaction that another one was in the way of',
    foundBy: found('tells the reasons of a cancelled transaction apart'),
    changes: [change(at('conflicts-for-good'), dropped)],
  },
  'reasons-displaced': {
    removes: 'the position of the part whose condition failed: the one behind it is taken for it',
    foundBy: found('tells the reasons of a cancelled transaction apart'),
    changes: [change(at('conflicts-refused'), becomes('$ + 1'), 'Identifier', 7)],
  },
  'ids-a-second-early': {
    removes: 'the last second of a job that has ended: its id is free before it expires',
    foundBy: {
      test: 'test/contract/aws.test.ts',
      name: 'keeps its id until it expires',
      onEmulator: true,
    },
    changes: [change(at('ids-a-second-early'), becomes('Math.ceil($2)'), 'CallExpression')],
  },
  'collected-a-second-early': {
    removes: 'the second in which an item expires from its life',
    foundBy: {
      test: 'test/contract/aws.test.ts',
      name: 'keeps its id until it expires',
      onEmulator: true,
    },
    changes: [
      change(
        within(
          () => import('../../lib/store/table/codec/cells.ts'),
          (m) => m.ttlSec,
        ),
        becomes('Math.floor($2)'),
      ),
    ],
  },
};
