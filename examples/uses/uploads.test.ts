import { testScheduler } from 'fairlead/testing';
import { expect, onTestFinished, test } from 'vitest';
import { declaration, handlersOf, jobs, onUpload, type UploadEvent } from './uploads.ts';

const eventOf = (...uploads: readonly (readonly [key: string, sequencer: string])[]): UploadEvent => ({
  Records: uploads.map(([key, sequencer]) => ({
    s3: { bucket: { name: 'photos' }, object: { key, sequencer } },
  })),
});

test('each version of an object is scanned once, and no two at once', async () => {
  const scanned: string[] = [];
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf(async ({ key, sequencer }) => {
      scanned.push(`${key} ${sequencer}`);
      return true;
    }),
  });
  onTestFinished(() => t.dispose());
  const handler = onUpload(t.client);
  const event = eventOf(['a+b%2F1.png', '01'], ['c.png', '02']);
  await handler(event);
  // S3 may deliver an event more than once.
  await handler(event);
  await handler(eventOf(['a+b%2F1.png', '03']));
  await t.runUntilIdle();
  expect(scanned.toSorted()).toEqual(['a b/1.png 01', 'a b/1.png 03', 'c.png 02']);
  expect(t.overlap('photos/a b/1.png')).toBe(1);
});
