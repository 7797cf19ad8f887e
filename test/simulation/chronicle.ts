/** What the world saw become of each job, told by nobody's record: each job's history must say the same. */
import { historyOf } from '../../lib/core/history.ts';
import { isTerminal, type Job } from '../../lib/core/job.ts';

interface Seen {
  /** In their order. */
  readonly attempts: { readonly claimId: string; workerId: string; isLost: boolean }[];
  /** Moves to another time, in their order. */
  readonly moves: string[];
  isCancelled: boolean;
  redrivenAs: string;
  /** Claims under which a handler has begun. */
  readonly executed: Set<string>;
}

const moveName = (fromMs: number, toMs: number): string => `${fromMs} to ${toMs}`;

export class Chronicle {
  readonly #seen = new Map<string, Seen>();
  readonly #disagrees: (what: string) => void;

  constructor(disagrees: (what: string) => void) {
    this.#disagrees = disagrees;
  }

  /** A handler has begun. */
  onExecution({ id, claim }: Job): void {
    this.#of(id).executed.add(claim?.claimId ?? '');
  }

  /** A verb has changed a job's item. */
  onJob(verb: string, before: Job | undefined, after: Job): void {
    if (before === undefined) {
      this.#seen.delete(after.id);
      return;
    }
    const seen = this.#of(after.id);
    const claimId = after.claim?.claimId ?? '';
    const isClaim = verb === 'claim' || (verb === 'startJob' && before.state === 'pending');
    if (isClaim) seen.attempts.push({ claimId, workerId: '', isLost: false });
    // Nobody has started it, and nobody can.
    if (verb === 'giveBack') seen.attempts.pop();
    const last = seen.attempts.at(-1);
    if (verb === 'startJob' && last !== undefined) last.workerId = after.worker?.workerId ?? '';
    if (after.workersLost > before.workersLost && last !== undefined) last.isLost = true;
    if (verb === 'cancelJob') seen.isCancelled = true;
    if (verb === 'redrive') seen.redrivenAs = after.redrivenAs ?? '';
    if (verb === 'retimeJob' && after.runAtMs !== before.runAtMs)
      seen.moves.push(moveName(before.runAtMs, after.runAtMs));
    if (isTerminal(after.state)) this.compare(after);
  }

  /** The job's history tells what was seen, and nothing else, as far as it is kept. */
  compare(job: Job): void {
    const seen = this.#of(job.id);
    const { events, dropped } = historyOf(job);
    const attempts = events.filter((event) => event.kind === 'attempt');
    const told = attempts.map(({ claimId, workerId = '', outcome }) =>
      JSON.stringify([claimId, workerId, outcome === 'lost']),
    );
    const happened = seen.attempts.map(({ claimId, workerId, isLost }) =>
      JSON.stringify([claimId, workerId, isLost]),
    );
    this.#same(job, 'attempts', happened.slice(dropped.attempts), told);
    const losses = seen.attempts.slice(0, dropped.attempts).filter(({ isLost }) => isLost);
    this.#same(job, 'dropped losses', [String(losses.length)], [String(dropped.losses)]);
    const moves = events.flatMap((event) =>
      event.kind === 'moved' ? moveName(event.fromMs, event.toMs) : [],
    );
    const isWhole = dropped.others === 0;
    this.#same(
      job,
      'moves',
      isWhole ? seen.moves : seen.moves.slice(-moves.length || seen.moves.length),
      moves,
    );
    const cancels = events.filter(({ kind }) => kind === 'cancelled').length;
    this.#same(job, 'cancellations', [String(seen.isCancelled)], [String(cancels === 1)]);
    const redriven = events.flatMap((event) => (event.kind === 'redriven' ? event.as : []));
    this.#same(job, 'other tries', seen.redrivenAs === '' ? [] : [seen.redrivenAs], redriven);
    for (const claimId of seen.executed) {
      const isTold = seen.attempts.some((each) => each.claimId === claimId && each.workerId !== '');
      if (!isTold) this.#disagrees(`${job.id} ran under ${claimId}, of which nothing is told`);
    }
  }

  #same(job: Job, what: string, happened: readonly string[], told: readonly string[]): void {
    if (happened.join() === told.join()) return;
    this.#disagrees(
      `${job.id}: ${what} were [${happened.join()}], and its history tells of [${told.join()}]`,
    );
  }

  #of(id: string): Seen {
    let seen = this.#seen.get(id);
    if (seen === undefined) {
      seen = { attempts: [], moves: [], isCancelled: false, redrivenAs: '', executed: new Set() };
      this.#seen.set(id, seen);
    }
    return seen;
  }
}
