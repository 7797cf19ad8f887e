import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isBegun } from '../../lib/core/dedupe.ts';
import { type Claim, isTerminal, type Job, type JobState } from '../../lib/core/job.ts';
import {
  cancel,
  claim,
  claimAndStart,
  claimPlanned,
  EDGES,
  endUnfinished,
  expire,
  FIRST_VERSION,
  finish,
  giveBack,
  initialState,
  isLegal,
  isWaiting,
  mayHaveRun,
  promote,
  raiseVersion,
  rehome,
  requestCancel,
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
    apply: (given) => endUnfinished(given, CLAIM.claimId, { kind: 'failed', error: ERROR }, NOW),
  },
  loseAndRetry: {
    to: 'scheduled',
    from: ['running'],
    apply: (given) => endUnfinished(given, CLAIM.claimId, { kind: 'retry', error: ERROR, runAtMs: NOW }, NOW),
  },
  retime: {
    to: 'scheduled',
    from: ['scheduled', 'pending'],
    apply: (given) => retime(given, NOW + 1, NOW),
  },
  changePriority: {
    to: 'scheduled',
    from: ['scheduled', 'pending'],
    apply: (given) => retime(given, given.runAtMs, given.runAtMs - 1, undefined, 9),
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
  expire: {
    to: 'expired',
    from: ['scheduled', 'pending', 'claimed'],
    apply: (given) => expire({ ...given, expireAtMs: NOW }, NOW),
  },
};

