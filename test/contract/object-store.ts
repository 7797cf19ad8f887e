/** The contract of every object store: sentences, each checked on every implementation. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ObjectStore } from '../../lib/objects/contract.ts';

export interface ObjectHarness {
  readonly objects: ObjectStore;
  readonly close: () => Promise<void>;
}

const SETUP_MS = 60_000;
const SLOW_MS = 60_000;

export function objectStoreContract(name: string, makeHarness: () => Promise<ObjectHarness>): void {
  describe(`the object store on ${name}`, { timeout: SLOW_MS }, () => {
    let harness: ObjectHarness;

    beforeAll(async () => {
      harness = await makeHarness();
    }, SETUP_MS);
    afterAll(async () => {
      await harness?.close();
    });

    it('gives back a text as it was put, whatever characters it has', async () => {
      const text = JSON.stringify({ text: 'grüße 日本 \u0000 \u{1f600}', long: 'x'.repeat(300_000) });
      await harness.objects.put({ key: 'texts/one', text });
      expect(await harness.objects.get('texts/one')).toBe(text);
    });

    it('replaces the text of a key', async () => {
      await harness.objects.put({ key: 'texts/two', text: '1' });
      await harness.objects.put({ key: 'texts/two', text: '2' });
      expect(await harness.objects.get('texts/two')).toBe('2');
    });

    it('knows nothing of a key that was never put', async () => {
      expect(await harness.objects.get('texts/none')).toBeUndefined();
    });

    it('deletes keys, and does not mind missing ones', async () => {
      await harness.objects.put({ key: 'texts/three', text: '3' });
      await harness.objects.delete(['texts/three', 'texts/none']);
      await harness.objects.delete([]);
      expect(await harness.objects.get('texts/three')).toBeUndefined();
    });

    it('lists keys with a prefix in their order, from one on', async () => {
      for (const key of ['list/b', 'list/a', 'list/c', 'other/a'])
        await harness.objects.put({ key, text: 'x' });
      expect(await harness.objects.list({ prefix: 'list/' })).toEqual({
        keys: ['list/a', 'list/b', 'list/c'],
      });
      expect(await harness.objects.list({ prefix: 'list/', after: 'list/a' })).toEqual({
        keys: ['list/b', 'list/c'],
      });
      expect(await harness.objects.list({ prefix: 'nothing/' })).toEqual({ keys: [] });
    });

    it('lists a thousand keys with each page', async () => {
      const keys = Array.from({ length: 1_001 }, (_, at) => `many/${String(at).padStart(4, '0')}`);
      for (let from = 0; from < keys.length; from += 50)
        await Promise.all(keys.slice(from, from + 50).map((key) => harness.objects.put({ key, text: 'x' })));
      const first = await harness.objects.list({ prefix: 'many/' });
      expect(first).toEqual({ keys: keys.slice(0, 1_000), next: 'many/0999' });
      const rest = await harness.objects.list({ prefix: 'many/', after: first.next });
      expect(rest).toEqual({ keys: keys.slice(1_000) });
      await harness.objects.delete(first.keys);
      expect(await harness.objects.list({ prefix: 'many/' })).toEqual(rest);
    });
  });
}
