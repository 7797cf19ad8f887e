/** What every job queue does: sentences, each checked on every implementation. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type DispatchMessage,
  type JobQueue,
  type ReceivedMessage,
  WAKE_JOBS_MAX,
} from '../../lib/queue/contract.ts';
import { onlyJob } from '../testing/received.ts';
import { ODD_NAMES, type QueueHarness } from './harness.ts';

const SETUP_MS = 60_000;
const SLOW_MS = 30_000;
const HIDE_MS = 60_000;
const WAIT_MS = 5_000;

let made = 0;

function aMessage(changes: Partial<DispatchMessage> = {}): DispatchMessage {
  made += 1;
  return { jobId: `job-${made}`, claimId: `1-${made}.0`, ...changes };
}

const byJob = (a: DispatchMessage, b: DispatchMessage): number => (a.jobId < b.jobId ? -1 : 1);

export function jobQueueContract(name: string, makeHarness: () => Promise<QueueHarness>): void {
  describe(`the job queue on ${name}`, () => {
    let harness: QueueHarness;
    let queue: JobQueue;
    let fleet: string;
    let otherFleet: string;

    beforeAll(async () => {
      harness = await makeHarness();
      ({ queue } = harness);
      [fleet, otherFleet] = harness.fleets;
    }, SETUP_MS);
    afterAll(async () => {
      await harness?.close();
    });

    /** Receives until `count` messages came; each is deleted, so the next test finds the queue empty. */
    const receiveAll = async (from: string, count: number): Promise<readonly ReceivedMessage[]> => {
      const received: ReceivedMessage[] = [];
      while (received.length < count) {
        const batch = await queue.receive(from, 10, WAIT_MS, HIDE_MS);
        if (batch.length === 0) break;
        received.push(...batch);
        await queue.delete(
          from,
          batch.map((each) => each.receipt),
        );
      }
      return received;
    };

    /** A receive that waits for something to happen later. */
    const receiveLater = async (waitMs: number, hideMs = HIDE_MS): Promise<readonly ReceivedMessage[]> => {
      const waiting = queue.receive(fleet, 1, waitMs, hideMs);
      await harness.pass(waitMs);
      return waiting;
    };

    it('delivers what was sent to a fleet, to that fleet', async () => {
      const [one, two] = [aMessage(), aMessage()];
      expect(await queue.send(fleet, [one])).toEqual([]);
      expect(await queue.send(otherFleet, [two])).toEqual([]);
      const received = await receiveAll(fleet, 1);
      expect(received.map(onlyJob)).toEqual([one]);
      expect(received[0]?.receiveCount).toBe(1);
      expect((await receiveAll(otherFleet, 1)).map(onlyJob)).toEqual([two]);
    });

    it('delivers every message of many', { timeout: SLOW_MS }, async () => {
      const messages = Array.from({ length: 33 }, () => aMessage());
      expect(await queue.send(fleet, messages)).toEqual([]);
      const received = await receiveAll(fleet, 33);
      expect(received.map(onlyJob).sort(byJob)).toEqual([...messages].sort(byJob));
    });

    it('puts as many jobs into a message as it is told, and brings each once', {
      timeout: SLOW_MS,
    }, async () => {
      const messages = Array.from({ length: 23 }, () => aMessage());
      expect(await queue.send(fleet, messages, 10)).toEqual([]);
      const received = await receiveAll(fleet, 3);
      expect(received.map(({ jobs }) => jobs.length).sort()).toEqual([10, 10, 3].sort());
      expect(received.flatMap(({ jobs }) => jobs).sort(byJob)).toEqual([...messages].sort(byJob));
    });

    it('gives at most as many as asked for', { timeout: SLOW_MS }, async () => {
      await queue.send(fleet, [aMessage(), aMessage(), aMessage()]);
      const first = await queue.receive(fleet, 2, WAIT_MS, HIDE_MS);
      expect(first.length).toBeGreaterThan(0);
      expect(first.length).toBeLessThanOrEqual(2);
      await queue.delete(
        fleet,
        first.map((each) => each.receipt),
      );
      await receiveAll(fleet, 3 - first.length);
    });

    it('answers nothing at once when nobody is to wait', async () => {
      expect(await queue.receive(fleet, 10, 0, HIDE_MS)).toEqual([]);
    });

    it('answers nothing when nothing came while it waited', { timeout: SLOW_MS }, async () => {
      expect(await receiveLater(1_000)).toEqual([]);
    });

    it('lets go who waits and does not want to any more', { timeout: SLOW_MS }, async () => {
      const ending = new AbortController();
      const waiting = queue.receive(fleet, 1, 3_000, 1_000, ending.signal);
      ending.abort();
      expect(await waiting).toEqual([]);
      expect(await queue.receive(fleet, 1, 20_000, HIDE_MS, ending.signal)).toEqual([]);
      // A queue may notice late that nobody waits: nothing is sent to it meanwhile.
      expect(await receiveLater(4_000)).toEqual([]);
    });

    it('wakes who waits as soon as a message is sent', { timeout: SLOW_MS }, async () => {
      const message = aMessage();
      const waiting = queue.receive(fleet, 1, 20_000, HIDE_MS);
      await queue.send(fleet, [message]);
      const [received] = await waiting;
      expect(onlyJob(received)).toEqual(message);
      await queue.delete(fleet, received === undefined ? [] : [received.receipt]);
    });

    it('hides a received message, and delivers it again when it was not deleted', {
      timeout: SLOW_MS,
    }, async () => {
      const message = aMessage();
      await queue.send(fleet, [message]);
      const [first] = await queue.receive(fleet, 1, WAIT_MS, 2_000);
      expect(onlyJob(first)).toEqual(message);
      expect(await queue.receive(fleet, 1, 0, HIDE_MS)).toEqual([]);
      const [second] = await receiveLater(10_000);
      expect(second).toMatchObject({ jobs: [message], receiveCount: 2 });
      await queue.delete(fleet, second === undefined ? [] : [second.receipt]);
    });

    it('delivers at once again what was handed back', { timeout: SLOW_MS }, async () => {
      const message = aMessage();
      await queue.send(fleet, [message]);
      const [first] = await queue.receive(fleet, 1, WAIT_MS, HIDE_MS);
      await queue.handBack(fleet, first === undefined ? [] : [first.receipt]);
      const [second] = await queue.receive(fleet, 1, WAIT_MS, HIDE_MS);
      expect(second).toMatchObject({ jobs: [message], receiveCount: 2 });
      const receipts = second === undefined ? [] : [second.receipt];
      await queue.delete(fleet, receipts);
      await queue.handBack(fleet, receipts);
      await queue.handBack(fleet, []);
      expect(await receiveLater(1_000)).toEqual([]);
    });

    it('never delivers again what was deleted', { timeout: SLOW_MS }, async () => {
      await queue.send(fleet, [aMessage()]);
      const [received] = await queue.receive(fleet, 1, WAIT_MS, 1_000);
      await queue.delete(fleet, received === undefined ? [] : [received.receipt]);
      expect(await receiveLater(2_000)).toEqual([]);
    });

    it('takes the deletion of what is gone without complaint', async () => {
      await queue.send(fleet, [aMessage()]);
      const [received] = await queue.receive(fleet, 1, WAIT_MS, HIDE_MS);
      const receipts = received === undefined ? [] : [received.receipt];
      await queue.delete(fleet, receipts);
      await queue.delete(fleet, receipts);
      await queue.delete(fleet, []);
    });

    it('sends nothing without complaint', async () => {
      expect(await queue.send(fleet, [])).toEqual([]);
    });

    it.each(ODD_NAMES)('carries ids with %s', { timeout: SLOW_MS }, async (_, odd) => {
      const message = aMessage({ jobId: `job ${odd}` });
      expect(await queue.send(fleet, [message])).toEqual([]);
      expect((await receiveAll(fleet, 1)).map(onlyJob)).toEqual([message]);
    });

    it.each([0, 11, -1, 1.5])('refuses to receive %d messages', async (max) => {
      await expect(queue.receive(fleet, max, 0, HIDE_MS)).rejects.toThrow(RangeError);
    });

    it('brings a wake of each partition that asked for one', { timeout: SLOW_MS }, async () => {
      await queue.sendWake({ partition: 0 });
      await queue.sendWake({ partition: 7 });
      const seen = new Set<number>();
      await harness.pass(1);
      while (seen.size < 2) for (const { partition } of await harness.receiveWakes()) seen.add(partition);
      expect([...seen].sort()).toEqual([0, 7]);
    });

    it('brings a delayed wake later, never early', { timeout: SLOW_MS }, async () => {
      await queue.sendWake({ partition: 3, delayMs: 1_500 });
      await queue.sendWake({ partition: 4 });
      await harness.pass(1);
      expect(await harness.receiveWakes()).toEqual([{ partition: 4, asks: 'pass' }]);
      await harness.pass(2_000);
      expect(await harness.receiveWakes()).toEqual([{ partition: 3, asks: 'pass' }]);
    });

    it('says with a wake which jobs it is about, as many as it may name', { timeout: SLOW_MS }, async () => {
      const jobIds = Array.from({ length: WAKE_JOBS_MAX }, (_, at) => `${at}`.padStart(32, '0'));
      await queue.sendWake({ partition: 2, jobIds });
      await harness.pass(1);
      expect(await harness.receiveWakes()).toEqual([{ partition: 2, asks: 'pass', jobIds }]);
    });

    it.each([-1_000, 901_000, Number.NaN])('refuses to delay a wake by %d ms', async (delayMs) => {
      await expect(queue.sendWake({ partition: 0, delayMs })).rejects.toThrow(RangeError);
      await expect(queue.sendLook(0, delayMs, 0)).rejects.toThrow(RangeError);
    });

    it('brings a look that was asked for, with what it was noted for, and tells it from a wake', {
      timeout: SLOW_MS,
    }, async () => {
      await queue.sendLook(5, 1_500, 1_763_971_200_123);
      await queue.sendLook(6, 0, 7);
      await harness.pass(1);
      expect(await harness.receiveWakes()).toEqual([{ partition: 6, asks: 'look', atMs: 7 }]);
      await harness.pass(2_000);
      expect(await harness.receiveWakes()).toEqual([{ partition: 5, asks: 'look', atMs: 1_763_971_200_123 }]);
    });
  });
}
