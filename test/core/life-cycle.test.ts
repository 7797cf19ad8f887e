import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NOTHING_DROPPED } from '../../lib/core/history.ts';
import { type Claim, isTerminal, type Job, type JobState } from '../../lib/core/job.ts';
import {
  askForEnd,
  cancel,
  claim,
  claimAndStart,
  claimPlanned,
  EDGES,
  FIRST_VERSION,
  finish,
  giveBack,
  initialState,
  isLegal,
  isWaiting,
  loseWorker,
  mayHaveBegun,
  promote,
  raiseVersion,
  rehome,
  retime,
  start,
  type Transition,
  type Verdict,
} from '../../lib/core/life-cycle.ts';

const NOW = 1_800_000_000_000;
const STATES = Object.keys(EDGES) as JobState[];
const WORKER = { workerId: 'w1', incarnation: 'i1' };
const CLAIM: Claim = { claimId: 'b.0', batchId: 'b', fleet: 'pdf', claimedAtMs: NOW - 500 };
const ERROR = { name: 'Boom', message: 'It broke.' };

function job(state: JobState, changes: Partial<Job> = {}): Job {
  const held = state !== 'scheduled' && state !== 'pending' && state !== 'cancelled';
  const ran = held && state !== 'claimed';
  return {
    id: 'j1',
    type: 'pdf',
    priority: 3,
    mode: 'queued',
    fairnessKey: 'alice',
    readyAtMs: NOW - 5_000,
    version: 7,
    attempt: 2,
    partition: 0,
    state,
    payload: { pages: 3 },
    contentHash: 'h',
    runAtMs: NOW - 5_000,
    submittedAtMs: NOW - 9_000,
    workersLost: 1,
    ...(held ? { claim: CLAIM } : {}),
    ...(ran ? { worker: WORKER, startedAtMs: NOW - 100 } : {}),
    ...changes,
  };
}

function moved(transition: Transition): Job {
  if (transition.kind !== 'moved') throw new Error(`refused: ${JSON.stringify(transition.refusal)}`);
  return transition.job;
}

const VERDICTS: readonly Verdict[] = [
  { kind: 'succeeded', result: { ok: true } },
  { kind: 'failed', error: ERROR },
  { kind: 'retry', error: ERROR, runAtMs: NOW + 1_000 },
  { kind: 'cancelled' },
];

/** Each transition, asked for in the way that suits the job, with the state that it leads to. */
const TRANSITIONS: Readonly<
  Record<
    string,
    { readonly to: JobState; readonly from: readonly JobState[]; readonly apply: (job: Job) => Transition }
  >
> = {
  promote: { to: 'pending', from: ['scheduled'], apply: (given) => promote(given, NOW) },
  claim: { to: 'claimed', from: ['pending'], apply: (given) => claim(given, CLAIM, given.version) },
  rehome: {
    to: 'pending',
    from: ['scheduled', 'pending'],
    apply: (given) => rehome(given, given.partition, NOW),
  },
  raiseVersion: { to: 'pending', from: ['pending'], apply: (given) => raiseVersion(given, given.version) },
  giveBack: { to: 'pending', from: ['claimed'], apply: (given) => giveBack(given, CLAIM.claimId, NOW) },
  start: { to: 'running', from: ['claimed'], apply: (given) => start(given, CLAIM.claimId, WORKER, NOW) },
  succeed: {
    to: 'succeeded',
    from: ['running'],
    apply: (given) => finish(given, CLAIM.claimId, WORKER, { kind: 'succeeded', result: 1 }, NOW),
  },
  fail: {
    to: 'failed',
    from: ['running'],
    apply: (given) => finish(given, CLAIM.claimId, WORKER, { kind: 'failed', error: ERROR }, NOW),
  },
  retry: {
    to: 'scheduled',
    from: ['running'],
    apply: (given) =>
      finish(given, CLAIM.claimId, WORKER, { kind: 'retry', error: ERROR, runAtMs: NOW }, NOW),
  },
  stop: {
    to: 'cancelled',
    from: ['running'],
    apply: (given) => finish(given, CLAIM.claimId, WORKER, { kind: 'cancelled' }, NOW),
  },
  loseAndFail: {
    to: 'failed',
    from: ['running'],
    apply: (given) => loseWorker(given, CLAIM.claimId, { kind: 'failed', error: ERROR }, NOW),
  },
  loseAndRetry: {
    to: 'scheduled',
    from: ['running'],
    apply: (given) => loseWorker(given, CLAIM.claimId, { kind: 'retry', error: ERROR, runAtMs: NOW }, NOW),
  },
  retime: {
    to: 'scheduled',
    from: ['scheduled', 'pending'],
    apply: (given) => retime(given, NOW + 1, NOW),
  },
  retimeToNow: {
    to: 'pending',
    from: ['scheduled', 'pending'],
    apply: (given) => retime(given, NOW, NOW),
  },
  cancel: {
    to: 'cancelled',
    from: ['scheduled', 'pending', 'claimed'],
    apply: (given) => cancel(given, NOW),
  },
};

