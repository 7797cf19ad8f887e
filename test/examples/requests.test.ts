import {
  EventBridgeClient,
  type PutEventsCommand,
  type PutEventsResultEntry,
} from '@aws-sdk/client-eventbridge';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { PlannedFile } from '../../examples/files/input.ts';
import { packRequests, putRequests } from '../../examples/files/requests.ts';

const file = (path: string): PlannedFile => ({
  path,
  jobId: `id of ${path}`,
  request: {
    type: 'index',
    idempotencyKey: `files/${path}`,
    payload: { path, file: `/in/${path}`, out: '/out' },
    fairnessKey: '.',
    resourceId: '.',
    priority: 4,
  },
});

describe('requests on their way to the bus', () => {
  it('are packed in order, all of them, each event within 64 KB', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 4_000 }), { maxLength: 60 }), (paths) => {
        const files = paths.map(file);
        const events = packRequests(files);
        expect(events.flatMap((event) => event.files)).toEqual(files);
        for (const { detail, files: own } of events) {
          expect(Buffer.byteLength(detail) + 'fairlead.exampleJob Requested'.length).toBeLessThanOrEqual(
            65_536,
          );
          expect(JSON.parse(detail)).toEqual({ jobs: own.map((each) => each.request) });
        }
      }),
      { numRuns: 30 },
    );
  });

  it('fill events well, and hold no more jobs than one may', () => {
    const events = packRequests(Array.from({ length: 1_000 }, (_, at) => file(`file-${at}`)));
    expect(events.length).toBeLessThanOrEqual(5);
    expect(packRequests([])).toEqual([]);
  });

  it('are put again if the bus did not take them, and are known by the ids it gave', async () => {
    const client = new EventBridgeClient({ region: 'us-east-1' });
    const details: string[] = [];
    vi.spyOn(client, 'send').mockImplementation(async (command: unknown) => {
      const entries = (command as PutEventsCommand).input.Entries ?? [];
      const refuse = details.length === 0;
      details.push(...entries.map((entry) => entry.Detail ?? ''));
      return {
        Entries: entries.map(
          (_entry, at): PutEventsResultEntry =>
            refuse && at === 0
              ? { ErrorCode: 'ThrottlingException' }
              : { EventId: `${details.length}/${at}` },
        ),
      };
    });
    const events = packRequests(Array.from({ length: 400 }, (_, at) => file(`file-${at}`)));
    const byId = await putRequests(client, 'bus', events, new AbortController().signal);
    expect(new Set(byId.values())).toEqual(new Set(events));
    expect(details.length).toBe(events.length + 1);
  });
});
