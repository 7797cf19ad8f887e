import { describe, expect, it } from 'vitest';
import { explanationText } from '../../lib/cli/explanation.ts';
import type { ExplainOptions } from '../../lib/client/client.ts';
import { expireDue } from '../../lib/dispatch/pass/expire.ts';
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

  it('that expires says until when it must start, and once that is over that it ends', async () => {
    const scene = desk();
    await scene.client.pause('pool');
    const { jobId } = await scene.client.submit({ type: 'resize', expireAfter: '30s' });
    const expireAtMs = scene.time.nowMs + 30_000;
    await scene.advance(10_000);
    await explained(
      scene,
      jobId,
      /end of a pause: pool .*\n(.*\n)*it expires unless it starts by .*, within 20 s/,
    );
    await scene.advance(25_000);
    const over = await explained(scene, jobId, /a pass that ends it as expired: .* over 5 s ago/);
    expect(over).toMatchObject({ waitsFor: [{ why: 'expiry', sinceMs: expireAtMs }], state: 'pending' });
    expect(over.latestStartAtMs).toBeUndefined();
    await expireDue(scene.main);
    expect((await explained(scene, jobId, /is expired/)).waitsFor).toEqual([]);
  });

  it('that its handler has parked says until when, and that it holds nothing', async () => {
    const scene = desk();
    await scene.client.submit({ type: 'resize', resourceId: 'summer' });
    const untilMs = scene.time.nowMs + 15 * 60_000;
    await scene.pass();
    const [started] = await scene.startEverywhere();
    const job = started?.job;
    if (job === undefined) throw new Error('nothing was started');
    await scene.store.endUnfinished({
      job,
      verdict: { kind: 'retry', runAtMs: untilMs, parkedState: { step: 2 } },
      as: 'parked',
      nowMs: scene.time.nowMs,
      expiresAtMs: untilMs,
    });
    const { waitsFor } = await explained(
      scene,
      job.id,
      /its handler parked it: .*, in 15 min; it holds no slot and no conflict key, and its state is kept/,
    );
    expect(waitsFor).toEqual([{ why: 'parked', untilMs, hasState: true }]);
    // Once its time has come it waits as any other.
    await scene.advance(15 * 60_000);
    const [again] = await scene.work({
      kind: 'retry',
      runAtMs: scene.time.nowMs + 60_000,
      error: { name: 'E', message: 'e' },
    });
    if (again !== undefined)
      expect((await scene.client.explain(again.id)).waitsFor).toMatchObject([{ why: 'time' }]);
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

describe('explaining what would be under another override', () => {
  const LIMITED = {
    pool: {
      types: { resize: { limits: ['openai', 'org'] }, report: {} },
      limits: { openai: { total: 4, perKey: 1 }, org: { keyedBy: 'org', perKey: 1 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'report'], slots: 3 } },
    },
  };
  const of = { type: 'resize', fairnessKey: 'acme', keys: { org: 'o1' } };
  const scene = async () => {
    const on = desk(LIMITED);
    await on.put(on.job(of));
    await on.pass();
    await on.startEverywhere();
    const [job] = await on.put(on.job(of));
    const supposing = async (supposed: ExplainOptions['if']): Promise<readonly unknown[]> => {
      const before = on.everything();
      const { waitsFor } = await on.client.explain(job?.id ?? '', { if: supposed });
      expect(on.everything()).toBe(before);
      return waitsFor;
    };
    return { on, job, supposing };
  };
  const BY_KEY = { why: 'cap', scope: 'limit/openai/acme', cap: 1, running: 1 };
  const BY_ORG = { why: 'cap', scope: 'limit/org/o1', cap: 1, running: 1 };

  it('says what still holds the job, and that it starts once nothing does', async () => {
    const { on, job, supposing } = await scene();
    const both = (await on.client.explain(job?.id ?? '')).waitsFor;
    expect(both).toEqual([BY_KEY, BY_ORG]);
    expect(await supposing({ scope: { limit: 'openai', key: true }, maxConcurrency: 6 })).toEqual([BY_ORG]);
    expect(await supposing({ scope: { limit: 'org', key: true }, maxConcurrency: 2 })).toEqual([BY_KEY]);
    expect(await supposing({ scope: { limit: 'org', key: 'o2' }, maxConcurrency: 2 })).toEqual(both);
    await on.client.override({ limit: 'org', key: 'o1' }, { maxConcurrency: 2 });
    expect(await supposing({ scope: { limit: 'openai', key: 'acme' }, maxConcurrency: 2 })).toEqual([
      { why: 'pass' },
    ]);
    expect(await supposing({ scope: { limit: 'org', key: 'o1' }, maxConcurrency: null })).toEqual(both);
    expect(await supposing({ scope: { type: 'resize' }, paused: true })).toContainEqual({
      why: 'paused',
      scope: 'type/resize',
    });
  });

  it('says how many units a rate has used, and which of them a job may have', async () => {
    const on = desk({
      pool: {
        types: { resize: { limits: ['openai'] }, report: {} },
        limits: { openai: { rate: { units: 10, perJob: 4, per: '1m' } } },
        fleets: { images: { types: ['resize', 'report'], slots: 9 } },
      },
    });
    await on.put(on.job({ type: 'resize' }), on.job({ type: 'resize', units: { openai: 3 } }));
    await on.pass();
    await on.startEverywhere();
    const [job] = await on.put(on.job({ type: 'resize', units: { openai: 1 } }));
    const explanation = await on.client.explain(job?.id ?? '');
    const rate = { why: 'rate', scope: 'limit/openai', used: 7, most: 10, perJob: 4, perMs: 60_000 };
    expect(explanation.waitsFor).toMatchObject([rate]);
    const text = explanationText(explanation);
    expect(text).toMatch(
      /limit\/openai, which has used 7 of 10 units, of which a job may have 4, within 1 min/,
    );
    expect(text).toContain('units: openai=1');
    const supposed = { scope: { limit: 'openai' }, maxConcurrency: 9 } as const;
    expect((await on.client.explain(job?.id ?? '', { if: supposed })).waitsFor).toMatchObject([rate]);
  });

  it('lifts a pause or a rest, and says what stands before the job then', async () => {
    const on = desk({
      pool: { ...LIMITED.pool, fleets: { images: { types: ['resize', 'report'], slots: 1 } } },
    });
    await on.client.pause({ type: 'report' });
    const first = on.job({ type: 'report', fairnessKey: 'a', priority: 5 });
    const [, job] = await on.put(first, on.job({ type: 'report', fairnessKey: 'a' }));
    const { waitsFor } = await on.client.explain(job?.id ?? '', {
      if: { scope: { type: 'report' }, paused: false },
    });
    expect(waitsFor).toEqual([{ why: 'turn', before: [first.id] }]);
    for (const partition of [0])
      await on.store.rest({ partition, scope: 'type/resize', untilMs: on.time.nowMs + 60_000 });
    const [rested] = await on.put(on.job(of));
    const supposed = await on.client.explain(rested?.id ?? '', {
      if: { scope: { type: 'resize' }, paused: false },
    });
    expect(supposed.waitsFor).toEqual([{ why: 'pass' }]);
  });

  it.each<readonly [string, unknown, string]>([
    ['nothing', {}, 'options.if.scope'],
    ['a text', 'limit:openai.perKey=6', 'options.if'],
    ['a scope alone', { scope: 'pool' }, 'options.if'],
    ['two scopes', { scope: { tier: 'standard', type: 'resize' }, paused: true }, 'options.if.scope'],
    ['an unknown limit', { scope: { limit: 'opnai' }, maxConcurrency: 6 }, 'options.if.scope.limit'],
    ['an unknown type', { scope: { type: 'resise' }, paused: false }, 'options.if.scope.type'],
    ['a cap of 0', { scope: { limit: 'openai' }, maxConcurrency: 0 }, 'options.if.maxConcurrency'],
    [
      'a cap that is a text',
      { scope: { limit: 'openai' }, maxConcurrency: '6' },
      'options.if.maxConcurrency',
    ],
    ['a weight of a limit', { scope: { limit: 'openai', key: true }, weight: 2 }, 'options.if.weight'],
    ['an end', { scope: 'pool', paused: false, for: '10m' }, 'options.if.for'],
    ['a rate', { scope: { limit: 'openai' }, rate: 5 }, 'options.if.rate'],
  ])('refuses to suppose %s', async (_, supposed, field) => {
    const { on, job } = await scene();
    const options = { if: supposed } as ExplainOptions;
    expect(await errorOf(on.client.explain(job?.id ?? '', options))).toMatchObject({
      name: 'ValidationError',
      field,
    });
  });
});