describe('the table of edges', () => {
  it('is exactly the documented one', () => {
    expect(EDGES).toEqual({
      scheduled: ['scheduled', 'pending', 'cancelled'],
      pending: ['pending', 'scheduled', 'claimed', 'cancelled'],
      claimed: ['pending', 'running', 'cancelled'],
      running: ['succeeded', 'failed', 'scheduled', 'cancelled'],
      succeeded: [],
      failed: [],
      cancelled: [],
    });
  });

  it('lets nothing leave a terminal state', () => {
    for (const from of STATES.filter(isTerminal)) {
      for (const to of STATES) expect(isLegal(from, to)).toBe(false);
    }
  });

  it('leads from every state that is not terminal to a terminal one', () => {
    for (const from of STATES.filter((state) => !isTerminal(state)))
      expect(isLegal(from, 'cancelled')).toBe(true);
  });

  it('counts as waiting what stands in a line', () => {
    expect(STATES.filter(isWaiting)).toEqual(['scheduled', 'pending']);
  });

  it('begins with waiting for the time, or for a slot', () => {
    expect(initialState(NOW + 1, NOW)).toBe('scheduled');
    expect(initialState(NOW, NOW)).toBe('pending');
    expect(initialState(NOW - 1, NOW)).toBe('pending');
  });
});

describe.each(Object.entries(TRANSITIONS))('%s', (_, { to, from, apply }) => {
  it.each(from)('moves a %s job and raises its version by one', (state) => {
    const given = job(state);
    const next = moved(apply(given));
    expect(next.state).toBe(to);
    expect(next.version).toBe(given.version + 1);
    expect(isLegal(state, to)).toBe(true);
  });

  it.each(STATES.filter((state) => !from.includes(state)))('refuses a %s job as illegal', (state) => {
    expect(apply(job(state))).toEqual({ kind: 'refused', refusal: { kind: 'illegal', from: state, to } });
  });

  it('leaves the given job alone', () => {
    for (const state of STATES) {
      const given = job(state);
      const before = structuredClone(given);
      apply(given);
      expect(given).toEqual(before);
    }
  });

  it('keeps what the job is', () => {
    for (const state of from) {
      const given = job(state);
      const { id, type, priority, mode, fairnessKey, payload, contentHash, submittedAtMs, partition } = given;
      expect(moved(apply(given))).toMatchObject({
        id,
        type,
        priority,
        mode,
        fairnessKey,
        payload,
        contentHash,
        submittedAtMs,
        partition,
      });
    }
  });
});

describe('promote', () => {
  it('refuses before the time, and not at it', () => {
    const future = job('scheduled', { runAtMs: NOW });
    expect(promote(future, NOW - 1)).toEqual({
      kind: 'refused',
      refusal: { kind: 'early', runAtMs: NOW, nowMs: NOW - 1 },
    });
    expect(moved(promote(future, NOW)).state).toBe('pending');
  });

  it('counts the age from the time that was asked for, however late it is noticed', () => {
    const atMs = NOW - 60_000;
    const due = moved(promote(job('scheduled', { runAtMs: atMs, readyAtMs: atMs }), NOW));
    expect(due).toMatchObject({ readyAtMs: atMs });
    expect(due).not.toHaveProperty('firstReadyAtMs');
  });

  it('says of a pending job that there is nothing to promote, even before its time', () => {
    const pending = job('pending', { runAtMs: NOW + 1 });
    expect(promote(pending, NOW)).toMatchObject({ refusal: { kind: 'illegal', from: 'pending' } });
  });
});

