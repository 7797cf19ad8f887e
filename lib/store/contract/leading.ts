/**
 * Leading: one dispatcher leads a partition, and others leave letters for it. Without it every woken dispatcher makes a pass of its own,
 * and all but one lose their commits. New jobs then start when the table's stream reports them, which is later than a client's letter.
 */
import type { Leader, Letter, ReceivedLetter } from './records.ts';
import type { LeadOutcome } from './requests.ts';

export interface LeadStore {
  /**
   * Takes or renews the lead of a partition until an instant, fenced by the holder's name: it fails while the lead of another dispatcher
   * has not expired.
   *
   * @param wantsLetters - whether clients are to leave letters. @default - unchanged; false for the first lead
   */
  lead(request: {
    readonly partition: number;
    readonly holder: string;
    readonly nowMs: number;
    readonly untilMs: number;
    readonly wantsLetters?: boolean | undefined;
  }): Promise<LeadOutcome>;
  /** Ends a lead, fenced by the holder's name. */
  stopLeading(request: { readonly partition: number; readonly holder: string }): Promise<void>;
  /** Reads the lead, strongly consistent; also one that has expired without being ended. */
  readLeader(partition: number): Promise<Leader | undefined>;
  /**
   * Puts a letter into a partition's mailbox for its present or next leader. Needs no token, because each call makes letters with new
   * names. A large letter is several items. It never conflicts with a pass.
   */
  putLetter(request: {
    readonly partition: number;
    readonly letter: Letter;
    readonly nowMs: number;
  }): Promise<void>;
  /** Reads the letters of a partition, strongly consistent, at most `LETTERS_READ_MAX`; `more`: there may be others. */
  readLetters(
    partition: number,
  ): Promise<{ readonly letters: readonly ReceivedLetter[]; readonly more: boolean }>;
  /** Deletes letters by their ids, one by one. To be called after the commit that acted on them was answered. */
  deleteLetters(request: {
    readonly partition: number;
    readonly letterIds: readonly string[];
  }): Promise<void>;
}
