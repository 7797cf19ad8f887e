/** Bugs that are planted as changes of the sources: about what a commit writes beside the page. */
import { at, becomes, change, never } from './mutation.ts';
import { byTest, type Planted } from './planted-bug.ts';

const found = (name: string): Planted['foundBy'] => ({
  test: 'test/integration/reservations-ahead.test.ts',
  name,
  onEmulator: true,
});
const MEANS = 'means what every ledger and every reservation would, each in an item of its own';

export const COMMIT_CHANGES: Readonly<Record<string, Planted>> = {
  'learned-late': {
    removes:
      'the version of a learned cost: a dispatcher that comes late with its own takes a newer one back',
    foundBy: {
      test: 'test/integration/learned-costs.test.ts',
      name: 'is not what a process wrote late that was overtaken after its commit',
      onEmulator: true,
    },
    changes: [
      change(at('learned-late'), becomes("'attribute_not_exists(#pk) OR #version <> :version'"), 'Literal'),
    ],
  },
  'page-before-items': {
    removes: 'the wait for the items that a page names: it is written whatever becomes of them',
    foundBy: found('leaves the page as it is where it is not known whether its item is there'),
    changes: [change(at('page-before-items'), becomes("(await $1.catch(() => 'put'))"), 'AwaitExpression')],
  },
  'put-over-another': {
    removes: 'the version of an item that is put before its page: a late one takes the place of a newer one',
    foundBy: found(
      'is like a ledger that leaves the page, which takes the place of no newer one, however late it is put',
    ),
    changes: [
      change(
        at('put-over-another'),
        becomes("'attribute_not_exists(#pk) OR #version < :version OR #version >= :version'"),
      ),
    ],
  },
  'unnamed-counts': {
    removes: 'the names of a page: each item counts that was put before one',
    foundBy: { test: 'test/store/table/summary.test.ts', name: MEANS },
    changes: [change(at('unnamed-counts'), never)],
  },
  'tidied-before-its-page': {
    removes:
      'the version from what is tidied: an item is taken away before the page that is about to name it',
    foundBy: found('goes once the version is a later one, not before'),
    changes: [
      change(at('tidied-before-its-page'), becomes("'attribute_exists(#pk) OR #version < :version'")),
    ],
  },
  'named-but-missing': {
    removes: 'another read where a reservation is missing that the page names',
    foundBy: found('is read again where the page names it and it was not read'),
    changes: [change(at('named-but-missing'), never)],
  },
  'named-and-gone': {
    removes: 'the refusal to go on without an item of reservations that the page names',
    foundBy: {
      test: 'test/integration/unreadable-items.test.ts',
      name: 'if it is a reservation that is gone',
      onEmulator: true,
    },
    changes: [change(at('named-and-gone'), never)],
  },
  'names-of-the-untouched': {
    removes: 'the name of a reservation that holds something still, once one of its places is settled',
    foundBy: { test: 'test/store/table/summary.test.ts', name: MEANS },
    changes: [change(at('names-of-the-untouched'), never, 'IfStatement')],
  },
  'commit-of-any-version': {
    removes: 'the version from the condition of a commit, in the memory store',
    foundBy: byTest('contract/memory', 'changes nothing for a dispatcher whose version another one has'),
    changes: [change(at('commit-version'), never)],
  },
  'page-of-any-version': {
    removes: 'the version from the condition of a commit, in the table',
    foundBy: found('is void if another commit comes first, and the page is refused'),
    changes: [
      change(
        at('page-of-any-version'),
        becomes(
          "{ condition: 'attribute_exists(#pk) OR #version = :version', values: { ':version': version } }",
        ),
        'ObjectExpression',
        2,
      ),
    ],
  },
  'lent-at-any-version': {
    removes: 'the version of the partition that acts from the condition of a commit that moves capacity',
    foundBy: byTest('contract/memory', 'is moved by no commit of an earlier version'),
    changes: [
      change(
        at('commit-version'),
        becomes('$ && (commit.lend ?? commit.giveBack) === undefined'),
        'BinaryExpression',
      ),
    ],
  },
  'minute-of-any-version': {
    removes:
      'the version of the counts of a minute, in the table: a late pass puts fewer in the place of more',
    foundBy: {
      test: 'test/contract/aws.test.ts',
      name: 'are those of the latest version, in whatever order they are put',
      onEmulator: true,
    },
    changes: [
      change(
        at('minute-of-any-version'),
        becomes("'attribute_not_exists(#pk) OR #version <> :version'"),
        'Literal',
      ),
    ],
  },
  'minute-in-memory-of-any-version': {
    removes: 'the version of the counts of a minute, in the memory store',
    foundBy: byTest('contract/memory', 'are those of the latest version, in whatever order they are put'),
    changes: [change(at('minute-of-any-version-2'), never)],
  },
  'parked-at-the-same-version': {
    removes: 'the version that parking raises, in the memory store',
    foundBy: byTest('contract/memory', 'raises the version, and is lost if another commit'),
    changes: [change(at('parked-at-the-same-version'), becomes('version'), 'BinaryExpression')],
  },
  'parked-in-the-table-at-the-same-version': {
    removes: 'the version that parking raises, in the table',
    foundBy: {
      test: 'test/contract/aws.test.ts',
      name: 'raises the version, and is lost if another commit',
      onEmulator: true,
    },
    changes: [
      change(at('parked-at-the-same-version-2'), becomes("'SET #version = if_not_exists(#version, :next)'")),
    ],
  },
};
