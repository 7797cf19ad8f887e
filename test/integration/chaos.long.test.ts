/** Processes that are killed and stopped, with a minute of synchronous work in some handlers: each job succeeds. */
import { describeChaos } from './chaos/chaos.ts';

describeChaos({
  jobs: 500,
  busy: { jobs: 10, forMs: 60_000 },
  workers: 5,
  hasFragile: false,
  withinMs: 1_500_000,
});
