/** Bugs that are planted as changes of the sources: about what a commit writes beside the page. */
import type { Planted } from './planted-bug.ts';

const PARTITION = 'lib/store/dynamodb/partition.ts';
const PAGE = 'lib/store/page.ts';
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
      {
        file: PARTITION,
        from: "condition: 'attribute_not_exists(#turn) OR #turn < :turn',",
        to: "condition: 'attribute_not_exists(#turn) OR #turn <> :turn',",
      },
    ],
  },
  'page-before-items': {
    removes: 'the wait for the items that a page names: it is written whatever becomes of them',
    foundBy: found('leaves the page as it is where nobody knows whether its item is there'),
    changes: [
      {
        file: PARTITION,
        from: 'await this.#putAhead(partition, ahead, before.turn);',
        to: 'await this.#putAhead(partition, ahead, before.turn).catch(() => {});',
      },
    ],
  },
  'put-over-another': {
    removes: 'the condition that nothing is where an item is put before its page',
    foundBy: found('is not put over another one of its number'),
    changes: [
      {
        file: PARTITION,
        from: "item, condition: 'attribute_not_exists(#pk)' });",
        to: 'item });',
      },
    ],
  },
  'unnamed-counts': {
    removes: 'the names of a page: each item counts that was put before one',
    foundBy: { test: 'test/store/page.test.ts', name: MEANS },
    changes: [
      {
        file: PAGE,
        from: 'named === undefined || named.has',
        to: 'named === undefined || true || named.has',
      },
    ],
  },
  'earlier-names-nothing': {
    removes:
      'what counts by the page of an earlier version, which knows no names: items that were put before one hold nothing',
    foundBy: found('counts by its item where an earlier version has written the page'),
    changes: [
      { file: PAGE, from: 'named === undefined || named.has(batchId)', to: 'named?.has(batchId) === true' },
    ],
  },
  'void-at-once': {
    removes: 'the turn from what is void: an item is taken away before the page that is about to name it',
    foundBy: found('goes once the page has turned, not before'),
    changes: [
      {
        file: PAGE,
        from: '!isNamed(page, batchId) && follows < page.turn;',
        to: '!isNamed(page, batchId) && follows > -1;',
      },
    ],
  },
  'named-but-missing': {
    removes: 'another read where a reservation is missing that the page names',
    foundBy: found('is read again where the page names it and it was not read'),
    changes: [{ file: PARTITION, from: 'lacks: [...(page.named', to: 'lacks: false && [...(page.named' }],
  },
  'names-of-the-untouched': {
    removes: 'the name of a reservation that holds something still, once one of its places is settled',
    foundBy: { test: 'test/store/page.test.ts', name: MEANS },
    changes: [
      {
        file: PAGE,
        from: 'if (settled === undefined || holdsMore(reservation.jobs, settled))',
        to: 'if (settled === undefined)',
      },
    ],
  },
  'names-without-bound': {
    removes: 'the bound of the names in a page',
    foundBy: found('is one of thousands, of which a bounded number has names'),
    changes: [{ file: PAGE, from: '&& bytes <= NAMES_BYTES_MAX', to: '&& bytes <= 100 * NAMES_BYTES_MAX' }],
  },
};
