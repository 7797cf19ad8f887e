/** Leading a partition, and the letters in its mailbox. */

import { randomBytes } from 'node:crypto';
import { UnavailableError } from '../../core/errors.ts';
import { LETTERS_READ_MAX } from '../contract/bounds.ts';
import type { LeadStore } from '../contract/leading.ts';
import type { Leader, ReceivedLetter } from '../contract/records.ts';
import type { LeadOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { decodeLeader } from '../table/codec/leader.ts';
import { decodeLetter, encodeLetter, letterIdOf } from '../table/codec/letter.ts';
import { leaderKey, mailPk } from '../table/schema.ts';
import type { DynamoConnection } from './connection.ts';
import { PARALLEL_MAX } from './expressions.ts';
import type { TableItems } from './items.ts';
import { inParallel } from './parallel.ts';

/** Makes the names of letters unique. */
const newLetterNonce = (): string => randomBytes(9).toString('base64url');

export class DynamoLeadStore implements LeadStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;

  constructor(items: TableItems) {
    this.#items = items;
    this.#table = items.table;
  }

  async lead({ partition, holder, nowMs, untilMs, wantsLetters }: RequestOf<'lead'>): Promise<LeadOutcome> {
    const wanted = wantsLetters === undefined ? 'if_not_exists(#wantsLetters, :wants)' : ':wants';
    const outcome = await this.#table.update('lead', {
      key: leaderKey(partition),
      update: `SET #holder = :holder, #untilMs = :until, #wantsLetters = ${wanted}`,
      // If the answer got lost, the repeated request finds its own holder.
      condition: 'attribute_not_exists(#holder) OR #holder = :holder OR #untilMs <= :now',
      values: { ':holder': holder, ':until': untilMs, ':now': nowMs, ':wants': wantsLetters ?? false },
    });
    if (outcome.applied) return { kind: 'leading' };
    const leader = outcome.old === undefined ? undefined : decodeLeader(outcome.old).leader;
    if (leader === undefined)
      throw new UnavailableError(`lead: the lead of partition ${partition} ended during the call; try again`);
    return { kind: 'led', leader };
  }

  async stopLeading({ partition, holder }: RequestOf<'stopLeading'>): Promise<void> {
    await this.#table.update('stopLeading', {
      key: leaderKey(partition),
      update: 'REMOVE #holder, #untilMs',
      condition: '#holder = :holder',
      values: { ':holder': holder },
    });
  }

  async readLeader(partition: number): Promise<Leader | undefined> {
    const item = await this.#table.get('readLeader', leaderKey(partition));
    return item === undefined ? undefined : decodeLeader(item).leader;
  }

  async readLetters(
    partition: number,
  ): Promise<{ readonly letters: readonly ReceivedLetter[]; readonly more: boolean }> {
    const { items, last } = await this.#items.upTo(LETTERS_READ_MAX, 'readLetters', {
      condition: '#pk = :pk',
      values: { ':pk': mailPk(partition) },
    });
    const read = await this.#items.readableEach(partition, items, decodeLetter);
    // A letter that cannot be read may have been about any job, so the leader checks all.
    const letters = read.map(
      (letter, at) =>
        // planted: unreadable-says-nothing
        letter ?? { letterId: letterIdOf(items[at] ?? {}), hints: [], jobIds: [], looksAtAll: true },
    );
    return { letters, more: last !== undefined };
  }

  async deleteLetters({ partition, letterIds }: RequestOf<'deleteLetters'>): Promise<void> {
    await inParallel(letterIds, PARALLEL_MAX, (sk) =>
      this.#table.delete('deleteLetters', { pk: mailPk(partition), sk }),
    );
  }

  async putLetter({ partition, letter, nowMs }: RequestOf<'putLetter'>): Promise<void> {
    const items = encodeLetter(partition, letter, { newId: newLetterNonce, nowMs });
    await inParallel(items, PARALLEL_MAX, (item) => this.#table.put('putLetter', { item }));
  }
}