describe('claim', () => {
  it('records who won the job and when', () => {
    expect(moved(claim(job('pending'), CLAIM, 7)).claim).toEqual(CLAIM);
  });

  it.each([6, 8])('loses when the plan saw version %i of 7', (planned) => {
    expect(claim(job('pending'), CLAIM, planned)).toEqual({
      kind: 'refused',
      refusal: { kind: 'outdated', version: 7, expected: planned },
    });
  });

  it('loses against a raised version, however late it comes', () => {
    const raised = moved(raiseVersion(job('pending'), 7));
    expect(raised).toEqual(job('pending', { version: 8 }));
    expect(claim(raised, CLAIM, 7).kind).toBe('refused');
  });

  it('is not raised again by whoever saw the version before', () => {
    expect(raiseVersion(job('pending'), 6)).toEqual({
      kind: 'refused',
      refusal: { kind: 'outdated', version: 7, expected: 6 },
    });
  });
});

describe('a claim that was superseded', () => {
  const other = job('claimed', { claim: { ...CLAIM, claimId: '4.c.0' } });
  const refusal = { kind: 'refused', refusal: { kind: 'superseded', holder: '4.c.0', asked: CLAIM.claimId } };

  it('starts nothing', () => expect(start(other, CLAIM.claimId, WORKER, NOW)).toEqual(refusal));

  it('finishes nothing', () => {
    const running = job('running', { claim: { ...CLAIM, claimId: '4.c.0' } });
    for (const verdict of VERDICTS) {
      expect(finish(running, CLAIM.claimId, WORKER, verdict, NOW)).toEqual(refusal);
      expect(loseWorker(running, CLAIM.claimId, verdict, NOW)).toEqual(refusal);
    }
  });

  it('is refused too where the job says nothing of a claim', () => {
    const { claim: _, ...bare } = job('running');
    const nobody = {
      kind: 'refused',
      refusal: { kind: 'superseded', holder: undefined, asked: CLAIM.claimId },
    };
    expect(finish(bare, CLAIM.claimId, WORKER, VERDICTS[0] as Verdict, NOW)).toEqual(nobody);
    expect(loseWorker(bare, CLAIM.claimId, VERDICTS[1] as Verdict, NOW)).toEqual(nobody);
    expect(start({ ...bare, state: 'claimed' }, CLAIM.claimId, WORKER, NOW)).toEqual(nobody);
  });
});

describe('start', () => {
  it('records the worker, its life and the instant, and nothing else of the worker', () => {
    const started = moved(
      start(job('claimed'), CLAIM.claimId, { ...WORKER, slots: 4 } as typeof WORKER, NOW),
    );
    expect(started.worker).toEqual(WORKER);
    expect(started.startedAtMs).toBe(NOW);
    expect(started.claim).toEqual(CLAIM);
  });
});

describe('a start that claims', () => {
  const CLAIM_ID = '3-4p2.1';
  const planned = { version: 7, fleet: 'pdf', claimedAtMs: NOW - 500, declared: 9 };
  const begin = (given: Job) => claimAndStart(given, CLAIM_ID, planned, WORKER, NOW, NOW + 60_000);

  it('leaves the job as its claim and its start after it would have', () => {
    const again = job('pending', {
      startedAtMs: 1,
      finishedAtMs: 2,
      progress: 1,
      runUntilMs: 3,
      worker: WORKER,
    });
    for (const given of [job('pending'), again]) {
      const claimed = moved(claim(given, claimPlanned(CLAIM_ID, planned), 7));
      const started = moved(begin(given));
      expect(started).toEqual(moved(start(claimed, CLAIM_ID, WORKER, NOW, NOW + 60_000)));
      expect(started).toMatchObject({ state: 'running', version: 9 });
      expect(started).not.toHaveProperty('finishedAtMs');
    }
  });

  it('knows the batch by the id of the claim', () => {
    const { version: _, ...rest } = planned;
    expect(claimPlanned(CLAIM_ID, planned)).toEqual({
      claimId: CLAIM_ID,
      batchId: '3-4p2',
      ...rest,
    });
    const undeclared = claimPlanned(CLAIM_ID, { ...rest, declared: undefined });
    expect(undeclared).not.toHaveProperty('declared');
  });

  it.each(STATES.filter((state) => state !== 'pending'))('begins nothing that is %s', (state) => {
    expect(begin(job(state)).kind).toBe('refused');
  });

  it.each([6, 8])('begins nothing that has come to version %d', (version) => {
    expect(begin(job('pending', { version }))).toMatchObject({
      refusal: { kind: 'outdated', version, expected: 7 },
    });
  });
});

