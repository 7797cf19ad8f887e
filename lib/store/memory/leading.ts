/** Leading a partition, and the letters in its mailbox. */
import { LETTERS_READ_MAX } from '../contract/bounds.ts';
import { hintOf } from '../contract/job-fields.ts';
import type { LeadStore } from '../contract/leading.ts';
import type { Leader, ReceivedLetter } from '../contract/records.ts';
import type { LeadOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { letterKey } from '../table/schema.ts';
import type { MemoryItems } from './items.ts';

export class MemoryLeadStore implements LeadStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async lead({ partition, holder, nowMs, untilMs, wantsLetters }: RequestOf<'lead'>): Promise<LeadOutcome> {
    return this.#items.write('lead', () => {
      this.#items.bill.small('lead', 'write');
      const items = this.#items.partition(partition);
      const { leader } = items;
      if (leader !== undefined && leader.holder !== holder && leader.untilMs > nowMs)
        return { kind: 'led', leader };
      items.wantsLetters = wantsLetters ?? items.wantsLetters;
      items.leader = { holder, untilMs, wantsLetters: items.wantsLetters };
      this.#items.observe?.({ kind: 'lead', verb: 'lead', partition, holder });
      return { kind: 'leading' };
    });
  }

  async stopLeading({ partition, holder }: RequestOf<'stopLeading'>): Promise<void> {
    return this.#items.write('stopLeading', () => {
      this.#items.bill.small('stopLeading', 'write');
      const items = this.#items.partition(partition);
      if (items.leader?.holder !== holder) return;
      items.leader = undefined;
      this.#items.observe?.({ kind: 'lead', verb: 'stopLeading', partition, holder });
    });
  }

  async readLeader(partition: number): Promise<Leader | undefined> {
    return this.#items.read('readLeader', () => {
      this.#items.bill.small('readLeader', 'read');
      return this.#items.partition(partition).leader;
    });
  }

  async readLetters(
    partition: number,
  ): Promise<{ readonly letters: readonly ReceivedLetter[]; readonly more: boolean }> {
    return this.#items.read('readLetters', () => {
      const all = [...this.#items.partition(partition).letters.values()];
      all.sort((one, other) => (one.letterId < other.letterId ? -1 : 1));
      const letters = all.slice(0, LETTERS_READ_MAX);
      this.#items.bill.readLetters(partition, letters);
      return { letters, more: all.length > letters.length };
    });
  }

  async deleteLetters({ partition, letterIds }: RequestOf<'deleteLetters'>): Promise<void> {
    const { letters } = this.#items.partition(partition);
    for (const letterId of letterIds) {
      await this.#items.write('deleteLetters', () => {
        this.#items.bill.deletedLetter(partition, letters.get(letterId) ?? {});
        letters.delete(letterId);
      });
    }
  }

  async putLetter({ partition, letter, nowMs }: RequestOf<'putLetter'>): Promise<void> {
    return this.#items.write('putLetter', () => {
      this.#items.bill.putLetter(partition, letter);
      const { state } = this.#items;
      state.lettersPut += 1;
      const { sk: letterId } = letterKey(partition, nowMs, String(state.lettersPut).padStart(12, '0'));
      const { hints = [], jobIds = [], looksAtAll = false } = letter;
      const { letters } = this.#items.partition(partition);
      letters.set(letterId, { letterId, hints: hints.map(hintOf), jobIds, looksAtAll });
    });
  }
}
