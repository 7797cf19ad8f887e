import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { SCORE_DEFAULTS } from '../../lib/core/defaults.ts';
import type { WaitingJob } from '../../lib/core/job.ts';
import { createPlanner, type OfferedKey, type Planner } from '../../lib/core/planner.ts';
import type { Decision } from '../../lib/core/scheduler.ts';
import { drain, Index, planned, plannerOf, runPass, schedulerOf, stepsOf } from './plans.ts';
import { FEWER_RUNS, NOW_MS, passStates, pools, RUNS } from './random-pass.ts';
import { type PassState, referencePlan, referenceScore } from './reference-planner.ts';

/** The job as it waited. */
function waitedAs({ reserved }: Decision, state: PassState): WaitingJob {
  const job = state.waiting.find((other) => other.id === reserved.id);
  if (job === undefined) throw new Error(`${reserved.id} did not wait`);
  return job;
}

/** Of a plan for one slot: 2,000, and as many as it may meet blocked jobs. */
const KEYS_MAX = 2_000 + (2 * 1 + 64);

// A property of 10,000 runs takes seconds, and more on a busy machine.
vi.setConfig({ testTimeout: 120_000 });

describe('the plan', () => {
  it('is the one that scoring and sorting the whole backlog makes, from memory and from the heads of lines', () => {
    fc.assert(
      fc.property(passStates(), (state) => {
        const expected = referencePlan(state);
        expect(drain(schedulerOf(state)).map(planned)).toEqual(expected);
        const { decisions, done } = runPass(state);
        expect(done.truncated).toBe(false);
        expect(decisions.map(planned)).toEqual(expected);
      }),
      { numRuns: RUNS },
    );
  });

  it('gives its reasons: the score with its parts, the key cost before the charge, what was passed over', () => {
    fc.assert(
      fc.property(passStates(), (state) => {
        const costs = new Map(state.settledCostMs);
        const charge = (key: string, costMs: number): void => {
          costs.set(key, (costs.get(key) ?? 0) + costMs);
        };
        for (const job of state.inFlight) charge(job.fairnessKey, job.estimatedCostMs);
        for (const decision of runPass(state).decisions) {
          const { reserved, reasons } = decision;
          const job = waitedAs(decision, state);
          const { priority, age, rarity, onDemand, total } = reasons.score;
          expect(total).toBeCloseTo(priority + age + rarity + onDemand, 6);
          expect(total).toBeCloseTo(referenceScore(job, state, 0) / 1000 + rarity, 6);
          expect(reasons.keyCostMs).toBe(costs.get(reserved.fairnessKey) ?? 0);
          charge(reserved.fairnessKey, reserved.estimatedCostMs);
          expect(reserved).toMatchObject({ version: job.version, attempt: job.attempt });
          expect(decision.mode).toBe(job.mode);
          for (const skip of reasons.skipped) {
            if (skip.kind === 'job') expect(state.waiting.map((other) => other.id)).toContain(skip.id);
          }
        }
      }),
      { numRuns: FEWER_RUNS },
    );
  });
});

/** Keys beyond the room whose lines are asked for at once, where they tie or those before them were empty. */
const KEYS_AHEAD = 100;