describe('finish', () => {
  const running = job('running');

  it.each([
    { workerId: 'w2', incarnation: 'i1' },
    { workerId: 'w1', incarnation: 'i2' },
  ])('refuses another worker or another life of it: $workerId/$incarnation', (worker) => {
    for (const verdict of VERDICTS) {
      expect(finish(running, CLAIM.claimId, worker, verdict, NOW)).toEqual({
        kind: 'refused',
        refusal: { kind: 'superseded', holder: 'w1/i1', asked: `${worker.workerId}/${worker.incarnation}` },
      });
    }
  });

  it('refuses a job that says nothing of its worker', () => {
    const { worker: _, ...bare } = running;
    expect(finish(bare, CLAIM.claimId, WORKER, VERDICTS[0] as Verdict, NOW)).toEqual({
      kind: 'refused',
      refusal: { kind: 'superseded', holder: undefined, asked: 'w1/i1' },
    });
  });

  it('keeps who did it, and the result', () => {
    const done = moved(finish(running, CLAIM.claimId, WORKER, { kind: 'succeeded', result: { n: 1 } }, NOW));
    expect(done).toEqual({ ...running, state: 'succeeded', version: 8, result: { n: 1 }, finishedAtMs: NOW });
  });

  it('forgets with a success why attempts before it failed', () => {
    const again = job('running', { error: ERROR });
    const done = moved(finish(again, CLAIM.claimId, WORKER, { kind: 'succeeded', result: 1 }, NOW));
    expect(done).not.toHaveProperty('error');
  });

  it('keeps who failed, and why', () => {
    const failed = moved(finish(running, CLAIM.claimId, WORKER, { kind: 'failed', error: ERROR }, NOW));
    expect(failed).toEqual({ ...running, state: 'failed', version: 8, error: ERROR, finishedAtMs: NOW });
  });

  it('counts an attempt for a retry, and says until the next claim whose attempt ended when', () => {
    const again = moved(
      finish(running, CLAIM.claimId, WORKER, { kind: 'retry', error: ERROR, runAtMs: NOW + 9 }, NOW),
    );
    expect(again).toStrictEqual({
      ...running,
      state: 'scheduled',
      version: 8,
      attempt: 3,
      error: ERROR,
      runAtMs: NOW + 9,
      readyAtMs: NOW + 9,
      firstReadyAtMs: running.readyAtMs,
      finishedAtMs: NOW,
      history: expect.objectContaining({ lastClaimId: CLAIM.claimId }),
    });
    const next = moved(claim({ ...again, state: 'pending' }, CLAIM, 8));
    for (const field of ['worker', 'startedAtMs', 'finishedAtMs'])
      expect(Object.keys(next)).not.toContain(field);
  });
});

describe('a running job whose end was asked for', () => {
  const asked = job('running', { cancelRequestedAtMs: NOW - 50 });
  const retry: Verdict = { kind: 'retry', error: ERROR, runAtMs: NOW + 9 };

  it('is cancelled by its worker, which keeps its name on it', () => {
    const stopped = moved(finish(asked, CLAIM.claimId, WORKER, { kind: 'cancelled' }, NOW));
    expect(stopped).toEqual({ ...asked, state: 'cancelled', version: 8, finishedAtMs: NOW });
  });

  it('succeeds or fails if that is how it ended', () => {
    for (const verdict of VERDICTS.slice(0, 2)) {
      expect(moved(finish(asked, CLAIM.claimId, WORKER, verdict, NOW)).state).toBe(verdict.kind);
    }
  });

  it('is not tried again: a retry is its cancellation, whoever ends the attempt', () => {
    const history = expect.objectContaining({ lastClaimId: CLAIM.claimId });
    const ended = { state: 'cancelled', version: 8, attempt: 2, error: ERROR, finishedAtMs: NOW, history };
    expect(moved(finish(asked, CLAIM.claimId, WORKER, retry, NOW))).toEqual({ ...asked, ...ended });
    expect(moved(loseWorker(asked, CLAIM.claimId, retry, NOW))).toEqual({
      ...asked,
      ...ended,
      workersLost: 2,
    });
  });
});

describe('a retry', () => {
  const again = (from: Job, isFromStart: boolean): Job =>
    moved(
      finish(
        from,
        CLAIM.claimId,
        WORKER,
        { kind: 'retry', error: ERROR, runAtMs: NOW + 9, isFromStart },
        NOW,
      ),
    );
  const saved = job('running', { checkpoint: { page: 7 } });

  it('goes on from the checkpoint, unless it is to begin anew', () => {
    expect(again(saved, false).checkpoint).toEqual({ page: 7 });
    expect(again(saved, true)).not.toHaveProperty('checkpoint');
  });
});

