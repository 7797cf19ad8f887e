/**
 * Leading: one dispatcher leads a partition, and others leave letters for it. Without it every woken dispatcher makes a pass of its
 * own, of which all but one lose their commits, and jobs start as the stream of changes tells of them, not as clients do.
 */
import type { Leader, Letter, ReceivedLetter } from './records.ts';
import type { LeadOutcome } from './requests.ts';

export interface LeadStore {
  /**
   * Takes or renews the lead of a partition until an instant, fenced by the holder's name: no other dispatcher leads whose time is not
   * over.
   *
   * @param wantsLetters - whether clients are to leave letters. @default - as before; false without a lead before
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
  /** Reads the dispatcher that leads, or led and did not release, strongly consistent. */
  readLeader(partition: number): Promise<Leader | undefined>;
  /**
   * Puts a letter into a partition's mailbox for the dispatcher that leads it, now or next; needs no token, because each call makes
   * letters of new names. A large letter is several items. It never conflicts with a pass.
   */
  putLetter(request: {
    readonly partition: number;
    readonly letter: Letter;
    readonly nowMs: number;
  }): Promise<void>;
  /** Reads the letters of a partition, strongly consistent, at most `LETTERS_READ_MAX`; `more`: others may be there. */
  readLetters(
    partition: number,
  ): Promise<{ readonly letters: readonly ReceivedLetter[]; readonly more: boolean }>;
  /** Deletes letters by their ids, one by one. To be called after the commit that acted on them was answered. */
  deleteLetters(request: {
    readonly partition: number;
    readonly letterIds: readonly string[];
  }): Promise<void>;
}