describe('a planner that reads heads', () => {
  it('never asks for more heads than its bound: 2 F + L + 2 (A + S)', () => {
    fc.assert(
      fc.property(passStates(60), (state) => {
        const { planner, decisions, linesAsked, done } = runPass(state);
        const free = schedulerOf({ ...state, waiting: [] }).room;
        const blocked = done.blocked.length;
        expect(planner.headsRequested).toBeLessThanOrEqual(
          2 * free + linesAsked + 2 * (decisions.length + blocked),
        );
      }),
      { numRuns: FEWER_RUNS },
    );
  });

  it('asks in one trip for the keys of all types that are open and were not read, as many as have room', () => {
    const state = oneLine(1, 9);
    const [type] = state.configuration.types;
    if (type === undefined) throw new Error('there is a type');
    const tiers = [
      { tier: 'top', maxConcurrency: 3, guaranteed: 0 },
      { tier: 'full', maxConcurrency: 0, guaranteed: 0 },
      { tier: 'middle', maxConcurrency: null, guaranteed: 0 },
      { tier: 'shut', maxConcurrency: null, guaranteed: 0 },
      { tier: 'low', maxConcurrency: 20, guaranteed: 0 },
    ];
    const types = [
      ...tiers.map(({ tier }) => ({ ...type, type: tier, tier, maxConcurrency: tier === 'shut' ? 0 : null })),
      { ...type, tier: 'top' },
    ];
    const fleets = [{ fleet: 'all', types: types.map((each) => each.type), slots: null }];
    const planner = plannerOf({ ...state, configuration: { ...state.configuration, tiers, types, fleets } });
    expect(planner.next()).toEqual({
      kind: 'need',
      lines: [],
      keys: [
        { type: 'top', count: 3 },
        { type: 'middle', count: 9 },
        { type: 'low', count: 9 },
        { type: 'a', count: 3 },
      ],
    });
    for (const open of ['top', 'a']) planner.offerKeys(open, [], false);
    planner.offerKeys('middle', [], true);
    planner.offerKeys('low', [], true);
    // Those were read: only what is needed is asked for from now on.
    expect(planner.next()).toEqual({ kind: 'need', lines: [], keys: [{ type: 'middle', count: 9 }] });
    planner.offerKeys('middle', [], false);
    expect(planner.next()).toEqual({ kind: 'need', lines: [], keys: [{ type: 'low', count: 9 }] });
  });

  it('asks for the heads of the cheapest keys, each line at least once, together twice what is free', () => {
    const state = oneLine(0, 3);
    const planner = plannerOf(state);
    const lineOf = (fairnessKey: string, mode: 'queued' | 'onDemand' = 'queued') => ({
      type: 'a',
      mode,
      fairnessKey,
    });
    planner.offerKeys(
      'a',
      [
        { fairnessKey: 'd', settledCostMs: 4, modes: ['queued'] },
        { fairnessKey: 'b', settledCostMs: 2, modes: ['queued'] },
        { fairnessKey: 'c', settledCostMs: 3, modes: ['queued'] },
        { fairnessKey: 'a', settledCostMs: 1, modes: ['queued', 'onDemand'] },
      ],
      false,
    );
    // Three may start: d is not looked at. Six heads for four lines.
    expect(planner.next()).toEqual({
      kind: 'need',
      keys: [],
      lines: ['a', 'a', 'b', 'c'].map((key, index) => ({
        line: lineOf(key, index === 1 ? 'onDemand' : 'queued'),
        count: 1,
      })),
    });
    for (const key of ['a', 'b', 'c']) planner.offerHeads(lineOf(key), [], key === 'a');
    planner.offerHeads(lineOf('a', 'onDemand'), [], false);
    // What was asked of a is asked again; d is new, and two first heads are left.
    expect(planner.next()).toEqual({
      kind: 'need',
      keys: [],
      lines: [
        { line: lineOf('a'), count: 1 },
        { line: lineOf('d'), count: 2 },
      ],
    });
    planner.offerHeads(lineOf('d'), [], false);
    planner.offerHeads(lineOf('a'), [], true);
    expect(planner.next()).toMatchObject({ lines: [{ line: lineOf('a'), count: 2 }] });
    planner.offerHeads(lineOf('a'), [], true);
    expect(planner.next()).toMatchObject({ lines: [{ line: lineOf('a'), count: 4 }] });
    planner.offerHeads(lineOf('a'), [], true);
    expect(planner.headsRequested).toBe(4 + 3 + 2 + 4);
    planner.offerHeads(lineOf('a'), [], false);
    expect(planner.next()).toEqual({ kind: 'done', blocked: [], truncated: false });
  });

  it('asks for no keys of a tier whose types have no slot, no room or a pause', () => {
    const state = oneLine(10, 3);
    const paused = { ...state, overrides: [{ scope: 'type/a', paused: true }] };
    const step = plannerOf(paused).next();
    expect(step).toEqual({ kind: 'done', blocked: [], truncated: false });
  });

  it('reports the jobs it met whose conflict key is held, so that they can be parked', () => {
    const state = oneLine(4, 3, 'same');
    const { decisions, done } = runPass(state);
    expect(decisions.map((decision) => decision.reserved.id)).toEqual(['job0000']);
    expect(done.blocked.map(({ job, conflictKey }) => [job.id, conflictKey])).toEqual([
      ['job0001', 'g/same'],
      ['job0002', 'g/same'],
      ['job0003', 'g/same'],
    ]);
  });

  it('admits nothing with a conflict key that a job of another partition holds', () => {
    const state = oneLine(2, 2, 'same');
    const planner = plannerOf(state);
    const line = { type: 'a', mode: 'queued', fairnessKey: 'k1' } as const;
    const free = state.waiting.map((job) => ({ ...job, id: `${job.id}b`, resourceId: 'other' })).slice(0, 1);
    planner.closeConflict('g/same');
    planner.offerKeys('a', [{ fairnessKey: 'k1', modes: ['queued'] }], false);
    planner.offerHeads(line, [...state.waiting, ...free], false);
    expect(planner.next()).toMatchObject({ kind: 'admit', decision: { reserved: { id: 'job0000b' } } });
    expect(planner.next()).toMatchObject({
      kind: 'done',
      blocked: [{ conflictKey: 'g/same' }, { conflictKey: 'g/same' }],
    });
  });

  it('ends truncated when it has met 2 F + 64 blocked jobs', () => {
    const { decisions, done, planner } = runPass(oneLine(1_000, 3, 'same'));
    expect(decisions.length).toBe(1);
    expect(done.truncated).toBe(true);
    expect(done.blocked.length).toBeGreaterThanOrEqual(2 * 3 + 64);
    expect(done.blocked.length).toBeLessThan(3 * (2 * 3 + 64));
    // The last request is for what may still be met, and twice what is free.
    expect(planner.headsRequested).toBe(6 + 6 + 12 + 24 + (2 * 2 + 70 - 47));
  });

  it('gives back what a lost claim held, and takes the next', () => {
    fc.assert(
      fc.property(passStates(), fc.infiniteStream(fc.boolean()), (state, losses) => {
        const planner = plannerOf(state);
        const index = new Index(state);
        const lost = new Set<string>();
        const won: string[] = [];
        let inARow = 0;
        const next = stepsOf(planner);
        for (;;) {
          const step = next();
          if (step.kind === 'done') break;
          if (step.kind === 'need') {
            index.serve(planner, step);
            continue;
          }
          const { id } = step.decision.reserved;
          if (losses.next().value === true) {
            lost.add(id);
            planner.dropped(step.decision);
            inARow += 1;
            if (inARow === 6) index.rewind();
            inARow %= 6;
          } else {
            won.push(id);
            planner.kept(step.decision);
            inARow = 0;
          }
        }
        // As if the lost jobs had never been there, as long as rarity is not taken anew.
        if (lost.size < 6) {
          const without = { ...state, waiting: state.waiting.filter((job) => !lost.has(job.id)) };
          expect([...won].sort()).toEqual(
            referencePlan(without)
              .map((plan) => plan.id)
              .sort(),
          );
        }
        const wonSet = new Set(won);
        expect(wonSet.size).toBe(won.length);
        for (const id of lost) expect(wonSet.has(id)).toBe(false);
      }),
      { numRuns: FEWER_RUNS },
    );
  });

  it.each([
    ['the sixth loss in a row, not after the fifth', undefined, 5],
    ['the first, where the pool allows none', 0, 0],
    ['the third, where the pool allows two', 2, 2],
  ])('reads all heads again after %s', (_, lostClaimsInARow, most) => {
    const plain = oneLine(40, 10);
    const state = { ...plain, configuration: { ...plain.configuration, lostClaimsInARow } };
    const planner = plannerOf(state);
    const index = new Index(state);
    let losses = 0;
    const asked: number[] = [];
    const next = stepsOf(planner);
    while (losses < most + 2) {
      const step = next();
      if (step.kind === 'need') {
        if (step.lines.length > 0) asked.push(losses);
        index.serve(planner, step);
      }
      if (step.kind === 'done') break;
      if (step.kind === 'admit') {
        losses += 1;
        if (losses % (most + 1) === 0) index.rewind();
        planner.dropped(step.decision);
      }
    }
    expect(asked.slice(0, 2)).toEqual([0, most + 1]);
  });

  it('ignores what a lagging index still shows: jobs in flight, planned or lost', () => {
    const state = oneLine(3, 3);
    const running = state.waiting[0];
    if (running === undefined) throw new Error('there is a first job');
    const planner = plannerOf({
      ...state,
      inFlight: [{ ...running, tier: 'top', fleet: 'all', estimatedCostMs: 1 }],
    });
    const line = { type: 'a', mode: 'queued', fairnessKey: 'k1' } as const;
    planner.offerKeys('a', [{ fairnessKey: 'k1', settledCostMs: 0, modes: ['queued'] }], false);
    planner.offerHeads(line, state.waiting, true);
    const first = planner.next();
    expect(first).toMatchObject({ kind: 'admit', decision: { reserved: { id: 'job0001' } } });
    planner.offerHeads(line, state.waiting, false);
    expect(planner.next()).toMatchObject({ kind: 'admit', decision: { reserved: { id: 'job0002' } } });
    if (first.kind === 'admit') planner.dropped(first.decision);
    planner.offerHeads(line, state.waiting, false);
    expect(planner.next()).toEqual({ kind: 'done', blocked: [], truncated: false });
  });

  it.each([
    ['as it was offered', false],
    ['also once all heads were asked for anew', true],
  ])('takes a decision back, and its job waits as before: %s', (_, isAnew) => {
    const state = oneLine(8, 8);
    const line = { type: 'a', mode: 'queued', fairnessKey: 'k1' } as const;
    const planner = plannerOf(state);
    planner.offerKeys('a', [{ fairnessKey: 'k1', settledCostMs: 0, modes: ['queued'] }], false);
    planner.offerHeads(line, state.waiting, false);
    const decisions = state.waiting.map(() => {
      const step = planner.next();
      if (step.kind !== 'admit') throw new Error('eight jobs are free');
      return step.decision;
    });
    const [first, ...others] = decisions as [Decision, ...Decision[]];
    const { room } = planner;
    // Since then it was read once more.
    const newer = { ...(state.waiting[0] as WaitingJob), version: 9 };
    planner.offerHeads(line, [newer, ...state.waiting], false);
    if (isAnew) {
      expect(others.slice(0, 6).map((each) => planner.dropped(each))).toContain(true);
      planner.offerHeads(line, [], false);
    }
    expect(planner.jobOf(first)).toEqual(newer);
    planner.undo(first);
    expect(planner.room).toBe(room + 1 + (isAnew ? 6 : 0));
    const again = planner.next();
    expect(again).toMatchObject({
      kind: 'admit',
      decision: { reserved: { id: first.reserved.id, version: 9 } },
    });
    expect(planner.next().kind).toBe('done');
  });

  it('takes back what it raised beside a start that was dropped, as if that job had never been there', () => {
    const plain = oneLine(3, 3);
    const [type] = plain.configuration.types;
    const [first, ofSameKey, ofAnother] = plain.waiting;
    if (!(type && first && ofSameKey && ofAnother))
      throw new Error('there is a type, and there are three jobs');
    const state: PassState = {
      ...plain,
      configuration: {
        ...plain.configuration,
        types: [type, { ...type, type: 'b', tier: 'low' }],
        tiers: [...plain.configuration.tiers, { tier: 'low', maxConcurrency: null, guaranteed: 0 }],
        fleets: [{ fleet: 'all', types: ['a', 'b'], slots: null }],
        fairness: { ...plain.configuration.fairness, defaultWeight: 1, weights: {}, idlePolicy: 'advance' },
      },
      settledCostMs: new Map([['k1', 1_000]]),
      waiting: [first, { ...ofSameKey, type: 'b' }, { ...ofAnother, type: 'b', fairnessKey: 'k2' }],
    };
    const raised = (isDropped: boolean): number | undefined => {
      const planner = plannerOf(state);
      const index = new Index(state);
      const next = stepsOf(planner);
      const decisions: Decision[] = [];
      for (let step = next(); decisions.length < 2; step = next()) {
        if (step.kind === 'need') index.serve(planner, step);
        if (step.kind === 'admit') decisions.push(step.decision);
        if (step.kind === 'done') throw new Error('two jobs may start');
      }
      expect(decisions[0]?.reserved.id).toBe(first.id);
      if (isDropped) planner.dropped(decisions[0] as Decision);
      return planner.takeRaised().find(({ fairnessKey }) => fairnessKey === 'k2')?.settledCostMs;
    };
    // k1 has started, so k2 starts beside it and not before it.
    expect(raised(false)).toBeGreaterThan(1_000);
    expect(raised(true)).toBeUndefined();
  });

  it('gives a fleet that is not named no slot, and a job of an unknown type no place', () => {
    const state = oneLine(1, 1);
    const line = { type: 'a', mode: 'queued', fairnessKey: 'k1' } as const;
    const planner = plannerOf(state);
    planner.offerKeys('a', [{ fairnessKey: 'k1', modes: ['queued'] }], false);
    const strange = state.waiting.map((job) => ({ ...job, type: 'nothing' }));
    planner.offerHeads(line, strange, false);
    expect(planner.next()).toEqual({ kind: 'done', blocked: [], truncated: false });
    const nowhere = plannerOf({ ...state, freeSlotsByFleet: new Map() });
    expect(nowhere.next()).toEqual({ kind: 'done', blocked: [], truncated: false });
  });

  it('asks for keys in pages, and gives up after 2,000 and as many as it may meet blocked jobs', () => {
    const planner = plannerOf(oneLine(0, 1));
    let keys = 0;
    const next = stepsOf(planner);
    for (;;) {
      const step = next();
      if (step.kind !== 'need') {
        expect(step).toEqual({ kind: 'done', blocked: [], truncated: true });
        break;
      }
      keys += 1;
      planner.offerKeys('a', [{ fairnessKey: `key${keys}`, settledCostMs: keys, modes: [] }], true);
    }
    expect(keys).toBe(KEYS_MAX);
  });

  it('ends before it passes over what it has not read, once it has met as many blocked jobs as it may', () => {
    const state = oneLine(12, 2, 'same');
    const line = { type: 'a', mode: 'queued', fairnessKey: 'k1' } as const;
    const planner = createPlanner(state.configuration, { ...state, blockedMax: 10, blockedPerConflict: 1 });
    planner.closeConflict('g/same');
    planner.offerKeys(
      'a',
      [
        { fairnessKey: 'k1', settledCostMs: 0, modes: ['queued'] },
        { fairnessKey: 'k2', settledCostMs: 9, modes: ['queued'] },
      ],
      false,
    );
    const other = { ...line, fairnessKey: 'k2' };
    planner.offerHeads(
      other,
      [{ ...(state.waiting[0] as WaitingJob), id: 'x', fairnessKey: 'k2', resourceId: 'y' }],
      false,
    );
    planner.offerHeads(line, state.waiting.slice(0, 11), true);
    expect(planner.next()).toMatchObject({ kind: 'done', truncated: true, blocked: { length: 11 } });
  });

  it.each([
    (planner: Planner) => planner.closeConflict('g/same'),
    (planner: Planner) => planner.holdConflict('g/same', 1),
  ])('may meet more blocked jobs for each conflict key that jobs elsewhere hold (%#)', (holdElsewhere) => {
    const state = oneLine(3, 2, 'same');
    const line = { type: 'a', mode: 'queued', fairnessKey: 'k1' } as const;
    const planner = createPlanner(state.configuration, { ...state, blockedMax: 1, blockedPerConflict: 1 });
    holdElsewhere(planner);
    planner.offerKeys('a', [{ fairnessKey: 'k1', modes: ['queued'] }], false);
    planner.offerHeads(line, state.waiting.slice(0, 1), true);
    expect(planner.next()).toMatchObject({ kind: 'need', lines: [{ line, count: 1 }] });
    planner.offerHeads(line, state.waiting.slice(1, 2), true);
    expect(planner.next()).toMatchObject({ kind: 'done', truncated: true, blocked: { length: 2 } });
  });

  it('asks for the lines of more and more keys at once while all are empty, and of few again once there is a job', () => {
    const planner = plannerOf(oneLine(0, 3));
    planner.offerKeys(
      'a',
      queuedKeys(400, (key) => key),
      false,
    );
    const answer = (jobs: readonly WaitingJob[]): number => {
      const step = planner.next();
      const lines = step.kind === 'need' ? step.lines : [];
      for (const { line } of lines) {
        planner.offerHeads(
          line,
          jobs.filter(({ fairnessKey }) => fairnessKey === line.fairnessKey),
          false,
        );
      }
      return lines.length;
    };
    expect(Array.from({ length: 7 }, () => answer([]))).toEqual([3, 6, 12, 24, 48, 96, 3 + KEYS_AHEAD]);
    const job = { ...(oneLine(1, 1).waiting[0] as WaitingJob), fairnessKey: 'key300' };
    expect(answer([job])).toBe(3 + KEYS_AHEAD);
    expect(planner.next()).toMatchObject({ kind: 'admit', decision: { reserved: { id: job.id } } });
    expect(answer([])).toBe(2);
  });

  it('looks at 1,000 lines with jobs, 4 F, and as many as it may meet blocked jobs, where all keys tie', () => {
    const state = oneLine(1, 2);
    const planner = plannerOf(state);
    const job = state.waiting[0] as WaitingJob;
    let lines = 0;
    const next = stepsOf(planner);
    let step = next();
    for (; step.kind === 'need'; step = next()) {
      const fairnessKey = `key${lines}`;
      lines += 1;
      planner.offerKeys('a', [{ fairnessKey, settledCostMs: 0, modes: ['queued'] }], true);
      // An empty line is none that it has to look at.
      if (lines % 2 === 0) planner.offerHeads({ type: 'a', mode: 'onDemand', fairnessKey }, [], false);
      const own = { ...job, id: fairnessKey, fairnessKey, readyAtMs: job.readyAtMs - lines };
      planner.offerHeads({ type: 'a', mode: 'queued', fairnessKey }, [own], false);
    }
    expect(lines).toBe(1_000 + 4 * 2 + (2 * 2 + 64));
    expect(step).toMatchObject({ kind: 'admit', decision: { reserved: { id: `key${lines - 1}` } } });
    expect(next()).toMatchObject({ kind: 'admit', decision: { reserved: { id: `key${lines - 2}` } } });
    expect(next()).toEqual({ kind: 'done', blocked: [], truncated: true });
  });
});