describe('the table of edges', () => {
  it('is exactly the documented one', () => {
    expect(EDGES).toEqual({
      scheduled: ['scheduled', 'pending', 'cancelled', 'expired'],
      pending: ['pending', 'scheduled', 'claimed', 'cancelled', 'expired'],
      claimed: ['pending', 'running', 'cancelled', 'expired'],
      running: ['succeeded', 'failed', 'scheduled', 'cancelled'],
      succeeded: [],
      failed: [],
      cancelled: [],
      expired: [],
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

describe.each(Object.entries(TRANSITIONS))('%s', (name, { to, from, apply }) => {
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
      const { id, type, mode, fairnessKey, payload, contentHash, submittedAtMs, partition } = given;
      expect(moved(apply(given))).toMatchObject({
        id,
        type,
        priority: name === 'changePriority' ? 9 : given.priority,
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

  it('forgets with a success why attempts before it failed', () => {
    const again = job('running', { error: ERROR });
    const done = moved(finish(again, CLAIM.claimId, WORKER, { kind: 'succeeded', result: 1 }, NOW));
    expect(done).not.toHaveProperty('error');
  });
});

describe('retime', () => {
  it.each([
    ['failed before', { firstReadyAtMs: NOW - 9_000, readyAtMs: NOW + 5, runAtMs: NOW + 5 }, NOW - 9_000],
    ['has lost its worker', { readyAtMs: NOW - 9_000, runAtMs: NOW + 5 }, NOW - 9_000],
    ['has been due unnoticed', { readyAtMs: NOW, runAtMs: NOW }, NOW],
    ['was never ready', { readyAtMs: NOW + 5, runAtMs: NOW + 5 }, undefined],
  ])('of a scheduled job that %s remembers since when it was ready', (_, changes, firstReadyAtMs) => {
    const later = moved(retime(job('scheduled', changes), NOW + 77, NOW));
    expect([later.readyAtMs, later.firstReadyAtMs]).toEqual([NOW + 77, firstReadyAtMs]);
  });

  it.each([
    ['pending', { readyAtMs: NOW - 9_000, runAtMs: NOW - 9_000 }, 'scheduled'],
    ['pending', { readyAtMs: NOW + 5, runAtMs: NOW + 5 }, 'scheduled'],
    ['scheduled', { readyAtMs: NOW + 5, runAtMs: NOW + 5 }, 'scheduled'],
    ['scheduled', { readyAtMs: NOW - 9_000, runAtMs: NOW + 5 }, 'scheduled'],
    ['scheduled', { readyAtMs: NOW - 5, runAtMs: NOW - 5 }, 'pending'],
  ] as const)('of a %s job %j with another priority keeps its time and its age', (state, times, to) => {
    const given = job(state, times);
    const changed = moved(retime(given, given.runAtMs, NOW, 'ann', 9));
    expect(changed).toEqual({
      ...given,
      state: to,
      version: given.version + 1,
      priority: 9,
      history: expect.objectContaining({
        entries: [{ kind: 'priority', atMs: NOW, by: 'ann', from: given.priority, to: 9 }],
      }),
    });
  });

  it('with the priority that a job has notes nothing, and leaves it in its line', () => {
    const given = job('pending');
    const same = moved(retime(given, given.runAtMs, NOW, 'ann', given.priority));
    expect(same).toEqual({ ...given, version: given.version + 1 });
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
});

describe('claim', () => {
  it.each([
    { worker: WORKER },
    { startedAtMs: NOW - 100 },
    { finishedAtMs: NOW - 50 },
    { worker: WORKER, startedAtMs: NOW - 100, finishedAtMs: NOW - 50, runUntilMs: NOW, progress: 1 },
  ])('forgets the attempt before: %j', (before) => {
    const again = moved(claim(job('pending', before), CLAIM, 7));
    expect(again).toEqual(job('pending', { state: 'claimed', version: 8, claim: CLAIM }));
  });
});

describe('a job that must start before an instant', () => {
  const claimed = job('claimed', { expireAtMs: NOW });

  it('starts before that instant, and may then take any time', () => {
    const started = moved(start(claimed, CLAIM.claimId, WORKER, NOW - 1));
    expect(started.expireAtMs).toBeUndefined();
    const retried = moved(
      finish(started, CLAIM.claimId, WORKER, { kind: 'retry', error: ERROR, runAtMs: NOW + 1 }, NOW),
    );
    expect(expire(retried, NOW + 1_000)).toMatchObject({ kind: 'refused' });
  });

  it('neither starts from then on, nor ends before', () => {
    expect(start(claimed, CLAIM.claimId, WORKER, NOW)).toEqual({
      kind: 'refused',
      refusal: { kind: 'late', expireAtMs: NOW, nowMs: NOW },
    });
    expect(expire(claimed, NOW - 1)).toMatchObject({ kind: 'refused' });
    expect(moved(expire(claimed, NOW))).toMatchObject({ state: 'expired', finishedAtMs: NOW });
  });

  it('has as long after another time as after its first', () => {
    const given = job('pending', { expireAtMs: NOW + 1_000 });
    const leftMs = 1_000 + NOW - given.readyAtMs;
    for (const runAtMs of [NOW - 1, NOW, NOW + 1, NOW + 50_000]) {
      const { expireAtMs = 0, readyAtMs } = moved(retime(given, runAtMs, NOW));
      expect(expireAtMs - readyAtMs).toBe(leftMs);
    }
  });
});

describe('requestCancel', () => {
  it('notes the first instant, and is no transition', () => {
    const asked = requestCancel(job('running'), NOW, 'ann');
    expect(asked).toEqual({
      ...job('running'),
      cancelRequestedAtMs: NOW,
      cancelRequestedIn: 'running',
      cancelRequestedBy: 'ann',
    });
    expect(requestCancel(asked, NOW + 1, 'bob')).toBe(asked);
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

describe('whether a waiting job may have been begun', () => {
  const again: Verdict = { kind: 'retry', error: ERROR, runAtMs: NOW };
  const runs = (given: Job): Job =>
    moved(start(moved(claim(given, CLAIM, given.version)), CLAIM.claimId, WORKER, NOW));
  const waits = job('pending', { version: FIRST_VERSION });

  it('is denied of one that was stored, or whose time came', () => {
    expect(mayHaveRun(waits)).toBe(false);
    const scheduled = job('scheduled', { version: FIRST_VERSION, runAtMs: NOW });
    expect(mayHaveRun(moved(promote(scheduled, NOW)))).toBe(false);
  });

  it('is said of each that failed, or lost its worker', () => {
    const failed = moved(finish(runs(waits), CLAIM.claimId, WORKER, again, NOW));
    expect(mayHaveRun(failed)).toBe(true);
    const lost = moved(endUnfinished(runs(waits), CLAIM.claimId, again, NOW));
    expect(mayHaveRun(lost)).toBe(true);
  });
});

it('keeps that a job has run, also once a later claim of it was given back', () => {
  const released: Verdict = {
    kind: 'retry',
    error: { name: 'WorkerStopped', message: 'it ended' },
    runAtMs: NOW,
  };
  const again: Claim = { ...CLAIM, claimId: 'c.0', batchId: 'c' };
  const steps: readonly ((job: Job) => Transition)[] = [
    (each) => endUnfinished(each, CLAIM.claimId, released, NOW, 'released'),
    (each) => promote(each, NOW),
    (each) => claim(each, again, each.version),
    (each) => giveBack(each, again.claimId, NOW),
  ];
  const fresh = { attempt: 1, workersLost: 0 };
  const waiting = steps.reduce((each, step) => moved(step(each)), job('running', fresh));
  expect(waiting).toMatchObject({ state: 'pending', attempt: 1, workersLost: 0 });
  expect(waiting).not.toHaveProperty('startedAtMs');
  expect(isBegun(waiting)).toBe(true);
  expect(isBegun(job('pending', fresh))).toBe(false);
});
