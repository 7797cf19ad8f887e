/** Bugs that are planted as changes of the sources: about what a commit writes beside the page. */
import { always, at, becomes, change, dropped, never, within } from './mutation.ts';
import type { Planted } from './planted-bug.ts';

const found = (name: string): Planted['foundBy'] => ({
  test: 'test/integration/reservations-ahead.test.ts',
  name,
  onEmulator: true,
});
const MEANS = 'means what every ledger and every reservation would, each in an item of its own';

export const COMMIT_CHANGES: Readonly<Record<string, Planted>> = {
  'learned-late': {
    removes: 'the turn of a learned cost: a dispatcher that comes late with its own takes a newer one back',
    foundBy: {
      test: 'test/integration/learned-costs.test.ts',
      name: 'is not what a process wrote late that was overtaken after its commit',
      onEmulator: true,
    },
    changes: [
      change(at('learned-late'), becomes("'attribute_not_exists(#turn) OR #turn <> :turn'"), 'Literal'),
    ],
  },
  'page-before-items': {
    removes: 'the wait for the items that a page names: it is written whatever becomes of them',
    foundBy: found('leaves the page as it is where nobody knows whether its item is there'),
    changes: [change(at('page-before-items'), becomes('$.catch(() => {})'), 'CallExpression')],
  },
  'put-over-another': {
    removes: 'the condition that nothing is where an item is put before its page',
    foundBy: found('is not put over another one of its number'),
    changes: [change(at('put-over-another'), dropped, 'Property', 2)],
  },
  'unnamed-counts': {
    removes: 'the names of a page: each item counts that was put before one',
    foundBy: { test: 'test/store/page.test.ts', name: MEANS },
    changes: [
      change(
        within(
          () => import('../../lib/store/page.ts'),
          (m) => m.isNamed,
        ),
        always,
      ),
    ],
  },
  'earlier-names-nothing': {
    removes:
      'what counts by the page of an earlier version, which knows no names: items that were put before one hold nothing',
    foundBy: found('counts by its item where an earlier version has written the page'),
    changes: [
      change(
        within(
          () => import('../../lib/store/page.ts'),
          (m) => m.isNamed,
        ),
        becomes('named?.has(batchId) === true || batches.has(batchId)'),
      ),
    ],
  },
  'void-at-once': {
    removes: 'the turn from what is void: an item is taken away before the page that is about to name it',
    foundBy: found('goes once the page has turned, not before'),
    changes: [
      change(
        within(
          () => import('../../lib/store/page.ts'),
          (m) => m.isVoid,
        ),
        always,
        'BinaryExpression',
      ),
    ],
  },
  'named-but-missing': {
    removes: 'another read where a reservation is missing that the page names',
    foundBy: found('is read again where the page names it and it was not read'),
    changes: [change(at('named-but-missing'), never)],
  },
  'names-of-the-untouched': {
    removes: 'the name of a reservation that holds something still, once one of its places is settled',
    foundBy: { test: 'test/store/page.test.ts', name: MEANS },
    changes: [change(at('names-of-the-untouched'), dropped, 'CallExpression')],
  },
  'names-without-bound': {
    removes: 'the bound of the names in a page',
    foundBy: found('is one of thousands, of which a bounded number has names'),
    changes: [change(at('names-without-bound'), becomes('$1 <= 100 * $2'), 'BinaryExpression')],
  },
};
