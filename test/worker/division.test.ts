/** How a worker's slots move between partitions: never there twice, and all of them there in the end. */
import { describe, expect, it } from 'vitest';
import type { Reservation } from '../../lib/store/contract/records.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { SlotDivision } from '../../lib/worker/division.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aReservation, aReservedJob } from '../fixtures/factories/reservation.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { stage, storeWith } from '../stage/stage.ts';

const LIFE = { workerId: 'worker', incarnation: 'second' };
const LATER_MS = NOW_MS + 3_600_000;
const LEASE_MS = 10_000;

/** A worker whose slots are divided so at first, with its records, and what it was told of them. */
async function worker(
  given: Readonly<Record<number, number>>,
  verbs: (store: JobStore) => Partial<JobStore> = () => ({}),
) {
  const { store } = stage();
  let reads = 0;
  const counted = storeWith(store, {
    loadPartition: (request) => {
      reads += 1;
      return storeWith(store, verbs(store)).loadPartition(request);
    },
  });
  const shares = new Map(Object.entries(given).map(([partition, slots]) => [Number(partition), slots]));
  const record = (slots: number, changes: Parameters<typeof aWorkerRecord>[0] = {}) =>
    aWorkerRecord({ ...LIFE, fleet: 'images', slots, expiresAtMs: LATER_MS, ...changes });
  for (const [partition, slots] of shares) await store.registerWorker({ partition, record: record(slots) });
  const told = new Map(shares);
  const division = new SlotDivision({
    store: counted,
    nowMs: () => NOW_MS,
    life: LIFE,
    fleet: 'images',
    slots: [...shares.values()].reduce((sum, slots) => sum + slots, 0),
    shares,
    setSlots: (partition, slots) => void told.set(partition, slots),
  });
  let nowMs = NOW_MS;
  const pass = async (partition: number, reserve: readonly Reservation[] = []): Promise<void> => {
    nowMs += 2 * LEASE_MS;
    const { version } = await store.loadPartition({ partition, nowMs });
    expect(await store.commit({ partition, commit: aCommit({ version, reserve }) })).toBe('committed');
  };
  const places = (fleet: string, count: number): Reservation => {
    const jobs = Array.from({ length: count }, (_, at) => [at, aReservedJob(aJob(), { fleet })] as const);
    return aReservation([], { jobs: new Map(jobs) });
  };
  return {
    store,
    divide: (partitions: number, first: number) => division.step(partitions, first),
    pass,
    places,
    record,
    /** The next heartbeats say what it was told. */
    beat: async (...partitions: readonly number[]): Promise<void> => {
      for (const partition of partitions)
        await store.heartbeat({ partition, record: record(told.get(partition) ?? 0) });
    },
    slots: (): Readonly<Record<number, number>> => Object.fromEntries(told),
    takeReads: (): number => {
      const taken = reads;
      reads = 0;
      return taken;
    },
  };
}

type Worker = Awaited<ReturnType<typeof worker>>;

/** Divides for so many partitions, often enough, with heartbeats and passes in all of them. */
async function settle(on: Worker, partitions: number, first = 0): Promise<void> {
  const all = [0, 1, 2, 3];
  for (let round = 0; round < 4; round += 1) {
    await on.divide(partitions, first);
    for (const partition of all) if (on.slots()[partition] !== undefined) await on.beat(partition);
    for (const partition of all) await on.pass(partition);
  }
}

