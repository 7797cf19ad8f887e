/** What the memory queue imitates when it is asked to, each by itself. */
import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../../lib/local/virtual-time.ts';
import { MemoryJobQueue, type QueueImitation } from '../../../lib/queue/memory/queue.ts';
import { NOW_MS } from '../../fixtures/factories/job.ts';
import { seeded } from '../../simulation/random.ts';
import { onlyJob } from '../../testing/received.ts';

const FLEET = 'images';
const HIDE_MS = 30_000;
const message = { jobId: 'a', claimId: '1-1.0' };

function aQueue(
  imitate: QueueImitation,
  maxReceiveCount?: number,
): { queue: MemoryJobQueue; time: VirtualTime } {
  const time = new VirtualTime(NOW_MS);
  const options = { clock: () => time.nowMs, random: seeded(1), after: time.after, imitate, maxReceiveCount };
  return { queue: new MemoryJobQueue(options), time };
}

describe('the memory queue', () => {
  it('answers each job of a message that was not accepted', async () => {
    const { queue } = aQueue({ rejected: 1 });
    const jobs = ['a', 'b', 'c'].map((jobId) => ({ jobId, claimId: 'c' }));
    expect(await queue.send(FLEET, jobs, 2)).toEqual(jobs);
  });

  it('delivers a message twice', async () => {
    const { queue } = aQueue({ duplicated: 1 });
    await queue.send(FLEET, [message]);
    const received = await queue.receive(FLEET, 10, 0, HIDE_MS);
    expect(received.map(onlyJob)).toEqual([message, message]);
    expect(new Set(received.map((each) => each.receipt)).size).toBe(2);
  });

  it('delivers a message late', async () => {
    const { queue, time } = aQueue({ lateMs: 10_000 });
    await queue.send(FLEET, [message]);
    expect(await queue.receive(FLEET, 10, 0, HIDE_MS)).toEqual([]);
    const waiting = queue.receive(FLEET, 10, 20_000, HIDE_MS);
    await time.run({ untilMs: NOW_MS + 10_000 });
    expect(await waiting).toHaveLength(1);
  });

  it('loses messages and wakes', async () => {
    const { queue, time } = aQueue({ lost: 1 });
    const woken: number[] = [];
    queue.onWake((partition) => woken.push(partition));
    await queue.send(FLEET, [message]);
    await queue.sendWake({ partition: 1 });
    await time.run();
    expect(await queue.receive(FLEET, 10, 0, HIDE_MS)).toEqual([]);
    expect(woken).toEqual([]);
  });

  it('does not accept a message, or says so though it has', async () => {
    const refusing = aQueue({ rejected: 1 }).queue;
    expect(await refusing.send(FLEET, [message])).toEqual([message]);
    expect(refusing.sizeOf(FLEET)).toBe(0);
    const unanswering = aQueue({ unanswered: 1 }).queue;
    expect(await unanswering.send(FLEET, [message])).toEqual([message]);
    expect(unanswering.sizeOf(FLEET)).toBe(1);
  });

  it('keeps what is not deleted of thousands of messages, whatever order they go in', async () => {
    const { queue, time } = aQueue({});
    const messages = Array.from({ length: 2_000 }, (_, at) => ({ jobId: `job-${at}`, claimId: `1-1.${at}` }));
    await queue.send(FLEET, messages);
    const receipts: string[] = [];
    for (;;) {
      const received = await queue.receive(FLEET, 10, 0, HIDE_MS);
      if (received.length === 0) break;
      receipts.push(...received.map((each) => each.receipt));
    }
    const isKept = (at: number): boolean => at % 700 === 3;
    await queue.delete(FLEET, receipts.filter((_, at) => !isKept(at)).reverse());
    await queue.delete(FLEET, receipts.slice(0, 3));
    expect(queue.sizeOf(FLEET)).toBe(3);
    time.after(HIDE_MS, () => {});
    await time.run();
    const again = await queue.receive(FLEET, 10, 0, HIDE_MS);
    expect(again.map(onlyJob)).toEqual(messages.filter((_, at) => isKept(at)));
  });

  it('leaves a message in the queue when an outdated receipt is deleted', async () => {
    const { queue, time } = aQueue({});
    await queue.send(FLEET, [message]);
    const [first] = await queue.receive(FLEET, 1, 0, 1_000);
    await time.run({ untilMs: NOW_MS + 1_000 });
    const [second] = await queue.receive(FLEET, 1, 0, 1_000);
    await queue.delete(FLEET, [first?.receipt ?? '']);
    expect(queue.sizeOf(FLEET)).toBe(1);
    await queue.delete(FLEET, [second?.receipt ?? '']);
    expect(queue.sizeOf(FLEET)).toBe(0);
  });

  it('sets a message aside that was received too often', async () => {
    const { queue, time } = aQueue({}, 2);
    await queue.send(FLEET, [message]);
    for (let receive = 1; receive <= 2; receive += 1) {
      expect(await queue.receive(FLEET, 1, 0, 1_000)).toHaveLength(1);
      await time.run({ untilMs: NOW_MS + receive * 1_000 });
    }
    expect(await queue.receive(FLEET, 1, 0, 1_000)).toEqual([]);
    expect(queue.deadLetters(FLEET)).toEqual([message]);
  });

  it('keeps no trace of what was deleted long before it would be visible again', async () => {
    const { queue } = aQueue({});
    for (let round = 0; round < 500; round += 1) {
      const messages = Array.from({ length: 10 }, (_, at) => ({ jobId: `${round}/${at}`, claimId: '1-1.0' }));
      await queue.send(FLEET, messages);
      const received = await queue.receive(FLEET, 10, 0, HIDE_MS);
      expect(received).toHaveLength(10);
      await queue.delete(
        FLEET,
        received.map((each) => each.receipt),
      );
    }
    expect(queue.sizeOf(FLEET)).toBe(0);
  });
});
