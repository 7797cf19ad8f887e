/** The conformance suites on the memory implementations. */
import { DETAIL_TYPE, type OutcomeEvent, SCHEDULE_STOPPED } from '../../lib/events/contract.ts';
import { MemoryEventBus } from '../../lib/events/memory/bus.ts';
import { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import type { Wake } from '../../lib/queue/message.ts';
import type { UnreadableItem } from '../../lib/store/contract/records.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { VirtualTime } from '../../lib/testing/virtual-time.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { seeded } from '../simulation/random.ts';
import { eventBusContract } from './event-bus.ts';
import { suitePlace } from './harness.ts';
import { jobQueueContract } from './job-queue.ts';
import { jobStoreContract } from './job-store.ts';
import { scheduleStoreContract } from './schedule-store.ts';

jobStoreContract('memory', async () => {
  let clockMs = NOW_MS;
  const store = new MemoryJobStore({ clock: () => clockMs, random: seeded(1), place: suitePlace });
  return {
    store,
    // It remembers nothing for anybody.
    another: store,
    setClock: (nowMs) => {
      clockMs = nowMs;
    },
    close: async () => {},
  };
});

scheduleStoreContract('memory', async () => {
  const told: UnreadableItem[] = [];
  const store = new MemoryJobStore({
    clock: () => NOW_MS,
    random: seeded(1),
    place: suitePlace,
    unreadable: (item) => told.push(item),
  });
  return {
    store,
    told,
    damage: async (id) => store.damageSchedule(id, 'is not JSON'),
    mend: async (id) => store.damageSchedule(id, undefined),
    close: async () => {},
  };
});

jobQueueContract('memory', async () => {
  const time = new VirtualTime(NOW_MS);
  const queue = new MemoryJobQueue({ clock: () => time.nowMs, random: seeded(1), after: time.after });
  const wakes: Wake[] = [];
  queue.onWake((partition, _dueAtMs, jobIds) =>
    wakes.push({ partition, asks: 'pass', ...(jobIds === undefined ? {} : { jobIds }) }),
  );
  queue.onLook((partition, atMs) => wakes.push({ partition, asks: 'look', atMs }));
  const pass = async (ms: number): Promise<void> => {
    await time.run({ untilMs: time.nowMs + ms });
  };
  return {
    queue,
    fleets: ['images', 'text'],
    receiveWakes: async () => wakes.splice(0),
    pass,
    close: async () => {},
  };
});

const detailTypeOf = (event: OutcomeEvent): string => {
  if (event.kind === 'rejected') return DETAIL_TYPE.rejected;
  if (event.kind === 'stopped') return SCHEDULE_STOPPED;
  const { state } = event.detail;
  return state === 'succeeded' || state === 'failed' || state === 'cancelled' ? DETAIL_TYPE[state] : state;
};

eventBusContract('memory', async () => {
  const bus = new MemoryEventBus({ random: seeded(1) });
  const events: OutcomeEvent[] = [];
  bus.subscribe((event) => events.push(event));
  return {
    bus,
    received: async () =>
      events.splice(0).map((event) => ({ detailType: detailTypeOf(event), detail: event.detail })),
    close: async () => {},
  };
});
