/** What every event bus does: sentences, each checked on every implementation. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DETAIL_TYPE, type OutcomeEvent } from '../../lib/events/contract.ts';
import { anOutcome } from '../fixtures/factories/outcome-event.ts';
import { aRejection } from '../fixtures/factories/rejection.ts';
import { type BusHarness, ODD_NAMES } from './harness.ts';

const SETUP_MS = 60_000;
const SLOW_MS = 30_000;

const nameOf = (detail: OutcomeEvent['detail']): string => ('id' in detail ? detail.id : detail.sourceId);

export function eventBusContract(name: string, makeHarness: () => Promise<BusHarness>): void {
  describe(`the event bus on ${name}`, { timeout: SLOW_MS }, () => {
    let harness: BusHarness;

    beforeAll(async () => {
      harness = await makeHarness();
    }, SETUP_MS);
    afterAll(async () => {
      await harness?.close();
    });

    it.each([
      ['succeeded', DETAIL_TYPE.succeeded],
      ['failed', DETAIL_TYPE.failed],
      ['cancelled', DETAIL_TYPE.cancelled],
    ] as const)('tells of a job that %s', async (state, detailType) => {
      const event = anOutcome({ state, error: { name: 'Broken', message: 'it broke' } });
      expect(await harness.bus.publish([event])).toEqual([]);
      expect(await harness.received(1)).toEqual([{ detailType, detail: event.detail }]);
    });

    it('tells of a request that was rejected', async () => {
      const event: OutcomeEvent = { kind: 'rejected', detail: aRejection() };
      expect(await harness.bus.publish([event])).toEqual([]);
      expect(await harness.received(1)).toEqual([{ detailType: DETAIL_TYPE.rejected, detail: event.detail }]);
    });

    it('takes more than one batch', async () => {
      const events = Array.from({ length: 33 }, () => anOutcome());
      expect(await harness.bus.publish(events)).toEqual([]);
      const received = await harness.received(33);
      expect(received.map((each) => nameOf(each.detail)).sort()).toEqual(
        events.map((event) => nameOf(event.detail)).sort(),
      );
    });

    it('takes results of 60 KB, many together', async () => {
      const events = Array.from({ length: 20 }, () => anOutcome({ result: 'x'.repeat(60_000) }));
      expect(await harness.bus.publish(events)).toEqual([]);
      expect(await harness.received(20)).toHaveLength(20);
    });

    it('takes no events without complaint', async () => {
      expect(await harness.bus.publish([])).toEqual([]);
    });

    it.each(ODD_NAMES)('carries names with %s', async (_, odd) => {
      const event = anOutcome({ id: `job ${odd}`, fairnessKey: odd, resourceId: odd, result: { note: odd } });
      expect(await harness.bus.publish([event])).toEqual([]);
      expect((await harness.received(1)).map((each) => each.detail)).toEqual([event.detail]);
    });
  });
}
