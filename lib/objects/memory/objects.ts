/** Objects in memory. */
import { DELETED_AT_ONCE, type ObjectPage, type ObjectStore } from '../contract.ts';

export class MemoryObjectStore implements ObjectStore {
  /** All objects, by key. */
  readonly texts: Map<string, string>;

  constructor(texts = new Map<string, string>()) {
    this.texts = texts;
  }

  async put({ key, text }: Parameters<ObjectStore['put']>[0]): Promise<void> {
    this.texts.set(key, text);
  }

  async get(key: string): Promise<string | undefined> {
    return this.texts.get(key);
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.texts.delete(key);
  }

  async list({ prefix, after = '' }: Parameters<ObjectStore['list']>[0]): Promise<ObjectPage> {
    const all = [...this.texts.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const keys = all.slice(0, DELETED_AT_ONCE);
    return all.length > keys.length ? { keys, next: keys.at(-1) } : { keys };
  }
}