describe('rehome', () => {
  it('takes a job to another partition, with its age, and makes what was planned of it lose', () => {
    const taken = moved(rehome(job('pending'), 3, NOW));
    expect(taken).toEqual({ ...job('pending'), partition: 3, version: 8 });
    expect(claim(taken, CLAIM, 7).kind).toBe('refused');
  });

  it('makes one ready whose time has come, and leaves one where it is whose time has not', () => {
    expect(moved(rehome(job('scheduled'), 3, NOW))).toMatchObject({ state: 'pending', partition: 3 });
    expect(rehome(job('scheduled', { runAtMs: NOW + 1 }), 3, NOW)).toMatchObject({
      kind: 'refused',
      refusal: { kind: 'early' },
    });
  });
});

describe('loseWorker', () => {
  it('counts a lost worker and no attempt for a retry', () => {
    const again = moved(
      loseWorker(job('running'), CLAIM.claimId, { kind: 'retry', error: ERROR, runAtMs: NOW + 9 }, NOW),
    );
    expect(again).toMatchObject({
      state: 'scheduled',
      attempt: 2,
      workersLost: 2,
      runAtMs: NOW + 9,
      error: ERROR,
      finishedAtMs: NOW,
      claim: CLAIM,
    });
  });

  it('leaves the job its age, through its promotion too', () => {
    const retry = { kind: 'retry', error: ERROR, runAtMs: NOW + 9 } as const;
    const again = moved(loseWorker(job('running'), CLAIM.claimId, retry, NOW));
    const ready = moved(promote(again, NOW + 9));
    for (const each of [again, ready]) {
      expect(each.readyAtMs).toBe(job('running').readyAtMs);
      expect(each).not.toHaveProperty('firstReadyAtMs');
    }
    expect(promote(again, NOW + 8).kind).toBe('refused');
    expect(moved(retime(again, NOW + 1, NOW + 1)).readyAtMs).toBe(job('running').readyAtMs);
  });

  it('counts it in a failure too', () => {
    const failed = moved(loseWorker(job('running'), CLAIM.claimId, { kind: 'failed', error: ERROR }, NOW));
    expect(failed).toMatchObject({
      state: 'failed',
      attempt: 2,
      workersLost: 2,
      finishedAtMs: NOW,
      error: ERROR,
    });
  });
});

