/**
 * Uploads to a bucket become jobs: one for each version of an object, however often S3 tells of it, and never two of one object
 * at once. Events of a bucket with EventBridge need no function: `scheduler.on({ source: ['aws.s3'] }, …)` maps their fields.
 */
import type { SchedulerClient } from 'fairlead/client';
import { defineJobs, job } from 'fairlead/jobs';
import type { HandlersOf } from 'fairlead/worker';

export interface StoredObject {
  readonly bucket: string;
  readonly key: string;
  readonly sequencer: string;
}

export const jobs = defineJobs({
  scan: job<StoredObject, { clean: boolean }>({
    fairnessKey: ({ bucket }) => bucket,
    resourceId: ({ bucket, key }) => `${bucket}/${key}`,
  }),
});

export const declaration = {
  types: { scan: { conflictGroup: 'object', timeoutMs: '2m' } },
  fleets: { scanners: { types: ['scan'], slots: 5 } },
} as const;

/** The part of an S3 event that is read here. */
export interface UploadEvent {
  readonly Records: readonly {
    readonly s3: {
      readonly bucket: { readonly name: string };
      readonly object: { readonly key: string; readonly sequencer: string };
    };
  }[];
}

/** The function behind the bucket's notifications. A failed entry fails the event, which S3 sends again. */
export const onUpload =
  (client: SchedulerClient<typeof jobs>) =>
  async ({ Records }: UploadEvent): Promise<void> => {
    const requests = Records.map(({ s3: { bucket, object } }) => {
      // Keys in events are encoded as in forms.
      const key = decodeURIComponent(object.key.replaceAll('+', ' '));
      return {
        type: 'scan' as const,
        payload: { bucket: bucket.name, key, sequencer: object.sequencer },
        idempotencyKey: `${bucket.name}/${key}/${object.sequencer}`,
      };
    });
    for (const entry of await client.submitMany(requests)) if (entry.kind !== 'accepted') throw entry.error;
  };

export const handlersOf = (scan: (object: StoredObject) => Promise<boolean>): HandlersOf<typeof jobs> => ({
  scan: async (object) => ({ clean: await scan(object) }),
});
