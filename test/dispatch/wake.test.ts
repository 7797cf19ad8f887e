/** Partitions that are woken: who is sent for comes, also where the table takes no word at that moment. */
import { describe, expect, it } from 'vitest';
import { wake as wakeLed } from '../../lib/dispatch/lead.ts';
import { wakePartitions } from '../../lib/dispatch/locks.ts';
import { StoreThrottled } from '../../lib/store/errors.ts';
import type { WorkerSettings } from '../../lib/worker/process/options.ts';
import { wake as wakeServed } from '../../lib/worker/process/partitions.ts';
import { stage, storeWith } from './stage.ts';

describe('a partition that is woken', () => {
  it.each([
    ['by whoever led it', (context, partition) => wakeLed(context, partition)],
    ['by whoever gives a lock back', (context, partition) => wakePartitions(context, [partition])],
    [
      'by a worker with new slots',
      (context, partition) => wakeServed(context as unknown as WorkerSettings, [partition]),
    ],
  ] satisfies [string, (context: ReturnType<typeof stage>['main'], partition: number) => Promise<void>][])(
    'has a message though no word can be left: %s',
    async (_, wakes) => {
      const on = stage();
      const store = storeWith(on.store, {
        wake: async () => {
          throw new StoreThrottled('busy');
        },
      });
      await wakes(on.dispatcher({ store }), 0);
      await on.advance(0);
      expect(on.wakes).toHaveLength(1);
      expect(on.logged.map(({ message }) => message)).toHaveLength(1);
    },
  );
});