describe('retime', () => {
  const EARLIER = NOW - 60_000;
  const movedFrom = ({ runAtMs: fromMs }: Job, toMs: number) => ({
    entries: [{ kind: 'moved', atMs: NOW, fromMs, toMs }],
    dropped: NOTHING_DROPPED,
  });

  it.each(['scheduled', 'pending'] as const)('makes a %s job wait for a time to come', (state) => {
    const given = job(state);
    expect(moved(retime(given, NOW + 77, NOW))).toStrictEqual({
      ...given,
      state: 'scheduled',
      version: 8,
      runAtMs: NOW + 77,
      readyAtMs: NOW + 77,
      firstReadyAtMs: given.readyAtMs,
      history: movedFrom(given, NOW + 77),
    });
  });

  it.each([
    ['failed before', { firstReadyAtMs: NOW - 9_000, readyAtMs: NOW + 5, runAtMs: NOW + 5 }, NOW - 9_000],
    ['has lost its worker', { readyAtMs: NOW - 9_000, runAtMs: NOW + 5 }, NOW - 9_000],
    ['has been due unnoticed', { readyAtMs: NOW, runAtMs: NOW }, NOW],
    ['was never ready', { readyAtMs: NOW + 5, runAtMs: NOW + 5 }, undefined],
  ])('of a scheduled job that %s remembers since when it was ready', (_, changes, firstReadyAtMs) => {
    const later = moved(retime(job('scheduled', changes), NOW + 77, NOW));
    expect([later.readyAtMs, later.firstReadyAtMs]).toEqual([NOW + 77, firstReadyAtMs]);
  });

  it('remembers when a job was ready first, however often it fails or is moved, and not twice the same', () => {
    const first = job('running').readyAtMs;
    const retry = { kind: 'retry', error: ERROR, runAtMs: NOW + 9 } as const;
    const again = moved(finish(job('running'), CLAIM.claimId, WORKER, retry, NOW));
    const waiting = moved(promote(again, NOW + 9));
    const later = moved(retime(waiting, NOW + 99, NOW + 10));
    const now = moved(retime(later, NOW + 11, NOW + 11));
    for (const each of [again, waiting, later, now]) expect(each.firstReadyAtMs).toBe(first);
    expect([waiting, later, now].map(({ readyAtMs }) => readyAtMs)).toEqual([NOW + 9, NOW + 99, NOW + 11]);
    // The second was ready again later, by a clock that is ahead of its worker's.
    for (const at of [{ readyAtMs: NOW }, { readyAtMs: NOW + 5, firstReadyAtMs: NOW }]) {
      const again = finish(job('running', at), CLAIM.claimId, WORKER, { ...retry, runAtMs: NOW }, NOW);
      expect(moved(again).readyAtMs).toBe(NOW);
      expect(moved(again)).not.toHaveProperty('firstReadyAtMs');
    }
  });

  it.each([
    ['a time that is past', EARLIER],
    ['this very millisecond', NOW],
    ['the year 1970', 0],
  ])('to %s means now: a scheduled job is ready from now on', (_, runAtMs) => {
    const given = job('scheduled', { runAtMs: NOW + 5_000, readyAtMs: NOW + 5_000 });
    expect(moved(retime(given, runAtMs, NOW))).toStrictEqual({
      ...given,
      state: 'pending',
      version: 8,
      runAtMs,
      readyAtMs: NOW,
      history: movedFrom(given, runAtMs),
    });
  });

  it('lets a job that is ready, and stays so, keep its age', () => {
    const given = job('pending', { runAtMs: EARLIER, readyAtMs: EARLIER });
    for (const runAtMs of [0, EARLIER, NOW]) {
      expect(moved(retime(given, runAtMs, NOW))).toMatchObject({ runAtMs, readyAtMs: EARLIER });
    }
  });

  it('takes a pending job for ready, whatever the clock said that made it so', () => {
    const ahead = job('pending', { runAtMs: NOW + 50, readyAtMs: NOW + 50 });
    expect(moved(retime(ahead, NOW, NOW)).readyAtMs).toBe(NOW + 50);
    expect(moved(retime(ahead, NOW + 77, NOW)).firstReadyAtMs).toBe(NOW + 50);
  });

  it('lets a job whose time has passed unnoticed keep the age that its promotion would give it', () => {
    const given = job('scheduled', { runAtMs: EARLIER, readyAtMs: EARLIER });
    expect(moved(retime(given, NOW, NOW)).readyAtMs).toBe(moved(promote(given, NOW)).readyAtMs);
  });

  it('leaves a job that was moved away and back as old as its new time says', () => {
    const away = moved(retime(job('pending', { readyAtMs: EARLIER }), NOW + 5_000, NOW));
    expect(moved(retime(away, EARLIER, NOW + 10)).readyAtMs).toBe(NOW + 10);
    expect(moved(retime(away, NOW + 20, NOW + 10)).readyAtMs).toBe(NOW + 20);
  });

  it('makes the promotion to an older time, and the claim of an older version, lose', () => {
    const later = moved(retime(job('scheduled'), NOW + 77, NOW));
    expect(promote(later, NOW).kind).toBe('refused');
    const back = moved(retime(moved(retime(job('pending'), NOW + 77, NOW)), NOW, NOW));
    expect(claim(back, CLAIM, job('pending').version).kind).toBe('refused');
  });

  it('keeps what an earlier attempt left behind: it is still to be settled', () => {
    const given = job('scheduled', {
      claim: CLAIM,
      worker: WORKER,
      startedAtMs: 5,
      finishedAtMs: 6,
      error: ERROR,
    });
    for (const runAtMs of [NOW, NOW + 77]) {
      expect(moved(retime(given, runAtMs, NOW))).toMatchObject({
        claim: CLAIM,
        worker: WORKER,
        startedAtMs: 5,
        finishedAtMs: 6,
        error: ERROR,
        attempt: 2,
      });
    }
  });

  it.each(['claimed', 'running', 'succeeded', 'failed', 'cancelled'] as const)(
    'refuses a %s job, whatever the time',
    (state) => {
      for (const runAtMs of [0, NOW, NOW + 77]) {
        expect(retime(job(state), runAtMs, NOW)).toMatchObject({
          kind: 'refused',
          refusal: { kind: 'illegal', from: state },
        });
      }
    },
  );
});