/** Keys with a line of queued jobs each. */
const queuedKeys = (count: number, costMs: (key: number) => number, name = 'key'): readonly OfferedKey[] =>
  Array.from({ length: count }, (_, key) => ({
    fairnessKey: `${name}${key}`,
    settledCostMs: costMs(key),
    modes: ['queued'],
  }));

/** Jobs of one type and key, oldest first, all with one resource if it is named. */
function oneLine(count: number, slots: number, resourceId?: string): PassState {
  const [configuration] = fc.sample(pools, { numRuns: 1, seed: 1 });
  const type = configuration?.types[0];
  if (type === undefined || configuration === undefined) throw new Error('one sample was asked for');
  return {
    configuration: {
      ...configuration,
      types: [{ ...type, type: 'a', tier: 'top', conflictGroup: 'g', maxConcurrency: null }],
      tiers: [{ tier: 'top', maxConcurrency: null, guaranteed: 0 }],
      fleets: [{ fleet: 'all', types: ['a'], slots: null }],
      maxConcurrency: null,
      score: SCORE_DEFAULTS,
      fairness: { ...configuration.fairness, maxConcurrencyPerKey: null, admissionFloorMs: 1 },
    },
    overrides: [],
    nowMs: NOW_MS,
    inFlight: [],
    freeSlotsByFleet: new Map([['all', slots]]),
    settledCostMs: new Map(),
    waiting: Array.from({ length: count }, (_, index) => ({
      id: `job${String(index).padStart(4, '0')}`,
      type: 'a',
      priority: 0,
      mode: 'queued' as const,
      fairnessKey: 'k1',
      resourceId,
      readyAtMs: NOW_MS - 1_000_000 + index,
      version: 1,
      attempt: 1,
    })),
    costMs: () => 1,
  };
}
