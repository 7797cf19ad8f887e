/** The conformance suites on the memory implementations. */
import { deserialize, serialize } from 'node:v8';
import { DETAIL_TYPE, type OutcomeEvent, SCHEDULE_STOPPED } from '../../lib/events/contract.ts';
import { MemoryEventBus } from '../../lib/events/memory/bus.ts';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import { MemoryObjectStore } from '../../lib/objects/memory/objects.ts';
import { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import type { Wake } from '../../lib/queue/message.ts';
import type { UnreadableItem } from '../../lib/store/contract/records.ts';
import type { MemoryStoreOptions } from '../../lib/store/memory/items.ts';
import type { MemoryState } from '../../lib/store/memory/state.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { seeded } from '../simulation/random.ts';
import { eventBusContract } from './event-bus.ts';
import { suitePlace } from './harness.ts';
import { jobQueueContract } from './job-queue.ts';
import { jobStoreContract } from './job-store.ts';
import { objectStoreContract } from './object-store.ts';
import { scheduleStoreContract } from './schedule-store.ts';

interface MadeStore extends Pick<MemoryStoreOptions, 'clock' | 'unreadable'> {
  /** Whether calls find a store that was kept in a file and put back. */
  readonly isKept: boolean;
}

/** The store, of which a call can be made that is not of the contract. */
function storeOf({ isKept, ...options }: MadeStore): MemoryJobStore {
  const made = (state?: MemoryState): MemoryJobStore =>
    new MemoryJobStore({ random: seeded(1), place: suitePlace, ...options, state });
  let store = made();
  let open = 0;
  const random = seeded(2);
  if (!isKept) return store;
  return new Proxy(store, {
    get: (first, name) => {
      if (typeof Reflect.get(first, name, first) !== 'function') return Reflect.get(store, name, store);
      return (...request: readonly unknown[]): unknown => {
        // Calls that race with each other are of one process. The tests share a store that grows: to keep it takes longer and longer.
        if (open === 0 && random() < KEPT_SHARE)
          store = made(deserialize(serialize(store.state)) as MemoryState);
        const answer: unknown = Reflect.apply(Reflect.get(store, name, store), store, request);
        if (!(answer instanceof Promise)) return answer;
        open += 1;
        return answer.finally(() => {
          open -= 1;
        });
      };
    },
  });
}

/** How many of the calls find a store that was put back. */
const KEPT_SHARE = 0.25;

const STORES: readonly (readonly [string, boolean])[] = [
  ['memory', false],
  ['memory, kept in a file again and again', true],
];

for (const [name, isKept] of STORES) {
  jobStoreContract(
    name,
    async () => {
      let clockMs = NOW_MS;
      const store = storeOf({ isKept, clock: () => clockMs });
      return {
        store,
        // It remembers nothing for anybody.
        another: store,
        setClock: (nowMs) => {
          clockMs = nowMs;
        },
        close: async () => {},
      };
    },
    !isKept,
  );

  scheduleStoreContract(name, async () => {
    const told: UnreadableItem[] = [];
    const store = storeOf({ isKept, clock: () => NOW_MS, unreadable: (item) => told.push(item) });
    return {
      store,
      told,
      damage: async (id) => store.damageSchedule(id, 'is not JSON'),
      mend: async (id) => store.damageSchedule(id, undefined),
      close: async () => {},
    };
  });
}

objectStoreContract('memory', async () => ({ objects: new MemoryObjectStore(), close: async () => {} }));

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