describe('slots of a worker', () => {
  it('are lowered at once, and raised elsewhere when a later commit has found the lowered record', async () => {
    const on = await worker({ 0: 8 });
    await on.divide(2, 0);
    expect(on.slots()).toEqual({ 0: 4 });
    // Its heartbeat is late: whatever commits come, they count on eight slots.
    for (let round = 0; round < 3; round += 1) {
      await on.pass(0);
      await on.divide(2, 0);
    }
    expect(on.slots()).toEqual({ 0: 4 });
    await on.beat(0);
    for (let round = 0; round < 3; round += 1) await on.divide(2, 0);
    expect(on.slots()).toEqual({ 0: 4 });
    await on.pass(0);
    await on.divide(2, 0);
    expect(on.slots()).toEqual({ 0: 4, 1: 4 });
    on.takeReads();
    await on.divide(2, 0);
    expect(on.takeReads()).toBe(0);
  });

  it('are lowered again at versions of their own', async () => {
    const on = await worker({ 0: 12 });
    await on.divide(2, 0);
    await on.beat(0);
    await on.divide(2, 0);
    await on.divide(3, 0);
    expect(on.slots()).toEqual({ 0: 4 });
    await on.pass(0);
    // This commit has counted on six; only the next one finds four.
    await on.beat(0);
    await on.divide(3, 0);
    expect(on.slots()).toEqual({ 0: 4 });
    await on.pass(0);
    await on.divide(3, 0);
    expect(on.slots()).toEqual({ 0: 4, 1: 4, 2: 4 });
  });

  it('are raised by what one partition was lowered by, while another one is not free', async () => {
    const on = await worker({ 0: 6, 1: 6 });
    await on.divide(3, 0);
    await on.beat(0);
    await on.divide(3, 0);
    await on.pass(0);
    await on.divide(3, 0);
    expect(on.slots()).toEqual({ 0: 4, 1: 4, 2: 2 });
    await on.beat(1, 2);
    await on.divide(3, 0);
    await on.pass(1);
    await on.divide(3, 0);
    expect(on.slots()).toEqual({ 0: 4, 1: 4, 2: 4 });
  });

  it('are raised by no more than what is free, where several partitions lack some', async () => {
    const on = await worker({ 0: 6, 1: 6 });
    await on.divide(4, 0);
    await on.beat(0);
    await on.divide(4, 0);
    await on.pass(0);
    // The other one that was lowered may count on its slots still.
    expect(await on.divide(4, 0)).toEqual([2]);
    expect(on.slots()).toEqual({ 0: 3, 1: 3, 2: 3 });
    await settle(on, 4);
    expect(on.slots()).toEqual({ 0: 3, 1: 3, 2: 3, 3: 3 });
  });

  it('go to several partitions that lack some, and no more than each lacks', async () => {
    const on = await worker({ 0: 4, 1: 0, 2: 0, 3: 0 });
    await settle(on, 4);
    expect(on.slots()).toEqual({ 0: 1, 1: 1, 2: 1, 3: 1 });
    await settle(on, 3, 1);
    expect(on.slots()).toEqual({ 0: 1, 1: 2, 2: 1, 3: 0 });
    await settle(on, 1);
    expect(on.slots()).toEqual({ 0: 4, 1: 0, 2: 0, 3: 0 });
  });

  it('return to where they were when the number changes back', async () => {
    const on = await worker({ 0: 8 });
    await on.divide(2, 0);
    await settle(on, 1);
    expect(on.slots()).toEqual({ 0: 8 });
  });
});

describe('slots that somebody may count on', () => {
  /** One that was lowered to four, and whose next read is of a later version. */
  async function lowered(...given: Parameters<typeof worker>): Promise<Worker> {
    const on = await worker(...given);
    await on.divide(2, 0);
    await on.beat(0);
    await on.divide(2, 0);
    return on;
  }
  const raised = { 0: 4, 1: 4 };
  const kept = { 0: 4 };

  it('stay while more of the fleet is reserved than it has slots, those of other workers among them', async () => {
    const on = await lowered({ 0: 8 });
    await on.store.registerWorker({
      partition: 0,
      record: on.record(10, { workerId: 'of-texts', fleet: 'texts' }),
    });
    await on.pass(0, [on.places('images', 5)]);
    await on.divide(2, 0);
    expect(on.slots()).toEqual(kept);
    await on.store.registerWorker({ partition: 0, record: on.record(1, { workerId: 'another' }) });
    await on.divide(2, 0);
    expect(on.slots()).toEqual(raised);
  });

  it('are free where other fleets have places only', async () => {
    const on = await lowered({ 0: 8 });
    await on.pass(0, [on.places('texts', 9)]);
    await on.divide(2, 0);
    expect(on.slots()).toEqual(raised);
  });

  it('stay while some are lent', async () => {
    let isLent = true;
    const loan = { loanId: 'l', from: 0, to: 1, units: 1, scopes: [], expiresAtMs: LATER_MS };
    const on = await lowered({ 0: 8 }, (store) => ({
      loadPartition: async (request) => ({
        ...(await store.loadPartition(request)),
        loans: isLent ? [loan] : [],
      }),
    }));
    await on.pass(0);
    await on.divide(2, 0);
    expect(on.slots()).toEqual(kept);
    isLent = false;
    await on.divide(2, 0);
    expect(on.slots()).toEqual(raised);
  });

  it.each([
    ["another worker's", { workerId: 'a-worker', incarnation: LIFE.incarnation }],
    ["the worker's next life", { workerId: LIFE.workerId, incarnation: 'third' }],
  ])('stay where a record that says so is %s', async (_, other) => {
    const on = await worker({ 0: 8 });
    await on.store.deregisterWorker({ partition: 0, worker: LIFE });
    await on.store.registerWorker({ partition: 0, record: on.record(4, other) });
    for (let round = 0; round < 3; round += 1) {
      await on.divide(2, 0);
      await on.pass(0);
    }
    expect(on.slots()).toEqual(kept);
  });

  it('stay where the record has expired: who comes back may have it still', async () => {
    const on = await worker({ 0: 8 });
    await on.store.deregisterWorker({ partition: 0, worker: LIFE });
    for (let round = 0; round < 3; round += 1) {
      await on.divide(2, 0);
      await on.pass(0);
    }
    expect(on.slots()).toEqual(kept);
  });
});
