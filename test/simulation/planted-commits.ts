/** Bugs that are planted as changes of the sources: about what a commit writes beside the page. */
import type { Planted } from './planted-bug.ts';

const PARTITION = 'lib/store/dynamodb/partition.ts';

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
};
