import { describe, expect, it } from 'vitest';
import { explanationText } from '../../lib/cli/explanation.ts';
import type { LiveExplanation } from '../../lib/operate/explain.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { onlyJob } from '../testing/received.ts';
import { type Desk, desk, errorOf, POOL } from './desk.ts';

/** One slot of `resize`, and what happens to hold it. */
const NARROW = { pool: { ...POOL, fleets: { images: { types: ['resize', 'report'], slots: 1 } } } };
/** New keys stand where they come. */
const UNLIFTED = { pool: { ...NARROW.pool, fairness: { idlePolicy: 'none' } } } as const;

async function explained(scene: Desk, id: string | undefined, text: RegExp): Promise<LiveExplanation> {
  const before = scene.everything();
  const explanation = await scene.client.explain(id ?? '');
  expect(scene.everything()).toBe(before);
  expect(explanationText(explanation)).toMatch(text);
  return explanation;
}

describe('explaining a job', () => {
  it('that is not there says so', async () => {
    expect(await errorOf(desk().client.explain('nobody'))).toMatchObject({ name: 'NotFoundError' });
  });

  it('that is scheduled names its time', async () => {
    const scene = desk();
    const untilMs = scene.time.nowMs + 90_000;
    const [job] = await scene.put(scene.job({ state: 'scheduled', runAtMs: untilMs, readyAtMs: untilMs }));
    const { waitsFor, position } = await explained(scene, job?.id, /its time: .*, in 1\.5 min/);
    expect(waitsFor).toEqual([{ why: 'time', untilMs }]);
    expect(position).toBeUndefined();
  });

  it('that can start waits for the next pass', async () => {
    const scene = desk();
    const [job] = await scene.put(scene.job());
    const { waitsFor, position, score, latestStartAtMs } = await explained(scene, job?.id, /the next pass/);
    expect(waitsFor).toEqual([{ why: 'pass' }]);
    expect(position).toBe(0);
    expect(score?.total).toBeGreaterThan(0);
    expect(latestStartAtMs).toBeGreaterThan(scene.time.nowMs);
  });

  it('says within what time it starts only where that is less than a day, and beside it what is likely', async () => {
    const scene = desk(NARROW);
    const [held] = await scene.put(scene.job());
    await scene.pass();
    await scene.startEverywhere();
    const [job] = await scene.put(scene.job());
    const explanation = await explained(scene, job?.id, /it starts in about 1 s .*: an estimate/);
    const text = (latestInMs: number): string =>
      explanationText({ ...explanation, latestStartAtMs: explanation.explainedAtMs + latestInMs });
    expect(held?.id).not.toBe(job?.id);
    expect(text(90_000)).toMatch(/within 1\.5 min at the latest/);
    expect(text(24 * 3_600_000)).not.toMatch(/at the latest/);
    expect(text(3_240_000.26 * 3_600_000)).not.toMatch(/at the latest|23\d\d-/);
  });

  it('whose time has come, unnoticed so far, waits for the next pass too', async () => {
    const scene = desk();
    const runAtMs = scene.time.nowMs + 1_000;
    const [job] = await scene.put(scene.job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs }));
    await scene.advance(2_000);
    expect((await scene.client.explain(job?.id ?? '')).waitsFor).toEqual([{ why: 'pass' }]);
  });

  it('behind others in its line tells how many, and who', async () => {
    const scene = desk();
    const first = await scene.put(...Array.from({ length: 3 }, () => scene.job({ priority: 5 })));
    const [job] = await scene.put(scene.job());
    const { waitsFor, position, keysBefore } = await explained(
      scene,
      job?.id,
      /3 jobs of its own line come before it/,
    );
    expect(position).toBe(3);
    expect(waitsFor).toMatchObject([{ why: 'turn' }]);
    const [turn] = waitsFor;
    expect(turn?.why === 'turn' && turn.before.every((id) => first.some((each) => each.id === id))).toBe(
      true,
    );
    expect(keysBefore).toEqual([]);
  });

  it('deep in its line counts up to a bound', async () => {
    const scene = desk();
    await scene.put(...Array.from({ length: 1_100 }, () => scene.job({ priority: 5 })));
    const [job] = await scene.put(scene.job());
    const { position, positionIsLeast, partial } = await explained(
      scene,
      job?.id,
      /at least 1000 jobs of its own line come before it/,
    );
    expect({ position, positionIsLeast, partial }).toEqual({
      position: 1_000,
      positionIsLeast: true,
      partial: true,
    });
  });

  it('behind another key compares what they were charged', async () => {
    const scene = desk(UNLIFTED);
    await scene.put(scene.job({ fairnessKey: 'greedy' }));
    await scene.pass({ jobs: await scene.work(), reason: 'stream' });
    const [mine] = await scene.put(
      scene.job({ fairnessKey: 'greedy', readyAtMs: scene.time.nowMs - 60_000 }),
    );
    await scene.put(scene.job({ fairnessKey: 'modest' }));
    const { waitsFor, keysBefore } = await explained(scene, mine?.id, /modest .*greedy/);
    expect(waitsFor).toMatchObject([{ why: 'turn' }]);
    expect(keysBefore.map(({ fairnessKey }) => fairnessKey)).toEqual(['modest', 'greedy']);
    expect(keysBefore[0]?.shareMs).toBeLessThanOrEqual(keysBefore[1]?.shareMs ?? 0);
  });

  it('beside a new key compares with what the next pass raises that to', async () => {
    const scene = desk(NARROW);
    await scene.put(scene.job({ fairnessKey: 'greedy' }));
    await scene.pass({ jobs: await scene.work(), reason: 'stream' });
    const [mine] = await scene.put(
      scene.job({ fairnessKey: 'greedy', readyAtMs: scene.time.nowMs - 60_000 }),
    );
    const [other] = await scene.put(scene.job({ fairnessKey: 'modest' }));
    const { waitsFor, keysBefore } = await explained(scene, mine?.id, /next pass/);
    expect(waitsFor).toEqual([{ why: 'pass' }]);
    expect(keysBefore).toEqual([]);
    await scene.pass({ jobs: [mine, other].flatMap((job) => job ?? []), reason: 'stream' });
    expect(scene.stateOf(mine?.id ?? '')).toBe('claimed');
  });

  it('of a lower tier is behind a higher one', async () => {
    const scene = desk(NARROW);
    const [before] = await scene.put(scene.job({ type: 'resize' }));
    const [job] = await scene.put(scene.job({ type: 'report', priority: 10 }));
    const { waitsFor } = await explained(scene, job?.id, /jobs that come first/);
    expect(waitsFor).toEqual([{ why: 'turn', before: [before?.id] }]);
  });

  it.each([
    ['the pool', { maxConcurrency: 1 }, 'pool'],
    ['its tier', { tiers: [{ tier: 'urgent', maxConcurrency: 1 }, { tier: 'standard' }] }, 'tier/urgent'],
    [
      'its type',
      { types: { ...POOL.types, resize: { tier: 'urgent', timeoutMs: 30_000, maxConcurrency: 1 } } },
      'type/resize',
    ],
    ['its key', { fairness: { maxConcurrencyPerKey: 1 } }, 'key/tenant-a'],
  ])('under the full cap of %s names the cap', async (_, change, scope) => {
    const scene = desk({ pool: { ...POOL, ...change } });
    await scene.put(scene.job());
    await scene.pass();
    const [job] = await scene.put(scene.job());
    const { waitsFor } = await explained(scene, job?.id, /runs 1 of at most 1/);
    expect(waitsFor).toContainEqual({ why: 'cap', scope, cap: 1, running: 1 });
  });

  it('without a free slot names the fleets', async () => {
    const scene = desk();
    await scene.put(scene.job(), scene.job());
    await scene.pass();
    const [job] = await scene.put(scene.job());
    const { waitsFor } = await explained(scene, job?.id, /a free slot: images has 2 of 2 busy/);
    expect(waitsFor).toContainEqual({ why: 'noSlot', type: 'resize', fleets: ['images'] });
  });

  it('without a free slot tells which keys come first when there is one', async () => {
    const scene = desk(UNLIFTED);
    await scene.put(scene.job({ fairnessKey: 'greedy' }));
    await scene.pass();
    await scene.put(scene.job({ fairnessKey: 'modest' }));
    const [job] = await scene.put(scene.job({ fairnessKey: 'greedy' }));
    const { waitsFor, keysBefore } = await explained(
      scene,
      job?.id,
      /least share come first: modest 0 ms, greedy 1 s/,
    );
    expect(waitsFor).toMatchObject([{ why: 'noSlot' }]);
    expect(keysBefore).toMatchObject([{ fairnessKey: 'modest' }, { fairnessKey: 'greedy', shareMs: 1_000 }]);
  });

  it('whose fleet has no worker says so', async () => {
    const scene = desk();
    const [job] = await scene.put(scene.job({ type: 'report' }));
    const { fleets } = await explained(scene, job?.id, /general has no live worker/);
    expect(fleets).toEqual([{ fleet: 'general', slots: 0, busy: 0, paused: false, workers: 0 }]);
  });

  it('whose fleet is paused says so', async () => {
    const scene = desk();
    const [job] = await scene.put(scene.job());
    await scene.client.pause({ fleet: 'images' });
    await explained(scene, job?.id, /images is paused/);
  });

  it('in conflict names the job that holds the key', async () => {
    const scene = desk();
    const [holder] = await scene.put(scene.job({ resourceId: 'album-1' }));
    await scene.pass();
    const [job] = await scene.put(scene.job({ resourceId: 'album-1' }));
    const { blocker, waitsFor } = await explained(
      scene,
      job?.id,
      new RegExp(`job ${holder?.id}, which holds`),
    );
    expect(blocker).toBe(holder?.id);
    expect(waitsFor).toMatchObject([{ why: 'conflict', holder: holder?.id }]);
  });

  it.each([
    ['pool', 'pool'],
    [{ tier: 'urgent' }, 'tier/urgent'],
    [{ type: 'resize' }, 'type/resize'],
    [{ fairnessKey: 'tenant-a' }, 'key/tenant-a'],
  ] as const)('paused by %j names the control', async (scope, name) => {
    const scene = desk();
    const [job] = await scene.put(scene.job());
    await scene.client.pause(scope);
    const { waitsFor, latestStartAtMs } = await explained(scene, job?.id, /the end of a pause/);
    expect(waitsFor).toContainEqual({ why: 'paused', scope: name });
    expect(latestStartAtMs).toBeUndefined();
  });

  it('that is claimed waits for a worker', async () => {
    const scene = desk();
    const [job] = await scene.put(scene.job());
    await scene.pass();
    await scene.advance(3_000);
    const { waitsFor } = await explained(
      scene,
      job?.id,
      /a worker of fleet images, whose queue got it 3 s ago/,
    );
    expect(waitsFor).toMatchObject([{ why: 'worker', fleet: 'images' }]);
  });

  it('that runs tells where, and how far it is', async () => {
    const scene = desk();
    const worker = aWorkerRecord({ fleet: 'general', slots: 1, expiresAtMs: scene.time.nowMs + 60_000 });
    await scene.store.registerWorker({ partition: 0, record: worker });
    const [job] = await scene.put(scene.job({ type: 'report' }));
    await scene.pass();
    const [received] = await scene.queue.receive('general', 1, 0, 60_000);
    const { claimId, jobId, toClaim } = onlyJob(received);
    expect(jobId).toBe(job?.id);
    await scene.store.startJob({ ...worker, jobId, claimId, toClaim, nowMs: scene.time.nowMs });
    await scene.store.heartbeat({
      partition: 0,
      record: { ...worker, occupants: [{ claimId, jobId, progress: { page: 3 } }] },
    });
    await scene.client.cancel(jobId);
    const { runs, waitsFor } = await explained(scene, jobId, /progress: \{"page":3\}[\s\S]*asked to stop/);
    expect(waitsFor).toEqual([]);
    expect(runs).toMatchObject({
      workerId: worker.workerId,
      fleet: 'general',
      progress: { page: 3 },
      givenUpAtMs: worker.expiresAtMs,
    });
    await explained(scene, jobId, /unless it ends before, it is given up at .*, in 1 min/);
    await scene.advance(60_000);
    await explained(scene, jobId, /its time is up: the next check gives it up/);
  });

  it('that runs on a worker that says nothing tells since when, and when it is given up', async () => {
    const scene = desk();
    const heardAtMs = scene.time.nowMs;
    const expiresAtMs = heardAtMs + 20_000;
    const life = { incarnation: '0001', fleet: 'general', slots: 1 };
    const worker = aWorkerRecord({ ...life, heardAtMs, expiresAtMs });
    await scene.store.registerWorker({ partition: 0, record: worker });
    const [job] = await scene.put(scene.job({ type: 'report' }));
    await scene.pass();
    const [received] = await scene.queue.receive('general', 1, 0, 60_000);
    await scene.store.startJob({ ...worker, ...onlyJob(received), nowMs: scene.time.nowMs });
    await scene.advance(4_000 - (scene.time.nowMs - heardAtMs));
    await explained(scene, job?.id, /last heartbeat 4 s ago; without another, it is given up at .*, in 16 s/);
    await scene.advance(8_000);
    const silent = await explained(scene, job?.id, /no heartbeat since .*, given up at .*, in 8 s/);
    expect(silent.runs).toMatchObject({ heardAtMs, givenUpAtMs: expiresAtMs });
    await scene.advance(8_000);
    // Its lease is over: what it said last is still there.
    const gone = await explained(scene, job?.id, /no heartbeat since .*: the next check gives it up/);
    expect(gone.runs).toMatchObject({ heardAtMs, givenUpAtMs: expiresAtMs });
    // Another life of its name says until when this one may run.
    const next = {
      ...worker,
      incarnation: '0002',
      heardAtMs: heardAtMs + 21_000,
      expiresAtMs: expiresAtMs + 21_000,
    };
    await scene.store.registerWorker({ partition: 0, record: next });
    const followed = await explained(scene, job?.id, /its time is up/);
    expect(followed.runs?.heardAtMs).toBeUndefined();
    expect(followed.runs?.givenUpAtMs).toBe(expiresAtMs);
  });

  it('that runs in a function tells how far it is, and until when it may', async () => {
    const scene = desk();
    const [job] = await scene.put(scene.job());
    await scene.pass();
    const [received] = await scene.queue.receive('images', 1, 0, 60_000);
    const runUntilMs = scene.time.nowMs + 40_000;
    const worker = { workerId: 'function', incarnation: '1' };
    const start = { ...worker, ...onlyJob(received), nowMs: scene.time.nowMs, runUntilMs };
    const started = await scene.store.startJob(start);
    if (started.kind !== 'started') throw new Error('not started');
    await scene.store.saveProgress({ job: started.job, worker, progress: 'half' });
    const { runs } = await explained(scene, job?.id, /progress: "half"/);
    expect(runs).toMatchObject({ progress: 'half', givenUpAtMs: runUntilMs + 5_000 });
  });

  it('that has ended waits for nothing', async () => {
    const scene = desk();
    const failed = await scene.deadLetter();
    const { waitsFor } = await explained(scene, failed.id, /last error: Broken: it broke/);
    expect(waitsFor).toEqual([]);
  });

  it('that has a place as it is waits for a worker of the fleet that was told, though its item is as it was planned', async () => {
    const scene = desk();
    const [job] = await scene.put(scene.job({ resourceId: 'album-1' }));
    await scene.pass();
    const sinceMs = scene.time.nowMs;
    expect(scene.store.inspectJob(job?.id ?? '')).toEqual(job);
    expect((await scene.client.explain(job?.id ?? '')).waitsFor).toEqual([
      { why: 'worker', fleet: 'images', sinceMs },
    ]);
  });

  it('whose place is one that it had before waits for the pass, which settles that first', async () => {
    const scene = desk();
    const [job] = await scene.put(scene.job({ resourceId: 'album-1' }));
    const id = job?.id ?? '';
    await scene.pass();
    // As a pass gives the place up, and dies before it drops it.
    expect(await scene.store.raiseVersion({ jobId: id, version: job?.version ?? 0 })).toBe('raised');
    expect(scene.held().map((entry) => entry.id)).toEqual([id]);
    expect((await scene.client.explain(id)).waitsFor).toEqual([{ why: 'pass' }]);
  });

  it('of a type that is gone says so', async () => {
    const scene = desk();
    const [job] = await scene.put(scene.job());
    const types = scene.configuration.types.filter(({ type }) => type !== 'resize');
    const client = scene.anotherClient({ configuration: { ...scene.configuration, types } });
    const explanation = await client.explain(job?.id ?? '');
    expect(explanation.waitsFor).toEqual([{ why: 'unknownType', type: 'resize' }]);
  });
});
