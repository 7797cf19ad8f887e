/** Outcomes around the bus's bound on one request. */
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobOutcomeDetail } from '../../lib/events/contract.ts';
import { EventBridgeBus } from '../../lib/events/eventbridge/bus.ts';
import {
  clientConfiguration,
  createBus,
  createQueue,
  type TestBus,
  type TestQueue,
} from '../contract/aws.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';

const WAIT_MS = 60_000;

const outcome = (id: string, changes: Partial<JobOutcomeDetail>) => {
  const detail: JobOutcomeDetail = {
    id,
    version: 4,
    type: 'index',
    state: 'succeeded',
    fairnessKey: 'tenant-a',
    attempt: 1,
    submittedAtMs: NOW_MS,
    finishedAtMs: NOW_MS + 1,
    ...changes,
  };
  return { kind: 'outcome', detail } as const;
};

describe('an outcome', () => {
  const sqs = new SQSClient(clientConfiguration);
  let queue: TestQueue;
  let bus: TestBus;

  beforeAll(async () => {
    queue = await createQueue(sqs, 'large');
    bus = await createBus(queue);
  }, WAIT_MS);
  afterAll(async () => {
    await bus?.drop();
    await queue?.drop();
    sqs.destroy();
  });

  const published = async (count: number): Promise<readonly JobOutcomeDetail[]> => {
    const details: JobOutcomeDetail[] = [];
    while (details.length < count) {
      const bodies = await queue.take();
      if (bodies.length === 0) break;
      details.push(...bodies.map((body) => (JSON.parse(body) as { detail: JobOutcomeDetail }).detail));
    }
    return details.toSorted((a, b) => a.id.localeCompare(b.id));
  };

  it(
    'that is too large goes out without its result, and says so; its neighbours go out whole',
    async () => {
      const error = { name: 'Broken', message: 'm'.repeat(1_200_000) };
      const events = [
        outcome('1', { result: 'small' }),
        outcome('2', { result: 'r'.repeat(1_200_000) }),
        outcome('3', { state: 'failed', error }),
      ];
      expect(await new EventBridgeBus(bus).publish(events)).toEqual([]);
      const [small, large, broken] = await published(3);
      expect(small).toMatchObject({ id: '1', result: 'small' });
      expect(small).not.toHaveProperty('omitted');
      expect(large).toMatchObject({ id: '2', state: 'succeeded', omitted: ['result'] });
      expect(large).not.toHaveProperty('result');
      expect(broken?.omitted).toContain('error.message');
      expect(broken?.error?.message.length).toBeLessThan(20_000);
    },
    WAIT_MS,
  );

  it('is answered when the bus cannot be reached', async () => {
    // Nothing listens on port 1.
    const client = new EventBridgeClient({
      ...clientConfiguration,
      endpoint: 'http://127.0.0.1:1',
      maxAttempts: 1,
    });
    const event = outcome('4', {});
    expect(await new EventBridgeBus({ client, busName: bus.busName }).publish([event])).toEqual([{ event }]);
    client.destroy();
  });

  it('that is not terminal is a broken rule', async () => {
    await expect(new EventBridgeBus(bus).publish([outcome('5', { state: 'running' })])).rejects.toThrow(
      RangeError,
    );
  });
});
