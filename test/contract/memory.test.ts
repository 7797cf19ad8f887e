/** The conformance suites on the memory implementations. */
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { suitePlace } from './harness.ts';
import { jobStoreContract } from './job-store.ts';

jobStoreContract('memory', async () => {
  const store = new MemoryJobStore({ clock: () => NOW_MS, random: () => 0.5, place: suitePlace });
  return {
    store,
    putWorker: async (partition, worker) => store.putWorker(partition, worker),
    putControl: async (partition, control) => store.putControl(partition, control),
    close: async () => {},
  };
});