describe('cancel', () => {
  it('says when, and makes the claim worth nothing', () => {
    const cancelled = moved(cancel(job('claimed'), NOW));
    expect(cancelled).toEqual({
      ...job('claimed'),
      state: 'cancelled',
      version: 8,
      finishedAtMs: NOW,
      cancelRequestedAtMs: NOW,
      cancelRequestedIn: 'claimed',
    });
    expect(start(cancelled, CLAIM.claimId, WORKER, NOW).kind).toBe('refused');
  });

  it('still says what the last attempt used of a job that waits for its next one', () => {
    expect(moved(cancel(job('scheduled', { finishedAtMs: NOW - 9 }), NOW)).finishedAtMs).toBe(NOW - 9);
  });
});

describe('askForEnd', () => {
  it('notes the first instant, and is no transition', () => {
    const asked = askForEnd(job('running'), NOW, 'ann');
    expect(asked).toEqual({
      ...job('running'),
      cancelRequestedAtMs: NOW,
      cancelRequestedIn: 'running',
      cancelRequestedBy: 'ann',
    });
    expect(askForEnd(asked, NOW + 1, 'bob')).toBe(asked);
  });
});

describe('any sequence of transitions', () => {
  it('walks along legal edges only, raises the version by one each time, and ends at most once', () => {
    const names = Object.keys(TRANSITIONS);
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...names), { maxLength: 40 }), (script) => {
        let current = job('scheduled');
        let ends = 0;
        for (const name of script) {
          const transition = TRANSITIONS[name]?.apply(current);
          if (transition?.kind !== 'moved') continue;
          expect(EDGES[current.state]).toContain(transition.job.state);
          expect(transition.job.version).toBe(current.version + 1);
          current = transition.job;
          if (isTerminal(current.state)) ends += 1;
        }
        expect(ends).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe('what a transition writes down', () => {
  const entriesOf = ({ history }: Job): readonly unknown[] | undefined => history?.entries;
  const attempt = {
    kind: 'attempt',
    attempt: 2,
    claimId: CLAIM.claimId,
    fleet: 'pdf',
    claimedAtMs: NOW - 500,
    workerId: 'w1',
    startedAtMs: NOW - 100,
    endedAtMs: NOW,
  };
  const RETRY: Verdict = { kind: 'retry', error: ERROR, runAtMs: NOW + 9_000 };
  const ended = (from: Job, verdict: Verdict): Job =>
    moved(finish(from, CLAIM.claimId, WORKER, verdict, NOW));
  const lost = (from: Job, verdict: Verdict): Job => moved(loseWorker(from, CLAIM.claimId, verdict, NOW));

  it('of a start is until when it runs, where that is known', () => {
    const started = start(job('claimed'), CLAIM.claimId, WORKER, NOW, NOW + 60_000);
    expect(moved(started).runUntilMs).toBe(NOW + 60_000);
    expect(moved(start(job('claimed'), CLAIM.claimId, WORKER, NOW))).not.toHaveProperty('runUntilMs');
  });

  it('of a claim that is given back is the claim, which the job has no more', () => {
    const back = moved(giveBack(job('claimed'), CLAIM.claimId, NOW));
    expect(back).toMatchObject({ state: 'pending', version: 8 });
    expect(back).not.toHaveProperty('claim');
    expect(entriesOf(back)).toEqual([{ kind: 'givenBack', atMs: NOW, claimId: CLAIM.claimId, fleet: 'pdf' }]);
    expect(giveBack(job('claimed'), '9.z.9', NOW)).toEqual({
      kind: 'refused',
      refusal: { kind: 'superseded', holder: CLAIM.claimId, asked: '9.z.9' },
    });
    const { claim: _, ...bare } = job('claimed');
    expect(giveBack(bare as Job, CLAIM.claimId, NOW)).toMatchObject({ refusal: { holder: undefined } });
  });

  it('of a place that was given up is its claim, and nothing where none is named', () => {
    const raised = moved(raiseVersion(job('pending'), 7, { claimId: '3.b.1', atMs: NOW }));
    expect(entriesOf(raised)).toEqual([{ kind: 'notClaimed', atMs: NOW, claimId: '3.b.1' }]);
    expect(moved(raiseVersion(job('pending'), 7))).not.toHaveProperty('history');
  });

  it('of a move is from when to when, and who moved it; nothing where the time is the same', () => {
    const at = job('scheduled', { runAtMs: NOW + 5_000, readyAtMs: NOW + 5_000 });
    expect(entriesOf(moved(retime(at, NOW + 7_000, NOW, 'ann')))).toEqual([
      { kind: 'moved', atMs: NOW, by: 'ann', fromMs: NOW + 5_000, toMs: NOW + 7_000 },
    ]);
    expect(moved(retime(at, NOW + 5_000, NOW, 'ann'))).not.toHaveProperty('history');
  });

  it('of a request to end is who asked, where that is known', () => {
    expect(moved(cancel(job('pending'), NOW, 'ann'))).toMatchObject({ cancelRequestedBy: 'ann' });
    expect(moved(cancel(job('pending'), NOW))).not.toHaveProperty('cancelRequestedBy');
  });

  it.each<readonly [string, () => Job, object | undefined]>([
    [
      'a retry',
      () => ended(job('running'), RETRY),
      { outcome: 'failed', error: ERROR, next: { runAtMs: NOW + 9_000, isFromStart: false } },
    ],
    [
      'a retry that begins anew',
      () => ended(job('running'), { ...RETRY, isFromStart: true }),
      { outcome: 'failed', error: ERROR, next: { runAtMs: NOW + 9_000, isFromStart: true } },
    ],
    [
      'a retry that nobody wants',
      () => ended(job('running', { cancelRequestedAtMs: NOW - 50 }), RETRY),
      { outcome: 'failed', error: ERROR },
    ],
    [
      'a lost worker',
      () => lost(job('running'), RETRY),
      { outcome: 'lost', error: ERROR, next: { runAtMs: NOW + 9_000, isFromStart: false } },
    ],
    [
      'the last lost worker',
      () => lost(job('running'), { kind: 'failed', error: ERROR }),
      { outcome: 'lost', error: ERROR },
    ],
    ['a success', () => ended(job('running'), { kind: 'succeeded', result: null }), undefined],
    ['a failure for good', () => ended(job('running'), { kind: 'failed', error: ERROR }), undefined],
    ['a cancellation', () => ended(job('running'), { kind: 'cancelled' }), undefined],
  ])('of the end of an attempt by %s', (_, end, entry) => {
    const after = end();
    if (entry === undefined) expect(after).not.toHaveProperty('history');
    else expect(entriesOf(after)).toEqual([{ ...attempt, ...entry }]);
  });

  it('stays when a later attempt ends for good', () => {
    const { history } = ended(job('running'), RETRY);
    for (const verdict of VERDICTS.filter(({ kind }) => kind !== 'retry')) {
      expect(ended({ ...job('running'), history }, verdict).history).toEqual(history);
    }
  });

  it.each([
    { worker: WORKER },
    { startedAtMs: NOW - 100 },
    { finishedAtMs: NOW - 50 },
    { worker: WORKER, startedAtMs: NOW - 100, finishedAtMs: NOW - 50, runUntilMs: NOW, progress: 1 },
  ])('of a claim is nothing of the attempt before: %j', (before) => {
    const again = moved(claim(job('pending', before), CLAIM, 7));
    expect(again).toEqual(job('pending', { state: 'claimed', version: 8, claim: CLAIM }));
  });

  it('of a success is no error of an attempt before', () => {
    const after = ended(job('running', { error: ERROR }), { kind: 'succeeded', result: 1 });
    expect(after).not.toHaveProperty('error');
    expect(after.result).toBe(1);
  });
});

describe('whether a waiting job may have been begun', () => {
  const again: Verdict = { kind: 'retry', error: ERROR, runAtMs: NOW };
  const runs = (given: Job): Job =>
    moved(start(moved(claim(given, CLAIM, given.version)), CLAIM.claimId, WORKER, NOW));
  const waits = job('pending', { version: FIRST_VERSION });

  it('is denied of one that was stored, or whose time came', () => {
    expect(mayHaveBegun(waits)).toBe(false);
    const scheduled = job('scheduled', { version: FIRST_VERSION, runAtMs: NOW });
    expect(mayHaveBegun(moved(promote(scheduled, NOW)))).toBe(false);
  });

  it('is said of each that failed, or lost its worker', () => {
    const failed = moved(finish(runs(waits), CLAIM.claimId, WORKER, again, NOW));
    expect(mayHaveBegun(failed)).toBe(true);
    const lost = moved(loseWorker(runs(waits), CLAIM.claimId, again, NOW));
    expect(mayHaveBegun(lost)).toBe(true);
  });
});
