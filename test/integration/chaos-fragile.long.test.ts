/** Processes that are killed, stopped and kept busy, with a type that fails with its worker; `chaos.long.test.ts` has none. */
import { describeChaos } from './chaos/chaos.ts';

describeChaos({
  jobs: 300,
  // Longer than the lease, and than anybody believes the record of one that is over.
  busy: { jobs: 3, forMs: 12_000 },
  workers: 3,
  hasFragile: true,
  withinMs: 240_000,
});
